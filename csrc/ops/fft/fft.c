/* ops/fft/fft.c -- the inner operators of Fourier transforms over dims of a tensor: c2c, r2c, c2r. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"
#include "ops/fft/run.h"
#include "ops/linalg/lapack.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Codes of normalisation, as torch numbers them. */
enum { BY_NOTHING = 0, BY_ROOT = 1, BY_SIZE = 2 };

static double scale_of(int64_t normalization, double points) {
  return normalization == BY_NOTHING ? 1 : normalization == BY_ROOT ? 1 / sqrt(points) : 1 / points;
}

static double points_of(const shmt_tensor* t, shmt_ints dim) {
  double n = 1;

  for (int64_t i = 0; i < dim.len; i++) n *= (double)t->sizes[dim.data[i]];
  return n;
}

/* --- dims and strides --------------------------------------------------------------------------- */

/* Sorts dims by their strides in t, the largest first. Equal ones keep their order. */
static void sort_dims(const shmt_tensor* t, int64_t* dims, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    const int64_t dim = dims[i];
    int64_t at = i;
    for (; at > 0 && t->strides[dims[at - 1]] < t->strides[dim]; at--) dims[at] = dims[at - 1];
    dims[at] = dim;
  }
}

/* Makes a tensor whose transformed dims are the innermost ones, in the order given. The others keep the order of
 * self. */
static shmt_status empty_result(const shmt_tensor* self, const int64_t* sizes, shmt_ints dim, shmt_dtype dtype,
                                shmt_tensor** out) {
  int64_t order[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS], stride = 1, n = 0;

  for (int d = 0; d < self->n_dims; d++) {
    bool is_transformed = false;
    for (int64_t i = 0; i < dim.len; i++) is_transformed = is_transformed || dim.data[i] == d;
    if (!is_transformed) order[n++] = d;
  }
  sort_dims(self, order, n);
  for (int64_t i = 0; i < dim.len; i++) order[n++] = dim.data[i];
  while (n-- > 0) {
    strides[order[n]] = stride;
    stride *= sizes[order[n]] > 0 ? sizes[order[n]] : 1;
  }
  return shmt__tensor_empty_strided((shmt_ints){sizes, self->n_dims}, (shmt_ints){strides, self->n_dims}, dtype,
                                    self->device, out);
}

/* --- one dim after the other -------------------------------------------------------------------- */

/* Copies all but one of the numbers. */
static void leave_out(const int64_t* from, int n, int64_t left_out, int64_t factor, int64_t* to) {
  for (int d = 0; d < n; d++)
    if (d != left_out) *to++ = shmt__wrap_mul_i64(from[d], factor);
}

/* Real numbers from one element to the next along dim. A signal of one element counts as dense. */
static int64_t step_of(const shmt_tensor* t, int64_t dim, int64_t parts) {
  return t->sizes[dim] == 1 ? parts : t->strides[dim] * parts;
}

/* Transforms `from` along dim into `to`, which may be the same when both are complex. */
static shmt_status transform_dim(shmt_tensor* from, shmt_tensor* to, int64_t dim, shmt__fft_form form, bool is_forward,
                                 double scale) {
  int64_t sizes[SHMT_MAX_DIMS], in[SHMT_MAX_DIMS], out[SHMT_MAX_DIMS];
  const int64_t in_parts = shmt__is_complex(from->dtype) ? 2 : 1, out_parts = shmt__is_complex(to->dtype) ? 2 : 1;

  if (to->numel == 0 || shmt__tensor_is_meta(to)) return SHMT_OK;
  leave_out(to->sizes, to->n_dims, dim, 1, sizes);
  leave_out(from->strides, to->n_dims, dim, in_parts, in);
  leave_out(to->strides, to->n_dims, dim, out_parts, out);
  return shmt__fft_run(&(shmt__fft_request){
      .form = form,
      .dtype = in_parts == 2 ? from->dtype : to->dtype,
      .is_forward = is_forward,
      .scale = scale,
      .length = form == SHMT_FFT_C2R ? to->sizes[dim] : from->sizes[dim],
      .n_dims = to->n_dims - 1,
      .sizes = sizes,
      .in = {shmt__tensor_data(from), step_of(from, dim, in_parts), in},
      .out = {shmt__tensor_data(to), step_of(to, dim, out_parts), out},
  });
}

