/* ipc/service/named_locks.c -- locks, semaphores and barriers of unrelated processes. See Note [Named locks] in
 * shm/names.h.
 *
 * Acquire and release are atomic steps on shared memory. Only opening a lock needs the manager, which also empties the
 * slots of dead clients.
 */
#include "ipc/service/named_locks.h"

#include "ipc/service/service_internal.h"
#include "os/futex.h"

#include <inttypes.h>

/* Has this process still what it took as this client? It has when it is another client by now, and could take its
 * permits along. */
static bool is_holder(const shmt__session* s, const shmt__opened_lock* o) {
  return s->incarnation == o->incarnation && s->membership == o->membership && s->client != 0 &&
         o->index < s->map.n_named_locks;
}

/* Is it still the client that opened it, so that the manager keeps the lock for it? */
static bool is_opener(const shmt__session* s, const shmt__opened_lock* o) {
  return is_holder(s, o) && s->client == o->client;
}

/* *out_is_current: the manager has opened it for the client that this process is now. */
static shmt_status open_once(shmt_service* v, const char* name, uint32_t kind, uint32_t n, shmt__opened_lock* out,
                             bool* out_is_current) {
  shmt__packet p = {.type = SHMT_MESSAGE_OPEN_LOCK, .block = kind, .count = n}, reply;
  SHMT_AUTO(shmt__pinned_session) s = NULL;
  SHMT_TRY(shmt__service_request(v, &p, name, &reply));
  SHMT_TRY(shmt__service_pinned(v, false, &s));
  SHMT_REQUIRE(reply.block < s->map.n_named_locks, SHMT_E_MANAGER,
               "the manager opened semaphore %" PRIu32 " of %" PRIu32, reply.block,
               s->map.n_named_locks);
  shmt__sessions_lock();
  *out = (shmt__opened_lock){s->incarnation, s->client, reply.block, s->membership};
  *out_is_current = s->incarnation == p.incarnation && s->client == p.client;
  shmt__sessions_unlock();
  return SHMT_OK;
}

shmt_status shmt__named_lock_open(shmt_service* v, const char* name, uint32_t kind, uint32_t n,
                                  shmt__opened_lock* out) {
  enum { ATTEMPTS = 4 };
  bool is_current = false;
  for (int i = 0; i < ATTEMPTS && !is_current; i++) SHMT_TRY(open_once(v, name, kind, n, out, &is_current));
  SHMT_REQUIRE(is_current, SHMT_E_RUNTIME, "this process joined service \"%s\" again and again meanwhile",
               shmt__service_label(v));
  return SHMT_OK;
}

static shmt_status fail_other(const shmt__session* s, const shmt__opened_lock* o) {
  SHMT_FAIL(SHMT_E_RUNTIME,
            "it was opened by client %" PRIu32 ", this process is client %" PRIu32
            " (forked, or the service was begun anew)",
            o->client, s != NULL ? s->client : 0);
}

/* Find the lock, if `is_its` says yes, and keep the sessions' lock: until the caller gives that up, this process stays
 * the client that it is, and so has or gives back each slot under the right number. Returns the session, pinned: the
 * lock *out is valid until it is unpinned. NULL: no lock was found or taken, and *out_failure is the recorded error. */
static shmt__session* find_and_lock(shmt_service* v, const shmt__opened_lock* o,
                                    bool (*is_its)(const shmt__session* s, const shmt__opened_lock* o),
                                    shmt__named_lock** out, shmt_status* out_failure) {
  shmt__sessions_lock();
  shmt__session* s = shmt__session_lookup(v->key.id, o->incarnation);
  if (s == NULL || !is_its(s, o)) {
    *out_failure = fail_other(s, o);
    shmt__sessions_unlock();
    return NULL;
  }
  shmt__session_pin(s);
  *out = &s->map.named_locks[o->index];
  return s;
}

shmt_status shmt__named_lock_refresh(shmt_service* v, const char* name, uint32_t kind, uint32_t n,
                                     shmt__opened_lock* o) {
  SHMT_AUTO(shmt__pinned_session) pin = NULL;
  SHMT_TRY(shmt__service_pinned(v, false, &pin));
  if (SHMT_LIKELY(is_opener(pin, o))) return SHMT_OK;
  return shmt__named_lock_open(v, name, kind, n, o);
}

/* The number of slots, read once, as any member can write there. A slot of a barrier is also a bit of a word. */
static uint32_t bounded_slots(const shmt__named_lock* s, uint32_t most) {
  uint32_t n = *(const volatile uint32_t*)&s->n_slots;
  return n < most ? n : most;
}
static uint32_t n_slots_of(const shmt__named_lock* s) { return bounded_slots(s, SHMT_NAMED_LOCK_SLOTS); }
static uint32_t n_parties_of(const shmt__named_lock* s) { return bounded_slots(s, SHMT_BARRIER_SLOTS); }

/* --- semaphores --- */

