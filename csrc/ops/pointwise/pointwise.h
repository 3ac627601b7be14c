/* ops/pointwise/pointwise.h -- operators that are one loop: what the generator hands to a family.
 *
 * An entry with `kernel: FAMILY` becomes a call of
 *   shmt__pointwise_FAMILY(&record, <schema arguments>, shmt_tensor** out)
 * with *out as in docs/architecture.md, "Structured outputs". */
#ifndef SHMT_OPS_POINTWISE_POINTWISE_H
#define SHMT_OPS_POINTWISE_POINTWISE_H

#include "iter/iter.h"

typedef struct shmt__pointwise {
  const char* name; /* operator, for messages */
  uint32_t row; /* SHMT_LOOP_<name>: shmt__loops[row][dtype], NULL where the dtype has no loop */
  shmt__promote promote;
  shmt_dtype result; /* fixed result dtype, or SHMT_DTYPE_NONE */
  bool exact_out; /* out= of another dtype is refused, not cast to */
} shmt__pointwise;

/* The loop for dtype. Errors: SHMT_E_NOT_IMPLEMENTED "\"add\" not implemented for 'Bool'". */
shmt_status shmt__pointwise_loop(const shmt__pointwise* p, shmt_dtype dtype, shmt__loop* out);

shmt_status shmt__pointwise_unary(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor** out);
/* ctx of the loop: an array of the scalars. */
shmt_status shmt__pointwise_unary_1(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                 shmt_tensor** out);
shmt_status shmt__pointwise_unary_2(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                 shmt_scalar b, shmt_tensor** out);
/* The same, in place of elements that share memory too: for what gives the same when it is done again. */
shmt_status shmt__pointwise_unary_2_overlapping(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                             shmt_scalar b, shmt_tensor** out);
shmt_status shmt__pointwise_unary_3(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                 shmt_scalar b, shmt_scalar c, shmt_tensor** out);
shmt_status shmt__pointwise_binary(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                shmt_tensor** out);
/* The loop's ctx is the scalar alpha, const shmt_scalar*. */
shmt_status shmt__pointwise_binary_alpha(const shmt__pointwise* p, shmt_tensor* self,
                                      shmt_tensor* other, shmt_scalar alpha, shmt_tensor** out);
/* The same, and torch's refusal of bool tensors. */
shmt_status shmt__pointwise_sub(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                             shmt_scalar alpha, shmt_tensor** out);
/* The loop's ctx is an int that it sets when an integer is divided by zero.
 * Errors: SHMT_E_RUNTIME "ZeroDivisionError". */
shmt_status shmt__pointwise_binary_division(const shmt__pointwise* p, shmt_tensor* self,
                                         shmt_tensor* other, shmt_tensor** out);
/* heaviside: refuses complex numbers and tensors of different dtypes. */
shmt_status shmt__pointwise_heaviside(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* values,
                                   shmt_tensor** out);
/* Two tensors, then numbers in ctx. */
shmt_status shmt__pointwise_binary_1(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                  shmt_scalar a, shmt_tensor** out);
/* The same, the tensors the other way round: a result lies in memory as the second does. */
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
/* The same; integers are refused. */
shmt_status shmt__pointwise_addcdiv(const shmt__pointwise* p, shmt_tensor* a, shmt_tensor* b,
                                 shmt_tensor* c, shmt_scalar value, shmt_tensor** out);
/* hardtanh: refuses negative limits of unsigned numbers. */
shmt_status shmt__pointwise_hardtanh(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar low, shmt_scalar high,
                                  shmt_tensor** out);
/* softshrink: a is from 0 to the largest number of self's dtype. */
shmt_status shmt__pointwise_softshrink(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                    shmt_tensor** out);
/* neg: refuses bool. */
shmt_status shmt__pointwise_neg(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor** out);
/* Complex numbers give real ones. */
shmt_status shmt__pointwise_unary_real(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor** out);
/* The same, and whole numbers give the default dtype. */
shmt_status shmt__pointwise_unary_angle(const shmt__pointwise* p, shmt_tensor* self,
                                     shmt_tensor** out);

/* The whole of a family: n tensors, the loop with ctx. For operators that prepare more than their
 * family would. */
shmt_status shmt__pointwise_run(const shmt__pointwise* p, shmt_tensor* const* inputs, int n,
                                const void* ctx, shmt_tensor** out);

#endif
