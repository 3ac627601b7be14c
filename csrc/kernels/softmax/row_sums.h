/* kernels/softmax/row_sums.h -- declares the functions of softmax.tmpl.h that the templates of attention call, too. */
#ifndef SHMT_KERNELS_SOFTMAX_ROW_SUMS_H
#define SHMT_KERNELS_SOFTMAX_ROW_SUMS_H

#include "kernels/template.h"

/* Declares functions of a contiguous row x of n elements of the compute type C:
 * row_max: the largest element; minus infinity when n is 0.
 * row_exp_stored: stores exp(x - shift) to out, which may be x, and returns their sum.
 * row_weights_stored: the same, but 0 where the result is subnormal: products with such numbers take a hundred times as
 * long, and as weights beside 1 they do not show. */
#define SHMT_ROW_SUMS                                                       \
  C SHMT_FULL_LOOP(row_max)(const C* x, int64_t n);                         \
  C SHMT_FULL_LOOP(row_exp_stored)(const C* x, C* out, C shift, int64_t n); \
  C SHMT_FULL_LOOP(row_weights_stored)(const C* x, C* out, C shift, int64_t n);

#endif
