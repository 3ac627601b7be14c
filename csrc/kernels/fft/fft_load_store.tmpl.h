/* kernels/fft/fft_load_store.tmpl.h -- loads signals into lanes and stores them back. Included by fft.tmpl.h. */
/* Elements to be stored: the parts of the first one, vectors from one element to the next, factors. */
typedef struct FN(values) {
  const FN(vector) *re, *im;
  int64_t step;
  R re_scale, im_scale;
} FN(values);

/* Loads the halves of a vector from two addresses, and stores them to two. The compiler's own builtins take an operand
 * in memory; shuffles of vectors would take a register and a permutation more. */
#if LANES > 2
typedef R FN(half) __attribute__((vector_size(SHMT_VECTOR_BYTES / 2)));
typedef double FN(doubles) __attribute__((vector_size(SHMT_VECTOR_BYTES)));
typedef double FN(half_doubles) __attribute__((vector_size(SHMT_VECTOR_BYTES / 2)));
#if SHMT_ISA_LEVEL == 2
#define INSERT(half, v) __builtin_ia32_insertf64x4_mask(__builtin_ia32_pd512_256pd(half), v, 1, (FN(doubles)){0}, -1)
#define SECOND_HALF(v)  __builtin_ia32_extractf64x4_mask(v, 1, (FN(half_doubles)){0}, -1)
#elif SHMT_ISA_LEVEL == 1
#define INSERT(half, v) __builtin_ia32_vinsertf128_pd256(__builtin_ia32_pd256_pd(half), v, 1)
#define SECOND_HALF(v)  __builtin_ia32_vextractf128_pd256(v, 1)
#endif

INLINE FN(vector) FN(get_joined)(const R* first, const R* second) {
#ifdef INSERT
  FN(half_doubles) a, b;
  memcpy(&a, first, sizeof a);
  memcpy(&b, second, sizeof b);
  return (FN(vector))INSERT(a, b);
#else
  FN(half) a, b;
  memcpy(&a, first, sizeof a);
  memcpy(&b, second, sizeof b);
  return JOINED(a, b);
#endif
}

INLINE void FN(put_joined)(R* first, R* second, FN(vector) v) {
#ifdef SECOND_HALF
  const FN(half) a = FIRST(v);
  const FN(half_doubles) b = SECOND_HALF((FN(doubles))v);
#else
  const FN(half) a = FIRST(v), b = SECOND(v);
#endif
  memcpy(first, &a, sizeof a);
  memcpy(second, &b, sizeof b);
}
#else
INLINE FN(vector) FN(get_joined)(const R* first, const R* second) { return (FN(vector)){*first, *second}; }

INLINE void FN(put_joined)(R* first, R* second, FN(vector) v) {
  *first = v[0];
  *second = v[1];
}
#endif

