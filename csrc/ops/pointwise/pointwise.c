/* ops/pointwise/pointwise.c -- runs operators that are a single element-wise loop. */
#include "ops/pointwise/pointwise.h"

#include "base/dtype.h"
#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/short_rows.h"
#include "kernels/half_loops.h"
#include "ops/check.h"

shmt_status shmt__pointwise_loop(const shmt__pointwise* p, shmt_dtype dtype, shmt__loop* out) {
  *out = shmt__loops[p->row][dtype];
  return SHMT_LIKELY(*out != NULL) ? SHMT_OK : shmt__no_kernel(p->name, dtype);
}

/* Do the scalars fit the dtype that the loop computes in? For float16 and bfloat16 that is float32, but alpha must fit
 * the dtype itself. */
static shmt_status check_scalars(const shmt_scalar* scalars, int n, bool are_alpha, shmt_dtype dtype) {
  if (shmt__is_half(dtype) && !are_alpha) dtype = SHMT_FLOAT32;
  for (int i = 0; i < n; i++)
    if (SHMT_UNLIKELY(!shmt__scalar_fits(scalars[i], dtype))) return shmt__scalar_check(scalars[i], dtype);
  return SHMT_OK;
}

enum { ALPHA = -1 }; /* in place of a count of scalars: the ctx is the single scalar alpha of add and sub */

/* Builds the iterator and runs the loop. ctx is n scalars, which are checked; with n == 0 it is whatever the loop
 * takes. */
static inline shmt_status run_pointwise(const shmt__pointwise* p, shmt_iter* it, const void* ctx, int n) {
  shmt__loop loop;
  shmt_status status;

  SHMT_TRY(shmt__iter_build(it));
  it->is_costly = shmt__loop_is_costly[p->row];
  status = shmt__pointwise_loop(p, it->common_dtype, &loop);
  if (n != 0 && SHMT_LIKELY(status == SHMT_OK))
    status = check_scalars(ctx, n == ALPHA ? 1 : n, n == ALPHA, it->common_dtype);
  if (SHMT_LIKELY(status == SHMT_OK))
    status = SHMT_UNLIKELY(shmt__iter_has_short_rows(it)) ? shmt__iter_run_short_rows(it, loop, ctx)
                                                     : shmt__iter_run(it, loop, ctx);
  return shmt__iter_finish(it, status);
}

static inline shmt_status run_on(const shmt__pointwise* p, shmt_tensor* const* inputs, int n, const void* ctx,
                                 int n_scalars, shmt_tensor** out) {
  shmt_iter it;

  shmt__iter_init(&it, p->name);
  shmt__iter_output(&it, out, p->result);
  for (int i = 0; i < n; i++) shmt__iter_input(&it, inputs[i]);
  it.promote = p->promote;
  it.exact_out = p->exact_out;
  return run_pointwise(p, &it, ctx, n_scalars);
}

shmt_status shmt__pointwise_run(const shmt__pointwise* p, shmt_tensor* const* inputs, int n,
                                const void* ctx, shmt_tensor** out) {
  return run_on(p, inputs, n, ctx, 0, out);
}

shmt_status shmt__pointwise_unary(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor** out) {
  return shmt__pointwise_run(p, (shmt_tensor* const[]){self}, 1, NULL, out);
}

shmt_status shmt__pointwise_unary_1(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                 shmt_tensor** out) {
  return run_on(p, (shmt_tensor* const[]){self}, 1, &a, 1, out);
}

shmt_status shmt__pointwise_unary_2(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                 shmt_scalar b, shmt_tensor** out) {
  return run_on(p, (shmt_tensor* const[]){self}, 1, (const shmt_scalar[]){a, b}, 2, out);
}

shmt_status shmt__pointwise_hardtanh(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar low, shmt_scalar high,
                                  shmt_tensor** out) {
  const bool is_negative = shmt__scalar_to_double(low) < 0 || shmt__scalar_to_double(high) < 0;

  SHMT_REQUIRE(shmt__dtype_kind[self->dtype] != SHMT_KIND_UNSIGNED || !is_negative, SHMT_E_RUNTIME,
               "cannot do hardtanh on an unsigned type with negative limits");
  return shmt__pointwise_unary_2(p, self, low, high, out);
}

