/* ipc/ring/wait_any.h -- waiting for any of several rings and events.
 *
 * Note [Waiting for any]
 * Everybody sleeps on the watch events of the rings, which wake all sleepers, so that no wake-up is taken from a
 * process that waits for a message. One thread can sleep on shmt__os_most_futexes() words at once. So there are two
 * ways:
 *
 *   - the calling thread sleeps on them itself (shmt__ring_wait_any), when they are few and there is nothing else to
 *     wait for;
 *   - else threads of C sleep on so many each, and raise one flag for all (shmt__ring_watch), which the caller waits
 *     for together with its other descriptors. They live as long as the wait. Afterwards a put costs no more than
 *     before; it would if a thread went on watching the rings.
 */
#ifndef SHMT_IPC_RING_WAIT_ANY_H
#define SHMT_IPC_RING_WAIT_ANY_H

#include "ipc/ring/event.h"

/* One of the things to wait for: a ring, ready while it has a message; a line of a call, also once that is lost; or an
 * event, as shmt__event_has_come says. */
typedef struct shmt__wait_item {
  shmt__ring* ring; /* borrowed */
  bool (*is_lost)(shmt__ring* line, uint32_t serial); /* shmt__call_is_lost; NULL: it is no call */
  uint32_t serial;                                    /* of the call */
  bool is_event;
  shmt__event_mark since; /* of an event */
} shmt__wait_item;

/* Is it ready? Gives back what dead takers of a queue had, which makes the queue ready. */
bool shmt__wait_item_is_ready(const shmt__wait_item* item);
/* Wait until one of n items is ready, 1 to shmt__os_most_futexes() of them. Returns SHMT_RING_DONE, SHMT_RING_EMPTY
 * (the deadline has passed), SHMT_RING_INTERRUPTED. */
shmt__ring_result shmt__ring_wait_any(const shmt__wait_item* items, uint32_t n, uint64_t deadline_ns);
/* If a manager was killed, start another: see shmt__ring_check_manager. */
void shmt__ring_wait_any_check(const shmt__wait_item* items, uint32_t n);

/* Threads that watch rings. */
typedef struct shmt__ring_watch shmt__ring_watch;

/* Begin to watch n items, at least one; at_once: at most so many in one thread, 1 to shmt__os_most_futexes(). Errors:
 * SHMT_E_NOMEM, SHMT_E_OS.
 * Ownership: copies the items; *out is the caller's, shmt__ring_watch_close. */
shmt_status shmt__ring_watch_open(const shmt__wait_item* items, uint32_t n, uint32_t at_once, shmt__ring_watch** out);
/* The number of a descriptor that is readable once an item is ready, or was; -1: it is gone. Borrowed. */
int shmt__ring_watch_fileno(const shmt__ring_watch* w);
/* Make it unreadable until the next change. Look at the items after this. */
void shmt__ring_watch_lower(const shmt__ring_watch* w);
/* End the threads, which takes them a moment, and close the descriptor with the last. NULL is fine. */
void shmt__ring_watch_close(shmt__ring_watch* w);

#endif
