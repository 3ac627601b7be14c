/* ipc/ring/put_get.c -- puts messages into rings and takes them out. */
#include "api/error.h"
#include "ipc/handle/import.h"
#include "ipc/handle/share.h"
#include "ipc/ring/put_get.h"
#include "ipc/ring/unacknowledged.h"
#include "ipc/ring/wait.h"
#include "ipc/session/session.h"
#include "os/cpu.h"
#include "os/failpoint.h"
#include "shm/block.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
  FEW_BLOCKS = 32,
  ROOM_SLICE_MS = 10,
  MOST_DROPPED = 256, /* requests that nobody waits for, while we have the lock */
};

static void signal_change(shmt__ring* r, atomic_uint_least32_t* event) {
  shmt__ring_event_signal(event, false);
  shmt__ring_event_signal(&r->header->watch_event, true);
  if (SHMT_UNLIKELY(r->watch != NULL)) shmt__ring_readiness_update(r);
}

/* Wake a producer. One that waits for bytes is woken when half of them are free, so that it puts many messages each
 * time it wakes up; until then it checks by itself every ROOM_SLICE_MS. */
static void signal_room(shmt__ring* r) {
  uint64_t head = atomic_load_explicit(&r->header->head, memory_order_relaxed);
  uint64_t tail = atomic_load_explicit(&r->header->tail, memory_order_relaxed);
  bool is_bounded = shmt__ring_max_messages(r) != 0;
  if (is_bounded || shmt__ring_used(head, tail, r->area.capacity) <= r->area.capacity / 2)
    shmt__ring_event_signal(&r->header->room_event, false);
  shmt__ring_event_signal(&r->header->watch_event, true);
  if (SHMT_UNLIKELY(r->watch != NULL)) shmt__ring_readiness_update(r);
}

/* --- pending messages --- */

/* The caller has put_lock. */
static void keep_pending_locked(shmt__ring* r) {
  shmt__ring_header* h = r->header;
  atomic_store_explicit(&h->has_pending, 1, memory_order_relaxed);
  SHMT_FAILPOINT(ring_pending);
  atomic_fetch_add_explicit(&h->pending[r->session->client], 1, memory_order_release);
}

static void drop_pending_locked(shmt__ring* r, uint32_t n) {
  shmt__ring_header* h = r->header;
  atomic_uint_least32_t* own = &h->pending[r->session->client];
  uint32_t had = atomic_load_explicit(own, memory_order_relaxed);
  atomic_store_explicit(own, had > n ? had - n : 0, memory_order_release);
  if (shmt__ring_n_pending(r) == 0) atomic_store_explicit(&h->has_pending, 0, memory_order_release);
}

void shmt__ring_forget_pending(shmt__ring* r, uint32_t n) {
  uint32_t word = 0;
  shmt__ring_result result;
  /* Try for a second. Then leave it to the manager, which forgets them when this process ends. */
  uint64_t deadline_ns = shmt__os_now_ns() + UINT64_C(1000000000);
  while ((result = shmt__ring_lock(r, &r->header->put_lock, deadline_ns, &word)) ==
         SHMT_RING_INTERRUPTED) {
  }
  if (result != SHMT_RING_DONE) return;
  drop_pending_locked(r, n);
  shmt__ring_unlock(&r->header->put_lock, word);
  signal_change(r, &r->header->room_event);
  shmt__ring_event_signal(&r->header->done_event, true);
}

/* --- putting --- */

/* Write the message's storages as block references. Another thread may join the session again meanwhile: a block that
 * went with our old client number has generation 0 from then on, so that is read once. */
