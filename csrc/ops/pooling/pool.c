/* ops/pooling/pool.c -- max, average and adaptive pooling in one to three dimensions, and their gradients. */
#include "base/scalar.h"
#include "base/sizes.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/pooling/pool.h"
#include "ops/pooling/plane_loops.h"

#include <inttypes.h>
#include <string.h>

/* Arguments of a pooling operator, for its last n dims. */
typedef struct params {
  const char* name;
  int n;
  shmt_ints kernel, stride, padding, dilation;
  bool ceil_mode;
} params;

static int64_t value_at(shmt_ints v, int d, int64_t missing) {
  return v.len <= 0 ? missing : v.len == 1 ? v.data[0] : v.data[d];
}

static shmt_status check_lengths(const params* p) {
  static const char* const tuples[] = {"one int", "two ints", "three ints"};
  const char* many = tuples[p->n - 1];

  SHMT_REQUIRE(p->kernel.len == 1 || p->kernel.len == p->n, SHMT_E_RUNTIME,
               "%s: kernel_size must either be a single int, or a tuple of %s", p->name, many);
  SHMT_REQUIRE(p->stride.len <= 1 || p->stride.len == p->n, SHMT_E_RUNTIME,
               "%s: stride must either be omitted, a single int, or a tuple of %s", p->name, many);
  SHMT_REQUIRE(p->padding.len == 1 || p->padding.len == p->n, SHMT_E_RUNTIME,
               "%s: padding must either be a single int, or a tuple of %s", p->name, many);
  SHMT_REQUIRE(p->dilation.len <= 1 || p->dilation.len == p->n, SHMT_E_RUNTIME,
               "%s: dilation must be either a single int, or a tuple of %s", p->name, many);
  return SHMT_OK;
}

static shmt_status check_input(const char* name, int n, const shmt_tensor* t) {
  bool fits = t->n_dims == n + 1 || t->n_dims == n + 2;

  for (int d = 0; fits && d < t->n_dims; d++) fits = t->sizes[d] > 0 || (d == 0 && t->n_dims == n + 2);
  SHMT_REQUIRE(n == 1 || t->n_dims == n + 1 || t->n_dims == n + 2, SHMT_E_RUNTIME,
               "non-empty %dD or %dD (batch mode) tensor expected for input", n + 1, n + 2);
  for (int d = t->n_dims - n - 1; n == 3 && !fits && d < t->n_dims; d++)
    SHMT_REQUIRE(t->sizes[d] > 0, SHMT_E_RUNTIME,
                 "%s(): Expected input's non-batch dimensions to have positive length, but input has a shape of %s",
                 name, SHMT_SHAPE_TEXT(t));
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME,
               "%s(): Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for input, but got:%s",
               name, n + 1, n + 2, SHMT_SHAPE_TEXT(t));
  return SHMT_OK;
}

/* As in torch, values must fit 32 bits. So sums and products below fit 64 bits. */
static shmt_status check_range(const params* p, const char* what, int64_t value) {
  SHMT_REQUIRE(value >= INT32_MIN && value <= INT32_MAX, SHMT_E_RUNTIME,
               "%s(): %s %" PRId64 ": value cannot be converted to type int without overflow", p->name, what, value);
  return SHMT_OK;
}

