/* ipc/manager/names.c -- the manager's side of a service's names. See ipc/manager/names.h. */
#include "ipc/manager/names.h"

#include "ipc/handle/handle.h"
#include "ipc/manager/named_locks.h"
#include "ipc/service/description.h"
#include "os/clock.h"
#include "os/failpoint.h"
#include "os/futex.h"
#include "os/memfd.h"
#include "os/users.h"
#include "shm/block.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- the table --- */

/* Write an entry's value where members read it, so that it changes in one step: Note [Names]. */
static void show(const shmt__name_entry* e, shmt__name* shown) {
  uint64_t words[SHMT_VERSION_WORDS];
  memcpy(words, &e->version, sizeof words);
  /* release: a reader that sees a word of this slot sees that an earlier sequence number is past. */
  atomic_thread_fence(memory_order_release);
  for (unsigned i = 0; i < SHMT_VERSION_WORDS; i++)
    atomic_store_explicit(&shown->slots[e->sequence & 1][i], words[i], memory_order_relaxed);
  SHMT_FAILPOINT(name_written);
  /* release: a reader that sees the number sees the slot, and what the publisher wrote before its request. */
  atomic_store_explicit(&shown->sequence, e->sequence, memory_order_release);
  SHMT_FAILPOINT(name_committed);
  (void)shmt__os_futex_wake(&shown->sequence, INT32_MAX);
}

static shmt__name* shown_of(const shmt__names* n, const shmt__arena_manager* k, const shmt__name_entry* e) {
  return &k->map.names[e - n->entries];
}

/* Give the entry the value v. */
static void commit(shmt__names* n, shmt__arena_manager* k, shmt__name_entry* e, const shmt__version* v) {
  e->version = *v;
  e->sequence++;
  show(e, shown_of(n, k, e));
}

/* The entry of this name, or else the entry to use for it, or else NULL. */
static shmt__name_entry* find_entry(shmt__names* n, const char* text, bool* out_is_new) {
  uint64_t hash = shmt__name_hash(text);
  shmt__name_entry* gone = NULL;
  for (uint32_t i = 0; i < n->n_names; i++) {
    shmt__name_entry* e = &n->entries[(hash + i) % n->n_names];
    *out_is_new = true;
    /* While there is room, a removed name keeps its entry and its count of versions. */
    if (!e->is_used) return gone != NULL && n->n_used > n->n_names / 4 * 3 ? gone : e;
    *out_is_new = false;
    if (e->hash == hash && strcmp(e->text, text) == 0) return e;
    if (gone == NULL && e->version.block == SHMT_NAME_GONE) gone = e;
  }
  *out_is_new = true;
  return gone;
}

static void name_entry(shmt__names* n, shmt__arena_manager* k, shmt__name_entry* e, const char* text) {
  shmt__name* shown = shown_of(n, k, e);
  if (e->is_used) {
    if (e->version.version > n->floor) n->floor = e->version.version;
  } else {
    const shmt__version none = {.block = SHMT_NAME_GONE};
    n->n_used++;
    commit(n, k, e, &none);
  }
  k->map.names_head->floor = n->floor;
  k->map.names_head->n_used = n->n_used;
  e->is_used = true;
  shown->hash = e->hash = shmt__name_hash(text);
  strncpy(e->text, text, SHMT_NAME_BYTES - 1);
  memcpy(shown->text, e->text, SHMT_NAME_BYTES);
  /* release: a reader that sees the entry in use sees its name. */
  atomic_store_explicit(&shown->state, 1, memory_order_release);
}

/* --- the blocks of names --- */

static bool reserve_uses(shmt__names* n, const shmt__arena_manager* k) {
  uint32_t end = k->blocks_end;
  if (end <= n->n_uses) return true;
  uint32_t want = end + end / 2;
  uint32_t* grown = realloc(n->uses, sizeof *grown * want);
  if (grown == NULL) return false;
  memset(grown + n->n_uses, 0, sizeof *grown * (want - n->n_uses));
  n->uses = grown;
  n->n_uses = want;
  return true;
}

/* Hold a block for one more value. All values share one hold of a block, and a failed attempt to hold clears it. So the
 * generation is checked first: while another value has the block, its generation stays, and the attempt cannot fail. */
