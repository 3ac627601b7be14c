/* ops/reduce/backward.c -- gradients of reductions: expanding to the input's shape, prod, cumprod, vector norms. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "dispatch/operator.h"
#include "dispatch/trace.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "tensor/batched.h"

#include <math.h>

/* Inserts dims of size 1 into grad where a reduction removed the dims of mask. New reference. */
static shmt_status restore_dims(shmt_tensor* grad, uint64_t mask, int64_t n_dims,
                                shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) at = shmt__tensor_ref(grad);

  for (int64_t d = 0; d < n_dims; d++) {
    SHMT_AUTO(shmt_tensor) wider = NULL;
    if (!(mask >> d & 1)) continue;
    SHMT_TRY(shmt_op_unsqueeze(at, d, &wider));
    shmt__tensor_release(at);
    at = SHMT_TAKE(wider);
  }
  *out = SHMT_TAKE(at);
  return SHMT_OK;
}

shmt_status shmt___reduced_expand(shmt_tensor* grad, shmt_ints sizes, shmt_ints dim, bool keepdim,
                                  shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) full = NULL;
  uint64_t mask;

  SHMT_TRY(shmt__dims_mask(dim, sizes.len, &mask));
  /* A 0-d gradient expands to any shape. */
  if (keepdim || sizes.len == 0 || grad->n_dims == 0)
    full = shmt__tensor_ref(grad);
  else
    SHMT_TRY(restore_dims(grad, mask, sizes.len, &full));
  return shmt_op_expand(full, sizes, false, out);
}

shmt_status shmt___unreduce(shmt_tensor* grad, int64_t dim, int64_t n_dims, shmt_tensor** out) {
  if (n_dims == 0) {
    *out = shmt__tensor_ref(grad);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__wrap_dim(dim, n_dims, &dim));
  return shmt_op_unsqueeze(grad, dim, out);
}

/* --- cumprod ------------------------------------------------------------------ */

/* The gradient of element k: sums the gradients of all products from k on, each times the product's other factors. */
static shmt_status cumprod_term(shmt_tensor* grad, shmt_tensor* self, int64_t dim, int64_t k, int64_t n,
                                shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) earlier = NULL;
  SHMT_AUTO(shmt_tensor) before = NULL;
  SHMT_AUTO(shmt_tensor) later = NULL;
  SHMT_AUTO(shmt_tensor) after = NULL;
  SHMT_AUTO(shmt_tensor) both = NULL;
  SHMT_AUTO(shmt_tensor) others = NULL;
  SHMT_AUTO(shmt_tensor) from = NULL;
  SHMT_AUTO(shmt_tensor) terms = NULL;

  SHMT_TRY(shmt_op_narrow(self, dim, 0, k, &earlier));
  SHMT_TRY(shmt_op_prod_dim_int(earlier, dim, true, SHMT_DTYPE_NONE, &before));
  SHMT_TRY(shmt_op_narrow(self, dim, k + 1, n - k - 1, &later));
  SHMT_TRY(shmt_op_cumprod(later, dim, SHMT_DTYPE_NONE, &after));
  SHMT_TRY(shmt_op_mul_Tensor(before, after, &both));
  SHMT_TRY(shmt_op_cat((shmt_tensors){(shmt_tensor*[]){before, both}, 2}, dim, &others));
  SHMT_TRY(shmt_op_narrow(grad, dim, k, n - k, &from));
  SHMT_TRY(shmt_op__mul_conj(from, others, &terms));
  return shmt_op_sum_dim_IntList(terms, SHMT_INTS(dim), true, SHMT_DTYPE_NONE, out);
}

/* Without a division, so that it can be differentiated again where self is 0. Quadratic in the size of dim. */
static shmt_status cumprod_backward_by_products(shmt_tensor* grad, shmt_tensor* self, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO_LIST terms = {0, 0};

  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  const int64_t n = self->sizes[dim];
  SHMT_TRY(shmt__tensor_vec_alloc(n, &terms));
  for (int64_t k = 0; k < n; k++) SHMT_TRY(cumprod_term(grad, self, dim, k, n, &terms.data[k]));
  return shmt_op_cat((shmt_tensors){terms.data, terms.len}, dim, out);
}

/* For inputs without zeros. */
static shmt_status cumprod_backward_by_quotients(shmt_tensor* grad, shmt_tensor* self, int64_t dim,
                                                 shmt_tensor* product, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) terms = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;

  SHMT_TRY(shmt_op__mul_conj(grad, product, &terms));
  SHMT_TRY(shmt_op__cumsum_from_end(terms, dim, &sums));
  shmt__tensor_release(SHMT_TAKE(terms));
  return shmt_op__div_conj(sums, self, out);
}