static shmt_status refer(const shmt__ring* r, const shmt__outgoing_message* p, shmt__ring_block* out) {
  for (uint32_t i = 0; i < p->n_storages; i++) {
    const shmt_storage* s = p->storages[i];
    const shmt__held_block* h = s->ctx;
    out[i] = (shmt__ring_block){.block = (uint32_t)SHMT_HANDLE_NO_BLOCK};
    if (s->nbytes == 0) continue;
    bool is_ours = s->allocator == &shmt__allocator_managed && h->session == r->session;
    uint64_t generation = is_ours ? atomic_load_explicit(&h->generation, memory_order_relaxed) : 0;
    SHMT_REQUIRE(generation != 0, SHMT_E_HANDLE,
                 "a storage of %" PRIu64 " bytes is not of the queue's session and cannot be sent",
                 s->nbytes);
    out[i] = (shmt__ring_block){.generation = generation, .nbytes = s->nbytes, .block = h->block};
  }
  return SHMT_OK;
}

/* The references of a message that is being put. */
typedef struct naming {
  const shmt__ring_block* at; /* in the ring, by storage */
  const shmt__ring_block* listed; /* Note [Long lists]; our copy, which nobody else can change */
  uint32_t n_listed;
} naming;

static void add_leases(const shmt__ring* r, const shmt__ring_block* blocks, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (blocks[i].block != (uint32_t)SHMT_HANDLE_NO_BLOCK)
      shmt__block_add_ring_lease(&r->session->map.blocks[blocks[i].block], blocks[i].generation);
  }
}

/* Write the message behind the tail, then move the tail. The caller has put_lock and has seen that there is room. */
static void publish(shmt__ring* r, const shmt__outgoing_message* p, const naming* refs, uint32_t nbytes,
                    uint64_t tail) {
  shmt__ring_header* h = r->header;
  uint32_t at = shmt__ring_offset(tail);
  shmt__ring_message m = {.nbytes = nbytes,
                          .n_data = p->part_bytes[0] + p->part_bytes[1],
                          .n_blocks = p->n_storages,
                          .flags = p->flags};
  SHMT_FAILPOINT(ring_put_locked);
  add_leases(r, refs->at, p->n_storages);
  add_leases(r, refs->listed, refs->n_listed);
  SHMT_FAILPOINT(ring_put_leased);
  at = shmt__ring_write(r->area, at, &m, sizeof m);
  at = shmt__ring_write(r->area, at, refs->at, sizeof *refs->at * p->n_storages);
  for (int i = 0; i < 2; i++)
    at = shmt__ring_write(r->area, at, p->parts[i], p->part_bytes[i]);
  SHMT_FAILPOINT(ring_put_written);
  /* release: whoever sees the tail sees the message. */
  atomic_store_explicit(&h->tail, shmt__ring_next(tail, nbytes, r->area.capacity),
                        memory_order_release);
  SHMT_FAILPOINT(ring_put_published);
}

/* An invalid tail would make us write outside the ring. Set it to the head: the messages in the ring are lost, and the
 * manager counts their leases anew. The caller has put_lock. */
static shmt__ring_result repair_tail(shmt__ring* r, uint64_t tail, uint64_t head) {
  uint32_t offset = shmt__ring_position_is_valid(head, r->area.capacity) ? shmt__ring_offset(head) : 0;
  atomic_store_explicit(&r->header->tail, shmt__ring_position(shmt__ring_count(head), offset),
                        memory_order_release);
  atomic_store_explicit(&r->session->map.control->rings_stale, 1, memory_order_seq_cst);
  (void)shmt__fail(SHMT_E_HANDLE, "the queue is damaged: its tail is %016" PRIx64, tail);
  return SHMT_RING_FAILED;
}

