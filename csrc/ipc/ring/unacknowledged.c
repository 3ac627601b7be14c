/* ipc/ring/unacknowledged.c -- getting with an acknowledgement. See the Notes [Unacknowledged messages] and [Moves
 * between the rings] in ipc/ring/message_layout.h.
 *
 * In this file q is the queue's ring and u that of its unacknowledged messages.
 */
#include "ipc/ring/unacknowledged.h"

#include "api/error.h"
#include "ipc/handle/import.h"
#include "ipc/handle/share.h"
#include "ipc/ring/put_get.h"
#include "ipc/ring/unacked_messages.h"
#include "ipc/ring/wait.h"
#include "ipc/session/session.h"
#include "os/clock.h"
#include "os/failpoint.h"
#include "shm/block.h"
#include "shm/client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
  FEW_BLOCKS = 32,
  SEARCH_EVERY_MS = 100, /* for dead takers, while nobody says that there is one */
  ROOM_SLICE_MS = 50,
};

void shmt__ring_settle_move(shmt__ring* q) {
  shmt__ring_header* h = q->header;
  const uint64_t moving = atomic_load_explicit(&h->moving, memory_order_acquire);
  if (moving == 0) return;
  if (atomic_load_explicit(&h->head, memory_order_relaxed) == moving - 1)
    atomic_store_explicit(&h->moved_id, atomic_load_explicit(&h->moving_id, memory_order_relaxed),
                          memory_order_release);
  atomic_store_explicit(&h->moving, 0, memory_order_release);
}

/* --- the locks --- */

typedef struct locks {
  shmt__ring *q, *u;
  uint32_t put, get, unacked; /* words; 0: not taken */
} locks;

static void unlock(locks* l) {
  if (l->unacked != 0) {
    atomic_store_explicit(&l->u->header->is_dirty, 0, memory_order_release);
    shmt__ring_unlock(&l->u->header->get_lock, l->unacked);
  }
  if (l->get != 0) shmt__ring_unlock(&l->q->header->get_lock, l->get);
  if (l->put != 0) shmt__ring_unlock(&l->q->header->put_lock, l->put);
}

/* We have the locks: bring everything into order. Unlocks when that fails. */
static shmt__ring_result begin(locks* l) {
  shmt__ring_header* uh = l->u->header;
  const bool was_dirty = atomic_exchange_explicit(&uh->is_dirty, 1, memory_order_seq_cst) != 0;
  shmt__ring_settle_move(l->q);
  const bool is_damaged = shmt__unacked_begin(l->u).is_damaged;
  if (!is_damaged && !was_dirty && atomic_load_explicit(&l->q->header->moved_id, memory_order_relaxed) == 0)
    return SHMT_RING_DONE;
  if (!is_damaged && shmt__unacked_repair(l->q, l->u)) return SHMT_RING_DONE;
  shmt__ring_result result = shmt__unacked_empty(l->q, l->u);
  unlock(l);
  return result;
}

static shmt__ring_result lock(shmt__ring* q, shmt__ring* u, bool putting, uint64_t deadline_ns, locks* out) {
  *out = (locks){.q = q, .u = u};
  shmt__ring_result result = SHMT_RING_DONE;
  if (putting) result = shmt__ring_lock(q, &q->header->put_lock, deadline_ns, &out->put);
  if (result == SHMT_RING_DONE) result = shmt__ring_lock(q, &q->header->get_lock, deadline_ns, &out->get);
  if (result != SHMT_RING_DONE) out->get = 0;
  if (result == SHMT_RING_DONE) result = shmt__ring_lock(u, &u->header->get_lock, deadline_ns, &out->unacked);
  if (result == SHMT_RING_DONE) return begin(out);
  out->unacked = 0;
  unlock(out);
  return result;
}