/* Is any element of mask true? For a Meta tensor the answer is `unknown`. */
static shmt_status has_any(shmt_tensor* mask, bool unknown, bool* out) {
  SHMT_AUTO(shmt_tensor) any = NULL;
  shmt_scalar found;

  *out = unknown;
  if (shmt__tensor_is_meta(mask)) return SHMT_OK;
  SHMT_TRY(shmt_op_any(shmt__all_examples(mask), &any));
  SHMT_TRY(shmt__tensor_item(any, &found));
  *out = shmt__scalar_to_bool(found);
  return SHMT_OK;
}

static shmt_status has_infinities(shmt_tensor* self, bool* out) {
  SHMT_AUTO(shmt_tensor) is_finite = NULL;
  SHMT_AUTO(shmt_tensor) is_not = NULL;

  SHMT_TRY(shmt_op_isfinite(self, &is_finite));
  SHMT_TRY(shmt_op_logical_not(is_finite, &is_not));
  return has_any(is_not, false, out);
}

/* Does every product have one factor? Then the gradient passes through. */
static bool is_alone(const shmt_tensor* self, int64_t dim) {
  return self->n_dims == 0 || self->sizes[dim] == 1 || self->numel == 1;
}

/* For each element the product of those before it along dim. */
static shmt_status product_before(shmt_tensor* self, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) one = NULL;
  SHMT_AUTO(shmt_tensor) rest = NULL;
  SHMT_AUTO(shmt_tensor) shifted = NULL;

  SHMT_TRY(shmt_op_narrow(self, dim, 0, 1, &first));
  SHMT_TRY(shmt_op_ones_like(first, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0},
                             SHMT_MEMORY_FORMAT_NONE, &one));
  SHMT_TRY(shmt_op_narrow(self, dim, 0, self->sizes[dim] - 1, &rest));
  SHMT_TRY(shmt_op_cat((shmt_tensors){(shmt_tensor* const[]){one, rest}, 2}, dim, &shifted));
  return shmt_op_cumprod(shifted, dim, SHMT_DTYPE_NONE, out);
}

/* May the gradient be differentiated itself? Then it is made of operators that have derivatives. */
static bool is_differentiated(const shmt_tensor* grad, const shmt_tensor* self) {
  return shmt__grad_enabled() || ((shmt__tensor_keys(grad) | shmt__tensor_keys(self)) & SHMT_KEYBIT_ForwardAD);
}

/* The gradient of an element is the product of the others. Where self has zeros, quotients would be wrong for second
 * derivatives and beside infinities; there it multiplies the products of the elements before and behind. */
shmt_status shmt__prod_backward(shmt_tensor* grad, shmt_tensor* self, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) is_zero = NULL;
  SHMT_AUTO(shmt_tensor) others = NULL;
  SHMT_AUTO(shmt_tensor) flipped = NULL;
  SHMT_AUTO(shmt_tensor) before = NULL;
  SHMT_AUTO(shmt_tensor) behind = NULL;
  SHMT_AUTO(shmt_tensor) behind_flipped = NULL;
  bool zeros, by_products;

  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(shmt_op_eq_Scalar(self, shmt__scalar_int(0), &is_zero));
  SHMT_TRY(has_any(is_zero, true, &zeros));
  if (!zeros) {
    SHMT_AUTO(shmt_tensor) product = NULL;
    SHMT_TRY(shmt_op_prod_dim_int(self, dim, true, SHMT_DTYPE_NONE, &product));
    SHMT_TRY(shmt_op_div_Tensor(product, self, &others));
    return shmt_op__mul_conj(grad, others, out);
  }
  if (is_alone(self, dim)) {
    *out = shmt__tensor_ref(grad);
    return SHMT_OK;
  }
  by_products = (is_differentiated(grad, self) && !shmt__tensor_is_meta(self)) || shmt__batched_of(self);
  if (!by_products) SHMT_TRY(has_infinities(self, &by_products));
  if (!by_products) {
    SHMT_TRY(shmt_op__prod_quotients(self, is_zero, dim, &others));
    return shmt_op__mul_conj(grad, others, out);
  }
  SHMT_TRY(product_before(self, dim, &before));
  SHMT_TRY(shmt_op_flip(self, SHMT_INTS(dim), &flipped));
  SHMT_TRY(product_before(flipped, dim, &behind_flipped));
  shmt__tensor_release(SHMT_TAKE(flipped));
  SHMT_TRY(shmt_op_flip(behind_flipped, SHMT_INTS(dim), &behind));
  shmt__tensor_release(SHMT_TAKE(behind_flipped));
  SHMT_TRY(shmt_op_mul_Tensor(before, behind, &others));
  return shmt_op__mul_conj(grad, others, out);
}

