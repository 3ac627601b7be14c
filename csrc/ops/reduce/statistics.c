/* ops/reduce/statistics.c -- quantile, nanquantile, cov, corrcoef, nanmean, renorm, trace. */
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

static shmt_status as_dtype(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  return shmt_op_to_dtype(t, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, out);
}

/* --- quantiles ------------------------------------------------------------------------ */

static shmt_status check_quantile(const char* name, const shmt_tensor* self, shmt_tensor* q,
                                  const char* interpolation) {
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

/* The fractional ranks of the quantiles in sorted rows: q * (count - 1), in shape (..., numel(q)). With ignore_nan,
 * count leaves out NaNs, which sort last; without it, a row with a NaN gives NaN for all its quantiles. */
static shmt_status ranks_of(shmt_tensor* sorted, shmt_tensor* q, bool ignore_nan,
                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) is_nan = NULL;
  SHMT_AUTO(shmt_tensor) line = NULL;
  const int64_t last = sorted->n_dims - 1;
  const double top = (double)sorted->sizes[last] - 1;

  SHMT_TRY(shmt_op_reshape(q, SHMT_INTS(q->numel), &line));
  SHMT_TRY(shmt_op_isnan(sorted, &is_nan));
  if (ignore_nan) {
    SHMT_AUTO(shmt_tensor) missing = NULL;
    SHMT_AUTO(shmt_tensor) highest = NULL;
    SHMT_AUTO(shmt_tensor) ranks = NULL;
    SHMT_TRY(shmt_op_sum_dim_IntList(is_nan, SHMT_INTS(last), true, sorted->dtype, &missing));
    SHMT_TRY(shmt_op_rsub_Scalar(missing, shmt__scalar_float(top), ONE, &highest));
    SHMT_TRY(shmt_op_mul_Tensor(highest, line, &ranks));
    return shmt_op_clamp(ranks, shmt__scalar_int(0), shmt__scalar_none(), out);
  }
  SHMT_AUTO(shmt_tensor) any = NULL;
  SHMT_AUTO(shmt_tensor) scaled = NULL;
  SHMT_AUTO(shmt_tensor) wide = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  SHMT_TRY(shmt_op_any_dim(is_nan, last, true, &any));
  SHMT_TRY(shmt_op_mul_Scalar(line, shmt__scalar_float(top), &scaled));
  memcpy(sizes, sorted->sizes, (size_t)last * sizeof *sizes);
  sizes[last] = q->numel;
  SHMT_TRY(shmt_op_expand(scaled, (shmt_ints){sizes, sorted->n_dims}, false, &wide));
  return shmt_op_masked_fill_Scalar(wide, any, shmt__scalar_float(top), out);
}

static shmt_status value_at(shmt_tensor* sorted, shmt_tensor* rank, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) index = NULL;

  SHMT_TRY(as_dtype(rank, SHMT_INT64, &index));
  return shmt_op_gather(sorted, sorted->n_dims - 1, index, false, out);
}

/* The elements of sorted rows at fractional ranks, interpolated. */
static shmt_status interpolate(shmt_tensor* sorted, shmt_tensor* ranks, const char* how,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) below = NULL;
  SHMT_AUTO(shmt_tensor) above = NULL;
  SHMT_AUTO(shmt_tensor) low = NULL;
  SHMT_AUTO(shmt_tensor) high = NULL;
  SHMT_AUTO(shmt_tensor) weight = NULL;

  if (strcmp(how, "nearest") == 0) {
    SHMT_TRY(shmt_op_round(ranks, &below));
    return value_at(sorted, below, out);
  }
  if (strcmp(how, "higher") == 0) {
    SHMT_TRY(shmt_op_ceil(ranks, &above));
    return value_at(sorted, above, out);
  }
  SHMT_TRY(shmt_op_floor(ranks, &below));
  if (strcmp(how, "lower") == 0) return value_at(sorted, below, out);
  SHMT_TRY(shmt_op_ceil(ranks, &above));
  SHMT_TRY(value_at(sorted, below, &low));
  SHMT_TRY(value_at(sorted, above, &high));
  if (strcmp(how, "midpoint") == 0)
    return shmt_op_lerp_Scalar(low, high, shmt__scalar_float(0.5), out);
  SHMT_TRY(shmt_op_sub_Tensor(ranks, below, ONE, &weight));
  return shmt_op_lerp_Tensor(low, high, weight, out);
}

/* Sorts the rows. The indices are released at once, so that the caller never holds them beside other temporaries. */
static shmt_status sorted_rows(shmt_tensor* rows, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) index = NULL;

  return shmt_op_sort(rows, -1, false, out, &index);
}

