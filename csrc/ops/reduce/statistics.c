/* ops/reduce/statistics.c -- cov, nanmean, renorm; what quantile checks. */
#include "base/dtype.h"
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "ops/outputs.h"
#include "tensor/batched.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const shmt_scalar ONE = {.v.i = 1, .tag = SHMT_SCALAR_INT};

/* --- quantiles ------------------------------------------------------------------------ */

shmt_status shmt__quantile_check(shmt_tensor* self, shmt_tensor* q, const char* interpolation, const char* name) {
  static const char* const known[] = {"linear", "lower", "higher", "midpoint", "nearest", NULL};
  bool is_known = false;
  shmt_scalar low, high;
  SHMT_AUTO(shmt_tensor) smallest = NULL;
  SHMT_AUTO(shmt_tensor) largest = NULL;

  SHMT_REQUIRE(self->numel > 0, SHMT_E_RUNTIME, "%s() input tensor must be non-empty", name);
  SHMT_REQUIRE(q->n_dims <= 1, SHMT_E_RUNTIME, "%s() q must be a scalar or 1D tensor", name);
  SHMT_REQUIRE(self->dtype == SHMT_FLOAT32 || self->dtype == SHMT_FLOAT64, SHMT_E_RUNTIME,
               "%s() input tensor must be either float or double dtype", name);
  SHMT_REQUIRE(self->dtype == q->dtype, SHMT_E_RUNTIME,
               "%s() q tensor must be same dtype as the input tensor", name);
  for (int i = 0; known[i]; i++) is_known |= strcmp(known[i], interpolation) == 0;
  SHMT_REQUIRE(is_known, SHMT_E_RUNTIME,
               "%s() interpolation must be one of linear, lower, higher, midpoint or nearest, but "
               "got %s",
               name, interpolation);
  if (shmt__tensor_is_meta(q) || q->numel == 0) return SHMT_OK;
  SHMT_TRY(shmt_op_min(shmt__all_examples(q), &smallest));
  SHMT_TRY(shmt_op_max(shmt__all_examples(q), &largest));
  SHMT_TRY(shmt__tensor_item(smallest, &low));
  SHMT_TRY(shmt__tensor_item(largest, &high));
  SHMT_REQUIRE(low.v.d >= 0 && high.v.d <= 1, SHMT_E_RUNTIME,
               "%s() q values must be in the range [0, 1]", name);
  return SHMT_OK;
}

/* --- covariance ------------------------------------------------------------------------ */

static shmt_status check_weights(const char* what, bool integral, shmt_tensor* w, int64_t n) {
  const char* kind = integral ? "integral" : "floating point";
  shmt_scalar low;
  SHMT_AUTO(shmt_tensor) smallest = NULL;

  SHMT_REQUIRE(w->n_dims <= 1, SHMT_E_RUNTIME,
               "cov(): expected %s to have one or fewer dimensions but got %s with %d dimensions",
               what, what, w->n_dims);
  SHMT_REQUIRE(integral ? shmt__is_integral(w->dtype) : shmt__is_floating(w->dtype),
               SHMT_E_RUNTIME, "cov(): expected %s to have %s dtype but got %s with %s dtype", what,
               kind, what, shmt__dtype_title(w->dtype));
  SHMT_REQUIRE(w->numel == n, SHMT_E_RUNTIME,
               "cov(): expected %s to have the same numel as there are observations in the input "
               "but got %" PRId64 " != %" PRId64,
               what, w->numel, n);
  if (n == 0 || shmt__tensor_is_meta(w)) return SHMT_OK;
  SHMT_TRY(shmt_op_min(shmt__all_examples(w), &smallest));
  SHMT_TRY(shmt__tensor_item(smallest, &low));
  SHMT_REQUIRE(shmt__scalar_to_double(low) >= 0, SHMT_E_RUNTIME, "cov(): %s cannot be negative",
               what);
  return SHMT_OK;
}

/* The value of a 0-d tensor; NaN on Meta. */
static shmt_status number_of(shmt_tensor* t, double* out) {
  shmt_scalar s = shmt__scalar_float(NAN);

  if (!shmt__tensor_is_meta(t)) SHMT_TRY(shmt__tensor_item(t, &s));
  *out = shmt__scalar_to_double(s);
  return SHMT_OK;
}

