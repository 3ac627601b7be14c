/* kernels/fft.tmpl.h -- discrete Fourier transforms. Complex dtypes. See Note [Lanes] in kernels/fft.h.
 *
 * fft_block: data: scratch (2 room + the largest radix elements); n: blocks of lines; ctx: shmt__fft_block, the first.
 * fft_columns: data: runs of all rows, the line, scratch (2 n1 + work); n: blocks of columns; ctx: shmt__fft_line.
 * fft_rows: data: the result, what fft_columns has left (may be the same), scratch (2 n2 + work); n: blocks of rows; ctx
 * the same. work: the largest radix.
 * fft_short: data: results, lines; strides: bytes from line to line; ctx: shmt__fft_short.
 * The rest are passes over one line, dense if nothing else is said; ctx: shmt__fft_pass. Scratch is in elements: pairs of
 * vectors.
 */
#include "kernels/fft.h"
#include "kernels/loops.h"

#include <string.h>

/* Products of a sum are added unrounded where the processor can. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

#define VECTOR_BYTES (16 << SHMT_ISA_LEVEL)
#define ANY          (SHMT_ISA_LEVEL == 2 ? 4 : 2) /* results of a butterfly that are summed up at once */
#define INLINE       static inline __attribute__((always_inline))

#include "kernels/fft_vector.tmpl.h"
#define NUMBER   FN(pair)
#define OF(name) FN(name)
#include "kernels/fft_butterflies.tmpl.h"
#include "kernels/fft_steps.tmpl.h"
#undef NUMBER
#undef OF

#define SHORT_ELEMENTS SHMT_FFT_SHORT
#define RUN_BYTES      VECTOR_BYTES
#define OF(name)       FN(name##_of_run)
#include "kernels/fft_short.tmpl.h"
#if LANES == 16
#define RUN_BYTES (VECTOR_BYTES / 2)
#define OF(name)  FN(name##_of_half)
#include "kernels/fft_short.tmpl.h"
#endif

/* --- short lines -------------------------------------------------------------------------------- */

/* data: results, lines; strides: bytes between lines. */
void SHMT_LOOP(fft_short)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_short* c = ctx;

#if LANES == 16
  if (c->run < LANES / 2) {
    FN(lines_of_half)(data, strides, n, c);
    return;
  }
#endif
  FN(lines_of_run)(data, strides, n, c);
}

/* --- lines in lanes ----------------------------------------------------------------------------- */

/* The first half of the spectrum of 2n real numbers from the transform of the n complex ones they are. */
static void FN(from_even)(const FN(pair)* z, FN(pair)* y, int64_t n, const R* w) {
  const FN(vector) zero = {0};

  y[0] = (FN(pair)){z[0].re + z[0].im, zero};
  y[n] = (FN(pair)){z[0].re - z[0].im, zero};
  for (int64_t k = 1; k <= n / 2; k++) {
    const FN(pair) a = z[k], b = {z[n - k].re, -z[n - k].im};
    const FN(pair) even = FN(scaled)(FN(add)(a, b), (R)0.5), odd = FN(scaled)(FN(sub)(a, b), (R)0.5);
    const FN(pair) turned = FN(times)((FN(pair)){odd.im, -odd.re}, w[2 * k], w[2 * k + 1]);
    const FN(pair) partner = FN(sub)(even, turned);
    y[k] = FN(add)(even, turned);
    y[n - k] = (FN(pair)){partner.re, -partner.im};
  }
}

/* The way back, without the halves; the parts of z exchanged. */
static void FN(to_even)(const FN(pair)* x, FN(pair)* z, int64_t n, const R* w) {
  z[0] = (FN(pair)){x[0].re - x[n].re, x[0].re + x[n].re};
  for (int64_t k = 1; k <= n / 2; k++) {
    const FN(pair) a = x[k], b = {x[n - k].re, -x[n - k].im};
    const FN(pair) even = FN(add)(a, b), odd = FN(times)(FN(sub)(a, b), w[2 * k], -w[2 * k + 1]);
    const FN(pair) here = FN(add_i)(even, odd), there = FN(sub_i)(even, odd);
    z[k] = (FN(pair)){here.im, here.re};
    z[n - k] = (FN(pair)){-there.im, there.re};
  }
}

/* The first halves of the spectra of two real lines: from the transform of one as the real, one as the imaginary part. */
static void FN(from_pair)(const FN(pair)* z, FN(pair)* first, FN(pair)* second, int64_t n) {
  const FN(vector) zero = {0};

  first[0] = (FN(pair)){z[0].re, zero};
  second[0] = (FN(pair)){z[0].im, zero};
  for (int64_t k = 1; k <= n / 2; k++) {
    const FN(pair) a = z[k], b = {z[n - k].re, -z[n - k].im};
    const FN(pair) sum = FN(scaled)(FN(add)(a, b), (R)0.5), difference = FN(scaled)(FN(sub)(a, b), (R)0.5);
    first[k] = sum;
    second[k] = (FN(pair)){difference.im, -difference.re};
  }
}

