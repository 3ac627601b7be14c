/* ipc/ring/unacked_messages.c -- the messages in a ring of unacknowledged ones. See the header. */
#include "ipc/ring/unacked_messages.h"

#include "ipc/handle/handle.h"
#include "ipc/ring/put_get.h"
#include "ipc/session/session.h"
#include "os/failpoint.h"
#include "shm/block.h"

#include <stdlib.h>
#include <string.h>

enum {
  FEW_BLOCKS = 32,
  COMPACT_FROM = 32 << 10, /* bytes in use, from which on u is kept half full of messages that are not gone */
};

uint32_t shmt__unacked_room(const shmt__ring* u) {
  return u->area.capacity -
         (uint32_t)shmt__ring_message_bytes(SHMT_RING_MAX_BLOCKS, SHMT_RING_INLINE + sizeof(shmt__ring_taken));
}

/* --- reading u --- */

shmt__unacked_walk shmt__unacked_begin(const shmt__ring* u) {
  const uint64_t head = atomic_load_explicit(&u->header->head, memory_order_relaxed);
  const uint64_t tail = atomic_load_explicit(&u->header->tail, memory_order_acquire);
  if (!shmt__ring_position_is_valid(head, u->area.capacity) || !shmt__ring_position_is_valid(tail, u->area.capacity))
    return (shmt__unacked_walk){.is_damaged = true};
  return (shmt__unacked_walk){.at = head, .left = shmt__ring_used(head, tail, u->area.capacity)};
}

/* The next message. False at the end, and at one that makes no sense. */
bool shmt__unacked_next(const shmt__ring* u, shmt__unacked_walk* w, shmt__unacked* out) {
  if (w->left == 0 || w->is_damaged) return false;
  *out = (shmt__unacked){.at = w->at};
  uint32_t at = shmt__ring_read(u->area, shmt__ring_offset(w->at), &out->m, sizeof out->m);
  if (!shmt__ring_message_is_valid(&out->m, w->left) || (out->m.flags & SHMT_RING_TAKEN) == 0 ||
      out->m.n_data < sizeof out->taken) {
    w->is_damaged = true;
    return false;
  }
  out->taken_at = (uint32_t)((at + sizeof(shmt__ring_block) * out->m.n_blocks) % u->area.capacity);
  (void)shmt__ring_read(u->area, out->taken_at, &out->taken, sizeof out->taken);
  w->at = shmt__ring_next(w->at, out->m.nbytes, u->area.capacity);
  w->left -= out->m.nbytes;
  return true;
}

void shmt__unacked_mark(const shmt__ring* u, shmt__unacked* e, shmt__taken_state state) {
  const uint32_t at = (uint32_t)((e->taken_at + offsetof(shmt__ring_taken, state)) % u->area.capacity);
  /* release: what led to the state is seen by whoever sees it. */
  __atomic_store_n((uint32_t*)(void*)(u->area.at + at), (uint32_t)state, __ATOMIC_RELEASE);
  e->taken.state = (uint32_t)state;
}

/* u makes no sense: empty it. The manager counts the leases anew. */
shmt__ring_result shmt__unacked_empty(shmt__ring* q, shmt__ring* u) {
  const uint64_t tail = atomic_load_explicit(&u->header->tail, memory_order_relaxed);
  const uint64_t begin = shmt__ring_position(shmt__ring_count(tail), 0);
  atomic_fetch_or_explicit(&u->header->n_unheld, 1, memory_order_seq_cst);
  atomic_store_explicit(&u->header->tail, begin, memory_order_release);
  atomic_store_explicit(&u->header->head, begin, memory_order_release);
  atomic_store_explicit(&q->session->map.control->rings_stale, 1, memory_order_seq_cst);
  atomic_fetch_add_explicit(&u->header->n_unheld, 1, memory_order_seq_cst);
  atomic_store_explicit(&q->header->n_unacked, 0, memory_order_relaxed);
  (void)shmt__fail(SHMT_E_HANDLE, "the queue is damaged: its unacknowledged messages make no sense and are dropped");
  return SHMT_RING_FAILED;
}

/* --- leases --- */

