/* shm/block.c -- the steps on a block's record: hold, lease, reclaim. See the Notes in
 * shm/layout.h.
 *
 * seq_cst everywhere in the hold/lease/reclaim protocol: it is a store on one side and a load on
 * the other, both ways round (Dekker's pattern), which acquire and release do not order.
 */
#include "shm/block.h"

#include "os/failpoint.h"
#include "os/process.h"

/* A hold or lease was just added: is the block still of this generation? Takes off a reclaimer's
 * mark. */
static bool confirm(shmt__block* b, uint64_t generation) {
  uint64_t head = atomic_load_explicit(&b->head, memory_order_seq_cst);
  for (;;) {
    if (shmt__head_generation(head) != generation) return false;
    switch (shmt__head_state(head)) {
      case SHMT_BLOCK_USED:
        return true;
      case SHMT_BLOCK_RECLAIM:
        /* The reclaimer may have looked before our bit was there. Its commit expects its own mark.
         */
        if (atomic_compare_exchange_strong_explicit(&b->head, &head,
                                                    shmt__head(generation, 0, SHMT_BLOCK_USED),
                                                    memory_order_seq_cst, memory_order_seq_cst))
          return true;
        break; /* committed, or put back by someone else: look again */
      case SHMT_BLOCK_NONE:
      case SHMT_BLOCK_COLD:
      case SHMT_BLOCK_FREE:
      case SHMT_BLOCK_TRIM:
        return false;
    }
  }
}

bool shmt__block_hold(shmt__block* b, unsigned client, uint64_t generation) {
  atomic_uint_least64_t* word = &b->holds[client / 64];
  uint64_t bit = (uint64_t)1 << (client % 64);
  /* The caller will write this line (end a lease) after confirm() reads it: fetch it once, to
   * write. */
  __builtin_prefetch(&b->leases, 1);
  /* seq_cst, first the bit and then the head: Note [Reclaiming]. */
  atomic_fetch_or_explicit(word, bit, memory_order_seq_cst);
  SHMT_FAILPOINT(hold_set);
  if (SHMT_LIKELY(confirm(b, generation))) return true;
  atomic_fetch_and_explicit(word, ~bit, memory_order_release);
  return false;
}

void shmt__block_unhold(shmt__block* b, unsigned client) {
  /* seq_cst (at least release): our uses of the bytes happen before anybody sees the bit gone. */
  atomic_fetch_and_explicit(&b->holds[client / 64], ~((uint64_t)1 << (client % 64)),
                            memory_order_seq_cst);
}

bool shmt__block_is_held_by(const shmt__block* b, unsigned client) {
  return atomic_load_explicit(&b->holds[client / 64], memory_order_relaxed) >> (client % 64) & 1;
}

bool shmt__block_is_last_held_by(const shmt__block* b, unsigned client) {
  for (unsigned i = 0; i < SHMT_HOLD_WORDS; i++) {
    uint64_t ours = i == client / 64 ? (uint64_t)1 << (client % 64) : 0;
    if (atomic_load_explicit(&b->holds[i], memory_order_seq_cst) != ours) return false;
  }
  return shmt__block_n_leases(b) == 0;
}

unsigned shmt__block_lease(shmt__block* b, uint64_t generation) {
  unsigned lease = SHMT_PLAIN_LEASE;
  uint64_t seen = atomic_load_explicit(&b->leases, memory_order_relaxed);
  while (~seen != 0) {
    unsigned i = (unsigned)__builtin_ctzll(~seen);
    /* seq_cst, then the head: Note [Reclaiming]. */
    seen = atomic_fetch_or_explicit(&b->leases, (uint64_t)1 << i, memory_order_seq_cst);
    if (!(seen >> i & 1)) {
      lease = i;
      break;
    }
  }
  if (lease == SHMT_PLAIN_LEASE) {
    shmt__block_plain_lease(b, generation);
    return lease;
  }
  atomic_store_explicit(&b->stamp_ms, (uint32_t)shmt__os_now_ms(), memory_order_relaxed);
  SHMT_FAILPOINT(lease_set);
  /* Cannot fail: the caller's hold keeps the block. It only takes off a mark. */
  (void)confirm(b, generation);
  return lease;
}

void shmt__block_plain_lease(shmt__block* b, uint64_t generation) {
  atomic_fetch_add_explicit(&b->n_plain_leases, 1, memory_order_seq_cst);
  atomic_store_explicit(&b->stamp_ms, (uint32_t)shmt__os_now_ms(), memory_order_relaxed);
  (void)confirm(b, generation);
}

bool shmt__block_end_lease(shmt__block* b, unsigned lease) {
  if (lease < 64) {
    uint64_t bit = (uint64_t)1 << lease;
    return atomic_fetch_and_explicit(&b->leases, ~bit, memory_order_seq_cst) & bit;
  }
  if (lease != SHMT_PLAIN_LEASE) return false;
  uint32_t n = atomic_load_explicit(&b->n_plain_leases, memory_order_relaxed);
  while (n > 0) {
    if (atomic_compare_exchange_weak_explicit(&b->n_plain_leases, &n, n - 1, memory_order_seq_cst,
                                              memory_order_relaxed))
      return true;
  }
  return false;
}

