/* ops/pointwise/arithmetic.c -- arithmetic that is more than one loop: div with a rounding mode, pow, products with
 * conjugates, complex and polar. */
#include "base/dtype.h"
#include "base/promote.h"
#include "generated/impls.h"
#include "generated/operator_loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "ops/dtype_names.h"
#include "ops/outputs.h"
#include "ops/pointwise/pointwise.h"

#include <math.h>

/* --- division ----------------------------------------------------------------------- */

shmt_status shmt__div_mode(shmt_tensor* self, shmt_tensor* other, const char* rounding_mode,
                           shmt_tensor** out) {
  static const shmt__pointwise exact = {"div", SHMT_LOOP_div, SHMT_PROMOTE_INT_TO_FLOAT,
                                        SHMT_DTYPE_NONE, false};
  static const shmt__pointwise floored = {"div_floor", SHMT_LOOP_div_floor, SHMT_PROMOTE_ARITHMETIC,
                                          SHMT_DTYPE_NONE, false};
  static const shmt__pointwise cut = {"div_trunc", SHMT_LOOP_div_trunc, SHMT_PROMOTE_ARITHMETIC,
                                      SHMT_DTYPE_NONE, false};

  if (!rounding_mode) return shmt__pointwise_scaling(&exact, self, other, out);
  if (shmt__text_is(rounding_mode, "floor"))
    return shmt__pointwise_rounded_division(&floored, self, other, out);
  if (shmt__text_is(rounding_mode, "trunc"))
    return shmt__pointwise_rounded_division(&cut, self, other, out);
  SHMT_FAIL(SHMT_E_RUNTIME,
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'",
            rounding_mode);
}

/* --- powers ------------------------------------------------------------------------- */

/* The loop of a cheaper and exact function for this exponent (square, sqrt, ...); -1 when there is none. */
static int special_power(shmt_dtype dtype, shmt_scalar exponent) {
  const double e = shmt__scalar_to_double(exponent);

  if (exponent.tag == SHMT_SCALAR_COMPLEX) return -1;
  if (e == 2) return SHMT_LOOP_square;
  if (shmt__dtype_category(dtype) < 2) return -1;
  if (e == 3 && shmt__dtype_category(dtype) == 2) return SHMT_LOOP_cube;
  if (e == 0.5) return SHMT_LOOP_sqrt;
  if (e == -0.5) return SHMT_LOOP_rsqrt;
  if (e == -1) return SHMT_LOOP_reciprocal;
  return -1;
}

/* The result of pow is t itself: copies it to out or clones it. */
static shmt_status copy_to_result(shmt_tensor* t, shmt_tensor** out) {
  if (*out == t) return SHMT_OK;
  return *out ? shmt__write_out("pow", t, *out) : shmt_op_clone(t, SHMT_MEMORY_FORMAT_NONE, out);
}

static shmt_status ones_to_result(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) ones = NULL;
  SHMT_TRY(shmt_op_ones_like(self, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0},
                             SHMT_PRESERVE_FORMAT, &ones));
  if (*out != NULL) return copy_to_result(ones, out);
  *out = SHMT_TAKE(ones);
  return SHMT_OK;
}

