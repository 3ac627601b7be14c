/* ipc/manager/ring_audit.c -- what the manager does for rings: it releases the locks of dead clients, and corrects the
 * counts of ring leases. */
#include "ipc/manager/ring_audit.h"

#include "ipc/handle/handle.h"
#include "ipc/manager/ring_reader.h"
#include "ipc/ring/message_layout.h"
#include "ipc/ring/lock.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "shm/block.h"
#include "shm/client.h"

#include <stdlib.h>
#include <string.h>

enum {
  LOCK_TRIES = 100,
  MOST_MAPPED = 4096, /* rings that stay mapped in an audit: the kernel bounds the maps of a process */
};

/* One of a ring's two locks. */
typedef struct audited_lock {
  uint32_t word; /* the word it is taken with */
  bool is_ours;
} audited_lock;

/* A ring whose header the manager has mapped, or can map. Any member can write there: what makes no sense is no ring,
 * and has neither header nor area. */
typedef struct mapped_ring {
  bool is_ring;
  void* map;          /* NULL: not mapped now */
  uint64_t map_at, map_bytes; /* in the arena */
  uint64_t in_page;   /* where the header begins in the map */
  shmt__ring_header* header; /* in the map */
  uint64_t area_at; /* where the messages' area begins in the arena */
  uint32_t capacity; /* of the area */
  bool is_bare;
} mapped_ring;

/* A ring that is being audited. */
typedef struct audited_ring {
  const shmt__block* block;
  uint64_t generation;       /* of the block */
  mapped_ring mapped;
  audited_lock put, get;
  uint32_t n_unheld; /* as it was when we read the locks */
  uint64_t head;     /* of the first message that was counted */
} audited_ring;

typedef struct audit {
  const shmt__arena_manager* arena_manager;
  audited_ring* rings;
  uint32_t n_rings, room;
  uint32_t* leaks;   /* by block: first how often messages name it, then how many leases are too many */
  bool* is_counted;  /* by block: the list in it; a message that names it again does not make us read it again */
  uint32_t n_blocks;
  uint32_t rings_made; /* when it began */
  uint32_t owners[SHMT_MAX_CLIENTS], n_owners; /* the clients that have locks of rings, usually none */
  bool is_owner[SHMT_MAX_CLIENTS];
  shmt__ring_reader reader, list_reader;
} audit;

/* --- finding rings --- */

/* The bytes of the ring that a block is; 0: it is none. Any member can write what is read here. */
static uint64_t ring_bytes(const shmt__block* b, uint64_t block_bytes) {
  uint64_t head = atomic_load_explicit(&b->head, memory_order_acquire);
  uint64_t nbytes = atomic_load_explicit(&b->nbytes, memory_order_acquire);
  shmt__block_state state = shmt__head_state(head);
  if ((nbytes & SHMT_BLOCK_IS_RING) == 0 || (state != SHMT_BLOCK_USED && state != SHMT_BLOCK_RECLAIM)) return 0;
  nbytes &= ~SHMT_BLOCK_IS_RING;
  return nbytes <= block_bytes && nbytes >= SHMT_RING_BARE_DATA ? nbytes : 0;
}

static uint64_t generation_of(const shmt__block* b) {
  return shmt__head_generation(atomic_load_explicit(&b->head, memory_order_acquire));
}

static void unmap_ring(mapped_ring* r) {
  shmt__os_unmap(r->map, r->map_bytes);
  r->map = r->header = NULL;
}

/* Map the header of a ring again, if it is not mapped. False: there is no memory for that. */
static bool map_again(const shmt__arena_manager* k, mapped_ring* r) {
  if (r->map != NULL) return true;
  if (!shmt__os_map_part(k->arena_fd, r->map_at, r->map_bytes, &r->map)) return false;
  r->header = (shmt__ring_header*)((char*)r->map + r->in_page);
  return true;
}

