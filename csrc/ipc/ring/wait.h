/* ipc/ring/wait.h -- what the files about rings share. */
#ifndef SHMT_IPC_RING_WAIT_H
#define SHMT_IPC_RING_WAIT_H

#include "ipc/ring/ring.h"

/* Does no process do the other end's work (`end`: SHMT_RING_NO_PUT or SHMT_RING_NO_GET), now or
 * later? */
bool shmt__ring_is_alone(shmt__ring* r, unsigned end);
/* The deadline, or a slice from now when that is earlier. */
uint64_t shmt__ring_slice(uint64_t deadline_ns);
/* Wait busily for the tail to move, if that may pay; true: it did. */
bool shmt__ring_spin(shmt__ring* r);
/* Messages that wait in some process for room. */
uint32_t shmt__ring_n_pending(const shmt__ring* r);
/* Does this process have two processors? */
bool shmt__ring_may_spin(void);
/* Our number in the ring's session; joins anew where fork left us without. 0: not possible, the
 * error record says why. */
unsigned shmt__ring_client(shmt__ring* r);
/* A lock stays taken: if the manager that would see its owner's death is gone, start another. */
void shmt__ring_restart_manager(shmt__ring* r);
/* For who waits: only a manager sees that the others are dead, and when it was killed as well, nobody
 * but who waits can bring up another. */
void shmt__ring_check_manager(shmt__ring* r);

#endif
