/* kernels/fft_steps.tmpl.h -- butterflies over lanes, and the steps made of them. Included by fft.tmpl.h.
 *
 * A step of radix p takes s transforms of m * p elements from one array to the other, leaving s * p transforms of m
 * already in their final order (Stockham): nothing is permuted at the end. Source: Swarztrauber, "FFT algorithms for
 * vector computers", 1984. The butterflies of odd radices add and subtract the inputs r and p - r first, whose roots
 * are conjugates.
 */
INLINE FN(pair) FN(add)(FN(pair) a, FN(pair) b) { return (FN(pair)){a.re + b.re, a.im + b.im}; }
INLINE FN(pair) FN(sub)(FN(pair) a, FN(pair) b) { return (FN(pair)){a.re - b.re, a.im - b.im}; }
INLINE FN(pair) FN(scaled)(FN(pair) a, R c) { return (FN(pair)){a.re * c, a.im * c}; }
/* a + c b */
INLINE FN(pair) FN(add_scaled)(FN(pair) a, FN(pair) b, R c) { return (FN(pair)){a.re + c * b.re, a.im + c * b.im}; }
/* a - i b and a + i b */
INLINE FN(pair) FN(sub_i)(FN(pair) a, FN(pair) b) { return (FN(pair)){a.re + b.im, a.im - b.re}; }
INLINE FN(pair) FN(add_i)(FN(pair) a, FN(pair) b) { return (FN(pair)){a.re - b.im, a.im + b.re}; }
INLINE FN(pair) FN(turned)(FN(pair) a) { return (FN(pair)){a.im, -a.re}; }
INLINE FN(pair) FN(times)(FN(pair) a, R re, R im) {
  return (FN(pair)){a.re * re - a.im * im, a.re * im + a.im * re};
}

#define NUMBER   FN(pair)
#define OF(name) FN(name)
#include "kernels/fft_butterflies.tmpl.h"
#undef NUMBER
#undef OF

/* Butterflies number j of all s transforms; turned: their results are multiplied by w. Of a step: apart: from one element
 * of x to the next; not 1 only where s is 1. */
