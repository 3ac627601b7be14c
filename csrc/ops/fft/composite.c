/* ops/fft/composite.c -- the functions of torch.fft: sizes, dims and norms given as text, over three inner
 * operators. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The code of a normalisation: 0 none, 1 by the root of the number of points, 2 by the number. Forward and backward
 * transforms scale oppositely. */
static shmt_status norm_code(const char* norm, bool is_forward, int64_t* out) {
  if (!norm || strcmp(norm, "backward") == 0)
    *out = is_forward ? 0 : 2;
  else if (strcmp(norm, "forward") == 0)
    *out = is_forward ? 2 : 0;
  else if (strcmp(norm, "ortho") == 0)
    *out = 1;
  else
    SHMT_FAIL(SHMT_E_RUNTIME, "Invalid normalization mode: \"%s\"", norm);
  return SHMT_OK;
}

static shmt_status check_supported(const shmt_tensor* self) {
  SHMT_REQUIRE(!shmt__is_half(self->dtype), SHMT_E_RUNTIME, "Unsupported dtype %s", shmt__dtype_title(self->dtype));
  return SHMT_OK;
}

/* Promotes integers to the default dtype, and to complex when `to_complex`. */
static shmt_status promote(shmt_tensor* self, bool to_complex, shmt_tensor** out) {
  shmt_dtype dtype = self->dtype;

  if (!shmt__is_floating(dtype) && !shmt__is_complex(dtype)) dtype = shmt__default_dtype();
  if (to_complex && !shmt__is_complex(dtype)) dtype = shmt__dtype_size[dtype] == 8 ? SHMT_COMPLEX128 : SHMT_COMPLEX64;
  if (dtype == self->dtype) {
    *out = shmt__tensor_ref(self);
    return SHMT_OK;
  }
  return shmt_op_to_dtype(self, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, out);
}

static shmt_status require_real(const char* name, const shmt_tensor* self) {
  SHMT_REQUIRE(!shmt__is_complex(self->dtype), SHMT_E_RUNTIME, "%s expects a real input tensor, but got %s", name,
               shmt__dtype_title(self->dtype));
  return SHMT_OK;
}

/* Cuts each dim, which takes no memory, or pads it with zeros at its end. */
static shmt_status resize(shmt_tensor* t, const int64_t* dims, const int64_t* sizes, int64_t n, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) part = shmt__tensor_ref(t);
  int64_t pad[2 * SHMT_MAX_DIMS] = {0};
  bool grows = false;

  for (int64_t i = 0; i < n; i++) {
    const int64_t by = sizes[i] - t->sizes[dims[i]];
    if (by < 0) {
      SHMT_AUTO(shmt_tensor) whole = SHMT_TAKE(part);
      SHMT_TRY(shmt_op_narrow(whole, dims[i], 0, sizes[i], &part));
    } else {
      pad[2 * (t->n_dims - 1 - dims[i]) + 1] = by;
      grows = grows || by > 0;
    }
  }
  if (grows) return shmt_op_constant_pad_nd(part, (shmt_ints){pad, 2 * t->n_dims}, shmt__scalar_int(0), out);
  *out = SHMT_TAKE(part);
  return SHMT_OK;
}

/* Which dims are transformed, and their lengths. */
typedef struct extent {
  int64_t dims[SHMT_MAX_DIMS], sizes[SHMT_MAX_DIMS];
  int64_t n;
} extent;

static shmt_status find_fft_extent(const shmt_tensor* self, shmt_ints s, shmt_ints dim, extent* e) {
  uint64_t seen = 0;

  SHMT_REQUIRE(dim.len >= 0 || s.len <= self->n_dims, SHMT_E_RUNTIME,
               "Got shape with %" PRId64 " values but input tensor only has %d dimensions.", s.len, self->n_dims);
  e->n = dim.len >= 0 ? dim.len : s.len >= 0 ? s.len : self->n_dims;
  SHMT_REQUIRE(e->n <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "fft: more than %d dims", SHMT_MAX_DIMS);
  for (int64_t i = 0; i < e->n; i++) {
    if (dim.len >= 0)
      SHMT_TRY(shmt__wrap_dim(dim.data[i], self->n_dims, &e->dims[i]));
    else
      e->dims[i] = self->n_dims - e->n + i;
    SHMT_REQUIRE(self->n_dims > 0, SHMT_E_INDEX, "Dimension specified as %" PRId64 " but tensor has no dimensions",
                 dim.len > 0 ? dim.data[i] : -1);
    SHMT_REQUIRE(!(seen >> e->dims[i] & 1), SHMT_E_RUNTIME, "FFT dims must be unique");
    seen |= (uint64_t)1 << e->dims[i];
  }
  SHMT_REQUIRE(dim.len < 0 || s.len < 0 || dim.len == s.len, SHMT_E_RUNTIME,
               "When given, dim and shape arguments must have the same length");
  for (int64_t i = 0; i < e->n; i++) {
    e->sizes[i] = s.len >= 0 && s.data[i] != -1 ? s.data[i] : self->sizes[e->dims[i]];
    SHMT_REQUIRE(e->sizes[i] >= 1, SHMT_E_RUNTIME, "Invalid number of data points (%" PRId64 ") specified",
                 e->sizes[i]);
  }
  return SHMT_OK;
}

