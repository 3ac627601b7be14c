/* ops/random/uniform.c -- uniform_, rand, rand_like. */
#include "generated/impls.h"
#include "generated/loops.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/random/random.h"

#include <float.h>

static shmt_status fill_uniform(shmt_tensor* t, double from, double to, shmt_generator* generator) {
  const shmt__uniform_args shape = {from, to};

  if (shmt__is_complex(t->dtype)) {
    SHMT_AUTO(shmt_tensor) reals = NULL;
    if (shmt__tensor_is_meta(t) || t->numel == 0) return SHMT_OK;
    SHMT_TRY(shmt__real_parts(t, &reals));
    return fill_uniform(reals, from, to, generator);
  }
  SHMT_REQUIRE_LOOP(SHMT_LOOP_uniform, t->dtype, "check_uniform_bounds");
  return shmt__fill_words("uniform_", t, SHMT_LOOP_uniform, &shape, t->dtype == SHMT_FLOAT64 ? 2 : 1, generator);
}

shmt_status shmt__uniform_(shmt_tensor* self, double from, double to, shmt_generator* generator) {
  SHMT_REFUSE_DTYPE(!shmt__loops[SHMT_LOOP_uniform][shmt__to_real_dtype(self->dtype)], self->dtype,
                    "check_uniform_bounds");
  SHMT_REQUIRE(from <= to, SHMT_E_RUNTIME,
               "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", from, to);
  const double limit = self->dtype == SHMT_FLOAT64 ? DBL_MAX : self->dtype == SHMT_FLOAT16 ? 65504.0 : FLT_MAX;
  SHMT_REQUIRE(
      to - from <= limit, SHMT_E_RUNTIME,
      "uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%g and from=%g which result in "
      "to-from to exceed the limit",
      shmt__dtype_title(self->dtype), to, from);
  return fill_uniform(self, from, to, generator);
}

shmt_status shmt__rand(shmt_ints size, shmt_generator* generator, shmt_dtype dtype, shmt_layout layout,
                       shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  SHMT_TRY(shmt__make_random(size, dtype, shmt__default_dtype(), device, out));
  return fill_uniform(*out, 0, 1, generator);
}

shmt_status shmt__rand_like(shmt_tensor* self, shmt_generator* generator, shmt_dtype dtype, shmt_layout layout,
                            shmt_device device, shmt_opt_bool pin_memory, shmt_memory_format memory_format,
                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) made = NULL;

  SHMT_TRY(shmt__empty_like(self, dtype, layout, device, pin_memory, memory_format, &made));
  SHMT_TRY(fill_uniform(made, 0, 1, generator));
  *out = SHMT_TAKE(made);
  return SHMT_OK;
}
