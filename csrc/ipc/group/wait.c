/* ipc/group/wait.c -- counting, waiting for the counters of other ranks, and noticing that a rank has ended. */
#include "ipc/group/group.h"

#include "os/futex.h"
#include "os/lock.h"

/* --- counting --- */

static void wake(shmt__group_counter* c) {
  (void)shmt__os_futex_wake(&c->value, UINT32_MAX >> 1);
}

void shmt__group_count(shmt__group_counter* c, uint32_t value) {
  /* seq_cst, here and where a sleeper registers: either we see the sleeper, or it sees the value. */
  atomic_store_explicit(&c->value, value, memory_order_seq_cst);
  if (atomic_load_explicit(&c->sleepers, memory_order_seq_cst) != 0) wake(c);
}

void shmt_group_post(shmt_group* g, uint32_t counter, uint32_t step, uint64_t what) {
  if (!shmt__descriptor_is_kept(&g->file) || counter >= SHMT_GROUP_N_COUNTERS) return;
  shmt__group_rank* own = shmt__group_rank_at(g, g->rank);
  /* relaxed: the counter publishes it. */
  if (what != 0)
    atomic_store_explicit(&own->what[step % SHMT_GROUP_N_SLOTS], what, memory_order_relaxed);
  shmt__group_count(&own->counters[counter], step + 1);
}

int shmt_group_has_counted(const shmt_group* g, uint32_t counter, uint32_t rank, uint32_t step) {
  if (counter >= SHMT_GROUP_N_COUNTERS || rank >= g->n_ranks) return 0;
  return shmt__group_reached(&shmt__group_rank_at(g, rank)->counters[counter], step + 1);
}

uint64_t shmt_group_what(const shmt_group* g, uint32_t rank, uint32_t step) {
  if (rank >= g->n_ranks) return 0;
  return atomic_load_explicit(&shmt__group_rank_at(g, rank)->what[step % SHMT_GROUP_N_SLOTS],
                              memory_order_relaxed);
}

/* --- being broken --- */

static void break_group(shmt_group* g, uint32_t rank, uint32_t other, unsigned reason) {
  uint64_t none = 0;
  /* The first reason stays. */
  (void)atomic_compare_exchange_strong_explicit(&shmt__group_head(g)->broken, &none,
                                                (uint64_t)other << 32 | (uint64_t)rank << 8 | reason,
                                                memory_order_seq_cst, memory_order_relaxed);
  /* Sleepers that are missed here look at the header when their slice is over. */
  for (uint32_t r = 0; r < g->n_ranks; r++) {
    shmt__group_rank* each = shmt__group_rank_at(g, r);
    for (int i = 0; i < SHMT_GROUP_N_COUNTERS; i++) wake(&each->counters[i]);
    for (uint32_t to = 0; to < g->n_ranks; to++) {
      wake(&shmt__group_channel_at(g, r, to)->sent);
      wake(&shmt__group_channel_at(g, r, to)->received);
    }
  }
}

void shmt_group_abort(shmt_group* g) {
  if (shmt__descriptor_is_kept(&g->file)) break_group(g, g->rank, g->rank, SHMT_GROUP_ABORTED);
}

void shmt_group_disagree(shmt_group* g, uint32_t other, uint32_t step) {
  if (!shmt__descriptor_is_kept(&g->file) || other >= g->n_ranks) return;
  /* relaxed: `broken` publishes it. All who come here have the same step. */
  atomic_store_explicit(&shmt__group_head(g)->disagreed_step, step, memory_order_relaxed);
  break_group(g, g->rank, other, SHMT_GROUP_DISAGREED);
}

static uint32_t bounded_rank(const shmt_group* g, uint64_t rank) {
  return rank < g->n_ranks ? (uint32_t)rank : g->rank;
}

