/* ops/random/random.c -- uniform_, normal_, random_, bernoulli, rand, randn, randint, randperm. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/blocks.h"
#include "iter/iter.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/random/generator.h"
#include "ops/indexing/index_iterator.h"
#include "ops/outputs.h"
#include "ops/random/random.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { BLOCK = 624 }; /* words drawn at a time */

/* One fill: words from `generator` go through `loop` with `shape`. */
typedef struct draw {
  shmt_generator* generator; /* locked */
  shmt__loop loop;
  const void* shape;
  int words_each;
} draw;

static void draw_run(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const draw* d = ctx;
  uint32_t words[BLOCK];
  char* at = data[0];

  while (n > 0) {
    const int64_t count = n < BLOCK / d->words_each ? n : BLOCK / d->words_each;
    char* both[2] = {at, (char*)words};
    const int64_t steps[2] = {strides[0], 4};
    shmt__generator_words(d->generator, words, count * d->words_each);
    d->loop(both, steps, count, d->shape);
    at += count * strides[0];
    n -= count;
  }
}

shmt_status shmt__random_walk(const char* name, shmt_tensor* t, shmt__loop loop, const void* ctx,
                              shmt_generator** locked, shmt_generator* generator) {
  shmt_iter it;
  shmt_status status;

  if (shmt__tensor_is_meta(t) || t->numel == 0) return SHMT_OK;
  shmt__iter_init(&it, name);
  it.resize_outputs = false;
  shmt__iter_output(&it, &t, t->dtype);
  SHMT_TRY(shmt__iter_build(&it));
  *locked = shmt__generator_lock(generator);
  status = shmt__iter_run_serial(&it, loop, ctx);
  shmt__generator_unlock(*locked);
  return shmt__iter_finish(&it, status);
}

static shmt_status fill_words(const char* name, shmt_tensor* t, int row, const void* shape, int words_each,
                              shmt_generator* generator) {
  draw d = {.loop = shmt__loops[row][t->dtype], .shape = shape, .words_each = words_each};

  return shmt__random_walk(name, t, draw_run, &d, &d.generator, generator);
}

/* --- uniform -------------------------------------------------------------------------- */

/* A complex tensor viewed as twice as many real numbers. */
static shmt_status as_reals(shmt_tensor* t, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS + 1], strides[SHMT_MAX_DIMS + 1];

  for (int d = 0; d < t->n_dims; d++) {
    sizes[d] = t->sizes[d];
    strides[d] = 2 * t->strides[d];
  }
  sizes[t->n_dims] = 2;
  strides[t->n_dims] = 1;
  SHMT_REQUIRE(t->n_dims < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "view_as_real(): more than %d dimensions", SHMT_MAX_DIMS);
  return shmt__tensor_from_storage(t->storage, (shmt_ints){sizes, t->n_dims + 1}, (shmt_ints){strides, t->n_dims + 1},
                                   2 * t->offset, shmt__to_real_dtype(t->dtype), out);
}

