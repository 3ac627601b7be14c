/* ops/linalg/matrix_norm.c -- norms of matrices, condition numbers; pinv, QR, SVD and cross as torch spells them. */
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "ops/linalg/lapack.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --- norms -------------------------------------------------------------------------------------- */

/* Wraps the two dims of the matrices. */
static shmt_status matrix_dims(const char* name, const shmt_tensor* self, shmt_ints dim, int64_t wrapped[2]) {
  SHMT_REQUIRE(dim.len == 2, SHMT_E_RUNTIME, "%s: dim must be a 2-tuple. Got %" PRId64 " values", name, dim.len);
  for (int i = 0; i < 2; i++) SHMT_TRY(shmt__wrap_dim(dim.data[i], self->n_dims, &wrapped[i]));
  SHMT_REQUIRE(wrapped[0] != wrapped[1], SHMT_E_RUNTIME,
               "%s: dims must be different. Got (%" PRId64 ", %" PRId64 ")", name, dim.data[0], dim.data[1]);
  return SHMT_OK;
}

static shmt_status cast_to(shmt_tensor* self, shmt_dtype dtype, shmt_tensor** out) {
  if (dtype == SHMT_DTYPE_NONE || dtype == self->dtype) {
    *out = shmt__tensor_ref(self);
    return SHMT_OK;
  }
  return shmt_op_to_dtype(self, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, out);
}

static shmt_status check_norm_input(const char* name, const shmt_tensor* self, shmt_dtype dtype) {
  SHMT_TRY(shmt__check_matrix(name, "A", self));
  SHMT_TRY(shmt__check_float_dtype(name, self));
  SHMT_REQUIRE(dtype == SHMT_DTYPE_NONE || shmt__is_floating(dtype) || shmt__is_complex(dtype), SHMT_E_RUNTIME,
               "%s: dtype should be floating point or complex. Got %s", name, shmt__dtype_title(dtype));
  return SHMT_OK;
}

/* Singular values of the matrices in dims, along the last dim. keep_dims puts back the two dims. */
static shmt_status singular_values(shmt_tensor* a, const int64_t dims[2], shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) moved = NULL;

  SHMT_TRY(shmt_op_movedim_intlist(a, (shmt_ints){dims, 2}, SHMT_INTS(-2, -1), &moved));
  return shmt_op_linalg_svdvals(moved, NULL, out);
}

/* The largest (or smallest) along dim. The largest of no elements is 0. */
static shmt_status amax_or_amin(shmt_tensor* t, int64_t dim, bool is_largest, bool keepdim, shmt_tensor** out) {
  if (t->sizes[dim < 0 ? dim + t->n_dims : dim] == 0 && is_largest)
    return shmt_op_sum_dim_IntList(t, (shmt_ints){&dim, 1}, keepdim, SHMT_DTYPE_NONE, out);
  return (is_largest ? shmt_op_amax : shmt_op_amin)(t, (shmt_ints){&dim, 1}, keepdim, out);
}

/* Puts back the dims of size 1 that keepdim asks for. */
static shmt_status keep_dims(shmt_tensor* reduced, const int64_t dims[2], bool keepdim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) once = NULL;

  if (!keepdim) {
    *out = shmt__tensor_ref(reduced);
    return SHMT_OK;
  }
  SHMT_TRY(shmt_op_unsqueeze(reduced, dims[0] < dims[1] ? dims[0] : dims[1], &once));
  return shmt_op_unsqueeze(once, dims[0] < dims[1] ? dims[1] : dims[0], out);
}

