/* ops/normalization/normalization.h -- checks, statistics and short rows, shared by all normalisations.
 *
 * Statistics are kept in double and stored in the input's dtype (float32 for 16-bit floats).
 */
#ifndef SHMT_OPS_NORMALIZATION_NORMALIZATION_H
#define SHMT_OPS_NORMALIZATION_NORMALIZATION_H

#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "kernels/loop_args.h"
#include "kernels/normalization/short_norm.h"
#include "ops/check.h"

#include <math.h>

/* Checks that the last dims of input, and weight and bias (either may be NULL), have this shape. Errors:
 * SHMT_E_RUNTIME. */
shmt_status shmt__check_normalized(const shmt_tensor* input, shmt_ints shape, const shmt_tensor* weight,
                                   const shmt_tensor* bias);

/* Checks that the parameters have the input's dtype, or are all float32 when the input is a 16-bit float. NULLs are
 * skipped; an empty input passes. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__check_norm_dtypes(const shmt_tensor* input, const shmt_tensor* const* parameters, int n);

/* t as a contiguous tensor of dtype, a new reference. *out stays NULL when t is NULL. */
static inline shmt_status shmt__norm_dense(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  if (!t) return SHMT_OK;
  SHMT_TRY(shmt__tensor_cast(t, dtype, &cast));
  return shmt__tensor_contiguous(cast, SHMT_CONTIGUOUS_FORMAT, out);
}

static inline char* shmt__norm_data(shmt_tensor* t) { return t ? shmt__tensor_data(t) : NULL; }

static inline shmt_dtype shmt__norm_stat_dtype(shmt_dtype dtype) { return shmt__is_half(dtype) ? SHMT_FLOAT32 : dtype; }

/* Element i of a dense t as a double; `missing` when t is NULL. */
static inline double shmt__norm_load(const shmt_tensor* t, int64_t i, double missing) {
  if (!t) return missing;
  if (SHMT_LIKELY(t->dtype == SHMT_FLOAT32)) return (double)((const float*)shmt__tensor_data(t))[i];
  return shmt__scalar_to_double(
      shmt__scalar_load((const char*)shmt__tensor_data(t) + i * shmt__tensor_item_bytes(t), t->dtype));
}

/* Stores element i of a dense t. Does nothing when t is NULL or empty. */
static inline void shmt__norm_store(shmt_tensor* t, int64_t i, double value) {
  if (!t || t->numel == 0) return;
  if (SHMT_LIKELY(t->dtype == SHMT_FLOAT32))
    ((float*)shmt__tensor_data(t))[i] = (float)value;
  else
    shmt__scalar_store_unsafe(shmt__scalar_float(value), t->dtype,
                              (char*)shmt__tensor_data(t) + i * shmt__tensor_item_bytes(t));
}

/* Contiguous rows of `length` elements to normalise. weight and bias, when not NULL, have a row's elements and the
 * dtype of x. The statistics are stored where their tensor is not NULL. */
typedef struct shmt__norm_rows {
  shmt_tensor *x, *out, *weight, *bias, *mean, *rstd;
  int64_t length;
  double eps;
  bool uncentred; /* RMS norm: the mean is not subtracted */
} shmt__norm_rows;

/* Normalises rows [begin, end), which have at most SHMT_SHORT_ROW elements, many rows at a time. */
void shmt__norm_short_rows(const shmt__norm_rows* j, int64_t begin, int64_t end);

/* The mean (0 when uncentred) and the inverse standard deviation of n contiguous elements. */
static inline void shmt__norm_moments(shmt_dtype dtype, char* x, int64_t n, double eps, bool uncentred, double* mean,
                                      double* scale) {
  shmt__norm_args shape = {0};
  double sum = 0, square = 0;
  char* data[3] = {(char*)&sum, x, NULL};

  if (!uncentred) shmt__loops[SHMT_LOOP_run_sum][dtype](data, NULL, n, &shape);
  *mean = sum / (double)n;
  shape.mean = *mean;
  data[0] = (char*)&square;
  shmt__loops[SHMT_LOOP_run_square][dtype](data, NULL, n, &shape);
  *scale = 1 / sqrt(square / (double)n + eps);
}

#endif
