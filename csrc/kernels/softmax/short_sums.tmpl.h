/* kernels/softmax/short_sums.tmpl.h -- logsumexp of many short rows at once, one lane for each row. One dtype.
 *
 * A vector along a short row would be mostly empty. 16-bit floats are computed in float and rounded once at the end.
 */
#include "kernels/simd/exp_log.h"
#include "kernels/simd/half_runs.h"
#include "kernels/softmax/row_sums.h"
#include "kernels/loop_args.h"

SHMT_ROW_SUMS

enum { FN(block_cells) = 512 };

/* data: out (one element for each row), x. n rows of ctx->length elements, at most a few more than a vector has. */
void SHMT_LOOP(short_logsumexp)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const shmt__softmax_args*)ctx)->length;
  const int64_t most = FN(block_cells) / length;
  C cells[FN(block_cells)], tops[FN(block_cells)], shifts[FN(block_cells)], sums[FN(block_cells)];

#define EACH_CELL for (int64_t i = 0, c = 0; i < length; i++) for (int64_t r = 0; r < rows; r++, c++)
  for (int64_t first = 0, rows; first < n; first += rows) {
    const char* const x = data[1] + first * strides[1];
    rows = n - first < most ? n - first : most;
    for (int64_t r = 0; r < rows; r++) tops[r] = -(C)INFINITY;
    EACH_CELL {
      cells[c] = SHMT_LOAD(SHMT_AT(const T, x + r * strides[1], (int64_t)sizeof(T), i));
      tops[r] = cells[c] > tops[r] ? cells[c] : tops[r];
    }
    for (int64_t r = 0; r < rows; r++) {
      shifts[r] = tops[r] - tops[r] == 0 ? tops[r] : 0;
      sums[r] = 0;
    }
    /* Nothing is above the maximum, unless that is infinite: then the others do not count. */
    EACH_CELL cells[c] = cells[c] - shifts[r] > 0 ? 0 : cells[c] - shifts[r];
    (void)SHMT_FULL_LOOP(row_exp_stored)(cells, cells, 0, rows * length);
    EACH_CELL sums[r] += cells[c];
    for (int64_t r = 0; r < rows; r++) sums[r] = tops[r] + SHMT_LOG_IN_LANES(sums[r]);
    for (int64_t r = 0; r < rows; r++) SHMT_AT(T, data[0], strides[0], first + r) = SHMT_STORE(sums[r]);
  }
#undef EACH_CELL
}