/* Lock all without waiting. */
static bool try_lock(shmt__ring* q, shmt__ring* u, locks* out) {
  const unsigned me = shmt__ring_client(q);
  bool was_dead = false;
  *out = (locks){.q = q, .u = u};
  if (me == 0) return false;
  out->put = shmt__ring_try_lock(&q->header->put_lock, me, &was_dead);
  if (out->put != 0) out->get = shmt__ring_try_lock(&q->header->get_lock, me, &was_dead);
  if (out->get != 0) out->unacked = shmt__ring_try_lock(&u->header->get_lock, me, &was_dead);
  if (out->unacked != 0) return begin(out) == SHMT_RING_DONE;
  unlock(out);
  return false;
}

/* --- opening u --- */

static void keep_opened(shmt__ring* q, shmt__ring* u) {
  shmt__ring* none = NULL;
  /* acq_rel: whoever sees it sees it whole. */
  if (!atomic_compare_exchange_strong_explicit(&q->unacked, &none, u, memory_order_acq_rel, memory_order_acquire))
    shmt__ring_close(u);
}

/* *out: NULL if the queue has none. */
static shmt_status open_unacked(shmt__ring* q, shmt__ring** out) {
  shmt_storage* s = NULL;
  shmt__ring* u = NULL;
  *out = atomic_load_explicit(&q->unacked, memory_order_acquire);
  if (*out != NULL) return SHMT_OK;
  /* acquire: with the generation, the block. */
  const shmt__ring_block ref = {
      .generation = atomic_load_explicit(&q->header->unacked_generation, memory_order_acquire),
      .nbytes = SHMT_RING_BARE_DATA + SHMT_RING_UNACKED_CAPACITY,
      .block = atomic_load_explicit(&q->header->unacked_block, memory_order_relaxed)};
  if (ref.generation == 0 || q->is_bare) return SHMT_OK;
  SHMT_TRY(shmt__ring_blocks_open(q->session, &ref, 1, &s));
  SHMT_TRY(shmt__ring_over(s, &u));
  if (!u->is_bare || u->area.capacity != SHMT_RING_UNACKED_CAPACITY) {
    shmt__ring_close(u);
    SHMT_FAIL(SHMT_E_HANDLE, "the queue is damaged: block %" PRIu32 " has no unacknowledged messages", ref.block);
  }
  keep_opened(q, u);
  *out = atomic_load_explicit(&q->unacked, memory_order_acquire);
  return SHMT_OK;
}

/* Make u and let the queue keep it, unless another process was faster. */
static shmt__ring_result make_unacked(shmt__ring* q, uint64_t deadline_ns) {
  shmt__ring* u = NULL;
  uint32_t word = 0;
  shmt__ring_header* h = q->header;
  if (shmt__ring_create_in(q->session, SHMT_RING_BARE_DATA, SHMT_RING_UNACKED_CAPACITY, 0, &u) != SHMT_OK)
    return SHMT_RING_FAILED;
  shmt__ring_result result = shmt__ring_lock(q, &h->get_lock, deadline_ns, &word);
  bool is_ours = false;
  if (result == SHMT_RING_DONE) {
    const shmt__held_block* held = u->storage->ctx;
    const uint64_t generation = held->generation;
    is_ours = generation != 0 && atomic_load_explicit(&h->unacked_generation, memory_order_relaxed) == 0;
    if (is_ours) {
      shmt__block_add_ring_lease(u->block, generation);
      SHMT_FAILPOINT(ack_ring_leased);
      atomic_store_explicit(&h->unacked_block, held->block, memory_order_relaxed);
      /* release: whoever sees the generation sees the block. */
      atomic_store_explicit(&h->unacked_generation, generation, memory_order_release);
      SHMT_FAILPOINT(ack_ring_named);
    }
    shmt__ring_unlock(&h->get_lock, word);
  }
  if (is_ours)
    keep_opened(q, u);
  else
    shmt__ring_close(u);
  return result;
}

/* --- taking --- */

