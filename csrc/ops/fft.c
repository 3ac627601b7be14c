/* ops/fft.c -- Fourier transforms over dims of a tensor: complex, from real, to real. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy.h"
#include "ops/check.h"
#include "ops/fft_plan.h"
#include "ops/lapack.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static inline void shmt__auto_fft(shmt__fft* f) { shmt__fft_fini(f); }
#define AUTO_FFT __attribute__((cleanup(shmt__auto_fft))) shmt__fft

/* Codes of normalisation. */
enum { BY_NOTHING = 0, BY_ROOT = 1, BY_SIZE = 2 };

static double scale_of(int64_t normalization, double points) {
  return normalization == BY_NOTHING ? 1 : normalization == BY_ROOT ? 1 / sqrt(points) : 1 / points;
}

static double points_of(const shmt_tensor* t, shmt_ints dim) {
  double n = 1;

  for (int64_t i = 0; i < dim.len; i++) n *= (double)t->sizes[dim.data[i]];
  return n;
}

/* t seen with `dim` last; shares memory. */
static shmt_status with_last(shmt_tensor* t, int64_t dim, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  int n = 0;

  for (int d = 0; d <= t->n_dims; d++) {
    const int64_t from = d == t->n_dims ? dim : d;
    if (d == dim) continue;
    sizes[n] = t->sizes[from];
    strides[n++] = t->strides[from];
  }
  return shmt__tensor_alias(t, (shmt_ints){sizes, n}, (shmt_ints){strides, n}, t->offset, out);
}

/* Transform t (contiguous, complex) along dim in place. */
static shmt_status transform_dim(shmt_tensor* t, int64_t dim, bool is_forward, double scale) {
  AUTO_FFT f = {0};
  SHMT_AUTO(shmt_tensor) turned = NULL;
  SHMT_AUTO(shmt_tensor) lines = NULL;
  const int64_t n = t->sizes[dim];

  if (t->numel == 0) return SHMT_OK;
  SHMT_TRY(shmt__fft_init(&f, n, t->dtype));
  SHMT_TRY(with_last(t, dim, &turned));
  SHMT_TRY(shmt__tensor_contiguous(turned, SHMT_CONTIGUOUS_FORMAT, &lines));
  SHMT_TRY(shmt__fft_run(&f, shmt__tensor_data(lines), t->numel / n, is_forward, scale));
  /* The copy of a tensor that was turned is another one. */
  return shmt__tensor_data(lines) == shmt__tensor_data(t) ? SHMT_OK : shmt__tensor_copy(turned, lines);
}

static shmt_status transform_dims(shmt_tensor* t, shmt_ints dim, bool is_forward, double scale) {
  for (int64_t i = 0; i < dim.len; i++)
    SHMT_TRY(transform_dim(t, dim.data[i], is_forward, i == dim.len - 1 ? scale : 1));
  return SHMT_OK;
}

static shmt_status check_dtype(const shmt_tensor* self, bool is_complex) {
  const bool fits = is_complex ? self->dtype == SHMT_COMPLEX64 || self->dtype == SHMT_COMPLEX128
                               : self->dtype == SHMT_FLOAT32 || self->dtype == SHMT_FLOAT64;

  SHMT_REQUIRE(fits, SHMT_E_RUNTIME, "Unsupported dtype %s", shmt__dtype_title(self->dtype));
  return SHMT_OK;
}

static shmt_status wrap_dims(const shmt_tensor* self, shmt_ints dim, int64_t* buf) {
  SHMT_REQUIRE(dim.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "fft: more than %d dims", SHMT_MAX_DIMS);
  for (int64_t i = 0; i < dim.len; i++) SHMT_TRY(shmt__wrap_dim(dim.data[i], self->n_dims, &buf[i]));
  return SHMT_OK;
}

/* A new contiguous tensor of dtype with the values of self. */
static shmt_status fresh_copy(shmt_tensor* self, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) copy = NULL;

  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &copy));
  SHMT_TRY(shmt__tensor_copy(copy, self));
  *out = SHMT_TAKE(copy);
  return SHMT_OK;
}

