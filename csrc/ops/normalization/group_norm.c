/* ops/normalization/group_norm.c -- native_group_norm and its backward.
 *
 * The input is seen as (n, group, per_group, plane): statistics belong to the first two dims, weight and bias to the
 * two in the middle. For channels-last input, the forward runs column loops; the backward, and a forward with large
 * groups, gather one group at a time to contiguous memory and scatter the result.
 */
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "iter/copy/move.h"
#include "ops/normalization/columns.h"
#include "ops/normalization/normalization.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <stdatomic.h>

enum { GRAIN_ELEMENTS = 16384, COLUMNS = SHMT_MAX_COLUMNS };

/* All tensors are dense; x, grad and out are channels-last in the functions that gather or run columns. sums is
 * float64, (2, n, channels): for each plane, the sum of grad, and that of grad * (x - mean). */
typedef struct groups {
  shmt_tensor *x, *grad, *out, *weight, *bias, *mean, *rstd, *sums;
  int64_t n, n_groups, per_group, plane;
  double eps;
  atomic_bool failed; /* out of memory */
} groups;

static int64_t channels_of(const groups* g) { return g->n_groups * g->per_group; }

static char* plane_of(const groups* g, shmt_tensor* t, int64_t i) {
  return shmt__norm_data(t) + i * g->plane * shmt__tensor_item_bytes(t);
}

static double* sums_of(const groups* g, int which) {
  return (double*)shmt__tensor_data(g->sums) + which * g->n * channels_of(g);
}

/* Can the loop over rows apply the weight and bias of a group? They are missing, or have one value for each element and
 * the input's dtype. */
static bool is_row(const groups* g) {
  const bool same_dtype =
      (!g->weight || g->weight->dtype == g->x->dtype) && (!g->bias || g->bias->dtype == g->x->dtype);

  return (!g->weight && !g->bias) || (g->plane == 1 && same_dtype);
}

/* Normalises group k as one row, from x to out. */
static void forward_row(const groups* g, int64_t k, double mean, double scale, char* x, char* out) {
  const shmt__norm_args shape = {.mean = mean, .scale = scale};
  const int64_t first = k % g->n_groups * g->per_group * shmt__tensor_item_bytes(g->x);
  char* data[4] = {out, x, g->weight ? shmt__norm_data(g->weight) + first : NULL,
                   g->bias ? shmt__norm_data(g->bias) + first : NULL};

  shmt__loops[SHMT_LOOP_row_norm][g->x->dtype](data, NULL, g->per_group * g->plane, &shape);
}

/* Normalises group k, which is contiguous at x, to out. */
static void forward_group(const groups* g, int64_t k, char* x, char* out) {
  const shmt_dtype dtype = g->x->dtype;
  const int64_t nbytes = g->plane * shmt__tensor_item_bytes(g->x);
  double mean, scale;

  shmt__norm_moments(dtype, x, g->per_group * g->plane, g->eps, false, &mean, &scale);
  shmt__norm_store(g->mean, k, mean);
  shmt__norm_store(g->rstd, k, scale);
  if (is_row(g)) {
    forward_row(g, k, mean, scale, x, out);
    return;
  }
  for (int64_t i = 0; i < g->per_group; i++) {
    const int64_t channel = k % g->n_groups * g->per_group + i;
    shmt__norm_args shape = {.scale = scale * shmt__norm_load(g->weight, channel, 1)};
    shape.shift = shmt__norm_load(g->bias, channel, 0) - mean * shape.scale;
    char* data[2] = {out + i * nbytes, x + i * nbytes};
    shmt__loops[SHMT_LOOP_run_affine][dtype](data, NULL, g->plane, &shape);
  }
}

/* Do groups have few elements, with the same weight and bias for all of them? Then the loop of short rows applies. */
static bool are_short_rows(const groups* g) {
  return g->per_group * g->plane <= SHMT_SHORT_ROW && (g->n_groups == 1 || (!g->weight && !g->bias)) && is_row(g);
}

static void forward_groups(void* ctx, int64_t begin, int64_t end) {
  const groups* g = ctx;

  if (are_short_rows(g)) {
    shmt__norm_short_rows(&(shmt__norm_rows){.x = g->x, .out = g->out, .weight = g->weight, .bias = g->bias,
                                             .mean = g->mean, .rstd = g->rstd, .length = g->per_group * g->plane,
                                             .eps = g->eps}, begin, end);
    return;
  }
  for (int64_t k = begin; k < end; k++)
    forward_group(g, k, plane_of(g, g->x, k * g->per_group), plane_of(g, g->out, k * g->per_group));
}

