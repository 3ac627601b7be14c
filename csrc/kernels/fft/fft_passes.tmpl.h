/* kernels/fft/fft_passes.tmpl.h -- passes over one signal before and after its transform. Signals are dense unless said
 * otherwise; ctx: shmt__fft_pass. */
#include "kernels/fft/fft_vector.tmpl.h"

/* Interleaves. data: a dense complex signal, real parts, imaginary parts or NULL for zeros; strides: of the parts, in
 * real numbers. */
void SHMT_LOOP(fft_gather)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  R* to = (R*)(void*)data[0];
  const R *re = (const R*)(const void*)data[1], *im = (const R*)(const void*)data[2];

  (void)ctx;
  for (int64_t i = 0; i < n; i++) {
    to[2 * i] = re[i * strides[0]];
    to[2 * i + 1] = im ? im[i * strides[0]] : 0;
  }
}

/* The inverse. data: real parts, imaginary parts or NULL, a dense complex signal; strides: of the parts, in real
 * numbers. */
void SHMT_LOOP(fft_scatter)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  R *re = (R*)(void*)data[0], *im = (R*)(void*)data[1];
  const R* from = (const R*)(const void*)data[2];

  (void)ctx;
  for (int64_t i = 0; i < n; i++) {
    re[i * strides[0]] = from[2 * i];
    if (im) im[i * strides[0]] = from[2 * i + 1];
  }
}

/* Multiplies by the factor and the scale. data: result, signal (may be the same). */
void SHMT_LOOP(fft_multiply)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_pass* p = ctx;
  R* to = (R*)(void*)data[0];
  const R *from = (const R*)(const void*)data[1], *factor = p->factor;
  const int64_t in = p->swap_in, out = p->swap_out;
  const R scale = (R)p->scale;
  int64_t i = 0;

  (void)strides;
  for (; i + LANES <= n; i += LANES) {
    FN(pair) a = FN(get_run)(from + 2 * i), w = FN(scaled)(FN(get_run)(factor + 2 * i), scale);
    if (in) a = (FN(pair)){a.im, a.re};
    const FN(pair) b = {a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re};
    FN(put_run)(to + 2 * i, out ? (FN(pair)){b.im, b.re} : b);
  }
  for (; i < n; i++) {
    const R re = from[2 * i + in], im = from[2 * i + 1 - in], wr = factor[2 * i] * scale,
            wi = factor[2 * i + 1] * scale;
    to[2 * i + out] = re * wr - im * wi;
    to[2 * i + 1 - out] = re * wi + im * wr;
  }
}

/* Fills elements [n + 1, 2n) of a spectrum, which mirror the others. */
static void FN(mirror)(R* y, int64_t n) {
  int64_t k = 1;

  for (; k + LANES <= n; k += LANES) {
    const FN(pair) a = FN(get_run)(y + 2 * k);
    FN(put_run_back)(y + 2 * (2 * n - k - LANES + 1), (FN(pair)){a.re, -a.im});
  }
  for (; k < n; k++) {
    y[2 * (2 * n - k)] = y[2 * k];
    y[2 * (2 * n - k) + 1] = -y[2 * k + 1];
  }
}

/* Calculates the spectrum of 2n real numbers, its first half or all of it; its conjugate when not is_forward. data: the
 * transform of the n complex numbers that they are, with room for the spectrum. */
void SHMT_LOOP(fft_r2c_even)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_pass* p = ctx;
  R* y = (R*)(void*)data[0];
  const R *w = p->factor, sign = p->is_forward ? 1 : -1;
  const R re = y[0], im = y[1];
  int64_t k = 1;

  (void)strides;
  y[0] = re + im;
  y[1] = 0;
  y[2 * n] = re - im;
  y[2 * n + 1] = 0;
  /* Runs from the front and from the back, until they meet; there element by element. */
  for (; k + LANES <= n - k - LANES + 1; k += LANES) {
    R *front = y + 2 * k, *back = y + 2 * (n - k - LANES + 1);
    const FN(pair) a = FN(get_run)(front), b = FN(get_run_back)(back), v = FN(get_run)(w + 2 * k);
    const FN(vector) er = (a.re + b.re) * (R)0.5, ei = (a.im - b.im) * (R)0.5;
    const FN(vector) dr = (a.im + b.im) * (R)0.5, di = (b.re - a.re) * (R)0.5;
    const FN(vector) tr = dr * v.re - di * v.im, ti = dr * v.im + di * v.re;
    FN(put_run)(front, (FN(pair)){er + tr, (ei + ti) * sign});
    FN(put_run_back)(back, (FN(pair)){er - tr, (ti - ei) * sign});
  }
  for (; k <= n / 2; k++) {
    R *a = y + 2 * k, *b = y + 2 * (n - k);
    const R er = (a[0] + b[0]) * (R)0.5, ei = (a[1] - b[1]) * (R)0.5;
    const R dr = (a[1] + b[1]) * (R)0.5, di = (b[0] - a[0]) * (R)0.5;
    const R tr = dr * w[2 * k] - di * w[2 * k + 1], ti = dr * w[2 * k + 1] + di * w[2 * k];
    a[0] = er + tr;
    a[1] = (ei + ti) * sign;
    b[0] = er - tr;
    b[1] = (ti - ei) * sign;
  }
  if (p->is_whole) FN(mirror)(y, n);
}

