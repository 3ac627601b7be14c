/* os/cpu.h -- how many processors this process may use, and how they treat very small numbers. */
#ifndef SHMT_OS_CPU_H
#define SHMT_OS_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* Processors in the calling thread's affinity mask; at least 1. */
int shmt__os_cpu_count(void);

/* Whether subnormal numbers count as zero in the calling thread, as an opaque word; 0 where that is fixed. */
uint64_t shmt__os_float_mode(void);
void shmt__os_set_float_mode(uint64_t mode);
/* Let the calling thread take subnormal numbers for zero, or no longer. False where the processor cannot. */
bool shmt__os_flush_denormals(bool on);

#endif
