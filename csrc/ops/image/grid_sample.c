/* ops/image/grid_sample.c -- grid_sample of images and volumes, its gradients and their gradients. */
#include "base/overflow.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"

#include <inttypes.h>
#include <string.h>

static shmt_status fill_args(const shmt_tensor* input, const shmt_tensor* grid, int64_t mode, int64_t padding,
                             bool align_corners, shmt__grid_sample_args* s) {
  const int n = input->n_dims - 2;

  SHMT_REQUIRE(input->dtype == grid->dtype, SHMT_E_RUNTIME,
               "grid_sampler(): expected input and grid to have same dtype, but input has %s and grid has %s",
               shmt__dtype_title(input->dtype), shmt__dtype_title(grid->dtype));
  SHMT_REQUIRE((n == 2 || n == 3) && grid->n_dims == input->n_dims, SHMT_E_RUNTIME,
               "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
               "sizes %s and grid with sizes %s", SHMT_SHAPE_TEXT(input), SHMT_SHAPE_TEXT(grid));
  SHMT_REQUIRE(input->sizes[0] == grid->sizes[0], SHMT_E_RUNTIME,
               "grid_sampler(): expected grid and input to have same batch size, but got input with sizes %s and grid "
               "with sizes %s", SHMT_SHAPE_TEXT(input), SHMT_SHAPE_TEXT(grid));
  SHMT_REQUIRE(grid->sizes[n + 1] == n, SHMT_E_RUNTIME,
               "grid_sampler(): expected grid to have size %d in last dimension, but got grid with sizes %s", n,
               SHMT_SHAPE_TEXT(grid));
  for (int d = 2; d < n + 2; d++)
    SHMT_REQUIRE(input->sizes[d] > 0, SHMT_E_RUNTIME,
                 "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes %s with "
                 "dimension %d being empty", SHMT_SHAPE_TEXT(input), d);
  SHMT_REQUIRE(mode >= 0 && mode <= 2 && padding >= 0 && padding <= 2, SHMT_E_RUNTIME,
               "grid_sampler(): unknown mode %" PRId64 " or padding %" PRId64, mode, padding);
  SHMT_REQUIRE(n == 2 || mode != 2, SHMT_E_RUNTIME, "grid_sampler(): bicubic interpolation only supports 4D input");
  *s = (shmt__grid_sample_args){.in = {1, 1, 1},
                                .out = {1, 1, 1},
                                .channels = input->sizes[1],
                                .n = n,
                                .mode = (int)mode,
                                .padding = (int)padding,
                                .align_corners = align_corners};
  for (int d = 0; d < n; d++) {
    s->in[3 - n + d] = input->sizes[2 + d];
    s->out[3 - n + d] = grid->sizes[1 + d];
  }
  return SHMT_OK;
}

/* The steps of a tensor: of a grid, whose coordinates are the last dim, or of images, whose channels are the second. */
static shmt__grid_view view_of(const shmt_tensor* t, bool positions) {
  const int n = t->n_dims - 2;
  shmt__grid_view v = {.batch = t->strides[0], .channel = t->strides[positions ? n + 1 : 1]};

  for (int d = 0; d < n; d++) v.at[3 - n + d] = t->strides[d + (positions ? 1 : 2)];
  return v;
}

typedef struct walk {
  char* data[8];
  int64_t step[8]; /* bytes from batch entry to batch entry */
  int n;
  shmt__loop loop;
  const shmt__grid_sample_args* shape;
} walk;

static void run_batch(void* ctx, int64_t begin, int64_t end) {
  const walk* w = ctx;
  char* data[8];

  for (int k = 0; k < w->n; k++) data[k] = w->data[k] ? w->data[k] + begin * w->step[k] : NULL;
  w->loop(data, NULL, end - begin, w->shape);
}

/* Run a loop over the batch. Tensors may be NULL; kinds has a '+' for each tensor like the grid, and a '.' for each
 * other. */
static void run_sample_loop(int row, shmt_tensor* const* tensors, const char* kinds, shmt_dtype dtype, int64_t batch,
                            shmt__grid_sample_args* s) {
  walk w = {.loop = shmt__loops[row][dtype], .shape = s};

  for (; kinds[w.n]; w.n++) {
    shmt_tensor* const t = tensors[w.n];
    if (!t) continue;
    w.data[w.n] = shmt__tensor_data(t);
    s->views[w.n] = view_of(t, kinds[w.n] == '+');
    w.step[w.n] = shmt__wrap_mul_i64(t->strides[0], shmt__tensor_item_bytes(t));
  }
  shmt__parallel_for(batch, 1, run_batch, &w);
}

shmt_status shmt__grid_sampler(shmt_tensor* input, shmt_tensor* grid, int64_t interpolation_mode, int64_t padding_mode,
                               bool align_corners, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  shmt__grid_sample_args s;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE_LOOP(SHMT_LOOP_grid_sample, input->dtype, "grid_sampler");
  SHMT_TRY(fill_args(input, grid, interpolation_mode, padding_mode, align_corners, &s));
  sizes[0] = input->sizes[0];
  sizes[1] = input->sizes[1];
  memcpy(sizes + 2, grid->sizes + 1, (size_t)s.n * sizeof *sizes);
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, input->n_dims}, input->dtype,
                              shmt__common_device(input, grid, NULL), SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(result) && result->numel > 0)
    run_sample_loop(SHMT_LOOP_grid_sample, (shmt_tensor* const[]){result, input, grid}, "..+", input->dtype, sizes[0],
                    &s);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* A gradient like t, all zeros; *out stays NULL where it is not wanted. */
