/* ops/random/randint.c -- random_, randint, randint_like. */
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/random/random.h"

#include <inttypes.h>

/* One more than the largest number of a dtype up to which it has all integers; for int64 2^63. */
static uint64_t full_range(shmt_dtype dtype) {
  if (dtype == SHMT_BOOL) return 2;
  if (shmt__is_floating(dtype)) return (1ull << shmt__significand_bits(dtype)) + 1;
  const int bits = 8 * shmt__dtype_size[dtype];
  const bool is_signed = dtype == SHMT_INT8 || dtype == SHMT_INT16 || dtype == SHMT_INT32 || dtype == SHMT_INT64;
  return bits >= 64 && !is_signed ? 0 : 1ull << (is_signed ? bits - 1 : bits);
}

static shmt_status fill_range(shmt_tensor* t, uint64_t range, int64_t base, shmt_generator* generator) {
  /* Above 2^28 the remainder of one word would be visibly uneven. */
  const shmt__randint_args shape = {range, base, range >= 1u << 28 || range == 0};

  SHMT_REQUIRE_LOOP(SHMT_LOOP_randint, t->dtype, "random_from_to");
  return shmt__fill_words("random_", t, SHMT_LOOP_randint, &shape, shape.wide ? 2 : 1, generator);
}

/* Refuses complex dtypes, which have no order. */
static shmt_status check_ordered(shmt_dtype dtype) {
  SHMT_REQUIRE(!shmt__is_complex(dtype), SHMT_E_RUNTIME,
               "check_random_bounds handles only integral, floating-point and boolean types");
  return SHMT_OK;
}

static shmt_status check_bound(const char* what, shmt_dtype dtype, int64_t value) {
  bool fits = true;

  if (dtype == SHMT_BOOL)
    fits = value == 0 || value == 1;
  else if (shmt__is_integral(dtype))
    fits =
        shmt__scalar_fits(shmt__scalar_int(value), dtype) &&
        !(value < 0 && (dtype == SHMT_UINT8 || dtype == SHMT_UINT16 || dtype == SHMT_UINT32 || dtype == SHMT_UINT64));
  else if (dtype == SHMT_FLOAT16)
    fits = value >= -65504 && value <= 65504;
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME, "%s is out of bounds for %s", what, shmt__dtype_ctype(dtype));
  return SHMT_OK;
}

/* Warns of gaps: beyond 2^digits a floating dtype does not have all integers, and those are never drawn. */
static shmt_status warn_of_gaps(const char* what, shmt_dtype dtype, int64_t value) {
  const int digits = shmt__significand_bits(dtype);

  if (value >= -(INT64_C(1) << digits) && value <= INT64_C(1) << digits) return SHMT_OK;
  return shmt__warn("%s is out of bounds [-(2^%d), 2^%d]. Due to precision limitations %s can support discrete uniform "
                    "distribution only within this range.",
                    what, digits, digits, shmt__dtype_ctype(dtype));
}

/* The number of a dtype that is nearest to an integer. */
static int64_t rounded(int64_t value, shmt_dtype dtype) {
  char place[16];

  shmt__scalar_store_unsafe(shmt__scalar_int(value), dtype, place);
  return shmt__scalar_to_int64(shmt__scalar_load(place, dtype));
}

/* The distance between numbers of a floating dtype around value, which is beyond 2^digits. */
static int64_t gap_at(int64_t value, shmt_dtype dtype) {
  const uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;

  return INT64_C(1) << (63 - __builtin_clzll(size) - shmt__significand_bits(dtype) + 1);
}

/* Bounds of a floating dtype, moved inwards where rounding would draw numbers outside of them. */
static int64_t narrow_from(shmt_dtype dtype, int64_t from) {
  if (from == INT64_MAX || rounded(from + 1, dtype) >= from) return from;
  return rounded(from + 1, dtype) + gap_at(from + 1, dtype);
}

static int64_t narrow_to(shmt_dtype dtype, int64_t to) {
  return rounded(to - 1, dtype) >= to ? to - gap_at(to - 1, dtype) : to;
}