void shmt__block_ring_lease(shmt__block* b, uint64_t generation) {
  /* seq_cst, then the head: Note [Reclaiming]. */
  atomic_fetch_add_explicit(&b->n_ring_leases, 1, memory_order_seq_cst);
  SHMT_FAILPOINT(ring_lease_set);
  /* Cannot fail: the caller's hold keeps the block. */
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
  uint64_t bits = atomic_load_explicit(&b->leases, memory_order_seq_cst);
  return (unsigned)__builtin_popcountll(bits) +
         atomic_load_explicit(&b->n_plain_leases, memory_order_seq_cst) +
         atomic_load_explicit(&b->n_ring_leases, memory_order_seq_cst);
}

void shmt__block_clear_leases(shmt__block* b) {
  atomic_store_explicit(&b->leases, 0, memory_order_seq_cst);
  atomic_store_explicit(&b->n_plain_leases, 0, memory_order_seq_cst);
}

bool shmt__block_is_kept(const shmt__block* b, unsigned clients_end) {
  if (atomic_load_explicit(&b->leases, memory_order_seq_cst) != 0) return true;
  if (atomic_load_explicit(&b->n_plain_leases, memory_order_seq_cst) != 0) return true;
  if (atomic_load_explicit(&b->n_ring_leases, memory_order_seq_cst) != 0) return true;
  for (unsigned i = 0; i * 64 < clients_end; i++) {
    if (atomic_load_explicit(&b->holds[i], memory_order_seq_cst) != 0) return true;
  }
  return false;
}

bool shmt__block_reclaim(shmt__block* b, unsigned marker, unsigned clients_end) {
  uint64_t head = atomic_load_explicit(&b->head, memory_order_seq_cst);
  uint64_t generation = shmt__head_generation(head);
  uint64_t mark = shmt__head(generation, marker, SHMT_BLOCK_RECLAIM);
  if (shmt__head_state(head) != SHMT_BLOCK_USED) return false;
  /* A look before marking: marking a block in use would make others take the mark off. */
  if (shmt__block_is_kept(b, clients_end)) return false;
  if (!atomic_compare_exchange_strong_explicit(&b->head, &head, mark, memory_order_seq_cst,
                                               memory_order_relaxed))
    return false;
  SHMT_FAILPOINT(reclaim_marked);
  uint64_t expected = mark;
  if (shmt__block_is_kept(b, SHMT_MAX_CLIENTS)) {
    /* Fails when somebody took the mark off first, which is what we want. */
    (void)atomic_compare_exchange_strong_explicit(&b->head, &expected,
                                                  shmt__head(generation, 0, SHMT_BLOCK_USED),
                                                  memory_order_seq_cst, memory_order_relaxed);
    return false;
  }
  atomic_store_explicit(&b->stamp_ms, (uint32_t)shmt__os_now_ms(), memory_order_relaxed);
  SHMT_FAILPOINT(reclaim_checked);
  return atomic_compare_exchange_strong_explicit(&b->head, &expected,
                                                 shmt__head(generation + 1, 0, SHMT_BLOCK_FREE),
                                                 memory_order_seq_cst, memory_order_relaxed);
}

void shmt__block_unmark(shmt__block* b, unsigned marker) {
  uint64_t head = atomic_load_explicit(&b->head, memory_order_seq_cst);
  if (shmt__head_state(head) == SHMT_BLOCK_RECLAIM && shmt__head_marker(head) == marker)
    (void)atomic_compare_exchange_strong_explicit(
        &b->head, &head, shmt__head(shmt__head_generation(head), 0, SHMT_BLOCK_USED),
        memory_order_seq_cst, memory_order_relaxed);
}

bool shmt__block_take(shmt__block* b, unsigned client, uint64_t nbytes, uint64_t* out_generation) {
  uint64_t head = atomic_load_explicit(&b->head, memory_order_acquire);
  shmt__block_state state = shmt__head_state(head);
  if (state != SHMT_BLOCK_FREE && state != SHMT_BLOCK_COLD) return false;
  uint64_t generation = shmt__head_generation(head);
  /* The hold before USED: a USED block without a hold is free for the taking. */
  atomic_fetch_or_explicit(&b->holds[client / 64], (uint64_t)1 << (client % 64),
                           memory_order_relaxed);
  atomic_store_explicit(&b->nbytes, nbytes, memory_order_relaxed);
  SHMT_FAILPOINT(take_held);
  /* acq_rel: after the last user's uses, and the stores above are seen with USED. */
  if (atomic_compare_exchange_strong_explicit(&b->head, &head,
                                              shmt__head(generation, 0, SHMT_BLOCK_USED),
                                              memory_order_acq_rel, memory_order_relaxed)) {
    *out_generation = generation;
    return true;
  }
  shmt__block_unhold(b, client);
  return false;
}

bool shmt__block_begin_trim(shmt__block* b) {
  uint64_t head = atomic_load_explicit(&b->head, memory_order_relaxed);
  shmt__block_state state = shmt__head_state(head);
  if (state != SHMT_BLOCK_FREE && state != SHMT_BLOCK_COLD) return false;
  /* acq_rel: the pages go after the last use of the bytes. */
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
