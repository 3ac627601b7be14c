/* os/posix_names.h -- names of POSIX shared memory and semaphores (shm_open, sem_open), which are files of /dev/shm.
 *
 * Note [Removing a name]
 * A name is removed only while it is that of the file that was meant: device and inode are compared first. No call of
 * the kernel does both in one step. So a program that removes and makes the name anew between our two calls, some
 * microseconds, loses the new one. An inode number is not given to another file while somebody has the first one open
 * or mapped; after that, tmpfs counts on for as long as the machine runs.
 */
#ifndef SHMT_OS_POSIX_NAMES_H
#define SHMT_OS_POSIX_NAMES_H

#include "base/error.h"

#define SHMT_POSIX_NAMES "/dev/shm"

/* Is it a name: a slash, then 1 to 254 bytes without another one, and neither "/." nor "/.."? Errors: SHMT_E_VALUE. */
shmt_status shmt__os_posix_name_check(const char* name);
/* Could a file of this identity (device, inode) have a name here? It lies in the /dev/shm of this process. */
bool shmt__os_posix_names_have(const uint64_t identity[2]);
/* Is it the name of that file? */
bool shmt__os_posix_name_is(const char* name, const uint64_t identity[2]);
/* Remove the name if it is that of the file: Note [Removing a name]. Returns whether it was removed. */
bool shmt__os_posix_name_remove(const char* name, const uint64_t identity[2]);

/* A semaphore as sem_open() finds it in its file: how many bytes it takes. */
uint64_t shmt__os_semaphore_bytes(void);
/* Make a semaphore of so many permits, for several processes, in the bytes of a mapped file. Returns 0 or -errno. */
int shmt__os_semaphore_init(void* at, uint32_t value);

#endif
