/* ipc/handle/kept_files.c -- descriptors kept for a next manager. See Note [Kept files]. */
#include "ipc/handle/kept_files.h"

#include "ipc/handle/spare_files.h"
#include "os/futex.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/block.h"

#include <stdlib.h>

enum {
  MAX_FILES = 256, /* and a quarter of what the process may open */
  FEW_FILES = 64,  /* beside those in messages */
  FIRST_LOOK_MS = 10,
  LAST_LOOK_MS = 500, /* between two looks of the thread */
};

typedef struct shmt__kept_file {
  uint64_t generation;
  uint32_t block;
  int fd;
} kept_file;

static bool has_thread; /* under the sessions' lock */

/* How many may be kept, */
static uint32_t most_files(void) {
  uint32_t most = (uint32_t)shmt__os_descriptor_limit() / 4;
  return most < MAX_FILES ? most : MAX_FILES;
}
/* and how many of these may be in no message. */
static uint32_t few_files(void) {
  uint32_t few = most_files() / 2;
  return few < FEW_FILES ? few : FEW_FILES;
}

static bool is_held(const shmt__session* s, const kept_file* f) {
  const shmt__holding* h = shmt__session_holding(s, f->block);
  return h != NULL && h->generation == f->generation;
}

static bool is_in_message(const shmt__session* s, const kept_file* f) {
  const shmt__block* b = &s->map.blocks[f->block];
  uint64_t head = atomic_load_explicit(&b->head, memory_order_acquire);
  return shmt__head_generation(head) == f->generation && shmt__block_n_leases(b) > 0;
}

/* Close what is not needed: of the files that are in no message, all but the last few that are held.
 * Returns whether more may be closed later. */
static bool close_unneeded(shmt__session* s, bool is_child) {
  uint32_t n_idle = 0, n = 0, few = few_files();
  bool waits = false;
  for (uint32_t i = s->n_kept_files; i-- > 0;) {
    kept_file* f = &s->kept_files[i];
    bool held = is_held(s, f), sent = !is_child && is_in_message(s, f);
    bool needed = sent || (held && ++n_idle <= few);
    waits = waits || (sent && !held);
    if (needed) continue;
    shmt__os_close(f->fd);
    f->fd = -1;
  }
  for (uint32_t i = 0; i < s->n_kept_files; i++) {
    if (s->kept_files[i].fd >= 0) s->kept_files[n++] = s->kept_files[i];
  }
  s->n_kept_files = n;
  return waits || n > few;
}

/* Returns whether there will be something to do later. */
static bool tidy(shmt__session* s) {
  bool kept = s->n_kept_files > 0 && close_unneeded(s, false);
  return (s->n_spare_files > 0 && shmt__spare_files_look(s)) || kept;
}

static void* look_again(void* unused) {
  unsigned pause_ms = FIRST_LOOK_MS;
  bool goes_on = true;
  while (goes_on) {
    shmt__os_sleep_ms(pause_ms);
    if (pause_ms < LAST_LOOK_MS) pause_ms *= 2;
    shmt__sessions_lock();
    goes_on = false;
    for (unsigned i = 0; i < shmt__sessions_count(); i++)
      goes_on = tidy(shmt__session_at(i)) || goes_on;
    if (!goes_on) has_thread = false;
    shmt__sessions_unlock();
  }
  return unused;
}

void shmt__kept_files_look(shmt__session* s) {
  if (!tidy(s) || has_thread) return;
  has_thread = shmt__os_thread_start(look_again, NULL) == 0;
}

void shmt__kept_file_add(const shmt__holding* h, int fd) {
  shmt__session* s = h->session;
  if (s->kept_files == NULL) s->kept_files = malloc(sizeof *s->kept_files * MAX_FILES);
  shmt__kept_files_look(s);
  if (s->kept_files == NULL || s->n_kept_files >= most_files()) return;
  kept_file f = {h->generation, h->block, shmt__os_dup(fd)};
  if (f.fd < 0) return;
  s->kept_files[s->n_kept_files++] = f;
}

int shmt__kept_file(const shmt__holding* h) {
  const shmt__session* s = h->session;
  for (uint32_t i = 0; i < s->n_kept_files; i++) {
    const kept_file* f = &s->kept_files[i];
    if (f->block == h->block && f->generation == h->generation) return f->fd;
  }
  return -1;
}

void shmt__kept_files_each(shmt__session* s,
                           void (*f)(shmt__session* s, uint32_t block, uint64_t generation, int fd)) {
  for (uint32_t i = 0; i < s->n_kept_files; i++)
    f(s, s->kept_files[i].block, s->kept_files[i].generation, s->kept_files[i].fd);
}

void shmt__kept_files_in_child(shmt__session* s) {
  has_thread = false; /* it is the parent's */
  (void)close_unneeded(s, true);
}

void shmt__kept_files_fini(shmt__session* s) {
  for (uint32_t i = 0; i < s->n_kept_files; i++) shmt__os_close(s->kept_files[i].fd);
  free(s->kept_files);
  s->kept_files = NULL;
  s->n_kept_files = 0;
}