/* Map the header of the ring that a block is; it may begin anywhere in a page. False: there is no memory for that. */
static bool map_ring(const shmt__arena_manager* k, const shmt__block* b, mapped_ring* out) {
  const uint32_t block = (uint32_t)(b - k->map.blocks);
  const shmt__slab_view* s = shmt__arena_manager_slab_of(k, block);
  const uint64_t nbytes = s != NULL ? ring_bytes(b, s->block_bytes) : 0;
  uint32_t data_begin = 0;
  *out = (mapped_ring){0};
  if (nbytes == 0) return true;
  const uint64_t at = shmt__slab_offset_of(s, block), in_page = at % shmt__os_page_bytes();
  if (!shmt__os_read_at(k->arena_fd, &data_begin, sizeof data_begin, at + offsetof(shmt__ring_header, data_begin)))
    return false;
  const uint32_t capacity = shmt__ring_capacity_of(data_begin, nbytes);
  if (capacity == 0) return true;
  *out = (mapped_ring){.is_ring = true,
                       .map_at = at - in_page,
                       .map_bytes = in_page + data_begin,
                       .in_page = in_page,
                       .area_at = at + data_begin,
                       .capacity = capacity,
                       .is_bare = data_begin != SHMT_RING_DATA};
  return map_again(k, out);
}

/* The next ring among the blocks from *i of slab *slab on; NULL at the end. */
static shmt__block* next_ring(const shmt__arena_manager* k, uint32_t* slab, uint32_t* i) {
  for (; *slab < k->slabs_end; ++*slab, *i = 0) {
    const shmt__slab_view* s = shmt__arena_manager_slab_at(k, *slab);
    if (s == NULL || s->state != SHMT_SLAB_ARENA || s->block_bytes < SHMT_RING_BARE_DATA) continue;
    while (*i < s->n_blocks) {
      shmt__block* b = &k->map.blocks[s->first_block + (*i)++];
      if (ring_bytes(b, s->block_bytes) != 0) return b;
    }
  }
  return NULL;
}

/* --- a dead client --- */

bool shmt__rings_client_died(shmt__arena_manager* k, uint32_t client) {
  uint32_t slab = 0, i = 0;
  bool all = true;
  mapped_ring r;
  shmt__block* b;
  while ((b = next_ring(k, &slab, &i)) != NULL) {
    const bool is_seen = map_ring(k, b, &r);
    all = all && is_seen;
    if (!is_seen || !r.is_ring) continue;
    shmt__ring_header* h = r.header;
    shmt__ring_lock_mark_owner_dead(&h->put_lock, client);
    shmt__ring_lock_mark_owner_dead(&h->get_lock, client);
    if (client < SHMT_MAX_CLIENTS && !r.is_bare) {
      atomic_store_explicit(&h->pending[client], 0, memory_order_release);
      atomic_store_explicit(&h->ends[client], 0, memory_order_release);
    }
    /* seq_cst: set before the events, so that a process that they wake sees it. */
    if (atomic_load_explicit(&h->unacked_generation, memory_order_relaxed) != 0)
      atomic_store_explicit(&h->unacked_stale, 1, memory_order_seq_cst);
    SHMT_FAILPOINT(ring_owner_marked_dead);
    shmt__ring_event_signal(&h->data_event, true);
    shmt__ring_event_signal(&h->room_event, true);
    shmt__ring_event_signal(&h->done_event, true);
    shmt__ring_event_signal(&h->watch_event, true);
    unmap_ring(&r);
  }
  /* Also when there is no ring: the client may have been killed right after it had freed the last one. */
  atomic_store_explicit(&k->map.control->rings_stale, 1, memory_order_relaxed);
  return all;
}

/* --- the audit ---
 *
 * Note [Auditing rings]
 * When the manager has the locks of all rings, each block must have as many ring leases as the messages name it. But a
 * stopped process keeps a lock for as long as it is stopped, and this must not keep the memory of others. So when a
 * lock cannot be had soon, the audit notes its word and its owner. While the word stays, only the owner changes the
 * leases of messages that pass that side of the ring, and only of blocks that it holds. Those blocks are left for a
 * later audit; as the owner holds them, nothing is lost by that. There is one moment in which the owner ends leases of
 * blocks that it does not hold (take_locked in ipc/ring/put_get.c). Then the ring's `n_unheld` is odd.
 */

/* The rings beyond the first are mapped for as long as one is looked at. */
static void unmap_if_many(const audit* a, audited_ring* r) {
  if (r - a->rings >= MOST_MAPPED) unmap_ring(&r->mapped);
}