/* Calculates n complex numbers whose inverse transform is 2n real numbers. data: these, the first half of the spectrum
 * of the real numbers. */
void SHMT_LOOP(fft_c2r_even)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_pass* p = ctx;
  R* z = (R*)(void*)data[0];
  const R *x = (const R*)(const void*)data[1], *w = p->factor;
  int64_t k = 1;

  (void)strides;
  z[0] = x[0] + x[2 * n];
  z[1] = x[0] - x[2 * n];
  for (; k + LANES <= n - k - LANES + 1; k += LANES) {
    const int64_t at = 2 * (n - k - LANES + 1);
    const FN(pair) a = FN(get_run)(x + 2 * k), b = FN(get_run_back)(x + at), v = FN(get_run)(w + 2 * k);
    const FN(vector) er = a.re + b.re, ei = a.im - b.im, dr = a.re - b.re, di = a.im + b.im;
    const FN(vector) tr = dr * v.re + di * v.im, ti = di * v.re - dr * v.im;
    FN(put_run)(z + 2 * k, (FN(pair)){er - ti, ei + tr});
    FN(put_run_back)(z + at, (FN(pair)){er + ti, tr - ei});
  }
  for (; k <= n / 2; k++) {
    const R *a = x + 2 * k, *b = x + 2 * (n - k);
    const R er = a[0] + b[0], ei = a[1] - b[1], dr = a[0] - b[0], di = a[1] + b[1];
    const R tr = dr * w[2 * k] + di * w[2 * k + 1], ti = di * w[2 * k] - dr * w[2 * k + 1];
    z[2 * k] = er - ti;
    z[2 * k + 1] = ei + tr;
    z[2 * (n - k)] = er + ti;
    z[2 * (n - k) + 1] = tr - ei;
  }
}

/* Completes half a spectrum by its mirror image. data: a dense complex signal, real parts and imaginary parts of the
 * first half; strides: of the parts; n: elements of the whole spectrum, an odd number. */
void SHMT_LOOP(fft_mirror)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  R* to = (R*)(void*)data[0];
  const R *re = (const R*)(const void*)data[1], *im = (const R*)(const void*)data[2];

  (void)ctx;
  to[0] = re[0];
  to[1] = 0;
  for (int64_t k = 1; k <= n / 2; k++) {
    const R a = re[k * strides[0]], b = im[k * strides[0]];
    to[2 * k] = to[2 * (n - k)] = a;
    to[2 * k + 1] = b;
    to[2 * (n - k) + 1] = -b;
  }
}

/* Calculates the spectra of two real signals of n elements, each its first half or all of it. data: the two spectra;
 * the transform of the signal whose real part is the one and whose imaginary part is the other; a flag, which is set,
 * with nothing else done, where the signals hold an infinity or a NaN (see Note [Pairs of real signals]). strides:
 * between the elements of the spectra, in real numbers. */
void SHMT_LOOP(fft_r2c_pair)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_pass* p = ctx;
  R *first = (R*)(void*)data[0], *second = (R*)(void*)data[1];
  const R* z = (const R*)(const void*)data[2];
  const int64_t step = strides[0], count = p->is_whole ? n : n / 2 + 1;
  const R sign = p->is_forward ? (R)0.5 : (R)-0.5;
  int64_t k = 1;

  if (!(z[0] * 0 + z[1] * 0 == 0)) {
    *data[3] = 1;
    return;
  }
  first[0] = z[0];
  second[0] = z[1];
  first[1] = second[1] = 0;
  for (; step == 2 && k + LANES <= count; k += LANES) {
    const FN(pair) a = FN(get_run)(z + 2 * k), b = FN(get_run_back)(z + 2 * (n - k - LANES + 1));
    FN(put_run)(first + 2 * k, (FN(pair)){(a.re + b.re) * (R)0.5, (a.im - b.im) * sign});
    FN(put_run)(second + 2 * k, (FN(pair)){(a.im + b.im) * (R)0.5, (b.re - a.re) * sign});
  }
  for (; k < count; k++) {
    const R *a = z + 2 * k, *b = z + 2 * (n - k);
    first[k * step] = (a[0] + b[0]) * (R)0.5;
    first[k * step + 1] = (a[1] - b[1]) * sign;
    second[k * step] = (a[1] + b[1]) * (R)0.5;
    second[k * step + 1] = (b[0] - a[0]) * sign;
  }
}

#include "kernels/fft/fft_vector_end.tmpl.h"