/* Copies a group from a channels-last image to a contiguous block, or back. */
static void move_group(const groups* g, char* block, char* image, bool to_block) {
  const int64_t item = shmt__tensor_item_bytes(g->x), pixel = channels_of(g) * item, row = g->plane * item;

  if (to_block)
    shmt__move_transposed(block, row, image, pixel, g->per_group, g->plane, item);
  else
    shmt__move_transposed(image, pixel, block, row, g->plane, g->per_group, item);
}

/* The first element of group k of a channels-last tensor. */
static char* group_of(const groups* g, shmt_tensor* t, int64_t k) {
  const int64_t at = k / g->n_groups * channels_of(g) * g->plane + k % g->n_groups * g->per_group;

  return shmt__norm_data(t) + at * shmt__tensor_item_bytes(t);
}

static void forward_gathered(void* ctx, int64_t begin, int64_t end) {
  groups* g = ctx;
  const int64_t item = shmt__tensor_item_bytes(g->x);
  const uint64_t nbytes = (uint64_t)(g->per_group * g->plane * item);
  void* block = NULL;

  if (shmt__alloc(nbytes, &block) != SHMT_OK) {
    atomic_store_explicit(&g->failed, true, memory_order_relaxed); /* read after all tasks have ended */
    return;
  }
  for (int64_t k = begin; k < end; k++) {
    move_group(g, block, group_of(g, g->x, k), true);
    forward_group(g, k, block, block);
    move_group(g, block, group_of(g, g->out, k), false);
  }
  shmt__dealloc(block, nbytes);
}

/* For each of n groups, the sum of its columns' values. */
static void sum_groups(const groups* g, int64_t n, const double* columns, double* totals) {
  for (int64_t i = 0; i < n; i++) {
    totals[i] = 0;
    for (int64_t c = 0; c < g->per_group; c++) totals[i] += columns[i * g->per_group + c];
  }
}

/* Runs a column loop over n columns of an image. When out is NULL, the loop adds to sums. */
static void run_columns(const groups* g, int loop, int64_t n, double* sums, char* out, char* x, double* first,
                        double* second) {
  const int64_t pixel = channels_of(g) * shmt__tensor_item_bytes(g->x);
  shmt__column_loop l = {.loop = loop, .dtype = g->x->dtype, .is_sum = !out, .n = n, .rows = g->plane,
                     .n_matrices = out ? 1 : 2, .n_params = out ? 2 : 1,
                     .data = {out ? out : (char*)sums, x}, .strides = {pixel, pixel}};

  l.data[l.n_matrices + 1] = (char*)first;
  if (second) l.data[l.n_matrices + 2] = (char*)second;
  shmt__column_loop_run(&l);
}

/* Normalises n groups, from k on, of one channels-last image. They have at most COLUMNS channels. */
static void forward_columns(const groups* g, int64_t k, int64_t n) {
  const int64_t many = n * g->per_group, channel = k % g->n_groups * g->per_group;
  const double count = (double)(g->per_group * g->plane);
  double columns[COLUMNS] = {0}, totals[COLUMNS], means[COLUMNS], scales[COLUMNS], shifts[COLUMNS];
  char *const x = group_of(g, g->x, k), *const out = group_of(g, g->out, k);

  run_columns(g, SHMT_LOOP_columns_sum, many, columns, NULL, x, NULL, NULL);
  sum_groups(g, n, columns, totals);
  for (int64_t c = 0; c < many; c++) {
    means[c] = totals[c / g->per_group] / count;
    columns[c] = 0;
  }
  run_columns(g, SHMT_LOOP_columns_square, many, columns, NULL, x, means, NULL);
  sum_groups(g, n, columns, totals);
  for (int64_t i = 0; i < n; i++) {
    totals[i] = 1 / sqrt(totals[i] / count + g->eps);
    shmt__norm_store(g->mean, k + i, means[i * g->per_group]);
    shmt__norm_store(g->rstd, k + i, totals[i]);
  }
  for (int64_t c = 0; c < many; c++) {
    scales[c] = totals[c / g->per_group] * shmt__norm_load(g->weight, channel + c, 1);
    shifts[c] = shmt__norm_load(g->bias, channel + c, 0) - means[c] * scales[c];
  }
  run_columns(g, SHMT_LOOP_columns_affine, many, NULL, out, x, scales, shifts);
}