void shmt_group_disagreement(const shmt_group* g, uint32_t* out_rank, uint32_t* out_other,
                             uint32_t* out_step) {
  const uint64_t broken = atomic_load_explicit(&shmt__group_head(g)->broken, memory_order_acquire);
  *out_rank = bounded_rank(g, broken >> 8 & 0xffffff);
  *out_other = bounded_rank(g, broken >> 32);
  *out_step = atomic_load_explicit(&shmt__group_head(g)->disagreed_step, memory_order_relaxed);
}

int shmt_group_broken(const shmt_group* g, uint32_t* out_rank) {
  *out_rank = g->rank;
  if (!shmt__descriptor_is_kept(&g->file)) return SHMT_GROUP_FORKED;
  uint64_t broken = atomic_load_explicit(&shmt__group_head(g)->broken, memory_order_acquire);
  *out_rank = bounded_rank(g, broken >> 8 & 0xffffff);
  return (int)(broken & 0xff);
}

/* Break the group if a rank has died, or if the rank that is waited for has left. Note [Group liveness] */
static bool find_dead_rank(shmt_group* g, const shmt__group_counter* c, uint32_t owner,
                              uint32_t value) {
  int fd = shmt__descriptor_number(&g->file);
  if (fd < 0 && !shmt__group_reached(c, value)) {
    break_group(g, g->rank, g->rank, SHMT_GROUP_LEFT); /* the program has closed it, and with it our lock */
    return true;
  }
  for (uint32_t r = 0; r < g->n_ranks; r++) {
    if (r == g->rank) continue;
    uint32_t state =
        atomic_load_explicit(&shmt__group_rank_at(g, r)->state, memory_order_acquire);
    if (state == SHMT_GROUP_UNBORN) continue;
    if (state == SHMT_GROUP_ALIVE) {
      if (shmt__os_byte_is_locked(fd, SHMT_GROUP_LOCKS + r)) continue;
      /* It may have left between the two looks. */
      state = atomic_load_explicit(&shmt__group_rank_at(g, r)->state, memory_order_acquire);
    }
    if (state == SHMT_GROUP_GONE && r != owner) continue; /* nothing of it is missing */
    if (shmt__group_reached(c, value)) return false;
    break_group(g, r, r, state == SHMT_GROUP_GONE ? SHMT_GROUP_LEFT : SHMT_GROUP_DIED);
    return true;
  }
  return false;
}

uint32_t shmt_group_n_opened(const shmt_group* g) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < g->n_ranks; r++)
    n += atomic_load_explicit(&shmt__group_rank_at(g, r)->state, memory_order_acquire) !=
         SHMT_GROUP_UNBORN;
  return n;
}

int shmt_group_check(shmt_group* g, uint32_t* out_rank) {
  static const shmt__group_counter none; /* nobody is awaited: its value 0 does not reach 1 */
  if (shmt__descriptor_is_kept(&g->file)) (void)find_dead_rank(g, &none, UINT32_MAX, 1);
  return shmt_group_broken(g, out_rank);
}

/* --- waiting --- */

uint64_t shmt__group_slice(void) {
  return shmt__os_now_ns() + SHMT_GROUP_SLICE_MS * UINT64_C(1000000);
}

/* Spinning pays when every rank has a processor: then they come within microseconds of each other. The credit follows
 * the success of the last waits, as other programs may need the processors. It is tried again now and then. */
static bool spin(shmt_group* g, const shmt__group_counter* c, uint32_t value) {
  enum { ROUNDS = 250, LOOKS = 10, MOST_CREDIT = 256, GAIN = 4, COST = 16, PAUSE = 64 };
  /* relaxed, here and below: a guess, which several threads may make. */
  int credit = atomic_load_explicit(&g->spin_credit, memory_order_relaxed);
  if (!g->may_spin) return false;
  if (credit < 0) {
    atomic_store_explicit(&g->spin_credit, credit + 1, memory_order_relaxed);
    return false;
  }
  for (int i = 0; i < ROUNDS; i++) {
    for (int j = 0; j < LOOKS; j++) shmt__os_pause();
    if (!shmt__group_reached(c, value)) continue;
    if (credit < MOST_CREDIT) atomic_store_explicit(&g->spin_credit, credit + GAIN, memory_order_relaxed);
    return true;
  }
  atomic_store_explicit(&g->spin_credit, credit < COST ? -PAUSE : credit - COST,
                        memory_order_relaxed);
  return false;
}

