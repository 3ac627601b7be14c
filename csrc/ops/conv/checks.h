/* ops/conv/checks.h -- the arguments of a convolution: checks with torch's errors, and the output's sizes. */
#ifndef SHMT_OPS_CONV_CHECKS_H
#define SHMT_OPS_CONV_CHECKS_H

#include "ops/conv/problem.h"

/* What every convolution operator takes besides tensors; lists have one element, or one for each spatial dim. */
typedef struct shmt__conv_params {
  shmt_ints stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
  int n; /* spatial dims */
} shmt__conv_params;

/* Errors: SHMT_E_RUNTIME, as torch's. */
shmt_status shmt__conv_check_params(const shmt__conv_params* p);
/* Do dtypes, channels and groups fit each other? bias may be NULL. Errors: SHMT_E_RUNTIME, as torch's. */
shmt_status shmt__conv_check_tensors(const shmt__conv_params* p, shmt_tensor* input, shmt_tensor* weight,
                                     shmt_tensor* bias);
/* sizes = those of the output. Errors: SHMT_E_RUNTIME where it would be empty or overflow. */
shmt_status shmt__conv_output_sizes(const shmt__conv_params* p, const shmt_tensor* input, const shmt_tensor* weight,
                                    int64_t* sizes);
/* Fill c from the sizes of the input and the output (of a transposed convolution: of the output and the input) and of
 * the weight; dtype is the one to calculate in. Missing spatial dims become leading dims of size 1. */
void shmt__conv_fill(const shmt__conv_params* p, shmt_ints images, shmt_ints outputs, const shmt_tensor* weight,
                     shmt_dtype dtype, shmt__conv* c);

#endif
