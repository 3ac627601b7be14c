/* ops/random/rrelu_noise.c -- the slopes that rrelu draws for negative numbers. */
#include "generated/impls.h"
#include "iter/blocks.h"
#include "ops/check.h"
#include "ops/random/generator.h"

enum { SLOPES_AT_ONCE = 512 };

/* Draws in row-major order and in double precision, as torch does, with limits in the precision that the dtype is
 * calculated in. */
static void draw_slopes(shmt_tensor* self, shmt_tensor* out, double lower, double upper, shmt_generator* generator) {
  double values[SLOPES_AT_ONCE];
  shmt__blocks from, to;

  shmt__blocks_init(&from, self, SHMT_FLOAT64);
  shmt__blocks_init(&to, out, SHMT_FLOAT64);
  generator = shmt__generator_lock(generator);
  for (int64_t i = 0, n; i < self->numel; i += n) {
    n = self->numel - i < SLOPES_AT_ONCE ? self->numel - i : SLOPES_AT_ONCE;
    const double* given = shmt__blocks_read(&from, i, n, values);
    double* const made = shmt__blocks_target(&to, i, values);
    for (int64_t k = 0; k < n; k++)
      made[k] = given[k] <= 0 ? shmt__generator_uniform(generator) * (upper - lower) + lower : 1;
    shmt__blocks_write(&to, i, n, made);
  }
  shmt__generator_unlock(generator);
}

shmt_status shmt__rrelu_noise(shmt_tensor* self, double lower, double upper, shmt_generator* generator,
                              shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) noise = NULL;
  const bool is_double = self->dtype == SHMT_FLOAT64;

  SHMT_REFUSE_DTYPE(!shmt__is_floating(self->dtype), self->dtype, "rrelu_with_noise_out_cpu");
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &noise));
  if (!shmt__tensor_is_meta(self))
    draw_slopes(self, noise, is_double ? lower : (float)lower, is_double ? upper : (float)upper, generator);
  *out = SHMT_TAKE(noise);
  return SHMT_OK;
}
