/* api/runtime.h -- how operators run: threads and instruction set. */
#ifndef SHMT_API_RUNTIME_H
#define SHMT_API_RUNTIME_H

/* Threads one operator may use, the caller's included; at least 1. */
int shmt_get_num_threads(void);

/* From the next operator on; clamped to what the pool can hold, and to 1. */
void shmt_set_num_threads(int n);

/* "base", "v3" (AVX2) or "v4" (AVX-512): what kernels use on this CPU.
 * Ownership: static. */
const char* shmt_cpu_capability(void);

/* The only level that this build has kernels of, if it is for one machine alone; NULL where it has all.
 * Ownership: static. */
const char* shmt_only_cpu_capability(void);

/* 0: this build has no kernels for this CPU, or none for the level that SHMTENSOR_CPU_CAPABILITY names; otherwise 1. */
int shmt_has_kernels(void);

#endif
