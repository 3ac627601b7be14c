/* ipc/names.c -- the manager's side of names. */
#include "ipc/names.h"

#include "ipc/describe.h"
#include "ipc/handle.h"
#include "os/failpoint.h"
#include "os/futex.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/block.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- the table --- */

static shmt__version read_version(const shmt__name* e) {
  uint64_t words[SHMT_VERSION_WORDS];
  shmt__version v;
  uint32_t tick = atomic_load_explicit(&e->tick, memory_order_relaxed); /* only we write it */
  for (unsigned i = 0; i < SHMT_VERSION_WORDS; i++)
    words[i] = atomic_load_explicit(&e->slots[tick & 1][i], memory_order_relaxed);
  memcpy(&v, words, sizeof v);
  return v;
}

/* Let the entry stand for v, in one step: Note [Names]. */
static void commit(shmt__name* e, const shmt__version* v) {
  uint64_t words[SHMT_VERSION_WORDS];
  uint32_t tick = atomic_load_explicit(&e->tick, memory_order_relaxed);
  memcpy(words, v, sizeof words);
  /* release: a reader that sees a word of this slot sees the tick that goes before it as past. */
  atomic_thread_fence(memory_order_release);
  for (unsigned i = 0; i < SHMT_VERSION_WORDS; i++)
    atomic_store_explicit(&e->slots[(tick + 1) & 1][i], words[i], memory_order_relaxed);
  SHMT_FAILPOINT(name_written);
  /* release: who sees the tick sees the slot, and what the publisher wrote before it asked us. */
  atomic_store_explicit(&e->tick, tick + 1, memory_order_release);
  SHMT_FAILPOINT(name_committed);
  (void)shmt__os_futex_wake(&e->tick, INT32_MAX);
}

static bool is_used(const shmt__name* e) {
  return atomic_load_explicit(&e->state, memory_order_relaxed) != 0;
}

/* The entry of this name, else the one to use for it, else NULL. */
static shmt__name* find_entry(shmt__keeper* k, const char* text, bool* out_is_new) {
  uint64_t hash = shmt__name_hash(text);
  uint32_t n = k->map.n_names;
  shmt__name* gone = NULL;
  for (uint32_t i = 0; i < n; i++) {
    shmt__name* e = &k->map.names[(hash + i) % n];
    *out_is_new = true;
    /* While there is room a name that was taken back keeps its entry, and its count of versions. */
    if (!is_used(e)) return gone != NULL && k->map.names_head->n_used > n / 4 * 3 ? gone : e;
    *out_is_new = false;
    if (e->hash == hash && strcmp(e->text, text) == 0) return e;
    if (gone == NULL && read_version(e).block == SHMT_NAME_GONE) gone = e;
  }
  *out_is_new = true;
  return gone;
}

static void name_entry(shmt__keeper* k, shmt__name* e, const char* text) {
  shmt__names_head* head = k->map.names_head;
  if (is_used(e)) {
    uint64_t last = read_version(e).version;
    if (last > head->floor) head->floor = last;
  } else {
    const shmt__version none = {.block = SHMT_NAME_GONE};
    head->n_used++;
    commit(e, &none);
  }
  e->hash = shmt__name_hash(text);
  strncpy(e->text, text, SHMT_NAME_BYTES - 1);
  /* release: who sees the entry in use sees its name. */
  atomic_store_explicit(&e->state, 1, memory_order_release);
}

/* --- the blocks of names --- */

static bool reserve_uses(shmt__names* n, const shmt__keeper* k) {
  uint32_t end = shmt__map_blocks_end(&k->map);
  if (n->blocks == NULL) n->blocks = calloc(k->map.n_names, sizeof *n->blocks);
  if (n->blocks == NULL) return false;
  if (end <= n->n_uses) return true;
  uint32_t want = end + end / 2;
  uint32_t* grown = realloc(n->uses, sizeof *grown * want);
  if (grown == NULL) return false;
  memset(grown + n->n_uses, 0, sizeof *grown * (want - n->n_uses));
  n->uses = grown;
  n->n_uses = want;
  return true;
}

/* All names share one hold of a block. An attempt to hold that fails takes it off, so the generation
 * is looked at first: while another name has the block its generation stays, and so one that fits
 * cannot fail later. */