shmt_status shmt__pow_scalar(shmt_tensor* self, shmt_scalar exponent, shmt_tensor** out) {
  static const shmt__pointwise general = {"pow", SHMT_LOOP_pow, SHMT_PROMOTE_ARITHMETIC,
                                          SHMT_DTYPE_NONE, false};
  SHMT_AUTO(shmt_tensor) number = NULL;
  const int kind = shmt__dtype_category(self->dtype);
  shmt__result_type result = SHMT_RESULT_TYPE_INIT;
  shmt_dtype dtype;

  SHMT_REQUIRE(kind > 1 || exponent.tag > SHMT_SCALAR_INT || shmt__scalar_to_double(exponent) >= 0,
               SHMT_E_RUNTIME, "Integers to negative integer powers are not allowed.");
  SHMT_TRY(shmt__result_type_add(&result, self->dtype, self->n_dims == 0,
                                 (self->flags & SHMT_TENSOR_WRAPPED_NUMBER) != 0));
  SHMT_TRY(shmt__result_type_add_scalar(&result, exponent));
  SHMT_TRY(shmt__result_type_get(&result, &dtype));
  /* An exponent beyond the range of float32 counts as infinite; integers and 16-bit floats refuse it. */
  if (dtype != SHMT_FLOAT32 && dtype != SHMT_COMPLEX64) SHMT_TRY(shmt__scalar_check(exponent, dtype));
  if (dtype == SHMT_BOOL) { /* True and False are 1 and 0 */
    if (shmt__scalar_to_bool(exponent)) return copy_to_result(self, out);
    SHMT_TRY(shmt_op_eq_Tensor(self, self, &number)); /* all True */
    return copy_to_result(number, out);
  }
  if (dtype == self->dtype) {
    const int row = special_power(dtype, exponent);
    /* Exact also where the real or imaginary part is infinite or NaN; and for dtypes without arithmetic. */
    const bool is_bare = shmt__is_barebones_unsigned(dtype);
    const double e = exponent.tag != SHMT_SCALAR_COMPLEX ? shmt__scalar_to_double(exponent) : NAN;
    if (e == 1 && (kind == 3 || is_bare)) return copy_to_result(self, out);
    if (e == 0 && is_bare) return ones_to_result(self, out);
    if (row >= 0) {
      const shmt__pointwise special = {"pow", (uint32_t)row, SHMT_PROMOTE_ARITHMETIC,
                                       SHMT_DTYPE_NONE, false};
      return shmt__pointwise_unary(&special, self, out);
    }
  }
  SHMT_TRY(shmt__wrapped_scalar_tensor(exponent, &number));
  return shmt__pointwise_binary(&general, self, number, out);
}

/* float_power: float64, or complex128 when either side is complex. */
static shmt_dtype float_power_dtype(bool is_complex) {
  return is_complex ? SHMT_COMPLEX128 : SHMT_FLOAT64;
}

static shmt_status as_dtype(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  return shmt_op_to_dtype(t, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, out);
}

shmt_status shmt__float_power(shmt_tensor* self, shmt_tensor* exponent, shmt_tensor** out) {
  const shmt_dtype dtype =
      float_power_dtype(shmt__is_complex(self->dtype) || shmt__is_complex(exponent->dtype));
  SHMT_AUTO(shmt_tensor) base = NULL;
  SHMT_AUTO(shmt_tensor) power = NULL;

  SHMT_TRY(as_dtype(self, dtype, &base));
  SHMT_TRY(as_dtype(exponent, dtype, &power));
  return shmt_op_pow_Tensor_Tensor(base, power, out);
}

shmt_status shmt__float_power_tensor_scalar(shmt_tensor* self, shmt_scalar exponent,
                                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) base = NULL;

  SHMT_TRY(as_dtype(self,
                    float_power_dtype(shmt__is_complex(self->dtype) ||
                                      exponent.tag == SHMT_SCALAR_COMPLEX),
                    &base));
  /* As a float: here a negative integer is a valid exponent. */
  if (exponent.tag != SHMT_SCALAR_COMPLEX)
    exponent = shmt__scalar_float(shmt__scalar_to_double(exponent));
  return shmt_op_pow_Tensor_Scalar(base, exponent, out);
}

shmt_status shmt__float_power_scalar(shmt_scalar self, shmt_tensor* exponent, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) power = NULL;

  SHMT_TRY(as_dtype(
      exponent,
      float_power_dtype(shmt__is_complex(exponent->dtype) || self.tag == SHMT_SCALAR_COMPLEX),
      &power));
  return shmt_op_pow_Scalar(self, power, out);
}