static bool try_acquire(shmt__named_lock* s, uint32_t n_slots, uint32_t client, uint32_t* out_slot) {
  for (uint32_t i = 0; i < n_slots; i++) {
    uint64_t none = 0;
    /* seq_cst: a waiter counts itself before it checks the slots; a releasing process empties its slot before it checks
     * for waiters. acquire: we see what the last owner did. */
    if (atomic_load_explicit(&s->slots[i], memory_order_seq_cst) == 0 &&
        atomic_compare_exchange_strong_explicit(&s->slots[i], &none, client, memory_order_seq_cst,
                                                memory_order_relaxed)) {
      *out_slot = i;
      return true;
    }
  }
  return false;
}

/* Take a slot in a lock that was found before. Errors: SHMT_E_RUNTIME, SHMT_E_TIMEOUT (without a record). */
static shmt_status acquire_again(shmt__session* s, const shmt__opened_lock* o, shmt__named_lock* l,
                                 uint32_t* out_slot) {
  shmt_status status = SHMT_E_TIMEOUT;
  shmt__sessions_lock();
  if (!is_opener(s, o))
    status = fail_other(s, o);
  else if (try_acquire(l, n_slots_of(l), s->client, out_slot))
    status = SHMT_OK;
  shmt__sessions_unlock();
  return status;
}

shmt_status shmt__named_lock_acquire(shmt_service* v, const shmt__opened_lock* o, int timeout_ms,
                                     uint32_t* out_slot) {
  shmt__named_lock* s = NULL;
  shmt_status failure;
  SHMT_AUTO(shmt__pinned_session) pin = find_and_lock(v, o, is_opener, &s, &failure);
  if (pin == NULL) return failure;
  const bool got = try_acquire(s, n_slots_of(s), pin->client, out_slot);
  shmt__sessions_unlock();
  if (SHMT_LIKELY(got)) return SHMT_OK;
  atomic_fetch_add_explicit(&s->waiters, 1, memory_order_seq_cst);
  uint32_t wake = atomic_load_explicit(&s->wake, memory_order_seq_cst);
  shmt_status status = acquire_again(pin, o, s, out_slot);
  if (status == SHMT_E_TIMEOUT) {
    (void)shmt__os_futex_wait(&s->wake, wake, shmt__deadline_of(timeout_ms));
    status = acquire_again(pin, o, s, out_slot);
  }
  atomic_fetch_sub_explicit(&s->waiters, 1, memory_order_relaxed);
  return status; /* SHMT_E_TIMEOUT without a record, see shmt_service_wait */
}

static void wake_waiters(shmt__named_lock* s, unsigned n) {
  if (atomic_load_explicit(&s->waiters, memory_order_seq_cst) == 0) return;
  atomic_fetch_add_explicit(&s->wake, 1, memory_order_seq_cst);
  (void)shmt__os_futex_wake(&s->wake, n);
}

shmt_status shmt__named_lock_release(shmt_service* v, const shmt__opened_lock* o, uint32_t slot) {
  shmt__named_lock* s = NULL;
  shmt_status failure;
  SHMT_AUTO(shmt__pinned_session) pin = find_and_lock(v, o, is_holder, &s, &failure);
  if (pin == NULL) return failure;
  uint64_t mine = pin->client;
  /* seq_cst: see try_acquire. release: what we did is seen by the next owner. */
  bool done = slot < n_slots_of(s) &&
              atomic_compare_exchange_strong_explicit(&s->slots[slot], &mine, 0,
                                                      memory_order_seq_cst, memory_order_relaxed);
  shmt__sessions_unlock();
  SHMT_REQUIRE(done, SHMT_E_RUNTIME,
               "release(): client %" PRIu32 " has not got permit %" PRIu32 " of \"%.*s\"", o->client,
               slot, SHMT_NAMED_LOCK_NAME_BYTES, s->text);
  wake_waiters(s, 1);
  return SHMT_OK;
}

shmt_status shmt__named_lock_value(shmt_service* v, const shmt__opened_lock* o, uint32_t* out) {
  shmt__named_lock* s = NULL;
  shmt_status failure;
  SHMT_AUTO(shmt__pinned_session) pin = find_and_lock(v, o, is_opener, &s, &failure);
  if (pin == NULL) return failure;
  shmt__sessions_unlock();
  uint64_t arrived = atomic_load_explicit(&s->arrived, memory_order_relaxed);
  *out = 0;
  bool is_barrier = *(const volatile uint32_t*)&s->kind == SHMT_NAMED_LOCK_BARRIER;
  uint32_t n = is_barrier ? n_parties_of(s) : n_slots_of(s);
  for (uint32_t i = 0; i < n; i++)
    *out += is_barrier
                ? !(arrived >> i & 1)
                : atomic_load_explicit(&s->slots[i], memory_order_relaxed) == 0;
  return SHMT_OK;
}

/* --- barriers --- */

enum { PHASE_SHIFT = 48 };