static bool use_block(shmt__names* n, shmt__arena_manager* k, uint32_t block, uint64_t generation) {
  if (block >= k->blocks_end) return false;
  uint64_t head = atomic_load_explicit(&k->map.blocks[block].head, memory_order_seq_cst);
  if (shmt__head_generation(head) != generation) return false;
  if (!shmt__block_hold(&k->map, block, SHMT_NAMED_CLIENT, generation)) return false;
  n->uses[block]++;
  return true;
}

static void disuse_blocks(shmt__names* n, shmt__arena_manager* k, shmt__name_blocks* b) {
  for (uint32_t i = 0; i < b->n; i++) {
    if (--n->uses[b->at[i]] == 0 && !n->is_adopting)
      shmt__block_unhold(&k->map, b->at[i], SHMT_NAMED_CLIENT);
  }
  if (b->n > 0) shmt__map_note_activity(&k->map);
  free(b->at);
  *b = (shmt__name_blocks){0};
}

/* Read the head of a description, once, since the publisher can write there at any time. False: the block has no
 * description. */
static bool read_head(const shmt__arena_manager* k, uint32_t block, uint64_t* out_at,
                      shmt__description* out) {
  const shmt__slab_view* s = shmt__arena_manager_slab_of(k, block);
  if (s == NULL || s->state != SHMT_SLAB_ARENA) return false;
  uint64_t nbytes = atomic_load_explicit(&k->map.blocks[block].nbytes, memory_order_relaxed);
  *out_at = shmt__slab_offset_of(s, block);
  return nbytes >= sizeof *out && nbytes <= s->block_bytes &&
         shmt__os_read_at(k->arena_fd, out, sizeof *out, *out_at) &&
         out->magic == SHMT_DESCRIPTION_MAGIC && out->n_storages <= SHMT_MAX_STORAGES &&
         nbytes - sizeof *out >= out->n_storages * sizeof(shmt__described_storage);
}

/* Hold the block of a description and all blocks that it names. What was read before the hold belongs to this
 * generation if the block still has it when it is held. */
static shmt_status use_description(shmt__names* n, shmt__arena_manager* k, uint32_t block,
                                   uint64_t generation, shmt__name_blocks* out,
                                   uint64_t* out_nbytes) {
  shmt__description head;
  uint64_t at = 0;
  SHMT_REQUIRE(reserve_uses(n, k), SHMT_E_NOMEM, "the manager has no memory for its names");
  SHMT_REQUIRE(read_head(k, block, &at, &head), SHMT_E_VALUE,
               "block %" PRIu32 " describes no value", block);
  size_t list_bytes = head.n_storages * sizeof(shmt__described_storage);
  shmt__described_storage* list = malloc(list_bytes + 1);
  *out = (shmt__name_blocks){.at = malloc(sizeof *out->at * (head.n_storages + 1))};
  bool good = list != NULL && out->at != NULL &&
              shmt__os_read_at(k->arena_fd, list, list_bytes, at + sizeof head) &&
              use_block(n, k, block, generation);
  if (good) out->at[out->n++] = block;
  *out_nbytes = 0;
  for (uint64_t i = 0; good && i < head.n_storages; i++) {
    if (list[i].block == (uint32_t)SHMT_HANDLE_NO_BLOCK) continue;
    good = use_block(n, k, list[i].block, list[i].generation);
    if (good) out->at[out->n++] = list[i].block;
    *out_nbytes += list[i].nbytes;
  }
  free(list);
  if (good) return SHMT_OK;
  disuse_blocks(n, k, out);
  SHMT_FAIL(SHMT_E_HANDLE,
            "a block of the published value is gone (its description is block %" PRIu32
            " generation %" PRIu64 ")",
            block, generation);
}

/* --- requests --- */

static shmt_status check_owner(const shmt__version* v, shmt__requester who, const char* name) {
  SHMT_REQUIRE(v->block == SHMT_NAME_GONE || v->uid == who.uid || who.uid == shmt__os_uid(),
               SHMT_E_RUNTIME, "the name \"%s\" was published by user %" PRIu32 ", not %" PRIu32,
               name, v->uid, who.uid);
  return SHMT_OK;
}