/* Fill the arguments of the loop, and the sizes of the result. */
static shmt_status fill_args(const params* p, const shmt_tensor* self, shmt__pool_args* s, int64_t* sizes) {
  SHMT_TRY(check_lengths(p));
  *s = SHMT_POOL_IDENTITY;
  for (int d = 0; d < p->n; d++) {
    const int k = 3 - p->n + d;
    s->kernel[k] = value_at(p->kernel, d, 1);
    s->stride[k] = value_at(p->stride, d, s->kernel[k]);
    s->padding[k] = value_at(p->padding, d, 0);
    s->dilation[k] = value_at(p->dilation, d, 1);
    SHMT_TRY(check_range(p, "kernel_size", s->kernel[k]));
    SHMT_TRY(check_range(p, "stride", s->stride[k]));
    SHMT_TRY(check_range(p, "padding", s->padding[k]));
    SHMT_TRY(check_range(p, "dilation", s->dilation[k]));
    SHMT_REQUIRE(s->stride[k] != 0, SHMT_E_RUNTIME, "stride should not be zero");
    SHMT_REQUIRE(s->kernel[k] > 0 && s->stride[k] > 0, SHMT_E_RUNTIME,
                 "kernel size and stride should be greater than zero, but got kernel %" PRId64 " and stride %" PRId64,
                 s->kernel[k], s->stride[k]);
    SHMT_REQUIRE(s->dilation[k] > 0, SHMT_E_RUNTIME, "dilation should be greater than zero, but got dilation %" PRId64,
                 s->dilation[k]);
    SHMT_REQUIRE(s->padding[k] >= 0, SHMT_E_RUNTIME, "pad must be non-negative, but got pad: %" PRId64, s->padding[k]);
    SHMT_REQUIRE(s->padding[k] <= ((s->kernel[k] - 1) * s->dilation[k] + 1) / 2, SHMT_E_RUNTIME,
                 "pad should be at most half of effective kernel size, but got pad=%" PRId64 ", kernel_size=%" PRId64
                 " and dilation=%" PRId64, s->padding[k], s->kernel[k], s->dilation[k]);
    SHMT_REQUIRE(s->padding[k] <= s->kernel[k] / 2, SHMT_E_RUNTIME,
                 "pad should be smaller than or equal to half of kernel size, but got pad=%" PRId64
                 " and kernel_size=%" PRId64, s->padding[k], s->kernel[k]);
  }
  SHMT_TRY(check_input(p->name, p->n, self));
  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  for (int d = 0; d < p->n; d++) {
    const int k = 3 - p->n + d, at_dim = self->n_dims - p->n + d;
    const int64_t in = self->sizes[at_dim];
    SHMT_REQUIRE(in <= INT64_MAX / 4, SHMT_E_RUNTIME, "%s(): input size %" PRId64 " is too large", p->name, in);
    const int64_t reach = s->dilation[k] * (s->kernel[k] - 1) + 1;
    const int64_t room = in + 2 * s->padding[k] - reach + (p->ceil_mode ? s->stride[k] - 1 : 0);
    int64_t out = (room >= 0 ? room / s->stride[k] : -1) + 1;
    /* The last window must begin inside the image, or in the padding before it. */
    if (p->ceil_mode && (out - 1) * s->stride[k] >= in + s->padding[k]) out--;
    s->in[k] = in;
    s->out[k] = out;
    sizes[at_dim] = out;
  }
  for (int d = 0; d < 3; d++)
    SHMT_REQUIRE(s->out[d] >= 1, SHMT_E_RUNTIME,
                 "Given input size: (%" PRId64 "x%" PRId64 "x%" PRId64 "). Calculated output size: (%" PRId64
                 "x%" PRId64 "x%" PRId64 "). Output size is too small",
                 p->n == 3 ? s->in[0] : self->sizes[self->n_dims - p->n - 1], s->in[1], s->in[2],
                 p->n == 3 ? s->out[0] : self->sizes[self->n_dims - p->n - 1], s->out[1] < 1 ? 0 : s->out[1],
                 s->out[2] < 1 ? 0 : s->out[2]);
  return SHMT_OK;
}

/* As in torch, average pooling and adaptive pooling of volumes give contiguous results. */
static bool gives_contiguous(int n, int row) {
  return n == 3 && row != SHMT_LOOP_max_pool && row != SHMT_LOOP_max_pool_backward;
}

/* Convert *t to the memory format of the result: others take the input's format, but of unbatched inputs only max
 * pooling does. */
static shmt_status to_format_of(const shmt_tensor* self, int n, int row, shmt_tensor** t) {
  const bool is_plain = gives_contiguous(n, row);

  if (!is_plain && self->n_dims != n + 2 && row != SHMT_LOOP_max_pool) return SHMT_OK;
  SHMT_AUTO(shmt_tensor) dense = SHMT_TAKE(*t);
  return shmt__tensor_contiguous(dense, is_plain ? SHMT_CONTIGUOUS_FORMAT : shmt__tensor_suggest_format(self), t);
}

/* A signal as an image of one row. New reference. */
static shmt_status signal_as_image(shmt_tensor* signal, shmt_tensor** out) {
  const int64_t *size = signal->sizes, *step = signal->strides;

  return shmt__tensor_alias(signal, SHMT_INTS(size[0], size[1], 1, size[2]),
                            SHMT_INTS(step[0], step[1], size[2] * step[2], step[2]), signal->offset, out);
}

