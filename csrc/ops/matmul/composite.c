/* ops/matmul/composite.c -- operators made of mm, bmm, mv and dot: matmul, linear, inner, addr, chain_matmul. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/outputs.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <string.h>

static bool is_one(shmt_scalar s) {
  double z[2];

  shmt__scalar_to_complex(s, z);
  return z[0] == 1 && z[1] == 0;
}

shmt_status shmt__adjoint(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) swapped = NULL;

  if (!shmt__is_complex(self->dtype)) return shmt_op_transpose_int(self, -2, -1, out);
  SHMT_TRY(shmt_op_transpose_int(self, -2, -1, &swapped));
  return shmt_op_conj_physical(swapped, out);
}

/* self * scale; self itself where the scale is 1. */
static shmt_status scale(shmt_tensor* self, shmt_scalar factor, shmt_tensor** out) {
  if (!is_one(factor)) return shmt_op_mul_Scalar(self, factor, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

static bool is_column_major(shmt_ints sizes, shmt_ints strides) {
  return strides.data[0] == 1 && strides.data[1] == sizes.data[0] && sizes.data[0] > 1 && sizes.data[1] > 1;
}

/* alpha * a @ b. */
static shmt_status scaled_mm(shmt_tensor* a, shmt_tensor* b, shmt_scalar alpha, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) product = NULL;

  if (is_one(alpha)) return shmt_op_mm(a, b, out);
  SHMT_TRY(shmt_op_mm(a, b, &product));
  return shmt_op_mul_Scalar(product, alpha, out);
}

/* The conjugate of alpha, which a gradient is scaled by. */
static shmt_scalar conjugate(shmt_scalar s) {
  if (s.tag == SHMT_SCALAR_COMPLEX) s.v.z[1] = -s.v.z[1];
  return s;
}

/* The gradient comes in the factor's own layout, so that a transposed weight accumulates without a copy. */
shmt_status shmt__mm_mat1_backward(shmt_tensor* grad, shmt_tensor* mat2, shmt_ints sizes, shmt_ints strides,
                                   shmt_scalar alpha, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;

  if (!is_column_major(sizes, strides)) {
    SHMT_TRY(shmt__adjoint(mat2, &right));
    return scaled_mm(grad, right, conjugate(alpha), out);
  }
  SHMT_TRY(shmt_op_conj_physical(mat2, &left));
  SHMT_TRY(shmt_op_transpose_int(grad, 0, 1, &right));
  SHMT_TRY(scaled_mm(left, right, conjugate(alpha), &product));
  return shmt_op_transpose_int(product, 0, 1, out);
}

shmt_status shmt__mm_mat2_backward(shmt_tensor* grad, shmt_tensor* mat1, shmt_ints sizes, shmt_ints strides,
                                   shmt_scalar alpha, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;

  if (!is_column_major(sizes, strides)) {
    SHMT_TRY(shmt__adjoint(mat1, &left));
    return scaled_mm(left, grad, conjugate(alpha), out);
  }
  SHMT_TRY(shmt_op_transpose_int(grad, 0, 1, &left));
  SHMT_TRY(shmt_op_conj_physical(mat1, &right));
  SHMT_TRY(scaled_mm(left, right, conjugate(alpha), &product));
  return shmt_op_transpose_int(product, 0, 1, out);
}

/* A scale must not have a higher kind of dtype than what it scales; for bool it must be bool. */
static shmt_status check_factor(shmt_dtype dtype, const char* which, shmt_scalar* factor) {
  SHMT_REQUIRE(shmt__dtype_category(dtype) >= 2 || factor->tag == SHMT_SCALAR_INT || factor->tag == SHMT_SCALAR_BOOL,
               SHMT_E_RUNTIME, "For integral input tensors, argument %s must not be a floating point number.", which);
  SHMT_REQUIRE(dtype == SHMT_BOOL || factor->tag != SHMT_SCALAR_BOOL, SHMT_E_RUNTIME,
               "Boolean %s only supported for Boolean results.", which);
  if (dtype == SHMT_BOOL) *factor = shmt__scalar_bool(shmt__scalar_to_bool(*factor));
  return shmt__scalar_check(*factor, dtype);
}

shmt_status shmt__addr(shmt_tensor* self, shmt_tensor* vec1, shmt_tensor* vec2, shmt_scalar beta, shmt_scalar alpha,
                       shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) same_self = NULL;
  SHMT_AUTO(shmt_tensor) scaled = NULL;
  SHMT_AUTO(shmt_tensor) whole = NULL;
  SHMT_AUTO(shmt_tensor) same = NULL;
  SHMT_AUTO(shmt_tensor) column = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  shmt_dtype common;
  double z[2];

  SHMT_REQUIRE(vec1->n_dims == 1, SHMT_E_RUNTIME, "addr: Expected 1-D argument vec1, but got %d-D", vec1->n_dims);
  SHMT_REQUIRE(vec2->n_dims == 1, SHMT_E_RUNTIME, "addr: Expected 1-D argument vec2, but got %d-D", vec2->n_dims);
  SHMT_TRY(shmt__promote_types(vec1->dtype, vec2->dtype, &common));
  SHMT_TRY(shmt__promote_types(self->dtype, common, &common));
  SHMT_REFUSE_DTYPE(common == SHMT_COMPLEX32 || shmt__is_barebones_unsigned(common), common, "addr_cpu");
  SHMT_TRY(check_factor(common, "beta", &beta));
  SHMT_TRY(check_factor(common, "alpha", &alpha));
  SHMT_TRY(shmt__tensor_cast(self, common, &same_self)); /* the dtype that all is calculated in */
  SHMT_TRY(shmt__tensor_cast(vec1, common, &same));
  SHMT_TRY(scale(same_self, beta, &scaled));
  SHMT_TRY(shmt_op_expand(scaled, SHMT_INTS(vec1->sizes[0], vec2->sizes[0]), false, &whole));
  SHMT_TRY(shmt_op_reshape(same, SHMT_INTS(same->sizes[0], 1), &column));
  shmt__scalar_to_complex(beta, z);
  const bool adds = z[0] != 0 || z[1] != 0;
  /* One pass, whose result has the layout of self; two passes are faster where self is row-major. */
  if (adds && common != SHMT_BOOL && !shmt__tensor_is_contiguous(scaled))
    return shmt_op_addcmul(whole, column, vec2, alpha, out);
  SHMT_TRY(shmt_op_mul_Tensor(column, vec2, &product));
  if (common == SHMT_BOOL && !shmt__scalar_to_bool(alpha)) SHMT_TRY(shmt_op_zero_(product));
  if (common != SHMT_BOOL && !is_one(alpha)) SHMT_TRY(shmt_op_mul__Scalar(product, alpha));
  if (adds) SHMT_TRY(shmt_op_add__Tensor(product, whole, shmt__scalar_int(1)));
  *out = SHMT_TAKE(product);
  return SHMT_OK;
}

