/* kernels/pooling/avg_pool_divisors.tmpl.h -- sums of windows in one dtype, and what they are divided by.
 *
 * Included by its templates, which take TOTAL and ADD back at their end. ctx: shmt__pool_args (kernels/pooling/pool.h).
 */
#include "kernels/loops.h"
#include "kernels/pooling/pool.h"

/* Sums, which wrap for integers, and what they are divided by. */
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

/* What an average divides by: the window cut at the padded plane's edge, or the elements inside. A window may be of more
 * elements than can be counted; what a double counts exactly is enough. */
static inline int64_t SHMT_LOOP(pool_divisor)(const shmt__pool_args* s, int64_t od, int64_t oh, int64_t ow,
                                              int64_t inside) {
  const int64_t o[3] = {od, oh, ow};
  double count = 1;

  if (s->divisor) return s->divisor;
  if (!s->count_padding || (double)inside == (double)s->kernel[0] * (double)s->kernel[1] * (double)s->kernel[2]) return inside;
  for (int d = 0; d < 3; d++) {
    const int64_t start = o[d] * s->stride[d] - s->padding[d];
    const int64_t stop = start + s->kernel[d], edge = s->in[d] + s->padding[d];
    count *= (double)((stop < edge ? stop : edge) - start);
  }
  return count < 0x1p62 ? (int64_t)count : INT64_MAX;
}

#if SHMT_IS_FLOATING && !SHMT_IS_HALF
/* The window of output ow, and among how many its elements are shared out; false: it has none. */
static inline bool SHMT_LOOP(pool_row_divisor)(const shmt__pool_row_args* r, int64_t ow, int64_t* window, int64_t* divisor) {
  shmt__pool_row_window(r, ow, window);
  if (window[1] <= window[0] || window[3] <= window[2] || window[5] <= window[4]) return false;
  const int64_t inside = (window[1] - window[0]) * (window[3] - window[2]) * (window[5] - window[4]);
  *divisor = r->is_adaptive ? inside : SHMT_LOOP(pool_divisor)(r->shape, r->od, r->oh, ow, inside);
  return true;
}
#endif
