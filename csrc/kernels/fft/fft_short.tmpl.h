/* kernels/fft/fft_short.tmpl.h -- short signals as matrices whose columns and rows fit in registers. Included by
 * fft_complex.tmpl.h, for runs of RUN_BYTES: neighbouring complex numbers, interleaved as in memory. OF(name) are the
 * functions of that form.
 *
 * See Note [Short signals] in kernels/fft/fft.h.
 */
#define NUMBER OF(run)
#define COUNT  (RUN_BYTES * LANES / SHMT_VECTOR_BYTES / 2) /* complex numbers of a run */

typedef R OF(run) __attribute__((vector_size(RUN_BYTES)));
/* Complex numbers, or pairs of them, that are moved as a whole. */
typedef double OF(units) __attribute__((vector_size(RUN_BYTES)));

#if RUN_BYTES == 64
#define EVEN_UNITS(a, b)     __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define ODD_UNITS(a, b)      __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define LOWER_HALF(a, b)   __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define UPPER_HALF(a, b)   __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define EVEN_QUARTERS(a, b)  __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13)
#define ODD_QUARTERS(a, b)   __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15)
#define SWAPPED_DOUBLES(a)   __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6)
#define SWAPPED_FLOATS(a)    __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#define ALTERNATING_DOUBLES  {1, -1, 1, -1, 1, -1, 1, -1}
#define ALTERNATING_FLOATS   {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1}
#elif RUN_BYTES == 32
#define EVEN_UNITS(a, b)     __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define ODD_UNITS(a, b)      __builtin_shufflevector(a, b, 1, 5, 3, 7)
#define LOWER_HALF(a, b)   __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define UPPER_HALF(a, b)   __builtin_shufflevector(a, b, 2, 3, 6, 7)
#define SWAPPED_DOUBLES(a)   __builtin_shufflevector(a, a, 1, 0, 3, 2)
#define SWAPPED_FLOATS(a)    __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6)
#define ALTERNATING_DOUBLES  {1, -1, 1, -1}
#define ALTERNATING_FLOATS   {1, -1, 1, -1, 1, -1, 1, -1}
#else
#define EVEN_UNITS(a, b)     __builtin_shufflevector(a, b, 0, 2)
#define ODD_UNITS(a, b)      __builtin_shufflevector(a, b, 1, 3)
#define SWAPPED_DOUBLES(a)   __builtin_shufflevector(a, a, 1, 0)
#define SWAPPED_FLOATS(a)    __builtin_shufflevector(a, a, 1, 0, 3, 2)
#define ALTERNATING_DOUBLES  {1, -1}
#define ALTERNATING_FLOATS   {1, -1, 1, -1}
#endif
#if LANES * 8 == SHMT_VECTOR_BYTES
#define SWAPPED_PARTS(a) SWAPPED_DOUBLES(a)
#define ALTERNATING      ((NUMBER)ALTERNATING_DOUBLES)
#else
#define SWAPPED_PARTS(a) SWAPPED_FLOATS(a)
#define ALTERNATING      ((NUMBER)ALTERNATING_FLOATS)
#endif

INLINE NUMBER OF(get)(const R* from) {
  NUMBER v;
  memcpy(&v, from, sizeof v);
  return v;
}
INLINE void OF(put)(R* to, NUMBER v) { memcpy(to, &v, sizeof v); }

INLINE NUMBER OF(add)(NUMBER a, NUMBER b) { return a + b; }
INLINE NUMBER OF(sub)(NUMBER a, NUMBER b) { return a - b; }
INLINE NUMBER OF(scaled)(NUMBER a, R c) { return a * c; }
INLINE NUMBER OF(add_scaled)(NUMBER a, NUMBER b, R c) { return a + b * c; }
INLINE NUMBER OF(sub_i)(NUMBER a, NUMBER b) { return a + SWAPPED_PARTS(b) * ALTERNATING; }
INLINE NUMBER OF(add_i)(NUMBER a, NUMBER b) { return a - SWAPPED_PARTS(b) * ALTERNATING; }
INLINE NUMBER OF(times_minus_i)(NUMBER a) { return SWAPPED_PARTS(a) * ALTERNATING; }
INLINE NUMBER OF(times)(NUMBER a, R re, R im) { return a * re - OF(times_minus_i)(a) * im; }

