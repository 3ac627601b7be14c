/* kernels/fft.tmpl.h -- discrete Fourier transforms of lines. Complex dtypes.
 *
 * fft: data: lines, scratch of the same kind for one line; n: lines, dense, one after the other, transformed in place; ctx:
 * shmt__fft_plan of one whose prime factors are small. Stockham's ordering: a step of radix p takes the
 * transform of length m * p at stride s from one array to the other, already in its final order, so nothing is permuted.
 *
 * fft_hermitian: data: whole lines, their first halves; n: lines; fills in x[length - k] = conj(x[k]).
 *
 * Source: Swarztrauber, "FFT algorithms for vector computers", 1984.
 */
#include "kernels/loops.h"
#include "kernels/shapes.h"

#define R __typeof__(_Generic((C)0, float _Complex: (float)0, default: (double)0))

/* One step of any radix: sums over the p inputs of a butterfly, by the table. */
static void SHMT_LOOP(fft_step_any)(const shmt__fft_plan* p, const R* x, R* y, int64_t radix, int64_t m, int64_t s) {
  const R* table = p->table;
  const int64_t length = p->length, turn = length / radix;
  const R sign = p->is_forward ? 1 : -1;

  for (int64_t j = 0; j < m; j++)
    for (int64_t t = 0; t < radix; t++) {
      const int64_t w = j * t * s % length;
      const R wr = table[2 * w], wi = sign * table[2 * w + 1];
      for (int64_t k = 0; k < s; k++) {
        R re = 0, im = 0;
        for (int64_t r = 0; r < radix; r++) {
          const int64_t v = r * t % radix * turn, at = 2 * (k + s * (j + m * r));
          const R vr = table[2 * v], vi = sign * table[2 * v + 1];
          re += x[at] * vr - x[at + 1] * vi;
          im += x[at] * vi + x[at + 1] * vr;
        }
        const int64_t to = 2 * (k + s * (radix * j + t));
        y[to] = re * wr - im * wi;
        y[to + 1] = re * wi + im * wr;
      }
    }
}

static void SHMT_LOOP(fft_step_2)(const shmt__fft_plan* p, const R* x, R* y, int64_t m, int64_t s) {
  const R* table = p->table;
  const R sign = p->is_forward ? 1 : -1;

  for (int64_t j = 0; j < m; j++) {
    const R wr = table[2 * j * s], wi = sign * table[2 * j * s + 1];
    const R *a = x + 2 * s * j, *b = x + 2 * s * (j + m);
    R *to = y + 2 * s * 2 * j, *more = to + 2 * s;
    SHMT_IVDEP for (int64_t k = 0; k < s; k++) {
      const R dr = a[2 * k] - b[2 * k], di = a[2 * k + 1] - b[2 * k + 1];
      to[2 * k] = a[2 * k] + b[2 * k];
      to[2 * k + 1] = a[2 * k + 1] + b[2 * k + 1];
      more[2 * k] = dr * wr - di * wi;
      more[2 * k + 1] = dr * wi + di * wr;
    }
  }
}

static void SHMT_LOOP(fft_step_4)(const shmt__fft_plan* p, const R* x, R* y, int64_t m, int64_t s) {
  const R* table = p->table;
  const R sign = p->is_forward ? 1 : -1;

  for (int64_t j = 0; j < m; j++) {
    const int64_t i1 = 2 * j * s, i2 = 2 * i1, i3 = 3 * i1;
    const R w1r = table[i1], w1i = sign * table[i1 + 1], w2r = table[i2], w2i = sign * table[i2 + 1];
    const R w3r = table[i3], w3i = sign * table[i3 + 1];
    const R *a = x + 2 * s * j, *b = a + 2 * s * m, *c = b + 2 * s * m, *d = c + 2 * s * m;
    R *y0 = y + 2 * s * 4 * j, *y1 = y0 + 2 * s, *y2 = y1 + 2 * s, *y3 = y2 + 2 * s;
    SHMT_IVDEP for (int64_t k = 0; k < 2 * s; k += 2) {
      const R sum_r = a[k] + c[k], sum_i = a[k + 1] + c[k + 1], dif_r = a[k] - c[k], dif_i = a[k + 1] - c[k + 1];
      const R bdr = b[k] + d[k], bdi = b[k + 1] + d[k + 1];
      /* (b - d) turned by -i forwards, by i backwards */
      const R tr = sign * (b[k + 1] - d[k + 1]), ti = sign * (d[k] - b[k]);
      const R e1r = dif_r + tr, e1i = dif_i + ti, e2r = sum_r - bdr, e2i = sum_i - bdi, e3r = dif_r - tr, e3i = dif_i - ti;
      y0[k] = sum_r + bdr;
      y0[k + 1] = sum_i + bdi;
      y1[k] = e1r * w1r - e1i * w1i;
      y1[k + 1] = e1r * w1i + e1i * w1r;
      y2[k] = e2r * w2r - e2i * w2i;
      y2[k + 1] = e2r * w2i + e2i * w2r;
      y3[k] = e3r * w3r - e3i * w3i;
      y3[k + 1] = e3r * w3i + e3i * w3r;
    }
  }
}

