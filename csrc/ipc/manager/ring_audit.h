/* ipc/manager/ring_audit.h -- what the manager does for rings: it releases the locks of dead clients, and corrects the
 * counts of ring leases.
 *
 * A client may write anything into a ring. So nothing that is read from one is used without a check, and nothing here
 * waits: when a lock is taken, the manager tries again later.
 */
#ifndef SHMT_IPC_MANAGER_RING_AUDIT_H
#define SHMT_IPC_MANAGER_RING_AUDIT_H

#include "shm/manager/arena_manager.h"

/* A client is dead and its number is not free yet: release its locks, forget its pending messages, and wake the
 * processes that may be alone at a ring now. False: there is no memory to look at some ring, where a lock may still
 * name the client; call it again before the number is free. */
bool shmt__rings_client_died(shmt__arena_manager* k, uint32_t client);
/* If the ring leases may be wrong: count the block references of all messages, and subtract from the ring leases what
 * is too much. False: some blocks could not be checked, as another process had a lock; try again. */
bool shmt__rings_audit(shmt__arena_manager* k);

#endif
