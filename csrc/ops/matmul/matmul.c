/* ops/matmul/matmul.c -- products of matrices and vectors: mm, addmm, bmm, baddbmm, mv, dot and their kin. */
#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/matmul/gemm.h"
#include "ops/check.h"
#include "generated/impls.h"
#include "ops/outputs.h"

#include <inttypes.h>

static shmt__matrix matrix_of(const shmt_tensor* t, int row_dim, int column_dim) {
  return (shmt__matrix){.data = shmt__tensor_data(t),
                        .rows = t->sizes[row_dim],
                        .columns = t->sizes[column_dim],
                        .row_stride = t->strides[row_dim],
                        .column_stride = t->strides[column_dim]};
}

/* A column vector. */
static shmt__matrix vector_of(const shmt_tensor* t) {
  return (shmt__matrix){shmt__tensor_data(t), t->sizes[0], 1, t->strides[0], 1};
}

/* COPIED_BYTES: of factors that are copied at a time, for each thread. LEAST_SUMMED: the shortest pieces that k is cut
 * into; each piece is added to all of the product. */
enum { COPIED_BYTES = 128 << 10, LEAST_SUMMED = 64 };

static shmt_status check_dim(const char* text, const shmt_tensor* t, int n_dims) {
  SHMT_REQUIRE(t->n_dims == n_dims, SHMT_E_RUNTIME, "%s", text);
  return SHMT_OK;
}

static shmt_status check_loop(const char* what, shmt_dtype dtype) {
  SHMT_REFUSE_DTYPE(dtype == SHMT_BOOL || shmt__is_barebones_unsigned(dtype) || !shmt__gemm_has(dtype), dtype, what);
  return SHMT_OK;
}

/* The dtype that sums of several products are calculated in; shmt__gemm does the same inside for one. */
static shmt_dtype product_dtype(shmt_dtype dtype) { return shmt__is_half(dtype) ? SHMT_FLOAT32 : dtype; }

/* t in dtype, in a layout that a BLAS reads. New reference. */
static shmt_status prepare_factor(shmt_tensor* t, shmt_dtype dtype, int row_dim, int column_dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  SHMT_TRY(shmt__tensor_cast(t, dtype, &cast));
  if (shmt__matrix_is_blas(matrix_of(cast, row_dim, column_dim))) {
    *out = SHMT_TAKE(cast);
    return SHMT_OK;
  }
  return shmt__tensor_contiguous(cast, SHMT_CONTIGUOUS_FORMAT, out);
}

/* Set *work to the tensor to calculate the product of a and b in: the preset output, unless it overlaps a factor. */
static shmt_status begin_product(const char* name, shmt_tensor** out, shmt_ints sizes, shmt_dtype dtype,
                                 shmt_dtype work_dtype, shmt_device device, const shmt_tensor* a,
                                 const shmt_tensor* b, shmt_tensor** work) {
  SHMT_TRY(shmt__check_out_dtype(*out, dtype));
  if (*out && device == SHMT_CPU && (shmt__may_overlap(*out, a) || shmt__may_overlap(*out, b))) {
    SHMT_TRY(shmt__prepare_out(name, out, sizes, dtype, device));
    return shmt__tensor_empty(sizes, work_dtype, device, SHMT_CONTIGUOUS_FORMAT, work);
  }
  if (work_dtype == dtype) return shmt__output_begin(name, out, sizes, dtype, device, work);
  if (*out) SHMT_TRY(shmt__prepare_out(name, out, sizes, dtype, device));
  return shmt__tensor_empty(sizes, work_dtype, device, SHMT_CONTIGUOUS_FORMAT, work);
}

static shmt_status end_product(const char* name, shmt_dtype dtype, shmt_tensor** work, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;

  if (*out || (*work)->dtype == dtype) return shmt__output_end(name, work, out);
  wide = SHMT_TAKE(*work);
  return shmt__tensor_cast(wide, dtype, out);
}