/* The same for a transform to real, whose last size counts the results: the input needs about half of them. */
static shmt_status find_real_extent(const shmt_tensor* self, shmt_ints s, shmt_ints dim, extent* e, int64_t* points) {
  SHMT_TRY(find_fft_extent(self, s, dim, e));
  SHMT_REQUIRE(e->n > 0, SHMT_E_RUNTIME, "fft to real must transform at least one axis");
  const bool is_given = s.len > 0 && s.data[s.len - 1] != -1;
  const int64_t last = self->sizes[e->dims[e->n - 1]];
  *points = is_given ? e->sizes[e->n - 1] : shmt__wrap_mul_i64(2, last - 1); /* below 1 when it wraps */
  SHMT_REQUIRE(*points >= 1, SHMT_E_RUNTIME, "Invalid number of data points (%" PRId64 ") specified", *points);
  e->sizes[e->n - 1] = *points / 2 + 1;
  return SHMT_OK;
}

/* --- complex to complex ------------------------------------------------------------------------- */

static shmt_status complex_transform(shmt_tensor* self, shmt_ints s, shmt_ints dim, const char* norm, bool is_forward,
                                     shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) sized = NULL;
  extent e;
  int64_t code = 0;

  SHMT_TRY(check_supported(self));
  SHMT_TRY(find_fft_extent(self, s, dim, &e));
  SHMT_TRY(norm_code(norm, is_forward, &code));
  SHMT_TRY(promote(self, true, &x));
  if (e.n == 0 && x == self) return shmt_op_clone(self, SHMT_MEMORY_FORMAT_NONE, out);
  if (e.n == 0) {
    *out = SHMT_TAKE(x);
    return SHMT_OK;
  }
  SHMT_TRY(resize(x, e.dims, e.sizes, e.n, &sized));
  return shmt_op__fft_c2c(sized, (shmt_ints){e.dims, e.n}, code, is_forward, out);
}

static shmt_ints one_size(const shmt_opt_int* n) { return n->has ? (shmt_ints){&n->value, 1} : SHMT_INTS_NONE; }

/* --- real to complex ---------------------------------------------------------------------------- */

/* The spectrum, whole or the first half. When not is_forward: that of the inverse transform. */
static shmt_status real_transform(const char* name, shmt_tensor* self, shmt_ints s, shmt_ints dim, const char* norm,
                                  bool is_forward, bool is_half, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) sized = NULL;
  SHMT_AUTO(shmt_tensor) spectrum = NULL;
  extent e;
  int64_t code = 0;

  SHMT_TRY(require_real(name, self));
  SHMT_TRY(check_supported(self));
  SHMT_TRY(find_fft_extent(self, s, dim, &e));
  SHMT_REQUIRE(e.n > 0, SHMT_E_RUNTIME, "%s must transform at least one axis", name);
  SHMT_TRY(norm_code(norm, is_forward, &code));
  SHMT_TRY(promote(self, false, &x));
  SHMT_TRY(resize(x, e.dims, e.sizes, e.n, &sized));
  if (is_forward) return shmt_op__fft_r2c(sized, (shmt_ints){e.dims, e.n}, code, is_half, out);
  /* The inverse transform along the last dim, then along the others. */
  SHMT_TRY(shmt_op__fft_r2c(sized, (shmt_ints){e.dims + e.n - 1, 1}, code, is_half, &spectrum));
  SHMT_TRY(shmt_op_conj_physical_(spectrum));
  if (e.n > 1) return shmt_op__fft_c2c(spectrum, (shmt_ints){e.dims, e.n - 1}, code, false, out);
  *out = SHMT_TAKE(spectrum);
  return SHMT_OK;
}

/* A complex transform along one dim. For real input it does half the work. */
static shmt_status transform_one_dim(const char* name, shmt_tensor* self, shmt_ints s, shmt_ints dim, const char* norm,
                                     bool is_forward, shmt_tensor** out) {
  if (shmt__is_complex(self->dtype)) return complex_transform(self, s, dim, norm, is_forward, out);
  return real_transform(name, self, s, dim, norm, is_forward, false, out);
}

/* --- complex to real ---------------------------------------------------------------------------- */