static bool use_block(shmt__names* n, shmt__keeper* k, uint32_t block, uint64_t generation) {
  if (block >= shmt__map_blocks_end(&k->map))
    return false;
  uint64_t head = atomic_load_explicit(&k->map.blocks[block].head, memory_order_seq_cst);
  if (shmt__head_generation(head) != generation) return false;
  if (!shmt__block_hold(&k->map, block, SHMT_NAMED_CLIENT, generation)) return false;
  n->uses[block]++;
  return true;
}

static void disuse_blocks(shmt__names* n, shmt__keeper* k, shmt__named_blocks* b) {
  for (uint32_t i = 0; i < b->n; i++) {
    if (--n->uses[b->at[i]] == 0 && !n->is_adopting)
      shmt__block_unhold(&k->map, b->at[i], SHMT_NAMED_CLIENT);
  }
  if (b->n > 0) shmt__map_note_activity(&k->map);
  free(b->at);
  *b = (shmt__named_blocks){0};
}

/* Read the head of a description, once: the publisher can write there at any time. False: there is
 * none in this block. */
static bool read_head(const shmt__keeper* k, uint32_t block, uint64_t* out_at,
                      shmt__description* out) {
  if (block >= shmt__map_blocks_end(&k->map))
    return false;
  const shmt__block* b = &k->map.blocks[block];
  uint64_t nbytes = atomic_load_explicit(&b->nbytes, memory_order_relaxed);
  *out_at = b->offset;
  return nbytes >= sizeof *out && nbytes <= b->capacity && shmt__os_read_at(k->arena_fd, out, sizeof *out, *out_at) &&
         out->magic == SHMT_DESCRIPTION_MAGIC && out->n_storages <= SHMT_MAX_STORAGES &&
         nbytes - sizeof *out >= out->n_storages * sizeof(shmt__described_storage);
}

/* Hold the block of a description and all that it names. What is read without a hold was of this
 * generation if the block still is when it is held. */