/* beta and alpha are used in the dtype that a product of this one is calculated in. */
static shmt_status check_scales(shmt_dtype dtype, shmt_scalar beta, shmt_scalar alpha) {
  SHMT_TRY(shmt__scalar_check(beta, product_dtype(dtype)));
  return shmt__scalar_check(alpha, product_dtype(dtype));
}

/* Copy `start`, which a product is added to, to `work`. *beta becomes 0 where nothing is added: start is NULL, or beta
 * == 0. */
static shmt_status begin_sum(shmt_scalar* beta, shmt_tensor* start, shmt_tensor* work) {
  double z[2];

  shmt__scalar_to_complex(*beta, z);
  if (start && (z[0] != 0 || z[1] != 0)) return start == work ? SHMT_OK : shmt__tensor_copy(work, start);
  *beta = shmt__scalar_int(0);
  return SHMT_OK;
}

/* The length of the pieces that k is cut into where a factor must be copied, so that copies are small, or no larger
 * than a quarter of the product. k is not cut where the sums have 16 bits, which are rounded once. */
static int64_t sum_step(const shmt_tensor* a, const shmt_tensor* b, const shmt_tensor* work) {
  const int64_t item = shmt__dtype_size[work->dtype];
  int64_t most = COPIED_BYTES * shmt__num_threads(), each = 0;

  if (!shmt__matrix_is_blas(matrix_of(a, 0, 1))) each += a->sizes[0] * item;
  if (!shmt__matrix_is_blas(matrix_of(b, 0, 1))) each += b->sizes[1] * item;
  if (each == 0 || shmt__is_half(work->dtype)) return a->sizes[1];
  if (most < work->numel * item / 4) most = work->numel * item / 4;
  return most / each < LEAST_SUMMED ? LEAST_SUMMED : most / each;
}

/* Slices [begin, end) of a matrix along dim, in a layout that a BLAS reads. New reference. */
static shmt_status prepare_part(shmt_tensor* t, int dim, int64_t begin, int64_t end, shmt_dtype dtype,
                                shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) part = NULL;
  int64_t sizes[2] = {t->sizes[0], t->sizes[1]};

  if (end - begin == sizes[dim]) return prepare_factor(t, dtype, 0, 1, out);
  sizes[dim] = end - begin;
  SHMT_TRY(shmt__tensor_alias(t, (shmt_ints){sizes, 2}, shmt__tensor_strides(t), t->offset + begin * t->strides[dim],
                              &part));
  return prepare_factor(part, dtype, 0, 1, out);
}

/* work = beta * start + alpha * a @ b. All 2-d. */
static shmt_status product_2d(shmt_scalar beta, shmt_tensor* start, shmt_scalar alpha, shmt_tensor* a, shmt_tensor* b,
                              shmt_tensor* work) {
  if (shmt__tensor_is_meta(work)) return SHMT_OK;
  SHMT_TRY(begin_sum(&beta, start, work));
  const int64_t count = a->sizes[1], step = sum_step(a, b, work);
  int64_t begin = 0;
  do {
    SHMT_AUTO(shmt_tensor) left = NULL;
    SHMT_AUTO(shmt_tensor) right = NULL;
    const int64_t end = count - begin < step ? count : begin + step;
    SHMT_TRY(prepare_part(a, 1, begin, end, work->dtype, &left));
    SHMT_TRY(prepare_part(b, 0, begin, end, work->dtype, &right));
    shmt__gemm(work->dtype, alpha, matrix_of(left, 0, 1), matrix_of(right, 0, 1), beta, matrix_of(work, 0, 1));
    beta = shmt__scalar_int(1);
    begin = end;
  } while (begin < count); /* also once for k == 0: beta * start remains */
  return SHMT_OK;
}

