/* os/lock.h -- locks on bytes of a file that belong to an open file description.
 *
 * Such a lock is gone when the last copy of the descriptor that took it is closed, in whatever
 * process and pid namespace, and whatever ended that process. fork() makes a copy, opening the file
 * again does not. Nothing has to lie at the byte.
 */
#ifndef SHMT_OS_LOCK_H
#define SHMT_OS_LOCK_H

#include "base/error.h"

/* Lock a byte, or find that this description has it. False: another has it, or there are no locks. */
bool shmt__os_lock_byte(int fd, uint64_t at);
void shmt__os_unlock_byte(int fd, uint64_t at);
/* Has another description than that of fd the byte? True when the kernel does not say. */
bool shmt__os_byte_is_locked(int fd, uint64_t at);

#endif