/* A message is gone: its blocks are free from now on, wherever it lies in u. */
static void free_blocks(shmt__ring* u, const shmt__unacked* e) {
  const uint32_t capacity = u->area.capacity;
  uint32_t at = (uint32_t)((shmt__ring_offset(e->at) + sizeof e->m) % capacity);
  for (uint32_t i = 0; i < e->m.n_blocks;) {
    const shmt__ring_block none = {.block = (uint32_t)SHMT_HANDLE_NO_BLOCK};
    shmt__ring_block refs[FEW_BLOCKS];
    const uint32_t n = e->m.n_blocks - i < FEW_BLOCKS ? e->m.n_blocks - i : (uint32_t)FEW_BLOCKS;
    const uint32_t next = shmt__ring_read(u->area, at, refs, sizeof *refs * n);
    bool any = false;
    for (uint32_t j = 0; j < n; j++) any = any || refs[j].block != none.block;
    if (any) {
      /* Note [Auditing rings]. Nobody names the blocks any more when their leases end. */
      atomic_fetch_or_explicit(&u->header->n_unheld, 1, memory_order_seq_cst);
      for (uint32_t j = 0; j < n; j++) at = shmt__ring_write(u->area, at, &none, sizeof none);
      atomic_thread_fence(memory_order_release);
      SHMT_FAILPOINT(ack_blocks_forgotten);
      shmt__ring_end_leases(u, refs, n);
      atomic_fetch_add_explicit(&u->header->n_unheld, 1, memory_order_seq_cst);
    }
    at = next;
    i += n;
  }
}

void shmt__unacked_add_leases(const shmt__ring* u, const shmt__ring_block* refs, uint32_t n) {
  const shmt__map* map = &u->session->map;
  const uint32_t end = shmt__map_blocks_end(map);
  for (uint32_t i = 0; i < n; i++) {
    if (refs[i].block >= end) continue;
    shmt__block* b = &map->blocks[refs[i].block];
    if (shmt__head_generation(atomic_load_explicit(&b->head, memory_order_relaxed)) == refs[i].generation)
      shmt__block_add_ring_lease(b, refs[i].generation);
  }
}

/* --- messages that are done --- */

void shmt__unacked_make_gone(shmt__ring* u, shmt__unacked* e) {
  shmt__unacked_mark(u, e, SHMT_TAKEN_GONE);
  SHMT_FAILPOINT(ack_gone);
  free_blocks(u, e);
}

/* A message in state COUNTING: count it, unless its process was killed after it had. */
static void finish_counting(shmt__ring* q, shmt__ring* u, shmt__unacked* e) {
  const uint64_t seen = atomic_load_explicit(&q->header->n_acked, memory_order_relaxed);
  if ((uint32_t)seen != (uint32_t)e->taken.id)
    atomic_store_explicit(&q->header->n_acked, ((seen >> 32) + 1) << 32 | (uint32_t)e->taken.id, memory_order_seq_cst);
  SHMT_FAILPOINT(ack_counted);
  shmt__unacked_make_gone(u, e);
}

void shmt__unacked_finish(shmt__ring* q, shmt__ring* u, shmt__unacked* e) {
  shmt__unacked_mark(u, e, SHMT_TAKEN_COUNTING);
  SHMT_FAILPOINT(ack_counting);
  finish_counting(q, u, e);
}

/* --- room in u --- */

/* Copy a message behind the tail. True: it was done, and the old one is MOVED. */
static bool copy_to_tail(shmt__ring* u, shmt__unacked* e) {
  const uint32_t capacity = u->area.capacity;
  const uint64_t head = atomic_load_explicit(&u->header->head, memory_order_relaxed);
  const uint64_t tail = atomic_load_explicit(&u->header->tail, memory_order_relaxed);
  shmt__unacked copy = *e;
  if (shmt__ring_used(head, tail, capacity) + e->m.nbytes > capacity ||
      shmt__ring_reserve(u, shmt__ring_offset(tail), e->m.nbytes) != SHMT_OK)
    return false;
  char* bytes = malloc(e->m.nbytes);
  if (bytes == NULL) return false;
  (void)shmt__ring_read(u->area, shmt__ring_offset(e->at), bytes, e->m.nbytes);
  copy.at = tail;
  copy.taken_at =
      (uint32_t)((shmt__ring_offset(tail) + sizeof e->m + sizeof(shmt__ring_block) * e->m.n_blocks) % capacity);
  copy.taken.becomes = e->taken.state;
  copy.taken.state = SHMT_TAKEN_PREPARED;
  memcpy(bytes, &e->m, sizeof e->m); /* as it was checked */
  memcpy(bytes + sizeof e->m + sizeof(shmt__ring_block) * e->m.n_blocks, &copy.taken, sizeof copy.taken);
  /* The old message keeps the blocks; we may not hold them: Note [Auditing rings]. */
  atomic_fetch_or_explicit(&u->header->n_unheld, 1, memory_order_seq_cst);
  for (uint32_t i = 0; i < e->m.n_blocks; i++) {
    shmt__ring_block ref;
    memcpy(&ref, bytes + sizeof e->m + sizeof ref * i, sizeof ref);
    shmt__unacked_add_leases(u, &ref, 1);
  }
  (void)shmt__ring_write(u->area, shmt__ring_offset(tail), bytes, e->m.nbytes);
  atomic_store_explicit(&u->header->tail, shmt__ring_next(tail, e->m.nbytes, capacity), memory_order_release);
  atomic_fetch_add_explicit(&u->header->n_unheld, 1, memory_order_seq_cst);
  free(bytes);
  SHMT_FAILPOINT(ack_copied);
  shmt__unacked_mark(u, e, SHMT_TAKEN_MOVED);
  SHMT_FAILPOINT(ack_moved);
  shmt__unacked_mark(u, &copy, (shmt__taken_state)copy.taken.becomes);
  free_blocks(u, e);
  return true;
}