#define RADIX(P)                                                                                                     \
  INLINE void FN(row_##P)(const FN(pair)* x, FN(pair)* y, int64_t ms, int64_t s, const R* w, const bool turned) {    \
    for (int64_t k = 0; k < s; k++) {                                                                                \
      FN(pair) v[P];                                                                                                 \
      _Pragma("GCC unroll 16") for (int r = 0; r < P; r++) v[r] = x[k + r * ms];                                     \
      FN(dft_##P)(v);                                                                                                \
      y[k] = v[0];                                                                                                   \
      _Pragma("GCC unroll 16") for (int r = 1; r < P; r++)                                                           \
          y[k + r * s] = turned ? FN(times)(v[r], w[2 * r - 2], w[2 * r - 1]) : v[r];                                \
    }                                                                                                                \
  }                                                                                                                  \
  static void FN(step_##P)(const shmt__fft_step* p, const FN(pair)* x, FN(pair)* y, int64_t apart) {                 \
    const int64_t m = p->m, s = p->s, ms = m * s * apart;                                                            \
    const R* w = p->turns;                                                                                           \
    FN(row_##P)(x, y, ms, s, w, false);                                                                              \
    for (int64_t j = 1; j < m; j++) FN(row_##P)(x + s * j * apart, y + s * P * j, ms, s, w + 2 * (P - 1) * j, true); \
  }
RADIX(2)
RADIX(3)
RADIX(4)
RADIX(5)
RADIX(7)
RADIX(8)
RADIX(9)
RADIX(16)
#undef RADIX

/* Results t to t + n - 1 and their partners of a butterfly of an odd radix: a and b, sums and differences of partners,
 * and the first input are in work. */
INLINE void FN(any_results)(const shmt__fft_step* p, const FN(pair)* work, FN(pair)* y, int64_t t, const int n) {
  const int64_t radix = p->radix, s = p->s, half = radix / 2;
  const FN(pair) *a = work, *b = work + half;
  const R* roots = p->roots;
  FN(pair) m[ANY], d[ANY];
  int64_t at[ANY];

#pragma GCC unroll 4
  for (int i = 0; i < n; i++) {
    m[i] = a[0];
    d[i] = (FN(pair)){{0}, {0}};
    at[i] = 0;
  }
  for (int64_t r = 1; r <= half; r++)
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
      at[i] += t + i;
      at[i] -= at[i] >= radix ? radix : 0;
      m[i] = FN(add_scaled)(m[i], a[r], roots[2 * at[i]]);
      d[i] = FN(add_scaled)(d[i], b[r], roots[2 * at[i] + 1]);
    }
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) {
    y[(t + i) * s] = FN(add_i)(m[i], d[i]);
    y[(radix - t - i) * s] = FN(sub_i)(m[i], d[i]);
  }
}

/* Any odd radix; work: radix elements. */
static void FN(step_any)(const shmt__fft_step* p, const FN(pair)* x, FN(pair)* y, int64_t apart, FN(pair)* work) {
  const int64_t radix = p->radix, m = p->m, s = p->s, ms = m * s * apart, half = radix / 2;
  FN(pair) *a = work, *b = work + half;

  for (int64_t j = 0; j < m; j++)
    for (int64_t k = 0; k < s; k++) {
      const FN(pair)* from = x + k + s * j * apart;
      FN(pair)* to = y + k + s * radix * j;
      const R* w = (const R*)p->turns + 2 * (radix - 1) * j;
      int64_t t = 1;
      FN(pair) sum = a[0] = from[0];
      for (int64_t r = 1; r <= half; r++) {
        const FN(pair) u = from[r * ms], v = from[(radix - r) * ms];
        a[r] = FN(add)(u, v);
        sum = FN(add)(sum, a[r]);
      }
      for (int64_t r = 1; r <= half; r++) b[r] = FN(sub)(from[r * ms], from[(radix - r) * ms]);
      to[0] = sum;
      for (; t + ANY <= half + 1; t += ANY) FN(any_results)(p, work, to, t, ANY);
      for (; t <= half; t++) FN(any_results)(p, work, to, t, 1);
      for (t = 1; j > 0 && t < radix; t++) to[t * s] = FN(times)(to[t * s], w[2 * t - 2], w[2 * t - 1]);
    }
}

/* A step from x to y. apart: as above. */
static void FN(take_step)(const shmt__fft_step* step, const FN(pair)* x, FN(pair)* y, int64_t apart, FN(pair)* work) {
  switch (step->radix) {
    case 2: FN(step_2)(step, x, y, apart); break;
    case 3: FN(step_3)(step, x, y, apart); break;
    case 4: FN(step_4)(step, x, y, apart); break;
    case 5: FN(step_5)(step, x, y, apart); break;
    case 7: FN(step_7)(step, x, y, apart); break;
    case 8: FN(step_8)(step, x, y, apart); break;
    case 9: FN(step_9)(step, x, y, apart); break;
    case 16: FN(step_16)(step, x, y, apart); break;
    default: FN(step_any)(step, x, y, apart, work);
  }
}

/* Transform what is in x, with the help of y and of work, from step `done` on; where the result is: x or y. */
static FN(pair)* FN(transform_from)(const shmt__fft_steps* p, int done, FN(pair)* x, FN(pair)* y, FN(pair)* work) {
  for (int i = done; i < p->n_steps; i++) {
    FN(pair)* const other = x;
    FN(take_step)(&p->step[i], x, y, 1, work);
    x = y;
    y = other;
  }
  return x;
}

static FN(pair)* FN(transform)(const shmt__fft_steps* p, FN(pair)* x, FN(pair)* y, FN(pair)* work) {
  return FN(transform_from)(p, 0, x, y, work);
}
