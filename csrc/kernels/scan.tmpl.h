/* kernels/scan.tmpl.h -- running results along one line: data[0][i] = f(data[0][i - 1],
 * data[1][i]).
 *
 * shmt__loop: outputs first, strides along the line, n its length. */
#include "kernels/complex.h"
#include "kernels/loops.h"

#define SCAN(NAME, STATE, BEGIN, STEP)                                                          \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    STATE s = BEGIN;                                                                            \
    (void)ctx;                                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                           \
      const C x = SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i));                          \
      s = STEP;                                                                                 \
      SHMT_AT(T, data[0], strides[0], i) = SHMT_STORE((C)s);                                    \
    }                                                                                           \
  }

#if SHMT_IS_INTEGRAL
SCAN(cumsum, uint64_t, 0, s + (uint64_t)(int64_t)x)
SCAN(cumprod, uint64_t, 1, s*(uint64_t)(int64_t)x)
#elif SHMT_IS_COMPLEX
SCAN(cumsum, double _Complex, 0, s + x)
SCAN(cumprod, double _Complex, 1, SHMT_CMUL(s, (double _Complex)x))
/* The angle is carried along, not wrapped into (-pi, pi]. */
static inline double _Complex FN(log_sum)(double _Complex s, double _Complex x) {
  const double _Complex high = creal(s) > creal(x) ? s : x, low = creal(s) > creal(x) ? x : s;
  if (creal(low) == -INFINITY || fabs(creal(high)) == INFINITY) return high;
  return high + clog(1 + cexp(low - high));
}
SCAN(logcumsumexp, double _Complex, -INFINITY,
     i == 0 ? (double _Complex)x : FN(log_sum)(s, (double _Complex)x))
#elif SHMT_IS_FLOATING
/* Four elements at a time, so that only one addition of them waits for the sum before. Double as it is: there
 * the sum of some might overflow where the running one does not. */
void SHMT_LOOP(cumsum)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  double s = 0;
  int64_t i = 0;
  (void)ctx;
  for (; sizeof(T) < sizeof s && i + 4 <= n; i += 4) {
    const double x = (double)SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i)),
                 y = (double)SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i + 1)),
                 z = (double)SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i + 2)),
                 w = (double)SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i + 3));
    const double two = x + y, three = two + z, four = two + (z + w);
    SHMT_AT(T, data[0], strides[0], i) = SHMT_STORE((C)(s + x));
    SHMT_AT(T, data[0], strides[0], i + 1) = SHMT_STORE((C)(s + two));
    SHMT_AT(T, data[0], strides[0], i + 2) = SHMT_STORE((C)(s + three));
    s += four;
    SHMT_AT(T, data[0], strides[0], i + 3) = SHMT_STORE((C)s);
  }
  for (; i < n; i++) {
    s += (double)SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i));
    SHMT_AT(T, data[0], strides[0], i) = SHMT_STORE((C)s);
  }
}
SCAN(cumprod, double, 1, s*(double)x)
static inline double FN(log_sum)(double s, double x) {
  const double high = s > x ? s : x, low = s > x ? x : s;
  if (s != s || x != x) return s + x;
  return high == low && fabs(high) == INFINITY ? high : high + log1p(exp(low - high));
}
SCAN(logcumsumexp, double, -INFINITY, FN(log_sum)(s, (double)x))
#endif

#if !SHMT_IS_COMPLEX && !SHMT_IS_WIDE_UNSIGNED
/* data: values, indices, input. A later equal one takes over; a NaN stays until the next NaN. */
#define RUNNING_BEST(NAME, BETTER)                                                              \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    C best = 0;                                                                                 \
    int64_t at = 0;                                                                             \
    (void)ctx;                                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                           \
      const C x = SHMT_LOAD(SHMT_AT(const T, data[2], strides[2], i));                          \
      if (i == 0 || x != x || (best == best && x BETTER best)) {                                \
        best = x;                                                                               \
        at = i;                                                                                 \
      }                                                                                         \
      SHMT_AT(T, data[0], strides[0], i) = SHMT_STORE(best);                                    \
      SHMT_AT(int64_t, data[1], strides[1], i) = at;                                            \
    }                                                                                           \
  }
RUNNING_BEST(cummax, >=)
RUNNING_BEST(cummin, <=)
#undef RUNNING_BEST
#endif
#undef SCAN