/* Transforms self along all dims into `to`, the innermost first. */
static shmt_status transform_dims(shmt_tensor* self, shmt_tensor* to, shmt_ints dim, bool is_forward, double scale) {
  for (int64_t i = dim.len - 1; i >= 0; i--, self = to)
    SHMT_TRY(transform_dim(self, to, dim.data[i], SHMT_FFT_C2C, is_forward, i == 0 ? scale : 1));
  return SHMT_OK;
}

/* --- c2c, r2c, c2r ------------------------------------------------------------------------------ */

static shmt_status check_dtype(const shmt_tensor* self, bool is_complex) {
  const bool fits = is_complex ? self->dtype == SHMT_COMPLEX64 || self->dtype == SHMT_COMPLEX128
                               : self->dtype == SHMT_FLOAT32 || self->dtype == SHMT_FLOAT64;

  SHMT_REQUIRE(fits, SHMT_E_RUNTIME, "Unsupported dtype %s", shmt__dtype_title(self->dtype));
  return SHMT_OK;
}

static shmt_status wrap_dims(const shmt_tensor* self, shmt_ints dim, int64_t* buf) {
  SHMT_REQUIRE(dim.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "fft: more than %d dims", SHMT_MAX_DIMS);
  SHMT_REQUIRE(dim.len == 0 || self->n_dims > 0, SHMT_E_INDEX,
               "Dimension specified as %" PRId64 " but tensor has no dimensions", dim.data[0]);
  for (int64_t i = 0; i < dim.len; i++) SHMT_TRY(shmt__wrap_dim(dim.data[i], self->n_dims, &buf[i]));
  return SHMT_OK;
}

shmt_status shmt__fft_c2c_core(shmt_tensor* self, shmt_ints dim, int64_t normalization, bool forward,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t dims[SHMT_MAX_DIMS];

  SHMT_TRY(check_dtype(self, true));
  SHMT_TRY(wrap_dims(self, dim, dims));
  if (dim.len == 0) return shmt_op_clone(self, SHMT_MEMORY_FORMAT_NONE, out);
  dim.data = dims;
  sort_dims(self, dims, dim.len);
  SHMT_TRY(empty_result(self, self->sizes, dim, self->dtype, &result));
  SHMT_TRY(transform_dims(self, result, dim, forward, scale_of(normalization, points_of(self, dim))));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__fft_r2c_core(shmt_tensor* self, shmt_ints dim, int64_t normalization, bool onesided,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t dims[SHMT_MAX_DIMS], sizes[SHMT_MAX_DIMS];

  SHMT_TRY(check_dtype(self, false));
  SHMT_TRY(wrap_dims(self, dim, dims));
  SHMT_REQUIRE(dim.len > 0, SHMT_E_RUNTIME, "fft_r2c must transform at least one axis");
  dim.data = dims;
  sort_dims(self, dims, dim.len - 1);
  const int64_t last = dims[dim.len - 1];
  SHMT_REQUIRE(self->sizes[last] >= 1, SHMT_E_RUNTIME, "Invalid number of data points (%" PRId64 ") specified",
               self->sizes[last]);
  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  if (onesided) sizes[last] = sizes[last] / 2 + 1;
  SHMT_TRY(empty_result(self, sizes, dim, shmt__complex_dtype(self->dtype), &result));
  SHMT_TRY(transform_dim(self, result, last, onesided ? SHMT_FFT_R2C : SHMT_FFT_R2C_WHOLE, true,
                         scale_of(normalization, points_of(self, dim))));
  SHMT_TRY(transform_dims(result, result, (shmt_ints){dims, dim.len - 1}, true, 1));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__fft_c2r_core(shmt_tensor* self, shmt_ints dim, int64_t normalization, int64_t last_dim_size,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) part = NULL;
  SHMT_AUTO(shmt_tensor) spectra = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t dims[SHMT_MAX_DIMS], sizes[SHMT_MAX_DIMS];

  SHMT_TRY(check_dtype(self, true));
  SHMT_TRY(wrap_dims(self, dim, dims));
  SHMT_REQUIRE(dim.len > 0, SHMT_E_RUNTIME, "fft_c2r must transform at least one axis");
  SHMT_REQUIRE(last_dim_size >= 1, SHMT_E_RUNTIME, "Invalid number of data points (%" PRId64 ") specified",
               last_dim_size);
  const int64_t last = dims[dim.len - 1], half = last_dim_size / 2 + 1;
  SHMT_REQUIRE(self->sizes[last] >= half, SHMT_E_RUNTIME, "fft_c2r: %" PRId64 " elements of dimension %" PRId64
               " are fewer than the %" PRId64 " needed", self->sizes[last], last, half);
  SHMT_TRY(shmt_op_narrow(self, last, 0, half, &part));
  if (dim.len > 1)
    SHMT_TRY(shmt__fft_c2c_core(part, (shmt_ints){dims, dim.len - 1}, BY_NOTHING, false, &spectra));
  else
    spectra = SHMT_TAKE(part);
  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  sizes[last] = last_dim_size;
  SHMT_TRY(empty_result(spectra, sizes, (shmt_ints){&last, 1}, shmt__real_dtype(self->dtype), &result));
  SHMT_TRY(transform_dim(spectra, result, last, SHMT_FFT_C2R, false,
                         scale_of(normalization, points_of(result, (shmt_ints){dims, dim.len}))));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- derivatives -------------------------------------------------------------------------------- */

/* The weights of the elements of half a spectrum of n points, along dim: `factor` for those that stand for their
 * conjugate partner too, 1 for the others. */
static shmt_status partners(const shmt_tensor* half, int64_t dim, int64_t n, double factor, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS];

  for (int d = 0; d < half->n_dims; d++) sizes[d] = d == dim ? half->sizes[d] : 1;
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, half->n_dims}, shmt__to_real_dtype(half->dtype), half->device,
                              SHMT_CONTIGUOUS_FORMAT, out));
  if (shmt__tensor_is_meta(half)) return SHMT_OK;
  const int64_t item = shmt__tensor_item_bytes(*out);
  for (int64_t k = 0; k < (*out)->numel; k++)
    shmt__scalar_store_unsafe(shmt__scalar_float(k > 0 && k < n - k ? factor : 1), (*out)->dtype,
                              (char*)shmt__tensor_data(*out) + k * item);
  return SHMT_OK;
}

