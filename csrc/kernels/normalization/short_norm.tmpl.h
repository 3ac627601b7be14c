/* kernels/normalization/short_norm.tmpl.h -- normalises many short contiguous rows at once, a lane for each row. One
 * dtype.
 *
 * A loop over the elements of a short row would cost more to start than to run, so a block of rows is transposed.
 * Moments are in double. 16-bit floats are computed in float and rounded once at the end.
 */
#include "kernels/simd/half_runs.h"
#include "kernels/template.h"
#include "kernels/normalization/short_norm.h"

enum { FN(cells) = SHMT_SHORT_ROW * SHMT_SHORT_ROWS_PER_BLOCK };

/* Loops over all elements of the block: element i of row r is at `at` in the rows and at `c` in the transposed
 * cells. */
#define EACH_CELL                                                                                                       \
  for (int64_t i = 0; i < length; i++) SHMT_IVDEP for (int64_t r = 0, at = i, c = i * SHMT_SHORT_ROWS_PER_BLOCK; r < n; \
                                                       r++, at += length, c++)

/* data: out, x, weight or NULL, bias or NULL; and for each row a double, the mean (0 when uncentred), and another, the
 * inverse standard deviation or 2-norm. n is at most SHMT_SHORT_ROWS_PER_BLOCK; ctx: shmt__short_norm_args. */
void SHMT_LOOP(short_norm)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__short_norm_args* s = ctx;
  const int64_t length = s->length;
  const T* const weight = (const T*)(const void*)data[2];
  const T* const bias = (const T*)(const void*)data[3];
  double* const means = (double*)(void*)data[4];
  double* const scales = (double*)(void*)data[5];
  C cells[FN(cells)], factor[SHMT_SHORT_ROWS_PER_BLOCK];
  const double share = s->to_length ? 1 : 1 / (double)length;
  const double added = s->to_length ? 0 : s->eps, least = s->to_length ? s->eps : 0;
  double squares[SHMT_SHORT_ROWS_PER_BLOCK] = {0};
  (void)strides;
#if SHMT_IS_HALF
  C flat[FN(cells)];
  const C* const x = flat;
  C* const out = flat;
  SHMT_WIDEN_RUN(flat, (const T*)(const void*)data[1], n * length);
#else
  const C* const x = (const C*)(const void*)data[1];
  C* const out = (C*)(void*)data[0];
#endif

  for (int64_t r = 0; r < n; r++) means[r] = 0;
  EACH_CELL cells[c] = x[at];
  if (!s->uncentred) {
    EACH_CELL means[r] += (double)cells[c];
    for (int64_t r = 0; r < n; r++) means[r] /= (double)length;
  }
  EACH_CELL {
    const double d = (double)cells[c] - means[r];
    squares[r] += d * d;
    cells[c] = (C)d;
  }
  for (int64_t r = 0; r < n; r++) {
    const double root = sqrt(squares[r] * share + added);
    scales[r] = 1 / (root < least ? least : root);
    factor[r] = (C)scales[r];
  }
  for (int64_t i = 0; i < length; i++) {
    const C w = weight ? SHMT_LOAD(weight[i]) : 1,
            b = bias ? SHMT_LOAD(bias[i]) : -(C)0; /* adding -0 keeps the sign of zeros */
    const C* const cell = cells + i * SHMT_SHORT_ROWS_PER_BLOCK;
    SHMT_IVDEP for (int64_t r = 0; r < n; r++) out[r * length + i] = cell[r] * factor[r] * w + b;
  }
#if SHMT_IS_HALF
  SHMT_NARROW_RUN((T*)(void*)data[0], flat, n * length);
#endif
}
#undef EACH_CELL
