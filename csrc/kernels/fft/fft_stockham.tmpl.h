/* kernels/fft/fft_stockham.tmpl.h -- the steps of Stockham's algorithm: butterflies over lanes. Included once for each
 * form of NUMBER.
 *
 * A step of radix p takes s transforms of m * p elements from one array to the other, leaving s * p transforms of m
 * already in their final order: nothing is permuted at the end. Source: Swarztrauber, "FFT algorithms for vector
 * computers", 1984. The butterflies of odd radices first add and subtract the inputs r and p - r, whose roots are
 * conjugates. A step is a function of its own: inlined into one body the steps are slower, and slow to compile.
 */
#define ANY (SHMT_ISA_LEVEL == 2 ? 4 : 2) /* results of a butterfly that are summed up at once */

/* row_P does butterfly number j of all s transforms, and with has_twiddles multiplies the results by w. step_P does a
 * step. apart: from one element of x to the next; it is not 1 only where s is 1. */
#define RADIX(P)                                                                                                     \
  INLINE void OF(row_##P)(const NUMBER* x, NUMBER* y, int64_t ms, int64_t s, const R* w, const bool has_twiddles) {  \
    for (int64_t k = 0; k < s; k++) {                                                                                \
      NUMBER v[P];                                                                                                   \
      _Pragma("GCC unroll 16") for (int r = 0; r < P; r++) v[r] = x[k + r * ms];                                     \
      OF(dft_##P)(v);                                                                                                \
      y[k] = v[0];                                                                                                   \
      _Pragma("GCC unroll 16") for (int r = 1; r < P; r++)                                                           \
          y[k + r * s] = has_twiddles ? OF(times)(v[r], w[2 * r - 2], w[2 * r - 1]) : v[r];                          \
    }                                                                                                                \
  }                                                                                                                  \
  static __attribute__((noinline)) void OF(step_##P)(const shmt__fft_step* p, const NUMBER* x, NUMBER* y,            \
                                                     int64_t apart) {                                                \
    const int64_t m = p->m, s = p->s, ms = m * s * apart;                                                            \
    const R* w = p->twiddles;                                                                                        \
    OF(row_##P)(x, y, ms, s, w, false);                                                                              \
    for (int64_t j = 1; j < m; j++) OF(row_##P)(x + s * j * apart, y + s * P * j, ms, s, w + 2 * (P - 1) * j, true); \
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

/* Calculates results t to t + n - 1, and their partners, of a butterfly of an odd radix. work has the sums a and the
 * differences b of partners, and the first input. */
INLINE void OF(any_results)(const shmt__fft_step* p, const NUMBER* work, NUMBER* y, int64_t t, const int n) {
  const int64_t radix = p->radix, s = p->s, half = radix / 2;
  const NUMBER *a = work, *b = work + half;
  const R* roots = p->roots;
  NUMBER m[ANY], d[ANY];
  int64_t at[ANY];

#pragma GCC unroll 4
  for (int i = 0; i < n; i++) {
    m[i] = a[0];
    d[i] = (NUMBER){0};
    at[i] = 0;
  }
  for (int64_t r = 1; r <= half; r++)
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
      at[i] += t + i;
      at[i] -= at[i] >= radix ? radix : 0;
      m[i] = OF(add_scaled)(m[i], a[r], roots[2 * at[i]]);
      d[i] = OF(add_scaled)(d[i], b[r], roots[2 * at[i] + 1]);
    }
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) {
    y[(t + i) * s] = OF(add_i)(m[i], d[i]);
    y[(radix - t - i) * s] = OF(sub_i)(m[i], d[i]);
  }
}

/* A step of any odd radix; work: radix elements. */
static void OF(step_any)(const shmt__fft_step* p, const NUMBER* x, NUMBER* y, int64_t apart, NUMBER* work) {
  const int64_t radix = p->radix, m = p->m, s = p->s, ms = m * s * apart, half = radix / 2;
  NUMBER *a = work, *b = work + half;

  for (int64_t j = 0; j < m; j++)
    for (int64_t k = 0; k < s; k++) {
      const NUMBER* from = x + k + s * j * apart;
      NUMBER* to = y + k + s * radix * j;
      const R* w = (const R*)p->twiddles + 2 * (radix - 1) * j;
      int64_t t = 1;
      NUMBER sum = a[0] = from[0];
      for (int64_t r = 1; r <= half; r++) {
        const NUMBER u = from[r * ms], v = from[(radix - r) * ms];
        a[r] = OF(add)(u, v);
        sum = OF(add)(sum, a[r]);
      }
      for (int64_t r = 1; r <= half; r++) b[r] = OF(sub)(from[r * ms], from[(radix - r) * ms]);
      to[0] = sum;
      for (; t + ANY <= half + 1; t += ANY) OF(any_results)(p, work, to, t, ANY);
      for (; t <= half; t++) OF(any_results)(p, work, to, t, 1);
      for (t = 1; j > 0 && t < radix; t++) to[t * s] = OF(times)(to[t * s], w[2 * t - 2], w[2 * t - 1]);
    }
}

/* Does one step from x to y. apart: as above. */
static void OF(take_step)(const shmt__fft_step* step, const NUMBER* x, NUMBER* y, int64_t apart, NUMBER* work) {
  switch (step->radix) {
    case 2: OF(step_2)(step, x, y, apart); break;
    case 3: OF(step_3)(step, x, y, apart); break;
    case 4: OF(step_4)(step, x, y, apart); break;
    case 5: OF(step_5)(step, x, y, apart); break;
    case 7: OF(step_7)(step, x, y, apart); break;
    case 8: OF(step_8)(step, x, y, apart); break;
    case 9: OF(step_9)(step, x, y, apart); break;
    case 16: OF(step_16)(step, x, y, apart); break;
    default: OF(step_any)(step, x, y, apart, work);
  }
}

/* Transforms `from`, whose elements are `apart`, with x, y and work as scratch. Returns the address of the result,
 * which is x or y. x may be `from`, and is it when there are no steps. */
static NUMBER* OF(transform)(const shmt__fft_steps* p, const NUMBER* from, int64_t apart, NUMBER* x, NUMBER* y,
                             NUMBER* work) {
  for (int i = 0; i < p->n_steps; i++, from = x, apart = 1) {
    NUMBER* const other = x;
    OF(take_step)(&p->step[i], from, y, apart, work);
    x = y;
    y = other;
  }
  return x;
}
#undef ANY
