/* kernels/fft/fft_four_step.tmpl.h -- the four-step transform of one signal. See Note [Lanes] in kernels/fft/fft.h.
 *
 * fft_columns: data: runs of all rows, the signal, scratch (2 n1 + work); n: blocks of columns; ctx:
 * shmt__fft_four_step_args.
 *
 * fft_rows: data: the result, what fft_columns has left (may be the same), scratch (2 n2 + work); n: blocks of rows;
 * ctx: the same. work: the largest radix. Scratch is in elements: pairs of vectors.
 */
#include "kernels/fft/fft_vector.tmpl.h"

/* Loads fewer than LANES elements of a dense signal. */
static FN(pair) FN(get_some)(const R* from, int64_t count) {
  R run[2 * LANES] = {0};
  memcpy(run, from, (size_t)(2 * count) * sizeof *from);
  return FN(get_run)(run);
}
static void FN(put_some)(R* to, FN(pair) a, int64_t count) {
  R run[2 * LANES];
  FN(put_run)(run, a);
  memcpy(to, run, (size_t)(2 * count) * sizeof *to);
}

/* Loads `count` columns of n rows, n2 numbers apart; nobody writes to them. swap: swap real and imaginary parts. */
static void FN(load_columns)(const R* from, int64_t n2, int64_t count, int64_t n, FN(pair)* x, bool swap) {
  FN(vector) *re = (FN(vector)*)x + swap, *im = (FN(vector)*)x + !swap;
  /* Lanes without a column load numbers of the next row, where there is one. */
  const int64_t whole = count < LANES ? n - (LANES - 1) / n2 - 1 : n;

  for (int64_t i = 0; i < n; i++, from += 2 * n2) {
    const FN(pair) a = i < whole ? FN(get_run)(from) : FN(get_some)(from, count);
    re[2 * i] = a.re;
    im[2 * i] = a.im;
  }
}

/* Calculates LANES of the n complex elements that 2n real numbers are, from element k on, from the first half of their
 * spectrum (n + 1 elements), with parts swapped. All of them are in one half of the signal. w has elements [0, n / 2]
 * of the twiddle factors; the others mirror them. */
INLINE FN(pair) FN(even_run)(const R* x, int64_t n, int64_t k, const R* w) {
  const bool is_low = k + LANES - 1 <= n / 2;
  const int64_t back = n - k - LANES + 1;
  const FN(pair) a = FN(get_run)(x + 2 * k), b = FN(get_run_back)(x + 2 * back);
  FN(pair) v = is_low ? FN(get_run)(w + 2 * k) : FN(get_run_back)(w + 2 * back);
  if (!is_low) v.re = -v.re;
  const FN(vector) er = a.re + b.re, ei = a.im - b.im, dr = a.re - b.re, di = a.im + b.im;
  const FN(vector) tr = dr * v.re + di * v.im, ti = di * v.re - dr * v.im;
  return (FN(pair)){ei + tr, er - ti};
}

static void FN(even_element)(const R* x, int64_t n, int64_t k, const R* w, R* re, R* im) {
  const R *a = x + 2 * k, *b = x + 2 * (n - k);
  const R vr = k <= n / 2 ? w[2 * k] : -w[2 * (n - k)], vi = k <= n / 2 ? w[2 * k + 1] : w[2 * (n - k) + 1];
  /* The first and the last element are real. */
  const R ai = k > 0 ? a[1] : 0, bi = k > 0 ? b[1] : 0;
  const R er = a[0] + b[0], ei = ai - bi, dr = a[0] - b[0], di = ai + bi;
  const R tr = dr * vr + di * vi, ti = di * vr - dr * vi;
  *re = ei + tr;
  *im = er - ti;
}

/* Loads columns [column, column + count) of such a signal as a matrix. */
static void FN(load_even)(const shmt__fft_four_step_args* c, const R* from, int64_t column, int64_t count,
                          FN(pair) * x) {
  const int64_t n1 = c->four_step->columns.length, n2 = c->four_step->rows.length, n = n1 * n2;
  const R* w = c->real_twiddles;

  for (int64_t row = 0; row < n1; row++) {
    const int64_t k = row * n2 + column;
    /* Lanes without a column load numbers of the next row, where there is one. */
    if (k > 0 && k + LANES - 1 <= n && (k + LANES - 1 <= n / 2 || k >= n - n / 2)) {
      x[row] = FN(even_run)(from, n, k, w);
      continue;
    }
    R *re = (R*)&x[row].re, *im = (R*)&x[row].im;
    for (int64_t l = 0; l < LANES; l++) FN(even_element)(from, n, k + (l < count ? l : count - 1), w, &re[l], &im[l]);
  }
}

/* Multiplies LANES elements of transformed columns by their twiddle factors, and stores a run in each of `count` rows,
 * `row` numbers apart. */
INLINE void FN(put_columns)(const FN(pair)* z, const FN(pair)* twiddles, R* to, int64_t row, int64_t count) {
  FN(vector) re[LANES], im[LANES];

#pragma GCC unroll 16
  for (int q = 0; q < LANES; q++) {
    const FN(pair) v = z[q], w = twiddles[q];
    re[q] = v.re * w.re - v.im * w.im;
    im[q] = v.re * w.im + v.im * w.re;
  }
  FN(transpose)(re);
  FN(transpose)(im);
  if (count == LANES) {
#pragma GCC unroll 16
    for (int q = 0; q < LANES; q++, to += row) FN(put)(to, re[q]), FN(put)(to + LANES, im[q]);
  } else {
    for (int64_t q = 0; q < count; q++, to += row) FN(put)(to, re[q]), FN(put)(to + LANES, im[q]);
  }
}

