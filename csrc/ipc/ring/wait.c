/* ipc/ring/wait.c -- how many messages a ring has, who is at its other end, and waiting for either to change. */
#include "ipc/ring/unacknowledged.h"
#include "ipc/ring/wait.h"

#include "ipc/session/request.h"
#include "ipc/session/session.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/memfd.h"
#include "shm/block.h"

enum { LOCK_TRIES = 200, LEAST_MS = 10 };
#define NS_PER_MS UINT64_C(1000000)

/* --- counting --- */

uint32_t shmt__ring_n_messages(const shmt__ring* r) {
  /* Read the head first: it never passes the tail that is read after it. */
  uint64_t head = atomic_load_explicit(&r->header->head, memory_order_acquire);
  uint64_t tail = atomic_load_explicit(&r->header->tail, memory_order_acquire);
  /* Any member can write them: whoever counts down from here is not to do it four billion times. */
  const uint32_t n = shmt__ring_count(tail) - shmt__ring_count(head);
  const uint32_t most = r->area.capacity / (uint32_t)sizeof(shmt__ring_message);
  return n < most ? n : most;
}

uint32_t shmt__ring_n_pending(const shmt__ring* r) {
  if (r->is_bare || atomic_load_explicit(&r->header->has_pending, memory_order_acquire) == 0) return 0;
  uint32_t n = 0;
  uint32_t end =
      shmt__map_clients_end(&r->session->map);
  for (uint32_t i = 0; i < end && i < SHMT_MAX_CLIENTS; i++)
    n += atomic_load_explicit(&r->header->pending[i], memory_order_relaxed);
  return n;
}

uint32_t shmt__ring_size(const shmt__ring* r) {
  return shmt__ring_n_messages(r) + shmt__ring_n_pending(r);
}

static uint32_t n_acked(const shmt__ring* r) {
  return (uint32_t)(atomic_load_explicit(&r->header->n_acked, memory_order_acquire) >> 32);
}

static uint32_t n_unfinished(const shmt__ring* r) {
  uint32_t done = atomic_load_explicit(&r->header->n_done, memory_order_acquire) + n_acked(r);
  uint64_t tail = atomic_load_explicit(&r->header->tail, memory_order_acquire);
  return shmt__ring_count(tail) + shmt__ring_n_pending(r) - done;
}

bool shmt__ring_task_done(shmt__ring* r) {
  uint32_t done = atomic_load_explicit(&r->header->n_done, memory_order_relaxed);
  uint32_t left;
  do {
    uint64_t tail = atomic_load_explicit(&r->header->tail, memory_order_acquire);
    left = shmt__ring_count(tail) + shmt__ring_n_pending(r) - done - n_acked(r);
    if (left == 0 || left > UINT32_MAX / 2) return false;
  } while (!atomic_compare_exchange_weak_explicit(&r->header->n_done, &done, done + 1,
                                                  memory_order_seq_cst, memory_order_relaxed));
  if (left == 1) shmt__ring_event_signal(&r->header->done_event, true);
  return true;
}

/* --- the other end, and the manager --- */

bool shmt__ring_is_alone(shmt__ring* r, unsigned end) {
  const shmt__map* map = &r->session->map;
  uint32_t block = (uint32_t)(r->block - map->blocks);
  if (shmt__block_n_leases(r->block) > 0) return false; /* it is being sent to some process */
  for (unsigned i = 0; i * 64 < shmt__map_clients_end(map); i++) {
    uint64_t holds = shmt__block_holds(map, block, i);
    for (; holds != 0; holds &= holds - 1) {
      unsigned client = i * 64 + (unsigned)__builtin_ctzll(holds);
      if (r->is_bare || !(atomic_load_explicit(&r->header->ends[client], memory_order_acquire) & end))
        return false;
    }
  }
  return true;
}

/* An exception would be lost here. */
static void reconnect(shmt__session* s) {
  shmt__request_keep_lock(true);
  (void)shmt__session_reconnect(s);
  shmt__request_keep_lock(false);
}

/* Does no manager listen? In doubt there is one, which may be stopped. Looks once a slice, as it takes a connection. */
static bool is_unserved(shmt__session* s) {
  const uint64_t now_ms = shmt__os_now_ms();
  if (now_ms - s->sought_ms < SHMT_RING_SLICE_MS) return false;
  s->sought_ms = now_ms;
  const int fd = shmt__session_connect(&s->key);
  shmt__os_close(fd);
  return fd == -SHMT_OS_REFUSED;
}

void shmt__ring_restart_manager(shmt__ring* r) {
  shmt__sessions_lock();
  reconnect(r->session);
  shmt__sessions_unlock();
}