/* Pads t along dim with zeros at its end, up to n. */
static shmt_status grow_dim(shmt_tensor* t, int64_t dim, int64_t n, shmt_tensor** out) {
  int64_t pad[2 * SHMT_MAX_DIMS] = {0};
  const int64_t at = t->n_dims - 1 - dim;

  pad[2 * at + 1] = n - t->sizes[dim];
  return shmt_op_constant_pad_nd(t, (shmt_ints){pad, 2 * (at + 1)}, shmt__scalar_int(0), out);
}

/* The real part of the inverse transform. For half a spectrum that is the transform to real. It adds each element's
 * conjugate partner, so that both get the weight 1/2. */
shmt_status shmt__fft_r2c_backward(shmt_tensor* grad, shmt_ints dim, int64_t normalization, bool onesided,
                                   int64_t last_dim_size, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) weights = NULL;
  SHMT_AUTO(shmt_tensor) weighted = NULL;
  SHMT_AUTO(shmt_tensor) back = NULL;
  int64_t last;

  SHMT_REQUIRE(dim.len > 0 && grad->n_dims > 0, SHMT_E_RUNTIME, "fft_r2c must transform at least one axis");
  SHMT_REQUIRE(last_dim_size >= 0, SHMT_E_RUNTIME, "Invalid number of data points (%" PRId64 ") specified",
               last_dim_size);
  SHMT_TRY(shmt__wrap_dim(dim.data[dim.len - 1], grad->n_dims, &last));
  if (onesided) {
    SHMT_TRY(partners(grad, last, last_dim_size, 0.5, &weights));
    SHMT_TRY(shmt_op_mul_Tensor(grad, weights, &weighted));
    return shmt_op__fft_c2r(weighted, dim, normalization, last_dim_size, out);
  }
  SHMT_TRY(shmt_op__fft_c2c(grad, dim, normalization, false, &back));
  return shmt_op_real(back, out);
}

/* Elements that stand for their conjugate partner too have the weight 2. */
shmt_status shmt__fft_c2r_backward(shmt_tensor* grad, shmt_ints dim, int64_t normalization, int64_t size,
                                   shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) half = NULL;
  SHMT_AUTO(shmt_tensor) weights = NULL;
  int64_t last;

  SHMT_REQUIRE(size >= 0, SHMT_E_RUNTIME, "Invalid number of data points (%" PRId64 ") specified", size);
  SHMT_TRY(shmt_op__fft_r2c(grad, dim, normalization, true, &half));
  SHMT_TRY(shmt__wrap_dim(dim.data[dim.len - 1], grad->n_dims, &last));
  SHMT_TRY(partners(half, last, grad->sizes[last], 2, &weights));
  SHMT_TRY(shmt_op_mul__Tensor(half, weights));
  if (half->sizes[last] != size) return grow_dim(half, last, size, out);
  *out = SHMT_TAKE(half);
  return SHMT_OK;
}