/* Transform one line; the result is in `line`, times the plan's scale. */
static void SHMT_LOOP(fft_line)(const shmt__fft_plan* p, R* line, R* scratch) {
  R *x = line, *y = scratch;
  int64_t rest = p->length, s = 1;
  const R scale = (R)p->scale;

  for (int f = 0; f < p->n_factors; f++) {
    const int64_t radix = p->factors[f];
    rest /= radix;
    if (radix == 4)
      SHMT_LOOP(fft_step_4)(p, x, y, rest, s);
    else if (radix == 2)
      SHMT_LOOP(fft_step_2)(p, x, y, rest, s);
    else
      SHMT_LOOP(fft_step_any)(p, x, y, radix, rest, s);
    s *= radix;
    R* const other = x;
    x = y;
    y = other;
  }
  if (x != line || scale != 1)
    for (int64_t i = 0; i < 2 * p->length; i++) line[i] = x[i] * scale;
}

void SHMT_LOOP(fft)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_plan* p = ctx;

  (void)strides;
  for (int64_t i = 0; i < n; i++)
    SHMT_LOOP(fft_line)(p, (R*)(void*)data[0] + 2 * i * p->length, (R*)(void*)data[1]);
}

/* b = b * a by elements; conjugate: of both, before and after. */
static void SHMT_LOOP(fft_multiply)(R* b, const R* a, int64_t n, R sign) {
  SHMT_IVDEP for (int64_t i = 0; i < n; i++) {
    const R br = b[2 * i], bi = b[2 * i + 1], ar = a[2 * i], ai = sign * a[2 * i + 1];
    b[2 * i] = br * ar - bi * ai;
    b[2 * i + 1] = br * ai + bi * ar;
  }
}

/* fft for lengths with a large prime factor (Bluestein): as a convolution with a chirp, by transforms of p->inner's
 * length. data: lines, two scratch lines of the inner length. */
void SHMT_LOOP(fft_chirp)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_plan* p = ctx;
  const shmt__fft_plan* in = p->inner;
  const R sign = p->is_forward ? 1 : -1;
  R* work = (R*)(void*)data[1];
  R* scratch = work + 2 * in->length;
  shmt__fft_plan ahead = *in, back = *in;

  (void)strides;
  ahead.is_forward = true;
  back.is_forward = false;
  back.scale = 1 / (double)in->length;
  for (int64_t i = 0; i < n; i++) {
    R* line = (R*)(void*)data[0] + 2 * i * p->length;
    SHMT_LOOP(fft_multiply)(line, p->chirp, p->length, sign);
    for (int64_t k = 0; k < 2 * p->length; k++) work[k] = line[k];
    for (int64_t k = 2 * p->length; k < 2 * in->length; k++) work[k] = 0;
    SHMT_LOOP(fft_line)(&ahead, work, scratch);
    /* The chirp is even, so the transform of its conjugate is the conjugate of its transform. */
    SHMT_LOOP(fft_multiply)(work, p->chirp_transform, in->length, sign);
    SHMT_LOOP(fft_line)(&back, work, scratch);
    SHMT_LOOP(fft_multiply)(work, p->chirp, p->length, sign);
    for (int64_t k = 0; k < 2 * p->length; k++) line[k] = work[k] * (R)p->scale;
  }
}

void SHMT_LOOP(fft_hermitian)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_plan* p = ctx;
  const int64_t length = p->length, half = length / 2 + 1;

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    R* to = (R*)(void*)data[0] + 2 * i * length;
    const R* from = (const R*)(const void*)data[1] + 2 * i * half;
    for (int64_t k = 0; k < half; k++) {
      to[2 * k] = from[2 * k];
      to[2 * k + 1] = from[2 * k + 1];
    }
    /* What has no partner is real. */
    to[1] = 0;
    if (length % 2 == 0) to[length + 1] = 0;
    for (int64_t k = half; k < length; k++) {
      to[2 * k] = from[2 * (length - k)];
      to[2 * k + 1] = -from[2 * (length - k) + 1];
    }
  }
}
#undef R
