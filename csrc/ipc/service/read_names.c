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

typedef struct found_name {
  shmt__name* entry;
  shmt__version version;
  uint32_t sequence;
} found_name;

/* Search one table. False: the name is not in it. */
static bool search_table(const shmt__map* map, unsigned bits, unsigned which, const char* name, found_name* out) {
  const atomic_uint_least32_t* buckets =
      map->name_buckets + shmt__name_table_begin(bits) + ((uint64_t)which << bits);
  const uint32_t mask = ((uint32_t)1 << bits) - 1, first = (uint32_t)shmt__name_hash(name);
  for (uint32_t i = 0; i <= mask; i++) {
    char text[SHMT_NAME_BYTES];
    /* acquire: the entry is there, with its name. */
    uint32_t bucket = atomic_load_explicit(&buckets[(first + i) & mask], memory_order_acquire);
    if (bucket == 0) return false;
    if (bucket > shmt__map_names_end(map)) continue;
    shmt__name* e = &map->names[bucket - 1];
    if (strncmp(e->text, name, SHMT_NAME_BYTES) != 0) continue;
    uint32_t sequence = read_entry(e, &out->version, text);
    if (strcmp(text, name) != 0) continue; /* the entry was given to another name meanwhile */
    out->entry = e;
    out->sequence = sequence;
    return true;
  }
  return false;
}

/* Search the table in use, and again when another one came into use meanwhile: Note [Index of names]. Gives up on a
 * table that changes all the time, which no manager does. */
static bool search_index(const shmt__map* map, const char* name, found_name* out) {
  enum { TRIES = 100 };
  const unsigned most = shmt__name_table_most_bits(map->n_names);
  uint32_t index = atomic_load_explicit(&map->names_head->index, memory_order_acquire);
  for (int left = TRIES; left > 0; left--) {
    const uint32_t code = index & (((uint32_t)1 << SHMT_NAME_TABLE_SHIFT) - 1);
    const unsigned bits = SHMT_NAME_TABLE_BITS + (code >> 1);
    if (bits > most) return false; /* a member has overwritten the word */
    if (search_table(map, bits, code & 1, name, out)) return true;
    /* acquire: if a bucket above was of a later filling, the word of before it is not seen below. */
    atomic_thread_fence(memory_order_acquire);
    uint32_t now = atomic_load_explicit(&map->names_head->index, memory_order_acquire);
    if (now == index) return false;
    index = now;
  }
  return false;
}

bool shmt__names_read(const shmt__map* map, const char* name, shmt__version* out,
                      atomic_uint_least32_t** out_word, uint32_t* out_sequence) {
  /* Read it before the search: a name that is added later changes it. */
  uint32_t sequence = atomic_load_explicit(&map->names_head->sequence, memory_order_acquire);
  *out_word = &map->names_head->sequence;
  *out_sequence = sequence;
  found_name found;
  if (!search_index(map, name, &found)) return false;
  *out = found.version;
  *out_word = &found.entry->sequence;
  *out_sequence = found.sequence;
  return shmt__name_is_there(out);
}

bool shmt__names_read_at(const shmt__map* map, uint32_t index, shmt__version* out,
                         char name[SHMT_NAME_BYTES]) {
  if (index >= shmt__map_names_end(map)) return false;
  const shmt__name* e = &map->names[index];
  if (atomic_load_explicit(&e->state, memory_order_acquire) == 0) return false;
  (void)read_entry(e, out, name);
  return shmt__name_is_there(out);
}
