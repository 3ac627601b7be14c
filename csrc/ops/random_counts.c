/* ops/random_counts.c -- random counts whose parameters are tensors: Poisson and binomial.
 *
 * Sources: W. Hörmann, "The transformed rejection method for generating Poisson random variables",
 * Insurance: Mathematics and Economics 12, 1993 (PTRS); "The generation of binomial random
 * variates", Journal of Statistical Computation and Simulation 46, 1993 (BTRS).
 */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy.h"
#include "ops/check.h"
#include "ops/generator.h"

#include <math.h>

static double small_poisson(shmt_generator* g, double rate) {
  const double limit = exp(-rate);
  double product = 1, k = -1;

  do {
    k += 1;
    product *= shmt__generator_uniform(g);
  } while (product > limit);
  return k;
}

static double large_poisson(shmt_generator* g, double rate) {
  const double log_rate = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  const double log_inverse = log(1.1239 + 1.1328 / (b - 3.4)), accept = 0.9277 - 3.6224 / (b - 2);

  for (;;) {
    const double u = shmt__generator_uniform(g) - 0.5, v = shmt__generator_uniform(g);
    const double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= accept) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (log(v) + log_inverse - log(a / (us * us) + b) <= -rate + k * log_rate - lgamma(k + 1))
      return k;
  }
}

static double sample_poisson(shmt_generator* g, double rate) {
  if (rate == 0) return 0;
  return rate < 10 ? small_poisson(g, rate) : large_poisson(g, rate);
}

/* Successes as the number of geometric waits that fit; p up to 1/2, few successes. */
static double few_successes(shmt_generator* g, double n, double p) {
  const double log_q = log1p(-p);
  double passed = 0, k = -1;

  do {
    k += 1;
    passed += ceil(log1p(-shmt__generator_uniform(g)) / log_q);
    /* A wait of no trial, from a number that is exactly 0, is one trial. */
    if (passed < k + 1) passed = k + 1;
  } while (passed <= n);
  return k;
}

static double many_successes(shmt_generator* g, double n, double p) {
  const double deviation = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5, accept = 0.92 - 4.2 / b;
  const double alpha = (2.83 + 5.1 / b) * deviation, mode = floor((n + 1) * p);
  const double odds = log(p / (1 - p)), top = lgamma(mode + 1) + lgamma(n - mode + 1);

  for (;;) {
    const double u = shmt__generator_uniform(g) - 0.5, v = shmt__generator_uniform(g);
    const double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + c);
    if (k < 0 || k > n) continue;
    if (us >= 0.07 && v <= accept) return k;
    if (log(v * alpha / (a / (us * us) + b)) <=
        top - lgamma(k + 1) - lgamma(n - k + 1) + (k - mode) * odds)
      return k;
  }
}

static double sample_binomial(shmt_generator* g, double n, double p) {
  if (n <= 0 || p <= 0) return 0;
  if (p >= 1) return n;
  if (!isfinite(n) || p != p) return NAN;
  if (p > 0.5) return n - sample_binomial(g, n, 1 - p);
  return n * p < 10 ? few_successes(g, n, p) : many_successes(g, n, p);
}

/* t's values as dense doubles in `sizes`. New reference. */
static shmt_status as_doubles(shmt_tensor* t, shmt_ints sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) spread = NULL;

  SHMT_TRY(shmt__tensor_cast(t, SHMT_FLOAT64, &wide));
  SHMT_TRY(shmt_op_expand(wide, sizes, false, &spread));
  return shmt__tensor_contiguous(spread, SHMT_CONTIGUOUS_FORMAT, out);
}

shmt_status shmt__poisson(shmt_tensor* self, shmt_generator* generator, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rates = NULL;
  SHMT_AUTO(shmt_tensor) drawn = NULL;

  SHMT_REQUIRE(shmt__is_floating(self->dtype), SHMT_E_NOT_IMPLEMENTED,
               "\"poisson_cpu\" not implemented for '%s'", shmt__dtype_title(self->dtype));
  if (shmt__tensor_is_meta(self))
    return shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT, out);
  SHMT_TRY(as_doubles(self, shmt__tensor_sizes(self), &rates));
  const double* rate = shmt__tensor_data(rates);
  for (int64_t i = 0; i < rates->numel; i++)
    SHMT_REQUIRE(rate[i] >= 0, SHMT_E_RUNTIME,
                 "invalid Poisson rate, expected rate to be non-negative, got %g", rate[i]);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), SHMT_FLOAT64, SHMT_CPU,
                              SHMT_CONTIGUOUS_FORMAT, &drawn));
  double* to = shmt__tensor_data(drawn);
  generator = shmt__generator_lock(generator);
  for (int64_t i = 0; i < rates->numel; i++) to[i] = sample_poisson(generator, rate[i]);
  shmt__generator_unlock(generator);
  return shmt__tensor_cast(drawn, self->dtype, out);
}

shmt_status shmt__binomial(shmt_tensor* count, shmt_tensor* prob, shmt_generator* generator,
                           shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) counts = NULL;
  SHMT_AUTO(shmt_tensor) probs = NULL;
  SHMT_AUTO(shmt_tensor) drawn = NULL;
  int64_t sizes[SHMT_MAX_DIMS], n_dims;

  SHMT_REQUIRE(shmt__is_floating(count->dtype), SHMT_E_VALUE,
               "binomial only supports floating-point dtypes for count, got: %s",
               shmt__dtype_title(count->dtype));
  SHMT_REQUIRE(shmt__is_floating(prob->dtype), SHMT_E_VALUE,
               "binomial only supports floating-point dtypes for prob, got: %s",
               shmt__dtype_title(prob->dtype));
  SHMT_REQUIRE(count->dtype == prob->dtype, SHMT_E_RUNTIME,
               "binomial(): count (%s) and prob (%s) must have the same dtype",
               shmt__dtype_title(count->dtype), shmt__dtype_title(prob->dtype));
  SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(count), shmt__tensor_sizes(prob), sizes, &n_dims));
  const shmt_ints shape = {sizes, n_dims};
  if (shmt__common_device(count, prob, NULL) == SHMT_META)
    return shmt__tensor_empty(shape, count->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT, out);
  SHMT_TRY(as_doubles(count, shape, &counts));
  SHMT_TRY(as_doubles(prob, shape, &probs));
  const double *n = shmt__tensor_data(counts), *p = shmt__tensor_data(probs);
  SHMT_TRY(shmt__tensor_empty(shape, SHMT_FLOAT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &drawn));
  double* to = shmt__tensor_data(drawn);
  generator = shmt__generator_lock(generator);
  for (int64_t i = 0; i < counts->numel; i++) to[i] = sample_binomial(generator, n[i], p[i]);
  shmt__generator_unlock(generator);
  return shmt__tensor_cast(drawn, count->dtype, out);
}
