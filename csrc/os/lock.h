/* os/lock.h -- locks on bytes of a file that belong to an open file description.
 *
 * The kernel drops such a lock when the last copy of the descriptor that took it is closed, in whatever
 * process and pid namespace the copies are, and whatever ends those processes. fork() makes a copy;
 * opening the file again does not. The file need not reach to the byte.
 */
#ifndef SHMT_OS_LOCK_H
#define SHMT_OS_LOCK_H

#include "base/error.h"

/* Lock a byte for fd's description. True also when it has the lock already. False: another description has it, or the
 * file system has no such locks. */
bool shmt__os_lock_byte(int fd, uint64_t at);
/* Give the lock up, if fd's description has it. */
void shmt__os_unlock_byte(int fd, uint64_t at);
/* Keep the locks of fd's description until this process ends or executes another program, also when the descriptor is
 * closed: by a map of the file, which children do not inherit. NULL: there is no memory for it. The caller gives it to
 * shmt__os_unpin_locks. */
void* shmt__os_pin_locks(int fd);
void shmt__os_unpin_locks(void* pin); /* may be NULL */
/* Does a description other than fd's have the byte locked? True also when the kernel does not tell. */
bool shmt__os_byte_is_locked(int fd, uint64_t at);

#endif