shmt_status shmt__linalg_matrix_norm(shmt_tensor* self, shmt_scalar ord, shmt_ints dim, bool keepdim, shmt_dtype dtype,
                                     shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) size = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;
  const double p = shmt__scalar_to_double(ord), magnitude = fabs(p);
  int64_t dims[2];

  SHMT_TRY(check_norm_input("linalg.matrix_norm", self, dtype));
  SHMT_TRY(matrix_dims("linalg.matrix_norm", self, dim, dims));
  SHMT_REQUIRE(magnitude == 1 || magnitude == 2 || isinf(p), SHMT_E_RUNTIME,
               "linalg.matrix_norm: Order %g not supported.", p);
  if (magnitude == 2) SHMT_TRY(shmt__check_lapack_dtype("linalg.matrix_norm", self));
  SHMT_TRY(cast_to(self, dtype, &a));
  if (magnitude == 2) {
    SHMT_AUTO(shmt_tensor) values = NULL;
    SHMT_AUTO(shmt_tensor) extreme = NULL;
    SHMT_TRY(singular_values(a, dims, &values));
    SHMT_TRY(amax_or_amin(values, -1, p > 0, false, &extreme));
    return keep_dims(extreme, dims, keepdim, out);
  }
  /* Sums along one dim, then the largest or smallest of them along the other. */
  const int summed = isinf(p) ? 1 : 0;
  int64_t other = dims[1 - summed];
  if (!keepdim && dims[summed] < other) other--;
  SHMT_TRY(shmt_op_abs(a, &size));
  SHMT_TRY(shmt_op_sum_dim_IntList(size, (shmt_ints){&dims[summed], 1}, keepdim, SHMT_DTYPE_NONE, &sums));
  return amax_or_amin(sums, other, p > 0, keepdim, out);
}

shmt_status shmt__linalg_matrix_norm_str(shmt_tensor* self, const char* ord, shmt_ints dim, bool keepdim,
                                         shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;
  int64_t dims[2];
  const bool is_nuclear = strcmp(ord, "nuc") == 0;

  SHMT_TRY(check_norm_input("linalg.matrix_norm", self, dtype));
  SHMT_TRY(matrix_dims("linalg.matrix_norm", self, dim, dims));
  SHMT_REQUIRE(is_nuclear || strcmp(ord, "fro") == 0, SHMT_E_RUNTIME, "linalg.matrix_norm: Order %s not supported.",
               ord);
  if (!is_nuclear)
    return shmt_op_linalg_vector_norm(self, shmt__scalar_int(2), (shmt_ints){dims, 2}, keepdim, dtype, out);
  SHMT_TRY(shmt__check_lapack_dtype("linalg.matrix_norm", self));
  SHMT_TRY(cast_to(self, dtype, &a));
  SHMT_TRY(singular_values(a, dims, &values));
  SHMT_TRY(shmt_op_sum_dim_IntList(values, SHMT_INTS(-1), false, SHMT_DTYPE_NONE, &sum));
  return keep_dims(sum, dims, keepdim, out);
}

shmt_status shmt__linalg_norm(shmt_tensor* self, shmt_scalar ord, shmt_ints dim, bool keepdim, shmt_dtype dtype,
                              shmt_tensor** out) {
  const bool has_ord = ord.tag != SHMT_SCALAR_NONE, has_dim = dim.len >= 0;

  SHMT_REQUIRE(!has_dim || dim.len == 1 || dim.len == 2, SHMT_E_RUNTIME,
               "linalg.norm: If dim is specified, it must be of length 1 or 2. Got %" PRId64 " values", dim.len);
  SHMT_REQUIRE(has_dim || !has_ord || self->n_dims == 1 || self->n_dims == 2, SHMT_E_RUNTIME,
               "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got %dD", self->n_dims);
  if (has_ord && ((has_dim && dim.len == 2) || (!has_dim && self->n_dims == 2)))
    return shmt_op_linalg_matrix_norm(self, ord, has_dim ? dim : SHMT_INTS(0, 1), keepdim, dtype, out);
  return shmt_op_linalg_vector_norm(self, has_ord ? ord : shmt__scalar_int(2), dim, keepdim, dtype, out);
}

shmt_status shmt__linalg_norm_str(shmt_tensor* self, const char* ord, shmt_ints dim, bool keepdim, shmt_dtype dtype,
                                  shmt_tensor** out) {
  const bool has_dim = dim.len >= 0;

  SHMT_REQUIRE(!has_dim || dim.len == 1 || dim.len == 2, SHMT_E_RUNTIME,
               "linalg.norm: If dim is specified, it must be of length 1 or 2. Got %" PRId64 " values", dim.len);
  SHMT_REQUIRE(has_dim || self->n_dims == 1 || self->n_dims == 2, SHMT_E_RUNTIME,
               "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got %dD", self->n_dims);
  return shmt_op_linalg_matrix_norm_str_ord(self, ord, has_dim ? dim : SHMT_INTS(0, 1), keepdim, dtype, out);
}

