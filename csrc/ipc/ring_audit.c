/* ipc/ring_audit.c -- the manager's part in rings: dead owners of locks, and lost ring leases. */
#include "ipc/ring_audit.h"

#include "ipc/handle.h"
#include "ipc/ring_layout.h"
#include "ipc/ring_lock.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "shm/block.h"

#include <stdlib.h>

enum { LOCK_TRIES = 100 };

/* A ring that is being audited: mapped and locked. */
typedef struct locked_ring {
  shmt__ring_header* header;
  uint32_t put_word, get_word;
} locked_ring;

/* --- finding --- */

static bool is_ring(const shmt__block* b) {
  uint64_t head = atomic_load_explicit(&b->head, memory_order_acquire);
  uint64_t nbytes = atomic_load_explicit(&b->nbytes, memory_order_acquire);
  shmt__block_state state = shmt__head_state(head);
  return nbytes == (SHMT_RING_BYTES | SHMT_BLOCK_IS_RING) && b->capacity >= SHMT_RING_BYTES &&
         (state == SHMT_BLOCK_USED || state == SHMT_BLOCK_RECLAIM);
}

static shmt__ring_header* map_ring(const shmt__keeper* k, const shmt__block* b) {
  void* p = NULL;
  if (!shmt__os_map_part(k->arena_fd, b->offset, SHMT_RING_BYTES, &p)) return NULL;
  return p;
}

/* The index of the next ring among the blocks from *i of slab *slab on; NULL at the end. */
static shmt__block* next_ring(const shmt__keeper* k, uint32_t* slab, uint32_t* i) {
  uint32_t end = shmt__map_slabs_end(&k->map);
  for (; *slab < end; ++*slab, *i = 0) {
    shmt__slab_view s;
    if (!shmt__slab_read(&k->map, *slab, &s) || s.state != SHMT_SLAB_ARENA) continue;
    if (s.block_bytes < SHMT_RING_BYTES) continue;
    while (*i < s.n_blocks) {
      shmt__block* b = &k->map.blocks[s.first_block + (*i)++];
      if (is_ring(b)) return b;
    }
  }
  return NULL;
}

/* --- a dead client --- */

void shmt__rings_erase_client(shmt__keeper* k, uint32_t client) {
  uint32_t slab = 0, i = 0;
  shmt__block* b;
  while ((b = next_ring(k, &slab, &i)) != NULL) {
    shmt__ring_header* h = map_ring(k, b);
    if (h == NULL) continue;
    shmt__ring_lock_bury(&h->put_lock, client);
    shmt__ring_lock_bury(&h->get_lock, client);
    if (client < SHMT_MAX_CLIENTS) {
      atomic_store_explicit(&h->pending[client], 0, memory_order_release);
      atomic_store_explicit(&h->ends[client], 0, memory_order_release);
    }
    SHMT_FAILPOINT(ring_buried);
    shmt__ring_event_signal(&h->data_event, true);
    shmt__ring_event_signal(&h->room_event, true);
    shmt__ring_event_signal(&h->done_event, true);
    shmt__ring_event_signal(&h->watch_event, true);
    shmt__os_unmap(h, SHMT_RING_BYTES);
    atomic_store_explicit(&k->map.control->rings_stale, 1, memory_order_relaxed);
  }
}

/* --- the audit --- */

static void unlock_all(locked_ring* rings, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (rings[i].put_word != 0) shmt__ring_unlock(&rings[i].header->put_lock, rings[i].put_word);
    if (rings[i].get_word != 0) shmt__ring_unlock(&rings[i].header->get_lock, rings[i].get_word);
    shmt__os_unmap(rings[i].header, SHMT_RING_BYTES);
  }
  free(rings);
}

/* A lock is held for microseconds, unless its owner was stopped: so a few tries, and no sleep. */
static uint32_t lock_soon(atomic_uint_least32_t* lock) {
  bool was_dead = false;
  uint32_t word = 0;
  for (int i = 0; word == 0 && i < LOCK_TRIES; i++) {
    word = shmt__ring_try_lock(lock, SHMT_MANAGER_MARKER, &was_dead);
    for (int j = 0; word == 0 && j < 10; j++) shmt__os_pause();
  }
  return word;
}

static bool lock_one(const shmt__keeper* k, const shmt__block* b, locked_ring* out) {
  *out = (locked_ring){.header = map_ring(k, b)};
  if (out->header == NULL) return false;
  out->put_word = lock_soon(&out->header->put_lock);
  SHMT_FAILPOINT(ring_audit_locked);
  if (out->put_word != 0) out->get_word = lock_soon(&out->header->get_lock);
  return out->get_word != 0;
}