unsigned shmt__ring_client(shmt__ring* r) {
  shmt__session* s = r->session;
  unsigned client = atomic_load_explicit(&s->client, memory_order_relaxed);
  if (SHMT_LIKELY(client != 0)) return client;
  shmt__sessions_lock();
  shmt__session* same = NULL;
  shmt_status status = shmt__session_open(s->id, s->incarnation, &same);
  shmt__sessions_unlock();
  return status == SHMT_OK ? s->client : 0;
}

void shmt__ring_check_manager(shmt__ring* r) {
  if (!shmt__sessions_try_lock()) return;
  /* Without a connection, only if there is no manager: joining would wait for a stopped one, and keep us from
   * messages. */
  if (shmt__descriptor_number(&r->session->socket) >= 0 || is_unserved(r->session)) reconnect(r->session);
  shmt__sessions_unlock();
}

/* --- locking --- */

/* If a lock stays taken by a number that no client has, a member has overwritten it: have the manager audit the
 * rings. */
static void report_lock_without_owner(shmt__ring* r, atomic_uint_least32_t* lock) {
  const shmt__map* map = &r->session->map;
  uint32_t owner = shmt__ring_lock_word(lock) & SHMT_RING_OWNER_MASK;
  if (owner > 0 && owner < shmt__map_clients_end(map) &&
      atomic_load_explicit(&map->clients[owner].state, memory_order_acquire) != SHMT_CLIENT_NONE)
    return;
  atomic_store_explicit(&map->control->rings_stale, 1, memory_order_seq_cst);
}

shmt__ring_result shmt__ring_lock(shmt__ring* r, atomic_uint_least32_t* lock, uint64_t deadline_ns,
                                  uint32_t* out_word) {
  bool was_dead = false;
  unsigned me = shmt__ring_client(r);
  if (SHMT_UNLIKELY(me == 0)) return SHMT_RING_FAILED;
  if (SHMT_LIKELY((*out_word = shmt__ring_try_lock(lock, me, &was_dead)) != 0))
    return SHMT_RING_DONE;
  for (int i = 0; shmt__ring_may_spin() && i < LOCK_TRIES; i++) {
    shmt__os_pause();
    if (i % 8 == 7 && (*out_word = shmt__ring_try_lock(lock, me, &was_dead)) != 0)
      return SHMT_RING_DONE;
  }
  const uint64_t given_ns = deadline_ns, begun_ns = shmt__os_now_ns(), least_ns = begun_ns + LEAST_MS * NS_PER_MS;
  if (deadline_ns < least_ns) deadline_ns = least_ns;
  for (uint64_t now_ns = begun_ns; now_ns < deadline_ns; now_ns = shmt__os_now_ns()) {
    shmt__os_wait w = shmt__ring_lock_sleep(lock, deadline_ns);
    if ((*out_word = shmt__ring_try_lock_contended(lock, me, &was_dead)) != 0)
      return SHMT_RING_DONE;
    if (w == SHMT_OS_WAIT_WOKEN && now_ns - begun_ns < SHMT_RING_SLICE_MS * NS_PER_MS) continue;
    if (w != SHMT_OS_WAIT_INTERRUPTED) {
      report_lock_without_owner(r, lock);
      shmt__ring_restart_manager(r);
    }
    /* Who has a deadline calls again until that has passed, however often signals come. */
    const uint64_t end_ns = given_ns != 0 ? given_ns : deadline_ns;
    return shmt__os_now_ns() < end_ns ? SHMT_RING_INTERRUPTED : SHMT_RING_BUSY;
  }
  return SHMT_RING_BUSY;
}

/* --- waiting --- */

uint64_t shmt__ring_slice(uint64_t deadline_ns) {
  uint64_t slice = shmt__os_now_ns() + SHMT_RING_SLICE_MS * NS_PER_MS;
  return slice < deadline_ns ? slice : deadline_ns;
}

shmt__ring_result shmt__ring_round(uint64_t* begun_ns, uint64_t deadline_ns) {
  const uint64_t now_ns = shmt__os_now_ns();
  if (*begun_ns == 0) *begun_ns = now_ns;
  if (now_ns >= (deadline_ns != 0 ? deadline_ns : *begun_ns + LEAST_MS * NS_PER_MS)) return SHMT_RING_EMPTY;
  return now_ns - *begun_ns < SHMT_RING_SLICE_MS * NS_PER_MS ? SHMT_RING_DONE : SHMT_RING_INTERRUPTED;
}

