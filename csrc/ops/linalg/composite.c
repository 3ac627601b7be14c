/* ops/linalg/composite.c -- operators of linear algebra that are made of other operators, but need values or counts at
 * run time. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "ops/linalg/lapack.h"
#include "ops/outputs.h"
#include "tensor/batched.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static shmt_status identity_like(shmt_tensor* a, int64_t n, shmt_tensor** out) {
  return shmt_op_eye(n, a->dtype, SHMT_LAYOUT_NONE, a->device, (shmt_opt_bool){0}, out);
}

shmt_status shmt__eps(shmt_tensor* self, double* out) {
  static const double of_dtype[SHMT_N_DTYPES] = {
      [SHMT_FLOAT16] = 0x1p-10, [SHMT_BFLOAT16] = 0x1p-7, [SHMT_FLOAT32] = FLT_EPSILON, [SHMT_FLOAT64] = DBL_EPSILON,
  };

  *out = of_dtype[shmt__real_dtype(self->dtype)];
  return SHMT_OK;
}

shmt_status shmt__linalg_check(shmt_tensor* info, const char* name) {
  SHMT_AUTO(shmt_tensor) dense = NULL;

  if (shmt__tensor_is_meta(info)) return SHMT_OK;
  SHMT_REQUIRE(info->dtype == SHMT_INT32, SHMT_E_RUNTIME, "%s: expected infos of Int, got %s", name,
               shmt__dtype_title(info->dtype));
  SHMT_TRY(shmt__tensor_contiguous(shmt__all_examples(info), SHMT_CONTIGUOUS_FORMAT, &dense));
  return shmt__check_infos(name, shmt__tensor_data(dense), dense->numel, dense->n_dims > 0);
}

shmt_status shmt__linalg_check_dtype(shmt_tensor* self, const char* name) {
  return shmt__check_lapack_dtype(name, self);
}

shmt_status shmt__linalg_check_float(shmt_tensor* self, const char* name) {
  return shmt__check_float_dtype(name, self);
}

shmt_status shmt__linalg_check_square(shmt_tensor* self, const char* name) {
  return shmt__check_square(name, "A", self);
}

shmt_status shmt__linalg_is_vector(shmt_tensor* a, shmt_tensor* b, bool* out) {
  *out = b->n_dims == 1 || a->n_dims - 1 == b->n_dims;
  for (int d = 0; *out && b->n_dims > 1 && d < b->n_dims; d++) *out = a->sizes[d] == b->sizes[d];
  return SHMT_OK;
}

/* --- determinants ---------------------------------------------------------------------------- */

/* Is some determinant so small, compared with its bound by the lengths of the rows, that the inverse says little? */
static shmt_status is_nearly_singular(shmt_tensor* a, shmt_tensor* det, bool* out) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) bound = NULL;
  SHMT_AUTO(shmt_tensor) limit = NULL;
  SHMT_AUTO(shmt_tensor) size = NULL;
  SHMT_AUTO(shmt_tensor) below = NULL;
  SHMT_AUTO(shmt_tensor) some = NULL;
  shmt_scalar value;
  double eps;

  *out = false;
  if (shmt__tensor_is_meta(det)) return SHMT_OK;
  SHMT_TRY(shmt__eps(a, &eps));
  SHMT_TRY(shmt_op_linalg_vector_norm(a, shmt__scalar_int(2), SHMT_INTS(-1), false, SHMT_DTYPE_NONE, &rows));
  SHMT_TRY(shmt_op_prod_dim_int(rows, -1, false, SHMT_DTYPE_NONE, &bound));
  SHMT_TRY(shmt_op_mul_Scalar(bound, shmt__scalar_float(sqrt(eps)), &limit));
  SHMT_TRY(shmt_op_abs(det, &size));
  SHMT_TRY(shmt_op_le_Tensor(size, limit, &below));
  SHMT_TRY(shmt_op_any(shmt__all_examples(below), &some));
  SHMT_TRY(shmt__tensor_item(some, &value));
  *out = shmt__scalar_to_bool(value);
  return SHMT_OK;
}

