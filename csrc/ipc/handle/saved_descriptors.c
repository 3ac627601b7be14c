/* ipc/handle/saved_descriptors.c -- saves descriptors for a next manager. See Note [Saved descriptors]. */
#include "ipc/handle/saved_descriptors.h"

#include "shm/block.h"

#include <stdlib.h>

enum {
  MAX_FILES = 256, /* and a quarter of what the process may open */
  FEW_FILES = 64,  /* beside those in messages */
};

typedef struct shmt__saved_descriptor {
  uint64_t generation;
  uint32_t block;
  shmt__descriptor file;
} saved_descriptor;

/* How many descriptors may be saved? */
static uint32_t most_files(void) {
  uint32_t most = (uint32_t)shmt__os_recent_descriptor_limit() / 4;
  return most < MAX_FILES ? most : MAX_FILES;
}
/* How many of these may be of files that are in no message? */
static uint32_t few_of(uint32_t most) { return most / 2 < FEW_FILES ? most / 2 : FEW_FILES; }

static bool is_held(const shmt__session* s, const saved_descriptor* f) {
  const shmt__held_block* h = shmt__session_held_block(s, f->block);
  return h != NULL && h->generation == f->generation;
}

static bool is_in_message(const shmt__session* s, const saved_descriptor* f) {
  const shmt__block* b = &s->map.blocks[f->block];
  uint64_t head = atomic_load_explicit(&b->head, memory_order_acquire);
  return shmt__head_generation(head) == f->generation && shmt__block_n_leases(b) > 0;
}

/* Close what is not needed: of the files that are in no message, all but the last few that are held. Returns whether
 * more may be closed later. */
static bool close_unneeded(shmt__session* s, uint32_t most, bool is_child) {
  uint32_t n_idle = 0, n = 0, few = few_of(most);
  bool waits = false;
  for (uint32_t i = s->n_saved_descriptors; i-- > 0;) {
    saved_descriptor* f = &s->saved_descriptors[i];
    bool held = is_held(s, f), sent = !is_child && is_in_message(s, f);
    bool needed = sent || (held && ++n_idle <= few);
    waits = waits || (sent && !held);
    if (needed) continue;
    shmt__descriptor_close(&f->file);
  }
  for (uint32_t i = 0; i < s->n_saved_descriptors; i++) {
    if (shmt__descriptor_is_kept(&s->saved_descriptors[i].file))
      s->saved_descriptors[n++] = s->saved_descriptors[i];
  }
  s->n_saved_descriptors = n;
  return waits || n > few;
}

bool shmt__saved_descriptors_close_unneeded(shmt__session* s) {
  return s->n_saved_descriptors > 0 && close_unneeded(s, most_files(), false);
}

void shmt__saved_descriptor_add(const shmt__held_block* h, shmt__descriptor file) {
  shmt__session* s = h->session;
  if (s->saved_descriptors == NULL) s->saved_descriptors = malloc(sizeof *s->saved_descriptors * MAX_FILES);
  const uint32_t most = most_files();
  if (s->n_saved_descriptors >= most) (void)close_unneeded(s, most, false);
  if (s->saved_descriptors == NULL || s->n_saved_descriptors >= most)
    shmt__descriptor_close(&file);
  else if (shmt__descriptor_is_kept(&file))
    s->saved_descriptors[s->n_saved_descriptors++] = (saved_descriptor){h->generation, h->block, file};
}

static const shmt__descriptor none = SHMT_NO_DESCRIPTOR;

const shmt__descriptor* shmt__saved_descriptor(const shmt__held_block* h) {
  const shmt__session* s = h->session;
  for (uint32_t i = 0; i < s->n_saved_descriptors; i++) {
    const saved_descriptor* f = &s->saved_descriptors[i];
    if (f->block == h->block && f->generation == h->generation) return &f->file;
  }
  return &none;
}

shmt__descriptor shmt__saved_descriptor_take(const shmt__held_block* h) {
  shmt__session* s = h->session;
  for (uint32_t i = 0; i < s->n_saved_descriptors; i++) {
    saved_descriptor* f = &s->saved_descriptors[i];
    if (f->block != h->block || f->generation != h->generation) continue;
    if (is_in_message(s, f)) return shmt__descriptor_copy(&f->file);
    shmt__descriptor taken = f->file;
    f->file = none; /* the next look for unneeded ones removes it */
    return taken;
  }
  return none;
}

void shmt__saved_descriptors_each(shmt__session* s,
                           void (*f)(shmt__session* s, uint32_t block, uint64_t generation, int fd)) {
  for (uint32_t i = 0; i < s->n_saved_descriptors; i++) {
    int fd = shmt__descriptor_number(&s->saved_descriptors[i].file);
    if (fd >= 0) f(s, s->saved_descriptors[i].block, s->saved_descriptors[i].generation, fd);
  }
}

void shmt__saved_descriptors_in_child(shmt__session* s) {
  (void)close_unneeded(s, most_files(), true);
}

void shmt__saved_descriptors_fini(shmt__session* s) {
  for (uint32_t i = 0; i < s->n_saved_descriptors; i++) shmt__descriptor_close(&s->saved_descriptors[i].file);
  free(s->saved_descriptors);
  s->saved_descriptors = NULL;
  s->n_saved_descriptors = 0;
}
