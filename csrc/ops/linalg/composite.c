/* ops/linalg/composite.c -- operators of linear algebra that are made of other operators, but need values or counts at
 * run time. */
#include "base/scalar.h"
#include "base/warn.h"
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
  SHMT_TRY(shmt__check_has_memory(shmt__all_examples(info)));
  SHMT_TRY(shmt__tensor_contiguous(shmt__all_examples(info), SHMT_CONTIGUOUS_FORMAT, &dense));
  return shmt__check_infos(name, shmt__tensor_data(dense), dense->numel, dense->n_dims > 0);
}

shmt_status shmt__linalg_check_dtype(shmt_tensor* self, const char* name) {
  return shmt__check_lapack_dtype(name, self);
}

shmt_status shmt__linalg_check_float(shmt_tensor* self, const char* name) {
  return shmt__check_float_dtype(name, self);
}

shmt_status shmt__linalg_check_matrix(shmt_tensor* self, const char* name) {
  return shmt__check_matrix(name, "A", self);
}

shmt_status shmt__linalg_check_square(shmt_tensor* self, const char* name) {
  return shmt__check_square(name, "A", self);
}

shmt_status shmt__linalg_is_vector(shmt_tensor* a, shmt_tensor* b, bool* out) {
  *out = b->n_dims == 1 || a->n_dims - 1 == b->n_dims;
  for (int d = 0; *out && b->n_dims > 1 && d < b->n_dims; d++) *out = a->sizes[d] == b->sizes[d];
  return SHMT_OK;
}

shmt_status shmt__is_nearly_singular(shmt_tensor* a, shmt_tensor* det, bool* out) {
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

/* --- QR, SVD and cross as torch spells them ---------------------------------------------------------- */

shmt_status shmt__linalg_qr(shmt_tensor* a, const char* mode, shmt_tensor** q, shmt_tensor** r) {
  SHMT_AUTO(shmt_tensor) packed = NULL;
  SHMT_AUTO(shmt_tensor) tau = NULL;
  SHMT_AUTO(shmt_tensor) top = NULL;
  SHMT_AUTO(shmt_tensor) reflectors = NULL;
  const bool is_complete = strcmp(mode, "complete") == 0, is_r = strcmp(mode, "r") == 0;

  SHMT_TRY(shmt__check_matrix("linalg.qr", "A", a));
  SHMT_TRY(shmt__check_float_dtype("linalg.qr", a));
  SHMT_REQUIRE(is_complete || is_r || strcmp(mode, "reduced") == 0, SHMT_E_RUNTIME,
               "qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', or 'complete'", mode);
  const int64_t m = a->sizes[a->n_dims - 2], n = a->sizes[a->n_dims - 1], k = m < n ? m : n;
  SHMT_TRY(shmt_op_geqrf(a, &packed, &tau));
  SHMT_TRY(shmt_op_narrow(packed, -2, 0, is_complete ? m : k, &top));
  SHMT_TRY(shmt__batch_copy(top, shmt__tensor_sizes(top), r)); /* column-major, as Q is */
  SHMT_TRY(shmt_op_triu_(*r, 0));
  if (is_r) return shmt__tensor_empty(SHMT_INTS(0), a->dtype, a->device, SHMT_CONTIGUOUS_FORMAT, q);
  if (m >= n && n > 0 && !is_complete) {
    /* The reflectors are not needed any more; Q overwrites them. */
    shmt__tensor_release(SHMT_TAKE(top));
    SHMT_TRY(shmt__householder_product_inplace(packed, tau));
    *q = SHMT_TAKE(packed);
    return SHMT_OK;
  }
  if (is_complete && m > n)
    SHMT_TRY(shmt_op_constant_pad_nd(packed, SHMT_INTS(0, m - n), shmt__scalar_int(0), &reflectors));
  else
    SHMT_TRY(shmt_op_narrow(packed, -1, 0, k, &reflectors));
  if (k > 0) return shmt_op_linalg_householder_product(reflectors, tau, q);
  /* Without reflectors Q is the identity. */
  SHMT_AUTO(shmt_tensor) unit = NULL;
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_TRY(shmt_op_eye_m(m, reflectors->sizes[a->n_dims - 1], a->dtype, SHMT_LAYOUT_NONE, a->device,
                         (shmt_opt_bool){0}, &unit));
  SHMT_TRY(shmt_op_expand(unit, shmt__tensor_sizes(reflectors), false, &wide));
  return shmt__batch_copy(wide, shmt__tensor_sizes(wide), q);
}

shmt_status shmt__svd_old(shmt_tensor* self, bool some, bool compute_uv, shmt_tensor** u, shmt_tensor** s,
                          shmt_tensor** v) {
  SHMT_AUTO(shmt_tensor) vh = NULL;
  int64_t buf[SHMT_MAX_DIMS];

  SHMT_REQUIRE(self->n_dims >= 2, SHMT_E_RUNTIME, "linalg.svd: input should have at least 2 dimensions, but has %d "
               "dimensions instead", self->n_dims);
  if (compute_uv) {
    SHMT_TRY(shmt_op_linalg_svd(self, !some, NULL, u, s, &vh));
    return shmt__adjoint(vh, v);
  }
  const int64_t m = self->sizes[self->n_dims - 2], n = self->sizes[self->n_dims - 1];
  SHMT_TRY(shmt_op_linalg_svdvals(self, NULL, s));
  SHMT_TRY(shmt__batch_empty(shmt__batch_sizes(self, 2, m, m, buf), self->dtype, self->device, u));
  SHMT_TRY(shmt__tensor_fill(*u, shmt__scalar_int(0)));
  SHMT_TRY(shmt__batch_empty(shmt__batch_sizes(self, 2, n, n, buf), self->dtype, self->device, v));
  return shmt__tensor_fill(*v, shmt__scalar_int(0));
}

shmt_status shmt__cross(shmt_tensor* self, shmt_tensor* other, shmt_opt_int dim, shmt_tensor** out) {
  int64_t found = dim.value, sizes[SHMT_MAX_DIMS], n;

  if (!dim.has) {
    static _Atomic(bool) warned;
    SHMT_TRY(shmt__warn_once(&warned,
                             "cross() without a dim is deprecated: pass it, or use linalg.cross(), whose default, "
                             "the last one, cross() will take as well"));
    SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(self), shmt__tensor_sizes(other), sizes, &n));
    for (found = 0; found < n && sizes[found] != 3;) found++;
    SHMT_REQUIRE(found < n, SHMT_E_RUNTIME, "no dimension of size 3 in input");
    found -= n;
  }
  return shmt_op_linalg_cross(self, other, found, out);
}