static shmt_status check_inner(const shmt_tensor* a, const shmt_tensor* b) {
  SHMT_REQUIRE(a->sizes[1] == b->sizes[0], SHMT_E_RUNTIME,
               "mat1 and mat2 shapes cannot be multiplied (%" PRId64 "x%" PRId64 " and %" PRId64 "x%" PRId64 ")",
               a->sizes[0], a->sizes[1], b->sizes[0], b->sizes[1]);
  return SHMT_OK;
}

/* names: "self and mat2". */
static shmt_status check_same_dtype(const char* names, const shmt_tensor* a, const shmt_tensor* b) {
  SHMT_REQUIRE(a->dtype == b->dtype, SHMT_E_RUNTIME, "%s must have the same dtype, but got %s and %s", names,
               shmt__dtype_title(a->dtype), shmt__dtype_title(b->dtype));
  return SHMT_OK;
}

shmt_status shmt__mm(shmt_tensor* self, shmt_tensor* mat2, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;

  SHMT_TRY(check_dim("self must be a matrix", self, 2));
  SHMT_TRY(check_dim("mat2 must be a matrix", mat2, 2));
  SHMT_TRY(check_inner(self, mat2));
  SHMT_REQUIRE(self->dtype == mat2->dtype, SHMT_E_RUNTIME,
               "expected m1 and m2 to have the same dtype, but got: %s != %s", shmt__dtype_ctype(self->dtype),
               shmt__dtype_ctype(mat2->dtype));
  const bool is_empty = self->numel == 0 || mat2->numel == 0; /* such factors may have any dtype */
  if (!is_empty) SHMT_TRY(check_loop("addmm_impl_cpu_", self->dtype));
  SHMT_TRY(begin_product("mm", out, SHMT_INTS(self->sizes[0], mat2->sizes[1]), self->dtype,
                         self->dtype, shmt__common_device(self, mat2, NULL), self, mat2, &work));
  if (!is_empty)
    SHMT_TRY(product_2d(shmt__scalar_int(0), NULL, shmt__scalar_int(1), self, mat2, work));
  else if (!shmt__tensor_is_meta(work))
    SHMT_TRY(shmt__tensor_fill(work, shmt__scalar_int(0)));
  return end_product("mm", self->dtype, &work, out);
}

/* self must broadcast to sizes. Errors: as torch's expand. */
static shmt_status check_expand(const shmt_tensor* self, shmt_ints sizes) {
  char want[256];
  const int64_t extra = sizes.len - self->n_dims;

  SHMT_REQUIRE(extra >= 0, SHMT_E_RUNTIME,
               "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%" PRId64
               ") must be greater or equal to the number of dimensions in the tensor (%d)",
               shmt__dtype_title(self->dtype), SHMT_SHAPE_TEXT(self), shmt__ints_text(sizes, want, sizeof want),
               sizes.len, self->n_dims);
  for (int d = 0; d < self->n_dims; d++) {
    SHMT_REQUIRE(self->sizes[d] == sizes.data[extra + d] || self->sizes[d] == 1, SHMT_E_RUNTIME,
                 "The expanded size of the tensor (%" PRId64 ") must match the existing size (%" PRId64
                 ") at non-singleton dimension %" PRId64 ".  Target sizes: %s.  Tensor sizes: %s",
                 sizes.data[extra + d], self->sizes[d], extra + d, shmt__ints_text(sizes, want, sizeof want),
                 SHMT_SHAPE_TEXT(self));
  }
  return SHMT_OK;
}

/* In place, self is the result and so must have its shape already. */
static shmt_status check_inplace_shape(const shmt_tensor* self, const shmt_tensor* out, shmt_ints sizes) {
  char want[256];

  if (self != out) return SHMT_OK;
  bool same = self->n_dims == sizes.len;
  for (int d = 0; same && d < self->n_dims; d++) same = self->sizes[d] == sizes.data[d];
  SHMT_REQUIRE(same, SHMT_E_RUNTIME, "Bad in-place call: input tensor size %s and output tensor size %s should match",
               SHMT_SHAPE_TEXT(self), shmt__ints_text(sizes, want, sizeof want));
  return SHMT_OK;
}

