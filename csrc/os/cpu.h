/* os/cpu.h -- how many processors this process may use, how they treat very small numbers, and tile registers. */
#ifndef SHMT_OS_CPU_H
#define SHMT_OS_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* Processors in the calling thread's affinity mask; at least 1. */
int shmt__os_cpu_count(void);
/* The processor that the calling thread runs on, or did a moment ago; -1 where the kernel does not tell. */
int shmt__os_current_cpu(void);
/* Move the calling thread to another of the processors that it may use, if there is one; it may use the same afterwards. */
void shmt__os_leave_cpu(int cpu);

/* Whether subnormal numbers count as zero in the calling thread, as an opaque word; 0 where that is fixed. */
uint64_t shmt__os_float_mode(void);
void shmt__os_set_float_mode(uint64_t mode);
/* Let the calling thread take subnormal numbers for zero, or no longer. False where the processor cannot. */
bool shmt__os_flush_denormals(bool on);

/* Has the processor tile registers and products of bfloat16 in them, and does the kernel let this process use them? It is
 * asked at the first call; what it allows holds for all threads and for children. It refuses, for instance, where a
 * thread's own stack for signals has no room for the registers. */
bool shmt__os_allow_amx(void);

#endif
