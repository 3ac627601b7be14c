/* ops/random/poisson_binomial.c -- poisson and binomial: random counts whose parameters are tensors.
 *
 * Sources: W. Hörmann, "The transformed rejection method for generating Poisson random variables", Insurance:
 * Mathematics and Economics 12, 1993 (PTRS); "The generation of binomial random variates", Journal of Statistical
 * Computation and Simulation 46, 1993 (BTRS).
 */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/blocks.h"
#include "ops/check.h"
#include "ops/random/generator.h"

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

/* Counts successes as the number of geometric waits that fit. p is up to 1/2; for few successes. */
static double few_successes(shmt_generator* g, double n, double p) {
  const double log_q = log1p(-p);
  double passed = 0, k = -1;

  do {
    k += 1;
    passed += ceil(log(shmt__generator_uniform(g)) / log_q); /* never ends when the number is exactly 0 */
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

/* The choice of the method is rounded as the dtype is, so that the streams agree with torch's. */
static double sample_binomial(shmt_generator* g, double n, double p, bool is_double) {
  if (n <= 0 || p <= 0) return 0;
  if (p >= 1) return n;
  if (!isfinite(n) || p != p) return NAN;
  if (p > 0.5) return n - sample_binomial(g, n, 1 - p, is_double);
  const bool is_small = is_double ? n * p < 10 : (float)n * (float)p < 10;
  return is_small ? few_successes(g, n, p) : many_successes(g, n, p);
}

enum { PARAMETERS_AT_ONCE = 512 }; /* parameters read, and numbers drawn, at a time */

/* Draws a number for each of n parameters; binomial has two parameters. Errors: invalid parameters. */
typedef shmt_status (*draw_fn)(shmt_generator* g, const double* a, const double* b, int64_t n, double* to);

/* Draws for all elements of a and b (or of a alone), which have result's shape. */
static shmt_status draw_counts(shmt_tensor* a, shmt_tensor* b, draw_fn draw, shmt_generator* generator,
                               shmt_tensor* result) {
  double first[PARAMETERS_AT_ONCE], second[PARAMETERS_AT_ONCE], made[PARAMETERS_AT_ONCE];
  shmt__blocks from_a, from_b, to;
  shmt_status status = SHMT_OK;

  shmt__blocks_init(&from_a, a, SHMT_FLOAT64);
  shmt__blocks_init(&from_b, b ? b : a, SHMT_FLOAT64);
  shmt__blocks_init(&to, result, SHMT_FLOAT64);
  generator = shmt__generator_lock(generator);
  for (int64_t begin = 0; begin < result->numel && status == SHMT_OK; begin += PARAMETERS_AT_ONCE) {
    const int64_t n = result->numel - begin < PARAMETERS_AT_ONCE ? result->numel - begin : PARAMETERS_AT_ONCE;
    double* const place = shmt__blocks_target(&to, begin, made);
    status = draw(generator, shmt__blocks_read(&from_a, begin, n, first),
                  b ? shmt__blocks_read(&from_b, begin, n, second) : NULL, n, place);
    shmt__blocks_write(&to, begin, n, place);
  }
  shmt__generator_unlock(generator);
  return status;
}

static shmt_status draw_poisson(shmt_generator* g, const double* rate, const double* unused, int64_t n, double* to) {
  (void)unused;
  for (int64_t i = 0; i < n; i++) {
    const double r = rate[i];
    SHMT_REQUIRE(r >= 0, SHMT_E_RUNTIME, "invalid Poisson rate, expected rate to be non-negative, got %g", r);
    to[i] = sample_poisson(g, r);
  }
  return SHMT_OK;
}

static shmt_status draw_binomial(shmt_generator* g, const double* count, const double* p, int64_t n, double* to) {
  for (int64_t i = 0; i < n; i++) to[i] = sample_binomial(g, count[i], p[i], true);
  return SHMT_OK;
}

static shmt_status draw_binomial_float(shmt_generator* g, const double* count, const double* p, int64_t n, double* to) {
  for (int64_t i = 0; i < n; i++) to[i] = sample_binomial(g, count[i], p[i], false);
  return SHMT_OK;
}

shmt_status shmt__poisson(shmt_tensor* self, shmt_generator* generator, shmt_tensor** out) {
  SHMT_REFUSE_DTYPE(!shmt__is_floating(self->dtype), self->dtype, "poisson_cpu");
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, out));
  return shmt__tensor_is_meta(self) ? SHMT_OK : draw_counts(self, NULL, draw_poisson, generator, *out);
}

shmt_status shmt__binomial(shmt_tensor* count, shmt_tensor* prob, shmt_generator* generator,
                           shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) counts = NULL;
  SHMT_AUTO(shmt_tensor) probs = NULL;
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
  const shmt_device device = shmt__common_device(count, prob, NULL);
  SHMT_TRY(shmt__tensor_empty(shape, count->dtype, device, SHMT_CONTIGUOUS_FORMAT, out));
  if (device == SHMT_META) return SHMT_OK;
  SHMT_TRY(shmt_op_expand(count, shape, false, &counts));
  SHMT_TRY(shmt_op_expand(prob, shape, false, &probs));
  const draw_fn draw = count->dtype == SHMT_FLOAT64 ? draw_binomial : draw_binomial_float;
  return draw_counts(counts, probs, draw, generator, *out);
}