static shmt__ring_result put_locked(shmt__ring* r, const shmt__outgoing_message* p, const naming* refs,
                                    uint32_t nbytes, unsigned flags, uint64_t* out_head) {
  shmt__ring_header* h = r->header;
  uint64_t tail = atomic_load_explicit(&h->tail, memory_order_relaxed);
  /* acquire: the consumer has read what we are about to write over. */
  uint64_t head = *out_head = atomic_load_explicit(&h->head, memory_order_acquire);
  uint32_t n = shmt__ring_count(tail) - shmt__ring_count(head);
  bool is_pending = (flags & SHMT_RING_PENDING) != 0;
  if (SHMT_UNLIKELY(!shmt__ring_position_is_valid(tail, r->area.capacity))) return repair_tail(r, tail, head);
  /* While the head is invalid there is no room, until a consumer corrects it; it does so when it sees that there are
   * messages. If there are none, put one, so that it sees that. */
  const uint32_t capacity = r->area.capacity;
  const bool is_known = shmt__ring_position_is_valid(head, capacity) || n == 0;
  uint32_t used = is_known ? shmt__ring_used(head, tail, capacity) : capacity;
  const uint32_t most = shmt__ring_max_messages(r);
  if (!is_pending && most != 0 && n + shmt__ring_n_pending(r) >= most)
    return SHMT_RING_FULL;
  if (flags & SHMT_RING_BEHIND || used + nbytes > r->area.capacity) {
    if (flags & SHMT_RING_KEEP) keep_pending_locked(r);
    return SHMT_RING_NO_ROOM;
  }
  if (SHMT_UNLIKELY(shmt__ring_reserve(r, shmt__ring_offset(tail), nbytes) != SHMT_OK)) return SHMT_RING_FAILED;
  publish(r, p, refs, nbytes, tail);
  if (is_pending) drop_pending_locked(r, 1);
  return SHMT_RING_DONE;
}

/* Sleep until the head has moved away from `head`. */
static shmt__ring_result wait_for_room(shmt__ring* r, uint64_t head, uint64_t deadline_ns) {
  uint32_t armed = shmt__ring_event_arm(&r->header->room_event);
  if (atomic_load_explicit(&r->header->head, memory_order_seq_cst) != head) return SHMT_RING_DONE;
  if (shmt__ring_is_alone(r, SHMT_RING_NO_GET)) return SHMT_RING_ALONE;
  /* A short slice: see signal_room. */
  uint64_t slice = shmt__os_now_ns() + ROOM_SLICE_MS * UINT64_C(1000000);
  shmt__os_wait w = shmt__os_futex_wait(&r->header->room_event, armed,
                                        slice < deadline_ns ? slice : deadline_ns);
  if (w == SHMT_OS_WAIT_TIMED_OUT) shmt__ring_check_manager(r);
  return w == SHMT_OS_WAIT_INTERRUPTED ? SHMT_RING_INTERRUPTED : SHMT_RING_DONE;
}

static shmt__ring_result put_named(shmt__ring* r, const shmt__outgoing_message* p, const naming* refs, unsigned flags,
                                   uint64_t deadline_ns) {
  uint32_t nbytes = (uint32_t)shmt__ring_message_bytes(
      p->n_storages, (uint64_t)p->part_bytes[0] + p->part_bytes[1]);
  uint64_t begun_ns = 0;
  for (;;) {
    uint32_t word = 0;
    uint64_t head = 0;
    shmt__ring_result result = shmt__ring_lock(r, &r->header->put_lock, deadline_ns, &word);
    if (result != SHMT_RING_DONE) return result;
    result = put_locked(r, p, refs, nbytes, flags, &head);
    shmt__ring_unlock(&r->header->put_lock, word);
    if (result == SHMT_RING_DONE) {
      signal_change(r, &r->header->data_event);
      return result;
    }
    if (result == SHMT_RING_FAILED || (result == SHMT_RING_NO_ROOM && flags & SHMT_RING_KEEP))
      return result;
    const shmt__ring_result round = deadline_ns != 0 ? shmt__ring_round(&begun_ns, deadline_ns) : SHMT_RING_EMPTY;
    if (round != SHMT_RING_DONE) return round == SHMT_RING_EMPTY ? result : round;
    result = wait_for_room(r, head, deadline_ns);
    if (result != SHMT_RING_DONE) return result;
  }
}

