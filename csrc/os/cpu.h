/* os/cpu.h -- the processors that a thread may use, how they treat subnormal numbers, and AMX tile registers. */
#ifndef SHMT_OS_CPU_H
#define SHMT_OS_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* How many processors are in the calling thread's affinity mask; at least 1. */
int shmt__os_cpu_count(void);
/* The processor that the calling thread runs on, or ran on a moment ago; -1 where the kernel does not tell. */
int shmt__os_current_cpu(void);
/* Move the calling thread away from this processor, to another one in its affinity mask, if there is one. Its mask is
 * the same afterwards. */
void shmt__os_leave_cpu(int cpu);

/* How the calling thread treats subnormal numbers, as an opaque word; 0 where that cannot be changed. */
uint64_t shmt__os_float_mode(void);
/* Treat them as in the thread that the word is from. */
void shmt__os_set_float_mode(uint64_t mode);
/* Switch on or off that the calling thread treats subnormal numbers as zero. False: the processor cannot do that. */
bool shmt__os_flush_denormals(bool on);

/* May this process use AMX for bfloat16: does the processor have tile registers, and does the kernel allow them? The
 * first call asks the kernel; its permission holds for all threads and for children. The kernel refuses, for instance,
 * when an alternate signal stack of a thread has no room for the registers. */
bool shmt__os_allow_amx(void);

#endif
