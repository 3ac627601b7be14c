/* ipc/ring/put_get.h -- steps of putting and getting, for ipc/ring/unacknowledged.c. */
#ifndef SHMT_IPC_RING_PUT_GET_H
#define SHMT_IPC_RING_PUT_GET_H

#include "ipc/ring/ring.h"

/* Take the first message; the caller has get_lock. *out_stays: it could not be taken now, and is still the first. */
shmt__ring_result shmt__ring_take_in_lock(shmt__ring* r, shmt__received_message* out, bool* out_stays);
/* Write the storages of a message as block references. Errors: SHMT_E_HANDLE. */
shmt_status shmt__ring_refer(const shmt__ring* r, const shmt__outgoing_message* p, shmt__ring_block* out);
/* End the leases of blocks that a message named. */
void shmt__ring_end_leases(shmt__ring* r, const shmt__ring_block* blocks, uint32_t n);
/* A message came, or was taken: wake whom it concerns. */
void shmt__ring_signal_data(shmt__ring* r);
void shmt__ring_signal_room(shmt__ring* r);

#endif