/* False: there is no memory to unlock some ring. The next audit finds that nobody has the locks, and releases them. */
static bool unlock_all(audit* a) {
  bool all = true;
  for (uint32_t i = 0; i < a->n_rings; i++) {
    audited_ring* r = &a->rings[i];
    const bool is_ours = r->mapped.is_ring && (r->put.is_ours || r->get.is_ours);
    if (is_ours && !map_again(a->arena_manager, &r->mapped)) all = false;
    if (is_ours && r->mapped.map != NULL) {
      if (r->put.is_ours) shmt__ring_unlock(&r->mapped.header->put_lock, r->put.word);
      if (r->get.is_ours) shmt__ring_unlock(&r->mapped.header->get_lock, r->get.word);
    }
    unmap_ring(&r->mapped);
  }
  free(a->rings);
  return all;
}

/* A lock is held for microseconds, unless its owner is stopped. So try a few times, and never sleep. */
static audited_lock lock_soon(atomic_uint_least32_t* lock) {
  bool was_dead = false;
  uint32_t word = 0;
  for (int i = 0; word == 0 && i < LOCK_TRIES; i++) {
    word = shmt__ring_try_lock(lock, SHMT_MANAGER_MARKER, &was_dead);
    for (int j = 0; word == 0 && j < 10; j++) shmt__os_pause();
  }
  if (word != 0) return (audited_lock){word, true};
  return (audited_lock){shmt__ring_lock_word(lock), false};
}

static void note_owner(audit* a, uint32_t owner) {
  if (!a->is_owner[owner]) a->owners[a->n_owners++] = owner;
  a->is_owner[owner] = true;
}

/* Is the lock ours, or does a client have it, which may be stopped? If neither, a member has overwritten the word: the
 * lock is released, and the next audit finds it free. */
static bool has_owner(audit* a, atomic_uint_least32_t* lock, const audited_lock* l) {
  uint32_t owner = l->word & SHMT_RING_OWNER_MASK;
  if (l->is_ours) return true;
  if (owner > 0 && owner < SHMT_MAX_CLIENTS &&
      (a->arena_manager->clients[owner].state != SHMT_CLIENT_NONE ||
       shmt__client_is_locked(a->arena_manager->control_fd, owner))) {
    note_owner(a, owner);
    return true;
  }
  shmt__ring_lock_mark_owner_dead(lock, owner);
  return false;
}

/* 0 when we have the lock: what a dead owner has left there means nothing. */
static uint32_t n_unheld(const audited_ring* r) {
  return r->get.is_ours ? 0 : atomic_load_explicit(&r->mapped.header->n_unheld, memory_order_seq_cst);
}

static bool lock_one(audit* a, const shmt__block* b) {
  if (a->n_rings == a->room) {
    uint32_t room = a->room ? a->room * 2 : 16;
    audited_ring* grown = realloc(a->rings, sizeof *grown * room);
    if (grown == NULL) return false;
    a->rings = grown;
    a->room = room;
  }
  audited_ring* r = &a->rings[a->n_rings];
  *r = (audited_ring){.block = b, .generation = generation_of(b)};
  if (!map_ring(a->arena_manager, b, &r->mapped)) return false;
  a->n_rings++;
  shmt__ring_header* h = r->mapped.header;
  if (!r->mapped.is_ring) return true;
  r->put = lock_soon(&h->put_lock);
  SHMT_FAILPOINT(ring_audit_locked);
  r->get = lock_soon(&h->get_lock);
  r->n_unheld = n_unheld(r);
  const bool good =
      has_owner(a, &h->put_lock, &r->put) && has_owner(a, &h->get_lock, &r->get) && r->n_unheld % 2 == 0;
  unmap_if_many(a, r);
  return good;
}

/* The next ring that somebody holds or will hold. */
static const shmt__block* next_kept_ring(const audit* a, uint32_t* slab, uint32_t* i) {
  const shmt__map* m = &a->arena_manager->map;
  const shmt__block* b;
  while ((b = next_ring(a->arena_manager, slab, i)) != NULL) {
    if (shmt__block_is_kept(m, (uint32_t)(b - m->blocks))) return b;
  }
  return NULL;
}