/* The way back; the parts of z exchanged. */
static void FN(to_pair)(const FN(pair)* first, const FN(pair)* second, FN(pair)* z, int64_t n) {
  z[0] = (FN(pair)){second[0].re, first[0].re};
  for (int64_t k = 1; k <= n / 2; k++) {
    const FN(pair) a = FN(add_i)(first[k], second[k]), b = FN(sub_i)(first[k], second[k]);
    z[k] = (FN(pair)){a.im, a.re};
    z[n - k] = (FN(pair)){-b.im, b.re};
  }
}

/* Note [Pairs of real lines]
 * An infinity or a NaN in one of two lines that are transformed as one would reach the other's result. The first element
 * of the result is the sum of all that went in; when that is not finite, the two are done again, each with zeros for
 * partner.
 */
static bool FN(is_finite)(FN(pair) sum) {
  const FN(vector) none = sum.re * 0 + sum.im * 0;

  for (int l = 0; l < LANES; l++)
    if (!(none[l] == 0)) return false;
  return true;
}

/* Pairs, one after the other. x, y, work: as in fft_block. */
static void FN(from_single)(const shmt__fft_block* b, FN(pair)* x, FN(pair)* y, FN(pair)* work) {
  const int64_t n = b->steps->length;
  const R scale = (R)b->scale;

  for (int i = 0; i < 2; i++) {
    shmt__fft_place in = b->in[0];
    memcpy(i == 0 ? in.im : in.re, i == 0 ? in.re : in.im, sizeof in.re);
    FN(load)(&in, n, x, false);
    for (int64_t k = 0; k < n; k++) x[k].im = (FN(vector)){0};
    FN(store_spectrum)(&b->out[i], n, b->is_whole, FN(transform)(b->steps, x, y, work), scale,
                       b->is_forward ? scale : -scale);
  }
}

static void FN(to_single)(const shmt__fft_block* b, FN(pair)* x, FN(pair)* y, FN(pair)* work) {
  const int64_t n = b->steps->length, half = n / 2 + 1;
  const R scale = (R)b->scale;

  for (int i = 0; i < 2; i++) {
    shmt__fft_place out = b->out[0];
    memcpy(i == 0 ? out.im : out.re, i == 0 ? out.re : out.im, sizeof out.re);
    FN(load)(&b->in[i], half, y, false);
    memset(y + half, 0, (size_t)half * sizeof *y);
    FN(to_pair)(y, y + half, x, n);
    const FN(pair)* const z = FN(transform)(b->steps, x, y, work);
    FN(store)(&out, n, &(FN(values)){&z->im, &z->im, 2, scale, scale});
  }
}

static void FN(run_block)(const shmt__fft_block* b, FN(pair)* x) {
  const int64_t n = b->steps->length, half = n / 2 + 1;
  FN(pair) *y = x + b->room, *work = y + b->room, *z, *first;
  const R scale = (R)b->scale, im_scale = b->is_forward ? scale : -scale;

  switch (b->kind) {
    case SHMT_FFT_COMPLEX:
      FN(load)(&b->in[0], n, x, !b->is_forward);
      FN(store_scaled)(&b->out[0], n, FN(transform)(b->steps, x, y, work), !b->is_forward, scale);
      break;
    case SHMT_FFT_FROM_EVEN:
      FN(load)(&b->in[0], n, x, false);
      z = FN(transform)(b->steps, x, y, work);
      first = z == x ? y : x;
      FN(from_even)(z, first, n, b->halves);
      FN(store_spectrum)(&b->out[0], 2 * n, b->is_whole, first, scale, im_scale);
      break;
    case SHMT_FFT_FROM_PAIR:
      FN(load)(&b->in[0], n, x, false);
      z = FN(transform)(b->steps, x, y, work);
      if (!FN(is_finite)(z[0])) {
        FN(from_single)(b, x, y, work);
        break;
      }
      first = z == x ? y : x;
      FN(from_pair)(z, first, first + half, n);
      FN(store_spectrum)(&b->out[0], n, b->is_whole, first, scale, im_scale);
      FN(store_spectrum)(&b->out[1], n, b->is_whole, first + half, scale, im_scale);
      break;
    case SHMT_FFT_TO_EVEN:
      FN(load)(&b->in[0], n + 1, y, false);
      FN(to_even)(y, x, n, b->halves);
      FN(store_scaled)(&b->out[0], n, FN(transform)(b->steps, x, y, work), true, scale);
      break;
    case SHMT_FFT_TO_PAIR:
      FN(load)(&b->in[0], half, y, false);
      FN(load)(&b->in[1], half, y + half, false);
      FN(to_pair)(y, y + half, x, n);
      z = FN(transform)(b->steps, x, y, work);
      if (FN(is_finite)(z[0]))
        FN(store_scaled)(&b->out[0], n, z, true, scale);
      else
        FN(to_single)(b, x, y, work);
      break;
    case SHMT_FFT_RUNS: break; /* not here */
  }
}