static shmt_status use_description(shmt__names* n, shmt__keeper* k, uint32_t block,
                                   uint64_t generation, shmt__named_blocks* out,
                                   uint64_t* out_nbytes) {
  shmt__description head;
  uint64_t at = 0;
  SHMT_REQUIRE(reserve_uses(n, k), SHMT_E_NOMEM, "the manager has no memory for its names");
  SHMT_REQUIRE(read_head(k, block, &at, &head), SHMT_E_VALUE,
               "block %" PRIu32 " describes no value", block);
  size_t list_bytes = head.n_storages * sizeof(shmt__described_storage);
  shmt__described_storage* list = malloc(list_bytes + 1);
  *out = (shmt__named_blocks){.at = malloc(sizeof *out->at * (head.n_storages + 1))};
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

static shmt_status check_owner(const shmt__version* v, shmt__asker who, const char* name) {
  SHMT_REQUIRE(v->block == SHMT_NAME_GONE || v->uid == who.uid || who.uid == shmt__os_uid(),
               SHMT_E_RUNTIME, "the name \"%s\" was published by user %" PRIu32 ", not %" PRIu32,
               name, v->uid, who.uid);
  return SHMT_OK;
}

shmt_status shmt__names_publish(shmt__names* n, shmt__keeper* k, shmt__asker who, const char* name,
                                uint32_t block, uint64_t generation, uint32_t flags,
                                uint64_t* out_version) {
  bool is_new = false;
  shmt__named_blocks blocks = {0};
  SHMT_REQUIRE(shmt__keeper_is_service(k), SHMT_E_VALUE, "this session has no names");
  SHMT_REQUIRE(name[0] != 0, SHMT_E_VALUE, "a name must not be empty");
  shmt__name* e = find_entry(k, name, &is_new);
  SHMT_REQUIRE(e != NULL, SHMT_E_RUNTIME, "all %" PRIu32 " names of the service are taken",
               k->map.n_names);
  shmt__version v = is_new ? (shmt__version){.block = SHMT_NAME_GONE} : read_version(e);
  SHMT_TRY(check_owner(&v, who, name));
  if (v.block == block && v.generation == generation && v.flags == flags) {
    *out_version = v.version; /* our predecessor did it and could not say so */
    return SHMT_OK;
  }
  uint64_t nbytes = 0;
  SHMT_TRY(use_description(n, k, block, generation, &blocks, &nbytes));
  SHMT_FAILPOINT(name_held);
  if (is_new) name_entry(k, e, name);
  v = (shmt__version){.version = (is_new ? k->map.names_head->floor : v.version) + 1,
                      .generation = generation,
                      .nbytes = nbytes,
                      .published_ms = shmt__os_now_ms(),
                      .block = block,
                      .publisher = who.client,
                      .uid = who.uid,
                      .pid = who.pid,
                      .flags = flags};
  commit(e, &v);
  if (is_new) {
    atomic_fetch_add_explicit(&k->map.names_head->tick, 1, memory_order_release);
    (void)shmt__os_futex_wake(&k->map.names_head->tick, INT32_MAX);
  }
  shmt__named_blocks* own = &n->blocks[e - k->map.names];
  disuse_blocks(n, k, own);
  *own = blocks;
  *out_version = v.version;
  return SHMT_OK;
}

static void take_back(shmt__names* n, shmt__keeper* k, shmt__name* e) {
  shmt__version v = read_version(e);
  v = (shmt__version){.version = v.version, .block = SHMT_NAME_GONE};
  commit(e, &v);
  if (n->blocks != NULL) disuse_blocks(n, k, &n->blocks[e - k->map.names]);
}

shmt_status shmt__names_remove(shmt__names* n, shmt__keeper* k, shmt__asker who, const char* name) {
  bool is_new = true;
  shmt__name* e = shmt__keeper_is_service(k) ? find_entry(k, name, &is_new) : NULL;
  SHMT_REQUIRE(e != NULL && !is_new && read_version(e).block != SHMT_NAME_GONE, SHMT_E_KEY,
               "nothing is published as \"%s\"", name);
  shmt__version v = read_version(e);
  SHMT_TRY(check_owner(&v, who, name));
  take_back(n, k, e);
  return SHMT_OK;
}

bool shmt__names_persist(const shmt__keeper* k) {
  for (uint32_t i = 0; shmt__keeper_is_service(k) && i < k->map.n_names; i++) {
    const shmt__name* e = &k->map.names[i];
    if (!is_used(e)) continue;
    shmt__version v = read_version(e);
    if (v.block != SHMT_NAME_GONE && (v.flags & SHMT_NAME_PERSISTS)) return true;
  }
  return false;
}

void shmt__names_adopt(shmt__names* n, shmt__keeper* k) {
  if (!shmt__keeper_is_service(k)) return;
  /* A block may be of a name that is yet to come: our predecessor's holds stay until all are read. */
  n->is_adopting = true;
  for (uint32_t i = 0; i < k->map.n_names; i++) {
    shmt__name* e = &k->map.names[i];
    uint64_t nbytes = 0;
    if (!is_used(e)) continue;
    shmt__version v = read_version(e);
    if (v.block == SHMT_NAME_GONE) continue;
    shmt__named_blocks blocks = {0};
    if (use_description(n, k, v.block, v.generation, &blocks, &nbytes) == SHMT_OK)
      n->blocks[i] = blocks;
    else
      take_back(n, k, e);
  }
  n->is_adopting = false;
  /* Holds for a version that our predecessor did not get to commit, or had just replaced. */
  uint32_t end = shmt__map_blocks_end(&k->map);
  for (uint32_t i = 0; i < end; i++) {
    bool is_named = i < n->n_uses && n->uses[i] > 0;
    if (!is_named && shmt__block_is_held_by(&k->map, i, SHMT_NAMED_CLIENT))
      shmt__block_unhold(&k->map, i, SHMT_NAMED_CLIENT);
  }
  shmt__map_note_activity(&k->map);
}

/* --- syncs --- */

static void wake_sync(shmt__sync* s) {
  atomic_fetch_add_explicit(&s->wake, 1, memory_order_release);
  (void)shmt__os_futex_wake(&s->wake, INT32_MAX);
}

static void forget_in_sync(shmt__sync* s, uint32_t client) {
  uint64_t users = 0, bit = (uint64_t)1 << (client % 64);
  if (!(atomic_load_explicit(&s->users[client / 64], memory_order_relaxed) & bit)) return;
  for (uint32_t i = 0; i < s->n_slots && i < SHMT_SYNC_SLOTS; i++) {
    if (atomic_load_explicit(&s->slots[i], memory_order_relaxed) != client) continue;
    /* The bit first: it belongs to the slot's owner. */
    if (s->kind == SHMT_SYNC_BARRIER && i < SHMT_BARRIER_SLOTS)
      atomic_fetch_and_explicit(&s->arrived, ~((uint64_t)1 << i), memory_order_seq_cst);
    /* release: what the dead client did with it is before what the next one does. */
    atomic_store_explicit(&s->slots[i], 0, memory_order_release);
  }
  atomic_fetch_and_explicit(&s->users[client / 64], ~bit, memory_order_relaxed);
  for (unsigned i = 0; i < SHMT_SYNC_USER_WORDS; i++)
    users |= atomic_load_explicit(&s->users[i], memory_order_relaxed);
  if (users == 0) atomic_store_explicit(&s->state, 0, memory_order_release);
  wake_sync(s);
}

void shmt__names_forget_client(shmt__names* n, shmt__keeper* k, uint32_t client) {
  if (!shmt__keeper_is_service(k)) return;
  for (uint32_t i = 0; i < k->map.n_names; i++) {
    shmt__name* e = &k->map.names[i];
    if (!is_used(e)) continue;
    shmt__version v = read_version(e);
    if (v.block != SHMT_NAME_GONE && v.publisher == client && !(v.flags & SHMT_NAME_PERSISTS))
      take_back(n, k, e);
  }
  for (uint32_t i = 0; i < k->map.n_syncs; i++) {
    if (atomic_load_explicit(&k->map.syncs[i].state, memory_order_relaxed) != 0)
      forget_in_sync(&k->map.syncs[i], client);
  }
}

static void begin_sync(shmt__sync* s, const char* name, uint32_t kind, uint32_t n_slots) {
  memset(s, 0, sizeof *s);
  s->kind = kind;
  s->n_slots = n_slots;
  strncpy(s->text, name, SHMT_SYNC_NAME_BYTES - 1);
  /* release: a manager that takes over sees it whole or not at all. */
  atomic_store_explicit(&s->state, 1, memory_order_release);
}

shmt_status shmt__syncs_open(shmt__keeper* k, uint32_t client, const char* name, uint32_t kind,
                             uint32_t n_slots, uint32_t* out_index) {
  shmt__sync *unused = NULL, *found = NULL;
  int most = kind == SHMT_SYNC_BARRIER ? SHMT_BARRIER_SLOTS : SHMT_SYNC_SLOTS;
  SHMT_REQUIRE(shmt__keeper_is_service(k), SHMT_E_VALUE, "this session has no names");
  SHMT_REQUIRE(kind == SHMT_SYNC_SEMAPHORE || kind == SHMT_SYNC_BARRIER, SHMT_E_VALUE,
               "no kind %" PRIu32 " of lock", kind);
  SHMT_REQUIRE(name[0] != 0 && strlen(name) < SHMT_SYNC_NAME_BYTES, SHMT_E_VALUE,
               "the name of a lock, semaphore or barrier must have 1 to %d bytes, got %zu",
               SHMT_SYNC_NAME_BYTES - 1, strlen(name));
  SHMT_REQUIRE(n_slots >= 1 && n_slots <= (uint32_t)most, SHMT_E_VALUE,
               "\"%s\" needs 1 to %d places, got %" PRIu32, name, most, n_slots);
  for (uint32_t i = 0; i < k->map.n_syncs && found == NULL; i++) {
    shmt__sync* s = &k->map.syncs[i];
    bool used = atomic_load_explicit(&s->state, memory_order_relaxed) != 0;
    if (!used && unused == NULL) unused = s;
    if (used && strncmp(s->text, name, SHMT_SYNC_NAME_BYTES) == 0) found = s;
  }
  SHMT_REQUIRE(found == NULL || (found->kind == kind && found->n_slots == n_slots), SHMT_E_VALUE,
               "\"%s\" is in use as a %s of %" PRIu32 " places, not a %s of %" PRIu32, name,
               found->kind == SHMT_SYNC_BARRIER ? "barrier" : "semaphore", found->n_slots,
               kind == SHMT_SYNC_BARRIER ? "barrier" : "semaphore", n_slots);
  if (found == NULL) {
    SHMT_REQUIRE(unused != NULL, SHMT_E_RUNTIME,
                 "all %" PRIu32 " locks, semaphores and barriers of the service are in use",
                 k->map.n_syncs);
    begin_sync(unused, name, kind, n_slots);
    found = unused;
  }
  atomic_fetch_or_explicit(&found->users[client / 64], (uint64_t)1 << (client % 64),
                           memory_order_relaxed);
  *out_index = (uint32_t)(found - k->map.syncs);
  return SHMT_OK;
}