/* A channels-last signal as an image of one row, which keeps its format, as in torch; for others *out stays NULL.
 * image_sizes: those of the result, converted likewise. New reference. */
static shmt_status channels_last_signal_as_image(shmt_tensor* self, int n, const int64_t* sizes, int64_t* image_sizes,
                                                 shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) image = NULL;

  if (n != 1 || self->n_dims != 3 || self->sizes[1] < 2 || self->sizes[2] < 2 || self->strides[1] >= self->strides[2])
    return SHMT_OK;
  SHMT_TRY(signal_as_image(self, &image));
  if (shmt__tensor_suggest_format(image) == SHMT_CONTIGUOUS_FORMAT) return SHMT_OK;
  memcpy(image_sizes, (int64_t[]){sizes[0], sizes[1], 1, sizes[2]}, 4 * sizeof *image_sizes);
  *out = SHMT_TAKE(image);
  return SHMT_OK;
}

/* Turn *t, an image of one row, back into a signal. */
static shmt_status image_as_signal(shmt_tensor** t) {
  SHMT_AUTO(shmt_tensor) image = SHMT_TAKE(*t);
  const int64_t *size = image->sizes, *step = image->strides;

  return shmt__tensor_alias(image, SHMT_INTS(size[0], size[1], size[3]), SHMT_INTS(step[0], step[1], step[3]),
                            image->offset, t);
}

/* --- max pooling ---------------------------------------------------------------------------- */

/* Which operands are images: of output, indices, input. */
static const bool MAX_IMAGES[SHMT_POOL_OPERANDS] = {false, false, true};
/* Of the gradient of the input, the gradient of the output, indices. */
static const bool GRAD_IMAGES[SHMT_POOL_OPERANDS] = {true};

/* indices may be NULL. */
static shmt_status max_pool(const params* p, int row, const shmt__pool_args* s, const int64_t* sizes,
                            shmt_tensor* self, shmt_tensor** out, shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;
  SHMT_AUTO(shmt_tensor) image = NULL;
  int64_t image_sizes[4];

  SHMT_REQUIRE_LOOP(row, self->dtype, p->name);
  SHMT_TRY(channels_last_signal_as_image(self, p->n, sizes, image_sizes, &image));
  if (image) {
    params q = *p;
    q.n = 2;
    SHMT_TRY(max_pool(&q, row, s, image_sizes, image, out, indices));
    if (indices) SHMT_TRY(image_as_signal(indices));
    return image_as_signal(out);
  }
  const shmt_ints shape = {sizes, self->n_dims};
  const shmt_memory_format format = shmt__pool_format(self, self->dtype, row, s, p->n);
  SHMT_TRY(shmt__tensor_empty(shape, self->dtype, self->device, format, &values));
  if (indices) SHMT_TRY(shmt__tensor_empty(shape, SHMT_INT64, self->device, format, &where));
  if (!shmt__tensor_is_meta(self) && values->numel > 0) {
    SHMT_TRY(shmt__pool_prepare_input(self, format, &dense));
    SHMT_TRY(shmt__pool_run_loop(format, row, s, (shmt_tensor* const[SHMT_POOL_OPERANDS]){values, where, dense},
                                 MAX_IMAGES));
  }
  SHMT_TRY(to_format_of(self, p->n, row, &values));
  if (indices) SHMT_TRY(to_format_of(self, p->n, row, &where));
  if (indices) *indices = SHMT_TAKE(where);
  *out = SHMT_TAKE(values);
  return SHMT_OK;
}

shmt_status shmt__max_pool_without_indices(const char* name, int n, shmt_tensor* self, shmt_ints kernel_size,
                                           shmt_ints stride, shmt_ints padding, shmt_ints dilation, bool ceil_mode,
                                           shmt_tensor** out) {
  const params p = {name, n, kernel_size, stride, padding, dilation, ceil_mode};
  shmt__pool_args s;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_TRY(fill_args(&p, self, &s, sizes));
  return max_pool(&p, SHMT_LOOP_max_pool, &s, sizes, self, out, NULL);
}

