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
INLINE FN(pair) FN(times)(FN(pair) a, R re, R im) {
  return (FN(pair)){a.re * re - a.im * im, a.re * im + a.im * re};
}

INLINE void FN(dft_2)(FN(pair)* v) {
  const FN(pair) a = v[0], b = v[1];
  v[0] = FN(add)(a, b);
  v[1] = FN(sub)(a, b);
}

INLINE void FN(dft_3)(FN(pair)* v) {
  const R sine = (R)0.86602540378443864676;
  const FN(pair) a = v[0], sum = FN(add)(v[1], v[2]), difference = FN(scaled)(FN(sub)(v[1], v[2]), sine);
  const FN(pair) middle = FN(add_scaled)(a, sum, (R)-0.5);
  v[0] = FN(add)(a, sum);
  v[1] = FN(sub_i)(middle, difference);
  v[2] = FN(add_i)(middle, difference);
}

INLINE void FN(dft_4)(FN(pair)* v) {
  const FN(pair) a = FN(add)(v[0], v[2]), b = FN(sub)(v[0], v[2]), c = FN(add)(v[1], v[3]), d = FN(sub)(v[1], v[3]);
  v[0] = FN(add)(a, c);
  v[1] = FN(sub_i)(b, d);
  v[2] = FN(sub)(a, c);
  v[3] = FN(add_i)(b, d);
}

INLINE void FN(dft_5)(FN(pair)* v) {
  const R c1 = (R)0.30901699437494742410, c2 = (R)-0.80901699437494742410;
  const R s1 = (R)0.95105651629515357212, s2 = (R)0.58778525229247312917;
  const FN(pair) x = v[0], a1 = FN(add)(v[1], v[4]), a2 = FN(add)(v[2], v[3]);
  const FN(pair) b1 = FN(sub)(v[1], v[4]), b2 = FN(sub)(v[2], v[3]);
  const FN(pair) m1 = FN(add_scaled)(FN(add_scaled)(x, a1, c1), a2, c2);
  const FN(pair) m2 = FN(add_scaled)(FN(add_scaled)(x, a1, c2), a2, c1);
  const FN(pair) n1 = FN(add_scaled)(FN(scaled)(b1, s1), b2, s2), n2 = FN(add_scaled)(FN(scaled)(b1, s2), b2, -s1);
  v[0] = FN(add)(x, FN(add)(a1, a2));
  v[1] = FN(sub_i)(m1, n1);
  v[2] = FN(sub_i)(m2, n2);
  v[3] = FN(add_i)(m2, n2);
  v[4] = FN(add_i)(m1, n1);
}

INLINE FN(pair) FN(sum_of_3)(FN(pair) a, FN(pair) b, FN(pair) c, R x, R y, R z) {
  return FN(add_scaled)(FN(add_scaled)(FN(scaled)(a, x), b, y), c, z);
}

INLINE void FN(dft_7)(FN(pair)* v) {
  const R c1 = (R)0.62348980185873353053, c2 = (R)-0.22252093395631440429, c3 = (R)-0.90096886790241912624;
  const R s1 = (R)0.78183148246802980871, s2 = (R)0.97492791218182360702, s3 = (R)0.43388373911755812048;
  const FN(pair) x = v[0], a1 = FN(add)(v[1], v[6]), a2 = FN(add)(v[2], v[5]), a3 = FN(add)(v[3], v[4]);
  const FN(pair) b1 = FN(sub)(v[1], v[6]), b2 = FN(sub)(v[2], v[5]), b3 = FN(sub)(v[3], v[4]);
  const FN(pair) m1 = FN(add)(x, FN(sum_of_3)(a1, a2, a3, c1, c2, c3)), n1 = FN(sum_of_3)(b1, b2, b3, s1, s2, s3);
  const FN(pair) m2 = FN(add)(x, FN(sum_of_3)(a1, a2, a3, c2, c3, c1)), n2 = FN(sum_of_3)(b1, b2, b3, s2, -s3, -s1);
  const FN(pair) m3 = FN(add)(x, FN(sum_of_3)(a1, a2, a3, c3, c1, c2)), n3 = FN(sum_of_3)(b1, b2, b3, s3, -s1, s2);
  v[0] = FN(add)(x, FN(add)(a1, FN(add)(a2, a3)));
  v[1] = FN(sub_i)(m1, n1);
  v[2] = FN(sub_i)(m2, n2);
  v[3] = FN(sub_i)(m3, n3);
  v[4] = FN(add_i)(m3, n3);
  v[5] = FN(add_i)(m2, n2);
  v[6] = FN(add_i)(m1, n1);
}