/* The divisor of the products: the sum of the weights minus the correction, at least 0. */
static shmt_status degrees_of_freedom(shmt_tensor* sum, shmt_tensor* weights, shmt_tensor* aweights,
                                      int64_t correction, int64_t n, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) lost = NULL;
  SHMT_AUTO(shmt_tensor) left = NULL;
  double value;

  if (!weights) {
    int64_t degrees;
    if (n > correction) {
      if (!__builtin_sub_overflow(n, correction, &degrees))
        return shmt__wrapped_scalar_tensor(shmt__scalar_int(degrees), out);
      return shmt__wrapped_scalar_tensor(shmt__scalar_float((double)n - (double)correction), out);
    }
    SHMT_TRY(shmt__warn("cov(): degrees of freedom is <= 0. Correction should be strictly less "
                        "than the number of observations."));
    return shmt__wrapped_scalar_tensor(shmt__scalar_int(0), out);
  }
  if (aweights && correction != 0) {
    SHMT_AUTO(shmt_tensor) product = NULL;
    SHMT_AUTO(shmt_tensor) total = NULL;
    SHMT_AUTO(shmt_tensor) scaled = NULL;
    SHMT_TRY(shmt_op_mul_Tensor(weights, aweights, &product));
    SHMT_TRY(shmt_op_sum(product, SHMT_DTYPE_NONE, &total));
    SHMT_TRY(shmt_op_mul_Scalar(total, shmt__scalar_int(correction), &scaled));
    SHMT_TRY(shmt_op_div_Tensor(scaled, sum, &lost));
  } else {
    SHMT_TRY(shmt__wrapped_scalar_tensor(shmt__scalar_int(correction), &lost));
  }
  SHMT_TRY(shmt_op_sub_Tensor(sum, lost, ONE, &left));
  SHMT_TRY(number_of(left, &value));
  if (value <= 0) {
    SHMT_TRY(shmt__warn("cov(): degrees of freedom is <= 0. Correction should be strictly less "
                        "than the number of observations."));
    return shmt_op_clamp(left, shmt__scalar_int(0), shmt__scalar_int(0), out);
  }
  *out = SHMT_TAKE(left);
  return SHMT_OK;
}

shmt_status shmt__cov(shmt_tensor* self, int64_t correction, shmt_tensor* fweights,
                      shmt_tensor* aweights, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) weights = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_AUTO(shmt_tensor) norm = NULL;
  double total = 1;

  SHMT_REQUIRE(self->n_dims <= 2, SHMT_E_RUNTIME,
               "cov(): expected input to have two or fewer dimensions but got an input with %d "
               "dimensions",
               self->n_dims);
  SHMT_REQUIRE(self->dtype != SHMT_BOOL, SHMT_E_RUNTIME, "cov(): bool dtype is not supported for input");
  if (self->n_dims < 2)
    SHMT_TRY(shmt_op_reshape(self, SHMT_INTS(1, self->numel), &rows));
  else
    rows = shmt__tensor_ref(self);
  const int64_t n = rows->sizes[1];
  if (fweights) SHMT_TRY(check_weights("fweights", true, fweights, n));
  if (aweights) SHMT_TRY(check_weights("aweights", false, aweights, n));
  if (fweights && aweights)
    SHMT_TRY(shmt_op_mul_Tensor(fweights, aweights, &weights));
  else if (fweights || aweights)
    weights = shmt__tensor_ref(fweights ? fweights : aweights);
  if (weights) {
    SHMT_TRY(shmt_op_sum(weights, SHMT_DTYPE_NONE, &sum));
    SHMT_TRY(number_of(sum, &total));
    SHMT_REQUIRE(total != 0, SHMT_E_RUNTIME, "cov(): weights sum to zero, can't be normalized");
  } else {
    SHMT_TRY(shmt__wrapped_scalar_tensor(shmt__scalar_int(n), &sum));
  }
  SHMT_TRY(degrees_of_freedom(sum, weights, aweights, correction, n, &norm));
  if (weights) return shmt_op__cov_weighted(rows, weights, sum, norm, out);
  return shmt_op__cov_plain(rows, sum, norm, out);
}

/* --- means ------------------------------------------------------------------------------ */