static bool has_room(const shmt__ring* u, uint64_t nbytes) {
  const uint64_t head = atomic_load_explicit(&u->header->head, memory_order_relaxed);
  const uint64_t tail = atomic_load_explicit(&u->header->tail, memory_order_relaxed);
  return shmt__ring_used(head, tail, u->area.capacity) + nbytes <= shmt__unacked_room(u);
}

/* Write the message into u, as PREPARED. */
static shmt__ring_result prepare(shmt__ring* u, const shmt__received_message* m, const shmt__delivery* d,
                                 shmt__unacked* out) {
  const unsigned me = shmt__ring_client(u);
  const atomic_uint_least32_t* n_claims = &u->session->map.clients[me].n_claims;
  const shmt__ring_taken taken = {.id = d->id,
                                  .client = me,
                                  .n_claims = atomic_load_explicit(n_claims, memory_order_relaxed),
                                  .state = SHMT_TAKEN_PREPARED,
                                  .becomes = SHMT_TAKEN_LIVE,
                                  .deliveries = d->deliveries};
  const shmt__outgoing_message copy = {.storages = m->storages,
                                       .n_storages = m->n_storages,
                                       .flags = (m->flags & SHMT_RING_FLAGS) | SHMT_RING_TAKEN,
                                       .parts = {&taken, m->data},
                                       .part_bytes = {sizeof taken, m->nbytes}};
  const uint64_t nbytes = shmt__ring_message_bytes(m->n_storages, sizeof taken + m->nbytes);
  if (!has_room(u, nbytes)) shmt__unacked_trim(u, true);
  if (!has_room(u, nbytes)) return SHMT_RING_NO_ROOM;
  shmt__unacked_walk w = {.at = atomic_load_explicit(&u->header->tail, memory_order_relaxed)};
  shmt__ring_result result = shmt__ring_put_in_lock(u, &copy);
  if (result == SHMT_RING_FULL) return SHMT_RING_NO_ROOM; /* U has no bound, but any member can write one */
  w.left = u->area.capacity;
  if (result == SHMT_RING_DONE && !shmt__unacked_next(u, &w, out)) {
    (void)shmt__fail(SHMT_E_HANDLE, "the queue is damaged: somebody writes to its unacknowledged messages");
    result = SHMT_RING_FAILED;
  }
  return result;
}

/* Move the head of the queue behind its first message. */
static void move_to_unacked(shmt__ring* q, shmt__ring* u, shmt__unacked* e, uint64_t next) {
  shmt__ring_header* h = q->header;
  atomic_store_explicit(&h->moving_id, e->taken.id, memory_order_relaxed);
  atomic_store_explicit(&h->moving, next + 1, memory_order_release);
  SHMT_FAILPOINT(ack_taking);
  /* release: we have read the message, so it may be overwritten. */
  atomic_store_explicit(&h->head, next, memory_order_release);
  SHMT_FAILPOINT(ack_taken);
  shmt__unacked_mark(u, e, SHMT_TAKEN_LIVE);
  atomic_store_explicit(&h->moving, 0, memory_order_release);
}