static shmt_status make_grad(const shmt_tensor* t, bool wanted, shmt_tensor** out) {
  if (!wanted) return SHMT_OK;
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(t), t->dtype, t->device, SHMT_CONTIGUOUS_FORMAT, out));
  return shmt__tensor_is_meta(t) ? SHMT_OK : shmt__tensor_fill(*out, shmt__scalar_int(0));
}

static shmt_status check_backward(const shmt_tensor* grad_output, const shmt_tensor* input, const shmt_tensor* grid,
                                  int64_t mode, int64_t padding, bool align_corners, shmt__grid_sample_args* s) {
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE_LOOP(SHMT_LOOP_grid_sample_backward, input->dtype, "grid_sampler_backward");
  SHMT_TRY(fill_args(input, grid, mode, padding, align_corners, s));
  sizes[0] = input->sizes[0];
  sizes[1] = input->sizes[1];
  memcpy(sizes + 2, grid->sizes + 1, (size_t)s->n * sizeof *sizes);
  SHMT_REQUIRE(grad_output->dtype == input->dtype && shmt__sizes_are(grad_output, (shmt_ints){sizes, input->n_dims}),
               SHMT_E_RUNTIME,
               "grid_sampler_backward(): a %s gradient of size %s does not fit an input of %s and a grid of %s",
               shmt__dtype_title(grad_output->dtype), SHMT_SHAPE_TEXT(grad_output), SHMT_SHAPE_TEXT(input),
               SHMT_SHAPE_TEXT(grid));
  return SHMT_OK;
}

shmt_status shmt__grid_sampler_backward(shmt_tensor* grad_output, shmt_tensor* input, shmt_tensor* grid,
                                        int64_t interpolation_mode, int64_t padding_mode, bool align_corners,
                                        shmt_ints output_mask, shmt_tensor** grad_input, shmt_tensor** grad_grid) {
  SHMT_AUTO(shmt_tensor) image_grad = NULL;
  SHMT_AUTO(shmt_tensor) grid_grad = NULL;
  shmt__grid_sample_args s;

  SHMT_REQUIRE(output_mask.len == 2, SHMT_E_RUNTIME, "grid_sampler_backward(): expected 2 flags, got %" PRId64,
               output_mask.len);
  SHMT_TRY(check_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, &s));
  SHMT_TRY(make_grad(input, output_mask.data[0] != 0, &image_grad));
  SHMT_TRY(make_grad(grid, output_mask.data[1] != 0, &grid_grad));
  if (!shmt__tensor_is_meta(input) && !shmt__tensor_is_meta(grid) && grad_output->numel > 0)
    run_sample_loop(SHMT_LOOP_grid_sample_backward,
                    (shmt_tensor* const[]){image_grad, grid_grad, grad_output, input, grid}, ".+..+", input->dtype,
                    input->sizes[0], &s);
  *grad_input = SHMT_TAKE(image_grad);
  *grad_grid = SHMT_TAKE(grid_grad);
  return SHMT_OK;
}

shmt_status shmt__grid_sampler_double_backward(shmt_tensor* ggrad_input, shmt_tensor* ggrad_grid,
                                               shmt_tensor* grad_output, shmt_tensor* input, shmt_tensor* grid,
                                               int64_t interpolation_mode, int64_t padding_mode, bool align_corners,
                                               shmt_ints output_mask, shmt_tensor** for_grad, shmt_tensor** for_input,
                                               shmt_tensor** for_grid) {
  shmt_tensor* const given[5] = {ggrad_input, ggrad_grid, grad_output, input, grid};
  shmt_tensor* const like[3] = {grad_output, input, grid};
  shmt_tensor** const outs[3] = {for_grad, for_input, for_grid};
  SHMT_AUTO_LIST made = {0, 0};
  shmt__grid_sample_args s;

  SHMT_REQUIRE(output_mask.len == 3, SHMT_E_RUNTIME, "_grid_sampler_double_backward(): expected 3 flags, got %" PRId64,
               output_mask.len);
  SHMT_TRY(check_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, &s));
  for (int k = 0; k < 2; k++) {
    if (!given[k]) continue;
    SHMT_TRY(shmt__check_scalar_type(given[k], input->dtype));
    SHMT_REQUIRE(shmt__sizes_are(given[k], shmt__tensor_sizes(like[k + 1])), SHMT_E_RUNTIME,
                 "_grid_sampler_double_backward(): a gradient of size %s does not fit an argument of size %s",
                 SHMT_SHAPE_TEXT(given[k]), SHMT_SHAPE_TEXT(like[k + 1]));
  }
  SHMT_TRY(shmt__tensor_vec_alloc(3, &made));
  for (int k = 0; k < 3; k++) SHMT_TRY(make_grad(like[k], output_mask.data[k] != 0, &made.data[k]));
  if (!shmt__tensor_is_meta(input) && !shmt__tensor_is_meta(grid) && grad_output->numel > 0) {
    shmt_tensor* tensors[8];
    memcpy(tensors, made.data, 3 * sizeof *tensors);
    memcpy(tensors + 3, given, sizeof given);
    run_sample_loop(SHMT_LOOP_grid_sample_double_backward, tensors, "..+.+..+", input->dtype, input->sizes[0], &s);
  }
  for (int k = 0; k < 3; k++) *outs[k] = SHMT_TAKE(made.data[k]);
  return SHMT_OK;
}
