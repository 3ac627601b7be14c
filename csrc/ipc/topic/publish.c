/* ipc/topic/publish.c -- publishes messages: into the log, and into the rings of a topic's subscribers.
 * See the Notes in ipc/topic/topic_layout.h. */
#include "api/error.h"
#include "ipc/ring/wait.h"
#include "ipc/topic/subscribers.h"
#include "os/clock.h"
#include "os/failpoint.h"
#include "os/process.h"

enum { ROOM_SLICE_MS = 10, KEEP_MS = 250 };

/* Make `past`, unless somebody else has. That may ask the manager for memory, so it begins without the lock. */
static shmt__ring_result make_past(shmt__topic* t, uint32_t history, uint64_t deadline_ns) {
  shmt__ring* ring = NULL;
  uint32_t word = 0;
  const uint32_t most = history + 1; /* while a message is put: keep() */
  if (shmt__ring_create_in(t->log->session, SHMT_RING_BARE_DATA, shmt__topic_past_capacity(history), most, &ring) !=
      SHMT_OK)
    return SHMT_RING_FAILED;
  shmt__ring_result result = shmt__ring_lock(t->log, &t->log->header->put_lock, deadline_ns, &word);
  if (result == SHMT_RING_DONE) {
    result = shmt__topic_open_past(t);
    if (result == SHMT_RING_EMPTY) {
      const shmt__outgoing_message m = {.storages = &ring->storage, .n_storages = 1};
      for (uint32_t n = shmt__ring_n_messages(t->log); n > 0; n--) /* one that is gone */
        if (shmt__ring_drop(t->log) != SHMT_RING_DONE) break;
      result = shmt__ring_put_in_lock(t->log, &m);
      SHMT_FAILPOINT(topic_past_made);
      if (result == SHMT_RING_DONE) t->past = SHMT_TAKE(ring);
    }
    shmt__ring_unlock(&t->log->header->put_lock, word);
  }
  shmt__ring_close(ring);
  return result;
}

/* Keep the message for those who come later, in `past`, which is open. It has room for one more than it keeps: whoever
 * is killed between putting and dropping leaves one too many, and not one too few. */
static void keep(shmt__topic* t, const shmt__outgoing_message* m, uint32_t history) {
  const uint64_t deadline_ns = shmt__os_now_ns() + KEEP_MS * UINT64_C(1000000);
  uint32_t word = 0;
  /* Only the manager's audit has this lock, or a publisher that was killed and is not yet marked as dead here. */
  shmt__ring_result result = SHMT_RING_INTERRUPTED;
  while (result == SHMT_RING_INTERRUPTED && shmt__os_now_ns() < deadline_ns)
    result = shmt__ring_lock(t->past, &t->past->header->put_lock, deadline_ns, &word);
  if (result != SHMT_RING_DONE) return;
  result = shmt__ring_put_in_lock(t->past, m);
  for (uint32_t i = 0; i <= history && (result == SHMT_RING_FULL || result == SHMT_RING_NO_ROOM); i++) {
    if (shmt__ring_drop(t->past) != SHMT_RING_DONE) break;
    result = shmt__ring_put_in_lock(t->past, m);
  }
  shmt__ring_unlock(&t->past->header->put_lock, word);
  if (result == SHMT_RING_FAILED) shmt_error_clear();
  shmt__topic_trim_past(t, history);
}

static void publish_locked(shmt__topic* t, const shmt__outgoing_message* m, const shmt__topic_kind* kind) {
  const uint32_t end = shmt__topic_slots_end(t);
  if (kind->history > 0) keep(t, m, kind->history);
  for (uint32_t i = 0; i < end; i++) {
    shmt__ring ring;
    shmt_storage* storage = NULL;
    if (!shmt__topic_open_slot(t, &t->table->slots[i], &ring, &storage)) continue;
    shmt__topic_deliver(t, &ring, m, kind->overflow);
    shmt__storage_release(storage);
    SHMT_FAILPOINT(topic_delivered);
  }
  atomic_fetch_add_explicit(&t->table->n_published, 1, memory_order_relaxed);
}

/* --- waiting for slow subscribers --- */