static bool lock_all(audit* a) {
  uint32_t slab = 0, i = 0;
  const shmt__block* b;
  while ((b = next_kept_ring(a, &slab, &i)) != NULL) {
    if (!lock_one(a, b)) return false;
  }
  return true;
}

static void count_block(audit* a, uint32_t block, uint64_t generation) {
  if (block >= a->n_blocks) return;
  uint64_t head = atomic_load_explicit(&a->arena_manager->map.blocks[block].head, memory_order_relaxed);
  if (shmt__head_generation(head) == generation) a->leaks[block]++;
}

/* Count the blocks on the list of a message. False: it cannot be read. Any member can write what it says. */
static bool count_list(audit* a, const shmt__ring_block* list) {
  if (list->block >= a->n_blocks || a->is_counted[list->block]) return true;
  const shmt__slab_view* s = shmt__arena_manager_slab_of(a->arena_manager, list->block);
  const uint32_t n = shmt__ring_list_length(list->nbytes);
  if (s == NULL || s->state != SHMT_SLAB_ARENA || list->nbytes > s->block_bytes || n == 0) return true;
  if (generation_of(&a->arena_manager->map.blocks[list->block]) != list->generation) return true;
  a->is_counted[list->block] = true;
  shmt__ring_reader_begin(&a->list_reader, a->arena_manager->arena_fd, shmt__slab_offset_of(s, list->block),
                          (uint32_t)list->nbytes);
  uint32_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    shmt__ring_block ref;
    if (!shmt__ring_reader_copy(&a->list_reader, &at, &ref, sizeof ref)) return false;
    count_block(a, ref.block, ref.generation);
  }
  return true;
}

/* Count the messages of one ring, up to the first that makes no sense. False: they cannot be read. */
static bool count_messages(audit* a, audited_ring* r) {
  shmt__ring_header* h = r->mapped.header;
  const uint32_t capacity = r->mapped.capacity;
  shmt__ring_reader_begin(&a->reader, a->arena_manager->arena_fd, r->mapped.area_at, capacity);
  /* Note [Unacknowledged messages]. acquire: with the generation, the block. */
  const uint64_t unacked = atomic_load_explicit(&h->unacked_generation, memory_order_acquire);
  if (unacked != 0) count_block(a, atomic_load_explicit(&h->unacked_block, memory_order_relaxed), unacked);
  uint64_t head = r->head = atomic_load_explicit(&h->head, memory_order_acquire);
  uint64_t tail = atomic_load_explicit(&h->tail, memory_order_acquire);
  if (!shmt__ring_position_is_valid(head, capacity) || !shmt__ring_position_is_valid(tail, capacity)) return true;
  /* Go round once at most, whatever the counts say. */
  for (uint32_t left = shmt__ring_used(head, tail, capacity); left > 0;) {
    uint32_t at = shmt__ring_offset(head);
    shmt__ring_message m;
    if (!shmt__ring_reader_copy(&a->reader, &at, &m, sizeof m)) return false;
    if (!shmt__ring_message_is_valid(&m, left)) return true;
    for (uint32_t i = 0; i < m.n_blocks; i++) {
      shmt__ring_block ref;
      if (!shmt__ring_reader_copy(&a->reader, &at, &ref, sizeof ref)) return false;
      count_block(a, ref.block, ref.generation);
      if (i == 0 && (m.flags & SHMT_RING_LISTED) != 0 && !count_list(a, &ref)) return false;
    }
    head = shmt__ring_next(head, m.nbytes, capacity);
    left -= m.nbytes;
  }
  return true;
}

static bool count_all(audit* a) {
  for (uint32_t i = 0; i < a->n_rings; i++) {
    audited_ring* r = &a->rings[i];
    if (!r->mapped.is_ring) continue;
    if (!map_again(a->arena_manager, &r->mapped) || !count_messages(a, r)) return false;
    unmap_if_many(a, r);
  }
  return true;
}

/* Does the owner of a lock that we did not get hold the block? Then it may be changing the block's leases. */
static bool is_in_flux(const audit* a, uint32_t block) {
  for (uint32_t i = 0; i < a->n_owners; i++)
    if (shmt__block_is_held_by(&a->arena_manager->map, block, a->owners[i])) return true;
  return false;
}

