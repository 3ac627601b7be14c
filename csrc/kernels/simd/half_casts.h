/* kernels/simd/half_casts.h -- stores blocks of floats as float16 or complex32.
 *
 * The functions are not inlined: all dtypes of a file call the same copy, a block at a time.
 */
#ifndef SHMT_KERNELS_SIMD_HALF_CASTS_H
#define SHMT_KERNELS_SIMD_HALF_CASTS_H

#include "kernels/simd/half_runs.h"

static __attribute__((noinline)) void shmt__store_float16(char* to, int64_t stride, const float* from, int64_t n) {
  if (stride == (int64_t)sizeof(shmt_float16))
    shmt__narrow_float16((shmt_float16*)(void*)to, from, n);
  else
    for (int64_t i = 0; i < n; i++) *(shmt_float16*)(void*)(to + i * stride) = shmt__float16_from_float(from[i]);
}

/* n is at most 128. */
static __attribute__((noinline)) void shmt__store_complex32(char* to, int64_t stride, const float _Complex* from,
                                                            int64_t n) {
  shmt_complex32 narrow[128];
  const bool is_dense = stride == (int64_t)sizeof *narrow;

  shmt__narrow_float16((shmt_float16*)(void*)(is_dense ? to : (char*)narrow), (const float*)from, 2 * n);
  for (int64_t i = 0; !is_dense && i < n; i++) *(shmt_complex32*)(void*)(to + i * stride) = narrow[i];
}

#endif
