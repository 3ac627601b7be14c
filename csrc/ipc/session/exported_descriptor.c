/* ipc/session/exported_descriptor.c -- the descriptor of a storage that the program gets (_share_fd_). */
#include "ipc/session/exported_descriptor.h"

#include "os/memfd.h"

#include <stdlib.h>
#include <string.h>

typedef struct shmt__exported {
  int fd;
  uint64_t identity[2], position;
} exported;

static bool read_state(int fd, exported* out) {
  *out = (exported){.fd = fd};
  return shmt__os_file_identity(fd, out->identity) && shmt__os_tell(fd, &out->position);
}

static bool is_still_ours(const exported* e) {
  exported now;
  return read_state(e->fd, &now) && memcmp(now.identity, e->identity, sizeof now.identity) == 0 &&
         now.position == e->position;
}

int shmt__exported_descriptor(const shmt__held_block* h) {
  return h->exported != NULL && is_still_ours(h->exported) ? h->exported->fd : -1;
}

shmt_status shmt__exported_descriptor_set(shmt__held_block* h, int fd) {
  if (h->exported == NULL) h->exported = malloc(sizeof *h->exported);
  if (h->exported == NULL) shmt__os_close(fd);
  SHMT_REQUIRE(h->exported != NULL, SHMT_E_NOMEM, "descriptor of a storage: tried to allocate %zu bytes",
               sizeof *h->exported);
  (void)read_state(fd, h->exported);
  return SHMT_OK;
}

void shmt__exported_descriptor_close(shmt__held_block* h) {
  shmt__os_close(shmt__exported_descriptor(h));
  free(h->exported);
  h->exported = NULL;
}
