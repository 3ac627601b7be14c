/* ipc/ring/lock.c -- locks and events in a ring. See the Notes in ipc/ring/lock.h. */
#include "ipc/ring/lock.h"

#include "os/failpoint.h"

#include <limits.h>

enum {
  SLEEPERS = 1u << 31,
  SERIAL_SHIFT = 14,
  SERIAL_MASK = 0x1ffff,
  ONE_SLEEPER = 1,
  MORE_SLEEPERS = 2,
  NEXT_EVENT = 4
};

static atomic_uint_least32_t last_serial; /* relaxed: only to differ */

static uint32_t make_word(unsigned owner) {
  uint32_t serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed);
  return (serial & SERIAL_MASK) << SERIAL_SHIFT | (owner & SHMT_RING_OWNER_MASK);
}

static bool is_takable(uint32_t word) {
  return (word & ~(uint32_t)SLEEPERS) == 0 || (word & SHMT_RING_OWNER_MASK) == SHMT_RING_OWNER_DEAD;
}

static uint32_t take_lock(atomic_uint_least32_t* lock, uint32_t mine, bool* was_dead) {
  uint32_t word = atomic_load_explicit(lock, memory_order_relaxed);
  while (is_takable(word)) {
    /* acquire: what the last owner did is seen. The sleepers' bit stays. */
    if (atomic_compare_exchange_weak_explicit(lock, &word, mine | (word & SLEEPERS),
                                              memory_order_acquire, memory_order_relaxed)) {
      *was_dead = (word & SHMT_RING_OWNER_MASK) == SHMT_RING_OWNER_DEAD;
      return mine;
    }
  }
  return 0;
}

uint32_t shmt__ring_try_lock(atomic_uint_least32_t* lock, unsigned owner, bool* was_dead) {
  return take_lock(lock, make_word(owner), was_dead);
}

uint32_t shmt__ring_try_lock_contended(atomic_uint_least32_t* lock, unsigned owner,
                                       bool* was_dead) {
  uint32_t mine = take_lock(lock, make_word(owner), was_dead);
  if (mine != 0) atomic_fetch_or_explicit(lock, SLEEPERS, memory_order_relaxed);
  return mine;
}

shmt__os_wait shmt__ring_lock_sleep(atomic_uint_least32_t* lock, uint64_t deadline_ns) {
  uint64_t slice = shmt__os_now_ns() + SHMT_RING_LOCK_SLICE_MS * UINT64_C(1000000);
  uint32_t word = atomic_load_explicit(lock, memory_order_relaxed);
  while (!is_takable(word)) {
    if (word & SLEEPERS || atomic_compare_exchange_weak_explicit(lock, &word, word | SLEEPERS,
                                                                 memory_order_relaxed,
                                                                 memory_order_relaxed))
      return shmt__os_futex_wait(lock, word | SLEEPERS, slice < deadline_ns ? slice : deadline_ns);
  }
  return SHMT_OS_WAIT_WOKEN;
}

void shmt__ring_unlock(atomic_uint_least32_t* lock, uint32_t word) {
  uint32_t seen = word;
  /* release: what we did is seen by the next owner. */
  while (!atomic_compare_exchange_weak_explicit(lock, &seen, 0, memory_order_release,
                                                memory_order_relaxed)) {
    if ((seen & ~(uint32_t)SLEEPERS) != word) return;
  }
  SHMT_FAILPOINT(ring_unlocked);
  if (seen & SLEEPERS) (void)shmt__os_futex_wake(lock, 1);
}

uint32_t shmt__ring_lock_word(const atomic_uint_least32_t* lock) {
  return atomic_load_explicit(lock, memory_order_seq_cst) & ~(uint32_t)SLEEPERS;
}

void shmt__ring_lock_mark_owner_dead(atomic_uint_least32_t* lock, unsigned owner) {
  uint32_t word = atomic_load_explicit(lock, memory_order_relaxed);
  while ((word & SHMT_RING_OWNER_MASK) == owner) {
    if (atomic_compare_exchange_weak_explicit(lock, &word, SHMT_RING_OWNER_DEAD,
                                              memory_order_relaxed, memory_order_relaxed)) {
      (void)shmt__os_futex_wake(lock, 1);
      return;
    }
  }
}

uint32_t shmt__ring_event_arm(atomic_uint_least32_t* event) {
  uint32_t word = atomic_load_explicit(event, memory_order_relaxed), armed;
  do {
    armed = word & ONE_SLEEPER ? word | MORE_SLEEPERS : word | ONE_SLEEPER;
    if (armed == word) break;
    /* seq_cst: we set the bit before we check the condition; the other side changes the condition before it checks the
     * bit. */
  } while (!atomic_compare_exchange_weak_explicit(event, &word, armed, memory_order_seq_cst,
                                                  memory_order_relaxed));
  atomic_thread_fence(memory_order_seq_cst);
  return armed;
}

void shmt__ring_event_signal(atomic_uint_least32_t* event, bool all) {
  /* See shmt__ring_event_arm. */
  atomic_thread_fence(memory_order_seq_cst);
  uint32_t word = atomic_load_explicit(event, memory_order_relaxed);
  if (SHMT_LIKELY(!(word & ONE_SLEEPER))) return;
  uint32_t next;
  do {
    if (!(word & ONE_SLEEPER)) return; /* another process woke the sleeper, which will check the condition */
    next = (word & ~(uint32_t)(ONE_SLEEPER | MORE_SLEEPERS)) + NEXT_EVENT;
    if (word & MORE_SLEEPERS && !all) next |= ONE_SLEEPER | MORE_SLEEPERS;
  } while (!atomic_compare_exchange_weak_explicit(event, &word, next, memory_order_seq_cst,
                                                  memory_order_relaxed));
  SHMT_FAILPOINT(ring_event_raised);
  unsigned n = shmt__os_futex_wake(event, all ? INT_MAX : 1);
  /* Nobody sleeps yet: those who are about to find that the word has changed. */
  if (n == 0 && next & ONE_SLEEPER)
    (void)atomic_compare_exchange_strong_explicit(event, &next, next & ~(uint32_t)(ONE_SLEEPER | MORE_SLEEPERS),
                                                  memory_order_relaxed, memory_order_relaxed);
}
