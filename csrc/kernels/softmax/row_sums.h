/* kernels/softmax/row_sums.h -- what kernels/softmax/softmax.tmpl.h lends to the templates of attention, in the type C that they calculate in. */
#ifndef SHMT_KERNELS_SOFTMAX_ROW_SUMS_H
#define SHMT_KERNELS_SOFTMAX_ROW_SUMS_H

#include "kernels/loops.h"

/* Declares for C, of dense rows of n elements x:
 * row_max: the greatest; minus infinity if there is none.
 * row_exp_stored: the sum of exp(x - shift), which go to out; out may be x. */
#define SHMT_ROW_SUMS                                                       \
  C SHMT_FULL_LOOP(row_max)(const C* x, int64_t n);                         \
  C SHMT_FULL_LOOP(row_exp_stored)(const C* x, C* out, C shift, int64_t n);

#endif