void SHMT_LOOP(fft_block)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  shmt__fft_block b = *(const shmt__fft_block*)ctx;
  const int ins = b.kind == SHMT_FFT_TO_PAIR ? 2 : 1, outs = b.kind == SHMT_FFT_FROM_PAIR ? 2 : 1;

  (void)strides;
  while (true) {
    if (b.kind == SHMT_FFT_RUNS)
      FN(run_block_of_run)(&b, (FN(run_of_run)*)(void*)data[0]);
    else
      FN(run_block)(&b, (FN(pair)*)(void*)data[0]);
    if (--n <= 0) return;
    for (int i = 0; i < ins; i++) b.in[i].at += b.in[i].next;
    for (int i = 0; i < outs; i++) b.out[i].at += b.out[i].next;
  }
}

/* LANES elements of a dense line, forwards or the last one first. */
INLINE FN(pair) FN(get_run)(const R* from) {
  const FN(vector) u = FN(get)(from), v = FN(get)(from + LANES);
  return (FN(pair)){EVENS(u, v), ODDS(u, v)};
}
INLINE FN(pair) FN(get_run_back)(const R* from) {
  const FN(vector) u = FN(get)(from), v = FN(get)(from + LANES);
  return (FN(pair)){EVENS_BACK(u, v), ODDS_BACK(u, v)};
}
INLINE void FN(put_run)(R* to, FN(pair) a) {
  FN(put)(to, LOW(a.re, a.im));
  FN(put)(to + LANES, HIGH(a.re, a.im));
}
INLINE void FN(put_run_back)(R* to, FN(pair) a) {
  FN(put)(to, LOW_BACK(a.re, a.im));
  FN(put)(to + LANES, HIGH_BACK(a.re, a.im));
}

/* --- one line as a matrix ----------------------------------------------------------------------- */

/* Some elements, fewer than LANES, of a dense line. */
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

/* `count` columns of n rows, n2 numbers apart, which nobody writes to. swap: parts exchanged. */
static void FN(load_columns)(const R* from, int64_t n2, int64_t count, int64_t n, FN(pair)* x, bool swap) {
  FN(vector) *re = (FN(vector)*)x + swap, *im = (FN(vector)*)x + !swap;
  /* Lanes without a column take some of the next row, where there is one. */
  const int64_t whole = count < LANES ? n - (LANES - 1) / n2 - 1 : n;

  for (int64_t i = 0; i < n; i++, from += 2 * n2) {
    const FN(pair) a = i < whole ? FN(get_run)(from) : FN(get_some)(from, count);
    re[2 * i] = a.re;
    im[2 * i] = a.im;
  }
}

/* The n elements of 2n real numbers from element k on, from the first half of their spectrum: n + 1 elements; parts
 * exchanged. A run of them is of one half. Elements [0, n / 2] of w are given, the others mirror them. */
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
  /* The outermost are real. */
  const R ai = k > 0 ? a[1] : 0, bi = k > 0 ? b[1] : 0;
  const R er = a[0] + b[0], ei = ai - bi, dr = a[0] - b[0], di = ai + bi;
  const R tr = dr * vr + di * vi, ti = di * vr - dr * vi;
  *re = ei + tr;
  *im = er - ti;
}

/* Columns [column, column + count) of such a line as a matrix. */
static void FN(load_even)(const shmt__fft_line* c, const R* from, int64_t column, int64_t count, FN(pair)* x) {
  const int64_t n1 = c->split->columns.length, n2 = c->split->rows.length, n = n1 * n2;
  const R* w = c->halves;

  for (int64_t row = 0; row < n1; row++) {
    const int64_t k = row * n2 + column;
    /* Lanes without a column take some of the next row, where there is one. */
    if (k > 0 && k + LANES - 1 <= n && (k + LANES - 1 <= n / 2 || k >= n - n / 2)) {
      x[row] = FN(even_run)(from, n, k, w);
      continue;
    }
    R *re = (R*)&x[row].re, *im = (R*)&x[row].im;
    for (int64_t l = 0; l < LANES; l++) FN(even_element)(from, n, k + (l < count ? l : count - 1), w, &re[l], &im[l]);
  }
}