/* The condition number of matrices without elements: zeros, one for each matrix. */
static shmt_status empty_condition(const shmt_tensor* self, shmt_tensor** out) {
  int64_t buf[SHMT_MAX_DIMS];

  return shmt__tensor_zeros(shmt__batch_sizes(self, 0, 0, 0, buf), shmt__real_dtype(self->dtype), self->device, out);
}

/* The inverses; infinite where a matrix is singular. */
static shmt_status inverse_or_infinite(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) inverse = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;
  SHMT_AUTO(shmt_tensor) row = NULL;
  SHMT_AUTO(shmt_tensor) column = NULL;
  SHMT_AUTO(shmt_tensor) failed = NULL;

  SHMT_TRY(shmt_op_linalg_inv_ex(self, false, &inverse, &info));
  SHMT_TRY(shmt_op_unsqueeze(info, -1, &row));
  SHMT_TRY(shmt_op_unsqueeze(row, -1, &column));
  SHMT_TRY(shmt_op_gt_Scalar(column, shmt__scalar_int(0), &failed));
  return shmt_op_masked_fill_Scalar(inverse, failed, shmt__scalar_float(INFINITY), out);
}

shmt_status shmt__linalg_cond(shmt_tensor* self, shmt_scalar p, shmt_tensor** out) {
  const double order = p.tag == SHMT_SCALAR_NONE ? 2 : shmt__scalar_to_double(p);
  SHMT_AUTO(shmt_tensor) inverse = NULL;
  SHMT_AUTO(shmt_tensor) norm = NULL;
  SHMT_AUTO(shmt_tensor) inverse_norm = NULL;

  SHMT_TRY(shmt__check_matrix("linalg.cond", "A", self));
  SHMT_REQUIRE(fabs(order) == 1 || fabs(order) == 2 || isinf(order), SHMT_E_RUNTIME,
               "linalg.cond got an invalid norm type: %g", order);
  if (self->numel == 0) return empty_condition(self, out);
  if (fabs(order) == 2) {
    SHMT_AUTO(shmt_tensor) values = NULL;
    SHMT_AUTO(shmt_tensor) first = NULL;
    SHMT_AUTO(shmt_tensor) last = NULL;
    SHMT_TRY(shmt_op_linalg_svdvals(self, NULL, &values));
    SHMT_TRY(shmt_op_select_int(values, -1, 0, &first));
    SHMT_TRY(shmt_op_select_int(values, -1, -1, &last));
    return order > 0 ? shmt_op_div_Tensor(first, last, out) : shmt_op_div_Tensor(last, first, out);
  }
  SHMT_TRY(shmt__check_square("linalg.cond", "A", self));
  SHMT_TRY(inverse_or_infinite(self, &inverse));
  SHMT_TRY(shmt_op_linalg_matrix_norm(self, p, SHMT_INTS(-2, -1), false, SHMT_DTYPE_NONE, &norm));
  SHMT_TRY(shmt_op_linalg_matrix_norm(inverse, p, SHMT_INTS(-2, -1), false, SHMT_DTYPE_NONE, &inverse_norm));
  return shmt_op_mul_Tensor(norm, inverse_norm, out);
}

