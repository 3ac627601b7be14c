/* kernels/reduce/scan.tmpl.h -- scans along one row: cumsum, cumprod, logcumsumexp, cummax, cummin. One dtype.
 *
 * data[0][i] = f(data[0][i - 1], data[1][i]). A shmt__loop: outputs first, strides along the row, n its length. */
#include "kernels/simd/complex.h"
#include "kernels/simd/half_runs.h"
#include "kernels/template.h"

/* STEP gives the next running result of s and x. */
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
/* The running sums of four elements, from s on: only one addition waits for s. Returns the last. */
static inline double FN(sum_four)(double s, double x, double y, double z, double w, double sums[4]) {
  const double two = x + y, three = two + z, four = two + (z + w);
  sums[0] = s + x;
  sums[1] = s + two;
  sums[2] = s + three;
  return sums[3] = s + four;
}
/* n running sums in place; returns the last. */
static inline double FN(sum_block)(double s, float* x, int64_t n) {
  int64_t k = 0;
  for (; k + 4 <= n; k += 4) {
    double sums[4];
    s = FN(sum_four)(s, (double)x[k], (double)x[k + 1], (double)x[k + 2], (double)x[k + 3], sums);
    for (int l = 0; l < 4; l++) x[k + l] = (float)sums[l];
  }
  for (; k < n; k++) {
    s += (double)x[k];
    x[k] = (float)s;
  }
  return s;
}
/* Adds four elements at a time. float64 is summed one by one: there, the sum of four elements might overflow where the
 * running sum does not. */
void SHMT_LOOP(cumsum)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  double s = 0;
  int64_t i = 0;
  (void)ctx;
  for (; SHMT_HAS_F16C && SHMT_IS_FLOAT16 && i < n; i += SHMT_LOOP_BLOCK) {
    float x[SHMT_LOOP_BLOCK];
    const int64_t width = n - i < SHMT_LOOP_BLOCK ? n - i : SHMT_LOOP_BLOCK;
    FN(load_float16_run)(x, data[1] + i * strides[1], strides[1], width);
    s = FN(sum_block)(s, x, width);
    FN(store_float16_run)(data[0] + i * strides[0], x, strides[0], width);
  }
  for (; sizeof(T) < sizeof s && i + 4 <= n; i += 4) {
    double sums[4];
    s = FN(sum_four)(s, (double)SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i)),
                     (double)SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i + 1)),
                     (double)SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i + 2)),
                     (double)SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i + 3)), sums);
    for (int k = 0; k < 4; k++) SHMT_AT(T, data[0], strides[0], i + k) = SHMT_STORE((C)sums[k]);
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