static bool has_room(const shmt__ring* r, uint32_t nbytes) {
  const uint64_t head = atomic_load_explicit(&r->header->head, memory_order_seq_cst);
  const uint64_t tail = atomic_load_explicit(&r->header->tail, memory_order_relaxed);
  return shmt__ring_count(tail) - shmt__ring_count(head) < shmt__ring_max_messages(r) &&
         shmt__ring_used(head, tail, r->area.capacity) + nbytes <= r->area.capacity;
}

/* The first subscriber without room for the message; *storage is the caller's. NULL: all have room. */
static const shmt__topic_slot* find_full(const shmt__topic* t, const shmt__outgoing_message* m, uint32_t nbytes,
                                         shmt__ring* out, shmt_storage** storage) {
  const uint32_t end = shmt__topic_slots_end(t);
  for (uint32_t i = 0; i < end; i++) {
    if (!shmt__topic_open_slot(t, &t->table->slots[i], out, storage)) continue;
    if (!shmt__topic_skips(out, m) && !has_room(out, nbytes)) return &t->table->slots[i];
    shmt__storage_release(*storage);
  }
  return NULL;
}

static shmt__ring_result wait_for_room(shmt__ring* r, uint32_t nbytes, uint64_t deadline_ns) {
  const uint32_t armed = shmt__ring_event_arm(&r->header->room_event);
  if (has_room(r, nbytes)) return SHMT_RING_DONE;
  /* A short slice: the subscriber may be killed. */
  const uint64_t slice = shmt__os_now_ns() + ROOM_SLICE_MS * UINT64_C(1000000);
  shmt__os_wait w = shmt__os_futex_wait(&r->header->room_event, armed, slice < deadline_ns ? slice : deadline_ns);
  if (w == SHMT_OS_WAIT_TIMED_OUT) shmt__ring_check_manager(r);
  return w == SHMT_OS_WAIT_INTERRUPTED ? SHMT_RING_INTERRUPTED : SHMT_RING_DONE;
}

shmt__ring_result shmt__topic_publish(shmt__topic* t, const shmt__outgoing_message* m, uint64_t deadline_ns) {
  const uint32_t nbytes = (uint32_t)shmt__ring_message_bytes(
      m->n_storages, (uint64_t)m->part_bytes[0] + m->part_bytes[1]);
  uint64_t begun_ns = 0;
  for (;;) {
    shmt__ring full;
    shmt_storage* storage = NULL;
    uint32_t word = 0;
    shmt__ring_result result = shmt__ring_lock(t->log, &t->log->header->put_lock, deadline_ns, &word);
    if (result != SHMT_RING_DONE) return result;
    const shmt__topic_kind kind = shmt__topic_kind_now(t);
    result = kind.history > 0 ? shmt__topic_open_past(t) : SHMT_RING_DONE;
    if (result != SHMT_RING_DONE) {
      shmt__ring_unlock(&t->log->header->put_lock, word);
      if (result == SHMT_RING_EMPTY) result = make_past(t, kind.history, deadline_ns);
      /* A member may take it away as often as it is made. */
      if (result == SHMT_RING_DONE) result = shmt__ring_round(&begun_ns, deadline_ns);
      if (result != SHMT_RING_DONE) return result == SHMT_RING_EMPTY ? SHMT_RING_BUSY : result;
      continue;
    }
    const shmt__topic_slot* slot =
        kind.overflow == SHMT_OVERFLOW_BLOCK ? find_full(t, m, nbytes, &full, &storage) : NULL;
    if (slot == NULL) publish_locked(t, m, &kind);
    const bool is_held = slot != NULL && shmt__topic_subscriber_holds(t, slot);
    shmt__ring_unlock(&t->log->header->put_lock, word);
    if (slot == NULL) return SHMT_RING_DONE;
    if (!is_held) { /* Note [Publishing]: wait without holding the ring */
      shmt__storage_release(storage);
      storage = NULL;
    }
    result = deadline_ns != 0 ? shmt__ring_round(&begun_ns, deadline_ns) : SHMT_RING_EMPTY;
    if (result == SHMT_RING_EMPTY)
      result = SHMT_RING_FULL;
    else if (result == SHMT_RING_DONE && !is_held)
      shmt__os_sleep_ms(ROOM_SLICE_MS);
    else if (result == SHMT_RING_DONE)
      result = wait_for_room(&full, nbytes, deadline_ns);
    shmt__storage_release(storage);
    if (result != SHMT_RING_DONE) return result;
  }
}
