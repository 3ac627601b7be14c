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

static bool has_value(const shmt__version* v) { return v->block != SHMT_NAME_GONE; }
static bool persists(const shmt__version* v) { return has_value(v) && (v->flags & SHMT_NAME_PERSISTS) != 0; }

/* Does the name go with its publisher? Other kinds than values go when nobody holds them. */
static bool goes_with_publisher(const shmt__version* v) {
  return has_value(v) && !persists(v) && shmt__name_kind_of(v->flags) == SHMT_NAME_VALUE;
}

/* Count a value that an entry gets (change 1) or loses (-1). */
static void count_value(shmt__names* n, const shmt__version* v, int change) {
  if (!has_value(v)) return;
  n->n_values += (uint32_t)change;
  if (persists(v)) n->n_persisting += (uint32_t)change;
  if (goes_with_publisher(v)) n->n_values_of[v->publisher % SHMT_MAX_CLIENTS] += (uint32_t)change;
}

/* The entry has no value any more: its place may serve another name later. */
static void list_gone(shmt__names* n, shmt__name_entry* e) {
  uint32_t at = (uint32_t)(e - n->entries);
  if (e->is_listed) return;
  e->is_listed = true;
  if (n->gone.n++ == 0)
    n->gone.first = at;
  else
    n->entries[n->gone.last].next_gone = at;
  n->gone.last = at;
}

/* The entry that has been without a value for longest, or NULL. */
static shmt__name_entry* take_gone(shmt__names* n) {
  while (n->gone.n > 0) {
    shmt__name_entry* e = &n->entries[n->gone.first];
    n->gone.first = e->next_gone;
    n->gone.n--;
    e->is_listed = false;
    if (!has_value(&e->version)) return e;
  }
  return NULL;
}

/* Give the entry the value v. */
static void commit(shmt__names* n, shmt__arena_manager* k, shmt__name_entry* e, const shmt__version* v) {
  count_value(n, &e->version, -1);
  count_value(n, v, 1);
  e->version = *v;
  e->sequence++;
  show(e, shown_of(n, k, e));
  if (!has_value(v)) list_gone(n, e);
}

/* --- the index: Note [Index of names] --- */

static uint32_t n_buckets(const shmt__names* n) { return (uint32_t)1 << n->index.bits; }

static atomic_uint_least32_t* shown_buckets(const shmt__arena_manager* k, unsigned bits, unsigned which) {
  return k->map.name_buckets + shmt__name_table_begin(bits) + ((uint64_t)which << bits);
}

/* Enter the entry into the table, which has an empty bucket. */
static uint32_t enter_bucket(uint32_t* buckets, unsigned bits, const shmt__names* n, uint32_t entry) {
  const uint32_t mask = ((uint32_t)1 << bits) - 1;
  uint32_t at = (uint32_t)n->entries[entry].hash & mask;
  while (buckets[at] != 0) at = (at + 1) & mask;
  buckets[at] = entry + 1;
  return at;
}

static uint32_t index_word(const shmt__names* n) {
  return n->index.n_changes << SHMT_NAME_TABLE_SHIFT | shmt__name_table_code(n->index.bits, n->index.which);
}

/* Fill a table anew, of those that nobody searches now, and have it searched from now on. */
static shmt_status renew_index(shmt__names* n, shmt__arena_manager* k) {
  const unsigned most = shmt__name_table_most_bits(n->n_names);
  unsigned bits = SHMT_NAME_TABLE_BITS;
  while (bits < most && ((uint32_t)1 << bits) < 2 * n->names_end) bits++;
  const unsigned which = bits == n->index.bits ? !n->index.which : 0;
  const uint32_t size = (uint32_t)1 << bits;
  atomic_uint_least32_t* shown = shown_buckets(k, bits, which);
  SHMT_TRY(shmt__map_populate(&k->map, k->control_fd, (const void*)shown, sizeof *shown * size));
  uint32_t* buckets = calloc(size, sizeof *buckets);
  SHMT_REQUIRE(buckets != NULL, SHMT_E_NOMEM, "the manager has no memory for the index of its names");
  n->index.n_used = 0;
  for (uint32_t i = 0; i < n->names_end; i++) {
    if (!n->entries[i].is_used) continue;
    (void)enter_bucket(buckets, bits, n, i);
    n->index.n_used++;
  }
  for (uint32_t i = 0; i < size; i++) atomic_store_explicit(&shown[i], buckets[i], memory_order_relaxed);
  free(n->index.buckets);
  n->index.buckets = buckets;
  n->index.bits = bits;
  n->index.which = which;
  n->index.n_changes++;
  /* release: whoever searches the table sees all of it. */
  atomic_store_explicit(&k->map.names_head->index, index_word(n), memory_order_release);
  return SHMT_OK;
}

