/* ipc/topic/subscribers.c -- the slots of a topic, and the rings that they name. */
#include "ipc/topic/subscribers.h"

#include "api/error.h"
#include "ipc/handle/import.h"
#include "ipc/session/session.h"
#include "os/failpoint.h"
#include "shm/block.h"
#include "shm/client.h"

static void empty_slot(shmt__topic_slot* slot, uint64_t generation) {
  (void)atomic_compare_exchange_strong_explicit(&slot->generation, &generation, 0, memory_order_relaxed,
                                                memory_order_relaxed);
}

/* Does no other process hold the ring, nor this one as its subscriber? We hold it ourselves. */
static bool is_abandoned(const shmt__topic* t, uint32_t block, uint32_t subscriber) {
  const shmt__map* map = &t->log->session->map;
  const unsigned me = t->log->session->client;
  if (subscriber == shmt__client_member(map, me)) return false;
  for (unsigned i = 0; i * 64 < shmt__map_clients_end(map); i++) {
    uint64_t holds = shmt__block_holds(map, block, i);
    if (me / 64 == i) holds &= ~(UINT64_C(1) << me % 64);
    if (holds != 0) return false;
  }
  return true;
}

bool shmt__topic_open_slot(const shmt__topic* t, shmt__topic_slot* slot, shmt__ring* out, shmt_storage** storage) {
  /* acquire: with the generation, the rest. */
  const uint64_t generation = atomic_load_explicit(&slot->generation, memory_order_acquire);
  if (generation == 0) return false;
  uint32_t depth = atomic_load_explicit(&slot->depth, memory_order_relaxed);
  if (depth > SHMT_TOPIC_MOST_DEPTH) depth = SHMT_TOPIC_MOST_DEPTH; /* any member can write there */
  const shmt__ring_block ref = {.generation = generation,
                                .nbytes = (uint64_t)SHMT_RING_BARE_DATA + shmt__topic_capacity(depth),
                                .block = atomic_load_explicit(&slot->block, memory_order_relaxed)};
  shmt_status status = shmt__ring_blocks_open(t->log->session, &ref, 1, storage);
  if (status == SHMT_OK) {
    status = shmt__ring_view(*storage, out);
    if (status == SHMT_OK &&
        !is_abandoned(t, ref.block, atomic_load_explicit(&slot->subscriber, memory_order_relaxed)))
      return true;
    shmt__storage_release(*storage);
    if (status == SHMT_OK) status = SHMT_E_HANDLE;
  }
  if (status == SHMT_E_HANDLE) empty_slot(slot, generation);
  shmt_error_clear();
  return false;
}

bool shmt__topic_subscriber_holds(const shmt__topic* t, const shmt__topic_slot* slot) {
  const shmt__map* map = &t->log->session->map;
  const uint32_t member = atomic_load_explicit(&slot->subscriber, memory_order_relaxed);
  const uint32_t block = atomic_load_explicit(&slot->block, memory_order_relaxed);
  return shmt__member_has_number(map, member) && block < shmt__map_blocks_end(map) &&
         shmt__block_is_held_by(map, block, shmt__member_id(member));
}

shmt__ring_result shmt__topic_open_past(shmt__topic* t) {
  shmt__received_message m;
  if (t->past != NULL) return SHMT_RING_DONE;
  uint64_t at = atomic_load_explicit(&t->log->header->head, memory_order_relaxed);
  const uint64_t tail = atomic_load_explicit(&t->log->header->tail, memory_order_relaxed);
  if (shmt__ring_count(at) == shmt__ring_count(tail)) return SHMT_RING_EMPTY;
  shmt_status status = shmt__ring_peek(t->log, &at, tail, &m);
  if (status == SHMT_OK) {
    shmt_storage* s = m.n_storages > 0 ? m.storages[0] : NULL;
    if (s != NULL) shmt__storage_retain(s);
    status = s != NULL ? shmt__ring_over(s, &t->past) : SHMT_E_HANDLE;
    shmt__received_message_fini(&m);
  }
  if (status != SHMT_E_HANDLE) return status == SHMT_OK ? SHMT_RING_DONE : SHMT_RING_FAILED;
  shmt_error_clear();
  return SHMT_RING_EMPTY;
}

void shmt__topic_trim_past(shmt__topic* t, uint32_t history) {
  for (uint32_t n = shmt__ring_n_messages(t->past); n > history; n--)
    if (shmt__ring_drop(t->past) != SHMT_RING_DONE) break;
}

void shmt__topic_forget_dead(shmt__topic* t) {
  const uint32_t end = shmt__topic_slots_end(t);
  for (uint32_t i = 0; i < end; i++) {
    shmt__ring ring;
    shmt_storage* storage = NULL;
    if (shmt__topic_open_slot(t, &t->table->slots[i], &ring, &storage)) shmt__storage_release(storage);
  }
}

/* One message will not reach the subscriber, or did after all. */
static void count_lost(shmt__topic* t, shmt__ring* ring, bool is_lost) {
  const uint64_t n = is_lost ? 1 : UINT64_MAX;
  atomic_fetch_add_explicit(&ring->header->n_lost, n, memory_order_relaxed);
  atomic_fetch_add_explicit(&t->table->n_lost, n, memory_order_relaxed);
  SHMT_FAILPOINT(topic_counted);
}

/* A signal that comes while we wait a moment for the subscriber's lock is no reason to lose a message. However often
 * signals come, the attempts have an end. */
static bool is_to_be_repeated(shmt__ring_result result, uint64_t* end_ns) {
  enum { PATIENCE_NS = 20000000 };
  if (SHMT_LIKELY(result != SHMT_RING_INTERRUPTED)) return false;
  const uint64_t now_ns = shmt__os_now_ns();
  if (*end_ns == 0) *end_ns = now_ns + PATIENCE_NS;
  return now_ns < *end_ns;
}
static shmt__ring_result put_now(shmt__ring* ring, const shmt__outgoing_message* m) {
  shmt__ring_result result;
  uint64_t end_ns = 0;
  do {
    result = shmt__ring_put(ring, m, 0, 0);
  } while (is_to_be_repeated(result, &end_ns));
  return result;
}
static shmt__ring_result drop_now(shmt__ring* ring) {
  shmt__ring_result result;
  uint64_t end_ns = 0;
  do {
    result = shmt__ring_drop(ring);
  } while (is_to_be_repeated(result, &end_ns));
  return result;
}

void shmt__topic_deliver(shmt__topic* t, shmt__ring* ring, const shmt__outgoing_message* m, shmt__overflow overflow) {
  const bool drops = overflow == SHMT_OVERFLOW_DROP_OLDEST;
  if (shmt__topic_skips(ring, m)) return;
  /* A member may write the counts and the bound of the ring: the attempts have an end. */
  for (uint32_t i = 0;; i++) {
    shmt__ring_result result = put_now(ring, m);
    if (result == SHMT_RING_DONE) return;
    const bool makes_room = drops && i <= SHMT_TOPIC_MOST_DEPTH &&
                            (result == SHMT_RING_FULL || result == SHMT_RING_NO_ROOM);
    if (result == SHMT_RING_FAILED) shmt_error_clear();
    count_lost(t, ring, true); /* the oldest one, or else the new one */
    if (!makes_room) return;
    result = drop_now(ring);
    if (result == SHMT_RING_EMPTY)
      count_lost(t, ring, false); /* the subscriber has taken it meanwhile */
    else if (result != SHMT_RING_DONE) {
      if (result == SHMT_RING_FAILED) shmt_error_clear();
      return;
    }
  }
}
