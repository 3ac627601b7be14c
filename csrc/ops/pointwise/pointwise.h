/* ops/pointwise/pointwise.h -- runs operators that are a single element-wise loop.
 *
 * There is one function for each set of arguments (unary, binary, with scalars, ...). A spec entry with `kernel: NAME`
 * becomes a call of
 *   shmt__pointwise_NAME(&record, <schema arguments>, shmt_tensor** out)
 * where the record names the loop and *out is as in docs/architecture.md, "Structured outputs". */
#ifndef SHMT_OPS_POINTWISE_POINTWISE_H
#define SHMT_OPS_POINTWISE_POINTWISE_H

#include "iter/iter.h"

typedef struct shmt__pointwise {
  const char* name; /* operator, for messages */
  uint32_t row; /* SHMT_LOOP_<name>: shmt__loops[row][dtype], NULL where the dtype has no loop */
  shmt__promote promote;
  shmt_dtype result; /* fixed result dtype, or SHMT_DTYPE_NONE */
  bool exact_out; /* refuse an out= of another dtype instead of casting to it */
} shmt__pointwise;

/* The loop for dtype. Errors: those of shmt__no_kernel. */
shmt_status shmt__pointwise_loop(const shmt__pointwise* p, shmt_dtype dtype, shmt__loop* out);

shmt_status shmt__pointwise_unary(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor** out);
/* The suffix is the number of scalar arguments. The loop gets them as ctx, an array of shmt_scalar. */
shmt_status shmt__pointwise_unary_1(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                 shmt_tensor** out);
shmt_status shmt__pointwise_unary_2(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                 shmt_scalar b, shmt_tensor** out);
/* As unary_2, but in-place calls on tensors whose elements overlap are allowed: for functions that give the same result
 * when they are applied twice. */
shmt_status shmt__pointwise_unary_2_overlapping(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                             shmt_scalar b, shmt_tensor** out);
shmt_status shmt__pointwise_unary_3(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                 shmt_scalar b, shmt_scalar c, shmt_tensor** out);
shmt_status shmt__pointwise_binary(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                shmt_tensor** out);
/* mul and div. A number, Python's or a 0-d tensor, beside a tensor of float16 or bfloat16 is taken as a float32 and not
 * rounded to the tensor's dtype. */
shmt_status shmt__pointwise_scaling(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                    shmt_tensor** out);
/* The loop's ctx is the scalar alpha, const shmt_scalar*. */
shmt_status shmt__pointwise_binary_alpha(const shmt__pointwise* p, shmt_tensor* self,
                                      shmt_tensor* other, shmt_scalar alpha, shmt_tensor** out);
/* As binary_alpha. Refuses bool tensors with torch's message. */
shmt_status shmt__pointwise_sub(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                             shmt_scalar alpha, shmt_tensor** out);
/* The loop's ctx is an int that it sets when an integer is divided by zero.
 * Errors: SHMT_E_RUNTIME "ZeroDivisionError". */
shmt_status shmt__pointwise_binary_division(const shmt__pointwise* p, shmt_tensor* self,
                                         shmt_tensor* other, shmt_tensor** out);
/* As binary_division, with numbers as in shmt__pointwise_scaling. */
shmt_status shmt__pointwise_rounded_division(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                             shmt_tensor** out);
/* heaviside. Refuses complex numbers and tensors of different dtypes. */
shmt_status shmt__pointwise_heaviside(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* values,
                                   shmt_tensor** out);
/* Two tensors and scalars in ctx. */
shmt_status shmt__pointwise_binary_1(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                  shmt_scalar a, shmt_tensor** out);
/* As binary_1 with the tensors swapped, so that a new result has the memory layout of `other`. */
shmt_status shmt__pointwise_binary_1_swapped(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                         shmt_scalar a, shmt_tensor** out);
shmt_status shmt__pointwise_binary_2(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                  shmt_scalar a, shmt_scalar b, shmt_tensor** out);
shmt_status shmt__pointwise_binary_3(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                  shmt_scalar a, shmt_scalar b, shmt_scalar c, shmt_tensor** out);
shmt_status shmt__pointwise_ternary(const shmt__pointwise* p, shmt_tensor* a, shmt_tensor* b,
                                 shmt_tensor* c, shmt_tensor** out);
shmt_status shmt__pointwise_ternary_1(const shmt__pointwise* p, shmt_tensor* a, shmt_tensor* b,
                                   shmt_tensor* c, shmt_scalar value, shmt_tensor** out);
/* addcdiv: as ternary_1. Refuses to divide integers by integers. */
shmt_status shmt__pointwise_addcdiv(const shmt__pointwise* p, shmt_tensor* a, shmt_tensor* b,
                                 shmt_tensor* c, shmt_scalar value, shmt_tensor** out);
/* hardtanh. Refuses negative limits for unsigned dtypes. */
shmt_status shmt__pointwise_hardtanh(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar low, shmt_scalar high,
                                  shmt_tensor** out);
/* softshrink. Refuses an `a` that is negative or above the largest number of self's dtype. */
shmt_status shmt__pointwise_softshrink(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                    shmt_tensor** out);
/* neg. Refuses bool. */
shmt_status shmt__pointwise_neg(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor** out);
/* The result of complex numbers is real (abs). */
shmt_status shmt__pointwise_unary_real(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor** out);
/* As unary_real; integers and bool give the default dtype (angle). */
shmt_status shmt__pointwise_unary_angle(const shmt__pointwise* p, shmt_tensor* self,
                                     shmt_tensor** out);

/* Runs the loop over n broadcast inputs, with any ctx. For operators that check or prepare more than the functions
 * above. */
shmt_status shmt__pointwise_run(const shmt__pointwise* p, shmt_tensor* const* inputs, int n,
                                const void* ctx, shmt_tensor** out);

#endif
