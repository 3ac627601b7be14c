/* ops/fft/roots_of_unity.c -- roots of unity from two small tables. */
#include "ops/fft/roots_of_unity.h"

#include "generated/dtype_tables.h"

#include <math.h>
#include <stdlib.h>

typedef struct root {
  long double re, im;
} root;

struct shmt__fft_roots {
  int64_t n, block; /* root k is high[k / block] low[k % block] */
  root* high;
  root* low;
};

/* exp(-2 pi i k / n). The angle is taken from the nearest quarter turn, so that all roots are as exact as sin and cos
 * are. */
static root make_root(int64_t k, int64_t n) {
  const int64_t quarter = (4 * k + n / 2) / n;
  const long double angle =
      1.57079632679489661923132169163975144L * (long double)(4 * k - quarter * n) / (long double)n;
  const long double c = cosl(angle), s = sinl(angle);

  switch (quarter % 4) {
    case 0: return (root){c, -s};
    case 1: return (root){-s, -c};
    case 2: return (root){-c, s};
    default: return (root){s, c};
  }
}

shmt_status shmt__fft_roots_create(int64_t n, shmt__fft_roots** out) {
  const int64_t block = (int64_t)sqrt((double)n) + 1, blocks = (n - 1) / block + 1;
  shmt__fft_roots* r = malloc(sizeof *r + (size_t)(block + blocks) * sizeof(root));

  SHMT_REQUIRE(r != NULL, SHMT_E_NOMEM, "roots of a Fourier transform");
  void* const tables = r + 1;
  *r = (shmt__fft_roots){n, block, tables, (root*)tables + blocks};
  for (int64_t k = 0; k < blocks; k++) r->high[k] = make_root(k * block, n);
  for (int64_t k = 0; k < block; k++) r->low[k] = make_root(k, n);
  *out = r;
  return SHMT_OK;
}

void shmt__fft_roots_release(shmt__fft_roots* r) { free(r); }

void shmt__fft_root_put_parts(const shmt__fft_roots* r, int64_t k, shmt_dtype dtype, void* re, void* im) {
  root w;

  k %= r->n;
  if (8 * k % r->n == 0) {
    w = make_root(k, r->n);
  } else {
    const root a = r->high[k / r->block], b = r->low[k % r->block];
    w = (root){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  if (dtype == SHMT_COMPLEX64) {
    *(float*)re = (float)w.re;
    *(float*)im = (float)w.im;
  } else {
    *(double*)re = (double)w.re;
    *(double*)im = (double)w.im;
  }
}

void shmt__fft_root_put(const shmt__fft_roots* r, int64_t k, shmt_dtype dtype, void* to) {
  shmt__fft_root_put_parts(r, k, dtype, to, (char*)to + shmt__dtype_size[dtype] / 2);
}
