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

/* The largest finite number of a real floating dtype. */
static double largest(shmt_dtype dtype) {
  if (dtype == SHMT_FLOAT64) return DBL_MAX;
  if (dtype == SHMT_FLOAT16) return 65504.0;
  return dtype == SHMT_BFLOAT16 ? 0x1.fep127 : FLT_MAX;
}

static shmt_status check_bounds(shmt_dtype dtype, double from, double to) {
  const double most = largest(dtype);

  SHMT_REQUIRE(from >= -most && from <= most, SHMT_E_RUNTIME, "from is out of bounds for %s", shmt__dtype_ctype(dtype));
  SHMT_REQUIRE(to >= -most && to <= most, SHMT_E_RUNTIME, "to is out of bounds for %s", shmt__dtype_ctype(dtype));
  SHMT_REQUIRE(from <= to, SHMT_E_RUNTIME,
               "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", from, to);
  SHMT_REQUIRE(
      to - from <= most, SHMT_E_RUNTIME,
      "uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%g and from=%g which result in "
      "to-from to exceed the limit",
      shmt__dtype_title(dtype), to, from);
  return SHMT_OK;
}

shmt_status shmt__uniform_(shmt_tensor* self, double from, double to, shmt_generator* generator) {
  const shmt_dtype real = shmt__to_real_dtype(self->dtype);

  SHMT_REFUSE_DTYPE(!shmt__loops[SHMT_LOOP_uniform][real], self->dtype, "check_uniform_bounds");
  SHMT_TRY(check_bounds(real, from, to));
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