#include "kernels/fft/fft_butterflies.tmpl.h"

/* Transposes the square of 16-byte units that some runs are. */
INLINE void OF(transpose_wide)(OF(units)* v) {
#if RUN_BYTES == 64
  const OF(units) a = LOWER_HALF(v[0], v[1]), b = LOWER_HALF(v[2], v[3]);
  const OF(units) c = UPPER_HALF(v[0], v[1]), d = UPPER_HALF(v[2], v[3]);
  v[0] = EVEN_QUARTERS(a, b);
  v[1] = ODD_QUARTERS(a, b);
  v[2] = EVEN_QUARTERS(c, d);
  v[3] = ODD_QUARTERS(c, d);
#elif RUN_BYTES == 32
  const OF(units) a = v[0];
  v[0] = LOWER_HALF(a, v[1]);
  v[1] = UPPER_HALF(a, v[1]);
#else
  (void)v;
#endif
}

/* Transposes COUNT runs as a square of complex numbers. */
INLINE void OF(transpose)(NUMBER* runs) {
  OF(units) v[COUNT];

#if LANES * 8 == SHMT_VECTOR_BYTES
#pragma GCC unroll 4
  for (int i = 0; i < COUNT; i++) v[i] = (OF(units))runs[i];
  OF(transpose_wide)(v);
#pragma GCC unroll 4
  for (int i = 0; i < COUNT; i++) runs[i] = (NUMBER)v[i];
#else
  /* Two numbers in 16 bytes. */
#pragma GCC unroll 4
  for (int i = 0; i < COUNT / 2; i++) {
    const OF(units) a = (OF(units))runs[2 * i], b = (OF(units))runs[2 * i + 1];
    v[i] = EVEN_UNITS(a, b);
    v[i + COUNT / 2] = ODD_UNITS(a, b);
  }
  OF(transpose_wide)(v);
  OF(transpose_wide)(v + COUNT / 2);
#pragma GCC unroll 4
  for (int i = 0; i < COUNT / 2; i++) {
    runs[2 * i] = (NUMBER)v[i];
    runs[2 * i + 1] = (NUMBER)v[i + COUNT / 2];
  }
#endif
}

#if RUN_BYTES == SHMT_VECTOR_BYTES
#include "kernels/fft/fft_stockham.tmpl.h"
#include "kernels/fft/fft_interleaved.tmpl.h"
#endif

/* COLUMNS transforms the columns, of P elements, of `count` signals `apart` bytes from each other, multiplies them by
 * twiddle factors, and stores them as rows of P. ROWS transforms these rows' columns, of P elements, to the results. */