/* Are all indices inside a plane? `where` is dense, with an index for each element of the gradient. */
static shmt_status check_where(const shmt_tensor* where, int64_t plane) {
  const int64_t* v = shmt__tensor_data(where);

  for (int64_t i = 0; i < where->numel; i++)
    SHMT_REQUIRE(v[i] >= 0 && v[i] < plane, SHMT_E_RUNTIME,
                 "max_pool_backward(): index %" PRId64 " is outside a plane of %" PRId64 " elements", v[i], plane);
  return SHMT_OK;
}

shmt_status shmt__max_pool_backward(shmt_tensor* grad, shmt_ints sizes, shmt_tensor* indices, int64_t n,
                                    shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;
  SHMT_AUTO(shmt_tensor) image = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  shmt__pool_args s = SHMT_POOL_IDENTITY;
  int64_t image_sizes[4];

  SHMT_REQUIRE_LOOP(SHMT_LOOP_max_pool_backward, grad->dtype, "max_pool_backward");
  SHMT_REQUIRE(n >= 1 && n <= 3 && sizes.len >= n && grad->n_dims == sizes.len, SHMT_E_RUNTIME,
               "max_pool_backward(): the gradient has shape %s, the input %" PRId64 " dimensions",
               SHMT_SHAPE_TEXT(grad), sizes.len);
  SHMT_REQUIRE(indices->dtype == SHMT_INT64 && shmt__sizes_are(indices, shmt__tensor_sizes(grad)), SHMT_E_RUNTIME,
               "max_pool_backward(): %s indices of size %s do not fit a gradient of size %s",
               shmt__dtype_title(indices->dtype), SHMT_SHAPE_TEXT(indices), SHMT_SHAPE_TEXT(grad));
  for (int64_t d = 0; d < sizes.len - n; d++)
    SHMT_REQUIRE(sizes.data[d] == grad->sizes[d], SHMT_E_RUNTIME,
                 "max_pool_backward(): a gradient of size %s does not fit an input with %" PRId64
                 " at dimension %" PRId64,
                 SHMT_SHAPE_TEXT(grad), sizes.data[d], d);
  for (int d = 0; d < n; d++) {
    s.in[3 - n + d] = sizes.data[sizes.len - n + d];
    s.out[3 - n + d] = grad->sizes[sizes.len - n + d];
  }
  SHMT_TRY(channels_last_signal_as_image(indices, (int)n, sizes.data, image_sizes, &image));
  if (image) {
    SHMT_AUTO(shmt_tensor) row = NULL;
    SHMT_TRY(signal_as_image(grad, &row));
    SHMT_TRY(shmt__max_pool_backward(row, (shmt_ints){image_sizes, 4}, image, 2, out));
    return image_as_signal(out);
  }
  /* The indices have the memory format that the input had. */
  const shmt_memory_format format = shmt__pool_format(indices, grad->dtype, SHMT_LOOP_max_pool_backward, &s, (int)n);
  SHMT_TRY(shmt__tensor_empty(sizes, grad->dtype, grad->device, format, &result));
  if (!shmt__tensor_is_meta(grad)) {
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    if (grad->numel > 0) {
      SHMT_TRY(shmt__tensor_contiguous(grad, format, &dense));
      SHMT_TRY(shmt__tensor_contiguous(indices, format, &where));
      SHMT_TRY(check_where(where, s.in[0] * s.in[1] * s.in[2]));
      SHMT_TRY(shmt__pool_run_loop(format, SHMT_LOOP_max_pool_backward, &s,
                                   (shmt_tensor* const[SHMT_POOL_OPERANDS]){result, dense, where}, GRAD_IMAGES));
    }
  }
  SHMT_TRY(to_format_of(indices, (int)n, SHMT_LOOP_max_pool_backward, &result));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- average pooling --------------------------------------------------------------------------- */

static const bool AVG_IMAGES[SHMT_POOL_OPERANDS] = {false, true};

static shmt_status average(const char* name, int n, int row, const shmt__pool_args* s, const int64_t* sizes,
                           shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) image = NULL;
  int64_t image_sizes[4];

  SHMT_REQUIRE_LOOP(row, self->dtype, name);
  SHMT_TRY(channels_last_signal_as_image(self, n, sizes, image_sizes, &image));
  if (image) {
    SHMT_TRY(average(name, 2, row, s, image_sizes, image, out));
    return image_as_signal(out);
  }
  /* Results of adaptive pooling are small compared with the input: the input is read as it lies, and the result
   * converted. */
  const shmt_memory_format format =
      n == 3 && row == SHMT_LOOP_avg_pool ? SHMT_CONTIGUOUS_FORMAT : shmt__pool_format(self, self->dtype, row, s, n);
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, self->n_dims}, self->dtype, self->device, format, &values));
  if (!shmt__tensor_is_meta(self) && values->numel > 0) {
    SHMT_TRY(shmt__pool_prepare_input(self, format, &dense));
    SHMT_TRY(shmt__pool_run_loop(format, row, s, (shmt_tensor* const[SHMT_POOL_OPERANDS]){values, dense}, AVG_IMAGES));
  }
  SHMT_TRY(to_format_of(self, n, row, &values));
  *out = SHMT_TAKE(values);
  return SHMT_OK;
}

