/* shm/block.c -- the atomic steps on a block's record: hold, lease, reclaim. See the Notes in shm/control_file.h.
 *
 * The hold/lease/reclaim protocol uses seq_cst everywhere: each side stores one word and then loads the other's
 * (Dekker's pattern), and acquire and release do not order that.
 */
#include "shm/block.h"

#include "os/clock.h"
#include "os/failpoint.h"

/* A hold or lease was just added: is the block still of this generation? Takes off the mark of a reclaimer. */
static bool confirm(shmt__block* b, uint64_t generation) {
  uint64_t head = atomic_load_explicit(&b->head, memory_order_seq_cst);
  for (;;) {
    if (shmt__head_generation(head) != generation) return false;
    switch (shmt__head_state(head)) {
      case SHMT_BLOCK_USED:
        return true;
      case SHMT_BLOCK_RECLAIM:
        /* The reclaimer may have looked before our bit was there. Its last step fails without its mark. */
        if (atomic_compare_exchange_strong_explicit(&b->head, &head,
                                                    shmt__head(generation, 0, SHMT_BLOCK_USED),
                                                    memory_order_seq_cst, memory_order_seq_cst))
          return true;
        break; /* it was freed, or someone else took the mark off: look again */
      case SHMT_BLOCK_NONE:
      case SHMT_BLOCK_COLD:
      case SHMT_BLOCK_FREE:
      case SHMT_BLOCK_TRIM:
        return false;
      default: /* not a state: a member wrote over it */
        return false;
    }
  }
}

/* The word with the client's bit: Note [Holds]. */
static atomic_uint_least64_t* word_of(const shmt__map* m, uint32_t block, unsigned word) {
  if (SHMT_LIKELY(word < SHMT_NEAR_WORDS)) return &m->blocks[block].holds[word];
  uint64_t plane = word / SHMT_NEAR_WORDS - 1;
  return &m->far_holds[plane * m->fixed.n_blocks + block].words[word % SHMT_NEAR_WORDS];
}

static uint64_t bit_of(unsigned client) { return (uint64_t)1 << (client % 64); }

bool shmt__block_hold(const shmt__map* m, uint32_t block, unsigned client, uint64_t generation) {
  shmt__block* b = &m->blocks[block];
  atomic_uint_least64_t* word = word_of(m, block, client / 64);
  shmt__block_prefetch(m, block);
  /* seq_cst, first the bit and then the head: Note [Reclaiming]. */
  atomic_fetch_or_explicit(word, bit_of(client), memory_order_seq_cst);
  SHMT_FAILPOINT(hold_set);
  if (SHMT_LIKELY(confirm(b, generation))) return true;
  atomic_fetch_and_explicit(word, ~bit_of(client), memory_order_release);
  /* A sweep may have seen the bit, and left a block that nobody else holds. */
  shmt__map_note_activity(m);
  return false;
}

void shmt__block_unhold(const shmt__map* m, uint32_t block, unsigned client) {
  /* seq_cst (at least release): our uses of the bytes happen before anybody sees the bit gone. */
  atomic_fetch_and_explicit(word_of(m, block, client / 64), ~bit_of(client), memory_order_seq_cst);
}

bool shmt__block_is_held_by(const shmt__map* m, uint32_t block, unsigned client) {
  return (atomic_load_explicit(word_of(m, block, client / 64), memory_order_relaxed) &
          bit_of(client)) != 0;
}

uint64_t shmt__block_holds(const shmt__map* m, uint32_t block, unsigned word) {
  return atomic_load_explicit(word_of(m, block, word), memory_order_seq_cst);
}

/* How many words may have bits. A client beyond them takes its number before its first hold, and so finds our mark if
 * we have made one. */
static unsigned words_end(const shmt__map* m) { return (shmt__map_clients_end(m) + 63) / 64; }

bool shmt__block_is_last_held_by(const shmt__map* m, uint32_t block, unsigned client) {
  unsigned end = words_end(m);
  for (unsigned i = 0; i < end; i++) {
    uint64_t ours = i == client / 64 ? bit_of(client) : 0;
    if (shmt__block_holds(m, block, i) != ours) return false;
  }
  return shmt__block_n_leases(&m->blocks[block]) == 0;
}

void shmt__block_clear_holds(const shmt__map* m, uint32_t block) {
  unsigned end = words_end(m);
  for (unsigned i = 0; i < end; i++) {
    if (shmt__block_holds(m, block, i) != 0)
      atomic_store_explicit(word_of(m, block, i), 0, memory_order_relaxed);
  }
}

enum { LEASE_CHANGE_SHIFT = 32 };

void shmt__block_add_lease(shmt__block* b, uint64_t generation, uint32_t now_ms) {
  /* seq_cst, then the head: Note [Reclaiming]. */
  atomic_fetch_add_explicit(&b->leases, (UINT64_C(1) << LEASE_CHANGE_SHIFT) + 1,
                            memory_order_seq_cst);
  atomic_store_explicit(&b->stamp_ms, now_ms, memory_order_relaxed);
  SHMT_FAILPOINT(lease_set);
  /* Cannot fail, since the caller holds the block. It only takes off a mark. */
  (void)confirm(b, generation);
}

