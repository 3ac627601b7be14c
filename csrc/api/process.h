/* api/process.h -- settings of this process and its threads in the kernel, for the Python package. */
#ifndef SHMT_API_PROCESS_H
#define SHMT_API_PROCESS_H

#include <stdint.h>

/* Bytes of a thread's name, with the zero at the end. */
#define SHMT_THREAD_NAME_BYTES 16

/* Let the kernel send `signal` to this process when the thread that made it ends; 0: none.
 * Returns a status. Errors: SHMT_E_RUNTIME (there is no such signal). */
int shmt_set_parent_death_signal(int signal);
/* Set the name of the calling thread; a longer one is cut to 15 bytes.
 * Returns a status. Errors: SHMT_E_RUNTIME (the kernel refused). */
int shmt_set_thread_name(const char* name);
/* Write the name of the calling thread, zero-terminated, to out, which has SHMT_THREAD_NAME_BYTES bytes.
 * Returns a status. Errors: SHMT_E_RUNTIME (the kernel refused). */
int shmt_get_thread_name(char* out);
/* Does the number stand for one user in this process's user namespace? Where the kernel shows all strangers as one
 * number, that number does not. */
int shmt_user_is_known(uint32_t uid);
/* No read or write of the calling thread is moved from one side of the call to the other, as other processes see it. */
void shmt_memory_fence(void);

#endif