/* LANES elements of columns that have been transformed, times their factors, to a run of each of `count` rows,
 * `row` numbers apart. */
INLINE void FN(put_columns)(const FN(pair)* z, const FN(pair)* turns, R* to, int64_t row, int64_t count) {
  FN(vector) re[LANES], im[LANES];

#pragma GCC unroll 16
  for (int q = 0; q < LANES; q++) {
    const FN(pair) v = z[q], w = turns[q];
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

/* The same for n elements, fewer than LANES: as complex numbers, unless there is room for a run. */
static void FN(put_last_columns)(const FN(pair)* z, const FN(pair)* turns, R* to, int64_t row, int64_t count, int64_t n) {
  FN(pair) last[LANES], by[LANES];

  for (int64_t q = 0; q < LANES; q++) {
    last[q] = z[q < n ? q : n - 1];
    by[q] = turns[q < n ? q : n - 1];
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
  const shmt__fft_line* c = ctx;
  const int64_t n1 = c->split->columns.length, n2 = c->split->rows.length;
  const R* line = (const R*)(const void*)data[1];
  FN(pair) *x = (FN(pair)*)(void*)data[2], *y = x + n1, *work = y + n1;

  (void)strides;
  for (int64_t b = c->begin; b < c->begin + n; b++) {
    const int64_t count = n2 - b * LANES < LANES ? n2 - b * LANES : LANES;
    const FN(pair)* turns = (const FN(pair)*)c->split->turns + b * n1;
    R* to = (R*)(void*)data[0] + b * LANES * c->row;
    if (c->halves)
      FN(load_even)(c, line, b * LANES, count, x);
    else
      FN(load_columns)(line + 2 * b * LANES, n2, count, n1, x, c->swap_in);
    const FN(pair)* z = FN(transform)(&c->split->columns, x, y, work);
    int64_t k = 0;
    for (; k + LANES <= n1; k += LANES, to += c->block) FN(put_columns)(z + k, turns + k, to, c->row, count);
    if (k < n1) FN(put_last_columns)(z + k, turns + k, to, c->row, count, n1 - k);
  }
}

/* Transform LANES rows of what fft_columns has left; where the result is: x or y. */
static FN(pair)* FN(transform_rows)(const shmt__fft_line* c, const R* from, FN(pair)* x, FN(pair)* y, FN(pair)* work) {
  const int64_t n2 = c->split->rows.length;

  if (c->row % (2 * LANES) == 0 && (uintptr_t)from % VECTOR_BYTES == 0 && n2 > 1) {
    FN(take_step)(&c->split->rows.step[0], (const FN(pair)*)(const void*)from, y, c->row / (2 * LANES), work);
    return FN(transform_from)(&c->split->rows, 1, y, x, work);
  }
  for (int64_t i = 0; i < n2; i++, from += c->row) x[i] = (FN(pair)){FN(get)(from), FN(get)(from + LANES)};
  return FN(transform)(&c->split->rows, x, y, work);
}

/* Store rows as columns, n1 elements apart. `next` are those of the next rows, which are fetched. */
static void FN(store_rows)(const shmt__fft_line* c, R* to, const R* next, const FN(pair)* z) {
  const int64_t n1 = c->split->columns.length, n2 = c->split->rows.length;
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

/* The same for some rows, fewer than LANES. */
static void FN(store_last_rows)(const shmt__fft_line* c, R* to, const FN(pair)* z, int64_t count) {
  const int64_t n1 = c->split->columns.length, n2 = c->split->rows.length;

  for (int64_t i = 0; i < n2; i++, to += 2 * n1) {
    const FN(pair) a = FN(scaled)(z[i], (R)c->scale);
    FN(put_some)(to, c->swap_out ? (FN(pair)){a.im, a.re} : a, count);
  }
}

void SHMT_LOOP(fft_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_line* c = ctx;
  const int64_t n1 = c->split->columns.length, n2 = c->split->rows.length, end = c->begin + n;
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
      FN(store_last_rows)(c, to, FN(transform)(&c->split->rows, x, y, work), count);
    }
  }
}

#include "kernels/fft_passes.tmpl.h"

#pragma GCC pop_options
#undef R
#undef LANES
#undef EVENS
#undef ODDS
#undef LOW
#undef HIGH
#undef LOW_2
#undef HIGH_2
#undef RE_PARTS
#undef IM_PARTS
#undef FIRST_LINES
#undef OTHER_LINES
#undef RUN
#undef LINE
#undef JOINED
#undef FIRST
#undef SECOND
#undef EVENS_BACK
#undef ODDS_BACK
#undef LOW_BACK
#undef HIGH_BACK
#undef INLINE
#undef SHORT_ELEMENTS
#undef ANY
#undef VECTOR_BYTES