shmt_status shmt__names_publish(shmt__names* n, shmt__arena_manager* k, shmt__requester who, const char* name,
                                uint32_t block, uint64_t generation, uint32_t flags,
                                uint64_t* out_version) {
  bool is_new = false;
  shmt__name_blocks blocks = {0};
  SHMT_REQUIRE(shmt__arena_manager_is_service(k), SHMT_E_VALUE, "this session has no names");
  SHMT_REQUIRE(name[0] != 0, SHMT_E_VALUE, "a name must not be empty");
  shmt__name_entry* e = find_entry(n, name, &is_new);
  SHMT_REQUIRE(e != NULL, SHMT_E_RUNTIME, "all %" PRIu32 " names of the service are taken",
               n->n_names);
  shmt__version v = is_new ? (shmt__version){.block = SHMT_NAME_GONE} : e->version;
  SHMT_TRY(check_owner(&v, who, name));
  if (v.block == block && v.generation == generation && v.flags == flags) {
    *out_version = v.version; /* the manager before us published it and was killed before it could answer */
    return SHMT_OK;
  }
  uint64_t nbytes = 0;
  SHMT_TRY(use_description(n, k, block, generation, &blocks, &nbytes));
  SHMT_FAILPOINT(name_held);
  if (is_new) name_entry(n, k, e, name);
  v = (shmt__version){.version = (is_new ? n->floor : v.version) + 1,
                      .generation = generation,
                      .nbytes = nbytes,
                      .published_ms = shmt__os_wall_ms(),
                      .block = block,
                      .publisher = who.client,
                      .uid = who.uid,
                      .pid = who.pid,
                      .flags = flags};
  commit(n, k, e, &v);
  if (is_new) {
    atomic_fetch_add_explicit(&k->map.names_head->sequence, 1, memory_order_release);
    (void)shmt__os_futex_wake(&k->map.names_head->sequence, INT32_MAX);
  }
  disuse_blocks(n, k, &e->blocks);
  e->blocks = blocks;
  *out_version = v.version;
  return SHMT_OK;
}

static void take_back(shmt__names* n, shmt__arena_manager* k, shmt__name_entry* e) {
  const shmt__version v = {.version = e->version.version, .block = SHMT_NAME_GONE};
  commit(n, k, e, &v);
  disuse_blocks(n, k, &e->blocks);
}

shmt_status shmt__names_remove(shmt__names* n, shmt__arena_manager* k, shmt__requester who, const char* name) {
  bool is_new = true;
  shmt__name_entry* e = find_entry(n, name, &is_new);
  SHMT_REQUIRE(e != NULL && !is_new && e->version.block != SHMT_NAME_GONE, SHMT_E_KEY,
               "nothing is published as \"%s\"", name);
  SHMT_TRY(check_owner(&e->version, who, name));
  take_back(n, k, e);
  return SHMT_OK;
}

bool shmt__names_persist(const shmt__names* n) {
  for (uint32_t i = 0; i < n->n_names; i++) {
    const shmt__name_entry* e = &n->entries[i];
    if (e->is_used && e->version.block != SHMT_NAME_GONE && (e->version.flags & SHMT_NAME_PERSISTS))
      return true;
  }
  return false;
}

void shmt__names_client_died(shmt__names* n, shmt__arena_manager* k, uint32_t client) {
  for (uint32_t i = 0; i < n->n_names; i++) {
    shmt__name_entry* e = &n->entries[i];
    if (e->is_used && e->version.block != SHMT_NAME_GONE && e->version.publisher == client &&
        !(e->version.flags & SHMT_NAME_PERSISTS))
      take_back(n, k, e);
  }
  shmt__named_locks_client_died(n, k, client);
}

/* --- names that the manager before us has left --- */

/* Read an entry once. An entry with an invalid name loses its value. */
static void read_entry(shmt__name_entry* e, const shmt__name* shown) {
  uint64_t words[SHMT_VERSION_WORDS];
  e->sequence = atomic_load_explicit(&shown->sequence, memory_order_acquire);
  for (unsigned i = 0; i < SHMT_VERSION_WORDS; i++)
    words[i] = atomic_load_explicit(&shown->slots[e->sequence & 1][i], memory_order_relaxed);
  memcpy(&e->version, words, sizeof words);
  memcpy(e->text, shown->text, SHMT_NAME_BYTES);
  e->is_used = true;
  if (e->text[0] == '\0' || e->text[SHMT_NAME_BYTES - 1] != '\0')
    e->version.block = SHMT_NAME_GONE;
  e->text[SHMT_NAME_BYTES - 1] = '\0';
  e->hash = shmt__name_hash(e->text);
}