/* grad * conj(det) * A^-H where A is regular. Uses cofactors when some matrix is nearly singular. */
shmt_status shmt__det_backward(shmt_tensor* grad, shmt_tensor* det, shmt_tensor* a, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) unit = NULL;
  SHMT_AUTO(shmt_tensor) factor = NULL;
  SHMT_AUTO(shmt_tensor) row = NULL;
  SHMT_AUTO(shmt_tensor) column = NULL;
  SHMT_AUTO(shmt_tensor) adjoint = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  bool is_singular;

  if (a->sizes[a->n_dims - 1] <= 1) { /* The determinant is the element itself. */
    SHMT_TRY(shmt_op_unsqueeze(grad, -1, &row));
    SHMT_TRY(shmt_op_unsqueeze(row, -1, &column));
    return shmt_op_expand(column, shmt__tensor_sizes(a), false, out);
  }
  SHMT_TRY(is_nearly_singular(a, det, &is_singular));
  if (is_singular)
    factor = shmt__tensor_ref(grad);
  else
    SHMT_TRY(shmt_op__mul_conj(grad, det, &factor));
  SHMT_TRY(shmt_op_unsqueeze(factor, -1, &row));
  SHMT_TRY(shmt_op_unsqueeze(row, -1, &column));
  if (is_singular) {
    SHMT_AUTO(shmt_tensor) cofactors = NULL;
    SHMT_TRY(shmt_op__det_cofactors(a, &cofactors));
    return shmt_op_mul_Tensor(column, cofactors, out);
  }
  SHMT_TRY(identity_like(a, a->sizes[a->n_dims - 1], &unit));
  SHMT_TRY(shmt_op_mul_Tensor(column, unit, &right));
  SHMT_TRY(shmt__adjoint(a, &adjoint));
  return shmt_op_linalg_solve(adjoint, right, true, out);
}

/* --- Householder reflectors --------------------------------------------------------------------- */

/* Applies a reflector from the left: t - scale * v (v^H t). scale: (..., 1, 1); v: (..., m, 1). */
static shmt_status apply_reflector(shmt_tensor* t, shmt_tensor* v, shmt_tensor* scale, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) row = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  SHMT_AUTO(shmt_tensor) scaled = NULL;
  SHMT_AUTO(shmt_tensor) change = NULL;

  SHMT_TRY(shmt__adjoint(v, &row));
  SHMT_TRY(shmt_op_matmul(row, t, &product));
  SHMT_TRY(shmt_op_mul_Tensor(v, scale, &scaled));
  SHMT_TRY(shmt_op_matmul(scaled, product, &change));
  return shmt_op_sub_Tensor(t, change, shmt__scalar_int(1), out);
}

/* The vector of the i-th reflector (..., m, 1): zeros, a one, and what stands below the diagonal of column i. */
static shmt_status reflector_vector(shmt_tensor* input, int64_t i, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) column = NULL;
  SHMT_AUTO(shmt_tensor) low = NULL;
  SHMT_AUTO(shmt_tensor) unit = NULL;
  SHMT_AUTO(shmt_tensor) one = NULL;
  const int64_t m = input->sizes[input->n_dims - 2];

  SHMT_TRY(shmt_op_narrow(input, -1, i, 1, &column));
  SHMT_TRY(shmt_op_tril(column, -i - 1, &low));
  SHMT_TRY(identity_like(input, m, &unit));
  SHMT_TRY(shmt_op_narrow(unit, -1, i, 1, &one));
  return shmt_op_add_Tensor(low, one, shmt__scalar_int(1), out);
}

/* The gradients of the vector and of tau of one reflector H = I - tau v v^H. s = (H_1 .. H_i-1)^H grad; r = H_i+1 ..
 * H_k E. */