shmt_status shmt__cumprod_backward(shmt_tensor* grad, shmt_tensor* self, int64_t dim, shmt_tensor* product,
                                   shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) is_zero = NULL;
  SHMT_AUTO(shmt_tensor) zeros = NULL;
  bool found;

  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  if (is_alone(self, dim)) {
    *out = shmt__tensor_ref(grad);
    return SHMT_OK;
  }
  SHMT_TRY(shmt_op_eq_Scalar(self, shmt__scalar_int(0), &is_zero));
  SHMT_TRY(has_any(is_zero, true, &found));
  if (!found || shmt__tensor_is_meta(self))
    return cumprod_backward_by_quotients(grad, self, dim, product, out);
  if (is_differentiated(grad, self) || shmt__batched_of(self))
    return cumprod_backward_by_products(grad, self, dim, out);
  SHMT_TRY(shmt_op_cumsum(is_zero, dim, SHMT_DTYPE_NONE, &zeros));
  return shmt_op__cumprod_terms(grad, self, dim, product, zeros, out);
}

/* --- norms ------------------------------------------------------------------------------------- */

enum { ELEMENTS_AT_ONCE = 1 << 16 }; /* elements whose gradients are computed at a time */

/* Computes the gradients of elements [begin, begin + n) along a dim of the three tensors (grad, self, norm), into
 * out. */
static shmt_status norm_backward_block(shmt_tensor* const* of, shmt_scalar ord, shmt_ints dim, int64_t along,
                                       int64_t begin, int64_t n, shmt_tensor* out) {
  SHMT_AUTO(shmt_tensor) grad = NULL;
  SHMT_AUTO(shmt_tensor) self = NULL;
  SHMT_AUTO(shmt_tensor) norm = NULL;
  SHMT_AUTO(shmt_tensor) slopes = NULL;
  SHMT_AUTO(shmt_tensor) to = NULL;

  SHMT_TRY(shmt_op_narrow(of[0], along, begin, n, &grad));
  SHMT_TRY(shmt_op_narrow(of[1], along, begin, n, &self));
  SHMT_TRY(shmt_op_narrow(of[2], along, begin, n, &norm));
  SHMT_TRY(shmt_op_narrow(out, along, begin, n, &to));
  SHMT_TRY(shmt_op__norm_backward_differentiable(grad, self, norm, ord, dim, &slopes));
  return shmt__tensor_copy(to, slopes);
}

/* Computes block by block when nothing is recorded. An element's gradient needs no other element, except for the norms
 * of order infinity, whose gradient is shared by equal extreme elements. */
shmt_status shmt__norm_backward(shmt_tensor* grad, shmt_tensor* self, shmt_tensor* norm, shmt_scalar ord, shmt_ints dim,
                                shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  const shmt_keyset keys = shmt__tensor_keys(grad) | shmt__tensor_keys(self) | shmt__tensor_keys(norm);
  int64_t along = 0;

  if (self->numel <= ELEMENTS_AT_ONCE || isinf(shmt__scalar_to_double(ord)) || grad->dtype != self->dtype ||
      norm->dtype != shmt__to_real_dtype(self->dtype) || shmt__tensor_is_meta(self) || !shmt__is_unobserved_call(keys))
    return shmt_op__norm_backward_differentiable(grad, self, norm, ord, dim, out);
  SHMT_TRY(shmt__tensor_empty_like(self, self->dtype, &result));
  for (int d = 1; d < self->n_dims; d++)
    if (self->sizes[d] > 1 && (self->sizes[along] == 1 || result->strides[d] > result->strides[along])) along = d;
  const int64_t size = self->sizes[along], fit = ELEMENTS_AT_ONCE / (self->numel / size);
  for (int64_t begin = 0, n; begin < size; begin += n) {
    n = fit < 1 ? 1 : fit < size - begin ? fit : size - begin;
    SHMT_TRY(norm_backward_block((shmt_tensor*[]){grad, self, norm}, ord, dim, along, begin, n, result));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}
