/* ipc/session/move_locks.h -- locks that threads take while they move a storage's bytes into shared memory.
 *
 * There are several, so that a thread seldom waits for the bytes of another storage. They come before the sessions'
 * lock. The fork handlers take all of them, so no child is born in the middle of a move.
 */
#ifndef SHMT_IPC_SESSION_MOVE_LOCKS_H
#define SHMT_IPC_SESSION_MOVE_LOCKS_H

#include "storage/storage.h"

/* Take or release the lock of one storage. */
void shmt__move_lock(const shmt_storage* s);
void shmt__move_unlock(const shmt_storage* s);
/* Take or release all of them, around a fork. */
void shmt__move_lock_all(void);
void shmt__move_unlock_all(void);

#endif