static void forward_channels_last(void* ctx, int64_t begin, int64_t end) {
  const groups* g = ctx;
  const int64_t most = COLUMNS / g->per_group;

  for (int64_t k = begin, n; k < end; k += n) {
    const int64_t left = g->n_groups - k % g->n_groups; /* of the image */
    n = end - k < left ? end - k : left;
    if (n > most) n = most;
    forward_columns(g, k, n);
  }
}

/* The gradient of group k, which is contiguous at x and grad, to out, which may be x. When out is NULL, computes only
 * the sums. */
static void backward_group(const groups* g, int64_t k, char* x, char* grad, char* out) {
  const shmt_dtype dtype = g->x->dtype;
  const int64_t nbytes = g->plane * shmt__tensor_item_bytes(g->x);
  const double count = (double)(g->per_group * g->plane);
  const double mean = shmt__norm_load(g->mean, k, 0), scale = shmt__norm_load(g->rstd, k, 1);
  double sum = 0, product = 0;

  for (int64_t i = 0; i < g->per_group; i++) {
    const int64_t at = k * g->per_group + i;
    const double weight = shmt__norm_load(g->weight, k % g->n_groups * g->per_group + i, 1);
    const shmt__norm_args shape = {.mean = mean};
    double* one = sums_of(g, 0) + at;
    double* with_x = sums_of(g, 1) + at;
    *one = *with_x = 0;
    char* data[3] = {(char*)one, grad + i * nbytes, NULL};
    shmt__loops[SHMT_LOOP_run_sum][dtype](data, NULL, g->plane, &shape);
    char* pair[3] = {(char*)with_x, x + i * nbytes, grad + i * nbytes};
    shmt__loops[SHMT_LOOP_run_product][dtype](pair, NULL, g->plane, &shape);
    sum += weight * *one;
    product += weight * *with_x;
  }
  for (int64_t i = 0; out && i < g->per_group; i++) {
    const double weight = shmt__norm_load(g->weight, k % g->n_groups * g->per_group + i, 1);
    const shmt__norm_args shape = {.mean = mean,
                                    .scale = scale,
                                    .weight = weight,
                                    .shift = -sum / count,
                                    .slope = -product * scale * scale / count};
    char* data[3] = {out + i * nbytes, x + i * nbytes, grad + i * nbytes};
    shmt__loops[SHMT_LOOP_run_backward][dtype](data, NULL, g->plane, &shape);
  }
}

static void backward_groups(void* ctx, int64_t begin, int64_t end) {
  const groups* g = ctx;

  for (int64_t k = begin; k < end; k++) {
    const int64_t at = k * g->per_group;
    backward_group(g, k, plane_of(g, g->x, at), plane_of(g, g->grad, at), g->out ? plane_of(g, g->out, at) : NULL);
  }
}

static void backward_gathered(void* ctx, int64_t begin, int64_t end) {
  groups* g = ctx;
  const int64_t block = g->per_group * g->plane * shmt__tensor_item_bytes(g->x);
  void* x = NULL;

  if (shmt__alloc((uint64_t)(2 * block), &x) != SHMT_OK) {
    atomic_store_explicit(&g->failed, true, memory_order_relaxed); /* read after all tasks have ended */
    return;
  }
  char* const grad = (char*)x + block;
  for (int64_t k = begin; k < end; k++) {
    move_group(g, x, group_of(g, g->x, k), true);
    move_group(g, grad, group_of(g, g->grad, k), true);
    backward_group(g, k, x, grad, g->out ? x : NULL);
    if (g->out) move_group(g, x, group_of(g, g->out, k), false);
  }
  shmt__dealloc(x, (uint64_t)(2 * block));
}