#define COLUMNS(P)                                                                                                      \
  static void OF(columns_##P)(const shmt__fft_short* c, const char* signal, int64_t apart, int64_t count, R* to) {       \
    const int64_t n2 = c->columns;                                                                                     \
    for (; count > 0; count--, signal += apart) {                                                                        \
      const R *from = (const R*)(const void*)signal, *w = c->twiddles;                                                      \
      for (int64_t b = 0; b < n2; b += COUNT, from += 2 * COUNT, to += 2 * COUNT * P) {                                \
        NUMBER v[P];                                                                                                   \
        _Pragma("GCC unroll 16") for (int r = 0; r < P; r++) v[r] = OF(get)(from + 2 * n2 * r);                        \
        if (!c->is_forward) _Pragma("GCC unroll 16") for (int r = 0; r < P; r++) v[r] *= ALTERNATING;                  \
        OF(dft_##P)(v);                                                                                                \
        _Pragma("GCC unroll 16") for (int r = 1; r < P; r++, w += 4 * COUNT)                                           \
            v[r] = v[r] * OF(get)(w) + SWAPPED_PARTS(v[r]) * OF(get)(w + 2 * COUNT);                                   \
        _Pragma("GCC unroll 16") for (int r = 0; r < P; r += COUNT) {                                                  \
          OF(transpose)(v + r);                                                                                        \
          _Pragma("GCC unroll 16") for (int i = 0; i < COUNT; i++) OF(put)(to + 2 * (i * P + r), v[r + i]);            \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define ROWS(P)                                                                                                       \
  static void OF(rows_##P)(const shmt__fft_short* c, const R* from, int64_t apart, int64_t count, char* signal) {        \
    const int64_t n1 = c->rows;                                                                                        \
    const bool is_scaled = !c->is_forward || c->scale != 1;                                                            \
    const NUMBER scale = (c->is_forward ? (NUMBER){0} + 1 : ALTERNATING) * (R)c->scale;                                \
    for (; count > 0; count--, signal += apart, from += 2 * n1 * (P - 1)) {                                              \
      R* to = (R*)(void*)signal;                                                                                         \
      for (int64_t b = 0; b < n1; b += COUNT, from += 2 * COUNT, to += 2 * COUNT) {                                    \
        NUMBER v[P];                                                                                                   \
        _Pragma("GCC unroll 32") for (int r = 0; r < P; r++) v[r] = OF(get)(from + 2 * n1 * r);                        \
        OF(dft_##P)(v);                                                                                                \
        if (is_scaled) _Pragma("GCC unroll 32") for (int r = 0; r < P; r++) v[r] *= scale;                             \
        _Pragma("GCC unroll 32") for (int r = 0; r < P; r++) OF(put)(to + 2 * n1 * r, v[r]);                           \
      }                                                                                                                \
    }                                                                                                                  \
  }
#if COUNT <= 4
COLUMNS(4)
ROWS(4)
#endif
COLUMNS(8)
COLUMNS(16)
ROWS(8)
ROWS(16)
ROWS(32)
#undef COLUMNS
#undef ROWS

/* The loop fft_short. */
static void OF(signals)(char* const* data, const int64_t* strides, int64_t n, const shmt__fft_short* c) {
  const int64_t at_once = SHMT_FFT_SHORT_LENGTH / (c->rows * c->columns);
  _Alignas(64) R between[2 * SHMT_FFT_SHORT_LENGTH];

  for (int64_t i = 0; i < n; i += at_once) {
    const int64_t count = n - i < at_once ? n - i : at_once;
    const char* from = data[1] + i * strides[1];
    char* to = data[0] + i * strides[0];
    switch (c->rows) {
#if COUNT <= 4
      case 4: OF(columns_4)(c, from, strides[1], count, between); break;
#endif
      case 8: OF(columns_8)(c, from, strides[1], count, between); break;
      default: OF(columns_16)(c, from, strides[1], count, between);
    }
    switch (c->columns) {
#if COUNT <= 4
      case 4: OF(rows_4)(c, between, strides[0], count, to); break;
#endif
      case 8: OF(rows_8)(c, between, strides[0], count, to); break;
      case 16: OF(rows_16)(c, between, strides[0], count, to); break;
      default: OF(rows_32)(c, between, strides[0], count, to);
    }
  }
}

#undef NUMBER
#undef OF
#undef COUNT
#undef RUN_BYTES
#undef EVEN_UNITS
#undef ODD_UNITS
#undef LOWER_HALF
#undef UPPER_HALF
#undef EVEN_QUARTERS
#undef ODD_QUARTERS
#undef SWAPPED_DOUBLES
#undef SWAPPED_FLOATS
#undef SWAPPED_PARTS
#undef ALTERNATING_DOUBLES
#undef ALTERNATING_FLOATS
#undef ALTERNATING