static shmt_status reflector_backward(shmt_tensor* s, shmt_tensor* r, shmt_tensor* v, shmt_tensor* tau, int64_t i,
                                       shmt_tensor** grad_v, shmt_tensor** grad_tau) {
  SHMT_AUTO(shmt_tensor) s_h = NULL;
  SHMT_AUTO(shmt_tensor) r_h = NULL;
  SHMT_AUTO(shmt_tensor) v_h = NULL;
  SHMT_AUTO(shmt_tensor) rv = NULL;
  SHMT_AUTO(shmt_tensor) sv = NULL;
  SHMT_AUTO(shmt_tensor) gv = NULL;
  SHMT_AUTO(shmt_tensor) ghv = NULL;
  SHMT_AUTO(shmt_tensor) dot = NULL;
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_AUTO(shmt_tensor) low = NULL;

  SHMT_TRY(shmt__adjoint(s, &s_h));
  SHMT_TRY(shmt__adjoint(r, &r_h));
  SHMT_TRY(shmt__adjoint(v, &v_h));
  SHMT_TRY(shmt_op_matmul(r_h, v, &rv));
  SHMT_TRY(shmt_op_matmul(s, rv, &gv)); /* G v, G = s r^H */
  SHMT_TRY(shmt_op_matmul(s_h, v, &sv));
  SHMT_TRY(shmt_op_matmul(r, sv, &ghv)); /* G^H v */
  SHMT_TRY(shmt_op_matmul(v_h, gv, &dot));
  SHMT_TRY(shmt_op_neg(dot, grad_tau));
  SHMT_TRY(shmt_op__mul_conj(gv, tau, &a));
  SHMT_TRY(shmt_op_mul_Tensor(ghv, tau, &b));
  SHMT_TRY(shmt_op_add_Tensor(a, b, shmt__scalar_int(1), &sum));
  SHMT_TRY(shmt_op_tril(sum, -i - 1, &low));
  return shmt_op_neg(low, grad_v);
}

/* The scale of the inverse reflector: (I - t v v^H)^-1 = I - t / (t v^H v - 1) v v^H. */
static shmt_status inverse_scale(shmt_tensor* v, shmt_tensor* tau, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) v_h = NULL;
  SHMT_AUTO(shmt_tensor) square = NULL;
  SHMT_AUTO(shmt_tensor) scaled = NULL;
  SHMT_AUTO(shmt_tensor) below = NULL;

  SHMT_TRY(shmt__adjoint(v, &v_h));
  SHMT_TRY(shmt_op_matmul(v_h, v, &square));
  SHMT_TRY(shmt_op_mul_Tensor(square, tau, &scaled));
  SHMT_TRY(shmt_op_sub_Scalar(scaled, shmt__scalar_int(1), shmt__scalar_int(1), &below));
  return shmt_op_div_Tensor(tau, below, out);
}

/* Calculates the columns of both gradients. They are new references. */
static shmt_status reflectors_backward(shmt_tensor* grad, shmt_tensor* result, shmt_tensor* input, shmt_tensor* tau,
                                       shmt_tensor** grad_v, shmt_tensor** grad_tau) {
  SHMT_AUTO(shmt_tensor) s = shmt__tensor_ref(grad);
  SHMT_AUTO(shmt_tensor) r = shmt__tensor_ref(result);
  SHMT_AUTO(shmt_tensor) scales = NULL;
  const int64_t k = tau->sizes[tau->n_dims - 1];

  SHMT_TRY(shmt_op_unsqueeze(tau, -2, &scales));
  for (int64_t i = 0; i < k; i++) {
    SHMT_AUTO(shmt_tensor) v = NULL;
    SHMT_AUTO(shmt_tensor) t = NULL;
    SHMT_AUTO(shmt_tensor) conj_t = NULL;
    SHMT_AUTO(shmt_tensor) inverse = NULL;
    SHMT_AUTO(shmt_tensor) old_r = NULL;
    SHMT_AUTO(shmt_tensor) old_s = NULL;
    SHMT_TRY(reflector_vector(input, i, &v));
    SHMT_TRY(shmt_op_narrow(scales, -1, i, 1, &t));
    SHMT_TRY(inverse_scale(v, t, &inverse));
    old_r = SHMT_TAKE(r);
    SHMT_TRY(apply_reflector(old_r, v, inverse, &r));
    SHMT_TRY(reflector_backward(s, r, v, t, i, &grad_v[i], &grad_tau[i]));
    SHMT_TRY(shmt_op_conj_physical(t, &conj_t));
    old_s = SHMT_TAKE(s);
    SHMT_TRY(apply_reflector(old_s, v, conj_t, &s));
  }
  return SHMT_OK;
}

