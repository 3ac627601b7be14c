/* kernels/fft/fft.tmpl.h -- Fourier transforms of signals in lanes, complex dtypes. See Note [Lanes] in
 * kernels/fft/fft.h.
 *
 * data: scratch (2 room + the largest radix elements: pairs of vectors); n: blocks of signals; ctx: shmt__fft_block,
 * the first.
 */
#include "kernels/fft/fft_vector.tmpl.h"

#include "kernels/fft/fft_load_store.tmpl.h"

/* Calculates the first half of the spectrum of 2n real numbers from the transform z of the n complex ones that they
 * are. */
static void FN(r2c_even)(const FN(pair)* z, FN(pair)* y, int64_t n, const R* w) {
  const FN(vector) zero = {0};

  y[0] = (FN(pair)){z[0].re + z[0].im, zero};
  y[n] = (FN(pair)){z[0].re - z[0].im, zero};
  for (int64_t k = 1; k <= n / 2; k++) {
    const FN(pair) a = z[k], b = {z[n - k].re, -z[n - k].im};
    const FN(pair) even = FN(scaled)(FN(add)(a, b), (R)0.5), odd = FN(scaled)(FN(sub)(a, b), (R)0.5);
    const FN(pair) twiddled = FN(times)((FN(pair)){odd.im, -odd.re}, w[2 * k], w[2 * k + 1]);
    const FN(pair) partner = FN(sub)(even, twiddled);
    y[k] = FN(add)(even, twiddled);
    y[n - k] = (FN(pair)){partner.re, -partner.im};
  }
}

/* The inverse of r2c_even, without its factors 1/2. Swaps the parts of z. */
static void FN(c2r_even)(const FN(pair)* x, FN(pair)* z, int64_t n, const R* w) {
  z[0] = (FN(pair)){x[0].re - x[n].re, x[0].re + x[n].re};
  for (int64_t k = 1; k <= n / 2; k++) {
    const FN(pair) a = x[k], b = {x[n - k].re, -x[n - k].im};
    const FN(pair) even = FN(add)(a, b), odd = FN(times)(FN(sub)(a, b), w[2 * k], -w[2 * k + 1]);
    const FN(pair) here = FN(add_i)(even, odd), there = FN(sub_i)(even, odd);
    z[k] = (FN(pair)){here.im, here.re};
    z[n - k] = (FN(pair)){-there.im, there.re};
  }
}

/* Calculates the first halves of the spectra of two real signals from the transform of the complex signal they are. */
static void FN(r2c_pair)(const FN(pair)* z, FN(pair)* first, FN(pair)* second, int64_t n) {
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

/* The inverse of r2c_pair. Swaps the parts of z. */
static void FN(c2r_pair)(const FN(pair)* first, const FN(pair)* second, FN(pair)* z, int64_t n) {
  z[0] = (FN(pair)){second[0].re, first[0].re};
  for (int64_t k = 1; k <= n / 2; k++) {
    const FN(pair) a = FN(add_i)(first[k], second[k]), b = FN(sub_i)(first[k], second[k]);
    z[k] = (FN(pair)){a.im, a.re};
    z[n - k] = (FN(pair)){-b.im, b.re};
  }
}

/* Note [Pairs of real signals]
 * An infinity or a NaN in one of two signals that are transformed as one would reach the other's result. The first
 * element of the result is the sum of all inputs. When it is not finite, the two signals are transformed again, each
 * with zeros for a partner.
 */
static bool FN(is_finite)(FN(pair) sum) {
  const FN(vector) none = sum.re * 0 + sum.im * 0;

  for (int l = 0; l < LANES; l++)
    if (!(none[l] == 0)) return false;
  return true;
}

/* Transforms the signals of pairs one after the other. x, y, work: as in fft_block. */
static void FN(from_single)(const shmt__fft_block* b, FN(pair)* x, FN(pair)* y, FN(pair)* work) {
  const int64_t n = b->steps->length;
  const R scale = (R)b->scale;

  for (int i = 0; i < 2; i++) {
    shmt__fft_place in = b->in[0];
    memcpy(i == 0 ? in.im : in.re, i == 0 ? in.re : in.im, sizeof in.re);
    FN(load)(&in, n, x, false);
    for (int64_t k = 0; k < n; k++) x[k].im = (FN(vector)){0};
    FN(store_spectrum)(&b->out[i], n, b->is_whole, FN(transformed)(b->steps, x, y, work), scale,
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
    FN(c2r_pair)(y, y + half, x, n);
    const FN(pair)* const z = FN(transformed)(b->steps, x, y, work);
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
      FN(store_scaled)(&b->out[0], n, FN(transformed)(b->steps, x, y, work), !b->is_forward, scale);
      break;
    case SHMT_FFT_R2C_EVEN:
      FN(load)(&b->in[0], n, x, false);
      z = FN(transformed)(b->steps, x, y, work);
      first = z == x ? y : x;
      FN(r2c_even)(z, first, n, b->real_twiddles);
      FN(store_spectrum)(&b->out[0], 2 * n, b->is_whole, first, scale, im_scale);
      break;
    case SHMT_FFT_R2C_PAIR:
      FN(load)(&b->in[0], n, x, false);
      z = FN(transformed)(b->steps, x, y, work);
      if (!FN(is_finite)(z[0])) {
        FN(from_single)(b, x, y, work);
        break;
      }
      first = z == x ? y : x;
      FN(r2c_pair)(z, first, first + half, n);
      FN(store_spectrum)(&b->out[0], n, b->is_whole, first, scale, im_scale);
      FN(store_spectrum)(&b->out[1], n, b->is_whole, first + half, scale, im_scale);
      break;
    case SHMT_FFT_C2R_EVEN:
      FN(load)(&b->in[0], n + 1, y, false);
      FN(c2r_even)(y, x, n, b->real_twiddles);
      FN(store_scaled)(&b->out[0], n, FN(transformed)(b->steps, x, y, work), true, scale);
      break;
    case SHMT_FFT_C2R_PAIR:
      FN(load)(&b->in[0], half, y, false);
      FN(load)(&b->in[1], half, y + half, false);
      FN(c2r_pair)(y, y + half, x, n);
      z = FN(transformed)(b->steps, x, y, work);
      if (FN(is_finite)(z[0]))
        FN(store_scaled)(&b->out[0], n, z, true, scale);
      else
        FN(to_single)(b, x, y, work);
      break;
    case SHMT_FFT_INTERLEAVED: break; /* kernels/fft/fft_complex.tmpl.h */
  }
}

void SHMT_LOOP(fft_block)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  shmt__fft_block b = *(const shmt__fft_block*)ctx;
  const int ins = b.kind == SHMT_FFT_C2R_PAIR ? 2 : 1, outs = b.kind == SHMT_FFT_R2C_PAIR ? 2 : 1;

  (void)strides;
  while (true) {
    FN(run_block)(&b, (FN(pair)*)(void*)data[0]);
    if (--n <= 0) return;
    for (int i = 0; i < ins; i++) b.in[i].at += b.in[i].next;
    for (int i = 0; i < outs; i++) b.out[i].at += b.out[i].next;
  }
}

#include "kernels/fft/fft_vector_end.tmpl.h"