/* Transforms half a Hermitian spectrum to real. is_forward: the forward transform, as the inverse one of the
 * conjugates. */
static shmt_status transform_to_real(shmt_tensor* self, shmt_ints s, shmt_ints dim, const char* norm, bool is_forward,
                                     shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) conjugated = NULL;
  SHMT_AUTO(shmt_tensor) sized = NULL;
  extent e;
  int64_t code = 0, points = 0;

  SHMT_TRY(check_supported(self));
  SHMT_TRY(find_real_extent(self, s, dim, &e, &points));
  SHMT_TRY(norm_code(norm, is_forward, &code));
  SHMT_TRY(promote(self, true, &x));
  SHMT_TRY(resize(x, e.dims, e.sizes, e.n, &sized));
  if (!is_forward) return shmt_op__fft_c2r(sized, (shmt_ints){e.dims, e.n}, code, points, out);
  /* A conjugate view, so that the gradient's conjugate takes no memory. */
  SHMT_TRY(sized == x ? shmt_op_conj(x, &conjugated) : shmt_op_conj_physical(sized, &conjugated));
  shmt__tensor_release(SHMT_TAKE(sized)); /* before the result is made, because it may be a padded copy */
  return shmt_op__fft_c2r(conjugated, (shmt_ints){e.dims, e.n}, code, points, out);
}

/* --- torch's names ------------------------------------------------------------------------------ */

/* Along one dim a size of -1 is not replaced by the size of the input. */
#define FFT_1(NAME, CALL)                                                                                             \
  shmt_status shmt__fft_##NAME(shmt_tensor* self, shmt_opt_int n, int64_t dim, const char* norm, shmt_tensor** out) { \
    const shmt_ints s = one_size(&n), dims = {&dim, 1};                                                               \
    SHMT_REQUIRE(!n.has || n.value != -1 || self->n_dims == 0, SHMT_E_RUNTIME,                                        \
                 "Invalid number of data points (-1) specified");                                                     \
    return CALL;                                                                                                      \
  }
#define FFT_N(NAME, CALL)                                                                                             \
  shmt_status shmt__fft_##NAME(shmt_tensor* self, shmt_ints s, shmt_ints dims, const char* norm, shmt_tensor** out) { \
    return CALL;                                                                                                      \
  }

FFT_1(fft, transform_one_dim("fft", self, s, dims, norm, true, out))
FFT_1(ifft, transform_one_dim("ifft", self, s, dims, norm, false, out))
FFT_1(rfft, real_transform("rfft", self, s, dims, norm, true, true, out))
FFT_1(ihfft, real_transform("ihfft", self, s, dims, norm, false, true, out))
FFT_1(irfft, transform_to_real(self, s, dims, norm, false, out))
FFT_1(hfft, transform_to_real(self, s, dims, norm, true, out))
FFT_N(fftn, complex_transform(self, s, dims, norm, true, out))
FFT_N(ifftn, complex_transform(self, s, dims, norm, false, out))
FFT_N(rfftn, real_transform("rfftn", self, s, dims, norm, true, true, out))
FFT_N(ihfftn, real_transform("ihfftn", self, s, dims, norm, false, true, out))
FFT_N(irfftn, transform_to_real(self, s, dims, norm, false, out))
FFT_N(hfftn, transform_to_real(self, s, dims, norm, true, out))

static shmt_status shift(shmt_tensor* self, shmt_ints dim, bool is_inverse, shmt_tensor** out) {
  int64_t dims[SHMT_MAX_DIMS], by[SHMT_MAX_DIMS];
  const int64_t n = dim.len >= 0 ? dim.len : self->n_dims;

  SHMT_REQUIRE(n <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "fftshift: more than %d dims", SHMT_MAX_DIMS);
  for (int64_t i = 0; i < n; i++) {
    dims[i] = i;
    if (dim.len >= 0) SHMT_TRY(shmt__wrap_dim(dim.data[i], self->n_dims, &dims[i]));
    const int64_t size = self->n_dims > 0 ? self->sizes[dims[i]] : 1;
    by[i] = size / 2 + (is_inverse ? size % 2 : 0);
  }
  if (self->n_dims == 0 || n == 0) return shmt_op_clone(self, SHMT_MEMORY_FORMAT_NONE, out);
  return shmt_op_roll(self, (shmt_ints){by, n}, (shmt_ints){dims, n}, out);
}

shmt_status shmt__fft_fftshift(shmt_tensor* self, shmt_ints dim, shmt_tensor** out) {
  return shift(self, dim, false, out);
}

shmt_status shmt__fft_ifftshift(shmt_tensor* self, shmt_ints dim, shmt_tensor** out) {
  return shift(self, dim, true, out);
}