INLINE void FN(dft_8)(FN(pair)* v) {
  const R half = (R)0.70710678118654752440;
  FN(pair) a[4] = {v[0], v[2], v[4], v[6]}, b[4] = {v[1], v[3], v[5], v[7]};
  FN(dft_4)(a);
  FN(dft_4)(b);
  /* Turned by an eighth and by three eighths, times the root of two. */
  const FN(pair) p = {b[1].re + b[1].im, b[1].im - b[1].re}, q = {b[3].im - b[3].re, -b[3].im - b[3].re};
  v[0] = FN(add)(a[0], b[0]);
  v[4] = FN(sub)(a[0], b[0]);
  v[1] = FN(add_scaled)(a[1], p, half);
  v[5] = FN(add_scaled)(a[1], p, -half);
  v[2] = FN(sub_i)(a[2], b[2]);
  v[6] = FN(add_i)(a[2], b[2]);
  v[3] = FN(add_scaled)(a[3], q, half);
  v[7] = FN(add_scaled)(a[3], q, -half);
}

INLINE void FN(dft_9)(FN(pair)* v) {
  const R c1 = (R)0.76604444311897803520, s1 = (R)-0.64278760968653932632; /* turned by a ninth, two, four */
  const R c2 = (R)0.17364817766693034885, s2 = (R)-0.98480775301220805937;
  const R c4 = (R)-0.93969262078590838405, s4 = (R)-0.34202014332566873304;
  FN(pair) a[3] = {v[0], v[3], v[6]}, b[3] = {v[1], v[4], v[7]}, c[3] = {v[2], v[5], v[8]};
  FN(dft_3)(a);
  FN(dft_3)(b);
  FN(dft_3)(c);
  FN(pair) x[3] = {a[0], b[0], c[0]};
  FN(pair) y[3] = {a[1], FN(times)(b[1], c1, s1), FN(times)(c[1], c2, s2)};
  FN(pair) z[3] = {a[2], FN(times)(b[2], c2, s2), FN(times)(c[2], c4, s4)};
  FN(dft_3)(x);
  FN(dft_3)(y);
  FN(dft_3)(z);
  v[0] = x[0], v[3] = x[1], v[6] = x[2];
  v[1] = y[0], v[4] = y[1], v[7] = y[2];
  v[2] = z[0], v[5] = z[1], v[8] = z[2];
}

INLINE void FN(dft_16)(FN(pair)* v) {
  const R c = (R)0.92387953251128675613, s = (R)0.38268343236508977173, half = (R)0.70710678118654752440;
  FN(pair) a[4] = {v[0], v[4], v[8], v[12]}, b[4] = {v[1], v[5], v[9], v[13]};
  FN(pair) d[4] = {v[2], v[6], v[10], v[14]}, e[4] = {v[3], v[7], v[11], v[15]};
  FN(dft_4)(a);
  FN(dft_4)(b);
  FN(dft_4)(d);
  FN(dft_4)(e);
  /* Turned by r t sixteenths. */
  FN(pair) p[4] = {a[0], b[0], d[0], e[0]};
  FN(pair) q[4] = {a[1], FN(times)(b[1], c, -s), FN(times)(d[1], half, -half), FN(times)(e[1], s, -c)};
  FN(pair) r[4] = {a[2], FN(times)(b[2], half, -half), {d[2].im, -d[2].re}, FN(times)(e[2], -half, -half)};
  FN(pair) t[4] = {a[3], FN(times)(b[3], s, -c), FN(times)(d[3], -half, -half), FN(times)(e[3], -c, s)};
  FN(dft_4)(p);
  FN(dft_4)(q);
  FN(dft_4)(r);
  FN(dft_4)(t);
  v[0] = p[0], v[4] = p[1], v[8] = p[2], v[12] = p[3];
  v[1] = q[0], v[5] = q[1], v[9] = q[2], v[13] = q[3];
  v[2] = r[0], v[6] = r[1], v[10] = r[2], v[14] = r[3];
  v[3] = t[0], v[7] = t[1], v[11] = t[2], v[15] = t[3];
}

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
