/* ops/random/normal.c -- normal_, normal, randn, randn_like. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/outputs.h"
#include "ops/random/random.h"

#include <math.h>

/* Normal numbers for a walk over a tensor. */
typedef struct normal_walk {
  shmt_generator* generator; /* locked */
  shmt_dtype dtype;
  double mean, std;
} normal_walk;

/* Draws numbers one by one, in double, as torch does for few or strided elements. */
static void normal_run(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const normal_walk* w = ctx;

  for (int64_t i = 0; i < n; i++) {
    const double value = shmt__generator_normal(w->generator) * w->std + w->mean;
    shmt__scalar_store_unsafe(shmt__scalar_float(value), w->dtype, data[0] + i * strides[0]);
  }
}

/* Fills a dense tensor that is long enough: pairs by Box-Muller on blocks of 16. */
static void fill_normal_dense(shmt_tensor* t, const shmt__uniform_args* shape, shmt_generator* generator) {
  const shmt__uniform_args unit = {0, 1};
  const int64_t item = shmt__tensor_item_bytes(t), n = t->numel;
  const shmt__loop box_muller = shmt__loops[SHMT_LOOP_box_muller][t->dtype];
  shmt__word_fill fill = {.generator = generator,
                          .loop = shmt__loops[SHMT_LOOP_uniform][t->dtype],
                          .shape = &unit,
                          .words_each = t->dtype == SHMT_FLOAT64 ? 2 : 1};
  char* data[1] = {shmt__tensor_data(t)};

  shmt__fill_run(data, &item, n, &fill);
  box_muller(data, &item, n, shape);
  if (n % 16 != 0) {
    /* The last 16 are drawn anew, and overlap the block before. */
    data[0] += (n - 16) * item;
    shmt__fill_run(data, &item, 16, &fill);
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
  shmt__word_fill fill = {
      .generator = generator, .loop = shmt__loops[SHMT_LOOP_uniform][SHMT_FLOAT32], .shape = &unit, .words_each = 1};

  for (int64_t begin = 0; begin < n; begin += 16) {
    const int64_t at = begin + 16 <= n ? begin : n - 16;
    shmt__fill_run(data, &step, 16, &fill);
    shmt__loops[SHMT_LOOP_box_muller][SHMT_FLOAT32](data, &step, 16, shape);
    cast((char*)shmt__tensor_data(t) + at * item, item, (const char*)block, step, 16);
  }
}

static shmt_status fill_normal(shmt_tensor* t, double mean, double std, shmt_generator* generator) {
  const shmt__uniform_args shape = {mean, std};
  normal_walk walk = {.dtype = t->dtype, .mean = mean, .std = std};

  if (shmt__is_complex(t->dtype)) {
    SHMT_AUTO(shmt_tensor) reals = NULL;
    if (shmt__tensor_is_meta(t) || t->numel == 0) return SHMT_OK;
    SHMT_TRY(shmt__real_parts(t, &reals));
    /* The variance is that of the complex number: each part has half of it. */
    return fill_normal(reals, mean, std / sqrt(2.0), generator);
  }
  if (t->numel == 0) return SHMT_OK;
  SHMT_REQUIRE_LOOP(SHMT_LOOP_box_muller, t->dtype, "normal_kernel_cpu");
  if (shmt__tensor_is_meta(t)) return SHMT_OK;
  if (t->numel < 16 || !shmt__tensor_is_contiguous(t))
    return shmt__random_walk("normal_", t, normal_run, &walk, &walk.generator, generator);
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

shmt_status shmt__randn(shmt_ints size, shmt_generator* generator, shmt_dtype dtype, shmt_layout layout,
                        shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  SHMT_TRY(shmt__make_random(size, dtype, shmt__default_dtype(), device, out));
  return fill_normal(*out, 0, 1, generator);
}

shmt_status shmt__randn_like(shmt_tensor* self, shmt_generator* generator, shmt_dtype dtype, shmt_layout layout,
                             shmt_device device, shmt_opt_bool pin_memory, shmt_memory_format memory_format,
                             shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) made = NULL;

  SHMT_TRY(shmt__empty_like(self, dtype, layout, device, pin_memory, memory_format, &made));
  SHMT_TRY(fill_normal(made, 0, 1, generator));
  *out = SHMT_TAKE(made);
  return SHMT_OK;
}

shmt_status shmt__normal_float_float(double mean, double std, shmt_ints size, shmt_generator* generator,
                                     shmt_dtype dtype, shmt_layout layout, shmt_device device,
                                     shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  SHMT_TRY(check_std(std));
  SHMT_TRY(shmt__make_random(size, dtype, shmt__default_dtype(), device, out));
  return fill_normal(*out, mean, std, generator);
}

/* --- means and standard deviations in tensors ------------------------------------------------ */

/* result = standard normal * std + mean, with the sizes and dtype of like; a preset *out is like. */
static shmt_status normal_around(shmt_ints sizes, shmt_tensor* like, shmt_tensor* mean, double mean_value,
                                 shmt_tensor* std, double std_value, shmt_generator* generator, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) noise = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;

  if (*out) {
    like = *out;
    SHMT_REFUSE_DTYPE(shmt__dtype_category(like->dtype) < 2, like->dtype, "normal_kernel_cpu");
  }
  SHMT_REQUIRE(std || std_value >= 0, SHMT_E_RUNTIME, "normal expects std >= 0.0, but found std %g", std_value);
  SHMT_REQUIRE(!std || !shmt__is_complex(std->dtype), SHMT_E_RUNTIME,
               "normal expects standard deviation to be non-complex");
  if (std && !shmt__tensor_is_meta(std) && std->numel > 0) {
    SHMT_AUTO(shmt_tensor) low = NULL;
    shmt_scalar least;
    SHMT_TRY(shmt_op_amin(std, SHMT_INTS_EMPTY, false, &low));
    SHMT_TRY(shmt__tensor_item(low, &least));
    SHMT_REQUIRE(shmt__scalar_to_double(least) >= 0, SHMT_E_RUNTIME, "normal expects all elements of std >= 0.0");
  }
  SHMT_TRY(shmt__tensor_empty(sizes, like->dtype, like->device, SHMT_CONTIGUOUS_FORMAT, &noise));
  SHMT_TRY(shmt__normal_(noise, 0, std ? 1 : std_value, generator));
  if (std && std->dtype == noise->dtype) {
    SHMT_TRY(shmt_op_mul__Tensor(noise, std));
  } else if (std) {
    SHMT_AUTO(shmt_tensor) plain = SHMT_TAKE(noise);
    SHMT_TRY(shmt_op_mul_Tensor(plain, std, &noise));
  }
  if (!mean || mean->dtype == noise->dtype) {
    if (mean)
      SHMT_TRY(shmt_op_add__Tensor(noise, mean, shmt__scalar_int(1)));
    else
      SHMT_TRY(shmt_op_add__Scalar(noise, shmt__scalar_float(mean_value), shmt__scalar_int(1)));
    result = SHMT_TAKE(noise);
  } else {
    SHMT_TRY(shmt_op_add_Tensor(noise, mean, shmt__scalar_int(1), &result));
  }
  if (result->dtype != like->dtype) {
    SHMT_AUTO(shmt_tensor) wide = SHMT_TAKE(result);
    SHMT_TRY(shmt__tensor_cast(wide, like->dtype, &result));
  }
  if (*out) return shmt__write_out("normal", result, *out);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__normal_tensor_float(shmt_tensor* mean, double std, shmt_generator* generator, shmt_tensor** out) {
  return normal_around(shmt__tensor_sizes(mean), mean, mean, 0, NULL, std, generator, out);
}

shmt_status shmt__normal_float_tensor(double mean, shmt_tensor* std, shmt_generator* generator, shmt_tensor** out) {
  return normal_around(shmt__tensor_sizes(std), std, NULL, mean, std, 1, generator, out);
}

shmt_status shmt__normal_tensor_tensor(shmt_tensor* mean, shmt_tensor* std, shmt_generator* generator,
                                       shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], n_dims;

  SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(mean), shmt__tensor_sizes(std), sizes, &n_dims));
  return normal_around((shmt_ints){sizes, n_dims}, mean, mean, 0, std, 1, generator, out);
}
