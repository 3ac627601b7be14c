/* kernels/fft_vector.tmpl.h -- vectors of lanes: from memory to scratch and back. Included by fft.tmpl.h.
 *
 * See Note [Lanes] in kernels/fft.h. R is the real type, FN(vector) a vector of it, FN(pair) the element of all lanes.
 */
#define LANES_complex64_ (VECTOR_BYTES / 4)
#define LANES_complex128_ (VECTOR_BYTES / 8)
#define LANES             SHMT_PASTE(SHMT_PASTE(LANES, DT), )

#define R __typeof__(_Generic((C)0, float _Complex: (float)0, default: (double)0))

typedef R FN(vector) __attribute__((vector_size(VECTOR_BYTES)));
typedef struct FN(pair) {
  FN(vector) re, im;
} FN(pair);

/* Two vectors as one row of numbers: every second one of it, and the two interleaved. */
#if LANES == 16
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODDS(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define LOW(a, b)   __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b)  __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define TURNED(a)   __builtin_shufflevector(a, a, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#elif LANES == 8
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODDS(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW(a, b)   __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b)  __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define TURNED(a)   __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#elif LANES == 4
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODDS(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define LOW(a, b)   __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b)  __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define TURNED(a)   __builtin_shufflevector(a, a, 3, 2, 1, 0)
#else
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ODDS(a, b)  __builtin_shufflevector(a, b, 1, 3)
#define LOW(a, b)   __builtin_shufflevector(a, b, 0, 2)
#define HIGH(a, b)  __builtin_shufflevector(a, b, 1, 3)
#define TURNED(a)   __builtin_shufflevector(a, a, 1, 0)
#endif

INLINE FN(vector) FN(get)(const R* from) {
  FN(vector) v;
  memcpy(&v, from, sizeof v);
  return v;
}

INLINE void FN(put)(R* to, FN(vector) v) { memcpy(to, &v, sizeof v); }

/* Transpose a square of numbers: each round interleaves rows that are half the square apart. */
INLINE void FN(transpose)(FN(vector)* v) {
#pragma GCC unroll 4
  for (int round = 1; round < LANES; round *= 2) {
    FN(vector) w[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES / 2; i++) {
      w[2 * i] = LOW(v[i], v[i + LANES / 2]);
      w[2 * i + 1] = HIGH(v[i], v[i + LANES / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) v[i] = w[i];
  }
}

/* Elements [i, i + LANES) of dense lines; re and im: where those parts of element 0 go, elements two vectors apart. */
INLINE void FN(load_tile)(const shmt__fft_place* p, int64_t i, FN(vector)* re, FN(vector)* im) {
  FN(vector) a[LANES], b[LANES];

#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) {
    const R* from = (const R*)p->re[l] + 2 * i;
    const FN(vector) u = FN(get)(from), v = FN(get)(from + LANES);
    a[l] = EVENS(u, v);
    b[l] = ODDS(u, v);
  }
  FN(transpose)(a);
  FN(transpose)(b);
#pragma GCC unroll 16
  for (int q = 0; q < LANES; q++) {
    re[2 * (i + q)] = a[q];
    im[2 * (i + q)] = b[q];
  }
}

INLINE void FN(store_tile)(const shmt__fft_place* p, int64_t i, const FN(vector)* re, const FN(vector)* im, R re_scale,
                           R im_scale) {
  FN(vector) a[LANES], b[LANES];

#pragma GCC unroll 16
  for (int q = 0; q < LANES; q++) {
    a[q] = re[2 * (i + q)] * re_scale;
    b[q] = im[2 * (i + q)] * im_scale;
  }
  FN(transpose)(a);
  FN(transpose)(b);
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) {
    R* to = (R*)p->re[l] + 2 * i;
    FN(put)(to, LOW(a[l], b[l]));
    FN(put)(to + LANES, HIGH(a[l], b[l]));
  }
}

/* The same for lines of real numbers, one of the two parts. */
INLINE void FN(load_part)(void* const* lines, int64_t i, FN(vector)* to) {
  FN(vector) a[LANES];

#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) a[l] = FN(get)((const R*)lines[l] + i);
  FN(transpose)(a);
#pragma GCC unroll 16
  for (int q = 0; q < LANES; q++) to[2 * (i + q)] = a[q];
}

INLINE void FN(store_part)(void* const* lines, int64_t i, const FN(vector)* from, R scale) {
  FN(vector) a[LANES];

#pragma GCC unroll 16
  for (int q = 0; q < LANES; q++) a[q] = from[2 * (i + q)] * scale;
  FN(transpose)(a);
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) FN(put)((R*)lines[l] + i, a[l]);
}