shmt_status shmt__householder_backward(shmt_tensor* grad, shmt_tensor* result, shmt_tensor* input, shmt_tensor* tau,
                                       shmt_tensor** grad_input, shmt_tensor** grad_tau) {
  SHMT_AUTO_LIST columns = {0, 0};
  SHMT_AUTO_LIST scales = {0, 0};
  SHMT_AUTO(shmt_tensor) joined = NULL;

  SHMT_REQUIRE(input->n_dims >= 2 && tau->n_dims >= 1, SHMT_E_RUNTIME,
               "_householder_backward: input must have at least 2 dimensions and tau 1, but have %d and %d",
               input->n_dims, tau->n_dims);
  const int64_t k = tau->sizes[tau->n_dims - 1], n = input->sizes[input->n_dims - 1];
  SHMT_REQUIRE(k <= n && n <= input->sizes[input->n_dims - 2], SHMT_E_RUNTIME,
               "_householder_backward: %" PRId64 " reflections of matrices of shape %s", k, SHMT_SHAPE_TEXT(input));
  if (k == 0 || input->numel == 0) {
    SHMT_TRY(shmt__tensor_zeros(shmt__tensor_sizes(input), input->dtype, input->device, grad_input));
    return shmt__tensor_zeros(shmt__tensor_sizes(tau), tau->dtype, tau->device, grad_tau);
  }
  SHMT_TRY(shmt__tensor_vec_alloc(k + 1, &columns));
  SHMT_TRY(shmt__tensor_vec_alloc(k, &scales));
  SHMT_TRY(reflectors_backward(grad, result, input, tau, columns.data, scales.data));
  SHMT_TRY(shmt_op_cat((shmt_tensors){scales.data, k}, -1, &joined));
  SHMT_TRY(shmt_op_squeeze_dim(joined, -2, grad_tau));
  /* Columns without a reflector are columns of the identity matrix, so their gradient is 0. */
  {
    SHMT_AUTO(shmt_tensor) rest = NULL;
    SHMT_TRY(shmt_op_narrow(input, -1, k, n - k, &rest));
    SHMT_TRY(shmt__tensor_zeros(shmt__tensor_sizes(rest), input->dtype, input->device, &columns.data[k]));
  }
  return shmt_op_cat((shmt_tensors){columns.data, k + 1}, -1, grad_input);
}

/* --- powers and the exponential ----------------------------------------------------------------- */

