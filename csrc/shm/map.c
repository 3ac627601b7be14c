/* shm/map.c -- mapping a control file, and questions to its parts. */
#include "os/memfd.h"
#include "os/process.h"
#include "shm/layout.h"

#include <inttypes.h>

static shmt_status open_map(int fd, uint32_t uid,
                            shmt_status (*map)(int fd, uint64_t nbytes, void** out),
                            shmt__map* out) {
  uint64_t nbytes = 0;
  void* base = NULL;
  SHMT_REQUIRE(shmt__os_memfd_check_of(fd, uid, &nbytes) && nbytes >= 4096, SHMT_E_MANAGER,
               "the manager sent a descriptor that is no sealed memory file of user %u", uid);
  SHMT_TRY(map(fd, nbytes, &base));
  shmt__control* c = base;
  shmt__layout l = shmt__layout_of(c->n_slabs, c->n_blocks);
  if (c->magic != SHMT_CONTROL_MAGIC || c->version != SHMT_LAYOUT_VERSION ||
      c->n_clients != SHMT_MAX_CLIENTS || l.end > nbytes) {
    uint32_t version = c->version;
    shmt__os_unmap(base, nbytes);
    SHMT_FAIL(SHMT_E_MANAGER,
              "control file of %" PRIu64 " bytes has layout version %u, expected %d", nbytes,
              version, SHMT_LAYOUT_VERSION);
  }
  out->control = c;
  out->clients = (shmt__client_entry*)((char*)base + l.clients);
  out->slabs = (shmt__slab*)((char*)base + l.slabs);
  out->blocks = (shmt__block*)((char*)base + l.blocks);
  out->names_head = (shmt__names_head*)((char*)base + l.names);
  out->names = (shmt__name*)(out->names_head + 1);
  out->syncs = (shmt__sync*)((char*)base + l.syncs);
  out->n_names = l.n_names;
  out->n_syncs = l.n_syncs;
  out->sites = (shmt__site*)((char*)base + l.sites);
  out->nbytes = nbytes;
  out->uid = uid;
  return SHMT_OK;
}

shmt_status shmt__map_open(int fd, shmt__map* out) {
  return open_map(fd, shmt__os_uid(), shmt__os_map_shared, out);
}

shmt_status shmt__map_open_of(int fd, uint32_t uid, shmt__map* out) {
  return open_map(fd, uid, shmt__os_map_shared, out);
}

shmt_status shmt__map_open_read_only(int fd, shmt__map* out) {
  return open_map(fd, shmt__os_uid(), shmt__os_map_read_only, out);
}

void shmt__map_close(shmt__map* m) {
  if (m->control != NULL) shmt__os_unmap(m->control, m->nbytes);
  *m = (shmt__map){0};
}

bool shmt__slab_is_paged(const shmt__slab* s) {
  /* Size classes from 16 KiB on are multiples of 4096. */
  return s->block_bytes >= 16 << 10 && s->block_bytes % shmt__os_page_bytes() == 0;
}

bool shmt__arena_matches(const shmt__map* m, int fd) {
  uint64_t nbytes = 0, identity[2];
  const shmt__control* c = m->control;
  return shmt__os_memfd_check_of(fd, m->uid, &nbytes) && nbytes == c->arena_bytes &&
         shmt__os_file_identity(fd, identity) && identity[0] == c->arena_identity[0] &&
         identity[1] == c->arena_identity[1];
}