#if LANES > 2
/* Transposes two squares of complex numbers: the lower and the upper halves of LANES / 4 vectors. */
INLINE void FN(transpose_each_half)(FN(vector)* v) {
#pragma GCC unroll 2
  for (int round = 1; round < LANES / 4; round *= 2) {
    FN(vector) w[LANES / 4];
#pragma GCC unroll 2
    for (int i = 0; i < LANES / 8; i++) {
      w[2 * i] = LOW_2(v[i], v[i + LANES / 8]);
      w[2 * i + 1] = HIGH_2(v[i], v[i + LANES / 8]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LANES / 4; i++) v[i] = w[i];
  }
}

/* Loads elements of half of the signals, one signal in a vector: LANES / 4 elements from i on, as many from j on. */
INLINE void FN(get_square)(const shmt__fft_place* p, const bool is_other, int64_t i, int64_t j, FN(vector)* v) {
#pragma GCC unroll 4
  for (int l = 0; l < LANES / 4; l++) {
    const R *low = FN(re_of)(p, SIGNAL_OF(l, is_other)), *high = FN(re_of)(p, SIGNAL_OF(l + LANES / 4, is_other));
    v[l] = FN(get_joined)(low + 2 * i, high + 2 * i);
    v[l + LANES / 4] = FN(get_joined)(low + 2 * j, high + 2 * j);
  }
  FN(transpose_each_half)(v);
  FN(transpose_each_half)(v + LANES / 4);
}

INLINE void FN(put_square)(const shmt__fft_place* p, const bool is_other, int64_t i, int64_t j, FN(vector)* v) {
  FN(transpose_each_half)(v);
  FN(transpose_each_half)(v + LANES / 4);
#pragma GCC unroll 4
  for (int l = 0; l < LANES / 4; l++) {
    R *low = FN(re_of)(p, SIGNAL_OF(l, is_other)), *high = FN(re_of)(p, SIGNAL_OF(l + LANES / 4, is_other));
    FN(put_joined)(low + 2 * i, high + 2 * i, v[l]);
    FN(put_joined)(low + 2 * j, high + 2 * j, v[l + LANES / 4]);
  }
}
#else
/* A vector is one complex number. */
INLINE void FN(get_square)(const shmt__fft_place* p, const bool is_other, int64_t i, int64_t j, FN(vector)* v) {
  (void)j;
  *v = FN(get)(FN(re_of)(p, is_other) + 2 * i);
}

INLINE void FN(put_square)(const shmt__fft_place* p, const bool is_other, int64_t i, int64_t j, FN(vector)* v) {
  (void)j;
  FN(put)(FN(re_of)(p, is_other) + 2 * i, *v);
}
#endif

/* Loads half a vector of elements of dense signals, the first half of them from i on, the second from j on. re and im
 * are the addresses of the parts of element 0; elements are two vectors apart. */
INLINE void FN(load_tile)(const shmt__fft_place* p, int64_t i, int64_t j, FN(vector)* re, FN(vector)* im) {
  FN(vector) a[LANES / 2], b[LANES / 2];

  FN(get_square)(p, false, i, j, a);
  FN(get_square)(p, true, i, j, b);
#pragma GCC unroll 8
  for (int q = 0; q < LANES / 2; q++) {
    const int64_t at = q < (LANES + 2) / 4 ? i + q : j + q - LANES / 4;
    re[2 * at] = RE_PARTS(a[q], b[q]);
    im[2 * at] = IM_PARTS(a[q], b[q]);
  }
}

INLINE void FN(store_tile)(const shmt__fft_place* p, int64_t i, int64_t j, const FN(values)* from) {
  FN(vector) a[LANES / 2], b[LANES / 2];

#pragma GCC unroll 8
  for (int q = 0; q < LANES / 2; q++) {
    const int64_t at = (q < (LANES + 2) / 4 ? i + q : j + q - LANES / 4) * from->step;
    const FN(vector) u = from->re[at] * from->re_scale, v = from->im[at] * from->im_scale;
    a[q] = FIRST_SIGNALS(u, v);
    b[q] = OTHER_SIGNALS(u, v);
  }
  FN(put_square)(p, false, i, j, a);
  FN(put_square)(p, true, i, j, b);
}

/* Loads all elements of dense signals that are at least a quarter of a vector long. The last tile may overlap the one
 * before. */
static void FN(load_dense)(const shmt__fft_place* p, int64_t n, FN(vector)* re, FN(vector)* im) {
  int64_t i = 0;

  for (; i + LANES / 2 <= n; i += LANES / 2) FN(load_tile)(p, i, i + LANES / 4, re, im);
  if (i < n) FN(load_tile)(p, n < LANES / 2 ? 0 : n - LANES / 2, n - LANES / 4, re, im);
}

static void FN(store_dense)(const shmt__fft_place* p, int64_t n, const FN(values)* from) {
  int64_t i = 0;

  for (; i + LANES / 2 <= n; i += LANES / 2) FN(store_tile)(p, i, i + LANES / 4, from);
  if (i < n) FN(store_tile)(p, n < LANES / 2 ? 0 : n - LANES / 2, n - LANES / 4, from);
}

/* Loads a vector of elements of one of the two parts, from dense signals of real numbers. */
INLINE void FN(load_part)(const shmt__fft_place* p, bool is_im, int64_t i, int64_t j, FN(vector)* to,
                          const bool is_joined) {
  FN(vector) a[LANES];

#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) {
    const R* from = is_im ? FN(im_of)(p, l) : FN(re_of)(p, l);
    a[l] = is_joined ? FN(get_joined)(from + i, from + j) : FN(get)(from + i);
  }
  FN(transpose)(a);
#pragma GCC unroll 16
  for (int q = 0; q < LANES; q++) to[2 * (q < LANES / 2 || !is_joined ? i + q : j + q - LANES / 2)] = a[q];
}

INLINE void FN(store_part)(const shmt__fft_place* p, bool is_im, int64_t i, int64_t j, const FN(vector)* from,
                           int64_t step, R scale, const bool is_joined) {
  FN(vector) a[LANES];

#pragma GCC unroll 16
  for (int q = 0; q < LANES; q++) a[q] = from[step * (q < LANES / 2 || !is_joined ? i + q : j + q - LANES / 2)] * scale;
  FN(transpose)(a);
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) {
    R* to = is_im ? FN(im_of)(p, l) : FN(re_of)(p, l);
    if (is_joined)
      FN(put_joined)(to + i, to + j, a[l]);
    else
      FN(put)(to + i, a[l]);
  }
}

/* Loads all elements of one part. Signals are at least half a vector long. */
static void FN(load_dense_part)(const shmt__fft_place* p, bool is_im, int64_t n, FN(vector)* to) {
  int64_t i = 0;

  for (; i + LANES <= n; i += LANES) FN(load_part)(p, is_im, i, i, to, false);
  if (n < LANES)
    FN(load_part)(p, is_im, 0, n - LANES / 2, to, true);
  else if (i < n)
    FN(load_part)(p, is_im, n - LANES, 0, to, false);
}

