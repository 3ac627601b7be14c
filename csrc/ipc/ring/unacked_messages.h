/* ipc/ring/unacked_messages.h -- the messages in a ring of unacknowledged ones: reading, marking, trimming, and what
 * to do after a kill. See Note [Unacknowledged messages] in ipc/ring/message_layout.h.
 *
 * q is the queue's ring and u that of its unacknowledged messages. The caller has u's get_lock, and where it says so
 * the queue's. Any member can write to u: every message is checked when it is read.
 */
#ifndef SHMT_IPC_RING_UNACKED_MESSAGES_H
#define SHMT_IPC_RING_UNACKED_MESSAGES_H

#include "ipc/ring/ring.h"

/* A message in u. */
typedef struct shmt__unacked {
  uint64_t at; /* its position */
  shmt__ring_message m;
  uint32_t taken_at;      /* offset of `taken` */
  shmt__ring_taken taken; /* a copy */
} shmt__unacked;

typedef struct shmt__unacked_walk {
  uint64_t at;
  uint32_t left; /* bytes up to the tail: they bound the walk, whatever the counts say */
  bool is_damaged;
} shmt__unacked_walk;

/* Is it neither acknowledged nor back in the queue? */
static inline bool shmt__unacked_is_there(const shmt__unacked* e) {
  return e->taken.state == SHMT_TAKEN_LIVE || e->taken.state == SHMT_TAKEN_RELEASED;
}

/* Walk from the head to the tail. A walk that is damaged has no message. */
shmt__unacked_walk shmt__unacked_begin(const shmt__ring* u);
/* The next message. False at the end, and at one that makes no sense. */
bool shmt__unacked_next(const shmt__ring* u, shmt__unacked_walk* w, shmt__unacked* out);
void shmt__unacked_mark(const shmt__ring* u, shmt__unacked* e, shmt__taken_state state);
/* u makes no sense: empty it. The manager counts the leases anew. Returns SHMT_RING_FAILED; the error record says
 * SHMT_E_HANDLE. */
shmt__ring_result shmt__unacked_empty(shmt__ring* q, shmt__ring* u);
/* Add a ring lease for each block, unless it is gone. The caller holds the blocks, or is in u's n_unheld section. */
void shmt__unacked_add_leases(const shmt__ring* u, const shmt__ring_block* refs, uint32_t n);
/* The message is in the queue again. */
void shmt__unacked_make_gone(shmt__ring* u, shmt__unacked* e);
/* The message is acknowledged: count it as finished, once. */
void shmt__unacked_finish(shmt__ring* q, shmt__ring* u, shmt__unacked* e);
/* Bytes of messages that u takes. The rest is for the longest message, so that any one can be copied to the tail. */
uint32_t shmt__unacked_room(const shmt__ring* u);
/* Drop messages at the head that are gone. all: also those behind others, by copying these to the tail. */
void shmt__unacked_trim(shmt__ring* u, bool all);
/* Keep u from filling up behind a long job, and count its messages for q. */
void shmt__unacked_tidy(shmt__ring* q, shmt__ring* u);
/* Finish or undo what dead processes left half done. The caller also has the queue's get_lock. False: u is damaged. */
bool shmt__unacked_repair(shmt__ring* q, shmt__ring* u);

#endif