enum { WORTH_ALONE = 1024 }; /* elements of a matrix from which on a product of its own is no slower than a copy */

/* Is `big`, whose rows do not follow each other in memory, better multiplied matrix by matrix than copied into one
 * matrix? The gradient of `small` would then be made for each matrix. */
static bool stays_apart(const shmt_tensor* big, const shmt_tensor* small) {
  const int n = big->n_dims;
  int64_t strides[2];

  return n == 3 && !small->sparse && big->sizes[n - 1] == small->sizes[0] &&
         big->sizes[n - 2] * big->sizes[n - 1] >= WORTH_ALONE &&
         !(shmt__tensor_keys(small) & SHMT_KEYBIT_Autograd) &&
         !shmt__view_strides(big, SHMT_INTS(big->sizes[0] * big->sizes[1], big->sizes[2]), strides);
}

static shmt_status matmul_batched(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out);

/* Reshape a product that nobody else refers to. It is not marked as a view, so that changing it in place costs no more
 * than for any other result. */
static shmt_status in_shape(shmt_tensor* product, shmt_ints sizes, shmt_tensor** out) {
  int64_t strides[SHMT_MAX_DIMS];

  if (!shmt__view_strides(product, sizes, strides)) return shmt_op_reshape(product, sizes, out);
  return shmt_op__unsafe_view(product, sizes, out);
}