shmt_status shmt__addmm(shmt_tensor* self, shmt_tensor* mat1, shmt_tensor* mat2, shmt_scalar beta, shmt_scalar alpha,
                        shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;

  SHMT_TRY(check_same_dtype("self and mat2", self, mat2));
  SHMT_TRY(check_same_dtype("mat1 and mat2", mat1, mat2));
  if (mat1->n_dims != 2)
    SHMT_FAIL(SHMT_E_RUNTIME, "mat1 must be a matrix, got %d-D tensor", mat1->n_dims);
  if (mat2->n_dims != 2)
    SHMT_FAIL(SHMT_E_RUNTIME, "mat2 must be a matrix, got %d-D tensor", mat2->n_dims);
  SHMT_TRY(check_inner(mat1, mat2));
  SHMT_TRY(check_loop("addmm_impl_cpu_", self->dtype));
  SHMT_TRY(check_scales(self->dtype, beta, alpha));
  const shmt_ints sizes = SHMT_INTS(mat1->sizes[0], mat2->sizes[1]);
  SHMT_TRY(check_expand(self, sizes));
  SHMT_TRY(check_inplace_shape(self, *out, sizes));
  SHMT_TRY(begin_product("addmm", out, sizes, self->dtype, self->dtype,
                         shmt__common_device(self, mat1, mat2), mat1, mat2, &work));
  SHMT_TRY(product_2d(beta, self, alpha, mat1, mat2, work));
  return end_product("addmm", self->dtype, &work, out);
}

/* Matrices [begin, begin + n) of a batch, in a layout that a BLAS reads. New reference. */
static shmt_status prepare_some(shmt_tensor* t, int64_t begin, int64_t n, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) some = NULL;

  SHMT_TRY(shmt__tensor_alias(t, SHMT_INTS(n, t->sizes[1], t->sizes[2]), shmt__tensor_strides(t),
                              t->offset + begin * t->strides[0], &some));
  return prepare_factor(some, dtype, 1, 2, out);
}

/* How many matrices of a batch are copied at a time, where they must be. */
static int64_t batch_step(const shmt_tensor* a, const shmt_tensor* b, shmt_dtype dtype) {
  int64_t nbytes = 0;

  for (int k = 0; k < 2; k++) {
    const shmt_tensor* t = k ? b : a;
    if (t->dtype != dtype || !shmt__matrix_is_blas(matrix_of(t, 1, 2)))
      nbytes += t->sizes[1] * t->sizes[2] * shmt__dtype_size[dtype];
  }
  if (nbytes == 0 || a->sizes[0] == 0) return a->sizes[0] > 0 ? a->sizes[0] : 1;
  const int64_t fit = COPIED_BYTES * shmt__num_threads() / nbytes;
  return fit < 1 ? 1 : fit;
}

/* work = beta * start + alpha * a @ b for each of a batch. All 3-d. */
static shmt_status product_3d(shmt_scalar beta, shmt_tensor* start, shmt_scalar alpha, shmt_tensor* a, shmt_tensor* b,
                              shmt_tensor* work) {
  if (shmt__tensor_is_meta(work)) return SHMT_OK;
  SHMT_TRY(begin_sum(&beta, start, work));
  const int64_t batch = work->sizes[0], step = batch_step(a, b, work->dtype);
  for (int64_t i = 0; i < batch; i += step) {
    SHMT_AUTO(shmt_tensor) left = NULL;
    SHMT_AUTO(shmt_tensor) right = NULL;
    const int64_t n = batch - i < step ? batch - i : step;
    shmt__matrix c = matrix_of(work, 1, 2);
    c.data += i * work->strides[0] * shmt__tensor_item_bytes(work);
    SHMT_TRY(prepare_some(a, i, n, work->dtype, &left));
    SHMT_TRY(prepare_some(b, i, n, work->dtype, &right));
    shmt__gemm_batch(work->dtype, n, alpha, matrix_of(left, 1, 2), left->strides[0], matrix_of(right, 1, 2),
                     right->strides[0], beta, c, work->strides[0]);
  }
  return SHMT_OK;
}

