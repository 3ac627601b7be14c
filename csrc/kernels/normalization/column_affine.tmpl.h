/* kernels/normalization/column_affine.tmpl.h -- shifts and scales the columns of a matrix, and the backward. One
 * dtype. */
#include "kernels/normalization/column_blocks.tmpl.h"

#if SHMT_IS_FLOAT16_LOOP
BY_BLOCKS(columns_affine, false, 1, 2)
BY_BLOCKS(columns_backward, false, 2, 4)
#undef BY_BLOCKS
#else
#define COLUMN_PARAMS(NAME, p) \
  C NAME[FN(column_block)];    \
  for (int64_t k = 0; k < width; k++) NAME[k] = (C)((const double*)(const void*)(p))[j + k]
#define EACH_COLUMN_BLOCK                                                                                    \
  for (int64_t j = 0, width; j < n && (width = n - j < FN(column_block) ? n - j : FN(column_block), 1); j += width)

/* data: out, x, scale, shift. out = x * scale + shift. */
void SHMT_LOOP(columns_affine)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t rows = *(const int64_t*)ctx;

  EACH_COLUMN_BLOCK {
    COLUMN_PARAMS(scale, data[2]);
    COLUMN_PARAMS(shift, data[3]);
    for (int64_t r = 0; r < rows; r++) {
      T* out = (T*)(void*)(data[0] + r * strides[0]) + j;
      const T* x = (const T*)(const void*)(data[1] + r * strides[1]) + j;
      SHMT_IVDEP for (int64_t k = 0; k < width; k++) out[k] = SHMT_STORE((C)(SHMT_LOAD(x[k]) * scale[k] + shift[k]));
    }
  }
}

/* data: out, x, grad, scale, shift, slope, mean. out = (grad + shift + (x - mean) * slope) * scale. */
void SHMT_LOOP(columns_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t rows = *(const int64_t*)ctx;

  EACH_COLUMN_BLOCK {
    COLUMN_PARAMS(scale, data[3]);
    COLUMN_PARAMS(shift, data[4]);
    COLUMN_PARAMS(slope, data[5]);
    COLUMN_PARAMS(mean, data[6]);
    for (int64_t r = 0; r < rows; r++) {
      T* out = (T*)(void*)(data[0] + r * strides[0]) + j;
      const T* x = (const T*)(const void*)(data[1] + r * strides[1]) + j;
      const T* g = (const T*)(const void*)(data[2] + r * strides[2]) + j;
      SHMT_IVDEP for (int64_t k = 0; k < width; k++)
        out[k] = SHMT_STORE((C)((SHMT_LOAD(g[k]) + shift[k] + (SHMT_LOAD(x[k]) - mean[k]) * slope[k]) * scale[k]));
    }
  }
}
#undef EACH_COLUMN_BLOCK
#undef COLUMN_PARAMS
#endif
