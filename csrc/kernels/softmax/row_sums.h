/* kernels/softmax/row_sums.h -- declares the functions of softmax.tmpl.h that the templates of attention call, too. */
#ifndef SHMT_KERNELS_SOFTMAX_ROW_SUMS_H
#define SHMT_KERNELS_SOFTMAX_ROW_SUMS_H

#include "kernels/template.h"

/* Declares functions of a contiguous row x of n elements of the compute type C:
 * row_max: the largest element; minus infinity when n is 0.
 * row_exp_stored: stores exp(x - shift) to out, which may be x, and returns their sum. No x is above shift by more than
 * 88. Results that are no normal numbers are 0: products with such numbers take a hundred times as long, and beside the
 * largest they do not show. */
#define SHMT_ROW_SUMS                               \
  C SHMT_FULL_LOOP(row_max)(const C* x, int64_t n); \
  C SHMT_FULL_LOOP(row_exp_stored)(const C* x, C* out, C shift, int64_t n);

#endif