/* Lock the rings that somebody has or will have; false when one is taken. */
static bool lock_all(const shmt__keeper* k, locked_ring** out, uint32_t* out_n) {
  uint32_t slab = 0, i = 0, n = 0, room = 0;
  locked_ring* rings = NULL;
  const shmt__block* b;
  while ((b = next_ring(k, &slab, &i)) != NULL) {
    if (!shmt__block_is_kept(&k->map, (uint32_t)(b - k->map.blocks))) continue;
    if (n == room) {
      room = room ? room * 2 : 16;
      locked_ring* grown = realloc(rings, sizeof *rings * room);
      if (grown == NULL) break;
      rings = grown;
    }
    bool good = lock_one(k, b, &rings[n]);
    if (rings[n].header != NULL) n++;
    if (!good) break;
  }
  *out = rings;
  *out_n = n;
  if (b == NULL) return true;
  unlock_all(rings, n);
  return false;
}

static void count_message(const shmt__keeper* k, shmt__ring_header* h, uint32_t offset,
                          uint32_t n_blocks, uint32_t* counts, uint32_t n_counts) {
  enum { CAPACITY = SHMT_RING_BYTES - SHMT_RING_DATA };
  uint32_t at = (uint32_t)((offset + sizeof(shmt__ring_message)) % CAPACITY);
  for (uint32_t i = 0; i < n_blocks; i++) {
    shmt__ring_block ref;
    at = shmt__ring_read(h, CAPACITY, at, &ref, sizeof ref);
    if (ref.block >= n_counts) continue;
    const shmt__block* b = &k->map.blocks[ref.block];
    uint64_t head = atomic_load_explicit(&b->head, memory_order_relaxed);
    if (shmt__head_generation(head) == ref.generation) counts[ref.block]++;
  }
}

/* The messages of one ring; stops at the first that makes no sense. */
static void count_ring(const shmt__keeper* k, shmt__ring_header* h, uint32_t* counts,
                       uint32_t n_counts) {
  enum { CAPACITY = SHMT_RING_BYTES - SHMT_RING_DATA };
  uint64_t head = atomic_load_explicit(&h->head, memory_order_acquire);
  uint64_t tail = atomic_load_explicit(&h->tail, memory_order_acquire);
  for (uint32_t looks = CAPACITY / sizeof(shmt__ring_message); looks > 0; looks--) {
    uint32_t offset = shmt__ring_offset(head);
    uint32_t used = shmt__ring_used(head, tail, CAPACITY);
    shmt__ring_message m;
    bool good = offset < CAPACITY && offset % 8 == 0 && shmt__ring_offset(tail) < CAPACITY &&
                used > 0 && used <= CAPACITY;
    if (!good) return;
    (void)shmt__ring_read(h, CAPACITY, offset, &m, sizeof m);
    if (!shmt__ring_message_fits(&m, used)) return;
    count_message(k, h, offset, m.n_blocks, counts, n_counts);
    head = shmt__ring_next(head, m.nbytes, CAPACITY);
  }
}

static void correct(const shmt__keeper* k, const uint32_t* counts, uint32_t n_counts) {
  for (uint32_t i = 0; i < n_counts; i++) {
    shmt__block* b = &k->map.blocks[i];
    if (atomic_load_explicit(&b->n_ring_leases, memory_order_relaxed) != counts[i])
      atomic_store_explicit(&b->n_ring_leases, counts[i], memory_order_seq_cst);
    SHMT_FAILPOINT(ring_audit_corrected);
  }
}

bool shmt__rings_audit(shmt__keeper* k) {
  shmt__control* c = k->map.control;
  locked_ring* rings = NULL;
  uint32_t n_rings = 0;
  /* seq_cst: what made the counts wrong happened before the mark, and is seen by the count. */
  if (atomic_exchange_explicit(&c->rings_stale, 0, memory_order_seq_cst) == 0) return true;
  uint32_t n = shmt__map_blocks_end(&k->map);
  uint32_t* counts = calloc(n > 0 ? n : 1, sizeof *counts);
  bool good = counts != NULL && lock_all(k, &rings, &n_rings);
  if (good) {
    for (uint32_t i = 0; i < n_rings; i++) count_ring(k, rings[i].header, counts, n);
    correct(k, counts, n);
    unlock_all(rings, n_rings);
    shmt__map_note_activity(&k->map);
  } else {
    atomic_store_explicit(&c->rings_stale, 1, memory_order_relaxed);
  }
  free(counts);
  return good;
}