static void FN(store_dense_part)(const shmt__fft_place* p, bool is_im, int64_t n, const FN(vector)* from, int64_t step,
                                 R scale) {
  int64_t i = 0;

  for (; i + LANES <= n; i += LANES) FN(store_part)(p, is_im, i, i, from, step, scale, false);
  if (n < LANES)
    FN(store_part)(p, is_im, 0, n - LANES / 2, from, step, scale, true);
  else if (i < n)
    FN(store_part)(p, is_im, n - LANES, 0, from, step, scale, false);
}

/* Loads elements [i, n) one number at a time. */
static void FN(load_scattered)(const shmt__fft_place* p, int64_t i, int64_t n, FN(vector)* re, FN(vector)* im) {
  for (; i < n; i++) {
    R *a = (R*)&re[2 * i], *b = (R*)&im[2 * i];
    for (int l = 0; l < LANES; l++) {
      a[l] = FN(re_of)(p, l)[i * p->step];
      b[l] = FN(im_of)(p, l)[i * p->step];
    }
  }
}

static void FN(store_scattered)(const shmt__fft_place* p, int64_t i, int64_t n, const FN(values)* from) {
  for (; i < n; i++) {
    const R *a = (const R*)&from->re[i * from->step], *b = (const R*)&from->im[i * from->step];
    for (int l = 0; l < LANES; l++) {
      FN(re_of)(p, l)[i * p->step] = a[l] * from->re_scale;
      FN(im_of)(p, l)[i * p->step] = b[l] * from->im_scale;
    }
  }
}

/* Loads n elements of every signal. swap: real parts become imaginary ones. */
static void FN(load)(const shmt__fft_place* p, int64_t n, FN(pair)* x, bool swap) {
  FN(vector) *re = (FN(vector)*)x + swap, *im = (FN(vector)*)x + !swap;
  const R *a = FN(re_of)(p, 0), *b = FN(im_of)(p, 0);
  int64_t i = 0;

  switch (p->layout) {
    case SHMT_FFT_DENSE:
      if (n >= (LANES + 3) / 4) FN(load_dense)(p, n, re, im), i = n;
      break;
    case SHMT_FFT_DENSE_PARTS:
      if (n < LANES / 2) break;
      FN(load_dense_part)(p, false, n, re);
      FN(load_dense_part)(p, true, n, im);
      i = n;
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
  if (i < n) FN(load_scattered)(p, i, n, re, im);
}

static void FN(store)(const shmt__fft_place* p, int64_t n, const FN(values)* from) {
  R *a = FN(re_of)(p, 0), *b = FN(im_of)(p, 0);
  int64_t i = 0;

  switch (p->layout) {
    case SHMT_FFT_DENSE:
      if (n >= (LANES + 3) / 4) FN(store_dense)(p, n, from), i = n;
      break;
    case SHMT_FFT_DENSE_PARTS:
      if (n < LANES / 2) break;
      FN(store_dense_part)(p, false, n, from->re, from->step, from->re_scale);
      FN(store_dense_part)(p, true, n, from->im, from->step, from->im_scale);
      i = n;
      break;
    case SHMT_FFT_COLUMNS:
      for (; i < n; i++, a += p->step) {
        const FN(vector) u = from->re[i * from->step] * from->re_scale, v = from->im[i * from->step] * from->im_scale;
        FN(put)(a, LOW(u, v));
        FN(put)(a + LANES, HIGH(u, v));
      }
      break;
    case SHMT_FFT_COLUMNS_PARTS:
      for (; i < n; i++, a += p->step, b += p->step) {
        FN(put)(a, from->re[i * from->step] * from->re_scale);
        FN(put)(b, from->im[i * from->step] * from->im_scale);
      }
      break;
    case SHMT_FFT_SCATTERED: break;
  }
  if (i < n) FN(store_scattered)(p, i, n, from);
}

/* Stores n elements times a scale. swap: real parts become imaginary ones. */
static void FN(store_scaled)(const shmt__fft_place* p, int64_t n, const FN(pair)* x, bool swap, R scale) {
  const FN(vector)* const parts = (const FN(vector)*)x;
  FN(store)(p, n, &(FN(values)){parts + swap, parts + !swap, 2, scale, scale});
}

/* Stores the spectrum of real signals of n elements, its first half or all of it. x has the first half. With an
 * im_scale of the other sign the conjugate is stored. */
static void FN(store_spectrum)(const shmt__fft_place* p, int64_t n, bool is_whole, const FN(pair)* x, R re_scale,
                               R im_scale) {
  const int64_t half = n / 2 + 1;

  FN(store)(p, half, &(FN(values)){&x->re, &x->im, 2, re_scale, im_scale});
  if (!is_whole || half == n) return;
  /* The rest: conjugates in reverse order. */
  const FN(pair)* const from = x + n - half;
  shmt__fft_place rest = *p;
  rest.at += half * p->step * (int64_t)sizeof(R);
  FN(store)(&rest, n - half, &(FN(values)){&from->re, &from->im, -2, re_scale, -im_scale});
}