/* Drop messages at the head that are gone. all: also those behind others, by copying these to the tail. u is not
 * damaged and was not left half changed. */
void shmt__unacked_trim(shmt__ring* u, bool all) {
  shmt__unacked_walk w = shmt__unacked_begin(u);
  shmt__unacked e;
  while (shmt__unacked_next(u, &w, &e)) {
    if (shmt__unacked_is_there(&e)) {
      if (!all || !copy_to_tail(u, &e)) return;
    } else {
      free_blocks(u, &e);
    }
    /* release: what was read there is read. */
    atomic_store_explicit(&u->header->head, w.at, memory_order_release);
    SHMT_FAILPOINT(ack_trimmed);
  }
}

/* Keep u from filling up behind a long job. Also counts the messages. */
void shmt__unacked_tidy(shmt__ring* q, shmt__ring* u) {
  uint32_t used = 0, there = 0, n = 0;
  shmt__unacked_trim(u, false);
  shmt__unacked_walk w = shmt__unacked_begin(u);
  shmt__unacked e;
  while (shmt__unacked_next(u, &w, &e)) {
    used += e.m.nbytes;
    if (!shmt__unacked_is_there(&e)) continue;
    there += e.m.nbytes;
    n++;
  }
  if (used >= COMPACT_FROM && there < used / 2) shmt__unacked_trim(u, true);
  atomic_store_explicit(&q->header->n_unacked, n, memory_order_relaxed);
}

/* --- after a process was killed here --- */

/* Has a message before this one in u its id, and was copied? */
static bool is_copy(const shmt__ring* u, const shmt__unacked* copy) {
  shmt__unacked_walk w = shmt__unacked_begin(u);
  shmt__unacked e;
  while (shmt__unacked_next(u, &w, &e) && e.at != copy->at) {
    if (e.taken.id == copy->taken.id && e.taken.state == SHMT_TAKEN_MOVED) return true;
  }
  return false;
}

static shmt__taken_state as_it_becomes(const shmt__unacked* e) {
  return e->taken.becomes == SHMT_TAKEN_RELEASED ? SHMT_TAKEN_RELEASED : SHMT_TAKEN_LIVE;
}

/* Finish or undo what dead processes left half done. The caller has all locks but the queue's put_lock. */
bool shmt__unacked_repair(shmt__ring* q, shmt__ring* u) {
  const uint64_t moved = atomic_load_explicit(&q->header->moved_id, memory_order_acquire);
  shmt__unacked_walk w = shmt__unacked_begin(u);
  shmt__unacked e;
  while (shmt__unacked_next(u, &w, &e)) {
    const uint64_t id = e.taken.id;
    if (e.taken.state == SHMT_TAKEN_COUNTING)
      finish_counting(q, u, &e);
    else if (e.taken.state == SHMT_TAKEN_PREPARED && (id == moved || is_copy(u, &e)))
      shmt__unacked_mark(u, &e, as_it_becomes(&e));
    else if (e.taken.state == SHMT_TAKEN_PREPARED ||
             (shmt__unacked_is_there(&e) && moved == (id | SHMT_RING_MOVES_BACK)))
      shmt__unacked_make_gone(u, &e);
  }
  if (w.is_damaged) return false;
  atomic_store_explicit(&q->header->moved_id, 0, memory_order_release);
  return true;
}
