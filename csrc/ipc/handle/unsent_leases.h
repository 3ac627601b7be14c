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

/* This thread begins to pickle a message. Pass the mark to shmt__unsent_end. */
uint32_t shmt__unsent_begin(void);
typedef enum shmt__unsent_outcome {
  SHMT_UNSENT_GIVEN_UP, /* its leases end */
  SHMT_UNSENT_COMPLETE, /* where it is part of another message, that one's end decides */
  SHMT_UNSENT_WRITTEN,  /* it is on its way, at least in part */
} shmt__unsent_outcome;
void shmt__unsent_end(uint32_t mark, shmt__unsent_outcome outcome);
/* A lease was taken for this handle. When memory is out the lease is not noted. */
void shmt__unsent_note(const shmt__handle* h);

#endif