static void adopt_entries(shmt__names* n, shmt__arena_manager* k) {
  /* A block may belong to a name that is read later: the holds stay until all names are read. */
  n->is_adopting = true;
  n->floor = k->map.names_head->floor;
  for (uint32_t i = 0; i < n->n_names; i++) {
    shmt__name_entry* e = &n->entries[i];
    uint64_t nbytes = 0;
    if (atomic_load_explicit(&k->map.names[i].state, memory_order_acquire) == 0) continue;
    read_entry(e, &k->map.names[i]);
    n->n_used++;
    if (e->version.block == SHMT_NAME_GONE) continue;
    if (use_description(n, k, e->version.block, e->version.generation, &e->blocks, &nbytes) !=
        SHMT_OK)
      take_back(n, k, e);
  }
  n->is_adopting = false;
  /* Clear holds for a version that the manager before us did not get to commit, or had just replaced. */
  for (uint32_t i = 0; i < k->blocks_end; i++) {
    bool is_named = i < n->n_uses && n->uses[i] > 0;
    if (!is_named && shmt__block_is_held_by(&k->map, i, SHMT_NAMED_CLIENT))
      shmt__block_unhold(&k->map, i, SHMT_NAMED_CLIENT);
  }
  shmt__map_note_activity(&k->map);
}

shmt_status shmt__names_adopt(shmt__names* n, shmt__arena_manager* k) {
  if (!shmt__arena_manager_is_service(k)) return SHMT_OK;
  n->entries = calloc(k->map.n_names, sizeof *n->entries);
  n->named_locks = calloc(k->map.n_named_locks, sizeof *n->named_locks);
  SHMT_REQUIRE(n->entries != NULL && n->named_locks != NULL, SHMT_E_NOMEM,
               "the manager has no memory for its names");
  n->n_names = k->map.n_names;
  n->n_named_locks = k->map.n_named_locks;
  adopt_entries(n, k);
  return shmt__named_locks_adopt(n, k);
}

void shmt__names_fini(shmt__names* n) {
  for (uint32_t i = 0; i < n->n_names; i++) free(n->entries[i].blocks.at);
  free(n->entries);
  free(n->named_locks);
  free(n->uses);
  *n = (shmt__names){0};
}

/* --- the copy for members --- */

static bool is_shown(const shmt__name_entry* e, const shmt__name* shown) {
  uint64_t words[SHMT_VERSION_WORDS];
  memcpy(words, &e->version, sizeof words);
  bool same = atomic_load_explicit(&shown->sequence, memory_order_relaxed) == e->sequence;
  for (unsigned i = 0; i < SHMT_VERSION_WORDS; i++)
    same = same && atomic_load_explicit(&shown->slots[e->sequence & 1][i], memory_order_relaxed) == words[i];
  return same;
}

void shmt__names_repair(const shmt__names* n, shmt__arena_manager* k) {
  if (n->n_names == 0) return;
  shmt__names_head* head = k->map.names_head;
  if (head->n_used != n->n_used) head->n_used = n->n_used;
  if (head->floor != n->floor) head->floor = n->floor;
  for (uint32_t i = 0; i < n->n_names; i++) {
    const shmt__name_entry* e = &n->entries[i];
    shmt__name* shown = &k->map.names[i];
    uint32_t state = e->is_used ? 1 : 0;
    if (e->is_used) {
      if (shown->hash != e->hash) shown->hash = e->hash;
      if (memcmp(shown->text, e->text, SHMT_NAME_BYTES) != 0)
        memcpy(shown->text, e->text, SHMT_NAME_BYTES);
      if (!is_shown(e, shown)) show(e, shown);
    }
    if (atomic_load_explicit(&shown->state, memory_order_relaxed) != state)
      atomic_store_explicit(&shown->state, state, memory_order_release);
  }
  shmt__named_locks_repair(n, k);
}