/* Neither is a scalar. The last dim of a is multiplied by the last but one of b, or by its only one. */
static shmt_status matmul_folded(shmt_tensor* big, shmt_tensor* small, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) folded = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  const int n = big->n_dims;
  int64_t rows = 1;

  if (stays_apart(big, small)) return matmul_batched(big, small, out);
  for (int d = 0; d < n - 1; d++) {
    sizes[d] = big->sizes[d];
    rows *= big->sizes[d];
  }
  SHMT_TRY(shmt_op_reshape(big, SHMT_INTS(rows, big->sizes[n - 1]), &folded));
  if (small->n_dims == 1) {
    SHMT_TRY(shmt_op_mv(folded, small, &product));
    return in_shape(product, (shmt_ints){sizes, n - 1}, out);
  }
  SHMT_TRY(shmt_op_mm(folded, small, &product));
  sizes[n - 1] = small->sizes[1];
  return in_shape(product, (shmt_ints){sizes, n}, out);
}

static shmt_status matmul_batched(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) left3 = NULL;
  SHMT_AUTO(shmt_tensor) right3 = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  int64_t n_batch_dims, batch = 1;
  const int n1 = self->n_dims, n2 = other->n_dims;
  const int64_t n = n1 > 1 ? self->sizes[n1 - 2] : 1, k = self->sizes[n1 - 1];
  const int64_t m = n2 > 1 ? other->sizes[n2 - 1] : 1, k2 = n2 > 1 ? other->sizes[n2 - 2] : other->sizes[0];

  SHMT_TRY(shmt__broadcast_sizes((shmt_ints){self->sizes, n1 > 2 ? n1 - 2 : 0},
                                 (shmt_ints){other->sizes, n2 > 2 ? n2 - 2 : 0}, sizes, &n_batch_dims));
  SHMT_REQUIRE(n_batch_dims + 2 <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "matmul(): more than %d dimensions", SHMT_MAX_DIMS);
  for (int64_t d = 0; d < n_batch_dims; d++) batch *= sizes[d];
  sizes[n_batch_dims] = n;
  sizes[n_batch_dims + 1] = k;
  SHMT_TRY(shmt_op_expand(self, (shmt_ints){sizes, n_batch_dims + 2}, false, &left));
  SHMT_TRY(shmt_op_reshape(left, SHMT_INTS(batch, n, k), &left3));
  if (n2 == 1) {
    SHMT_AUTO(shmt_tensor) column = NULL;
    SHMT_TRY(shmt_op_unsqueeze(other, 1, &column));
    sizes[n_batch_dims] = k2;
    sizes[n_batch_dims + 1] = 1;
    SHMT_TRY(shmt_op_expand(column, (shmt_ints){sizes, n_batch_dims + 2}, false, &right));
  } else {
    sizes[n_batch_dims] = k2;
    sizes[n_batch_dims + 1] = m;
    SHMT_TRY(shmt_op_expand(other, (shmt_ints){sizes, n_batch_dims + 2}, false, &right));
  }
  SHMT_TRY(shmt_op_reshape(right, SHMT_INTS(batch, k2, m), &right3));
  SHMT_TRY(shmt_op_bmm(left3, right3, &product));
  if (n1 > 1) sizes[n_batch_dims++] = n;
  if (n2 > 1) sizes[n_batch_dims++] = m;
  return in_shape(product, (shmt_ints){sizes, n_batch_dims}, out);
}

shmt_status shmt__matmul(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  const int n1 = self->n_dims, n2 = other->n_dims;

  SHMT_REQUIRE(n1 > 0 && n2 > 0, SHMT_E_RUNTIME,
               "both arguments to matmul need to be at least 1D, but they are %dD and %dD", n1, n2);
  if (n1 == 1 && n2 == 1) return shmt_op_dot(self, other, out);
  if (n1 == 2 && n2 == 1) return shmt_op_mv(self, other, out);
  if (n1 == 2 && n2 == 2) return shmt_op_mm(self, other, out);
  if (n1 == 1 && n2 == 2) {
    SHMT_AUTO(shmt_tensor) row = NULL;
    SHMT_AUTO(shmt_tensor) product = NULL;
    SHMT_TRY(shmt_op_unsqueeze(self, 0, &row));
    SHMT_TRY(shmt_op_mm(row, other, &product));
    return shmt_op_squeeze_dim(product, 0, out);
  }
  if (n1 >= 3 && n2 <= 2) return matmul_folded(self, other, out);
  return matmul_batched(self, other, out);
}