static void enter_name(shmt__names* n, shmt__arena_manager* k, uint32_t entry) {
  uint32_t at = enter_bucket(n->index.buckets, n->index.bits, n, entry);
  n->index.n_used++;
  /* release: whoever finds the entry sees its name. */
  atomic_store_explicit(&shown_buckets(k, n->index.bits, n->index.which)[at], entry + 1, memory_order_release);
}

static shmt__name_entry* find_entry(const shmt__names* n, const char* text) {
  const uint64_t hash = shmt__name_hash(text);
  const uint32_t mask = n_buckets(n) - 1;
  for (uint32_t at = (uint32_t)hash & mask; n->index.buckets[at] != 0; at = (at + 1) & mask) {
    shmt__name_entry* e = &n->entries[n->index.buckets[at] - 1];
    if (e->hash == hash && strcmp(e->text, text) == 0) return e;
  }
  return NULL;
}

/* --- new names --- */

enum { KEPT_GONE = 1024 }; /* so many names without a value keep their entries, and as many as there are with one */

/* An entry for a new name. Errors: SHMT_E_RUNTIME (all are taken), SHMT_E_NOMEM. */
static shmt_status free_entry(shmt__names* n, shmt__arena_manager* k, shmt__name_entry** out) {
  shmt__name_entry* e = NULL;
  if (n->names_end == n->n_names || (n->gone.n > KEPT_GONE && n->gone.n > n->n_values)) e = take_gone(n);
  if (e == NULL) {
    SHMT_REQUIRE(n->names_end < n->n_names, SHMT_E_RUNTIME, "all %" PRIu32 " names of the service are taken",
                 n->n_names);
    e = &n->entries[n->names_end];
    shmt__name* shown = shown_of(n, k, e);
    SHMT_TRY(shmt__map_populate(&k->map, k->control_fd, shown, sizeof *shown));
    n->names_end++;
    /* release: the entry has its page. */
    atomic_store_explicit(&k->map.names_head->names_end, n->names_end, memory_order_release);
  }
  *out = e;
  return SHMT_OK;
}

