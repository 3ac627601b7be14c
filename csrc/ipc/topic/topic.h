/* ipc/topic/topic.h -- topics: publishing, subscribing. Layout and protocol are in ipc/topic/topic_layout.h.
 *
 * Any thread may call. Calls that wait return when a signal came, as those of ipc/ring/ring.h. Lock order: the lock of
 * a topic comes before the locks of subscribers' rings.
 */
#ifndef SHMT_IPC_TOPIC_TOPIC_H
#define SHMT_IPC_TOPIC_TOPIC_H

#include "ipc/ring/ring.h"
#include "ipc/topic/topic_layout.h"

typedef struct shmt__topic {
  shmt__ring* log;        /* owned; its put_lock is the topic's lock */
  shmt__ring* past;       /* owned; under the topic's lock. NULL: not opened yet */
  shmt_storage* storage;  /* of the table; owned */
  shmt__topic_table* table;
} shmt__topic;

/* The storages of a new topic, of which this is said, in a session of a service. New references. Errors:
 * SHMT_E_NOMEM, SHMT_E_MANAGER. */
shmt_status shmt__topic_make_storages(struct shmt__session* s, const shmt__topic_wish* said, shmt_storage** out_log,
                                      shmt_storage** out_table);
/* The topic that two storages are. Consumes the references, also on failure. Errors: SHMT_E_HANDLE (they are none),
 * SHMT_E_NOMEM. */
shmt_status shmt__topic_over(shmt_storage* log, shmt_storage* table, shmt__topic** out);
/* Stop using the topic. NULL is fine. Subscriptions stay. */
void shmt__topic_close(shmt__topic* t);

/* Say what the topic is to be; the wish is valid. False: another value was said before, and *out has what was said;
 * then nothing of the wish counts. */
bool shmt__topic_say(shmt__topic* t, const shmt__topic_wish* w, shmt__topic_wish* out);
/* What was said so far. */
static inline shmt__topic_wish shmt__topic_said_now(const shmt__topic* t) {
  const shmt__topic_wish w = shmt__topic_wish_of(atomic_load_explicit(&t->table->said, memory_order_relaxed));
  return shmt__topic_wish_is_valid(&w) ? w : shmt__topic_wish_of(0); /* any member can write there */
}
/* What it is now. */
static inline shmt__topic_kind shmt__topic_kind_now(const shmt__topic* t) {
  return shmt__topic_kind_of(atomic_load_explicit(&t->table->said, memory_order_relaxed));
}

/* Publish one message, whose storages are all of the topic's session; its flags may have SHMT_RING_FORWARDED. Returns
 * SHMT_RING_DONE; SHMT_RING_FULL (overflow BLOCK: a subscriber had no room until the deadline; nobody has got the
 * message); SHMT_RING_BUSY (another publisher is at it until the deadline); SHMT_RING_INTERRUPTED; SHMT_RING_FAILED. */
shmt__ring_result shmt__topic_publish(shmt__topic* t, const shmt__outgoing_message* m, uint64_t deadline_ns);

/* Subscribe from now on, after the messages of the history. only_local: without those that were forwarded, see Note
 * [Forwarded messages]. *out: the caller's ring, which others put into.
 * Returns SHMT_RING_DONE, SHMT_RING_BUSY, SHMT_RING_INTERRUPTED, SHMT_RING_FAILED (also when all slots are taken). */
shmt__ring_result shmt__topic_subscribe(shmt__topic* t, bool only_local, uint64_t deadline_ns, shmt__ring** out);
/* Nobody puts into this ring of shmt__topic_subscribe any more. The caller closes the ring. In a forked child the ring
 * is the parent's, and stays. */
void shmt__topic_unsubscribe(shmt__topic* t, const shmt__ring* ring);

/* The newest message of the history. SHMT_RING_EMPTY: there is none. Else as shmt__topic_subscribe. */
shmt__ring_result shmt__topic_latest(shmt__topic* t, uint64_t deadline_ns, shmt__received_message* out);

/* How many subscribers there are; those who were killed just now may count. */
uint32_t shmt__topic_n_subscribers(const shmt__topic* t);
uint64_t shmt__topic_n_published(const shmt__topic* t);

#endif