static shmt_status check_group_norm(const shmt_tensor* input, const shmt_tensor* weight, const shmt_tensor* bias,
                                    int64_t n, int64_t channels, int64_t plane, int64_t group, groups* g) {
  int64_t planes, numel;

  SHMT_REQUIRE(group > 0, SHMT_E_RUNTIME, "Expected num groups to be greater than 0, got %" PRId64, group);
  SHMT_REQUIRE(channels >= 0 && channels % group == 0, SHMT_E_RUNTIME,
               "Expected number of channels in input to be divisible by num_groups, but got input of shape %s and "
               "num_groups=%" PRId64, SHMT_SHAPE_TEXT(input), group);
  SHMT_REQUIRE(!weight || (weight->n_dims == 1 && weight->numel == channels), SHMT_E_RUNTIME,
               "Expected weight to be a vector of size equal to the number of channels in input, but got weight of "
               "shape %s and input of shape %s", weight ? SHMT_SHAPE_TEXT(weight) : "", SHMT_SHAPE_TEXT(input));
  SHMT_REQUIRE(!bias || (bias->n_dims == 1 && bias->numel == channels), SHMT_E_RUNTIME,
               "Expected bias to be a vector of size equal to the number of channels in input, but got bias of shape "
               "%s and input of shape %s", bias ? SHMT_SHAPE_TEXT(bias) : "", SHMT_SHAPE_TEXT(input));
  SHMT_REQUIRE(n >= 0 && plane >= 0 && !__builtin_mul_overflow(n, channels, &planes) &&
                   !__builtin_mul_overflow(planes, plane, &numel) && numel == input->numel,
               SHMT_E_RUNTIME, "native_group_norm(): N = %" PRId64 ", C = %" PRId64 " and HxW = %" PRId64
               " do not fit input of shape %s", n, channels, plane, SHMT_SHAPE_TEXT(input));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_run_affine, input->dtype, "GroupNormKernelImpl");
  g->n = n;
  g->n_groups = group;
  g->per_group = channels / group;
  g->plane = plane;
  return SHMT_OK;
}

static int64_t grain_of(const groups* g) { return GRAIN_ELEMENTS / (g->per_group * g->plane + 1) + 1; }

/* Groups in a task of the column algorithm: those of whole images, when there are enough images for all threads.
 * Otherwise there is one task, whose rows the column loop divides among the threads. */
static int64_t grain_of_columns(const groups* g) {
  const int64_t threads = shmt__num_threads(), images = (g->n + threads - 1) / threads;

  return (g->n % threads == 0 || images > 8 ? images : g->n) * g->n_groups;
}

static shmt_status check_memory(const groups* g) {
  SHMT_REQUIRE(!atomic_load_explicit(&g->failed, memory_order_relaxed), SHMT_E_NOMEM,
               "native_group_norm(): a group of %" PRId64 " elements", g->per_group * g->plane);
  return SHMT_OK;
}

shmt_status shmt__native_group_norm(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias, int64_t n,
                                    int64_t channels, int64_t plane, int64_t group, double eps, shmt_tensor** out,
                                    shmt_tensor** mean, shmt_tensor** rstd) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) means = NULL;
  SHMT_AUTO(shmt_tensor) scales = NULL;
  groups g = {.eps = eps};
  const shmt_tensor* const parameters[] = {weight, bias};

  SHMT_TRY(check_group_norm(input, weight, bias, n, channels, plane, group, &g));
  SHMT_TRY(shmt__check_norm_dtypes(input, parameters, 2));
  const shmt_dtype stat = weight ? weight->dtype : input->dtype;
  const shmt_memory_format format = shmt__tensor_suggest_format(input);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(input), input->dtype, input->device, format, &result));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n, group), stat, input->device, SHMT_CONTIGUOUS_FORMAT, &means));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n, group), stat, input->device, SHMT_CONTIGUOUS_FORMAT, &scales));
  if (!shmt__tensor_is_meta(input) && means->numel > 0) {
    SHMT_TRY(shmt__tensor_contiguous(input, format, &x));
    if (weight) SHMT_TRY(shmt__norm_dense(weight, weight->dtype, &w));
    if (bias) SHMT_TRY(shmt__norm_dense(bias, bias->dtype, &b));
    g.x = x;
    g.out = result;
    g.weight = w;
    g.bias = b;
    g.mean = means;
    g.rstd = scales;
    void (*const run)(void*, int64_t, int64_t) = format == SHMT_CONTIGUOUS_FORMAT       ? forward_groups
                                                 : plane == 1 || g.per_group > COLUMNS ? forward_gathered
                                                                                       : forward_channels_last;
    shmt__parallel_for(n * group, run == forward_channels_last ? grain_of_columns(&g) : grain_of(&g), run, &g);
    SHMT_TRY(check_memory(&g));
  }
  *out = SHMT_TAKE(result);
  *mean = SHMT_TAKE(means);
  *rstd = SHMT_TAKE(scales);
  return SHMT_OK;
}