/* like: a Meta tensor with the sizes and strides of the input. */
static shmt_status average_backward(const char* name, int n, int row, const shmt__pool_args* s, shmt_tensor* like,
                                    shmt_tensor* grad, shmt_ints grad_sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) image = NULL;
  int64_t image_sizes[4];

  SHMT_REQUIRE_LOOP(row, grad->dtype, name);
  SHMT_REQUIRE(shmt__sizes_are(grad, grad_sizes), SHMT_E_RUNTIME,
               "%s_backward(): expected a gradient of size %s, got %s", name,
               shmt__ints_text(grad_sizes, (char[256]){0}, 256), SHMT_SHAPE_TEXT(grad));
  SHMT_TRY(channels_last_signal_as_image(like, n, grad->sizes, image_sizes, &image));
  if (image) {
    SHMT_AUTO(shmt_tensor) signal = NULL;
    SHMT_TRY(signal_as_image(grad, &signal));
    SHMT_TRY(average_backward(name, 2, row, s, image, signal, (shmt_ints){image_sizes, 4}, out));
    return image_as_signal(out);
  }
  const shmt_memory_format format =
      gives_contiguous(n, row) ? SHMT_CONTIGUOUS_FORMAT : shmt__pool_format(like, grad->dtype, row, s, n);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(like), grad->dtype, grad->device, format, &result));
  if (!shmt__tensor_is_meta(grad)) {
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    if (grad->numel > 0 && result->numel > 0) {
      SHMT_TRY(shmt__tensor_contiguous(grad, format, &dense));
      SHMT_TRY(
          shmt__pool_run_loop(format, row, s, (shmt_tensor* const[SHMT_POOL_OPERANDS]){result, dense}, GRAD_IMAGES));
    }
  }
  SHMT_TRY(to_format_of(like, n, row, &result));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

static shmt_status input_like(shmt_ints sizes, shmt_ints strides, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_REQUIRE(sizes.len == strides.len, SHMT_E_RUNTIME, "pooling: %" PRId64 " sizes and %" PRId64 " strides",
               sizes.len, strides.len);
  return shmt__tensor_empty_strided(sizes, strides, dtype, SHMT_META, out);
}

static shmt_status set_divisor(shmt__pool_args* s, bool count_include_pad, shmt_opt_int divisor_override) {
  s->count_padding = count_include_pad;
  SHMT_REQUIRE(!divisor_override.has || divisor_override.value != 0, SHMT_E_RUNTIME, "divisor must be not zero");
  s->divisor = divisor_override.has ? divisor_override.value : 0;
  return SHMT_OK;
}

/* As in torch, the input itself must be as large as the kernel; for images, padding counts. */
static shmt_status check_volume(const shmt__pool_args* s) {
  const int64_t *in = s->in, *kernel = s->kernel;

  SHMT_REQUIRE(in[0] >= kernel[0] && in[1] >= kernel[1] && in[2] >= kernel[2], SHMT_E_RUNTIME,
               "input image (T: %" PRId64 " H: %" PRId64 " W: %" PRId64 ") smaller than kernel size (kT: %" PRId64
               " kH: %" PRId64 " kW: %" PRId64 ")",
               in[0], in[1], in[2], kernel[0], kernel[1], kernel[2]);
  return SHMT_OK;
}

