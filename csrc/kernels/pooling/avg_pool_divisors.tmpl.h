/* kernels/pooling/avg_pool_divisors.tmpl.h -- the type of the sums of average pooling, and their divisors. One dtype.
 *
 * Included by other templates, which #undef TOTAL and ADD at their end. ctx: shmt__pool_args (kernels/pooling/pool.h).
 */
#include "kernels/template.h"
#include "kernels/pooling/pool.h"

/* The type of sums, which wrap for integers, and division of a sum. */
#if SHMT_IS_INTEGRAL
#define TOTAL     uint64_t
#define ADD(a, b) ((C)((TOTAL)(a) + (TOTAL)(b)))
static inline ACC SHMT_LOOP(pool_divide)(TOTAL sum, int64_t n) {
  return n == -1 ? (ACC)(0 - sum) : (ACC)sum / (ACC)n;
}
#else
#define TOTAL     ACC
#define ADD(a, b) ((C)((a) + (b)))
static inline ACC SHMT_LOOP(pool_divide)(TOTAL sum, int64_t n) { return sum / (ACC)n; }
#endif

/* The divisor of an average: the elements of the window inside the padded plane, or those inside the plane. A window
 * may have more elements than int64 counts, so they are counted in double. */
static inline int64_t SHMT_LOOP(pool_divisor)(const shmt__pool_args* s, int64_t od, int64_t oh, int64_t ow,
                                              int64_t inside) {
  const int64_t o[3] = {od, oh, ow};
  double count = 1;

  if (s->divisor) return s->divisor;
  if (!s->count_padding || (double)inside == (double)s->kernel[0] * (double)s->kernel[1] * (double)s->kernel[2])
    return inside;
  for (int d = 0; d < 3; d++) {
    const int64_t start = o[d] * s->stride[d] - s->padding[d];
    const int64_t stop = start + s->kernel[d], edge = s->in[d] + s->padding[d];
    count *= (double)((stop < edge ? stop : edge) - start);
  }
  return count < 0x1p62 ? (int64_t)count : INT64_MAX;
}

#if SHMT_IS_FLOATING && !SHMT_IS_HALF
/* The window of output ow of a row, and its divisor; false: the window has no element. */
static inline bool SHMT_LOOP(pool_row_divisor)(const shmt__pool_row_args* r, int64_t ow, int64_t* window,
                                               int64_t* divisor) {
  shmt__pool_row_window(r, ow, window);
  if (window[1] <= window[0] || window[3] <= window[2] || window[5] <= window[4]) return false;
  const int64_t inside = (window[1] - window[0]) * (window[3] - window[2]) * (window[5] - window[4]);
  *divisor = r->is_adaptive ? inside : SHMT_LOOP(pool_divisor)(r->shape, r->od, r->oh, ow, inside);
  return true;
}
#endif