/* The same with a list: Note [Long lists]. */
static shmt__ring_result put_listed(shmt__ring* r, const shmt__outgoing_message* p, const shmt__ring_block* blocks,
                                    unsigned flags, uint64_t deadline_ns) {
  const uint64_t nbytes = sizeof *blocks * p->n_storages;
  SHMT_AUTO(shmt_storage) list = NULL;
  shmt__outgoing_message m = *p;
  shmt__ring_block first;
  if (shmt__storage_create_in(r->session, nbytes, &list) != SHMT_OK) return SHMT_RING_FAILED;
  memcpy(list->data, blocks, nbytes);
  m.storages = &list;
  m.n_storages = 1;
  m.flags |= SHMT_RING_LISTED;
  if (refer(r, &m, &first) != SHMT_OK) return SHMT_RING_FAILED;
  return put_named(r, &m, &(naming){&first, blocks, p->n_storages}, flags, deadline_ns);
}

shmt__ring_result shmt__ring_put(shmt__ring* r, const shmt__outgoing_message* p, unsigned flags,
                                 uint64_t deadline_ns) {
  shmt__ring_block few[FEW_BLOCKS], *blocks = few;
  uint64_t n_data = (uint64_t)p->part_bytes[0] + p->part_bytes[1];
  SHMT_ASSERT(n_data <= SHMT_RING_INLINE && p->n_storages <= shmt__ring_most_storages(r));
  (void)n_data;
  if (p->n_storages > FEW_BLOCKS && (blocks = malloc(sizeof *blocks * p->n_storages)) == NULL) {
    (void)shmt__fail(SHMT_E_NOMEM, "queue: tried to allocate %zu bytes",
                     sizeof *blocks * p->n_storages);
    return SHMT_RING_FAILED;
  }
  shmt__ring_result result = SHMT_RING_FAILED;
  if (refer(r, p, blocks) == SHMT_OK)
    result = p->n_storages > SHMT_RING_MAX_BLOCKS ? put_listed(r, p, blocks, flags, deadline_ns)
                                                  : put_named(r, p, &(naming){blocks, NULL, 0}, flags, deadline_ns);
  if (blocks != few) free(blocks);
  return result;
}

shmt__ring_result shmt__ring_put_in_lock(shmt__ring* r, const shmt__outgoing_message* p) {
  shmt__ring_block few[FEW_BLOCKS], *blocks = few;
  uint64_t head = 0;
  shmt__ring_result result = SHMT_RING_FAILED;
  const uint32_t nbytes = (uint32_t)shmt__ring_message_bytes(
      p->n_storages, (uint64_t)p->part_bytes[0] + p->part_bytes[1]);
  if (p->n_storages > FEW_BLOCKS && (blocks = malloc(sizeof *blocks * p->n_storages)) == NULL) {
    (void)shmt__fail(SHMT_E_NOMEM, "queue: tried to allocate %zu bytes", sizeof *blocks * p->n_storages);
    return result;
  }
  if (refer(r, p, blocks) == SHMT_OK) result = put_locked(r, p, &(naming){blocks, NULL, 0}, nbytes, 0, &head);
  if (blocks != few) free(blocks);
  return result;
}

