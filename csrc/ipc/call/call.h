/* ipc/call/call.h -- calls with an answer, over rings. Layout and protocol are in ipc/call/call_layout.h.
 *
 * Any thread may call, but only one at a time uses a line to wait. Calls that wait return when a signal came, as those
 * of ipc/ring/ring.h.
 */
#ifndef SHMT_IPC_CALL_CALL_H
#define SHMT_IPC_CALL_CALL_H

#include "ipc/call/call_layout.h"
#include "ipc/ring/ring.h"

/* --- the client --- */

/* A new line in the session of a server's ring, for so many calls at once, at most SHMT_CALL_WORDS.
 * *out: the caller's; shmt__ring_close. Errors: SHMT_E_NOMEM, SHMT_E_MANAGER. */
shmt_status shmt__call_make_line(const shmt__ring* server, uint32_t n_calls, shmt__ring** out);
/* Begin a call: put the request. serial: 1 to SHMT_CALL_SERIALS - 1; no other call under way on the line may have one
 * that differs from it by a multiple of SHMT_CALL_WORDS. Returns what shmt__ring_put returns, and SHMT_RING_FULL where
 * a later call has the number's word: this one was given up. Unless that is SHMT_RING_DONE, no call has begun. */
shmt__ring_result shmt__call_begin(shmt__ring* server, shmt__ring* line, uint32_t serial,
                                   const shmt__outgoing_message* request, uint64_t deadline_ns);
/* Wait for the next reply on a line, whatever call it is of; flags say which, and SHMT_RING_ERROR.
 * Returns SHMT_RING_DONE; SHMT_RING_EMPTY (none until the deadline); SHMT_RING_ALONE: call `serial` is lost
 * (shmt__call_is_lost), and no reply is there; SHMT_RING_INTERRUPTED; SHMT_RING_FAILED. serial 0: look after no
 * call. */
shmt__ring_result shmt__call_wait(shmt__ring* line, uint32_t serial, uint64_t deadline_ns,
                                  shmt__received_message* out);
/* Is the server that took the call gone, or was the call given up, without a reply? Then none will come. */
bool shmt__call_is_lost(shmt__ring* line, uint32_t serial);
/* The reply of the call is not wanted any more. Who waits for it on the line learns of it when it is woken. */
void shmt__call_give_up(shmt__ring* line, uint32_t serial);

/* --- the server --- */

/* A request that this process has taken. */
typedef struct shmt__call {
  shmt__ring line;       /* a view */
  shmt_storage* storage; /* of the line; owned */
  uint32_t serial;
} shmt__call;

/* From now on this process takes requests out of the ring, and what nobody waits for is dropped there. */
void shmt__call_serve(shmt__ring* r);
/* Take the line out of a request. False: it is none. */
bool shmt__call_open(shmt__received_message* request, shmt__call* out);
/* Does the client still wait? */
bool shmt__call_is_wanted(shmt__call* c);
/* Put the reply. flags: 0 or SHMT_RING_ERROR. is_patient: wait a moment for room. Returns SHMT_RING_DONE;
 * SHMT_RING_ALONE (nobody waits for it); SHMT_RING_NO_ROOM (it does not fit, and the client does not read);
 * SHMT_RING_FAILED. */
shmt__ring_result shmt__call_reply(shmt__call* c, const shmt__outgoing_message* reply, uint32_t flags, bool is_patient);
/* Let go of the request. */
void shmt__call_close(shmt__call* c);

#endif