shmt_status shmt__pointwise_unary_2_overlapping(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                             shmt_scalar b, shmt_tensor** out) {
  shmt_iter it;

  shmt__iter_init(&it, p->name);
  shmt__iter_output(&it, out, p->result);
  shmt__iter_input(&it, self);
  it.promote = p->promote;
  it.check_overlap = *out != self;
  return run_pointwise(p, &it, (const shmt_scalar[]){a, b}, 2);
}

shmt_status shmt__pointwise_unary_3(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                 shmt_scalar b, shmt_scalar c, shmt_tensor** out) {
  return run_on(p, (shmt_tensor* const[]){self}, 1, (const shmt_scalar[]){a, b, c}, 3, out);
}

shmt_status shmt__pointwise_binary(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                shmt_tensor** out) {
  return shmt__pointwise_run(p, (shmt_tensor* const[]){self, other}, 2, NULL, out);
}

/* --- a half-precision tensor and a number ------------------------------------------------ */

/* The number stays as exact as the arithmetic: rounded to bfloat16, 0.001 is 0.00099945. */
typedef struct by_number {
  shmt_dtype half;
  shmt__loop full; /* of two operands, in the compute type */
  float number;    /* the second one */
} by_number;

static void full_by_number(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const by_number* by = ctx;
  float number = by->number;

  by->full((char* const[]){data[0], data[1], (char*)&number}, (const int64_t[]){strides[0], strides[1], 0}, n, NULL);
}

static void half_by_number(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const by_number* by = ctx;

  shmt__widened(by->half, full_by_number, SHMT_STORED_HALF, 1, data, strides, n, by);
}

/* Is the result of the dtype of the tensor self, and would `other`, a number, be rounded to it? */
static bool is_half_and_number(const shmt_tensor* self, const shmt_tensor* other) {
  return shmt__is_half(self->dtype) && other->n_dims == 0 && other->dtype != self->dtype &&
         shmt__dtype_category(other->dtype) <= 2 && other->device == SHMT_CPU && self->device == SHMT_CPU &&
         !(self->flags & SHMT_TENSOR_WRAPPED_NUMBER) &&
         (self->n_dims > 0 || (other->flags & SHMT_TENSOR_WRAPPED_NUMBER) || shmt__dtype_category(other->dtype) < 2);
}

static shmt_status run_by_number(const shmt__pointwise* p, shmt_tensor* self, const shmt_tensor* other,
                                 shmt_tensor** out) {
  by_number by = {.half = self->dtype};
  shmt_iter it;

  SHMT_TRY(shmt__pointwise_loop(p, SHMT_FLOAT32, &by.full));
  by.number = (float)shmt__scalar_to_double(shmt__scalar_load(shmt__tensor_data(other), other->dtype));
  shmt__iter_init(&it, p->name);
  shmt__iter_output(&it, out, p->result);
  shmt__iter_input(&it, self);
  it.promote = p->promote;
  it.exact_out = p->exact_out;
  SHMT_TRY(shmt__iter_build(&it));
  return shmt__iter_finish(&it, shmt__iter_run(&it, half_by_number, &by));
}

shmt_status shmt__pointwise_scaling(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                    shmt_tensor** out) {
  if (SHMT_UNLIKELY(is_half_and_number(self, other))) return run_by_number(p, self, other, out);
  return shmt__pointwise_binary(p, self, other, out);
}

/* --- alpha ------------------------------------------------------------------------------- */

/* alpha must not be of a higher category than the result: an integer result has no use for a fraction. */
static shmt_status check_alpha(const shmt__pointwise* p, const shmt_tensor* self,
                               const shmt_tensor* other, shmt_scalar alpha) {
  int kind = shmt__dtype_category(self->dtype), other_kind = shmt__dtype_category(other->dtype);

  if (SHMT_LIKELY(alpha.tag == SHMT_SCALAR_INT)) return SHMT_OK;
  if (other_kind > kind) kind = other_kind;
  SHMT_REQUIRE(alpha.tag != SHMT_SCALAR_BOOL || kind == 0, SHMT_E_RUNTIME,
               "Boolean alpha only supported for Boolean results. (%s)", p->name);
  SHMT_REQUIRE(
      alpha.tag != SHMT_SCALAR_FLOAT || kind >= 2, SHMT_E_RUNTIME,
      "For integral input tensors, argument alpha must not be a floating point number. (%s)",
      p->name);
  SHMT_REQUIRE(alpha.tag != SHMT_SCALAR_COMPLEX || kind == 3, SHMT_E_RUNTIME,
               "For non-complex input tensors, argument alpha must not be a complex number. (%s)",
               p->name);
  return SHMT_OK;
}