shmt__ring_result shmt__ring_woken(shmt__ring* r, shmt__os_wait w, uint64_t* begun_ns, uint64_t deadline_ns) {
  if (w == SHMT_OS_WAIT_INTERRUPTED) return SHMT_RING_INTERRUPTED;
  shmt__ring_result result = shmt__ring_round(begun_ns, deadline_ns);
  if (result == SHMT_RING_DONE && w == SHMT_OS_WAIT_TIMED_OUT) result = SHMT_RING_INTERRUPTED; /* a slice has ended */
  if (result == SHMT_RING_INTERRUPTED) shmt__ring_check_manager(r);
  return result;
}

bool shmt__ring_may_spin(void) {
  static atomic_int cpus; /* relaxed: a cached constant */
  int n = atomic_load_explicit(&cpus, memory_order_relaxed);
  if (n == 0) {
    n = shmt__os_cpu_count();
    atomic_store_explicit(&cpus, n, memory_order_relaxed);
  }
  return n > 1;
}

/* Spinning pays when the peer runs on another processor and answers within the time that a sleep and a wake-up take. We
 * spin for as long as a wake-up takes: a peer that sleeps must have the time to wake up and answer, or two processes
 * that sleep in turn would do so for ever. The credit follows the success of the last waits: when spinning is in vain,
 * it is tried again after MOST_CREDIT waits only. */
bool shmt__ring_spin(shmt__ring* r) {
  enum { MOST_CREDIT = 256, COST = 8, PAUSES = 10, SPIN_NS = 50000 };
  int credit = atomic_load_explicit(&r->spin_credit, memory_order_relaxed);
  if (!shmt__ring_may_spin()) return false;
  if (credit < 0) {
    atomic_store_explicit(&r->spin_credit, credit + 1, memory_order_relaxed);
    return false;
  }
  uint64_t tail = atomic_load_explicit(&r->header->tail, memory_order_relaxed);
  const uint64_t end_ns = shmt__os_now_ns() + SPIN_NS;
  do {
    for (int i = 0; i < PAUSES; i++) shmt__os_pause();
    if (atomic_load_explicit(&r->header->tail, memory_order_relaxed) == tail) continue;
    if (credit < MOST_CREDIT) atomic_store_explicit(&r->spin_credit, credit + COST, memory_order_relaxed);
    return true;
  } while (shmt__os_now_ns() < end_ns);
  atomic_store_explicit(&r->spin_credit, credit - COST < 0 ? -MOST_CREDIT : credit - COST, memory_order_relaxed);
  return false;
}

shmt__ring_result shmt__ring_poll(shmt__ring* r, uint64_t deadline_ns) {
  uint64_t begun_ns = 0;
  for (;;) {
    uint32_t armed = 0;
    if (SHMT_UNLIKELY(shmt__ring_has_stale(r))) shmt__ring_recover(r);
    if (shmt__ring_n_messages(r) > 0) return SHMT_RING_DONE;
    if (deadline_ns == 0) {
      shmt__ring_recover_now_and_then(r);
      return shmt__ring_n_messages(r) > 0 ? SHMT_RING_DONE : SHMT_RING_EMPTY;
    }
    if (shmt__ring_spin(r) && shmt__ring_n_messages(r) > 0) return SHMT_RING_DONE;
    armed = shmt__ring_event_arm(&r->header->data_event);
    if (shmt__ring_has_stale(r)) shmt__ring_recover(r); /* the manager sets it before it signals */
    shmt__ring_recover_now_and_then(r);
    if (shmt__ring_n_messages(r) > 0) return SHMT_RING_DONE;
    if (shmt__ring_is_alone(r, SHMT_RING_NO_PUT)) return SHMT_RING_ALONE;
    shmt__os_wait w =
        shmt__os_futex_wait(&r->header->data_event, armed, shmt__ring_slice(deadline_ns));
    const shmt__ring_result result = shmt__ring_woken(r, w, &begun_ns, deadline_ns);
    if (result == SHMT_RING_EMPTY && shmt__ring_n_messages(r) > 0) return SHMT_RING_DONE;
    if (result != SHMT_RING_DONE) return result;
  }
}

shmt__ring_result shmt__ring_join(shmt__ring* r, uint64_t deadline_ns) {
  uint64_t begun_ns = 0;
  for (;;) {
    uint32_t armed = shmt__ring_event_arm(&r->header->done_event);
    if (n_unfinished(r) == 0) return SHMT_RING_DONE;
    if (shmt__os_now_ns() >= deadline_ns) return SHMT_RING_BUSY;
    shmt__os_wait w =
        shmt__os_futex_wait(&r->header->done_event, armed, shmt__ring_slice(deadline_ns));
    if (shmt__ring_woken(r, w, &begun_ns, deadline_ns) == SHMT_RING_INTERRUPTED) return SHMT_RING_INTERRUPTED;
  }
}