/* Turn the counts into how many leases each block has too many. False: some blocks are left for later. */
static bool find_leaks(audit* a) {
  bool all = true;
  for (uint32_t i = 0; i < a->n_blocks; i++) {
    const shmt__block* b = &a->arena_manager->map.blocks[i];
    a->leaks[i] = atomic_load_explicit(&b->n_ring_leases, memory_order_seq_cst) - a->leaks[i];
    if (a->leaks[i] == 0 || !is_in_flux(a, i)) continue;
    a->leaks[i] = 0;
    all = false;
  }
  return all;
}

static bool has_word(const atomic_uint_least32_t* lock, const audited_lock* l) {
  return l->is_ours || shmt__ring_lock_word(lock) == l->word;
}

/* While the head stays, nobody writes over the messages that we read. */
static bool is_unchanged(const audited_ring* r) {
  const shmt__ring_header* h = r->mapped.header;
  return has_word(&h->put_lock, &r->put) && has_word(&h->get_lock, &r->get) && n_unheld(r) == r->n_unheld &&
         atomic_load_explicit(&h->head, memory_order_relaxed) == r->head;
}

/* Is what we counted still all there is? A ring may have been made meanwhile, and may be gone again: the flag that we
 * reset, or the number of rings, says so. */
static bool is_consistent(audit* a) {
  uint32_t slab = 0, i = 0, n = 0;
  const shmt__block* b;
  atomic_thread_fence(memory_order_acquire); /* all that was read, before the words are read again */
  const shmt__control* c = a->arena_manager->map.control;
  if (atomic_load_explicit(&c->rings_stale, memory_order_seq_cst) != 0 ||
      atomic_load_explicit(&c->rings_made, memory_order_seq_cst) != a->rings_made)
    return false;
  for (uint32_t j = 0; j < a->n_rings; j++) {
    audited_ring* r = &a->rings[j];
    if (!r->mapped.is_ring) continue;
    if (!map_again(a->arena_manager, &r->mapped) || !is_unchanged(r)) return false;
    unmap_if_many(a, r);
  }
  while ((b = next_kept_ring(a, &slab, &i)) != NULL) {
    while (n < a->n_rings && a->rings[n].block != b) n++; /* the same order as before */
    if (n == a->n_rings || a->rings[n].generation != generation_of(b)) return false;
  }
  return true;
}

/* Subtract what is too much: processes whose locks we do not have may be adding and ending leases meanwhile. */
static void correct(const audit* a) {
  for (uint32_t i = 0; i < a->n_blocks; i++) {
    if (a->leaks[i] != 0)
      atomic_fetch_sub_explicit(&a->arena_manager->map.blocks[i].n_ring_leases, a->leaks[i],
                                memory_order_seq_cst);
    SHMT_FAILPOINT(ring_audit_corrected);
  }
}

bool shmt__rings_audit(shmt__arena_manager* k) {
  shmt__control* c = k->map.control;
  /* seq_cst: whatever made the counts wrong happened before the flag was set, so the count sees it. */
  if (atomic_exchange_explicit(&c->rings_stale, 0, memory_order_seq_cst) == 0) return true;
  audit a;
  a.arena_manager = k;
  a.rings = NULL;
  a.n_rings = a.room = a.n_owners = 0;
  memset(a.is_owner, 0, sizeof a.is_owner);
  a.n_blocks = k->blocks_end;
  a.rings_made = atomic_load_explicit(&c->rings_made, memory_order_seq_cst);
  a.leaks = calloc(a.n_blocks > 0 ? a.n_blocks : 1, sizeof *a.leaks);
  a.is_counted = calloc(a.n_blocks > 0 ? a.n_blocks : 1, sizeof *a.is_counted);
  bool all = false;
  if (a.leaks != NULL && a.is_counted != NULL && lock_all(&a) && count_all(&a)) {
    all = find_leaks(&a);
    if (is_consistent(&a))
      correct(&a);
    else
      all = false;
    shmt__map_note_activity(&k->map);
  }
  all = unlock_all(&a) && all;
  if (!all) atomic_store_explicit(&c->rings_stale, 1, memory_order_relaxed);
  free(a.leaks);
  free(a.is_counted);
  return all;
}
