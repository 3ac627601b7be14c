/* ops/svd_wide.c -- singular values and vectors of small wide matrices, by way of a bidiagonal matrix. */
#include "ops/svd_wide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 }; /* elements: with more, an LQ decomposition first is faster */

bool shmt__svd_is_wide(shmt_dtype dtype, int64_t m, int64_t n) {
  return dtype == shmt__real_dtype(dtype) && m > 0 && n <= MOST && m * n <= MOST && n >= m * 11 / 6;
}

shmt_status shmt__svd_wide_find(shmt_dtype dtype, shmt__svd_wide_routines* out) {
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_gebrd, dtype, &out->gebrd));
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_bdsdc, dtype, &out->bdsdc));
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_ormbr, dtype, &out->ormbr));
  out->dtype = dtype;
  return SHMT_OK;
}

static bool is_double(const shmt__svd_wide_routines* r) { return r->dtype == SHMT_FLOAT64; }

bool shmt__svd_wide_fits(const shmt__svd_wide_routines* r, const shmt__batch* a, int64_t i) {
  const char* data = a->data + i * a->step;
  const double least = is_double(r) ? 1e-140 : 1e-15, most = is_double(r) ? 1e140 : 1e15;
  double largest = 0;

  for (int k = 0; k < a->columns; k++)
    for (int j = 0; j < a->rows; j++) {
      const int64_t at = (int64_t)k * a->ld + j;
      const double x = is_double(r) ? ((const double*)(const void*)data)[at]
                                    : (double)((const float*)(const void*)data)[at];
      largest = fmax(largest, fabs(x));
    }
  return largest > least && largest < most;
}

static void put_one(const shmt__svd_wide_routines* r, char* at) {
  if (is_double(r))
    *(double*)(void*)at = 1;
  else
    *(float*)(void*)at = 1;
}

/* An m x m matrix as the corner of one that has ones on the rest of its diagonal, and is 0 elsewhere. */
static void widen(const shmt__svd_wide_routines* r, const char* from, int m, const shmt__batch* to, int64_t i) {
  const int64_t item = is_double(r) ? 8 : 4;

  for (int k = 0; k < to->columns; k++) {
    char* column = to->data + i * to->step + (int64_t)k * to->ld * item;
    memset(column, 0, (size_t)(to->rows * item));
    if (k < m)
      memcpy(column, from + (int64_t)k * m * item, (size_t)(m * item));
    else if (k < to->rows)
      put_one(r, column + k * item);
  }
}

int shmt__svd_wide(const shmt__svd_wide_routines* r, const shmt__batch* a, const shmt__batch* u, const shmt__batch* v,
                   void* values, int64_t i) {
  const int m = a->rows, n = a->columns, order = SHMT_LAPACK_COLUMN_MAJOR;
  const int64_t item = is_double(r) ? 8 : 4, square = m * m * item;
  const shmt__lapack_ormbr ormbr = (shmt__lapack_ormbr)r->ormbr;
  char* room = malloc((size_t)(2 * square + 3 * m * item));

  if (!room) return SHMT_LAPACK_NO_WORK;
  char *left = room, *right = left + square, *tau_q = right + square, *tau_p = tau_q + m * item;
  char *beside = tau_p + m * item, *data = a->data + i * a->step; /* beside: of the diagonal */
  int info = ((shmt__lapack_gebrd)r->gebrd)(order, m, n, data, a->ld, values, beside, tau_q, tau_p);
  if (info == 0)
    info = ((shmt__lapack_bdsdc)r->bdsdc)(order, 'L', 'I', m, values, beside, left, m, right, m, NULL, NULL);
  if (info == 0) {
    widen(r, left, m, u, i);
    widen(r, right, m, v, i);
    info = ormbr(order, 'Q', 'L', 'N', m, m, n, data, a->ld, tau_q, u->data + i * u->step, u->ld);
  }
  if (info == 0)
    info = ormbr(order, 'P', 'R', 'T', v->rows, n, m, data, a->ld, tau_p, v->data + i * v->step, v->ld);
  free(room);
  return info;
}
