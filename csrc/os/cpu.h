/* os/cpu.h -- how many processors this process may use. */
#ifndef SHMT_OS_CPU_H
#define SHMT_OS_CPU_H

/* Processors in the calling thread's affinity mask; at least 1. */
int shmt__os_cpu_count(void);

#endif