static shmt_status check_3d(const shmt_tensor* a, const shmt_tensor* b) {
  SHMT_TRY(check_dim("batch1 must be a 3D tensor", a, 3));
  SHMT_TRY(check_dim("batch2 must be a 3D tensor", b, 3));
  SHMT_REQUIRE(a->sizes[0] == b->sizes[0] && a->sizes[2] == b->sizes[1], SHMT_E_RUNTIME,
               "Expected size for first two dimensions of batch2 tensor to be: [%" PRId64 ", %" PRId64
               "] but got: [%" PRId64 ", %" PRId64 "].",
               a->sizes[0], a->sizes[2], b->sizes[0], b->sizes[1]);
  SHMT_TRY(shmt__check_scalar_type(b, a->dtype));
  return SHMT_OK;
}

shmt_status shmt__bmm(shmt_tensor* self, shmt_tensor* mat2, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;

  SHMT_TRY(check_3d(self, mat2));
  SHMT_TRY(check_loop("bmm", self->dtype));
  SHMT_TRY(begin_product("bmm", out, SHMT_INTS(self->sizes[0], self->sizes[1], mat2->sizes[2]), self->dtype,
                         self->dtype, shmt__common_device(self, mat2, NULL), self, mat2, &work));
  SHMT_TRY(product_3d(shmt__scalar_int(0), NULL, shmt__scalar_int(1), self, mat2, work));
  return end_product("bmm", self->dtype, &work, out);
}

shmt_status shmt__baddbmm(shmt_tensor* self, shmt_tensor* batch1, shmt_tensor* batch2, shmt_scalar beta,
                          shmt_scalar alpha, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;

  SHMT_TRY(check_3d(batch1, batch2));
  SHMT_REQUIRE(self->dtype == batch1->dtype, SHMT_E_RUNTIME,
               "Input dtypes must be the same, got: input %s, batch1: %s, "
               "batch2: %s",
               shmt__dtype_ctype(self->dtype), shmt__dtype_ctype(batch1->dtype), shmt__dtype_ctype(batch2->dtype));
  SHMT_TRY(check_loop("baddbmm", self->dtype));
  SHMT_TRY(check_scales(self->dtype, beta, alpha));
  const shmt_ints sizes = SHMT_INTS(batch1->sizes[0], batch1->sizes[1], batch2->sizes[2]);
  SHMT_TRY(check_expand(self, sizes));
  SHMT_TRY(check_inplace_shape(self, *out, sizes));
  SHMT_TRY(begin_product("baddbmm", out, sizes, self->dtype, self->dtype,
                         shmt__common_device(self, batch1, batch2), batch1, batch2, &work));
  SHMT_TRY(product_3d(beta, self, alpha, batch1, batch2, work));
  return end_product("baddbmm", self->dtype, &work, out);
}