/* Take the first message. The caller has all locks but put_lock. */
static shmt__ring_result deliver_locked(shmt__ring* q, shmt__ring* u, shmt__received_message* out, shmt__delivery* d,
                                        bool* out_stays) {
  shmt__ring_header* h = q->header;
  const uint64_t head = atomic_load_explicit(&h->head, memory_order_relaxed);
  const uint64_t tail = atomic_load_explicit(&h->tail, memory_order_acquire);
  uint64_t next = head;
  shmt__unacked e;
  *out = (shmt__received_message){0};
  if (shmt__ring_count(head) == shmt__ring_count(tail)) return SHMT_RING_EMPTY;
  shmt_status status = shmt__ring_peek(q, &next, tail, out);
  if (status == SHMT_E_HANDLE) {
    shmt__ring_result result = shmt__ring_take_in_lock(q, out, out_stays); /* drops it, and says why */
    if (result == SHMT_RING_DONE) shmt__received_message_fini(out);
    return result == SHMT_RING_EMPTY ? result : SHMT_RING_FAILED;
  }
  *out_stays = status != SHMT_OK;
  if (status != SHMT_OK) return SHMT_RING_FAILED;
  const uint32_t n = out->flags >> SHMT_RING_DELIVERIES_SHIFT;
  d->deliveries = n < SHMT_RING_MOST_DELIVERIES ? n + 1 : n;
  d->id = (atomic_fetch_add_explicit(&u->header->last_id, 1, memory_order_relaxed) + 1) & ~SHMT_RING_MOVES_BACK;
  if (d->id == 0) d->id = 1; /* a member wrote there */
  atomic_fetch_add_explicit(&h->n_unacked, 1, memory_order_relaxed);
  shmt__ring_block few[FEW_BLOCKS], *refs = few;
  if (out->n_storages > FEW_BLOCKS) refs = malloc(sizeof *refs * out->n_storages);
  shmt__ring_result result = SHMT_RING_FAILED;
  if (refs == NULL)
    (void)shmt__fail(SHMT_E_NOMEM, "queue: tried to allocate %zu bytes", sizeof *refs * out->n_storages);
  else
    result = prepare(u, out, d, &e);
  if (result == SHMT_RING_DONE) {
    SHMT_FAILPOINT(ack_prepared);
    (void)shmt__ring_read(q->area,
                          (uint32_t)((shmt__ring_offset(head) + sizeof(shmt__ring_message)) % q->area.capacity), refs,
                          sizeof *refs * out->n_storages);
    move_to_unacked(q, u, &e, next);
    shmt__ring_end_leases(q, refs, out->n_storages);
    SHMT_FAILPOINT(ack_leases_ended);
  } else {
    shmt__received_message_fini(out);
    *out_stays = true;
  }
  if (refs != few) free(refs);
  return result;
}

/* u has no room. Writes the error. True: others have messages there, for which we may wait. */
static bool explain_no_room(shmt__ring* u) {
  const unsigned me = shmt__ring_client(u);
  uint32_t n = 0, nbytes = 0;
  bool has_others = false;
  shmt__unacked_walk w = shmt__unacked_begin(u);
  shmt__unacked e;
  while (shmt__unacked_next(u, &w, &e)) {
    if (!shmt__unacked_is_there(&e)) continue;
    n++;
    nbytes += e.m.nbytes;
    has_others = has_others || e.taken.client != me;
  }
  (void)shmt__fail(SHMT_E_RUNTIME,
                   "%" PRIu32 " messages of the queue are not acknowledged yet and take %" PRIu32 " of %" PRIu32
                   " bytes: acknowledge some before you get more",
                   n, nbytes, shmt__unacked_room(u));
  return has_others;
}

static shmt__ring_result wait_for_room(shmt__ring* u, uint64_t deadline_ns) {
  const uint32_t armed = shmt__ring_event_arm(&u->header->room_event);
  const uint64_t now_ns = shmt__os_now_ns(), slice_ns = now_ns + ROOM_SLICE_MS * UINT64_C(1000000);
  if (now_ns >= deadline_ns) return SHMT_RING_NO_ROOM;
  (void)shmt__os_futex_wait(&u->header->room_event, armed, slice_ns < deadline_ns ? slice_ns : deadline_ns);
  shmt__ring_check_manager(u);
  return SHMT_RING_INTERRUPTED;
}

