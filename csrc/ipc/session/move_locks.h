/* ipc/session/move_locks.h -- locks that threads take while they move a storage's bytes into shared memory.
 *
 * There are several, so that a thread seldom waits for the bytes of another storage. A fork takes all of them, so no
 * child is born in the middle of a move.
 */
#ifndef SHMT_IPC_SESSION_MOVE_LOCKS_H
#define SHMT_IPC_SESSION_MOVE_LOCKS_H

#include "storage/storage.h"

/* Take or release the lock of one storage. */
void shmt__move_lock(const shmt_storage* s);
void shmt__move_unlock(const shmt_storage* s);

#endif