shmt_status shmt__addbmm(shmt_tensor* self, shmt_tensor* batch1, shmt_tensor* batch2, shmt_scalar beta,
                         shmt_scalar alpha, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;

  SHMT_TRY(check_dim("batch1 must be a 3D tensor", batch1, 3));
  SHMT_TRY(check_dim("batch2 must be a 3D tensor", batch2, 3));
  SHMT_REQUIRE(batch1->sizes[0] == batch2->sizes[0], SHMT_E_RUNTIME,
               "batch1 and batch2 must have same number of batches, got %" PRId64 " and %" PRId64, batch1->sizes[0],
               batch2->sizes[0]);
  SHMT_REQUIRE(batch1->sizes[2] == batch2->sizes[1], SHMT_E_RUNTIME,
               "Incompatible matrix sizes for bmm (%" PRId64 "x%" PRId64 " and %" PRId64 "x%" PRId64 ")",
               batch1->sizes[1], batch1->sizes[2], batch2->sizes[1], batch2->sizes[2]);
  SHMT_TRY(check_same_dtype("self and mat2", self, batch2));
  SHMT_TRY(check_same_dtype("mat1 and mat2", batch1, batch2));
  SHMT_TRY(check_loop("addmm_impl_cpu_", self->dtype));
  SHMT_TRY(check_scales(self->dtype, beta, alpha));
  const shmt_ints sizes = SHMT_INTS(batch1->sizes[1], batch2->sizes[2]);
  SHMT_TRY(check_expand(self, sizes));
  SHMT_TRY(check_inplace_shape(self, *out, sizes));
  SHMT_TRY(begin_product("addbmm", out, sizes, self->dtype, product_dtype(self->dtype),
                         shmt__common_device(self, batch1, batch2), batch1, batch2, &work));
  if (!shmt__tensor_is_meta(work)) {
    double z[2];
    shmt__scalar_to_complex(beta, z);
    if (z[0] == 0 && z[1] == 0)
      SHMT_TRY(shmt__tensor_fill(work, shmt__scalar_int(0)));
    else if (self != work)
      SHMT_TRY(shmt__tensor_copy(work, self));
    const int64_t batch = batch1->sizes[0];
    if (batch == 0) {
      /* No products: what is left is beta * self. */
      shmt__matrix a = matrix_of(batch1, 1, 2), b = matrix_of(batch2, 1, 2);
      a.columns = b.rows = 0;
      shmt__gemm(work->dtype, alpha, a, b, beta, matrix_of(work, 0, 1));
    }
    for (int64_t i = 0; i < batch; i++) {
      SHMT_AUTO(shmt_tensor) left = NULL;
      SHMT_AUTO(shmt_tensor) right = NULL;
      SHMT_TRY(prepare_some(batch1, i, 1, work->dtype, &left));
      SHMT_TRY(prepare_some(batch2, i, 1, work->dtype, &right));
      shmt__gemm(work->dtype, alpha, matrix_of(left, 1, 2), matrix_of(right, 1, 2), i == 0 ? beta : shmt__scalar_int(1),
                 matrix_of(work, 0, 1));
    }
  }
  return end_product("addbmm", self->dtype, &work, out);
}

/* out = beta * self + alpha * mat @ vec; self NULL: nothing is added. */
static shmt_status add_mv(const char* name, shmt_tensor* self, shmt_tensor* mat, shmt_tensor* vec, shmt_scalar beta,
                          shmt_scalar alpha, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  double z[2];

  SHMT_REQUIRE(mat->n_dims == 2 && vec->n_dims == 1 && (!self || self->n_dims <= 1), SHMT_E_RUNTIME,
               "vector + matrix @ vector expected, got %d, %d, %d", self ? self->n_dims : 1, mat->n_dims,
               vec->n_dims);
  SHMT_REQUIRE(mat->sizes[1] == vec->sizes[0] && (!self || self->numel == mat->sizes[0] || self->numel == 1),
               SHMT_E_RUNTIME,
               "size mismatch, got input (%" PRId64 "), mat (%" PRId64 "x%" PRId64 "), vec (%" PRId64 ")",
               self ? self->numel : mat->sizes[0], mat->sizes[0], mat->sizes[1], vec->sizes[0]);
  SHMT_REQUIRE(*out == NULL || *out != self || (self->n_dims == 1 && self->numel == mat->sizes[0]), SHMT_E_RUNTIME,
               "Bad in-place call: input tensor size %s and output tensor size [%" PRId64 "] should match",
               self ? SHMT_SHAPE_TEXT(self) : "", mat->sizes[0]);
  SHMT_REQUIRE(mat->dtype == vec->dtype && (!self || self->dtype == vec->dtype), SHMT_E_RUNTIME,
               "addmv input tensors must have the same dtype, but got %s, %s, and %s",
               shmt__dtype_title(self ? self->dtype : vec->dtype), shmt__dtype_title(mat->dtype),
               shmt__dtype_title(vec->dtype));
  SHMT_TRY(check_loop("addmv_impl_cpu", mat->dtype));
  SHMT_TRY(check_scales(mat->dtype, beta, alpha));
  SHMT_TRY(begin_product(name, out, SHMT_INTS(mat->sizes[0]), mat->dtype, mat->dtype,
                         shmt__common_device(self, mat, vec), mat, vec, &work));
  if (!shmt__tensor_is_meta(work)) {
    shmt__scalar_to_complex(beta, z);
    if (!self || (z[0] == 0 && z[1] == 0))
      beta = shmt__scalar_int(0);
    else if (self != work)
      SHMT_TRY(shmt__tensor_copy(work, self));
    SHMT_TRY(prepare_factor(mat, work->dtype, 0, 1, &left));
    SHMT_TRY(shmt__tensor_cast(vec, work->dtype, &right));
    shmt__gemm(work->dtype, alpha, matrix_of(left, 0, 1), vector_of(right), beta, vector_of(work));
  }
  return end_product(name, mat->dtype, &work, out);
}

