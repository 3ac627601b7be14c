/* kernels/normalization/column_blocks.tmpl.h -- shared by the column loops (column_moments.tmpl.h,
 * column_affine.tmpl.h).
 *
 * A column loop gets n columns; strides are bytes from row to row; ctx is the number of rows, an int64_t. Parameters
 * and sums are n doubles. float16 is converted a block at a time by the processor's instructions.
 */
#include "kernels/simd/half_runs.h"
#include "kernels/template.h"

enum { FN(column_block) = 64, FN(column_rows) = 32 };

#if SHMT_IS_FLOAT16_LOOP
/* Runs `full`, the float32 loop, over widened blocks. data: an output or sums, n_matrices matrices (the second may be
 * NULL), n_params arrays of parameters. */
static void FN(columns_by_blocks)(shmt__loop full, bool is_sum, int n_matrices, int n_params, char* const* data,
                                  const int64_t* strides, int64_t n, int64_t rows) {
  C block[2][FN(column_rows) * FN(column_block)];
  char* at[7];

  for (int64_t j = 0, width; j < n; j += width) {
    width = n - j < FN(column_block) ? n - j : FN(column_block);
    const int64_t pitch = width * (int64_t)sizeof(C), packed[] = {pitch, pitch, pitch};
    for (int k = n_matrices + 1; k <= n_matrices + n_params; k++)
      at[k] = data[k] ? data[k] + j * (int64_t)sizeof(double) : NULL;
    for (int64_t r0 = 0, many; r0 < rows; r0 += many) {
      many = rows - r0 < FN(column_rows) ? rows - r0 : FN(column_rows);
      at[0] = is_sum ? data[0] + j * (int64_t)sizeof(double) : (char*)block[0];
      for (int k = 0; k < n_matrices; k++) {
        at[k + 1] = data[k + 1] ? (char*)block[k] : NULL;
        for (int64_t r = 0; at[k + 1] && r < many; r++)
          SHMT_WIDEN_RUN(block[k] + r * width, (const T*)(const void*)(data[k + 1] + (r0 + r) * strides[k + 1]) + j,
                         width);
      }
      full(at, packed, width, &many);
      for (int64_t r = 0; !is_sum && r < many; r++)
        SHMT_NARROW_RUN((T*)(void*)(data[0] + (r0 + r) * strides[0]) + j, block[0] + r * width, width);
    }
  }
}
#define BY_BLOCKS(NAME, IS_SUM, N_MATRICES, N_PARAMS)                                               \
  void SHMT_FULL_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx); \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {     \
    FN(columns_by_blocks)(SHMT_FULL_LOOP(NAME), IS_SUM, N_MATRICES, N_PARAMS, data, strides, n,     \
                          *(const int64_t*)ctx);                                                    \
  }
#endif