/* The gradient of the bias (which == 0) or of the weight: sums over the batch of grad, or of grad * (x - mean) *
 * rstd. */
static void channel_sums(const groups* g, int which, shmt_tensor* to) {
  const double* sums = sums_of(g, which);

  for (int64_t c = 0; c < channels_of(g); c++) {
    double total = 0;
    for (int64_t i = 0; i < g->n; i++)
      total += sums[i * channels_of(g) + c] *
               (which ? shmt__norm_load(g->rstd, i * g->n_groups + c / g->per_group, 1) : 1);
    shmt__norm_store(to, c, total);
  }
}

shmt_status shmt__native_group_norm_backward(shmt_tensor* grad_out, shmt_tensor* input, shmt_tensor* mean,
                                             shmt_tensor* rstd, shmt_tensor* weight, int64_t n, int64_t channels,
                                             int64_t plane, int64_t group, shmt_ints output_mask,
                                             shmt_tensor** grad_input, shmt_tensor** grad_weight,
                                             shmt_tensor** grad_bias) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) cast = NULL;
  SHMT_AUTO(shmt_tensor) grad = NULL;
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) means = NULL;
  SHMT_AUTO(shmt_tensor) scales = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;
  SHMT_AUTO(shmt_tensor) for_input = NULL;
  SHMT_AUTO(shmt_tensor) for_weight = NULL;
  SHMT_AUTO(shmt_tensor) for_bias = NULL;
  groups g = {0};

  SHMT_REQUIRE(output_mask.len == 3, SHMT_E_RUNTIME, "native_group_norm_backward(): expected 3 values of output_mask");
  SHMT_TRY(check_group_norm(input, weight, NULL, n, channels, plane, group, &g));
  SHMT_REQUIRE(grad_out->numel == input->numel && mean->numel == n * group && rstd->numel == n * group, SHMT_E_RUNTIME,
               "native_group_norm_backward(): grad_out has shape %s, input %s, mean %s and rstd %s",
               SHMT_SHAPE_TEXT(grad_out), SHMT_SHAPE_TEXT(input), SHMT_SHAPE_TEXT(mean), SHMT_SHAPE_TEXT(rstd));
  const shmt_dtype stat = weight ? weight->dtype : input->dtype;
  const bool alike = shmt__sizes_are(grad_out, shmt__tensor_sizes(input));
  const shmt_memory_format format = alike ? shmt__tensor_suggest_format(input) : SHMT_CONTIGUOUS_FORMAT;
  if (output_mask.data[0])
    SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(input), input->dtype, input->device, format, &for_input));
  if (output_mask.data[1])
    SHMT_TRY(shmt__tensor_empty(SHMT_INTS(channels), stat, input->device, SHMT_CONTIGUOUS_FORMAT, &for_weight));
  if (output_mask.data[2])
    SHMT_TRY(shmt__tensor_empty(SHMT_INTS(channels), stat, input->device, SHMT_CONTIGUOUS_FORMAT, &for_bias));
  if (!shmt__tensor_is_meta(input)) {
    SHMT_TRY(shmt__tensor_cast(grad_out, input->dtype, &cast));
    SHMT_TRY(shmt__tensor_contiguous(cast, format, &grad));
    SHMT_TRY(shmt__tensor_contiguous(input, format, &x));
    if (weight) SHMT_TRY(shmt__norm_dense(weight, weight->dtype, &w));
    SHMT_TRY(shmt__norm_dense(mean, mean->dtype, &means));
    SHMT_TRY(shmt__norm_dense(rstd, rstd->dtype, &scales));
    SHMT_TRY(shmt__tensor_empty(SHMT_INTS(2, n, channels), SHMT_FLOAT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &sums));
    g.x = x;
    g.grad = grad;
    g.weight = w;
    g.mean = means;
    g.rstd = scales;
    g.sums = sums;
    g.out = for_input;
    shmt__parallel_for(n * group, grain_of(&g), format == SHMT_CONTIGUOUS_FORMAT ? backward_groups : backward_gathered,
                       &g);
    SHMT_TRY(check_memory(&g));
    if (for_weight) channel_sums(&g, 1, for_weight);
    if (for_bias) channel_sums(&g, 0, for_bias);
  }
  *grad_input = SHMT_TAKE(for_input);
  *grad_weight = SHMT_TAKE(for_weight);
  *grad_bias = SHMT_TAKE(for_bias);
  return SHMT_OK;
}
