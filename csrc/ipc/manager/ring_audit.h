/* ipc/manager/ring_audit.h -- the manager's part in rings: dead owners of locks, and lost ring leases.
 *
 * A client may write anything into a ring. So nothing read from one is followed without a check,
 * and nothing here waits: a lock that is taken means another try later.
 */
#ifndef SHMT_IPC_MANAGER_RING_AUDIT_H
#define SHMT_IPC_MANAGER_RING_AUDIT_H

#include "shm/arena_manager.h"

/* A client is gone, its number not yet free: give its locks up, forget what it had pending, and wake
 * those who may be alone now. */
void shmt__rings_client_died(shmt__arena_manager* k, uint32_t client);
/* Count the block references of all messages and take from the ring leases what is beyond that, if
 * anything may be wrong with them. False: some blocks could not be judged, as another process had a
 * lock; try again. */
bool shmt__rings_audit(shmt__arena_manager* k);

#endif