static shmt_status fill_from_to(shmt_tensor* self, int64_t from, shmt_opt_int to, shmt_generator* generator) {
  if (to.has) {
    SHMT_REQUIRE(from < to.value, SHMT_E_RUNTIME,
                 "random_ expects 'from' to be less than 'to', but got from=%" PRId64 " >= to=%" PRId64, from,
                 to.value);
    SHMT_TRY(check_ordered(self->dtype));
    SHMT_TRY(check_bound("from", self->dtype, from));
    SHMT_TRY(check_bound("to - 1", self->dtype, to.value - 1));
    if (shmt__is_floating(self->dtype)) {
      SHMT_TRY(warn_of_gaps("from", self->dtype, from));
      SHMT_TRY(warn_of_gaps("to - 1", self->dtype, to.value - 1));
      from = narrow_from(self->dtype, from);
      to.value = narrow_to(self->dtype, to.value);
      SHMT_REQUIRE(from < to.value, SHMT_E_RUNTIME,
                   "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from=%" PRId64
                   " >= to=%" PRId64, from, to.value);
    }
    return fill_range(self, (uint64_t)to.value - (uint64_t)from, from, generator);
  }
  if (from == INT64_MIN) {
    if (self->numel == 0) return SHMT_OK;
    SHMT_REFUSE_DTYPE(self->dtype != SHMT_INT64 && (!shmt__is_floating(self->dtype) || self->dtype == SHMT_FLOAT16),
                      self->dtype, "random_full_64_bits_range_kernel_cpu");
    return fill_range(self, 0, 0, generator);
  }
  SHMT_REQUIRE(!shmt__is_complex(self->dtype), SHMT_E_RUNTIME,
               "random_from_to_impl handles only integral, floating-point and boolean types");
  SHMT_TRY(check_bound("from", self->dtype, from));
  if (shmt__is_floating(self->dtype)) {
    const int64_t last = INT64_C(1) << shmt__significand_bits(self->dtype);
    from = narrow_from(self->dtype, from);
    SHMT_REQUIRE(from < last, SHMT_E_RUNTIME,
                 "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, but got "
                 "from=%" PRId64 " > to_inc=%" PRId64, from, last);
    SHMT_TRY(warn_of_gaps("from", self->dtype, from));
  }
  /* Up to and including the largest number of the dtype. */
  const uint64_t end = full_range(self->dtype) == 0 ? 1ull << 63 : full_range(self->dtype);
  return fill_range(self, end - (uint64_t)from, from, generator);
}

shmt_status shmt__random_from(shmt_tensor* self, int64_t from, shmt_opt_int to, shmt_generator* generator) {
  return fill_from_to(self, from, to, generator);
}

shmt_status shmt__random_to(shmt_tensor* self, int64_t to, shmt_generator* generator) {
  return fill_from_to(self, 0, (shmt_opt_int){to, true}, generator);
}

shmt_status shmt__random_(shmt_tensor* self, shmt_generator* generator) {
  const uint64_t range = full_range(self->dtype);
  const shmt__randint_args shape = {range, 0, shmt__dtype_size[self->dtype] == 8};

  if (self->numel == 0) return SHMT_OK;
  SHMT_REQUIRE_LOOP(SHMT_LOOP_randint, self->dtype, "random_kernel_cpu");
  return shmt__fill_words("random_", self, SHMT_LOOP_randint, &shape, shape.wide ? 2 : 1, generator);
}

shmt_status shmt__randint_low(int64_t low, int64_t high, shmt_ints size, shmt_generator* generator, shmt_dtype dtype,
                              shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  SHMT_TRY(shmt__make_random(size, dtype, SHMT_INT64, device, out));
  return fill_from_to(*out, low, (shmt_opt_int){high, true}, generator);
}

shmt_status shmt__randint(int64_t high, shmt_ints size, shmt_generator* generator, shmt_dtype dtype,
                          shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  return shmt__randint_low(0, high, size, generator, dtype, layout, device, pin_memory, out);
}

shmt_status shmt__randint_like_low(shmt_tensor* self, int64_t low, int64_t high, shmt_generator* generator,
                                   shmt_dtype dtype, shmt_layout layout, shmt_device device,
                                   shmt_opt_bool pin_memory, shmt_memory_format memory_format, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) made = NULL;

  SHMT_TRY(shmt__empty_like(self, dtype, layout, device, pin_memory, memory_format, &made));
  SHMT_TRY(fill_from_to(made, low, ((shmt_opt_int){high, true}), generator));
  *out = SHMT_TAKE(made);
  return SHMT_OK;
}

shmt_status shmt__randint_like(shmt_tensor* self, int64_t high, shmt_generator* generator, shmt_dtype dtype,
                               shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory,
                               shmt_memory_format memory_format, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) made = NULL;

  SHMT_TRY(shmt__empty_like(self, dtype, layout, device, pin_memory, memory_format, &made));
  SHMT_TRY(fill_from_to(made, 0, ((shmt_opt_int){high, true}), generator));
  *out = SHMT_TAKE(made);
  return SHMT_OK;
}
