/* ipc/topic/subscribers.h -- the subscribers' rings, as the files of ipc/topic/ share them. The caller has the topic's
 * lock. */
#ifndef SHMT_IPC_TOPIC_SUBSCRIBERS_H
#define SHMT_IPC_TOPIC_SUBSCRIBERS_H

#include "ipc/topic/topic.h"

/* Hold the ring of a slot; *storage is the caller's, and *out is valid as long. False: nobody subscribes there, or no
 * more; then the slot is empty. */
bool shmt__topic_open_slot(const shmt__topic* t, shmt__topic_slot* slot, shmt__ring* out, shmt_storage** storage);
/* Does the process that subscribed hold the ring of a slot? If not, others who do may be publishers, or its child. */
bool shmt__topic_subscriber_holds(const shmt__topic* t, const shmt__topic_slot* slot);
/* Is the message none for this subscriber? Note [Forwarded messages] */
static inline bool shmt__topic_skips(const shmt__ring* ring, const shmt__outgoing_message* m) {
  return (m->flags & SHMT_RING_FORWARDED) &&
         atomic_load_explicit(&ring->header->only_local, memory_order_relaxed) != 0;
}
/* Put a message into a subscriber's ring, and make room as `overflow` says; BLOCK makes none. What the subscriber loses
 * is counted there and in the table, and not a message that it skips. */
void shmt__topic_deliver(shmt__topic* t, shmt__ring* ring, const shmt__outgoing_message* m, shmt__overflow overflow);
/* Open `past`, the ring of the history. Returns SHMT_RING_DONE; SHMT_RING_EMPTY (nobody has made it, or it is gone);
 * SHMT_RING_FAILED (not now). */
shmt__ring_result shmt__topic_open_past(shmt__topic* t);
/* Drop the messages of `past`, which is open, that are more than the history. */
void shmt__topic_trim_past(shmt__topic* t, uint32_t history);
/* Empty the slots of subscribers that are gone. */
void shmt__topic_forget_dead(shmt__topic* t);

/* Slots ever used; bounded, since any member can write there. */
static inline uint32_t shmt__topic_slots_end(const shmt__topic* t) {
  const uint32_t n = atomic_load_explicit(&t->table->slots_end, memory_order_acquire);
  return n < SHMT_TOPIC_SLOTS ? n : SHMT_TOPIC_SLOTS;
}

#endif
