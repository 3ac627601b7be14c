/* kernels/reduce/scan.tmpl.h -- scans along one row: cumsum, cumprod, logcumsumexp, cummax, cummin. One dtype.
 *
 * data[0][i] = f(data[0][i - 1], data[1][i]). A shmt__loop: outputs first, strides along the row, n its length. */
#include "kernels/simd/complex.h"
#include "kernels/simd/half_runs.h"
#include "kernels/loops.h"

#define SCAN(NAME, STATE, BEGIN, STEP)                                                          \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    STATE s = BEGIN;                                                                            \
    (void)ctx;                                                                                  \
    if (strides[0] == (int64_t)sizeof(T) && strides[1] == (int64_t)sizeof(T)) {                 \
      const T* from = (const T*)(const void*)data[1];                                           \
      T* to = (T*)(void*)data[0];                                                               \
      for (int64_t i = 0; i < n; i++) {                                                         \
        const C x = SHMT_LOAD(from[i]);                                                         \
        s = STEP;                                                                               \
        to[i] = SHMT_STORE((C)s);                                                               \
      }                                                                                         \
      return;                                                                                   \
    }                                                                                           \
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
/* The imaginary part accumulates; it is not wrapped into (-pi, pi]. */
static inline double _Complex FN(log_sum)(double _Complex s, double _Complex x) {
  const double _Complex high = creal(s) > creal(x) ? s : x, low = creal(s) > creal(x) ? x : s;
  if (creal(low) == -INFINITY || fabs(creal(high)) == INFINITY) return high;
  return high + clog(1 + cexp(low - high));
}
SCAN(logcumsumexp, double _Complex, -INFINITY,
     i == 0 ? (double _Complex)x : FN(log_sum)(s, (double _Complex)x))
#elif SHMT_IS_FLOATING
/* Loads and stores of n float16 elements with any stride, converted many at a time. */
static inline void FN(load_float16_run)(float* to, const char* from, int64_t stride, int64_t n) {
  shmt_float16 some[SHMT_LOOP_BLOCK];
  if (stride == (int64_t)sizeof *some) {
    shmt__widen_float16(to, SHMT_AS_FLOAT16(from), n);
    return;
  }
  for (int64_t i = 0; i < n; i++) some[i] = SHMT_AT(const shmt_float16, from, stride, i);
  shmt__widen_float16(to, some, n);
}
static inline void FN(store_float16_run)(char* to, const float* from, int64_t stride, int64_t n) {
  shmt_float16 some[SHMT_LOOP_BLOCK];
  if (stride == (int64_t)sizeof *some) {
    shmt__narrow_float16(SHMT_AS_FLOAT16(to), from, n);
    return;
  }
  shmt__narrow_float16(some, from, n);
  for (int64_t i = 0; i < n; i++) SHMT_AT(shmt_float16, to, stride, i) = some[i];
}
/* Adds four elements at a time, so that only one addition in four waits for the running sum. float64 is summed one by
 * one: there, the sum of four elements might overflow where the running sum does not. */
void SHMT_LOOP(cumsum)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  double s = 0;
  int64_t i = 0;
  (void)ctx;
  for (; SHMT_HAS_F16C && SHMT_IS_FLOAT16 && i < n; i += SHMT_LOOP_BLOCK) {
    float x[SHMT_LOOP_BLOCK];
    const int64_t width = n - i < SHMT_LOOP_BLOCK ? n - i : SHMT_LOOP_BLOCK;
    FN(load_float16_run)(x, data[1] + i * strides[1], strides[1], width);
    int64_t k = 0;
    for (; k + 4 <= width; k += 4) {
      const double two = (double)x[k] + (double)x[k + 1], four = two + ((double)x[k + 2] + (double)x[k + 3]);
      const double three = two + (double)x[k + 2];
      x[k] = (float)(s + (double)x[k]);
      x[k + 1] = (float)(s + two);
      x[k + 2] = (float)(s + three);
      s += four;
      x[k + 3] = (float)s;
    }
    for (; k < width; k++) {
      s += (double)x[k];
      x[k] = (float)s;
    }
    FN(store_float16_run)(data[0] + i * strides[0], x, strides[0], width);
  }
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
void SHMT_LOOP(cumprod)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  double s = 1;
  int64_t i = 0;
  (void)ctx;
  for (; SHMT_HAS_F16C && SHMT_IS_FLOAT16 && i < n; i += SHMT_LOOP_BLOCK) {
    float x[SHMT_LOOP_BLOCK];
    const int64_t width = n - i < SHMT_LOOP_BLOCK ? n - i : SHMT_LOOP_BLOCK;
    FN(load_float16_run)(x, data[1] + i * strides[1], strides[1], width);
    for (int64_t k = 0; k < width; k++) {
      s *= (double)x[k];
      x[k] = (float)s;
    }
    FN(store_float16_run)(data[0] + i * strides[0], x, strides[0], width);
  }
  for (; i < n; i++) {
    s *= (double)SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i));
    SHMT_AT(T, data[0], strides[0], i) = SHMT_STORE((C)s);
  }
}
static inline double FN(log_sum)(double s, double x) {
  const double high = s > x ? s : x, low = s > x ? x : s;
  if (s != s || x != x) return s + x;
  return high == low && fabs(high) == INFINITY ? high : high + log1p(exp(low - high));
}
SCAN(logcumsumexp, double, -INFINITY, FN(log_sum)(s, (double)x))
#endif

#if !SHMT_IS_COMPLEX && !SHMT_IS_BAREBONES_UNSIGNED
/* data: values, indices, input. Of equal elements the last counts; a NaN stays until the next NaN. */
#define CUMULATIVE_EXTREMUM(NAME, BETTER)                                                       \
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
CUMULATIVE_EXTREMUM(cummax, >=)
CUMULATIVE_EXTREMUM(cummin, <=)
#undef CUMULATIVE_EXTREMUM
#endif
#undef SCAN