shmt__ring_result shmt__ring_put_many(shmt__ring* r, const shmt__outgoing_message* packed_messages, uint32_t n,
                                      uint32_t* out_n) {
  shmt__ring_block blocks[FEW_BLOCKS];
  uint32_t word = 0, i = 0;
  *out_n = 0;
  shmt__ring_result result = shmt__ring_lock(r, &r->header->put_lock, 0, &word);
  /* BUSY, INTERRUPTED: there is no room now. */
  if (result != SHMT_RING_DONE) return result == SHMT_RING_FAILED ? result : SHMT_RING_DONE;
  for (; i < n && packed_messages[i].n_storages <= FEW_BLOCKS; i++) {
    const shmt__outgoing_message* p = &packed_messages[i];
    uint64_t head = 0;
    uint32_t nbytes = (uint32_t)shmt__ring_message_bytes(
        p->n_storages, (uint64_t)p->part_bytes[0] + p->part_bytes[1]);
    result = refer(r, p, blocks) == SHMT_OK ? put_locked(r, p, &(naming){blocks, NULL, 0}, nbytes, 0, &head)
                                            : SHMT_RING_FAILED;
    if (result != SHMT_RING_DONE) break;
  }
  shmt__ring_unlock(&r->header->put_lock, word);
  /* Wake a few sleepers; each may find more than one message. */
  for (uint32_t j = 0; j < i && j < 4; j++) shmt__ring_event_signal(&r->header->data_event, false);
  if (i > 0) signal_change(r, &r->header->data_event);
  *out_n = i;
  return result == SHMT_RING_FAILED ? result : SHMT_RING_DONE;
}

/* --- getting --- */

void shmt__received_message_fini(shmt__received_message* d) {
  for (uint32_t i = 0; i < d->n_storages; i++) shmt__storage_release(d->storages[i]);
  free(d->storages);
  free(d->data);
  *d = (shmt__received_message){0};
}

/* The references of a message, first those in the ring. */
typedef struct references {
  shmt__ring_block* at; /* malloc'd */
  uint32_t n;
} references;

/* Hold the blocks on the list that is the message's first block, and put their storages in place of that. */
static shmt_status open_list(shmt__ring* r, shmt__received_message* out, references* refs) {
  shmt_storage* list = out->storages[0];
  SHMT_REQUIRE(shmt__ring_most_storages(r) > SHMT_RING_MAX_BLOCKS, SHMT_E_HANDLE,
               "the queue is damaged: a list of tensors, which no message of a service has");
  const uint32_t n = out->n_storages == 1 ? shmt__ring_list_length(list->nbytes) : 0;
  SHMT_REQUIRE(n > 0, SHMT_E_HANDLE, "the queue is damaged: %" PRIu32 " blocks, and a list of %" PRIu64 " bytes",
               out->n_storages, list->nbytes);
  shmt__ring_block* at = malloc(sizeof *at * (n + 1));
  shmt_storage** storages = calloc(n, sizeof(shmt_storage*));
  shmt_status status = SHMT_OK;
  if (at == NULL || storages == NULL) {
    free(at);
    status = shmt__fail(SHMT_E_NOMEM, "queue: tried to allocate %zu bytes", sizeof *at * n);
  } else {
    at[0] = refs->at[0];
    memcpy(at + 1, list->data, sizeof *at * n);
    atomic_signal_fence(memory_order_seq_cst); /* from here on use the copy only: others can write there */
    free(refs->at);
    *refs = (references){at, n + 1};
    status = shmt__ring_blocks_open(r->session, at + 1, n, storages);
  }
  if (status != SHMT_OK) {
    free(storages);
    return status;
  }
  shmt__storage_release(list);
  free(out->storages);
  out->storages = storages;
  out->n_storages = n;
  out->flags &= ~(uint32_t)SHMT_RING_LISTED;
  return SHMT_OK;
}

/* Read the message at `head` of a ring that has `used` bytes in use, and hold its blocks. *out_taken: the head may move
 * behind it, also after an error: the blocks are gone. After any other error, such as that no descriptor is left, the
 * message stays, for a later attempt or for another consumer. */
