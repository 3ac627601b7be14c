/* ops/pointwise/scalar_overloads.c -- overloads of operators that take a Scalar in place of a tensor.
 *
 * The scalar becomes a wrapped 0-d tensor, which has the lowest priority in dtype promotion. Then the Tensor overload
 * runs, which also records for autograd. */
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/scalar_expression.h"

#define WRAPPED(value)             \
  SHMT_AUTO(shmt_tensor) t = NULL; \
  SHMT_TRY(shmt__wrapped_scalar_tensor(value, &t))

/* f.Scalar and f_.Scalar of f.Tensor */
#define SCALAR_FORMS(NAME, FORM, FORM_)                                                        \
  shmt_status shmt__##NAME##_scalar(shmt_tensor* self, shmt_scalar other, shmt_tensor** out) { \
    WRAPPED(other);                                                                            \
    return shmt_op_##FORM(self, t, out);                                                       \
  }                                                                                            \
  shmt_status shmt__##NAME##_scalar_(shmt_tensor* self, shmt_scalar other) {                   \
    WRAPPED(other);                                                                            \
    return shmt_op_##FORM_(self, t);                                                           \
  }
SCALAR_FORMS(mul, mul_Tensor, mul__Tensor)
SCALAR_FORMS(div, div_Tensor, div__Tensor)
SCALAR_FORMS(floor_divide, floor_divide, floor_divide_)
SCALAR_FORMS(remainder, remainder_Tensor, remainder__Tensor)
SCALAR_FORMS(fmod, fmod_Tensor, fmod__Tensor)
SCALAR_FORMS(copysign, copysign_Tensor, copysign__Tensor)
SCALAR_FORMS(xlogy, xlogy_Tensor, xlogy__Tensor)
SCALAR_FORMS(bitwise_and, bitwise_and_Tensor, bitwise_and__Tensor)
SCALAR_FORMS(bitwise_or, bitwise_or_Tensor, bitwise_or__Tensor)
SCALAR_FORMS(bitwise_xor, bitwise_xor_Tensor, bitwise_xor__Tensor)
SCALAR_FORMS(bitwise_left_shift, bitwise_left_shift_Tensor, bitwise_left_shift__Tensor)
SCALAR_FORMS(bitwise_right_shift, bitwise_right_shift_Tensor, bitwise_right_shift__Tensor)

#define ALPHA_FORMS(NAME)                                                                       \
  shmt_status shmt__##NAME##_scalar(shmt_tensor* self, shmt_scalar other, shmt_scalar alpha,    \
                                    shmt_tensor** out) {                                        \
    WRAPPED(other);                                                                             \
    return shmt_op_##NAME##_Tensor(self, t, alpha, out);                                        \
  }                                                                                             \
  shmt_status shmt__##NAME##_scalar_(shmt_tensor* self, shmt_scalar other, shmt_scalar alpha) { \
    WRAPPED(other);                                                                             \
    return shmt_op_##NAME##__Tensor(self, t, alpha);                                            \
  }
ALPHA_FORMS(add)
ALPHA_FORMS(sub)

shmt_status shmt__rsub_scalar(shmt_tensor* self, shmt_scalar other, shmt_scalar alpha,
                              shmt_tensor** out) {
  WRAPPED(other);
  return shmt_op_sub_Tensor(t, self, alpha, out);
}

shmt_status shmt__div_scalar_mode(shmt_tensor* self, shmt_scalar other, const char* rounding_mode,
                                  shmt_tensor** out) {
  WRAPPED(other);
  return shmt_op_div_Tensor_mode(self, t, rounding_mode, out);
}

shmt_status shmt__div_scalar_mode_(shmt_tensor* self, shmt_scalar other,
                                   const char* rounding_mode) {
  WRAPPED(other);
  return shmt_op_div__Tensor_mode(self, t, rounding_mode);
}

/* Scalar overloads that also have an out= form. */
#define OUT_FORM(NAME)                                                                            \
  shmt_status shmt__##NAME##_scalar_out(shmt_tensor* self, shmt_scalar other, shmt_tensor* out) { \
    WRAPPED(other);                                                                               \
    return shmt_op_##NAME##_out(self, t, out);                                                    \
  }
OUT_FORM(copysign)
OUT_FORM(bitwise_and)
OUT_FORM(bitwise_or)
OUT_FORM(bitwise_xor)
OUT_FORM(bitwise_left_shift)
OUT_FORM(bitwise_right_shift)
OUT_FORM(fmod)
OUT_FORM(remainder)
OUT_FORM(xlogy)
#define COMPARE_FORMS(NAME)                         \
  SCALAR_FORMS(NAME, NAME##_Tensor, NAME##__Tensor) \
  OUT_FORM(NAME)
COMPARE_FORMS(eq)
COMPARE_FORMS(ne)
COMPARE_FORMS(lt)
COMPARE_FORMS(le)
COMPARE_FORMS(gt)
COMPARE_FORMS(ge)

/* Overloads whose first argument is the Scalar. */
#define BASE_FORM(FUNCTION, FORM)                                                 \
  shmt_status FUNCTION(shmt_scalar self, shmt_tensor* other, shmt_tensor** out) { \
    WRAPPED(self);                                                                \
    return shmt_op_##FORM(t, other, out);                                         \
  }
BASE_FORM(shmt__pow_base, pow_Tensor_Tensor)
BASE_FORM(shmt__remainder_scalar_tensor, remainder_Tensor)
BASE_FORM(shmt__xlogy_scalar_self, xlogy_Tensor)
BASE_FORM(shmt__bitwise_and_base, bitwise_and_Tensor)
BASE_FORM(shmt__bitwise_or_base, bitwise_or_Tensor)
BASE_FORM(shmt__bitwise_xor_base, bitwise_xor_Tensor)
BASE_FORM(shmt__bitwise_left_shift_base, bitwise_left_shift_Tensor)
BASE_FORM(shmt__bitwise_right_shift_base, bitwise_right_shift_Tensor)

shmt_status shmt__xlogy_scalar_self_out(shmt_scalar self, shmt_tensor* other, shmt_tensor* out) {
  WRAPPED(self);
  return shmt_op_xlogy_out(t, other, out);
}

shmt_status shmt__pow_base_out(shmt_scalar self, shmt_tensor* exponent, shmt_tensor* out) {
  WRAPPED(self);
  return shmt_op_pow_Tensor_Tensor_out(t, exponent, out);
}

shmt_status shmt__where_scalar_self(shmt_tensor* condition, shmt_scalar self, shmt_tensor* other,
                                    shmt_tensor** out) {
  WRAPPED(self);
  return shmt_op_where_self(condition, t, other, out);
}

shmt_status shmt__where_scalar_other(shmt_tensor* condition, shmt_tensor* self, shmt_scalar other,
                                     shmt_tensor** out) {
  WRAPPED(other);
  return shmt_op_where_self(condition, self, t, out);
}

shmt_status shmt__where_scalars(shmt_tensor* condition, shmt_scalar self, shmt_scalar other,
                                shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  WRAPPED(other);
  SHMT_TRY(shmt__wrapped_scalar_tensor(self, &a));
  return shmt_op_where_self(condition, a, t, out);
}