shmt_status shmt__linalg_cond_str(shmt_tensor* self, const char* p, shmt_tensor** out) {
  const bool is_nuclear = strcmp(p, "nuc") == 0;
  SHMT_AUTO(shmt_tensor) inverse = NULL;
  SHMT_AUTO(shmt_tensor) norm = NULL;
  SHMT_AUTO(shmt_tensor) inverse_norm = NULL;

  SHMT_TRY(shmt__check_square("linalg.cond", "A", self));
  SHMT_REQUIRE(is_nuclear || strcmp(p, "fro") == 0, SHMT_E_RUNTIME, "linalg.cond got an invalid norm type: %s", p);
  if (self->numel == 0) return empty_condition(self, out);
  if (is_nuclear) {
    /* The inverse's singular values are the reciprocals, infinite ones too. */
    SHMT_AUTO(shmt_tensor) values = NULL;
    SHMT_TRY(shmt_op_linalg_svdvals(self, NULL, &values));
    SHMT_TRY(shmt_op_reciprocal(values, &inverse));
    SHMT_TRY(shmt_op_sum_dim_IntList(values, SHMT_INTS(-1), false, SHMT_DTYPE_NONE, &norm));
    SHMT_TRY(shmt_op_sum_dim_IntList(inverse, SHMT_INTS(-1), false, SHMT_DTYPE_NONE, &inverse_norm));
  } else {
    SHMT_TRY(inverse_or_infinite(self, &inverse));
    SHMT_TRY(shmt_op_linalg_matrix_norm_str_ord(self, p, SHMT_INTS(-2, -1), false, SHMT_DTYPE_NONE, &norm));
    SHMT_TRY(shmt_op_linalg_matrix_norm_str_ord(inverse, p, SHMT_INTS(-2, -1), false, SHMT_DTYPE_NONE, &inverse_norm));
  }
  return shmt_op_mul_Tensor(norm, inverse_norm, out);
}

/* --- pinv, qr, svd, cross --------------------------------------------------------------------------- */

shmt_status shmt__linalg_pinv(shmt_tensor* self, shmt_tensor* atol, shmt_tensor* rtol, bool hermitian,
                              shmt_tensor** out) {
  SHMT_TRY(shmt__check_matrix("linalg.pinv", "A", self));
  SHMT_TRY(shmt__check_lapack_dtype("linalg.pinv", self));
  if (self->numel == 0) {
    int64_t buf[SHMT_MAX_DIMS];
    const int n = self->n_dims;
    return shmt__tensor_zeros(shmt__batch_sizes(self, 2, self->sizes[n - 1], self->sizes[n - 2], buf), self->dtype,
                              self->device, out);
  }
  if (!hermitian) return shmt_op__pinv_general(self, atol, rtol, out);
  SHMT_TRY(shmt__check_square("linalg.pinv", "A", self));
  return shmt_op__pinv_hermitian(self, atol, rtol, out);
}

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

/* The element of a one further along dim, times the element of b two further. */
static shmt_status rolled_product(shmt_tensor* a, shmt_tensor* b, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;

  SHMT_TRY(shmt_op_roll(a, SHMT_INTS(-1), SHMT_INTS(dim), &left));
  SHMT_TRY(shmt_op_roll(b, SHMT_INTS(-2), SHMT_INTS(dim), &right));
  return shmt_op_mul_Tensor(left, right, out);
}

shmt_status shmt__linalg_cross(shmt_tensor* self, shmt_tensor* other, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) plus = NULL;
  SHMT_AUTO(shmt_tensor) minus = NULL;
  int64_t at;

  SHMT_REQUIRE(self->n_dims == other->n_dims, SHMT_E_RUNTIME,
               "linalg.cross: inputs must have the same number of dimensions.");
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &at));
  const int64_t n = self->n_dims ? self->sizes[at] : 1, m = other->n_dims ? other->sizes[at] : 1;
  SHMT_REQUIRE(n == 3 && m == 3, SHMT_E_RUNTIME, "linalg.cross: inputs dimension %" PRId64 " must have length 3. Got %"
               PRId64 " and %" PRId64, dim, n, m);
  SHMT_TRY(shmt__check_scalar_type(other, self->dtype));
  SHMT_REFUSE_DTYPE(self->dtype == SHMT_BOOL || self->dtype == SHMT_COMPLEX32 ||
                        shmt__is_barebones_unsigned(self->dtype), self->dtype, "cross");
  SHMT_TRY(rolled_product(self, other, dim, &plus));
  SHMT_TRY(rolled_product(other, self, dim, &minus));
  return shmt_op_sub_Tensor(plus, minus, shmt__scalar_int(1), out);
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