shmt_status shmt__linear(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) transposed = NULL;
  SHMT_AUTO(shmt_tensor) folded = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  int64_t rows = 1;
  const int n = input->n_dims;

  SHMT_REQUIRE(n > 0 && weight->n_dims > 0, SHMT_E_RUNTIME,
               "both arguments to linear need to be at least 1D, but they are %dD and %dD", n, weight->n_dims);
  /* The error is the one of addmm, which gets these arguments. */
  SHMT_REQUIRE(!bias || bias->dtype == weight->dtype, SHMT_E_RUNTIME,
               "self and mat2 must have the same dtype, but got %s and %s", shmt__dtype_title(bias->dtype),
               shmt__dtype_title(weight->dtype));
  SHMT_REQUIRE(!bias || input->dtype == weight->dtype, SHMT_E_RUNTIME,
               "mat1 and mat2 must have the same dtype, but got %s and %s", shmt__dtype_title(input->dtype),
               shmt__dtype_title(weight->dtype));
  if (weight->n_dims == 1) {
    SHMT_TRY(shmt_op_matmul(input, weight, bias ? &product : out));
    return bias ? shmt_op_add_Tensor(product, bias, shmt__scalar_int(1), out) : SHMT_OK;
  }
  SHMT_TRY(shmt_op_t(weight, &transposed));
  if (n == 2) {
    if (bias) return shmt_op_addmm(bias, input, transposed, shmt__scalar_int(1), shmt__scalar_int(1), out);
    return shmt_op_mm(input, transposed, out);
  }
  if (!bias || n == 1) {
    SHMT_TRY(shmt_op_matmul(input, transposed, bias ? &product : out));
    return bias ? shmt_op_add_Tensor(product, bias, shmt__scalar_int(1), out) : SHMT_OK;
  }
  for (int d = 0; d < n - 1; d++) {
    sizes[d] = input->sizes[d];
    rows *= input->sizes[d];
  }
  if (stays_apart(input, transposed)) {
    SHMT_TRY(matmul_batched(input, transposed, &product));
    SHMT_TRY(shmt_op_add__Tensor(product, bias, shmt__scalar_int(1)));
    *out = SHMT_TAKE(product);
    return SHMT_OK;
  }
  sizes[n - 1] = weight->sizes[0];
  SHMT_TRY(shmt_op_reshape(input, SHMT_INTS(rows, input->sizes[n - 1]), &folded));
  SHMT_TRY(shmt_op_addmm(bias, folded, transposed, shmt__scalar_int(1), shmt__scalar_int(1), &product));
  return shmt_op_view(product, (shmt_ints){sizes, n}, out);
}

static shmt_status inner(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) transposed = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  int64_t sizes[2 * SHMT_MAX_DIMS];
  int n = 0;
  const int n1 = self->n_dims, n2 = other->n_dims;

  SHMT_REQUIRE(self->sizes[n1 - 1] == other->sizes[n2 - 1], SHMT_E_RUNTIME,
               "inner() the last dimension must match on both input tensors but got shapes %s and %s",
               SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(other));
  SHMT_REQUIRE(self->dtype == other->dtype, SHMT_E_RUNTIME, "both inputs should have same dtype");
  if (n1 == 1 && n2 == 1) return shmt_op_dot(self, other, out);
  SHMT_REQUIRE(n1 + n2 - 2 <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "inner(): more than %d dimensions", SHMT_MAX_DIMS);
  const int64_t k = self->sizes[n1 - 1];
  int64_t rows = 1, columns = 1;
  for (int d = 0; d < n1 - 1; d++) rows *= sizes[n++] = self->sizes[d];
  for (int d = 0; d < n2 - 1; d++) columns *= sizes[n++] = other->sizes[d];
  SHMT_TRY(shmt_op_reshape(self, SHMT_INTS(rows, k), &left));
  SHMT_TRY(shmt_op_reshape(other, SHMT_INTS(columns, k), &right));
  SHMT_TRY(shmt_op_t(right, &transposed));
  SHMT_TRY(shmt_op_mm(left, transposed, &product));
  return shmt_op_reshape(product, (shmt_ints){sizes, n}, out);
}