static uint32_t phase_of(uint64_t arrived) { return (uint32_t)(arrived >> PHASE_SHIFT); }

/* Every party's bit. */
static uint64_t all_of(const shmt__named_lock* s) {
  return ((uint64_t)1 << n_parties_of(s)) - 1;
}

/* Set a slot's bit. The last arrival completes the phase and begins the next one in the same step. */
static uint64_t with_bit(const shmt__named_lock* s, uint64_t arrived, uint32_t slot) {
  uint64_t all = all_of(s), bits = (arrived & all) | (uint64_t)1 << slot;
  if (bits != all) return (uint64_t)phase_of(arrived) << PHASE_SHIFT | bits;
  return (uint64_t)(phase_of(arrived) + 1) << PHASE_SHIFT;
}

/* The caller has the sessions' lock, and slot is one that the client took. */
static void leave_place(shmt__named_lock* s, uint32_t client, uint32_t slot) {
  uint64_t mine = client;
  if (slot >= SHMT_NAMED_LOCK_SLOTS) return;
  (void)atomic_compare_exchange_strong_explicit(&s->slots[slot], &mine, 0, memory_order_seq_cst,
                                                memory_order_relaxed);
}

shmt_status shmt__barrier_arrive(shmt_service* v, const shmt__opened_lock* o, uint32_t* out_slot, uint32_t* out_phase,
                                 bool* out_last) {
  shmt__named_lock* s = NULL;
  shmt_status failure;
  SHMT_AUTO(shmt__pinned_session) pin = find_and_lock(v, o, is_opener, &s, &failure);
  if (pin == NULL) return failure;
  /* Take the slot first: when its owner dies, the manager clears the bit with the slot. Slots may be taken by processes
   * that are still leaving the last phase; then the caller tries again. */
  if (!try_acquire(s, n_parties_of(s), pin->client, out_slot)) {
    shmt__sessions_unlock();
    return SHMT_E_TIMEOUT;
  }
  uint64_t seen = atomic_load_explicit(&s->arrived, memory_order_relaxed), next;
  /* acq_rel: what each did before is seen by all after. */
  do {
    next = with_bit(s, seen, *out_slot);
  } while (!atomic_compare_exchange_weak_explicit(&s->arrived, &seen, next, memory_order_acq_rel,
                                                  memory_order_relaxed));
  *out_phase = phase_of(seen);
  *out_last = phase_of(next) != *out_phase;
  if (*out_last) leave_place(s, pin->client, *out_slot);
  shmt__sessions_unlock();
  if (*out_last) wake_waiters(s, INT32_MAX);
  return SHMT_OK;
}

shmt_status shmt__barrier_wait(shmt_service* v, const shmt__opened_lock* o, uint32_t slot, uint32_t phase,
                               int timeout_ms) {
  shmt__named_lock* s = NULL;
  shmt_status failure;
  SHMT_AUTO(shmt__pinned_session) pin = find_and_lock(v, o, is_holder, &s, &failure);
  if (pin == NULL) return failure;
  shmt__sessions_unlock();
  atomic_fetch_add_explicit(&s->waiters, 1, memory_order_seq_cst);
  uint32_t wake = atomic_load_explicit(&s->wake, memory_order_seq_cst);
  /* acquire: what the others did before they arrived is seen. */
  bool over = phase_of(atomic_load_explicit(&s->arrived, memory_order_seq_cst)) != phase;
  if (!over) {
    (void)shmt__os_futex_wait(&s->wake, wake, shmt__deadline_of(timeout_ms));
    over = phase_of(atomic_load_explicit(&s->arrived, memory_order_acquire)) != phase;
  }
  atomic_fetch_sub_explicit(&s->waiters, 1, memory_order_relaxed);
  if (!over) return SHMT_E_TIMEOUT; /* without a record, see shmt_service_wait */
  shmt__sessions_lock();
  if (is_holder(pin, o)) leave_place(s, pin->client, slot);
  shmt__sessions_unlock();
  wake_waiters(s, INT32_MAX); /* others may want the slot */
  return SHMT_OK;
}

bool shmt__barrier_withdraw(shmt_service* v, const shmt__opened_lock* o, uint32_t slot, uint32_t phase) {
  shmt__named_lock* s = NULL;
  shmt_status failure;
  SHMT_AUTO(shmt__pinned_session) pin = find_and_lock(v, o, is_holder, &s, &failure);
  if (pin == NULL) return true;
  if (slot >= n_parties_of(s)) {
    shmt__sessions_unlock();
    return true;
  }
  uint64_t seen = atomic_load_explicit(&s->arrived, memory_order_relaxed);
  while (phase_of(seen) == phase &&
         !atomic_compare_exchange_weak_explicit(&s->arrived, &seen, seen & ~((uint64_t)1 << slot),
                                                memory_order_acq_rel, memory_order_relaxed)) {
  }
  leave_place(s, pin->client, slot);
  shmt__sessions_unlock();
  return phase_of(seen) == phase;
}
