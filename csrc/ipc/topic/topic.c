/* ipc/topic/topic.c -- makes, opens and closes topics, and their subscriptions. */
#include "ipc/topic/topic.h"

#include "api/error.h"
#include "ipc/handle/share.h"
#include "ipc/ring/wait.h"
#include "ipc/session/session.h"
#include "ipc/topic/subscribers.h"
#include "os/failpoint.h"
#include "shm/client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- life --- */

shmt_status shmt__topic_make_storages(shmt__session* s, const shmt__topic_wish* said, shmt_storage** out_log,
                                      shmt_storage** out_table) {
  SHMT_AUTO(shmt_storage) table = NULL;
  shmt__ring* log = NULL;
  SHMT_TRY(shmt__storage_create_in(s, sizeof(shmt__topic_table), &table));
  shmt__topic_table* t = table->data;
  memset(t, 0, sizeof *t);
  t->magic = SHMT_TOPIC_MAGIC;
  t->version = SHMT_TOPIC_VERSION;
  atomic_init(&t->said, shmt__topic_said_of(said));
  SHMT_TRY(shmt__ring_create_in(s, SHMT_RING_BARE_DATA, SHMT_RING_LEAST_CAPACITY, 1, &log));
  shmt__storage_retain(log->storage);
  *out_log = log->storage;
  shmt__ring_close(log);
  *out_table = SHMT_TAKE(table);
  return SHMT_OK;
}

static shmt_status check_table(const shmt_storage* s) {
  const shmt__topic_table* table = s->data;
  bool is_good = s->nbytes == sizeof *table && s->ctx != NULL && !shmt__storage_has(s, SHMT_STORAGE_READ_ONLY) &&
                 table->magic == SHMT_TOPIC_MAGIC && table->version == SHMT_TOPIC_VERSION;
  if (is_good) {
    const shmt__topic_wish said = shmt__topic_wish_of(atomic_load_explicit(&table->said, memory_order_relaxed));
    is_good = shmt__topic_wish_is_valid(&said);
  }
  SHMT_REQUIRE(is_good, SHMT_E_HANDLE, "a storage of %" PRIu64 " bytes is not a topic", s->nbytes);
  return SHMT_OK;
}

shmt_status shmt__topic_over(shmt_storage* log, shmt_storage* table, shmt__topic** out) {
  shmt__topic* t = NULL;
  shmt__ring* ring = NULL;
  shmt_status status = shmt__ring_over(log, &ring);
  if (status == SHMT_OK) status = check_table(table);
  if (status == SHMT_OK && (t = malloc(sizeof *t)) == NULL)
    status = shmt__fail(SHMT_E_NOMEM, "topic: tried to allocate %zu bytes", sizeof *t);
  if (status != SHMT_OK) {
    shmt__ring_close(ring);
    shmt__storage_release(table);
    return status;
  }
  ring->inline_bytes = SHMT_TOPIC_INLINE;
  *t = (shmt__topic){.log = ring, .storage = table, .table = table->data};
  *out = t;
  return SHMT_OK;
}

void shmt__topic_close(shmt__topic* t) {
  if (t == NULL) return;
  shmt__ring_close(t->past);
  shmt__ring_close(t->log);
  shmt__storage_release(t->storage);
  free(t);
}

bool shmt__topic_say(shmt__topic* t, const shmt__topic_wish* w, shmt__topic_wish* out) {
  uint64_t before = atomic_load_explicit(&t->table->said, memory_order_relaxed), now;
  SHMT_ASSERT(shmt__topic_wish_is_valid(w));
  do {
    const struct {
      int64_t wanted, *said;
    } facts[] = {{w->depth, &out->depth}, {w->history, &out->history}, {w->overflow, &out->overflow}};
    *out = shmt__topic_wish_of(before);
    if (!shmt__topic_wish_is_valid(out)) *out = shmt__topic_wish_of(0);
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
      if (facts[i].wanted < 0) continue;
      if (*facts[i].said >= 0 && *facts[i].said != facts[i].wanted) return false;
    }
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
      if (facts[i].wanted >= 0) *facts[i].said = facts[i].wanted;
    now = shmt__topic_said_of(out);
  } while (now != before && !atomic_compare_exchange_weak_explicit(&t->table->said, &before, now, memory_order_relaxed,
                                                                  memory_order_relaxed));
  return true;
}

