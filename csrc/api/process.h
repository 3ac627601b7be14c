/* api/process.h -- what a process asks of the kernel for itself and its threads. */
#ifndef SHMT_API_PROCESS_H
#define SHMT_API_PROCESS_H

#include <stdint.h>

/* Bytes of a thread's name, the ending zero included. */
#define SHMT_THREAD_NAME_BYTES 16

/* Have `signal` sent to this process when the thread that made it ends; 0 for none.
 * Returns a status; SHMT_E_RUNTIME: there is no such signal. */
int shmt_set_parent_death_signal(int signal);
/* Name the calling thread; what is longer than 15 bytes is cut.
 * Returns a status; SHMT_E_RUNTIME: the kernel refused. */
int shmt_set_thread_name(const char* name);
/* The name of the calling thread, zero-terminated, into SHMT_THREAD_NAME_BYTES bytes.
 * Returns a status; SHMT_E_RUNTIME: the kernel refused. */
int shmt_get_thread_name(char* out);
/* No read or write of the calling thread is moved from one side of the call to the other, as other processes see it. */
void shmt_memory_fence(void);

#endif