static shmt_status fill_uniform(shmt_tensor* t, double from, double to, shmt_generator* generator) {
  const shmt__uniform_args shape = {from, to};

  if (shmt__is_complex(t->dtype)) {
    SHMT_AUTO(shmt_tensor) reals = NULL;
    if (shmt__tensor_is_meta(t) || t->numel == 0) return SHMT_OK;
    SHMT_TRY(as_reals(t, &reals));
    return fill_uniform(reals, from, to, generator);
  }
  SHMT_REQUIRE_LOOP(SHMT_LOOP_uniform, t->dtype, "check_uniform_bounds");
  return fill_words("uniform_", t, SHMT_LOOP_uniform, &shape, t->dtype == SHMT_FLOAT64 ? 2 : 1, generator);
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

/* --- normal --------------------------------------------------------------------------- */

/* Draws numbers one by one, in double, as torch does for few or strided elements. */
static void normal_run(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const draw* d = ctx;
  const shmt__uniform_args* s = d->shape;
  const shmt_dtype dtype = d->words_each; /* a field that serial fills do not use otherwise */

  for (int64_t i = 0; i < n; i++) {
    const double value = shmt__generator_normal(d->generator) * s->to + s->from;
    shmt__scalar_store_unsafe(shmt__scalar_float(value), dtype, data[0] + i * strides[0]);
  }
}

/* Fills a dense tensor that is long enough: pairs by Box-Muller on blocks of 16. */
static void fill_normal_dense(shmt_tensor* t, const shmt__uniform_args* shape, shmt_generator* generator) {
  const shmt__uniform_args unit = {0, 1};
  const int64_t item = shmt__tensor_item_bytes(t), n = t->numel;
  const shmt__loop box_muller = shmt__loops[SHMT_LOOP_box_muller][t->dtype];
  draw d = {.generator = generator,
            .loop = shmt__loops[SHMT_LOOP_uniform][t->dtype],
            .shape = &unit,
            .words_each = t->dtype == SHMT_FLOAT64 ? 2 : 1};
  char* data[1] = {shmt__tensor_data(t)};

  draw_run(data, &item, n, &d);
  box_muller(data, &item, n, shape);
  if (n % 16 != 0) {
    /* The last 16 are drawn anew, and overlap the block before. */
    data[0] += (n - 16) * item;
    draw_run(data, &item, 16, &d);
    box_muller(data, &item, 16, shape);
  }
}

/* 16-bit floats: every block is made in float and rounded once. The last block overlaps the one before. */
static void fill_normal_half(shmt_tensor* t, const shmt__uniform_args* shape, shmt_generator* generator) {
  const shmt__uniform_args unit = {0, 1};
  const shmt__cast_loop_fn cast = shmt__cast_loop(t->dtype, SHMT_FLOAT32);
  const int64_t item = shmt__tensor_item_bytes(t), n = t->numel, step = sizeof(float);
  float block[16];
  char* data[1] = {(char*)block};
  draw d = {
      .generator = generator, .loop = shmt__loops[SHMT_LOOP_uniform][SHMT_FLOAT32], .shape = &unit, .words_each = 1};

  for (int64_t begin = 0; begin < n; begin += 16) {
    const int64_t at = begin + 16 <= n ? begin : n - 16;
    draw_run(data, &step, 16, &d);
    shmt__loops[SHMT_LOOP_box_muller][SHMT_FLOAT32](data, &step, 16, shape);
    cast((char*)shmt__tensor_data(t) + at * item, item, (const char*)block, step, 16);
  }
}

static shmt_status fill_normal(shmt_tensor* t, double mean, double std, shmt_generator* generator) {
  const shmt__uniform_args shape = {mean, std};
  draw d = {.shape = &shape, .words_each = t->dtype};

  if (shmt__is_complex(t->dtype)) {
    SHMT_AUTO(shmt_tensor) reals = NULL;
    if (shmt__tensor_is_meta(t) || t->numel == 0) return SHMT_OK;
    SHMT_TRY(as_reals(t, &reals));
    /* The variance is that of the complex number: each part has half of it. */
    return fill_normal(reals, mean, std / sqrt(2.0), generator);
  }
  SHMT_REQUIRE_LOOP(SHMT_LOOP_box_muller, t->dtype, "normal_kernel_cpu");
  if (shmt__tensor_is_meta(t) || t->numel == 0) return SHMT_OK;
  if (t->numel < 16 || !shmt__tensor_is_contiguous(t))
    return shmt__random_walk("normal_", t, normal_run, &d, &d.generator, generator);
  generator = shmt__generator_lock(generator);
  if (shmt__is_half(t->dtype))
    fill_normal_half(t, &shape, generator);
  else
    fill_normal_dense(t, &shape, generator);
  shmt__generator_unlock(generator);
  return SHMT_OK;
}

static shmt_status check_std(double std) {
  SHMT_REQUIRE(std >= 0, SHMT_E_RUNTIME, "normal expects std >= 0.0, but found std %g", std);
  return SHMT_OK;
}

shmt_status shmt__normal_(shmt_tensor* self, double mean, double std, shmt_generator* generator) {
  SHMT_TRY(check_std(std));
  return fill_normal(self, mean, std, generator);
}

/* --- integers -------------------------------------------------------------------------- */

/* Bits of the significand of a floating dtype. */
static int digits_of(shmt_dtype dtype) {
  return dtype == SHMT_FLOAT64 ? 53 : dtype == SHMT_FLOAT32 ? 24 : dtype == SHMT_FLOAT16 ? 11 : 8;
}

/* One more than the largest number of a dtype up to which it has all integers; for int64 2^63. */
static uint64_t full_range(shmt_dtype dtype) {
  if (dtype == SHMT_BOOL) return 2;
  if (shmt__is_floating(dtype)) return (1ull << digits_of(dtype)) + 1;
  const int bits = 8 * shmt__dtype_size[dtype];
  const bool is_signed = dtype == SHMT_INT8 || dtype == SHMT_INT16 || dtype == SHMT_INT32 || dtype == SHMT_INT64;
  return bits >= 64 && !is_signed ? 0 : 1ull << (is_signed ? bits - 1 : bits);
}

static shmt_status fill_range(shmt_tensor* t, uint64_t range, int64_t base, shmt_generator* generator) {
  /* Above 2^28 the remainder of one word would be visibly uneven. */
  const shmt__randint_args shape = {range, base, range >= 1u << 28 || range == 0};

  SHMT_REQUIRE_LOOP(SHMT_LOOP_randint, t->dtype, "random_from_to");
  return fill_words("random_", t, SHMT_LOOP_randint, &shape, shape.wide ? 2 : 1, generator);
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
  const int digits = digits_of(dtype);

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

  return INT64_C(1) << (63 - __builtin_clzll(size) - digits_of(dtype) + 1);
}

/* Moves bounds of a floating dtype inwards where rounding would draw numbers outside of them. */
static void narrow_bounds(shmt_dtype dtype, int64_t* from, int64_t* to) {
  if (*from < INT64_MAX && rounded(*from + 1, dtype) < *from)
    *from = rounded(*from + 1, dtype) + gap_at(*from + 1, dtype);
  if (rounded(*to - 1, dtype) >= *to) *to -= gap_at(*to - 1, dtype);
}

static shmt_status fill_from_to(shmt_tensor* self, int64_t from, shmt_opt_int to, shmt_generator* generator) {
  if (to.has) {
    SHMT_REQUIRE(from < to.value, SHMT_E_RUNTIME,
                 "random_ expects 'from' to be less than 'to', but got from=%" PRId64 " >= to=%" PRId64, from,
                 to.value);
    SHMT_TRY(check_bound("from", self->dtype, from));
    SHMT_TRY(check_bound("to - 1", self->dtype, to.value - 1));
    if (shmt__is_floating(self->dtype)) {
      SHMT_TRY(warn_of_gaps("from", self->dtype, from));
      SHMT_TRY(warn_of_gaps("to - 1", self->dtype, to.value - 1));
      narrow_bounds(self->dtype, &from, &to.value);
      SHMT_REQUIRE(from < to.value, SHMT_E_RUNTIME,
                   "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from=%" PRId64
                   " >= to=%" PRId64, from, to.value);
    }
    return fill_range(self, (uint64_t)to.value - (uint64_t)from, from, generator);
  }
  SHMT_TRY(check_bound("from", self->dtype, from));
  if (from == INT64_MIN) return fill_range(self, 0, 0, generator);
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

  SHMT_REQUIRE_LOOP(SHMT_LOOP_randint, self->dtype, "random");
  return fill_words("random_", self, SHMT_LOOP_randint, &shape, shape.wide ? 2 : 1, generator);
}

/* --- bernoulli ---------------------------------------------------------------------------- */

/* Sets elements to value with probability p, else to 0. */
shmt_status shmt__fill_bernoulli(shmt_tensor* t, double p, double value, shmt_generator* generator) {
  const shmt__bernoulli_args shape = {(uint64_t)ceil(ldexp(p, 53)), value};

  SHMT_REFUSE_DTYPE(shmt__is_complex(t->dtype), t->dtype, "bernoulli_scalar_cpu_");
  return fill_words("bernoulli_", t, SHMT_LOOP_bernoulli, &shape, 2, generator);
}

shmt_status shmt__bernoulli_float(shmt_tensor* self, double p, shmt_generator* generator) {
  SHMT_REQUIRE(p >= 0 && p <= 1, SHMT_E_RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
  return shmt__fill_bernoulli(self, p, 1, generator);
}

/* Draws a number for every element of p, which is floating, into out of the same shape, in row-major order. Returns
 * false when a probability is not in [0, 1]. */
static bool draw_each(shmt_tensor* p, shmt_tensor* out, shmt_generator* generator) {
  const shmt__loop loop = shmt__loops[SHMT_LOOP_bernoulli_each][p->dtype];
  const int64_t words_each = p->dtype == SHMT_FLOAT64 ? 2 : 1;
  uint32_t words[BLOCK];
  double given[BLOCK], made[BLOCK]; /* room for any dtype */
  shmt__blocks from, to;
  bool good = true;

  shmt__blocks_init(&from, p, p->dtype);
  shmt__blocks_init(&to, out, p->dtype);
  generator = shmt__generator_lock(generator);
  for (int64_t i = 0, count; i < p->numel && good; i += count) {
    count = p->numel - i < BLOCK / words_each ? p->numel - i : BLOCK / words_each;
    char* const place = shmt__blocks_target(&to, i, made);
    shmt__generator_words(generator, words, count * words_each);
    loop((char*[]){place, (char*)words, (char*)(uintptr_t)shmt__blocks_read(&from, i, count, given)}, NULL, count,
         &good);
    shmt__blocks_write(&to, i, count, place);
  }
  shmt__generator_unlock(generator);
  return good;
}

shmt_status shmt__bernoulli_tensor(shmt_tensor* self, shmt_tensor* p, shmt_generator* generator) {
  SHMT_AUTO(shmt_tensor) spread = NULL;
  SHMT_AUTO(shmt_tensor) work = NULL;

  if (self->numel == 0) return SHMT_OK;
  SHMT_REFUSE_DTYPE(shmt__is_complex(self->dtype), self->dtype, "bernoulli_tensor_cpu_self_");
  SHMT_REFUSE_DTYPE(!shmt__is_floating(p->dtype), p->dtype, "bernoulli_tensor_cpu_p_");
  if (shmt__tensor_is_meta(self)) return SHMT_OK;
  SHMT_TRY(shmt__check_has_data(p, self));
  SHMT_TRY(shmt_op_expand(p, shmt__tensor_sizes(self), false, &spread));
  /* Writes directly unless that would overwrite probabilities still to be read. Elements of out that overlap take one
   * copy. */
  if (self->storage != p->storage && !shmt__may_overlap_itself(self))
    work = shmt__tensor_ref(self);
  else
    SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), p->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &work));
  SHMT_REQUIRE(draw_each(spread, work, generator), SHMT_E_RUNTIME,
               "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  "
               "If so, please report an enhancement request to PyTorch.)");
  return work == self ? SHMT_OK : shmt__tensor_copy(self, work);
}