/* An in-place form cannot change the dtype, so self must have the dtype of the result. */
static shmt_status check_float_power(const shmt_tensor* self, bool is_complex) {
  const shmt_dtype dtype = float_power_dtype(is_complex || shmt__is_complex(self->dtype));

  SHMT_REQUIRE(self->dtype == dtype, SHMT_E_RUNTIME,
               "the base given to float_power_ has dtype %s but the operation's result requires "
               "dtype %s",
               shmt__dtype_title(self->dtype), shmt__dtype_title(dtype));
  return SHMT_OK;
}

shmt_status shmt__float_power_(shmt_tensor* self, shmt_tensor* exponent) {
  SHMT_AUTO(shmt_tensor) power = NULL;

  SHMT_TRY(check_float_power(self, shmt__is_complex(exponent->dtype)));
  SHMT_TRY(as_dtype(exponent, self->dtype, &power));
  return shmt_op_pow__Tensor_Tensor(self, power);
}

shmt_status shmt__float_power_scalar_(shmt_tensor* self, shmt_scalar exponent) {
  SHMT_TRY(check_float_power(self, exponent.tag == SHMT_SCALAR_COMPLEX));
  return shmt_op_pow__Tensor_Scalar(self, exponent);
}

shmt_status shmt__pointwise_heaviside(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* values,
                                   shmt_tensor** out) {
  SHMT_REQUIRE(!shmt__is_complex(self->dtype) && !shmt__is_complex(values->dtype) &&
                   (!*out || !shmt__is_complex((*out)->dtype)),
               SHMT_E_RUNTIME, "heaviside is not yet implemented for complex tensors.");
  SHMT_REQUIRE(self->dtype == values->dtype && (!*out || (*out)->dtype == self->dtype),
               SHMT_E_RUNTIME,
               "heaviside is not yet implemented for tensors with different dtypes.");
  return shmt__pointwise_binary(p, self, values, out);
}

/* --- conjugates --------------------------------------------------------------------- */

static shmt_status identity(shmt_tensor* self, shmt_tensor** out) {
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

shmt_status shmt__positive(shmt_tensor* self, shmt_tensor** out) {
  SHMT_REQUIRE(self->dtype != SHMT_BOOL, SHMT_E_RUNTIME,
               "The `+` operator, on a bool tensor is not supported.");
  return identity(self, out);
}

shmt_status shmt__is_complex_tensor(shmt_tensor* self, bool* out) {
  *out = shmt__is_complex(self->dtype);
  return SHMT_OK;
}

shmt_status shmt__is_floating_tensor(shmt_tensor* self, bool* out) {
  *out = shmt__dtype_kind[self->dtype] == SHMT_KIND_FLOATING;
  return SHMT_OK;
}

shmt_status shmt__mul_conj(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) conj = NULL;

  if (SHMT_LIKELY(!shmt__is_complex(other->dtype))) return shmt_op_mul_Tensor(self, other, out);
  SHMT_TRY(shmt_op__conj_complex(other, &conj));
  return shmt_op_mul_Tensor(self, conj, out);
}

shmt_status shmt__div_conj(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) conj = NULL;

  if (SHMT_LIKELY(!shmt__is_complex(other->dtype))) return shmt_op_div_Tensor(self, other, out);
  SHMT_TRY(shmt_op__conj_complex(other, &conj));
  return shmt_op_div_Tensor(self, conj, out);
}

shmt_status shmt__scale_conj(shmt_tensor* self, shmt_scalar factor, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) number = NULL;

  if (factor.tag != SHMT_SCALAR_COMPLEX && shmt__scalar_to_double(factor) == 1) {
    *out = shmt__tensor_ref(self);
    return SHMT_OK;
  }
  if (factor.tag == SHMT_SCALAR_COMPLEX) factor.v.z[1] = -factor.v.z[1];
  SHMT_TRY(shmt__wrapped_scalar_tensor(factor, &number));
  return shmt_op_mul_Tensor(self, number, out);
}

/* --- complex from two reals -------------------------------------------------------- */

/* complex and polar. Both inputs broadcast; out is filled as pairs (a, b) of reals, which polar then converts. */
static shmt_status from_parts(const char* name, shmt_tensor* first, shmt_tensor* second, shmt_tensor** out,
                              bool polar);