static shmt_status matrix_power(shmt_tensor* self, int64_t n, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) base = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  uint64_t bits = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;

  SHMT_TRY(shmt__check_square("linalg.matrix_power", "A", self));
  if (n == 0) {
    SHMT_AUTO(shmt_tensor) unit = NULL;
    SHMT_TRY(identity_like(self, self->sizes[self->n_dims - 1], &unit));
    /* A copy that is written to keeps its place in the graph, with a gradient of 0. */
    SHMT_TRY(shmt_op_clone(self, SHMT_CONTIGUOUS_FORMAT, &result));
    SHMT_TRY(shmt_op_copy_(result, unit, false));
    *out = SHMT_TAKE(result);
    return SHMT_OK;
  }
  if (n == 1) return shmt_op_clone(self, SHMT_CONTIGUOUS_FORMAT, out);
  if (n < 0)
    SHMT_TRY(shmt_op_linalg_inv(self, &base));
  else
    base = shmt__tensor_ref(self);
  while (bits) {
    if (bits & 1) {
      SHMT_AUTO(shmt_tensor) old = SHMT_TAKE(result);
      if (old)
        SHMT_TRY(shmt_op_matmul(old, base, &result));
      else
        result = shmt__tensor_ref(base);
    }
    bits >>= 1;
    if (bits) {
      SHMT_AUTO(shmt_tensor) old = SHMT_TAKE(base);
      SHMT_TRY(shmt_op_matmul(old, old, &base));
    }
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__matrix_power(shmt_tensor* self, int64_t n, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  const uint64_t steps = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
  const bool only_squares = steps > 2 && (steps & (steps - 1)) == 0;

  SHMT_TRY(matrix_power(self, n, &result));
  /* In torch the last product is written into out itself, whose dtype must fit; what is only squared is copied. */
  if (n != 0 && n != 1 && !only_squares) SHMT_TRY(shmt__check_out_dtype(*out, result->dtype));
  if (*out) return shmt__write_dense_out("linalg_matrix_power", result, *out);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- several matrices ------------------------------------------------------------------------------ */

shmt_status shmt__linalg_multi_dot(shmt_tensors tensors, shmt_tensor** out) {
  SHMT_AUTO_LIST matrices = {0, 0};
  SHMT_AUTO(shmt_tensor) product = NULL;
  SHMT_AUTO(shmt_tensor) column = NULL;
  const int64_t n = tensors.len;

  SHMT_REQUIRE(n >= 2, SHMT_E_RUNTIME, "multi_dot(): expected at least 2 tensors but got %" PRId64, n);
  const bool first_vector = tensors.data[0]->n_dims == 1, last_vector = tensors.data[n - 1]->n_dims == 1;
  SHMT_TRY(shmt__tensor_vec_copy(tensors, &matrices));
  for (int64_t i = 0; i < n; i++) {
    shmt_tensor* t = tensors.data[i];
    const bool at_end = i == 0 || i == n - 1;
    SHMT_REQUIRE(t->n_dims == 2 || (at_end && t->n_dims == 1), SHMT_E_RUNTIME,
                 "multi_dot(): tensor %" PRId64 " must be 2D%s but got %dD", i, at_end ? " or 1D" : "", t->n_dims);
    SHMT_REQUIRE(t->dtype == tensors.data[0]->dtype, SHMT_E_RUNTIME, "multi_dot(): all tensors must have be the same "
                 "dtype but tensor 0 is %s and tensor %" PRId64 " %s", shmt__dtype_ctype(tensors.data[0]->dtype), i,
                 shmt__dtype_ctype(t->dtype));
    if (t->n_dims == 1) {
      SHMT_AUTO(shmt_tensor) old = SHMT_TAKE(matrices.data[i]);
      SHMT_TRY(shmt_op_unsqueeze(old, i == 0 ? 0 : -1, &matrices.data[i]));
    }
  }
  for (int64_t i = 1; i < n; i++)
    SHMT_REQUIRE(matrices.data[i - 1]->sizes[1] == matrices.data[i]->sizes[0], SHMT_E_RUNTIME,
                 "multi_dot(): tensors %" PRId64 " and %" PRId64 " with shapes %s and %s cannot be multiplied", i - 1,
                 i, SHMT_SHAPE_TEXT(tensors.data[i - 1]), SHMT_SHAPE_TEXT(tensors.data[i]));
  SHMT_TRY(shmt__chain_matmul((shmt_tensors){matrices.data, n}, &product));
  if (last_vector)
    SHMT_TRY(shmt_op_squeeze_dim(product, -1, &column));
  else
    column = SHMT_TAKE(product);
  if (first_vector) return shmt_op_squeeze_dim(column, 0, out);
  *out = SHMT_TAKE(column);
  return SHMT_OK;
}

/* --- tensors as matrices ---------------------------------------------------------------------------- */

static int64_t product_of(const int64_t* sizes, int n) {
  int64_t p = 1;

  for (int i = 0; i < n; i++) p *= sizes[i];
  return p;
}

shmt_status shmt__linalg_tensorinv(shmt_tensor* self, int64_t ind, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) inverse = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  const int n = self->n_dims;

  SHMT_REQUIRE(ind > 0, SHMT_E_RUNTIME, "Expected a strictly positive integer for 'ind', but got %" PRId64, ind);
  SHMT_REQUIRE(ind <= n, SHMT_E_RUNTIME, "linalg.tensorinv(): 'ind' is %" PRId64 " but the input has %d dimensions",
               ind, n);
  const int64_t rows = product_of(self->sizes, (int)ind), columns = product_of(self->sizes + ind, n - (int)ind);
  SHMT_REQUIRE(rows == columns, SHMT_E_RUNTIME, "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
               "prod(self.shape[:ind]), but got %" PRId64 " != %" PRId64, columns, rows);
  SHMT_TRY(shmt_op_reshape(self, SHMT_INTS(rows, columns), &flat));
  SHMT_TRY(shmt_op_linalg_inv_ex(flat, false, &inverse, &info));
  SHMT_TRY(shmt_op__linalg_check(info, "linalg.tensorinv"));
  for (int d = 0; d < n; d++) sizes[d] = self->sizes[(d + ind) % n];
  return shmt_op_reshape(inverse, (shmt_ints){sizes, n}, out);
}

shmt_status shmt__linalg_tensorsolve(shmt_tensor* self, shmt_tensor* other, shmt_ints dims, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) moved = shmt__tensor_ref(self);
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) x = NULL;
  int64_t to[SHMT_MAX_DIMS];

  if (dims.len > 0) {
    SHMT_REQUIRE(dims.len <= self->n_dims, SHMT_E_RUNTIME, "linalg.tensorsolve(): more dims than the input has");
    SHMT_AUTO(shmt_tensor) old = SHMT_TAKE(moved);
    for (int64_t i = 0; i < dims.len; i++) to[i] = self->n_dims - dims.len + i;
    SHMT_TRY(shmt_op_movedim_intlist(old, dims, (shmt_ints){to, dims.len}, &moved));
  }
  SHMT_REQUIRE(other->n_dims <= moved->n_dims, SHMT_E_RUNTIME, "linalg.tensorsolve(): other has more dimensions than "
               "the input: %d and %d", other->n_dims, moved->n_dims);
  const shmt_ints result = {moved->sizes + other->n_dims, moved->n_dims - other->n_dims};
  const int64_t n = product_of(result.data, (int)result.len);
  SHMT_REQUIRE(n == other->numel && moved->numel == n * n, SHMT_E_RUNTIME, "Expected self to satisfy the requirement "
               "prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got %" PRId64 " != %" PRId64, n,
               other->numel);
  SHMT_TRY(shmt_op_reshape(moved, SHMT_INTS(n, n), &flat));
  SHMT_TRY(shmt_op_reshape(other, SHMT_INTS(n), &right));
  SHMT_TRY(shmt_op_linalg_solve(flat, right, true, &x));
  return shmt_op_reshape(x, result, out);
}