/* --- subscriptions --- */

/* Put the messages of the history into a new subscriber's ring. The caller has the topic's lock. One that cannot be
 * read any more is left out. */
static void replay(shmt__topic* t, shmt__ring* ring) {
  const uint32_t history = shmt__topic_kind_now(t).history;
  if (history == 0 || shmt__topic_open_past(t) != SHMT_RING_DONE) {
    shmt_error_clear();
    return;
  }
  shmt__topic_trim_past(t, history);
  uint64_t at = atomic_load_explicit(&t->past->header->head, memory_order_relaxed);
  const uint64_t tail = atomic_load_explicit(&t->past->header->tail, memory_order_relaxed);
  for (uint32_t i = 0; i <= history && shmt__ring_count(at) != shmt__ring_count(tail); i++) {
    shmt__received_message m;
    if (shmt__ring_peek(t->past, &at, tail, &m) != SHMT_OK) {
      shmt_error_clear();
      return;
    }
    const shmt__outgoing_message again = {.storages = m.storages,
                                          .n_storages = m.n_storages,
                                          .flags = m.flags,
                                          .parts = {m.data, NULL},
                                          .part_bytes = {m.nbytes, 0}};
    shmt__topic_deliver(t, ring, &again, SHMT_OVERFLOW_DROP_OLDEST);
    shmt__received_message_fini(&m);
  }
  /* What does not fit into `depth` is no loss. */
  atomic_fetch_sub_explicit(&t->table->n_lost, atomic_load_explicit(&ring->header->n_lost, memory_order_relaxed),
                            memory_order_relaxed);
  atomic_store_explicit(&ring->header->n_lost, 0, memory_order_relaxed);
}

/* Find a slot that nobody has. The caller has the topic's lock. NULL: all are taken. */
static shmt__topic_slot* free_slot(const shmt__topic* t) {
  const uint32_t end = shmt__topic_slots_end(t);
  for (uint32_t i = 0; i < end; i++) {
    if (atomic_load_explicit(&t->table->slots[i].generation, memory_order_relaxed) == 0) return &t->table->slots[i];
  }
  if (end == SHMT_TOPIC_SLOTS) return NULL;
  atomic_store_explicit(&t->table->slots_end, end + 1, memory_order_relaxed);
  return &t->table->slots[end];
}

static shmt__ring_result subscribe_locked(shmt__topic* t, shmt__ring* ring, uint32_t depth) {
  shmt__topic_slot* slot = free_slot(t);
  if (slot == NULL) shmt__topic_forget_dead(t);
  if (slot == NULL) slot = free_slot(t);
  if (slot == NULL) {
    (void)shmt__fail(SHMT_E_RUNTIME, "all %d subscribers of the topic are taken", SHMT_TOPIC_SLOTS);
    return SHMT_RING_FAILED;
  }
  replay(t, ring);
  const shmt__held_block* h = ring->storage->ctx;
  atomic_store_explicit(&slot->block, h->block, memory_order_relaxed);
  atomic_store_explicit(&slot->depth, depth, memory_order_relaxed);
  atomic_store_explicit(&slot->subscriber, shmt__client_member(&t->log->session->map, shmt__ring_client(ring)),
                        memory_order_relaxed);
  SHMT_FAILPOINT(topic_slot_filled);
  /* release: whoever sees the generation sees the rest. */
  atomic_store_explicit(&slot->generation, h->generation, memory_order_release);
  return SHMT_RING_DONE;
}