shmt__ring_result shmt__ring_deliver(shmt__ring* q, shmt__received_message* out, shmt__delivery* deliveries,
                                     uint32_t n_max, uint32_t* n_out, uint64_t deadline_ns) {
  uint64_t begun_ns = 0;
  *n_out = 0;
  for (;;) {
    shmt__ring* u = NULL;
    locks l;
    bool stays = false, may_wait = false;
    shmt__ring_result result = shmt__ring_poll(q, deadline_ns);
    if (result != SHMT_RING_DONE) return result;
    if (open_unacked(q, &u) != SHMT_OK) return SHMT_RING_FAILED;
    if (u == NULL && (result = make_unacked(q, deadline_ns)) != SHMT_RING_DONE) return result;
    if (u == NULL && (result = shmt__ring_round(&begun_ns, deadline_ns)) != SHMT_RING_DONE) return result;
    if (u == NULL) continue;
    if ((result = lock(q, u, false, deadline_ns, &l)) != SHMT_RING_DONE) return result;
    while (*n_out < n_max &&
           (result = deliver_locked(q, u, &out[*n_out], &deliveries[*n_out], &stays)) == SHMT_RING_DONE)
      ++*n_out;
    if (result == SHMT_RING_NO_ROOM && *n_out == 0) may_wait = explain_no_room(u);
    if (result != SHMT_RING_DONE && result != SHMT_RING_EMPTY) shmt__unacked_tidy(q, u);
    unlock(&l);
    if (*n_out > 0 || result == SHMT_RING_FAILED) shmt__ring_signal_room(q);
    if (stays) shmt__ring_event_signal(&q->header->data_event, false);
    if (*n_out > 0) {
      if (result == SHMT_RING_FAILED) shmt_error_clear(); /* the next call says it */
      return SHMT_RING_DONE;
    }
    if (result == SHMT_RING_NO_ROOM) return may_wait ? wait_for_room(u, deadline_ns) : result;
    if (result == SHMT_RING_FAILED) return result;
    /* Another consumer took the message. */
    if ((result = shmt__ring_round(&begun_ns, deadline_ns)) != SHMT_RING_DONE) return result;
  }
}

/* --- acknowledging --- */

/* Find the message of a delivery. *is_damaged: u makes no sense. */
static bool find(const shmt__ring* u, uint64_t id, shmt__unacked* out, bool* is_damaged) {
  shmt__unacked_walk w = shmt__unacked_begin(u);
  while (shmt__unacked_next(u, &w, out)) {
    if (out->taken.id == id && shmt__unacked_is_there(out)) return true;
  }
  *is_damaged = w.is_damaged;
  return false;
}

static void signal_acknowledged(shmt__ring* q, shmt__ring* u) {
  shmt__ring_event_signal(&u->header->room_event, false);
  shmt__ring_event_signal(&q->header->done_event, true);
}

shmt__ring_result shmt__ring_acknowledge(shmt__ring* q, uint64_t id, uint64_t deadline_ns) {
  shmt__ring* u = NULL;
  uint32_t word = 0;
  bool is_damaged = false;
  shmt__unacked e;
  uint64_t begun_ns = 0;
  shmt__ring_result result;
  if (open_unacked(q, &u) != SHMT_OK) return SHMT_RING_FAILED;
  if (u == NULL) return SHMT_RING_EMPTY;
  for (;;) {
    if ((result = shmt__ring_lock(u, &u->header->get_lock, deadline_ns, &word)) != SHMT_RING_DONE) return result;
    if (SHMT_LIKELY(atomic_load_explicit(&u->header->is_dirty, memory_order_relaxed) == 0)) break;
    /* Somebody was killed in the middle: that takes the queue's lock to repair, which comes first. */
    shmt__ring_unlock(&u->header->get_lock, word);
    locks l;
    if ((result = lock(q, u, false, deadline_ns, &l)) != SHMT_RING_DONE) return result;
    unlock(&l);
    if ((result = shmt__ring_round(&begun_ns, deadline_ns)) == SHMT_RING_EMPTY) return SHMT_RING_BUSY;
    if (result != SHMT_RING_DONE) return result;
  }
  atomic_store_explicit(&u->header->is_dirty, 1, memory_order_relaxed);
  if (find(u, id, &e, &is_damaged)) {
    shmt__unacked_finish(q, u, &e);
    shmt__unacked_tidy(q, u);
  } else {
    result = is_damaged ? shmt__unacked_empty(q, u) : SHMT_RING_EMPTY;
  }
  atomic_store_explicit(&u->header->is_dirty, 0, memory_order_release);
  shmt__ring_unlock(&u->header->get_lock, word);
  signal_acknowledged(q, u);
  return result;
}