shmt_status shmt__nanmean(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_dtype dtype,
                          shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) is_nan = NULL;
  SHMT_AUTO(shmt_tensor) is_number = NULL;
  SHMT_AUTO(shmt_tensor) count = NULL;
  SHMT_AUTO(shmt_tensor) total = NULL;
  SHMT_AUTO(shmt_tensor) mean = NULL;

  SHMT_REQUIRE(shmt__dtype_category(self->dtype) >= 2, SHMT_E_RUNTIME,
               "nanmean(): expected input to have floating point or complex dtype but got %s",
               shmt__dtype_title(self->dtype));
  SHMT_REFUSE_DTYPE(*out && !shmt__is_floating((*out)->dtype) && !shmt__is_complex(self->dtype), (*out)->dtype,
                    "nanmean");
  if (dtype != SHMT_DTYPE_NONE) SHMT_TRY(shmt__check_out_dtype(*out, dtype));
  SHMT_TRY(shmt_op_isnan(self, &is_nan));
  SHMT_TRY(shmt_op_logical_not(is_nan, &is_number));
  SHMT_TRY(shmt_op_sum_dim_IntList(is_number, dim, keepdim, SHMT_DTYPE_NONE, &count));
  SHMT_TRY(shmt_op_nansum(self, dim, keepdim, dtype, &total));
  SHMT_TRY(shmt_op_div_Tensor(total, count, &mean));
  if (*out) return shmt__write_out("nanmean", mean, *out);
  *out = SHMT_TAKE(mean);
  return SHMT_OK;
}

/* --- norms of slices ------------------------------------------------------------------ */

shmt_status shmt__renorm(shmt_tensor* self, shmt_scalar p, int64_t dim, shmt_scalar maxnorm,
                         shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) norm = NULL;
  SHMT_AUTO(shmt_tensor) scale = NULL;
  SHMT_AUTO(shmt_tensor) scaled = NULL;
  int64_t others[SHMT_MAX_DIMS], n = 0;

  SHMT_REQUIRE(p.tag != SHMT_SCALAR_COMPLEX, SHMT_E_RUNTIME, "renorm: p must be real-valued");
  SHMT_REQUIRE(shmt__scalar_to_double(p) > 0, SHMT_E_RUNTIME,
               "renorm: non-positive-norm not supported");
  SHMT_REQUIRE(maxnorm.tag != SHMT_SCALAR_COMPLEX, SHMT_E_RUNTIME,
               "renorm: maxnorm must be real-valued");
  SHMT_REQUIRE(shmt__scalar_to_double(maxnorm) >= 0, SHMT_E_RUNTIME,
               "renorm: expected maxnorm to be >= 0 but got %g", shmt__scalar_to_double(maxnorm));
  SHMT_REQUIRE(self->n_dims > 1, SHMT_E_RUNTIME,
               "renorm: input needs at least 2 dimensions, got %d dimensions", self->n_dims);
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  for (int d = 0; d < self->n_dims; d++)
    if (d != dim) others[n++] = d;
  const bool is_half = shmt__is_half(self->dtype);
  SHMT_TRY(shmt_op_linalg_vector_norm(self, p, (shmt_ints){others, n}, true,
                                      is_half ? SHMT_FLOAT32 : SHMT_DTYPE_NONE, &norm));
  SHMT_TRY(shmt_op__renorm_scale(norm, maxnorm, &scale));
  if (is_half) {
    SHMT_AUTO(shmt_tensor) exact = SHMT_TAKE(scale);
    SHMT_TRY(shmt_op_to_dtype(exact, self->dtype, false, false, SHMT_MEMORY_FORMAT_NONE, &scale));
  }
  const shmt_keyset keys = shmt__tensor_keys(self);
  if ((keys & SHMT_KEYBIT_ForwardAD) || (shmt__grad_enabled() && (keys & SHMT_KEYBIT_Autograd))) {
    SHMT_TRY(shmt_op_mul_Tensor(self, scale, &scaled));
    return shmt_op_contiguous(scaled, SHMT_CONTIGUOUS_FORMAT, out);
  }
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &scaled));
  SHMT_TRY(shmt_op_mul_out(self, scale, scaled));
  *out = SHMT_TAKE(scaled);
  return SHMT_OK;
}

