/* ipc/ring/event.c -- events. See the Notes in ipc/ring/event.h. */
#include "ipc/ring/event.h"

#include "api/error.h"
#include "ipc/ring/wait.h"
#include "os/failpoint.h"

#include <inttypes.h>

enum { LOOKS = 100 };

static const shmt__ring_message empty_message = {.nbytes = sizeof(shmt__ring_message)};

/* --- life --- */

shmt_status shmt__event_create_in(shmt_storage* s, shmt__ring** out) {
  SHMT_ASSERT(s->nbytes == SHMT_EVENT_BYTES);
  __builtin_memcpy((char*)s->data + SHMT_RING_BARE_DATA, &empty_message, sizeof empty_message);
  return shmt__ring_create_over(s, 1, SHMT_RING_BARE_DATA, out);
}

shmt_status shmt__event_over(shmt_storage* s, shmt__ring** out) {
  const uint64_t nbytes = s->nbytes;
  shmt__ring* r = NULL;
  SHMT_TRY(shmt__ring_over(s, &r));
  const bool is_good = r->is_bare && shmt__ring_max_messages(r) == 1 && nbytes == SHMT_EVENT_BYTES;
  if (!is_good) {
    shmt__ring_close(r);
    SHMT_FAIL(SHMT_E_HANDLE, "a storage of %" PRIu64 " bytes is not an event", nbytes);
  }
  *out = r;
  return SHMT_OK;
}

/* --- setting --- */

bool shmt__event_is_set(const shmt__ring* r) { return shmt__ring_n_messages(r) > 0; }

/* A forked child has the memory of its parent, and becomes a member with its first call. */
static shmt_status be_member(shmt__ring* r) {
  return shmt__ring_client(r) != 0 ? SHMT_OK : (shmt_status)shmt_error_code();
}

static void wake_all(shmt__ring* r) {
  shmt__ring_event_signal(&r->header->data_event, true);
  shmt__ring_event_signal(&r->header->watch_event, true);
  if (SHMT_UNLIKELY(r->watch != NULL)) shmt__ring_readiness_update(r);
}

shmt_status shmt__event_set(shmt__ring* r) {
  shmt__ring_header* h = r->header;
  SHMT_TRY(be_member(r));
  /* Where the message lies is known: the head may be what a member wrote there. */
  uint64_t clear = atomic_load_explicit(&h->head, memory_order_acquire);
  const uint64_t set = shmt__ring_position(shmt__ring_count(clear) + 1, sizeof empty_message);
  /* seq_cst: the state changes before we look who sleeps. */
  (void)atomic_compare_exchange_strong_explicit(&h->tail, &clear, set, memory_order_seq_cst, memory_order_relaxed);
  SHMT_FAILPOINT(event_set);
  /* Also when it was set: who set it may have been killed before it counted that, and the next may clear it. */
  atomic_fetch_add_explicit(&h->n_sets, 1, memory_order_seq_cst);
  wake_all(r); /* also for one who was killed before it woke anybody */
  return SHMT_OK;
}

shmt_status shmt__event_clear(shmt__ring* r) {
  shmt__ring_header* h = r->header;
  SHMT_TRY(be_member(r));
  atomic_store_explicit(&h->tail, atomic_load_explicit(&h->head, memory_order_acquire), memory_order_seq_cst);
  shmt__ring_event_signal(&h->watch_event, true);
  if (SHMT_UNLIKELY(r->watch != NULL)) shmt__ring_readiness_update(r);
  return SHMT_OK;
}

/* --- pulses --- */

shmt__ring_result shmt__event_pulse(shmt__ring* r, uint64_t id, uint64_t deadline_ns) {
  shmt__ring_header* h = r->header;
  uint32_t word = 0;
  shmt__ring_result result = shmt__ring_lock(r, &h->put_lock, deadline_ns, &word);
  if (result != SHMT_RING_DONE) return result;
  const uint64_t n = atomic_load_explicit(&h->n_pulses, memory_order_relaxed) + 1;
  /* release: whoever sees this id sees that the last pulse is not that of two pulses ago. */
  atomic_store_explicit(&h->pulse_ids[n & 1], id, memory_order_release);
  SHMT_FAILPOINT(event_pulse_written);
  /* seq_cst: with the number, the id; and as in shmt__event_set. */
  atomic_store_explicit(&h->n_pulses, n, memory_order_seq_cst);
  SHMT_FAILPOINT(event_pulse_counted);
  shmt__ring_unlock(&h->put_lock, word);
  wake_all(r);
  return SHMT_RING_DONE;
}

bool shmt__event_pulse_since(const shmt__ring* r, uint64_t n_pulses, uint64_t* out_id) {
  uint64_t n = atomic_load_explicit(&r->header->n_pulses, memory_order_acquire);
  if (n == n_pulses) return false;
  /* A member may write there all the time: the looks have an end. */
  for (int i = 0; i < LOOKS; i++) {
    *out_id = atomic_load_explicit(&r->header->pulse_ids[n & 1], memory_order_acquire);
    const uint64_t again = atomic_load_explicit(&r->header->n_pulses, memory_order_acquire);
    if (again == n) break;
    n = again;
  }
  return true;
}

/* --- waiting --- */

shmt__event_mark shmt__event_mark_now(const shmt__ring* r) {
  return (shmt__event_mark){.n_pulses = atomic_load_explicit(&r->header->n_pulses, memory_order_acquire),
                            .n_sets = atomic_load_explicit(&r->header->n_sets, memory_order_acquire)};
}

bool shmt__event_has_come(const shmt__ring* r, shmt__event_mark since) {
  const shmt__event_mark now = shmt__event_mark_now(r);
  return shmt__event_is_set(r) || now.n_pulses != since.n_pulses || now.n_sets != since.n_sets;
}

shmt__ring_result shmt__event_wait(shmt__ring* r, shmt__event_mark since, bool only_pulses, uint64_t deadline_ns) {
  shmt__ring_header* h = r->header;
  uint64_t begun_ns = 0;
  if (be_member(r) != SHMT_OK) return SHMT_RING_FAILED;
  for (;;) {
    uint32_t armed = 0;
    for (int i = 0; i < 2; i++) { /* before and after it says that it will sleep */
      const bool has_come = only_pulses ? shmt__event_mark_now(r).n_pulses != since.n_pulses
                                        : shmt__event_has_come(r, since);
      if (has_come) return SHMT_RING_DONE;
      if (deadline_ns == 0) return SHMT_RING_EMPTY;
      if (i == 0) armed = shmt__ring_event_arm(&h->data_event);
    }
    shmt__os_wait w = shmt__os_futex_wait(&h->data_event, armed, shmt__ring_slice(deadline_ns));
    const shmt__ring_result result = shmt__ring_woken(r, w, &begun_ns, deadline_ns);
    if (result == SHMT_RING_INTERRUPTED) return result;
    if (result == SHMT_RING_EMPTY) {
      deadline_ns = 0; /* a last look */
      shmt__ring_check_manager(r);
    }
  }
}
