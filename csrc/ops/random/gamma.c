/* ops/random/gamma.c -- draws of the gamma and the Dirichlet distribution.
 *
 * Source: G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM Transactions on
 * Mathematical Software 26, 2000. Numbers are taken from the generator as torch takes them.
 */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/blocks.h"
#include "ops/check.h"
#include "ops/random/generator.h"

#include <float.h>
#include <math.h>

enum { SHAPES_AT_ONCE = 512 }; /* shapes read, and numbers drawn, at a time */

/* A draw of shape a and scale 1, as a number and the logarithm of a factor: below shape 1 it is a draw of a + 1 times a
 * power of a uniform number, which may be too small for a double. */
static double draw_gamma(shmt_generator* g, double a, double* log_factor) {
  *log_factor = 0;
  if (a == 0) {
    *log_factor = -INFINITY;
    return 1;
  }
  if (a < 1) {
    *log_factor = log1p(-shmt__generator_uniform(g)) / a;
    a += 1;
  }
  const double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (;;) {
    double x, y;
    do {
      x = shmt__generator_normal(g);
      y = 1 + c * x;
    } while (y <= 0);
    const double v = y * y * y, u = 1 - shmt__generator_uniform(g), square = x * x;
    if (!(u >= 1 - 0.0331 * square * square)) return d * v;
    if (log(u) < 0.5 * square + d * (1 - v + log(v))) return d * v;
    if (!(d > 0)) return NAN; /* no shape */
  }
}

/* One draw for each of n shapes, or its logarithm. */
static void draw_block(shmt_generator* g, const double* shapes, int64_t n, bool as_log, double* to) {
  for (int64_t i = 0; i < n; i++) {
    double log_factor;
    const double draw = draw_gamma(g, shapes[i], &log_factor);
    to[i] = as_log ? log(draw) + log_factor : draw * exp(log_factor);
  }
}

/* Draws for the shapes, in row-major order, at least `least`, into a result of the same sizes. */
static void draw_all(shmt_tensor* shapes, bool as_log, double least, shmt_generator* generator, shmt_tensor* result) {
  double given[SHAPES_AT_ONCE], made[SHAPES_AT_ONCE];
  shmt__blocks from, to;

  shmt__blocks_init(&from, shapes, SHMT_FLOAT64);
  shmt__blocks_init(&to, result, SHMT_FLOAT64);
  generator = shmt__generator_lock(generator);
  for (int64_t begin = 0; begin < result->numel; begin += SHAPES_AT_ONCE) {
    const int64_t n = result->numel - begin < SHAPES_AT_ONCE ? result->numel - begin : SHAPES_AT_ONCE;
    double* const place = shmt__blocks_target(&to, begin, made);
    draw_block(generator, shmt__blocks_read(&from, begin, n, given), n, as_log, place);
    for (int64_t i = 0; i < n; i++) place[i] = fmax(place[i], least);
    shmt__blocks_write(&to, begin, n, place);
  }
  shmt__generator_unlock(generator);
}

/* The smallest normal number. */
static double tiny_of(shmt_dtype dtype) { return dtype == SHMT_FLOAT64 ? DBL_MIN : FLT_MIN; }

shmt_status shmt__standard_gamma(shmt_tensor* self, shmt_generator* generator, shmt_tensor** out) {
  SHMT_REFUSE_DTYPE(self->dtype != SHMT_FLOAT32 && self->dtype != SHMT_FLOAT64, self->dtype, "gamma_cpu");
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, out));
  if (!shmt__tensor_is_meta(self)) draw_all(self, false, tiny_of(self->dtype), generator, *out);
  return SHMT_OK;
}

/* Gamma draws divided by the sum of their row: as logarithms, since all of a row may be too small for a double. */
shmt_status shmt__sample_dirichlet(shmt_tensor* self, shmt_generator* generator, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) logs = NULL;
  SHMT_AUTO(shmt_tensor) parts = NULL;
  const bool is_double = self->dtype == SHMT_FLOAT64;

  SHMT_REFUSE_DTYPE(self->dtype != SHMT_FLOAT32 && !is_double, self->dtype, "dirichlet");
  if (shmt__tensor_is_meta(self))
    return shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, out);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), SHMT_FLOAT64, self->device, SHMT_CONTIGUOUS_FORMAT, &logs));
  draw_all(self, true, -INFINITY, generator, logs);
  SHMT_TRY(shmt_op__softmax(logs, -1, false, &parts));
  /* Inside the simplex: densities at its border are 0 or infinite. */
  const double most = is_double ? 1 - DBL_EPSILON / 2 : 1 - FLT_EPSILON / 2;
  SHMT_TRY(shmt_op_clamp_(parts, shmt__scalar_float(tiny_of(self->dtype)), shmt__scalar_float(most)));
  return shmt__tensor_cast(parts, self->dtype, out);
}