shmt__ring_result shmt__topic_subscribe(shmt__topic* t, bool only_local, uint64_t deadline_ns, shmt__ring** out) {
  shmt__ring* ring = NULL;
  uint32_t word = 0;
  const uint32_t depth = shmt__topic_kind_now(t).depth;
  if (shmt__ring_create_in(t->log->session, SHMT_RING_BARE_DATA, shmt__topic_capacity(depth), depth, &ring) != SHMT_OK)
    return SHMT_RING_FAILED;
  atomic_store_explicit(&ring->header->only_local, only_local, memory_order_relaxed);
  shmt__ring_result result = shmt__ring_lock(t->log, &t->log->header->put_lock, deadline_ns, &word);
  if (result == SHMT_RING_DONE) {
    result = subscribe_locked(t, ring, depth);
    shmt__ring_unlock(&t->log->header->put_lock, word);
  }
  if (result != SHMT_RING_DONE) {
    shmt__ring_close(ring);
    return result;
  }
  *out = ring;
  return SHMT_RING_DONE;
}

void shmt__topic_unsubscribe(shmt__topic* t, const shmt__ring* ring) {
  const shmt__held_block* h = ring->storage->ctx;
  const uint32_t end = shmt__topic_slots_end(t);
  const uint32_t me = shmt__client_member(&t->log->session->map, t->log->session->client);
  for (uint32_t i = 0; i < end; i++) {
    shmt__topic_slot* slot = &t->table->slots[i];
    uint64_t generation = h->generation;
    if (atomic_load_explicit(&slot->block, memory_order_relaxed) == h->block &&
        atomic_load_explicit(&slot->subscriber, memory_order_relaxed) == me &&
        atomic_compare_exchange_strong_explicit(&slot->generation, &generation, 0, memory_order_release,
                                                memory_order_relaxed))
      break;
  }
  /* A publisher may be waiting for room here. */
  shmt__ring_event_signal(&ring->header->room_event, true);
}

/* --- the history --- */

static shmt__ring_result latest_locked(shmt__topic* t, shmt__received_message* out) {
  const uint32_t history = shmt__topic_kind_now(t).history;
  const shmt__ring_result opened = history > 0 ? shmt__topic_open_past(t) : SHMT_RING_EMPTY;
  if (opened != SHMT_RING_DONE) return opened;
  uint64_t at = atomic_load_explicit(&t->past->header->head, memory_order_relaxed);
  const uint64_t tail = atomic_load_explicit(&t->past->header->tail, memory_order_relaxed);
  bool is_there = false;
  /* One more than the history, if a publisher was killed. */
  for (uint32_t i = 0; i <= history && shmt__ring_count(at) != shmt__ring_count(tail); i++) {
    if (is_there) shmt__received_message_fini(out);
    is_there = shmt__ring_peek(t->past, &at, tail, out) == SHMT_OK;
    if (!is_there) return SHMT_RING_FAILED;
  }
  return is_there ? SHMT_RING_DONE : SHMT_RING_EMPTY;
}

shmt__ring_result shmt__topic_latest(shmt__topic* t, uint64_t deadline_ns, shmt__received_message* out) {
  uint32_t word = 0;
  shmt__ring_result result = shmt__ring_lock(t->log, &t->log->header->put_lock, deadline_ns, &word);
  if (result != SHMT_RING_DONE) return result;
  result = latest_locked(t, out);
  shmt__ring_unlock(&t->log->header->put_lock, word);
  return result;
}

/* --- counters --- */

uint32_t shmt__topic_n_subscribers(const shmt__topic* t) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < shmt__topic_slots_end(t); i++)
    n += atomic_load_explicit(&t->table->slots[i].generation, memory_order_relaxed) != 0;
  return n;
}

uint64_t shmt__topic_n_published(const shmt__topic* t) {
  return atomic_load_explicit(&t->table->n_published, memory_order_relaxed);
}