int shmt__group_await(shmt_group* g, shmt__group_counter* c, uint32_t owner, uint32_t value,
                      uint64_t deadline_ns) {
  uint32_t rank;
  if (!shmt__descriptor_is_kept(&g->file)) return SHMT_GROUP_BROKEN;
  if (shmt__group_reached(c, value)) return SHMT_GROUP_DONE;
  if (shmt_group_broken(g, &rank)) return SHMT_GROUP_BROKEN;
  if (deadline_ns == 0) return SHMT_GROUP_NOT_YET;
  if (spin(g, c, value)) return SHMT_GROUP_DONE;
  for (;;) {
    (void)atomic_fetch_add_explicit(&c->sleepers, 1, memory_order_seq_cst);
    uint32_t now = atomic_load_explicit(&c->value, memory_order_seq_cst);
    shmt__os_wait w = SHMT_OS_WAIT_WOKEN;
    if ((int32_t)(now - value) < 0 && !shmt_group_broken(g, &rank))
      w = shmt__os_futex_wait(&c->value, now, deadline_ns);
    (void)atomic_fetch_sub_explicit(&c->sleepers, 1, memory_order_seq_cst);
    if (shmt__group_reached(c, value)) return SHMT_GROUP_DONE;
    if (shmt_group_broken(g, &rank)) return SHMT_GROUP_BROKEN;
    if (w == SHMT_OS_WAIT_INTERRUPTED) return SHMT_GROUP_NOT_YET;
    if (w == SHMT_OS_WAIT_TIMED_OUT || shmt__os_now_ns() >= deadline_ns) {
      if (find_dead_rank(g, c, owner, value)) return SHMT_GROUP_BROKEN;
      return shmt__group_reached(c, value) ? SHMT_GROUP_DONE : SHMT_GROUP_NOT_YET;
    }
  }
}

static bool says_otherwise(const shmt_group* g, uint32_t counter, uint32_t rank, uint32_t step, uint64_t what) {
  return what != 0 && shmt_group_has_counted(g, counter, rank, step) && shmt_group_what(g, rank, step) != what;
}

/* Does any other rank say something else? One that has not come must not hide that. */
static bool any_says_otherwise(const shmt_group* g, uint32_t counter, uint32_t step, uint64_t what) {
  for (uint32_t r = 0; r < g->n_ranks; r++)
    if (r != g->rank && says_otherwise(g, counter, r, step, what)) return true;
  return false;
}

int shmt_group_wait(shmt_group* g, uint32_t counter, int32_t rank, uint32_t step, uint64_t what) {
  if (!shmt__descriptor_is_kept(&g->file) || counter >= SHMT_GROUP_N_COUNTERS || rank >= (int32_t)g->n_ranks)
    return SHMT_GROUP_BROKEN;
  uint64_t deadline = 0;
  for (uint32_t r = 0; r < g->n_ranks; r++) {
    if (rank >= 0 ? r != (uint32_t)rank : r == g->rank) continue;
    shmt__group_counter* c = &shmt__group_rank_at(g, r)->counters[counter];
    if (!shmt__group_reached(c, step + 1)) {
      if (deadline == 0) deadline = shmt__group_slice();
      int result = shmt__group_await(g, c, r, step + 1, deadline);
      if (result == SHMT_GROUP_NOT_YET && rank < 0 && any_says_otherwise(g, counter, step, what))
        return SHMT_GROUP_MISMATCH;
      if (result != SHMT_GROUP_DONE) return result;
    }
    if (says_otherwise(g, counter, r, step, what)) return SHMT_GROUP_MISMATCH;
  }
  return SHMT_GROUP_DONE;
}