/* --- adaptive pooling ------------------------------------------------------------------------------ */

/* Is it one average of each plane, for which mean() is faster, and which of no elements is NaN as well? */
static bool is_global_average(const shmt_tensor* self, const shmt__pool_args* s) {
  bool is_one = shmt__is_floating(self->dtype);

  for (int d = 0; d < 3; d++) is_one = is_one && s->out[d] == 1;
  return is_one;
}

static shmt_status global_average(shmt_tensor* self, int n, shmt_tensor** out) {
  static const int64_t last[] = {-1, -2, -3};
  SHMT_AUTO(shmt_tensor) values = NULL;

  SHMT_TRY(shmt__mean_dims(self, (shmt_ints){last, n}, true, SHMT_DTYPE_NONE, &values));
  SHMT_TRY(to_format_of(self, n, SHMT_LOOP_adaptive_avg_pool, &values));
  *out = SHMT_TAKE(values);
  return SHMT_OK;
}

static bool is_all_ones(shmt_ints sizes) {
  for (int64_t d = 0; d < sizes.len; d++)
    if (sizes.data[d] != 1) return false;
  return true;
}

static shmt_status fill_adaptive_args(const char* name, bool is_max, int n, shmt_ints input, shmt_ints output_size,
                                      shmt__pool_args* s, int64_t* sizes) {
  const bool is_global_mean = !is_max && is_all_ones(output_size);
  *s = SHMT_POOL_IDENTITY;
  SHMT_REQUIRE(output_size.len == 1 || n > 1, SHMT_E_RUNTIME,
               "%s() argument 'output_size' should contain one int (got %" PRId64 ")", name, output_size.len);
  SHMT_REQUIRE(output_size.len == n, SHMT_E_RUNTIME,
               is_max ? "%s(): internal error: output_size.size() must be %d" : "%s: output_size must be %d", name, n);
  SHMT_REQUIRE(input.len == n + 1 || input.len == n + 2, SHMT_E_RUNTIME,
               "%s(): Expected %dD or %dD tensor, but got %s", name, n + 1, n + 2,
               shmt__ints_text(input, (char[256]){0}, 256));
  memcpy(sizes, input.data, (size_t)input.len * sizeof *sizes);
  for (int d = 0; d < n; d++) {
    const int k = 3 - n + d;
    const int64_t want = value_at(output_size, d, 1);
    SHMT_REQUIRE(want >= 0, SHMT_E_RUNTIME, "%s: elements of output_size must be greater than or equal to 0 but "
                 "received %s", name, shmt__ints_text(output_size, (char[256]){0}, 256));
    s->in[k] = input.data[input.len - n + d];
    SHMT_REQUIRE(s->in[k] > 0 || is_global_mean, SHMT_E_RUNTIME,
                 "%s(): Expected input to have non-zero size for non-batch dimensions, but input has sizes %s with "
                 "dimension %d being empty",
                 name, shmt__ints_text(input, (char[256]){0}, 256), (int)input.len - n + d);
    const int64_t larger = shmt__max_i64(want, s->in[k]);
    SHMT_REQUIRE(larger < INT64_MAX / 4, SHMT_E_RUNTIME, "%s(): size %" PRId64 " is too large", name, larger);
    s->out[k] = sizes[input.len - n + d] = want;
    s->kernel[k] = want > 0 ? s->in[k] / want + 1 : 1;
  }
  return SHMT_OK;
}

/* Only the batch dim may have size 0. */
static shmt_status check_channels(const char* name, const shmt_tensor* self) {
  for (int d = 1; d < self->n_dims; d++)
    SHMT_REQUIRE(self->sizes[d] > 0, SHMT_E_RUNTIME, "%s(): Expected input to have non-zero size for non-batch "
                 "dimensions, but input has sizes %s with dimension %d being empty", name, SHMT_SHAPE_TEXT(self), d);
  return SHMT_OK;
}

/* --- by the number of dims ------------------------------------------------------------------------- */

#define N 1
#include "ops/pooling/pool_dims.tmpl.h"

#define N 2
#include "ops/pooling/pool_dims.tmpl.h"

#define N 3
#include "ops/pooling/pool_dims.tmpl.h"