shmt_status shmt__inner(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  const bool is_product = self->n_dims == 0 || other->n_dims == 0;
  SHMT_AUTO(shmt_tensor) result = NULL;

  if (is_product)
    SHMT_TRY(shmt_op_mul_Tensor(self, other, &result));
  else
    SHMT_TRY(inner(self, other, &result));
  if (*out && is_product) return shmt__write_out("inner", result, *out);
  if (*out) return shmt__write_exact_out("inner", result, *out);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* The best place to split matrices i..j, found by shmt__chain_matmul. */
static shmt_status chain_product(shmt_tensors m, const int64_t* split, int64_t i, int64_t j, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  const int64_t s = split[i * m.len + j];

  if (i == j) {
    *out = shmt__tensor_ref(m.data[i]);
    return SHMT_OK;
  }
  SHMT_TRY(chain_product(m, split, i, s, &left));
  SHMT_TRY(chain_product(m, split, s + 1, j, &right));
  return shmt_op_mm(left, right, out);
}

shmt_status shmt__chain_matmul(shmt_tensors matrices, shmt_tensor** out) {
  const int64_t n = matrices.len;
  double* cost;
  int64_t* split;
  void* memory = NULL;
  shmt_status status;

  SHMT_REQUIRE(n > 0 && n <= 1024, SHMT_E_RUNTIME, "chain_matmul(): Expected one or more matrices");
  for (int64_t i = 0; i < n; i++)
    SHMT_REQUIRE(matrices.data[i]->n_dims == 2, SHMT_E_RUNTIME,
                 "Tensor dimension is %d, expected 2 instead.", matrices.data[i]->n_dims);
  for (int64_t i = 1; i < n; i++)
    SHMT_REQUIRE(matrices.data[i - 1]->sizes[1] == matrices.data[i]->sizes[0], SHMT_E_RUNTIME,
                 "multi_dot(): tensors %" PRId64 " and %" PRId64 " with shapes %s and %s cannot be multiplied", i - 1,
                 i, SHMT_SHAPE_TEXT(matrices.data[i - 1]), SHMT_SHAPE_TEXT(matrices.data[i]));
  for (int64_t i = 1; i < n; i++)
    SHMT_REQUIRE(matrices.data[i]->dtype == matrices.data[0]->dtype, SHMT_E_RUNTIME,
                 "multi_dot(): all tensors must have be the same dtype but tensor 0 is %s and tensor %" PRId64 " %s",
                 shmt__dtype_ctype(matrices.data[0]->dtype), i, shmt__dtype_ctype(matrices.data[i]->dtype));
  const uint64_t nbytes = (uint64_t)(n * n) * (sizeof *cost + sizeof *split);
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  memset(memory, 0, nbytes);
  cost = memory;
  split = (int64_t*)(void*)(cost + n * n);
  for (int64_t length = 1; length < n; length++) {
    for (int64_t i = 0; i + length < n; i++) {
      const int64_t j = i + length;
      double best = -1;
      for (int64_t s = i; s < j; s++) {
        const double c = cost[i * n + s] + cost[(s + 1) * n + j] +
                         (double)matrices.data[i]->sizes[0] * (double)matrices.data[s]->sizes[1] *
                             (double)matrices.data[j]->sizes[1];
        if (best < 0 || c < best) {
          best = c;
          split[i * n + j] = s;
        }
      }
      cost[i * n + j] = best;
    }
  }
  status = chain_product(matrices, split, 0, n - 1, out);
  shmt__dealloc(memory, nbytes);
  return status;
}
