/* ipc/handle/unsent_leases.h -- the leases of a message that is being pickled.
 *
 * A pickler may meet something that it cannot pickle behind tensors whose handles it has written: what is
 * left of that message goes nowhere, and its leases must end. Messages may be pickled within messages.
 * All this is of one thread.
 */
#ifndef SHMT_IPC_HANDLE_UNSENT_LEASES_H
#define SHMT_IPC_HANDLE_UNSENT_LEASES_H

#include "ipc/handle/handle.h"

/* A message begins; the mark is for its end. */
uint32_t shmt__unsent_begin(void);
/* It has ended: it is complete, or its leases are to end. */
void shmt__unsent_end(uint32_t mark, bool is_complete);
/* A lease was taken for this handle. Without memory for the note, it is not noted. */
void shmt__unsent_note(const shmt__handle* h);

#endif
