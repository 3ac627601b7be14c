/* kernels/casts.h -- casts to float16 and complex32, by way of what the processor narrows.
 *
 * Not inline: one function serves every dtype of a file, and a call for each block costs nothing beside it.
 */
#ifndef SHMT_KERNELS_CASTS_H
#define SHMT_KERNELS_CASTS_H

#include "iter/copy.h"
#include "kernels/halves.h"

#define SHMT_CAST_OUTLINE static __attribute__((noinline))

/* n elements to float16 by way of float, which `widen` makes of them; if they are float, dense ones are taken as they stand. */
SHMT_CAST_OUTLINE void shmt__cast_float16(shmt__cast_loop_fn widen, bool is_float, char* dst, int64_t dst_stride,
                                          const char* src, int64_t src_stride, int64_t n) {
  enum { WIDTH = 512 };
  float block[WIDTH];
  const bool is_plain = is_float && src_stride == (int64_t)sizeof *block;
  for (int64_t i = 0, width; i < n; i += width) {
    const float* x = is_plain ? (const float*)(const void*)src + i : block;
    char* const to = dst + i * dst_stride;
    width = n - i < WIDTH ? n - i : WIDTH;
    if (!is_plain) widen((char*)block, sizeof *block, src + i * src_stride, src_stride, width);
    if (dst_stride == (int64_t)sizeof(shmt_float16))
      shmt__narrow_float16((shmt_float16*)(void*)to, x, width);
    else
      for (int64_t k = 0; k < width; k++) *(shmt_float16*)(void*)(to + k * dst_stride) = shmt__float16_from_float(x[k]);
  }
}

/* The same to complex32 by way of complex64. */
SHMT_CAST_OUTLINE void shmt__cast_complex32(shmt__cast_loop_fn widen, char* dst, int64_t dst_stride, const char* src,
                                            int64_t src_stride, int64_t n) {
  enum { WIDTH = 128 };
  float _Complex block[WIDTH];
  shmt_complex32 halves[WIDTH];
  const bool is_dense = dst_stride == (int64_t)sizeof *halves;
  for (int64_t i = 0, width; i < n; i += width) {
    char* const to = dst + i * dst_stride;
    width = n - i < WIDTH ? n - i : WIDTH;
    widen((char*)block, sizeof *block, src + i * src_stride, src_stride, width);
    shmt__narrow_float16((shmt_float16*)(void*)(is_dense ? to : (char*)halves), (const float*)block, 2 * width);
    for (int64_t k = 0; !is_dense && k < width; k++) *(shmt_complex32*)(void*)(to + k * dst_stride) = halves[k];
  }
}

#endif