static shmt_status quantile_of(const char* name, bool ignore_nan, shmt_tensor* self, shmt_tensor* q,
                               shmt_opt_int dim, bool keepdim, const char* interpolation,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) sorted = NULL;
  SHMT_AUTO(shmt_tensor) ranks = NULL;
  SHMT_AUTO(shmt_tensor) found = NULL;
  SHMT_AUTO(shmt_tensor) moved = NULL;
  int64_t sizes[SHMT_MAX_DIMS], d = 0, n = 0;

  SHMT_TRY(check_quantile(name, self, q, interpolation));
  SHMT_REQUIRE(self->n_dims < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "%s() input has %d dimensions", name,
               self->n_dims);
  if (dim.has) SHMT_TRY(shmt__wrap_dim(dim.value, self->n_dims, &d));
  if (dim.has && self->n_dims > 0)
    SHMT_TRY(shmt_op_movedim_int(self, d, -1, &rows));
  else
    SHMT_TRY(shmt_op_reshape(self, SHMT_INTS(-1), &rows));
  SHMT_TRY(sorted_rows(rows, &sorted));
  SHMT_TRY(ranks_of(sorted, q, ignore_nan, &ranks));
  SHMT_TRY(interpolate(sorted, ranks, interpolation, &found));
  SHMT_TRY(shmt_op_movedim_int(found, -1, 0, &moved));
  if (q->n_dims > 0) sizes[n++] = q->numel;
  for (int k = 0; k < self->n_dims; k++) {
    const bool goes = !dim.has || k == d;
    if (!goes || keepdim) sizes[n++] = goes ? 1 : self->sizes[k];
  }
  return shmt_op_reshape(moved, (shmt_ints){sizes, n}, out);
}

static shmt_status quantile_of_number(const char* name, bool ignore_nan, shmt_tensor* self,
                                      double q, shmt_opt_int dim, bool keepdim,
                                      const char* interpolation, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) number = NULL;

  SHMT_REQUIRE(q >= 0 && q <= 1, SHMT_E_RUNTIME,
               "%s() q must be in the range [0, 1] but got %g", name, q);
  SHMT_TRY(shmt__tensor_from_scalar(shmt__scalar_float(q), self->dtype, false, &number));
  return quantile_of(name, ignore_nan, self, number, dim, keepdim, interpolation, out);
}

shmt_status shmt__quantile(shmt_tensor* self, shmt_tensor* q, shmt_opt_int dim, bool keepdim,
                           const char* interpolation, shmt_tensor** out) {
  return quantile_of("quantile", false, self, q, dim, keepdim, interpolation, out);
}

shmt_status shmt__quantile_scalar(shmt_tensor* self, double q, shmt_opt_int dim, bool keepdim,
                                  const char* interpolation, shmt_tensor** out) {
  return quantile_of_number("quantile", false, self, q, dim, keepdim, interpolation, out);
}

shmt_status shmt__nanquantile(shmt_tensor* self, shmt_tensor* q, shmt_opt_int dim, bool keepdim,
                              const char* interpolation, shmt_tensor** out) {
  return quantile_of("nanquantile", true, self, q, dim, keepdim, interpolation, out);
}

shmt_status shmt__nanquantile_scalar(shmt_tensor* self, double q, shmt_opt_int dim, bool keepdim,
                                     const char* interpolation, shmt_tensor** out) {
  return quantile_of_number("nanquantile", true, self, q, dim, keepdim, interpolation, out);
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

shmt_status shmt__corrcoef(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) products = NULL;
  SHMT_AUTO(shmt_tensor) variances = NULL;
  SHMT_AUTO(shmt_tensor) deviations = NULL;

  SHMT_REQUIRE(self->n_dims <= 2, SHMT_E_RUNTIME,
               "corrcoef(): expected input to have two or fewer dimensions but got an input with "
               "%d dimensions",
               self->n_dims);
  SHMT_TRY(shmt_op_cov(self, 1, NULL, NULL, &products));
  if (products->n_dims == 0) return shmt_op_div_Tensor(products, products, out);
  SHMT_TRY(shmt_op_diagonal(products, 0, 0, 1, &variances));
  if (shmt__is_complex(variances->dtype)) {
    SHMT_AUTO(shmt_tensor) part = NULL;
    SHMT_TRY(shmt_op_real(variances, &part));
    SHMT_TRY(shmt_op_sqrt(part, &deviations));
    return shmt_op__correlation_complex(products, deviations, out);
  }
  SHMT_TRY(shmt_op_sqrt(variances, &deviations));
  return shmt_op__correlation(products, deviations, out);
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
  SHMT_TRY(shmt_op_linalg_vector_norm(self, p, (shmt_ints){others, n}, true, SHMT_DTYPE_NONE, &norm));
  SHMT_TRY(shmt_op__renorm_scale(norm, maxnorm, &scale));
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

shmt_status shmt__renorm_(shmt_tensor* self, shmt_scalar p, int64_t dim, shmt_scalar maxnorm) {
  SHMT_AUTO(shmt_tensor) before = NULL;
  SHMT_AUTO(shmt_tensor) value = NULL;

  /* The derivative needs the old values of self. */
  SHMT_TRY(shmt_op_clone(self, SHMT_MEMORY_FORMAT_NONE, &before));
  SHMT_TRY(shmt_op_renorm(before, p, dim, maxnorm, &value));
  return shmt_op_copy_(self, value, false);
}

shmt_status shmt__trace(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) line = NULL;

  SHMT_REQUIRE(self->n_dims == 2, SHMT_E_RUNTIME,
               "trace: expected a matrix, but got tensor with dim %d", self->n_dims);
  SHMT_REFUSE_DTYPE(self->dtype == SHMT_BOOL, self->dtype, "trace");
  SHMT_TRY(shmt_op_diagonal(self, 0, 0, 1, &line));
  return shmt_op_sum(line, SHMT_DTYPE_NONE, out);
}
