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

#endif