/* --- giving back --- */

/* Write a message before the head of the queue, and move the head there. False: there is no room, or no memory. */
static bool put_before_head(shmt__ring* q, const shmt__outgoing_message* p, const shmt__ring_block* refs, uint64_t id) {
  shmt__ring_header* h = q->header;
  const uint32_t capacity = q->area.capacity;
  const uint32_t nbytes = (uint32_t)shmt__ring_message_bytes(p->n_storages, p->part_bytes[0]);
  const uint64_t head = atomic_load_explicit(&h->head, memory_order_relaxed);
  const uint64_t tail = atomic_load_explicit(&h->tail, memory_order_relaxed);
  if (!shmt__ring_position_is_valid(head, capacity) || !shmt__ring_position_is_valid(tail, capacity) ||
      shmt__ring_used(head, tail, capacity) + nbytes > capacity)
    return false;
  const shmt__ring_message m = {
      .nbytes = nbytes, .n_data = p->part_bytes[0], .n_blocks = p->n_storages, .flags = p->flags};
  const uint32_t begin = (shmt__ring_offset(head) + capacity - nbytes) % capacity;
  if (shmt__ring_reserve(q, begin, nbytes) != SHMT_OK) return false;
  shmt__unacked_add_leases(q, refs, p->n_storages);
  uint32_t at = shmt__ring_write(q->area, begin, &m, sizeof m);
  at = shmt__ring_write(q->area, at, refs, sizeof *refs * p->n_storages);
  (void)shmt__ring_write(q->area, at, p->parts[0], p->part_bytes[0]);
  const uint64_t before = shmt__ring_position(shmt__ring_count(head) - 1, begin);
  atomic_store_explicit(&h->moving_id, id | SHMT_RING_MOVES_BACK, memory_order_relaxed);
  atomic_store_explicit(&h->moving, before + 1, memory_order_release);
  SHMT_FAILPOINT(ack_returning);
  /* release: whoever sees the head sees the message. */
  atomic_store_explicit(&h->head, before, memory_order_release);
  SHMT_FAILPOINT(ack_returned);
  return true;
}

static void drop_dead_letter(shmt__ring* q, shmt__ring* u, shmt__unacked* e) {
  atomic_fetch_add_explicit(&q->header->n_dead_letters, 1, memory_order_relaxed);
  shmt__unacked_finish(q, u, e);
}

typedef enum give_back_result { GIVEN_BACK, DROPPED, STAYS } give_back_result;