static shmt_status receive(shmt__ring* r, uint64_t head, uint32_t used, shmt__received_message* out,
                           shmt__ring_message* m, references* out_refs, bool* out_taken) {
  uint32_t at = shmt__ring_read(r->area, shmt__ring_offset(head), m, sizeof *m);
  *out = (shmt__received_message){.flags = m->flags};
  *out_taken = false;
  *out_refs = (references){NULL, 0};
  SHMT_REQUIRE(shmt__ring_message_is_valid(m, used), SHMT_E_HANDLE,
               "the queue is damaged: a message of %" PRIu32 " bytes with %" PRIu32
               " blocks and %" PRIu32 " bytes of data, where %" PRIu32 " bytes are in use",
               m->nbytes, m->n_blocks, m->n_data, used);
  size_t n = m->n_blocks;
  shmt__ring_block* blocks = n > 0 ? malloc(sizeof *blocks * n) : NULL;
  out->storages = n > 0 ? calloc(n, sizeof *out->storages) : NULL;
  out->data = malloc(m->n_data > 0 ? m->n_data : 1);
  *out_refs = (references){blocks, m->n_blocks};
  if (out->data == NULL || (n > 0 && (blocks == NULL || out->storages == NULL)))
    SHMT_FAIL(SHMT_E_NOMEM, "queue: tried to allocate %" PRIu32 " bytes", m->nbytes);
  at = shmt__ring_read(r->area, at, blocks, sizeof *blocks * n);
  (void)shmt__ring_read(r->area, at, out->data, m->n_data);
  out->nbytes = m->n_data;
  shmt_status status = SHMT_OK;
  if (n > 0) status = shmt__ring_blocks_open(r->session, blocks, m->n_blocks, out->storages);
  if (status == SHMT_OK) out->n_storages = m->n_blocks;
  if (SHMT_UNLIKELY((m->flags & SHMT_RING_LISTED) != 0) && status == SHMT_OK && n > 0)
    status = open_list(r, out, out_refs);
  *out_taken = status == SHMT_OK || status == SHMT_E_HANDLE;
  return status;
}

static void end_leases(shmt__ring* r, const shmt__ring_block* blocks, uint32_t n) {
  uint32_t n_blocks =
      shmt__map_blocks_end(&r->session->map);
  for (uint32_t i = 0; i < n; i++) {
    if (blocks[i].block >= n_blocks) continue;
    shmt__block* b = &r->session->map.blocks[blocks[i].block];
    uint64_t now = shmt__head_generation(atomic_load_explicit(&b->head, memory_order_relaxed));
    if (now == blocks[i].generation) shmt__block_end_ring_lease(b);
  }
  if (n > 0) shmt__map_note_activity(&r->session->map);
}

/* Take the first message; the caller has get_lock. *out_stays: it could not be taken now, and is still the first.
 * *out_unwanted: nobody waits for what it asks for. */
