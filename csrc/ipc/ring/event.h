/* ipc/ring/event.h -- events: a flag that processes set, clear and wait for, and pulses, which wake whoever waits now.
 *
 * An event is a bare ring (ipc/ring/message_layout.h) for one message, which is there while the event is set. So what
 * waits for messages waits for events too: sleeping, descriptors, the manager's care for dead members.
 *
 * Note [Setting events]
 * The message, empty, is written once, when the event is made. Setting moves the tail behind it, clearing moves the
 * tail back. Each is one atomic step, and the head never moves. So nobody who is killed or stopped leaves anything half
 * done or locked. `n_sets` grows with each call that sets, also if the event was set: whoever waits sees that the event
 * was set, even if another process clears it at once.
 *
 * Note [Pulses]
 * A pulse takes put_lock, writes its id where the last pulse but one has its own, and then increments `n_pulses`. A
 * waiter compares that number with the one it began with. It takes the id of the newest pulse, and looks again whether
 * that was the newest before and after: a writer may be two pulses ahead by then. A process that is killed before it
 * increments the number has changed nothing that counts, and leaves a lock that the manager marks.
 */
#ifndef SHMT_IPC_RING_EVENT_H
#define SHMT_IPC_RING_EVENT_H

#include "ipc/ring/ring.h"

enum { SHMT_EVENT_BYTES = SHMT_RING_BARE_DATA + SHMT_RING_LEAST_CAPACITY };

/* What had happened to an event at some moment. */
typedef struct shmt__event_mark {
  uint64_t n_pulses;
  uint32_t n_sets;
} shmt__event_mark;

/* Make an event that is not set, in a storage of SHMT_EVENT_BYTES that nobody else has seen. Errors: SHMT_E_NOMEM.
 * Ownership: consumes the reference, also on failure; *out is the caller's, shmt__ring_close. */
shmt_status shmt__event_create_in(shmt_storage* storage, shmt__ring** out);
/* The event that a storage is. Errors: SHMT_E_HANDLE (it is none), SHMT_E_NOMEM. Ownership: as above. */
shmt_status shmt__event_over(shmt_storage* storage, shmt__ring** out);

/* Is it set? Nothing here asks the kernel. */
bool shmt__event_is_set(const shmt__ring* r);
/* Set it, and wake all who wait. Setting an event that is set does nothing else. Errors: SHMT_E_MANAGER (a forked child
 * cannot join the service). */
shmt_status shmt__event_set(shmt__ring* r);
/* Clear it. Errors: as above. */
shmt_status shmt__event_clear(shmt__ring* r);
/* Wake all who wait, and give them an id. Waits while another process pulses. Returns SHMT_RING_DONE, SHMT_RING_BUSY
 * (another process had the lock until the deadline), SHMT_RING_INTERRUPTED, SHMT_RING_FAILED (SHMT_E_MANAGER). */
shmt__ring_result shmt__event_pulse(shmt__ring* r, uint64_t id, uint64_t deadline_ns);

shmt__event_mark shmt__event_mark_now(const shmt__ring* r);
/* Is it set, or was it set or pulsed after the mark? */
bool shmt__event_has_come(const shmt__ring* r, shmt__event_mark since);
/* The id of the newest pulse, if there was one after number n_pulses. */
bool shmt__event_pulse_since(const shmt__ring* r, uint64_t n_pulses, uint64_t* out_id);
/* Wait until shmt__event_has_come, or, with only_pulses, until a pulse comes after the mark. Returns SHMT_RING_DONE,
 * SHMT_RING_EMPTY (the deadline has passed), SHMT_RING_INTERRUPTED, SHMT_RING_FAILED (SHMT_E_MANAGER, as above). */
shmt__ring_result shmt__event_wait(shmt__ring* r, shmt__event_mark since, bool only_pulses, uint64_t deadline_ns);

#endif