/* Move a message from u back to the queue. counts: it was delivered in vain. The caller has all locks. */
static give_back_result give_back(shmt__ring* q, shmt__ring* u, shmt__unacked* e, bool counts) {
  shmt__received_message m;
  shmt__ring_block few[FEW_BLOCKS], *refs = few;
  uint64_t next = e->at;
  const uint32_t most = atomic_load_explicit(&q->header->max_deliveries, memory_order_relaxed);
  uint32_t n = e->taken.deliveries;
  if (!counts && n > 0) n--;
  if (counts && most > 0 && n >= most) {
    drop_dead_letter(q, u, e);
    return DROPPED;
  }
  shmt_status status = shmt__ring_peek(u, &next, atomic_load_explicit(&u->header->tail, memory_order_relaxed), &m);
  if (status == SHMT_E_HANDLE) { /* its blocks are gone: a member wrote over them */
    drop_dead_letter(q, u, e);
    return DROPPED;
  }
  if (status != SHMT_OK) return STAYS;
  const bool is_whole = m.nbytes >= sizeof e->taken;
  const shmt__outgoing_message p = {
      .storages = m.storages,
      .n_storages = m.n_storages,
      .flags = (m.flags & SHMT_RING_SPILLED) | (n < SHMT_RING_MOST_DELIVERIES ? n : (uint32_t)SHMT_RING_MOST_DELIVERIES)
                                                   << SHMT_RING_DELIVERIES_SHIFT,
      .parts = {(const char*)m.data + sizeof e->taken, NULL},
      .part_bytes = {is_whole ? m.nbytes - (uint32_t)sizeof e->taken : 0, 0}};
  give_back_result result = STAYS;
  if (m.n_storages > FEW_BLOCKS) refs = malloc(sizeof *refs * m.n_storages);
  if (is_whole && refs != NULL && shmt__ring_refer(q, &p, refs) == SHMT_OK &&
      put_before_head(q, &p, refs, e->taken.id)) {
    shmt__unacked_make_gone(u, e);
    atomic_store_explicit(&q->header->moving, 0, memory_order_release);
    result = GIVEN_BACK;
  } else {
    shmt__unacked_mark(u, e, SHMT_TAKEN_RELEASED);
  }
  if (refs != few) free(refs);
  shmt__received_message_fini(&m);
  return result;
}

static void unlock_and_signal(locks* l, uint32_t n_given_back) {
  shmt__unacked_tidy(l->q, l->u);
  unlock(l);
  /* Each wakes a consumer. */
  for (uint32_t i = 1; i < n_given_back && i < 4; i++) shmt__ring_event_signal(&l->q->header->data_event, false);
  if (n_given_back > 0) shmt__ring_signal_data(l->q);
  signal_acknowledged(l->q, l->u);
}

shmt__ring_result shmt__ring_let_go(shmt__ring* q, uint64_t id, bool counts, uint64_t deadline_ns) {
  shmt__ring* u = NULL;
  locks l;
  bool is_damaged = false;
  shmt__unacked e;
  if (open_unacked(q, &u) != SHMT_OK) return SHMT_RING_FAILED;
  if (u == NULL) return SHMT_RING_EMPTY;
  shmt__ring_result result = lock(q, u, true, deadline_ns, &l);
  if (result != SHMT_RING_DONE) return result;
  if (!find(u, id, &e, &is_damaged)) {
    result = is_damaged ? shmt__unacked_empty(q, u) : SHMT_RING_EMPTY;
    unlock(&l);
    return result;
  }
  const give_back_result given = give_back(q, u, &e, counts);
  if (given == STAYS) {
    shmt__unacked_mark(u, &e, SHMT_TAKEN_RELEASED);
    atomic_store_explicit(&q->header->unacked_stale, 1, memory_order_seq_cst);
  }
  shmt_error_clear();
  unlock_and_signal(&l, given == GIVEN_BACK);
  return SHMT_RING_DONE;
}

/* --- dead takers --- */

/* What is known of each client: a look at its lock is a system call. */
typedef struct lives {
  int control_fd; /* -1: nobody can be asked, all count as alive */
  unsigned me;
  bool is_unsure;
  unsigned char known[SHMT_MAX_CLIENTS]; /* 1: its number is locked, 2: it is not */
} lives;

static void lives_begin(const shmt__ring* q, lives* out) {
  memset(out, 0, sizeof *out);
  out->control_fd = -1;
  out->me = atomic_load_explicit(&q->session->client, memory_order_relaxed);
  if (shmt__sessions_try_lock()) {
    out->control_fd = shmt__descriptor_number(&q->session->control);
    shmt__sessions_unlock();
  }
}