shmt_status shmt__mv(shmt_tensor* self, shmt_tensor* vec, shmt_tensor** out) {
  return add_mv("mv", NULL, self, vec, shmt__scalar_int(0), shmt__scalar_int(1), out);
}

shmt_status shmt__addmv(shmt_tensor* self, shmt_tensor* mat, shmt_tensor* vec, shmt_scalar beta, shmt_scalar alpha,
                        shmt_tensor** out) {
  return add_mv("addmv", self, mat, vec, beta, alpha, out);
}

static shmt_status dot_product(const char* name, bool conjugate, shmt_tensor* self, shmt_tensor* other,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;

  SHMT_REQUIRE(self->n_dims == 1 && other->n_dims == 1, SHMT_E_RUNTIME,
               "1D tensors expected, but got %dD and %dD tensors", self->n_dims, other->n_dims);
  SHMT_REQUIRE(self->dtype == other->dtype, SHMT_E_RUNTIME,
               "dot : expected both vectors to have same dtype, but found %s and %s", shmt__dtype_title(self->dtype),
               shmt__dtype_title(other->dtype));
  SHMT_REQUIRE(self->numel == other->numel, SHMT_E_RUNTIME,
               "inconsistent tensor size, expected tensor [%" PRId64 "] and src [%" PRId64
               "] to have the same number of elements, but got %" PRId64 " and %" PRId64 " elements respectively",
               self->numel, other->numel, self->numel, other->numel);
  SHMT_TRY(check_loop(name, self->dtype));
  /* 16-bit floats stay as they are: the loop widens them. */
  SHMT_TRY(begin_product(name, out, SHMT_INTS_EMPTY, self->dtype, self->dtype,
                         shmt__common_device(self, other, NULL), self, other, &work));
  if (!shmt__tensor_is_meta(work)) {
    SHMT_TRY(shmt__tensor_cast(self, work->dtype, &left));
    SHMT_TRY(shmt__tensor_cast(other, work->dtype, &right));
    shmt__dot(work->dtype, conjugate, left->numel, shmt__tensor_data(left), left->strides[0],
              shmt__tensor_data(right), right->strides[0], shmt__tensor_data(work));
  }
  return end_product(name, self->dtype, &work, out);
}

shmt_status shmt__dot_op(shmt_tensor* self, shmt_tensor* tensor, shmt_tensor** out) {
  return dot_product("dot", false, self, tensor, out);
}

shmt_status shmt__vdot_op(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  return dot_product("vdot", shmt__is_complex(self->dtype), self, other, out);
}
