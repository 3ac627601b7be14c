/* ipc/service/read_names.c -- reads the names of a service from shared memory. See Note [Names] in shm/names.h. */
#include "ipc/service/service.h"

#include <string.h>

/* Read a whole slot and the name with it. Returns the sequence number. Gives up on an entry that changes all the
 * time, which no manager does; the words that were read are then checked like any others. */
static uint32_t read_entry(const shmt__name* e, shmt__version* out, char name[SHMT_NAME_BYTES]) {
  enum { TRIES = 10000 };
  for (int left = TRIES;; left--) {
    uint64_t words[SHMT_VERSION_WORDS];
    /* acquire: the slot, the name and what the publisher wrote are at least as new. */
    uint32_t sequence = atomic_load_explicit(&e->sequence, memory_order_acquire);
    for (unsigned i = 0; i < SHMT_VERSION_WORDS; i++)
      words[i] = atomic_load_explicit(&e->slots[sequence & 1][i], memory_order_relaxed);
    memcpy(name, e->text, SHMT_NAME_BYTES);
    name[SHMT_NAME_BYTES - 1] = '\0';
    /* acquire: if a word above was of a later commit, the number before that commit is seen below. */
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&e->sequence, memory_order_relaxed) != sequence && left > 0) continue;
    memcpy(out, words, sizeof *out);
    return sequence;
  }
}

bool shmt__names_read(const shmt__map* map, const char* name, shmt__version* out,
                      atomic_uint_least32_t** out_word, uint32_t* out_sequence) {
  uint64_t hash = shmt__name_hash(name);
  /* Read it before the search: a name that is added later changes it. */
  uint32_t sequence = atomic_load_explicit(&map->names_head->sequence, memory_order_acquire);
  *out_word = &map->names_head->sequence;
  *out_sequence = sequence;
  for (uint32_t i = 0; i < map->n_names; i++) {
    shmt__name* e = &map->names[(hash + i) % map->n_names];
    char text[SHMT_NAME_BYTES];
    if (atomic_load_explicit(&e->state, memory_order_acquire) == 0) return false;
    if (strncmp(e->text, name, SHMT_NAME_BYTES) != 0) continue;
    sequence = read_entry(e, out, text);
    if (strcmp(text, name) != 0) continue; /* the entry was given to another name meanwhile */
    *out_word = &e->sequence;
    *out_sequence = sequence;
    return out->block != SHMT_NAME_GONE;
  }
  return false;
}

bool shmt__names_read_at(const shmt__map* map, uint32_t index, shmt__version* out,
                         char name[SHMT_NAME_BYTES]) {
  const shmt__name* e = &map->names[index];
  if (atomic_load_explicit(&e->state, memory_order_acquire) == 0) return false;
  (void)read_entry(e, out, name);
  return out->block != SHMT_NAME_GONE;
}