static shmt__ring_result take_locked(shmt__ring* r, shmt__received_message* out, bool* out_stays,
                                     bool* out_unwanted) {
  shmt__ring_header* h = r->header;
  shmt__ring_message m;
  references refs = {NULL, 0};
  bool taken = false;
  if (SHMT_UNLIKELY(atomic_load_explicit(&h->moving, memory_order_relaxed) != 0)) shmt__ring_settle_move(r);
  uint64_t head = atomic_load_explicit(&h->head, memory_order_relaxed);
  /* acquire: whoever sees the tail sees the message. */
  uint64_t tail = atomic_load_explicit(&h->tail, memory_order_acquire);
  if (shmt__ring_count(head) == shmt__ring_count(tail)) return SHMT_RING_EMPTY;
  uint32_t used = shmt__ring_used(head, tail, r->area.capacity);
  SHMT_FAILPOINT(ring_get_locked);
  shmt_status status = SHMT_E_HANDLE;
  *out = (shmt__received_message){0};
  if (shmt__ring_position_is_valid(head, r->area.capacity) && shmt__ring_position_is_valid(tail, r->area.capacity))
    status = receive(r, head, used, out, &m, &refs, &taken);
  else
    (void)shmt__fail(status, "the queue is damaged: its head is %016" PRIx64, head);
  SHMT_FAILPOINT(ring_get_held);
  bool unheld = taken && status != SHMT_OK;
  *out_unwanted = status == SHMT_OK && r->mark_taken != NULL && !r->mark_taken(r, out);
  /* seq_cst: set before the head moves, and cleared after the leases ended, for the manager: Note [Auditing rings]. */
  if (unheld) atomic_fetch_or_explicit(&h->n_unheld, 1, memory_order_seq_cst);
  if (taken || status == SHMT_E_HANDLE) {
    /* release: we have read the message, so it may be overwritten. A ring that makes no sense is emptied. */
    atomic_store_explicit(&h->head, taken ? shmt__ring_next(head, m.nbytes, r->area.capacity) : tail,
                          memory_order_release);
    SHMT_FAILPOINT(ring_get_claimed);
    if (taken) end_leases(r, refs.at, refs.n);
    /* What was not read may have leases that nobody ends: the rest of a ring that makes no sense, what a list says.
     * After the head has moved: an audit before that would find them right. */
    if (SHMT_UNLIKELY(status == SHMT_E_HANDLE))
      atomic_store_explicit(&r->session->map.control->rings_stale, 1, memory_order_seq_cst);
    SHMT_FAILPOINT(ring_get_leases_ended);
  }
  if (unheld) atomic_fetch_add_explicit(&h->n_unheld, 1, memory_order_seq_cst);
  free(refs.at);
  if (status == SHMT_OK) return SHMT_RING_DONE;
  *out_stays = !taken && status != SHMT_E_HANDLE;
  shmt__received_message_fini(out);
  return SHMT_RING_FAILED;
}

/* Take the first message away without holding its blocks; the caller has get_lock. */
static shmt__ring_result drop_locked(shmt__ring* r) {
  shmt__ring_header* h = r->header;
  shmt__ring_block few[FEW_BLOCKS], *blocks = few;
  shmt__ring_message m = {0};
  if (SHMT_UNLIKELY(atomic_load_explicit(&h->moving, memory_order_relaxed) != 0)) shmt__ring_settle_move(r);
  const uint64_t head = atomic_load_explicit(&h->head, memory_order_relaxed);
  const uint64_t tail = atomic_load_explicit(&h->tail, memory_order_acquire);
  if (shmt__ring_count(head) == shmt__ring_count(tail)) return SHMT_RING_EMPTY;
  const uint32_t used = shmt__ring_used(head, tail, r->area.capacity);
  bool is_valid = shmt__ring_position_is_valid(head, r->area.capacity) &&
                  shmt__ring_position_is_valid(tail, r->area.capacity);
  if (is_valid) {
    uint32_t at = shmt__ring_read(r->area, shmt__ring_offset(head), &m, sizeof m);
    is_valid = shmt__ring_message_is_valid(&m, used);
    if (is_valid && m.n_blocks > FEW_BLOCKS && (blocks = malloc(sizeof *blocks * m.n_blocks)) == NULL) {
      (void)shmt__fail(SHMT_E_NOMEM, "queue: tried to allocate %zu bytes", sizeof *blocks * m.n_blocks);
      return SHMT_RING_FAILED;
    }
    if (is_valid) (void)shmt__ring_read(r->area, at, blocks, sizeof *blocks * m.n_blocks);
  }
  /* As in take_locked. */
  atomic_fetch_or_explicit(&h->n_unheld, 1, memory_order_seq_cst);
  atomic_store_explicit(&h->head, is_valid ? shmt__ring_next(head, m.nbytes, r->area.capacity) : tail,
                        memory_order_release);
  SHMT_FAILPOINT(ring_dropped);
  if (is_valid)
    end_leases(r, blocks, m.n_blocks);
  else /* a ring that makes no sense is emptied */
    atomic_store_explicit(&r->session->map.control->rings_stale, 1, memory_order_seq_cst);
  atomic_fetch_add_explicit(&h->n_unheld, 1, memory_order_seq_cst);
  if (blocks != few) free(blocks);
  return SHMT_RING_DONE;
}