/* Make an entry for a new name. The caller gives it its value. Errors: as above. */
static shmt_status name_entry(shmt__names* n, shmt__arena_manager* k, const char* text, shmt__name_entry** out) {
  const shmt__version none = {.block = SHMT_NAME_GONE};
  shmt__name_entry* e = NULL;
  if (n->index.n_used + 1 > n_buckets(n) / 4 * 3) SHMT_TRY(renew_index(n, k));
  SHMT_TRY(free_entry(n, k, &e));
  shmt__name* shown = shown_of(n, k, e);
  if (e->is_used && e->version.version > n->floor) n->floor = e->version.version;
  k->map.names_head->floor = n->floor;
  if (!e->is_used) {
    e->version = none;
    e->sequence++;
    show(e, shown);
  }
  e->is_used = true;
  shown->hash = e->hash = shmt__name_hash(text);
  strncpy(e->text, text, SHMT_NAME_BYTES - 1);
  memcpy(shown->text, e->text, SHMT_NAME_BYTES);
  /* release: a reader that sees the entry in use sees its name. */
  atomic_store_explicit(&shown->state, 1, memory_order_release);
  enter_name(n, k, (uint32_t)(e - n->entries));
  *out = e;
  return SHMT_OK;
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

/* Somebody opens what the name stands for and says that it persists: it does, whoever made it. */
static void persist_from_now(shmt__names* n, shmt__arena_manager* k, shmt__name_entry* e, uint32_t flags) {
  shmt__version v = e->version;
  if ((flags & SHMT_NAME_PERSISTS) == 0 || persists(&v) || shmt__name_kind_of(flags) != shmt__name_kind_of(v.flags))
    return;
  v.flags |= SHMT_NAME_PERSISTS;
  commit(n, k, e, &v);
}

shmt_status shmt__names_publish(shmt__names* n, shmt__arena_manager* k, shmt__requester who, const char* name,
                                uint32_t block, uint64_t generation, uint32_t flags,
                                uint64_t* out_version) {
  shmt__name_blocks blocks = {0};
  SHMT_REQUIRE(shmt__arena_manager_is_service(k), SHMT_E_VALUE, "this session has no names");
  SHMT_REQUIRE(name[0] != 0, SHMT_E_VALUE, "a name must not be empty");
  shmt__name_entry* e = find_entry(n, name);
  const bool is_new = e == NULL;
  shmt__version v = is_new ? (shmt__version){.block = SHMT_NAME_GONE} : e->version;
  if (has_value(&v) && (flags & SHMT_NAME_IF_NONE)) {
    persist_from_now(n, k, e, flags);
    *out_version = v.version;
    return SHMT_OK;
  }
  flags &= SHMT_NAME_FLAGS;
  const shmt__name_kind kind = shmt__name_kind_of(flags), before = shmt__name_kind_of(v.flags);
  SHMT_REQUIRE(kind < SHMT_N_NAME_KINDS, SHMT_E_VALUE, "no kind %d of names", (int)kind);
  SHMT_REQUIRE(!has_value(&v) || kind == before, SHMT_E_VALUE, "the name \"%s\" is that of %s", name,
               shmt__name_kind_title(before));
  SHMT_TRY(check_owner(&v, who, name));
  if (v.block == block && v.generation == generation && v.flags == flags) {
    *out_version = v.version; /* the manager before us published it and was killed before it could answer */
    return SHMT_OK;
  }
  uint64_t nbytes = 0;
  SHMT_TRY(use_description(n, k, block, generation, &blocks, &nbytes));
  SHMT_FAILPOINT(name_held);
  shmt_status status = is_new ? name_entry(n, k, name, &e) : SHMT_OK;
  if (status != SHMT_OK) {
    disuse_blocks(n, k, &blocks);
    return status;
  }
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

/* The version whose value goes away when nobody else holds the first storage. */
static bool is_unused(const shmt__arena_manager* k, const shmt__name_entry* e) {
  if (!has_value(&e->version) || persists(&e->version) || shmt__name_kind_of(e->version.flags) == SHMT_NAME_VALUE)
    return false;
  return e->blocks.n < 2 || shmt__block_is_last_held_by(&k->map, e->blocks.at[1], SHMT_NAMED_CLIENT);
}

static void take_back(shmt__names* n, shmt__arena_manager* k, shmt__name_entry* e) {
  const shmt__version v = {.version = e->version.version, .block = SHMT_NAME_GONE};
  commit(n, k, e, &v);
  disuse_blocks(n, k, &e->blocks);
}

/* Take the name of a queue back that no process holds. Whoever opens one holds it first and then reads the name again.
 * So either they see that the name is closing, or we see their hold. A manager that is killed in between leaves the
 * blocks with the name: the next one opens it again. */
static void release_unused(shmt__names* n, shmt__arena_manager* k, shmt__name_entry* e) {
  if (!is_unused(k, e)) return;
  const shmt__version was = e->version;
  shmt__version closing = was;
  closing.flags |= SHMT_NAME_CLOSING;
  commit(n, k, e, &closing);
  atomic_thread_fence(memory_order_seq_cst);
  if (is_unused(k, e))
    take_back(n, k, e);
  else
    commit(n, k, e, &was);
}

shmt_status shmt__names_remove(shmt__names* n, shmt__arena_manager* k, shmt__requester who, const char* name) {
  SHMT_REQUIRE(n->entries != NULL, SHMT_E_VALUE, "this session has no names");
  shmt__name_entry* e = find_entry(n, name);
  SHMT_REQUIRE(e != NULL && has_value(&e->version), SHMT_E_KEY, "nothing is published as \"%s\"", name);
  SHMT_TRY(check_owner(&e->version, who, name));
  take_back(n, k, e);
  return SHMT_OK;
}

bool shmt__names_persist(const shmt__names* n) { return n->n_persisting > 0; }

void shmt__names_client_moved(shmt__names* n, shmt__arena_manager* k, uint32_t client, uint32_t to) {
  for (uint32_t i = 0; i < n->names_end && n->n_values_of[client] > 0; i++) {
    shmt__name_entry* e = &n->entries[i];
    if (!goes_with_publisher(&e->version) || e->version.publisher != client) continue;
    shmt__version v = e->version;
    v.publisher = to;
    commit(n, k, e, &v);
  }
}

void shmt__names_client_died(shmt__names* n, shmt__arena_manager* k, uint32_t client) {
  for (uint32_t i = 0; i < n->names_end && n->n_values_of[client] > 0; i++) {
    shmt__name_entry* e = &n->entries[i];
    if (goes_with_publisher(&e->version) && e->version.publisher == client) take_back(n, k, e);
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
  for (uint32_t i = 0; i < n->names_end; i++) {
    shmt__name_entry* e = &n->entries[i];
    uint64_t nbytes = 0;
    e->version.block = SHMT_NAME_GONE;
    if (atomic_load_explicit(&k->map.names[i].state, memory_order_acquire) != 0) read_entry(e, &k->map.names[i]);
    count_value(n, &e->version, 1);
    shmt__version open = e->version;
    open.flags &= SHMT_NAME_FLAGS; /* it was closing: see release_unused */
    if (open.flags != e->version.flags) commit(n, k, e, &open);
    if (!has_value(&e->version))
      list_gone(n, e);
    else if (use_description(n, k, e->version.block, e->version.generation, &e->blocks, &nbytes) != SHMT_OK)
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

/* Members may be searching the table that the manager before us named: go on from there, with another one. */
static void adopt_index_word(shmt__names* n, const shmt__arena_manager* k) {
  const uint32_t word = atomic_load_explicit(&k->map.names_head->index, memory_order_relaxed);
  const uint32_t code = word & (((uint32_t)1 << SHMT_NAME_TABLE_SHIFT) - 1);
  n->index.bits = SHMT_NAME_TABLE_BITS + (code >> 1);
  n->index.which = code & 1;
  n->index.n_changes = word >> SHMT_NAME_TABLE_SHIFT;
}

shmt_status shmt__names_adopt(shmt__names* n, shmt__arena_manager* k) {
  if (!shmt__arena_manager_is_service(k)) return SHMT_OK;
  /* The kernel gives these tables their pages as they are used. */
  n->entries = calloc(k->map.n_names, sizeof *n->entries);
  n->named_locks = calloc(k->map.n_named_locks, sizeof *n->named_locks);
  n->n_values_of = calloc(SHMT_MAX_CLIENTS, sizeof *n->n_values_of);
  SHMT_REQUIRE(n->entries != NULL && n->named_locks != NULL && n->n_values_of != NULL, SHMT_E_NOMEM,
               "the manager has no memory for its names");
  n->n_names = k->map.n_names;
  n->n_named_locks = k->map.n_named_locks;
  n->names_end = shmt__map_names_end(&k->map);
  SHMT_TRY(shmt__map_populate(&k->map, k->control_fd, k->map.names, sizeof *k->map.names * n->names_end));
  adopt_entries(n, k);
  adopt_index_word(n, k);
  SHMT_TRY(renew_index(n, k));
  return shmt__named_locks_adopt(n, k);
}

void shmt__names_fini(shmt__names* n) {
  for (uint32_t i = 0; i < n->names_end; i++) free(n->entries[i].blocks.at);
  free(n->entries);
  free(n->index.buckets);
  free(n->n_values_of);
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

static void repair_entry(const shmt__name_entry* e, shmt__name* shown) {
  uint32_t state = e->is_used ? 1 : 0;
  if (e->is_used) {
    if (shown->hash != e->hash) shown->hash = e->hash;
    if (memcmp(shown->text, e->text, SHMT_NAME_BYTES) != 0) memcpy(shown->text, e->text, SHMT_NAME_BYTES);
    if (!is_shown(e, shown)) show(e, shown);
  }
  if (atomic_load_explicit(&shown->state, memory_order_relaxed) != state)
    atomic_store_explicit(&shown->state, state, memory_order_release);
}

static void repair_word(atomic_uint_least32_t* shown, uint32_t own) {
  if (atomic_load_explicit(shown, memory_order_relaxed) != own)
    atomic_store_explicit(shown, own, memory_order_release);
}

void shmt__names_repair(shmt__names* n, shmt__arena_manager* k) {
  enum { AT_ONCE = 4096 };
  if (n->n_names == 0) return;
  shmt__names_head* head = k->map.names_head;
  atomic_uint_least32_t* buckets = shown_buckets(k, n->index.bits, n->index.which);
  repair_word(&head->names_end, n->names_end);
  repair_word(&head->locks_end, n->locks_end);
  repair_word(&head->index, index_word(n));
  if (head->floor != n->floor) head->floor = n->floor;
  /* A round goes over the buckets; while they last, also over the entries, which are fewer. */
  const uint32_t begin = n->repaired < n_buckets(n) ? n->repaired : 0;
  const uint32_t end = n_buckets(n) - begin < AT_ONCE ? n_buckets(n) : begin + AT_ONCE;
  for (uint32_t i = begin; i < end; i++) {
    repair_word(&buckets[i], n->index.buckets[i]);
    if (i >= n->names_end) continue;
    release_unused(n, k, &n->entries[i]);
    repair_entry(&n->entries[i], &k->map.names[i]);
  }
  n->repaired = end;
  shmt__named_locks_repair(n, k);
}