shmt_status shmt__pointwise_binary_alpha(const shmt__pointwise* p, shmt_tensor* self,
                                      shmt_tensor* other, shmt_scalar alpha, shmt_tensor** out) {
  SHMT_TRY(check_alpha(p, self, other, alpha));
  return run_on(p, (shmt_tensor* const[]){self, other}, 2, &alpha, ALPHA, out);
}

shmt_status shmt__pointwise_sub(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                             shmt_scalar alpha, shmt_tensor** out) {
  if (SHMT_UNLIKELY(self->dtype == SHMT_BOOL || other->dtype == SHMT_BOOL)) {
    SHMT_REQUIRE(
        self->dtype != other->dtype, SHMT_E_RUNTIME,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
        "`logical_xor()` operator instead.");
    SHMT_FAIL(SHMT_E_RUNTIME,
              "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
              "trying to invert a mask, "
              "use the `~` or `logical_not()` operator instead.");
  }
  SHMT_TRY(check_alpha(p, self, other, alpha));
  return run_on(p, (shmt_tensor* const[]){self, other}, 2, &alpha, ALPHA, out);
}

shmt_status shmt__pointwise_binary_division(const shmt__pointwise* p, shmt_tensor* self,
                                         shmt_tensor* other, shmt_tensor** out) {
  int divided_by_zero = 0;

  SHMT_TRY(shmt__pointwise_run(p, (shmt_tensor* const[]){self, other}, 2, &divided_by_zero, out));
  SHMT_REQUIRE(!divided_by_zero, SHMT_E_RUNTIME, "ZeroDivisionError");
  return SHMT_OK;
}

shmt_status shmt__pointwise_rounded_division(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                             shmt_tensor** out) {
  if (SHMT_UNLIKELY(is_half_and_number(self, other))) return run_by_number(p, self, other, out);
  return shmt__pointwise_binary_division(p, self, other, out);
}

shmt_status shmt__pointwise_binary_1(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                  shmt_scalar a, shmt_tensor** out) {
  return run_on(p, (shmt_tensor* const[]){self, other}, 2, &a, 1, out);
}

shmt_status shmt__pointwise_binary_1_swapped(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                         shmt_scalar a, shmt_tensor** out) {
  return run_on(p, (shmt_tensor* const[]){other, self}, 2, &a, 1, out);
}

shmt_status shmt__pointwise_binary_2(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                  shmt_scalar a, shmt_scalar b, shmt_tensor** out) {
  return run_on(p, (shmt_tensor* const[]){self, other}, 2, (const shmt_scalar[]){a, b}, 2, out);
}

shmt_status shmt__pointwise_binary_3(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor* other,
                                  shmt_scalar a, shmt_scalar b, shmt_scalar c, shmt_tensor** out) {
  return run_on(p, (shmt_tensor* const[]){self, other}, 2, (const shmt_scalar[]){a, b, c}, 3, out);
}

shmt_status shmt__pointwise_ternary(const shmt__pointwise* p, shmt_tensor* a, shmt_tensor* b,
                                 shmt_tensor* c, shmt_tensor** out) {
  return shmt__pointwise_run(p, (shmt_tensor* const[]){a, b, c}, 3, NULL, out);
}

shmt_status shmt__pointwise_ternary_1(const shmt__pointwise* p, shmt_tensor* a, shmt_tensor* b,
                                   shmt_tensor* c, shmt_scalar value, shmt_tensor** out) {
  return run_on(p, (shmt_tensor* const[]){a, b, c}, 3, &value, 1, out);
}

shmt_status shmt__pointwise_addcdiv(const shmt__pointwise* p, shmt_tensor* a, shmt_tensor* b,
                                 shmt_tensor* c, shmt_scalar value, shmt_tensor** out) {
  SHMT_REQUIRE(shmt__dtype_category(b->dtype) >= 2 || shmt__dtype_category(c->dtype) >= 2,
               SHMT_E_RUNTIME,
               "Integer division with addcdiv is no longer supported, and in a future  release "
               "addcdiv will perform a true "
               "division of tensor1 and tensor2. The historic addcdiv behavior can be implemented "
               "as (input + value * "
               "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + "
               "value * tensor1 / "
               "tensor2) for float inputs.");
  return shmt__pointwise_ternary_1(p, a, b, c, value, out);
}