void shmt__block_drop_lease(shmt__block* b) {
  uint64_t seen = atomic_load_explicit(&b->leases, memory_order_relaxed);
  uint64_t change = (UINT64_C(1) << LEASE_CHANGE_SHIFT) - 1; /* a change more, a lease fewer */
  while ((uint32_t)seen > 0 &&
         !atomic_compare_exchange_weak_explicit(&b->leases, &seen, seen + change,
                                                memory_order_seq_cst, memory_order_relaxed)) {
  }
}

void shmt__block_add_plain_lease(shmt__block* b, uint64_t generation) {
  atomic_fetch_add_explicit(&b->n_plain_leases, 1, memory_order_seq_cst);
  atomic_store_explicit(&b->stamp_ms, (uint32_t)shmt__os_wall_ms(), memory_order_relaxed);
  (void)confirm(b, generation);
}

bool shmt__block_end_plain_lease(shmt__block* b) {
  uint32_t n = atomic_load_explicit(&b->n_plain_leases, memory_order_relaxed);
  while (n > 0) {
    if (atomic_compare_exchange_weak_explicit(&b->n_plain_leases, &n, n - 1, memory_order_seq_cst,
                                              memory_order_relaxed))
      return true;
  }
  return false;
}

uint32_t shmt__block_end_plain_leases(shmt__block* b) {
  return atomic_exchange_explicit(&b->n_plain_leases, 0, memory_order_seq_cst);
}

void shmt__block_add_ring_lease(shmt__block* b, uint64_t generation) {
  /* seq_cst, then the head: Note [Reclaiming]. */
  atomic_fetch_add_explicit(&b->n_ring_leases, 1, memory_order_seq_cst);
  SHMT_FAILPOINT(ring_lease_set);
  /* Cannot fail, since the caller holds the block. */
  (void)confirm(b, generation);
}

void shmt__block_end_ring_lease(shmt__block* b) {
  uint32_t n = atomic_load_explicit(&b->n_ring_leases, memory_order_relaxed);
  while (n > 0 &&
         !atomic_compare_exchange_weak_explicit(&b->n_ring_leases, &n, n - 1, memory_order_seq_cst,
                                                memory_order_relaxed)) {
  }
}

unsigned shmt__block_n_leases(const shmt__block* b) {
  return (uint32_t)atomic_load_explicit(&b->leases, memory_order_seq_cst) +
         atomic_load_explicit(&b->n_plain_leases, memory_order_seq_cst) +
         atomic_load_explicit(&b->n_ring_leases, memory_order_seq_cst);
}

void shmt__block_clear_leases(shmt__block* b) {
  uint64_t seen = atomic_load_explicit(&b->leases, memory_order_relaxed), none;
  do {
    none = ((seen >> LEASE_CHANGE_SHIFT) + 1) << LEASE_CHANGE_SHIFT;
  } while (!atomic_compare_exchange_weak_explicit(&b->leases, &seen, none, memory_order_seq_cst,
                                                  memory_order_relaxed));
  atomic_store_explicit(&b->n_plain_leases, 0, memory_order_seq_cst);
}

bool shmt__block_is_kept(const shmt__map* m, uint32_t block) {
  const shmt__block* b = &m->blocks[block];
  if ((uint32_t)atomic_load_explicit(&b->leases, memory_order_seq_cst) != 0) return true;
  if (atomic_load_explicit(&b->n_plain_leases, memory_order_seq_cst) != 0) return true;
  if (atomic_load_explicit(&b->n_ring_leases, memory_order_seq_cst) != 0) return true;
  unsigned end = words_end(m);
  for (unsigned i = 0; i < end; i++) {
    if (shmt__block_holds(m, block, i) != 0) return true;
  }
  return false;
}

bool shmt__block_reclaim(const shmt__map* m, uint32_t block, unsigned marker) {
  shmt__block* b = &m->blocks[block];
  uint64_t head = atomic_load_explicit(&b->head, memory_order_seq_cst);
  uint64_t generation = shmt__head_generation(head);
  uint64_t mark = shmt__head(generation, marker, SHMT_BLOCK_RECLAIM);
  if (shmt__head_state(head) != SHMT_BLOCK_USED) return false;
  /* Look before marking: others would have to take the mark off a block that is in use. */
  if (shmt__block_is_kept(m, block)) return false;
  if (!atomic_compare_exchange_strong_explicit(&b->head, &head, mark, memory_order_seq_cst,
                                               memory_order_relaxed))
    return false;
  SHMT_FAILPOINT(reclaim_marked);
  uint64_t expected = mark;
  if (shmt__block_is_kept(m, block)) {
    /* This fails when another process took the mark off first, which is as good. */
    (void)atomic_compare_exchange_strong_explicit(&b->head, &expected,
                                                  shmt__head(generation, 0, SHMT_BLOCK_USED),
                                                  memory_order_seq_cst, memory_order_relaxed);
    return false;
  }
  atomic_store_explicit(&b->stamp_ms, (uint32_t)shmt__os_wall_ms(), memory_order_relaxed);
  bool is_ring = (atomic_load_explicit(&b->nbytes, memory_order_relaxed) & SHMT_BLOCK_IS_RING) != 0;
  SHMT_FAILPOINT(reclaim_checked);
  if (!atomic_compare_exchange_strong_explicit(&b->head, &expected, shmt__head(generation + 1, 0, SHMT_BLOCK_FREE),
                                               memory_order_seq_cst, memory_order_relaxed))
    return false;
  /* Nobody will end the leases of its messages: have the manager audit them. */
  if (SHMT_UNLIKELY(is_ring)) atomic_store_explicit(&m->control->rings_stale, 1, memory_order_seq_cst);
  return true;
}