/* --- LU ------------------------------------------------------------------------------------------ */

/* The lower factor: elements below the diagonal, with ones on it. The ones are written into the result, so that there
 * is one more matrix in memory and not three. */
static shmt_status unit_lower(shmt_tensor* lu, int64_t columns, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) diagonal = NULL;

  SHMT_TRY(shmt_op_narrow(lu, -1, 0, columns, &left));
  SHMT_TRY(shmt_op_tril(left, -1, out));
  SHMT_TRY(shmt_op_diagonal(*out, 0, -2, -1, &diagonal));
  return shmt_op_fill__Scalar(diagonal, shmt__scalar_int(1));
}

static shmt_status empty_like(shmt_tensor* a, shmt_tensor** out) {
  return shmt_op_new_zeros(a, SHMT_INTS(0), SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0},
                           out);
}

shmt_status shmt__lu_unpack(shmt_tensor* lu_data, shmt_tensor* lu_pivots, bool unpack_data, bool unpack_pivots,
                            shmt_tensor** p, shmt_tensor** l, shmt_tensor** u) {
  SHMT_AUTO(shmt_tensor) top = NULL;

  SHMT_REQUIRE(lu_data->n_dims >= 2, SHMT_E_RUNTIME,
               "torch.lu_unpack: The input tensor LU_data must have at least 2 dimensions.");
  const int64_t m = lu_data->sizes[lu_data->n_dims - 2], n = lu_data->sizes[lu_data->n_dims - 1];
  const int64_t k = m < n ? m : n;
  if (unpack_pivots)
    SHMT_TRY(shmt_op__pivots_to_matrix(lu_pivots, m, lu_data->dtype, p));
  else
    SHMT_TRY(empty_like(lu_data, p));
  if (!unpack_data) {
    SHMT_TRY(empty_like(lu_data, l));
    return empty_like(lu_data, u);
  }
  SHMT_TRY(unit_lower(lu_data, k, l));
  SHMT_TRY(shmt_op_narrow(lu_data, -2, 0, k, &top));
  return shmt_op_triu(top, 0, u);
}

shmt_status shmt__linalg_vander(shmt_tensor* x, shmt_opt_int n, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) line = NULL;

  SHMT_REQUIRE(x->dtype != SHMT_BOOL && x->dtype != SHMT_COMPLEX32 && !shmt__is_half(x->dtype), SHMT_E_RUNTIME,
               "linalg.vander supports floating point, complex, and integer tensors, but got %s",
               shmt__dtype_title(x->dtype));
  if (x->n_dims == 0)
    SHMT_TRY(shmt_op_unsqueeze(x, -1, &line));
  else
    line = shmt__tensor_ref(x);
  return shmt_op__linalg_vander(line, n.has ? n.value : line->sizes[line->n_dims - 1], out);
}