shmt__ring_result shmt__ring_drop(shmt__ring* r) {
  uint32_t word = 0;
  shmt__ring_result result = shmt__ring_lock(r, &r->header->get_lock, 0, &word);
  if (result != SHMT_RING_DONE) return result;
  result = drop_locked(r);
  shmt__ring_unlock(&r->header->get_lock, word);
  return result;
}

shmt_status shmt__ring_peek(shmt__ring* r, uint64_t* position, uint64_t tail, shmt__received_message* out) {
  shmt__ring_message m;
  references refs = {NULL, 0};
  bool taken = false;
  const uint32_t capacity = r->area.capacity;
  SHMT_REQUIRE(shmt__ring_position_is_valid(*position, capacity) && shmt__ring_position_is_valid(tail, capacity),
               SHMT_E_HANDLE, "the queue is damaged: a message at %016" PRIx64, *position);
  shmt_status status = receive(r, *position, shmt__ring_used(*position, tail, capacity), out, &m, &refs, &taken);
  free(refs.at);
  if (status == SHMT_OK)
    *position = shmt__ring_next(*position, m.nbytes, capacity);
  else
    shmt__received_message_fini(out);
  return status;
}

shmt__ring_result shmt__ring_get(shmt__ring* r, shmt__received_message* out, uint32_t n_max,
                                 uint32_t* n_out, uint64_t deadline_ns) {
  uint64_t begun_ns = 0;
  *n_out = 0;
  for (;;) {
    uint32_t word = 0, n_dropped = 0;
    bool stays = false, is_unwanted = false, has_moved = false;
    shmt__ring_result result = shmt__ring_poll(r, deadline_ns);
    if (result != SHMT_RING_DONE) return result;
    result = shmt__ring_lock(r, &r->header->get_lock, deadline_ns, &word);
    if (result != SHMT_RING_DONE) return result;
    while (*n_out < n_max && n_dropped < MOST_DROPPED &&
           (result = take_locked(r, &out[*n_out], &stays, &is_unwanted)) == SHMT_RING_DONE) {
      has_moved = true;
      if (SHMT_UNLIKELY(is_unwanted)) {
        shmt__received_message_fini(&out[*n_out]);
        n_dropped++;
      } else {
        ++*n_out;
      }
    }
    shmt__ring_unlock(&r->header->get_lock, word);
    if (has_moved || result == SHMT_RING_FAILED) signal_room(r);
    /* We may have been woken for the message that stays: another consumer may have better luck. */
    if (stays) shmt__ring_event_signal(&r->header->data_event, false);
    if (stays && *n_out > 0) {
      shmt_error_clear(); /* the next call says it */
      return SHMT_RING_DONE;
    }
    if (result == SHMT_RING_FAILED) return result;
    if (*n_out > 0) return SHMT_RING_DONE;
    /* Another consumer took the message, or nobody waits for what it asks for. */
    result = shmt__ring_round(&begun_ns, deadline_ns);
    if (result != SHMT_RING_DONE) return result;
  }
}

/* --- ipc/ring/put_get.h --- */

shmt__ring_result shmt__ring_take_in_lock(shmt__ring* r, shmt__received_message* out, bool* out_stays) {
  bool is_unwanted = false; /* these rings are no server's */
  return take_locked(r, out, out_stays, &is_unwanted);
}
shmt_status shmt__ring_refer(const shmt__ring* r, const shmt__outgoing_message* p, shmt__ring_block* out) {
  return refer(r, p, out);
}
void shmt__ring_end_leases(shmt__ring* r, const shmt__ring_block* blocks, uint32_t n) { end_leases(r, blocks, n); }
void shmt__ring_signal_data(shmt__ring* r) { signal_change(r, &r->header->data_event); }
void shmt__ring_signal_room(shmt__ring* r) { signal_room(r); }