void shmt__block_unmark(shmt__block* b, unsigned marker) {
  uint64_t head = atomic_load_explicit(&b->head, memory_order_seq_cst);
  if (shmt__head_state(head) == SHMT_BLOCK_RECLAIM && shmt__head_marker(head) == marker)
    (void)atomic_compare_exchange_strong_explicit(
        &b->head, &head, shmt__head(shmt__head_generation(head), 0, SHMT_BLOCK_USED),
        memory_order_seq_cst, memory_order_relaxed);
}

/* Another was faster. It, or a sweep, may have seen our bit, and left a block that nobody else holds. */
static void fail_take(const shmt__map* m, uint32_t block, unsigned client) {
  shmt__block_unhold(m, block, client);
  shmt__map_note_activity(m);
}

bool shmt__block_take(const shmt__map* m, uint32_t block, unsigned client, uint64_t nbytes,
                      uint64_t* out_generation) {
  shmt__block* b = &m->blocks[block];
  uint64_t head = atomic_load_explicit(&b->head, memory_order_acquire);
  shmt__block_state state = shmt__head_state(head);
  if (state != SHMT_BLOCK_FREE && state != SHMT_BLOCK_COLD) return false;
  uint64_t generation = shmt__head_generation(head);
  /* The hold comes before USED: a USED block without a hold may be freed by anyone. */
  atomic_fetch_or_explicit(word_of(m, block, client / 64), bit_of(client), memory_order_relaxed);
  atomic_store_explicit(&b->nbytes, nbytes, memory_order_relaxed);
  SHMT_FAILPOINT(take_held);
  /* acq_rel: we come after the last user's accesses, and whoever sees USED sees the stores above. */
  if (atomic_compare_exchange_strong_explicit(&b->head, &head,
                                              shmt__head(generation, 0, SHMT_BLOCK_USED),
                                              memory_order_acq_rel, memory_order_relaxed)) {
    *out_generation = generation;
    return true;
  }
  fail_take(m, block, client);
  return false;
}

bool shmt__block_reuse(const shmt__map* m, uint32_t block, unsigned client, uint64_t nbytes,
                            uint64_t generation) {
  shmt__block* b = &m->blocks[block];
  uint64_t head = shmt__head(generation, 0, SHMT_BLOCK_FREE);
  if (atomic_load_explicit(&b->head, memory_order_relaxed) != head) return false;
  atomic_fetch_or_explicit(word_of(m, block, client / 64), bit_of(client), memory_order_relaxed);
  SHMT_FAILPOINT(take_held);
  if (atomic_compare_exchange_strong_explicit(&b->head, &head,
                                              shmt__head(generation, 0, SHMT_BLOCK_USED),
                                              memory_order_acq_rel, memory_order_relaxed)) {
    /* Only now: nobody else has a handle yet, but before this step the block may have been another's. */
    atomic_store_explicit(&b->nbytes, nbytes, memory_order_relaxed);
    return true;
  }
  fail_take(m, block, client);
  return false;
}

bool shmt__block_begin_trim(shmt__block* b) {
  uint64_t head = atomic_load_explicit(&b->head, memory_order_relaxed);
  shmt__block_state state = shmt__head_state(head);
  if (state != SHMT_BLOCK_FREE && state != SHMT_BLOCK_COLD) return false;
  /* acq_rel: the pages are returned after the last access to the bytes. */
  return atomic_compare_exchange_strong_explicit(
      &b->head, &head,
      shmt__head(shmt__head_generation(head), SHMT_MANAGER_MARKER, SHMT_BLOCK_TRIM),
      memory_order_acq_rel, memory_order_relaxed);
}

void shmt__block_fail_trim(shmt__block* b) {
  atomic_store_explicit(&b->warm, 0, memory_order_relaxed);
  shmt__block_end_trim(b, false);
}

void shmt__block_end_trim(shmt__block* b, bool trimmed) {
  uint64_t generation = shmt__head_generation(atomic_load_explicit(&b->head, memory_order_relaxed));
  if (trimmed) atomic_store_explicit(&b->warm, 0, memory_order_relaxed);
  /* release: whoever takes the block sees `warm`. Nobody else changes a head in TRIM. */
  atomic_store_explicit(&b->head,
                        shmt__head(generation, 0, trimmed ? SHMT_BLOCK_COLD : SHMT_BLOCK_FREE),
                        memory_order_release);
}
