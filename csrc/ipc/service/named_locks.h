/* ipc/service/named_locks.h -- locks, semaphores and barriers that unrelated processes find by name. See Note [Named
 * locks] in shm/names.h.
 *
 * A lock is opened by a client of the service, and can be used as long as the process is that client. A process that
 * becomes another client, as it does after it has closed all its descriptors, keeps its permits and its places at
 * barriers, and opens the lock again for the next one. What changes a lock waits for no manager: an exception cannot
 * come between the step and the caller's note of it.
 */
#ifndef SHMT_IPC_SERVICE_NAMED_LOCKS_H
#define SHMT_IPC_SERVICE_NAMED_LOCKS_H

#include "api/service.h"
#include "base/error.h"

/* An opened lock: its index, and the client as which this process opened it. */
typedef struct shmt__opened_lock {
  uint64_t incarnation;
  uint32_t client, index;
  uint32_t membership; /* of the session (ipc/session/session.h): what is taken stays this process's as long as it is */
} shmt__opened_lock;

/* Find or make one. kind: 1 semaphore of n permits, 2 barrier of n parties (at most 232 and 48). 0 permits leave the
 * number open: it is 1 until somebody says it, which settles it. Errors: SHMT_E_VALUE,
 * SHMT_E_RUNTIME, SHMT_E_MANAGER, SHMT_E_PYTHON. */
shmt_status shmt__named_lock_open(shmt_service* v, const char* name, uint32_t kind, uint32_t n,
                                  shmt__opened_lock* out);
/* Open it again if this process is not the client any more that opened it. Errors: as above. */
shmt_status shmt__named_lock_refresh(shmt_service* v, const char* name, uint32_t kind, uint32_t n,
                                     shmt__opened_lock* o);
/* Take a permit of a semaphore. *out_slot: what to release. Errors: SHMT_E_TIMEOUT, without a record; SHMT_E_RUNTIME
 * (opened by another client: refresh). */
shmt_status shmt__named_lock_acquire(shmt_service* v, const shmt__opened_lock* o, int timeout_ms, uint32_t* out_slot);
/* Release a permit. Errors: SHMT_E_RUNTIME (this process does not have the permit). */
shmt_status shmt__named_lock_release(shmt_service* v, const shmt__opened_lock* o, uint32_t slot);
/* How many permits are free, or how many parties of a barrier are missing. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__named_lock_value(shmt_service* v, const shmt__opened_lock* o, uint32_t* out);
/* Arrive at a barrier. *out_slot and *out_phase: for shmt__barrier_wait. *out_last: this completed the phase. Errors:
 * SHMT_E_RUNTIME, SHMT_E_TIMEOUT (all slots are taken, by parties that are still leaving the last phase, or by too many
 * parties: arrive again). */
shmt_status shmt__barrier_arrive(shmt_service* v, const shmt__opened_lock* o, uint32_t* out_slot, uint32_t* out_phase,
                                 bool* out_last);
/* Wait for the end of the phase. Errors: SHMT_E_TIMEOUT, without a record; SHMT_E_RUNTIME. */
shmt_status shmt__barrier_wait(shmt_service* v, const shmt__opened_lock* o, uint32_t slot, uint32_t phase,
                               int timeout_ms);
/* Withdraw an arrival. False: the phase is over, so that the arrival has counted. */
bool shmt__barrier_withdraw(shmt_service* v, const shmt__opened_lock* o, uint32_t slot, uint32_t phase);

#endif