shmt_status shmt__bernoulli(shmt_tensor* self, shmt_generator* generator, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  if (*out) { /* of any dtype that holds 0 and 1 */
    SHMT_TRY(shmt__prepare_out("bernoulli", out, shmt__tensor_sizes(self), (*out)->dtype, self->device));
    return shmt__bernoulli_tensor(*out, self, generator);
  }
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  SHMT_TRY(shmt__bernoulli_tensor(result, self, generator));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__bernoulli_p(shmt_tensor* self, double p, shmt_generator* generator, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  SHMT_TRY(shmt__bernoulli_float(result, p, generator));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- slopes of rrelu ------------------------------------------------------------------------ */

/* Draws in row-major order and in double precision, as torch does, with limits in the precision that the dtype is
 * calculated in. */
static void draw_slopes(shmt_tensor* self, shmt_tensor* out, double lower, double upper, shmt_generator* generator) {
  double values[BLOCK];
  shmt__blocks from, to;

  shmt__blocks_init(&from, self, SHMT_FLOAT64);
  shmt__blocks_init(&to, out, SHMT_FLOAT64);
  generator = shmt__generator_lock(generator);
  for (int64_t i = 0, n; i < self->numel; i += n) {
    n = self->numel - i < BLOCK ? self->numel - i : BLOCK;
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

/* --- new tensors ---------------------------------------------------------------------------- */

/* Makes a new tensor, or resizes the preset one. */
static shmt_status make_random(shmt_ints size, shmt_dtype dtype, shmt_dtype default_dtype, shmt_device device,
                               shmt_tensor** out) {
  for (int64_t d = 0; d < size.len; d++)
    SHMT_REQUIRE(size.data[d] >= 0, SHMT_E_RUNTIME, "Trying to create tensor with negative dimension %" PRId64 ": %s",
                 size.data[d], shmt__ints_text(size, (char[256]){0}, 256));
  if (*out) return shmt__prepare_factory_out(*out, size);
  return shmt__tensor_empty(size, dtype == SHMT_DTYPE_NONE ? default_dtype : dtype,
                            device == SHMT_DEVICE_NONE ? SHMT_CPU : device, SHMT_CONTIGUOUS_FORMAT, out);
}

shmt_status shmt__rand(shmt_ints size, shmt_generator* generator, shmt_dtype dtype, shmt_layout layout,
                       shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  SHMT_TRY(make_random(size, dtype, shmt__default_dtype(), device, out));
  return fill_uniform(*out, 0, 1, generator);
}

shmt_status shmt__randn(shmt_ints size, shmt_generator* generator, shmt_dtype dtype, shmt_layout layout,
                        shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  SHMT_TRY(make_random(size, dtype, shmt__default_dtype(), device, out));
  return fill_normal(*out, 0, 1, generator);
}

shmt_status shmt__normal_float_float(double mean, double std, shmt_ints size, shmt_generator* generator,
                                     shmt_dtype dtype, shmt_layout layout, shmt_device device,
                                     shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  SHMT_TRY(check_std(std));
  SHMT_TRY(make_random(size, dtype, shmt__default_dtype(), device, out));
  return fill_normal(*out, mean, std, generator);
}

shmt_status shmt__randint_low(int64_t low, int64_t high, shmt_ints size, shmt_generator* generator, shmt_dtype dtype,
                              shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  SHMT_TRY(make_random(size, dtype, SHMT_INT64, device, out));
  return fill_from_to(*out, low, (shmt_opt_int){high, true}, generator);
}

shmt_status shmt__randint(int64_t high, shmt_ints size, shmt_generator* generator, shmt_dtype dtype,
                          shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  return shmt__randint_low(0, high, size, generator, dtype, layout, device, pin_memory, out);
}

/* Shuffles n elements of item bytes: each is swapped with itself or one behind it. */
static void shuffle(char* p, int64_t item, int64_t n, shmt_generator* generator) {
  const shmt__loop swap = shmt__move_loop_of_size(SHMT_LOOP_swap, item);
  uint32_t words[BLOCK], steps[BLOCK];

  for (int64_t begin = 0, count; begin < n - 1; begin += count) {
    const int64_t left = n - begin;
    count = left - 1 < BLOCK ? left - 1 : BLOCK;
    shmt__generator_words(generator, words, count);
    if (left <= INT32_MAX) {
      char* data[2] = {(char*)steps, (char*)words};
      shmt__loops[SHMT_LOOP_mt_swap_steps][SHMT_UINT32](data, NULL, count, &left);
      for (int64_t k = 0; k < count; k++) __builtin_prefetch(p + (begin + k + steps[k]) * item, 1);
    } else {
      for (int64_t k = 0; k < count; k++)
        steps[k] = left - k <= UINT32_MAX ? words[k] % (uint32_t)(left - k) : words[k];
    }
    swap((char*[]){p + begin * item, (char*)steps}, NULL, count, NULL);
  }
}

/* t = 0, 1, ...; t is dense. */
static void count_up(shmt_tensor* t) {
  const shmt__cast_loop_fn cast = shmt__cast_loop(t->dtype, SHMT_INT64);
  const int64_t item = shmt__tensor_item_bytes(t);
  int64_t block[BLOCK];

  for (int64_t begin = 0; begin < t->numel; begin += BLOCK) {
    const int64_t n = t->numel - begin < BLOCK ? t->numel - begin : BLOCK;
    for (int64_t i = 0; i < n; i++) block[i] = begin + i;
    cast((char*)shmt__tensor_data(t) + begin * item, item, (const char*)block, sizeof *block, n);
  }
}

/* Checks that the dtype holds all integers below n. */
static shmt_status check_permuted(shmt_dtype dtype, int64_t n) {
  static const char* const most[] = {[SHMT_FLOAT16] = "2049", [SHMT_FLOAT32] = "2^24+1", [SHMT_FLOAT64] = "2^53+1"};

  SHMT_REFUSE_DTYPE(dtype == SHMT_BOOL || shmt__is_complex(dtype), dtype, "randperm");
  if (shmt__is_integral(dtype)) return shmt__scalar_check(shmt__scalar_int(n > 0 ? n - 1 : 0), dtype);
  SHMT_REQUIRE(dtype == SHMT_BFLOAT16 || n <= (INT64_C(1) << digits_of(dtype)) + 1, SHMT_E_RUNTIME,
               "n cannot be greater than %s for %s type.", most[dtype], shmt__dtype_title(dtype));
  return SHMT_OK;
}

shmt_status shmt__randperm(int64_t n, shmt_generator* generator, shmt_dtype dtype, shmt_layout layout,
                           shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) order = NULL;
  (void)layout;
  (void)pin_memory;
  SHMT_REQUIRE(n >= 0, SHMT_E_RUNTIME, "Trying to create tensor with negative dimension %" PRId64 ": [%" PRId64 "]", n,
               n);
  SHMT_TRY(check_permuted(*out ? (*out)->dtype : dtype == SHMT_DTYPE_NONE ? SHMT_INT64 : dtype, n));
  SHMT_TRY(make_random(SHMT_INTS(n), dtype, SHMT_INT64, device, out));
  if (shmt__tensor_is_meta(*out) || n == 0) return SHMT_OK;
  SHMT_TRY(shmt__tensor_contiguous(*out, SHMT_CONTIGUOUS_FORMAT, &order));
  count_up(order);
  generator = shmt__generator_lock(generator);
  shuffle(shmt__tensor_data(order), shmt__tensor_item_bytes(order), n, generator);
  shmt__generator_unlock(generator);
  return order == *out ? SHMT_OK : shmt__tensor_copy(*out, order);
}

/* --- like another tensor ------------------------------------------------------------------------ */

#define LIKE(FILL)                                                                                             \
  SHMT_AUTO(shmt_tensor) made = NULL;                                                                          \
  SHMT_TRY(shmt__empty_like(self, dtype, layout, device, pin_memory, memory_format, &made));                   \
  SHMT_TRY(FILL);                                                                                              \
  *out = SHMT_TAKE(made);                                                                                      \
  return SHMT_OK

shmt_status shmt__rand_like(shmt_tensor* self, shmt_generator* generator, shmt_dtype dtype, shmt_layout layout,
                            shmt_device device, shmt_opt_bool pin_memory, shmt_memory_format memory_format,
                            shmt_tensor** out) {
  LIKE(fill_uniform(made, 0, 1, generator));
}

shmt_status shmt__randn_like(shmt_tensor* self, shmt_generator* generator, shmt_dtype dtype, shmt_layout layout,
                             shmt_device device, shmt_opt_bool pin_memory, shmt_memory_format memory_format,
                             shmt_tensor** out) {
  LIKE(fill_normal(made, 0, 1, generator));
}

shmt_status shmt__randint_like_low(shmt_tensor* self, int64_t low, int64_t high, shmt_generator* generator,
                                   shmt_dtype dtype, shmt_layout layout, shmt_device device,
                                   shmt_opt_bool pin_memory, shmt_memory_format memory_format, shmt_tensor** out) {
  LIKE(fill_from_to(made, low, ((shmt_opt_int){high, true}), generator));
}

shmt_status shmt__randint_like(shmt_tensor* self, int64_t high, shmt_generator* generator, shmt_dtype dtype,
                               shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory,
                               shmt_memory_format memory_format, shmt_tensor** out) {
  LIKE(fill_from_to(made, 0, ((shmt_opt_int){high, true}), generator));
}
#undef LIKE