shmt_status shmt__fft_c2c_core(shmt_tensor* self, shmt_ints dim, int64_t normalization, bool forward,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t dims[SHMT_MAX_DIMS];

  SHMT_TRY(check_dtype(self, true));
  SHMT_TRY(wrap_dims(self, dim, dims));
  dim.data = dims;
  SHMT_TRY(fresh_copy(self, self->dtype, &result));
  if (!shmt__tensor_is_meta(self))
    SHMT_TRY(transform_dims(result, dim, forward, scale_of(normalization, points_of(self, dim))));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__fft_r2c_core(shmt_tensor* self, shmt_ints dim, int64_t normalization, bool onesided,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) whole = NULL;
  SHMT_AUTO(shmt_tensor) half = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t dims[SHMT_MAX_DIMS];

  SHMT_TRY(check_dtype(self, false));
  SHMT_TRY(wrap_dims(self, dim, dims));
  SHMT_REQUIRE(dim.len > 0, SHMT_E_RUNTIME, "fft_r2c must transform at least one axis");
  const shmt_ints rest = {dims, dim.len - 1};
  const int64_t last = dims[dim.len - 1];
  const double scale = scale_of(normalization, points_of(self, (shmt_ints){dims, dim.len}));
  SHMT_TRY(fresh_copy(self, shmt__complex_dtype(self->dtype), &whole));
  if (!shmt__tensor_is_meta(self)) SHMT_TRY(transform_dim(whole, last, true, scale));
  if (onesided) {
    SHMT_TRY(shmt_op_narrow(whole, last, 0, self->sizes[last] / 2 + 1, &half));
    SHMT_TRY(shmt__tensor_contiguous(half, SHMT_CONTIGUOUS_FORMAT, &result));
  } else {
    result = SHMT_TAKE(whole);
  }
  if (!shmt__tensor_is_meta(self)) SHMT_TRY(transform_dims(result, rest, true, 1));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Lines along the last dim made whole from their first halves, transformed back: their real parts. */
static shmt_status lines_to_real(shmt_tensor* halves, int64_t n, double scale, shmt_tensor* to) {
  AUTO_FFT f = {0};
  SHMT_AUTO(shmt_tensor) lines = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  const int n_dims = halves->n_dims;

  memcpy(sizes, halves->sizes, (size_t)n_dims * sizeof *sizes);
  sizes[n_dims - 1] = n;
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, n_dims}, halves->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &lines));
  SHMT_TRY(shmt__tensor_contiguous(halves, SHMT_CONTIGUOUS_FORMAT, &dense));
  char* data[2] = {shmt__tensor_data(lines), shmt__tensor_data(dense)};
  SHMT_TRY(shmt__fft_init(&f, n, halves->dtype));
  shmt__loops[SHMT_LOOP_fft_hermitian][halves->dtype](data, NULL, lines->numel / n, &f.plan);
  SHMT_TRY(shmt__fft_run(&f, shmt__tensor_data(lines), lines->numel / n, false, scale));
  return shmt__tensor_copy(to, lines);
}

shmt_status shmt__fft_c2r_core(shmt_tensor* self, shmt_ints dim, int64_t normalization, int64_t last_dim_size,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;
  SHMT_AUTO(shmt_tensor) part = NULL;
  SHMT_AUTO(shmt_tensor) turned = NULL;
  SHMT_AUTO(shmt_tensor) to = NULL;
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
  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  sizes[last] = last_dim_size;
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, self->n_dims}, shmt__real_dtype(self->dtype), self->device,
                              SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(self) && result->numel > 0) {
    const double scale = scale_of(normalization, points_of(result, (shmt_ints){dims, dim.len}));
    SHMT_TRY(shmt_op_narrow(self, last, 0, half, &part));
    SHMT_TRY(fresh_copy(part, self->dtype, &work));
    SHMT_TRY(transform_dims(work, (shmt_ints){dims, dim.len - 1}, false, 1));
    SHMT_TRY(with_last(work, last, &turned));
    SHMT_TRY(with_last(result, last, &to));
    SHMT_TRY(lines_to_real(turned, last_dim_size, scale, to));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- derivatives -------------------------------------------------------------------------------- */

/* Zeros behind t along dim, up to n. */
static shmt_status grow(shmt_tensor* t, int64_t dim, int64_t n, shmt_tensor** out) {
  int64_t pad[2 * SHMT_MAX_DIMS] = {0};
  const int64_t at = t->n_dims - 1 - dim;

  pad[2 * at + 1] = n - t->sizes[dim];
  return shmt_op_constant_pad_nd(t, (shmt_ints){pad, 2 * (at + 1)}, shmt__scalar_int(0), out);
}

shmt_status shmt__fft_r2c_backward(shmt_tensor* grad, shmt_ints dim, int64_t normalization, bool onesided,
                                   int64_t last_dim_size, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) whole = NULL;
  SHMT_AUTO(shmt_tensor) back = NULL;
  int64_t last;

  SHMT_TRY(shmt__wrap_dim(dim.data[dim.len - 1], grad->n_dims, &last));
  if (onesided)
    SHMT_TRY(grow(grad, last, last_dim_size, &whole));
  else
    whole = shmt__tensor_ref(grad);
  SHMT_TRY(shmt_op__fft_c2c(whole, dim, normalization, false, &back));
  return shmt_op_real(back, out);
}

/* Elements that stand for their conjugate partner too count twice. */
shmt_status shmt__fft_c2r_backward(shmt_tensor* grad, shmt_ints dim, int64_t normalization, int64_t size,
                                   shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) half = NULL;
  SHMT_AUTO(shmt_tensor) weights = NULL;
  SHMT_AUTO(shmt_tensor) weighted = NULL;
  int64_t sizes[SHMT_MAX_DIMS], last;

  SHMT_TRY(shmt_op__fft_r2c(grad, dim, normalization, true, &half));
  SHMT_TRY(shmt__wrap_dim(dim.data[dim.len - 1], grad->n_dims, &last));
  for (int d = 0; d < grad->n_dims; d++) sizes[d] = d == last ? half->sizes[d] : 1;
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, grad->n_dims}, grad->dtype, grad->device, SHMT_CONTIGUOUS_FORMAT,
                              &weights));
  if (!shmt__tensor_is_meta(grad)) {
    const int64_t n = grad->sizes[last], item = shmt__tensor_item_bytes(weights);
    for (int64_t k = 0; k < weights->numel; k++)
      shmt__scalar_store_unsafe(shmt__scalar_float(k > 0 && k < n - k ? 2 : 1), weights->dtype,
                                (char*)shmt__tensor_data(weights) + k * item);
  }
  SHMT_TRY(shmt_op_mul_Tensor(half, weights, &weighted));
  if (half->sizes[last] == size) {
    *out = SHMT_TAKE(weighted);
    return SHMT_OK;
  }
  return grow(weighted, last, size, out);
}
