/* ipc/handle/unsent_leases.h -- ends the leases of handles that will not be sent.
 *
 * A pickler writes the handles of tensors as it meets them. When it then meets something that it cannot pickle, the
 * message goes nowhere, and the leases of its handles must end. So each thread notes the leases of the message that it
 * is pickling. Messages may be pickled within messages.
 */
#ifndef SHMT_IPC_HANDLE_UNSENT_LEASES_H
#define SHMT_IPC_HANDLE_UNSENT_LEASES_H

#include "ipc/handle/handle.h"

/* End the lease of a handle that will not be sent. The caller has the sessions' lock. */
void shmt__handle_end_lease_locked(const shmt__handle* h);

typedef struct shmt__unsent_mark {
  uint32_t n;             /* leases that were noted before */
  uint32_t sending_level; /* before */
} shmt__unsent_mark;

typedef enum shmt__unsent_outcome {
  SHMT_UNSENT_GIVEN_UP, /* its leases end */
  SHMT_UNSENT_COMPLETE, /* it belongs to whoever has it, or is the one that is being sent */
  SHMT_UNSENT_WRITTEN,  /* it is on its way, at least in part */
} shmt__unsent_outcome;

/* This thread begins to pickle a message, or, sends: to send the one that it pickles next. Pass the mark to
 * shmt__unsent_end. */
shmt__unsent_mark shmt__unsent_begin(bool sends);
void shmt__unsent_end(shmt__unsent_mark mark, shmt__unsent_outcome outcome);
/* A lease was taken for this handle. When memory is out the lease is not noted. */
void shmt__unsent_note(const shmt__handle* h);

#endif
