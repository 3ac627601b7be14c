/* ops/pooling/fractional_max_pool.c -- fractional max pooling: pooling windows with random steps (Graham, "Fractional
 * max-pooling", 2014). */
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/pooling/plane_loops.h"

#include <inttypes.h>
#include <string.h>

static const bool IMAGES[SHMT_POOL_OPERANDS] = {false, false, true};

static shmt_status check_input(const char* name, int n, const shmt_tensor* self) {
  SHMT_REQUIRE(self->n_dims == n + 1 || self->n_dims == n + 2, SHMT_E_RUNTIME,
               "%s(): Expected %dD or %dD tensor, but got: %s", name, n + 1, n + 2, SHMT_SHAPE_TEXT(self));
  for (int d = self->n_dims - n - 1; d < self->n_dims; d++)
    SHMT_REQUIRE(self->sizes[d] > 0, SHMT_E_RUNTIME,
                 "%s(): Expected input to have non-zero size for non-batch dimensions, but got%s with dimension %d "
                 "being empty.", name, SHMT_SHAPE_TEXT(self), d);
  return SHMT_OK;
}

/* Fill the arguments of the loop, and the sizes of the result. */
static shmt_status fill_args(int n, const shmt_tensor* self, shmt_ints kernel, shmt_ints output, shmt__pool_args* s,
                             int64_t* sizes) {
  static const char* const dims[] = {"time", "height", "width"};
  const char* many = n == 2 ? "Ints" : "three Ints";
  const char* name = n == 2 ? "fractional_max_pool2d" : "fractional_max_pool3d_out";

  SHMT_REQUIRE(kernel.len == n, SHMT_E_RUNTIME,
               "fractional_max_pool%dd: kernel_size must either be a single Int or tuple of %s", n, many);
  SHMT_REQUIRE(output.len == n, SHMT_E_RUNTIME,
               "fractional_max_pool%dd: output_size must either be a single Int or tuple of %s", n, many);
  SHMT_TRY(check_input(name, n, self));
  *s = SHMT_POOL_IDENTITY;
  s->n = n;
  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  for (int d = 0; d < n; d++) {
    const int k = 3 - n + d;
    s->in[k] = self->sizes[self->n_dims - n + d];
    s->kernel[k] = kernel.data[d];
    s->out[k] = sizes[self->n_dims - n + d] = output.data[d];
    SHMT_REQUIRE(s->kernel[k] > 0, SHMT_E_RUNTIME, "%s(): kernel_size must be greater than zero, but got %" PRId64,
                 name, s->kernel[k]);
    /* As in torch, volumes need one element more. */
    const int64_t most = s->in[k] - (n == 3);
    SHMT_REQUIRE(s->kernel[k] <= most && s->out[k] <= most - s->kernel[k] + 1, SHMT_E_RUNTIME,
                 "%s(): pool %s %" PRId64 " too large relative to input %s %" PRId64, name, dims[k], s->kernel[k],
                 dims[k], s->in[k]);
  }
  return SHMT_OK;
}

/* The random samples of the planes of the input, dense. New reference. */
static shmt_status find_samples(int n, const shmt_tensor* self, shmt_tensor* samples, shmt_tensor** out) {
  const int64_t batch = self->n_dims == n + 1 ? 1 : self->sizes[0], channels = self->sizes[self->n_dims - n - 1];
  SHMT_AUTO(shmt_tensor) used = NULL;

  SHMT_REQUIRE(samples->dtype == self->dtype, SHMT_E_RUNTIME, "Expect _random_samples to have the same dtype as input");
  SHMT_REQUIRE(samples->n_dims == 3, SHMT_E_RUNTIME, "Expect _random_samples to have 3 dimensions, got %d",
               samples->n_dims);
  SHMT_REQUIRE(samples->sizes[0] >= batch, SHMT_E_RUNTIME,
               "Expect _random_samples.size(0) no less then input batch size.");
  SHMT_REQUIRE(samples->sizes[1] == channels, SHMT_E_RUNTIME,
               "Expect _random_samples.size(1) equals to input channel size.");
  SHMT_REQUIRE(samples->sizes[2] == n, SHMT_E_RUNTIME, "Expect _random_samples.size(2) equals to %d; got %" PRId64 ".",
               n, samples->sizes[2]);
  SHMT_TRY(shmt__tensor_alias(samples, SHMT_INTS(batch, channels, n), shmt__tensor_strides(samples), samples->offset,
                              &used));
  return shmt__tensor_contiguous(used, SHMT_CONTIGUOUS_FORMAT, out);
}

static shmt_status pool(const char* name, int n, shmt_tensor* self, shmt_ints kernel_size, shmt_ints output_size,
                        shmt_tensor* samples, shmt_tensor** out, shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;
  SHMT_AUTO(shmt_tensor) dense_samples = NULL;
  shmt__pool_args s;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_TRY(fill_args(n, self, kernel_size, output_size, &s, sizes));
  SHMT_TRY(find_samples(n, self, samples, &dense_samples));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_fractional_max_pool, self->dtype, name);
  const shmt_ints shape = {sizes, self->n_dims};
  const shmt_device device = shmt__common_device(self, samples, NULL);
  SHMT_TRY(shmt__tensor_empty(shape, self->dtype, device, SHMT_CONTIGUOUS_FORMAT, &values));
  SHMT_TRY(shmt__tensor_empty(shape, SHMT_INT64, device, SHMT_CONTIGUOUS_FORMAT, &where));
  if (device != SHMT_META && values->numel > 0)
    SHMT_TRY(shmt__pool_run_loop(SHMT_CONTIGUOUS_FORMAT, SHMT_LOOP_fractional_max_pool, &s,
                                 (shmt_tensor* const[SHMT_POOL_OPERANDS]){values, where, self, dense_samples}, IMAGES));
  *out = SHMT_TAKE(values);
  *indices = SHMT_TAKE(where);
  return SHMT_OK;
}

#define POOL(N)                                                                                                        \
  shmt_status shmt__fractional_max_pool##N##d(shmt_tensor* self, shmt_ints kernel_size, shmt_ints output_size,         \
                                              shmt_tensor* random_samples, shmt_tensor** out, shmt_tensor** indices) { \
    return pool("fractional_max_pool" #N "d_out_frame", N, self, kernel_size, output_size, random_samples, out,        \
                indices);                                                                                              \
  }
POOL(2)
POOL(3)
#undef POOL
