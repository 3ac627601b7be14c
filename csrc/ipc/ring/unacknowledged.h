/* ipc/ring/unacknowledged.h -- getting with an acknowledgement: a message whose taker dies goes back to its queue.
 *
 * Layout and protocol are in the Notes [Unacknowledged messages] and [Moves between the rings] of
 * ipc/ring/message_layout.h. Any thread may call.
 */
#ifndef SHMT_IPC_RING_UNACKNOWLEDGED_H
#define SHMT_IPC_RING_UNACKNOWLEDGED_H

#include "ipc/ring/ring.h"

typedef struct shmt__delivery {
  uint64_t id;         /* never 0; of this delivery, not of the message */
  uint32_t deliveries; /* how often the message was delivered, with this time */
} shmt__delivery;

/* Take up to n_max messages that are there, and wait for the first; each is the caller's until it acknowledges it or
 * lets it go. *n_out says how many. Returns as shmt__ring_get, and SHMT_RING_NO_ROOM: the unacknowledged messages take
 * all the room there is for them, until the deadline, or this process has them all; the error record has the numbers.
 * The caller owns the messages. */
shmt__ring_result shmt__ring_deliver(shmt__ring* r, shmt__received_message* out, shmt__delivery* deliveries,
                                     uint32_t n_max, uint32_t* n_out, uint64_t deadline_ns);
/* The work on a message is done, also for join. Returns SHMT_RING_DONE, SHMT_RING_EMPTY (it is no longer this
 * delivery's: it went back, or the queue was damaged), SHMT_RING_BUSY, SHMT_RING_INTERRUPTED, SHMT_RING_FAILED. */
shmt__ring_result shmt__ring_acknowledge(shmt__ring* r, uint64_t id, uint64_t deadline_ns);
/* A message goes back to the front of the queue. counts: as a delivery in vain. Returns as shmt__ring_acknowledge. */
shmt__ring_result shmt__ring_let_go(shmt__ring* r, uint64_t id, bool counts, uint64_t deadline_ns);

/* May the taker of a message be dead? */
static inline bool shmt__ring_has_stale(const shmt__ring* r) {
  /* seq_cst: read after an event is armed. */
  return atomic_load_explicit(&r->header->unacked_stale, memory_order_seq_cst) != 0;
}
/* Give the messages of dead takers back to the queue, without waiting for a lock: then a later call does it. The error
 * record stays clear. */
void shmt__ring_recover(shmt__ring* r);
/* The same if there are unacknowledged messages and nobody here has looked for a while. For a queue that is empty. */
void shmt__ring_recover_now_and_then(shmt__ring* r);
/* Somebody died while he moved a message: find out whether it has moved. The caller has get_lock. */
void shmt__ring_settle_move(shmt__ring* r);

/* Messages that were taken and not acknowledged; those of processes killed just now may count. */
static inline uint32_t shmt__ring_n_unacknowledged(const shmt__ring* r) {
  return atomic_load_explicit(&r->header->n_unacked, memory_order_relaxed);
}
/* Messages that were dropped, as they were delivered max_deliveries times in vain, or their blocks were gone. */
static inline uint32_t shmt__ring_n_dead_letters(const shmt__ring* r) {
  return atomic_load_explicit(&r->header->n_dead_letters, memory_order_relaxed);
}

#endif