/* The same for n elements, fewer than LANES. They are stored as complex numbers, unless there is room for a run. */
static void FN(put_last_columns)(const FN(pair) * z, const FN(pair) * twiddles, R* to, int64_t row, int64_t count,
                                 int64_t n) {
  FN(pair) last[LANES], by[LANES];

  for (int64_t q = 0; q < LANES; q++) {
    last[q] = z[q < n ? q : n - 1];
    by[q] = twiddles[q < n ? q : n - 1];
  }
  if (row == 2 * LANES) {
    FN(put_columns)(last, by, to, row, count);
    return;
  }
  R runs[2 * LANES * LANES];
  FN(put_columns)(last, by, runs, 2 * LANES, count);
  for (int64_t q = 0; q < count; q++, to += row)
    FN(put_some)(to, (FN(pair)){FN(get)(runs + 2 * q * LANES), FN(get)(runs + (2 * q + 1) * LANES)}, n);
}

void SHMT_LOOP(fft_columns)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_four_step_args* c = ctx;
  const int64_t n1 = c->four_step->columns.length, n2 = c->four_step->rows.length;
  const R* signal = (const R*)(const void*)data[1];
  FN(pair) *x = (FN(pair)*)(void*)data[2], *y = x + n1, *work = y + n1;

  (void)strides;
  for (int64_t b = c->begin; b < c->begin + n; b++) {
    const int64_t count = n2 - b * LANES < LANES ? n2 - b * LANES : LANES;
    const FN(pair)* twiddles = (const FN(pair)*)c->four_step->twiddles + b * n1;
    R* to = (R*)(void*)data[0] + b * LANES * c->row;
    if (c->real_twiddles)
      FN(load_even)(c, signal, b * LANES, count, x);
    else
      FN(load_columns)(signal + 2 * b * LANES, n2, count, n1, x, c->swap_in);
    const FN(pair)* z = FN(transformed)(&c->four_step->columns, x, y, work);
    int64_t k = 0;
    for (; k + LANES <= n1; k += LANES, to += c->block) FN(put_columns)(z + k, twiddles + k, to, c->row, count);
    if (k < n1) FN(put_last_columns)(z + k, twiddles + k, to, c->row, count, n1 - k);
  }
}

/* Transforms LANES rows of what fft_columns has left. Returns the address of the result, which is x or y. */
static FN(pair)* FN(transform_rows)(const shmt__fft_four_step_args* c, const R* from, FN(pair)* x, FN(pair)* y,
                                    FN(pair)* work) {
  const int64_t n2 = c->four_step->rows.length;

  if (c->row % (2 * LANES) == 0 && (uintptr_t)from % SHMT_VECTOR_BYTES == 0 && n2 > 1) {
    return SHMT_LOOP(fft_lanes)(&c->four_step->rows, from, c->row / (2 * LANES), x, y, work);
  }
  for (int64_t i = 0; i < n2; i++, from += c->row) x[i] = (FN(pair)){FN(get)(from), FN(get)(from + LANES)};
  return FN(transformed)(&c->four_step->rows, x, y, work);
}

/* Stores rows as columns, n1 elements apart. Prefetches `next`, the columns of the next rows. */
static void FN(store_rows)(const shmt__fft_four_step_args* c, R* to, const R* next, const FN(pair)* z) {
  const int64_t n1 = c->four_step->columns.length, n2 = c->four_step->rows.length;
  const FN(vector) *re = (const FN(vector)*)z + c->swap_out, *im = (const FN(vector)*)z + !c->swap_out;
  const R scale = (R)c->scale;

  for (int64_t i = 0; i < n2; i++, to += 2 * n1, next += c->row) {
    const FN(vector) u = re[2 * i] * scale, v = im[2 * i] * scale;
    __builtin_prefetch(next, 0, 2);
    __builtin_prefetch(next + LANES, 0, 2);
    FN(put)(to, LOW(u, v));
    FN(put)(to + LANES, HIGH(u, v));
  }
}

/* The same for fewer than LANES rows. */
static void FN(store_last_rows)(const shmt__fft_four_step_args* c, R* to, const FN(pair)* z, int64_t count) {
  const int64_t n1 = c->four_step->columns.length, n2 = c->four_step->rows.length;

  for (int64_t i = 0; i < n2; i++, to += 2 * n1) {
    const FN(pair) a = FN(scaled)(z[i], (R)c->scale);
    FN(put_some)(to, c->swap_out ? (FN(pair)){a.im, a.re} : a, count);
  }
}

void SHMT_LOOP(fft_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_four_step_args* c = ctx;
  const int64_t n1 = c->four_step->columns.length, n2 = c->four_step->rows.length, end = c->begin + n;
  FN(pair) *x = (FN(pair)*)(void*)data[2], *y = x + n2, *work = y + n2;

  (void)strides;
  for (int64_t b = c->begin; b < end; b++) {
    const int64_t count = n1 - b * LANES;
    const R *from = (const R*)(const void*)data[1] + b * c->block, *next = b + 1 < end ? from + c->block : from;
    R* to = (R*)(void*)data[0] + 2 * b * LANES;
    if (count >= LANES) {
      FN(store_rows)(c, to, next, FN(transform_rows)(c, from, x, y, work));
    } else if (c->row == 2 * LANES) {
      FN(store_last_rows)(c, to, FN(transform_rows)(c, from, x, y, work), count);
    } else {
      for (int64_t i = 0; i < n2; i++, from += c->row) x[i] = FN(get_some)(from, count);
      FN(store_last_rows)(c, to, FN(transformed)(&c->four_step->rows, x, y, work), count);
    }
  }
}

#include "kernels/fft/fft_vector_end.tmpl.h"