static bool taker_lives(const shmt__ring* q, lives* known, const shmt__ring_taken* t) {
  const shmt__map* map = &q->session->map;
  if (t->client == 0 || t->client >= shmt__map_clients_end(map)) return false;
  const shmt__client_entry* e = &map->clients[t->client];
  if (atomic_load_explicit(&e->state, memory_order_acquire) == SHMT_CLIENT_NONE ||
      atomic_load_explicit(&e->n_claims, memory_order_relaxed) != t->n_claims)
    return false;
  if (t->client == known->me) return true;
  unsigned char* is_known = &known->known[t->client];
  if (known->control_fd < 0) known->is_unsure = true;
  if (*is_known == 0) *is_known = known->control_fd < 0 || shmt__client_is_locked(known->control_fd, t->client) ? 1 : 2;
  return *is_known == 1;
}

/* The messages that have to go back, in their order. The caller frees *out. */
static bool find_left(const shmt__ring* q, const shmt__ring* u, lives* known, shmt__unacked** out, uint32_t* n_out) {
  uint32_t room = 0;
  shmt__unacked_walk w = shmt__unacked_begin(u);
  shmt__unacked e;
  while (shmt__unacked_next(u, &w, &e)) {
    if (!shmt__unacked_is_there(&e)) continue;
    if (e.taken.state != SHMT_TAKEN_RELEASED && taker_lives(q, known, &e.taken)) continue;
    if (*n_out == room) {
      room = room > 0 ? 2 * room : 16;
      shmt__unacked* grown = realloc(*out, sizeof e * room);
      if (grown == NULL) {
        known->is_unsure = true;
        return true;
      }
      *out = grown;
    }
    (*out)[(*n_out)++] = e;
  }
  return !w.is_damaged;
}

/* Returns how many messages went back. The caller has all locks. */
static uint32_t give_left_back(shmt__ring* q, shmt__ring* u) {
  shmt__unacked* left = NULL;
  uint32_t n = 0, n_given_back = 0;
  lives* known = malloc(sizeof *known);
  bool again = known == NULL;
  if (known != NULL) {
    lives_begin(q, known);
    if (!find_left(q, u, known, &left, &n)) {
      (void)shmt__unacked_empty(q, u);
      n = 0;
    }
    again = known->is_unsure;
  }
  /* The last one first: each goes to the front. */
  for (uint32_t i = n; i-- > 0 && !again;) {
    const give_back_result given = give_back(q, u, &left[i], true);
    if (given == STAYS) again = true;
    if (given == GIVEN_BACK) n_given_back++;
  }
  if (again) atomic_store_explicit(&q->header->unacked_stale, 1, memory_order_seq_cst);
  free(known);
  free(left);
  return n_given_back;
}

/* False: the locks cannot be had now. */
static bool recover(shmt__ring* q) {
  shmt__ring* u = NULL;
  locks l;
  bool done = true;
  shmt_status status = open_unacked(q, &u);
  if (status == SHMT_OK && u != NULL && (done = try_lock(q, u, &l))) {
    /* seq_cst: who dies from now on is seen below, or sets it again. */
    (void)atomic_exchange_explicit(&q->header->unacked_stale, 0, memory_order_seq_cst);
    const uint32_t n = give_left_back(q, u);
    unlock_and_signal(&l, n);
  } else if (u == NULL && (status == SHMT_OK || status == SHMT_E_HANDLE)) {
    atomic_store_explicit(&q->header->unacked_stale, 0, memory_order_relaxed); /* there is nothing */
  }
  shmt_error_clear();
  return done;
}

void shmt__ring_recover(shmt__ring* q) { (void)recover(q); }

void shmt__ring_recover_now_and_then(shmt__ring* q) {
  if (SHMT_LIKELY(shmt__ring_n_unacknowledged(q) == 0)) return;
  const uint64_t now_ns = shmt__os_now_ns();
  const uint64_t last_ns = atomic_load_explicit(&q->searched_ns, memory_order_relaxed);
  if (now_ns - last_ns < SEARCH_EVERY_MS * UINT64_C(1000000)) return;
  atomic_store_explicit(&q->searched_ns, now_ns, memory_order_relaxed);
  /* Only a manager releases the locks of the dead. */
  if (!recover(q)) shmt__ring_check_manager(q);
}