shmt_status shmt__complex(shmt_tensor* real, shmt_tensor* imag, shmt_tensor** out) {
  return from_parts("complex", real, imag, out, false);
}

shmt_status shmt__polar(shmt_tensor* abs, shmt_tensor* angle, shmt_tensor** out) {
  return from_parts("polar", abs, angle, out, true);
}

/* Allocates a result with the memory layout that a binary loop over both inputs would choose. */
static shmt_status allocate_parts(const char* name, shmt_tensor* first, shmt_tensor* second, shmt_dtype dtype,
                                  shmt_tensor** out) {
  shmt_iter it;

  shmt__iter_init(&it, name);
  shmt__iter_output(&it, out, dtype);
  shmt__iter_input(&it, first);
  shmt__iter_input(&it, second);
  SHMT_TRY(shmt__iter_build(&it));
  return shmt__iter_finish(&it, SHMT_OK);
}

static shmt_status from_parts(const char* name, shmt_tensor* first, shmt_tensor* second, shmt_tensor** out,
                              bool polar) {
  SHMT_AUTO(shmt_tensor) work = NULL;
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  int64_t n_dims;

  SHMT_REQUIRE(shmt__is_floating(first->dtype) && shmt__is_floating(second->dtype) && first->dtype != SHMT_BFLOAT16,
               SHMT_E_RUNTIME, "Expected both inputs to be Half, Float or Double tensors but got %s and %s",
               shmt__dtype_title(first->dtype), shmt__dtype_title(second->dtype));
  SHMT_REQUIRE(first->dtype == second->dtype, SHMT_E_RUNTIME,
               "Expected object of scalar type %s but got scalar type %s for second argument",
               shmt__dtype_title(first->dtype), shmt__dtype_title(second->dtype));
  SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(first), shmt__tensor_sizes(second), sizes, &n_dims));
  SHMT_REFUSE_DTYPE(polar && first->dtype == SHMT_FLOAT16, first->dtype, "polar_cpu");
  const shmt_dtype dtype = shmt__to_complex_dtype(first->dtype);
  SHMT_REQUIRE(!*out || (*out)->dtype == dtype, SHMT_E_RUNTIME,
               "Expected object of scalar type %s but got scalar type %s for argument 'out'", shmt__dtype_title(dtype),
               shmt__dtype_title((*out)->dtype));
  if (*out)
    SHMT_TRY(shmt__output_begin(name, out, (shmt_ints){sizes, n_dims}, dtype,
                                shmt__common_device(first, second, NULL), &work));
  else
    SHMT_TRY(allocate_parts(name, first, second, dtype, &work));
  if (!shmt__tensor_is_meta(work) && work->numel > 0) {
    /* Views of the result's memory as reals: part 0 is every second element from the first, part 1 from the second. */
    const shmt_dtype real = shmt__to_real_dtype(dtype);
    for (int part = 0; part < 2; part++) {
      SHMT_AUTO(shmt_tensor) half = NULL;
      for (int64_t d = 0; d < n_dims; d++) strides[d] = work->strides[d] * 2;
      SHMT_TRY(shmt__tensor_from_storage(work->storage, (shmt_ints){sizes, n_dims}, (shmt_ints){strides, n_dims},
                                         work->offset * 2 + part, real, &half));
      SHMT_TRY(shmt__tensor_copy(half, part ? second : first));
    }
    if (polar) {
      const int64_t n = work->numel;
      if (real == SHMT_FLOAT64) {
        double* z = shmt__tensor_data(work);
        for (int64_t i = 0; i < n; i++, z += 2) {
          const double r = z[0], a = z[1];
          z[0] = r * cos(a);
          z[1] = r * sin(a);
        }
      } else {
        float* z = shmt__tensor_data(work);
        for (int64_t i = 0; i < n; i++, z += 2) {
          const float r = z[0], a = z[1];
          z[0] = r * cosf(a);
          z[1] = r * sinf(a);
        }
      }
    }
  }
  return shmt__output_end(name, &work, out);
}