/* Elements [i, n) one number at a time. */
static void FN(load_scattered)(const shmt__fft_place* p, int64_t i, int64_t n, FN(vector)* re, FN(vector)* im) {
  for (; i < n; i++) {
    R *a = (R*)&re[2 * i], *b = (R*)&im[2 * i];
    for (int l = 0; l < LANES; l++) {
      a[l] = ((const R*)p->re[l])[i * p->step];
      b[l] = ((const R*)p->im[l])[i * p->step];
    }
  }
}

static void FN(store_scattered)(const shmt__fft_place* p, int64_t i, int64_t n, const FN(vector)* re,
                                const FN(vector)* im, R re_scale, R im_scale) {
  for (; i < n; i++) {
    const R *a = (const R*)&re[2 * i], *b = (const R*)&im[2 * i];
    for (int l = 0; l < LANES; l++) {
      ((R*)p->re[l])[i * p->step] = a[l] * re_scale;
      ((R*)p->im[l])[i * p->step] = b[l] * im_scale;
    }
  }
}

/* n elements of every line. swap: real parts become imaginary ones. */
static void FN(load)(const shmt__fft_place* p, int64_t n, FN(pair)* x, bool swap) {
  FN(vector) *re = (FN(vector)*)x + swap, *im = (FN(vector)*)x + !swap;
  const R *a = p->re[0], *b = p->im[0];
  int64_t i = 0;

  switch (p->layout) {
    case SHMT_FFT_DENSE:
      for (; i + LANES <= n; i += LANES) FN(load_tile)(p, i, re, im);
      /* The last tile overlaps the one before. */
      if (i < n && n > LANES) FN(load_tile)(p, n - LANES, re, im), i = n;
      break;
    case SHMT_FFT_DENSE_PARTS:
      for (; i + LANES <= n; i += LANES) FN(load_part)(p->re, i, re), FN(load_part)(p->im, i, im);
      if (i < n && n > LANES) FN(load_part)(p->re, n - LANES, re), FN(load_part)(p->im, n - LANES, im), i = n;
      break;
    case SHMT_FFT_COLUMNS:
      for (; i < n; i++, a += p->step) {
        const FN(vector) u = FN(get)(a), v = FN(get)(a + LANES);
        re[2 * i] = EVENS(u, v);
        im[2 * i] = ODDS(u, v);
      }
      break;
    case SHMT_FFT_COLUMNS_PARTS:
      for (; i < n; i++, a += p->step, b += p->step) {
        re[2 * i] = FN(get)(a);
        im[2 * i] = FN(get)(b);
      }
      break;
    case SHMT_FFT_SCATTERED: break;
  }
  FN(load_scattered)(p, i, n, re, im);
}

/* n elements to every line, times a scale, which may differ in sign for the imaginary parts. */
static void FN(store)(const shmt__fft_place* p, int64_t n, const FN(pair)* x, bool swap, R re_scale, R im_scale) {
  const FN(vector) *re = (const FN(vector)*)x + swap, *im = (const FN(vector)*)x + !swap;
  R *a = p->re[0], *b = p->im[0];
  int64_t i = 0;

  switch (p->layout) {
    case SHMT_FFT_DENSE:
      for (; i + LANES <= n; i += LANES) FN(store_tile)(p, i, re, im, re_scale, im_scale);
      if (i < n && n > LANES) FN(store_tile)(p, n - LANES, re, im, re_scale, im_scale), i = n;
      break;
    case SHMT_FFT_DENSE_PARTS:
      for (; i + LANES <= n; i += LANES) {
        FN(store_part)(p->re, i, re, re_scale);
        FN(store_part)(p->im, i, im, im_scale);
      }
      if (i < n && n > LANES) {
        FN(store_part)(p->re, n - LANES, re, re_scale);
        FN(store_part)(p->im, n - LANES, im, im_scale);
        i = n;
      }
      break;
    case SHMT_FFT_COLUMNS:
      for (; i < n; i++, a += p->step) {
        const FN(vector) u = re[2 * i] * re_scale, v = im[2 * i] * im_scale;
        FN(put)(a, LOW(u, v));
        FN(put)(a + LANES, HIGH(u, v));
      }
      break;
    case SHMT_FFT_COLUMNS_PARTS:
      for (; i < n; i++, a += p->step, b += p->step) {
        FN(put)(a, re[2 * i] * re_scale);
        FN(put)(b, im[2 * i] * im_scale);
      }
      break;
    case SHMT_FFT_SCATTERED: break;
  }
  FN(store_scattered)(p, i, n, re, im, re_scale, im_scale);
}
