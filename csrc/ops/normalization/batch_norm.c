/* ops/normalization/batch_norm.c -- native_batch_norm and its backward; the algorithm that works plane by plane. */
#include "ops/normalization/batch_norm.h"

#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/normalization/normalization.h"

#include <inttypes.h>
#include <string.h>

typedef shmt__batch_norm_args channels;

/* Channels that are taken at once where they are neighbours in memory, so that one cache line serves all of them. */
enum { GROUP = 16 };

/* Planes of x (and of grad) in parts that are contiguous: the memory itself, or packed copies. */
typedef struct planes {
  const channels* c;
  shmt__part_chunks cut;
  bool as_is; /* the planes are dense: no copies */
  int64_t group; /* channels taken at once, at most */
  char* data[2]; /* the part of the first channel; those of the others follow */
  int64_t begin, n; /* the part is elements [begin, begin + n) of the plane */
  _Alignas(64) char room[2][SHMT_PACK_BYTES];
} planes;

static void find_plane(const shmt__part* all, int64_t i, int64_t channel, shmt__part* plane) {
  shmt__part_inner(all, 2, plane);
  plane->data += i * all->strides[0] + channel * all->strides[1];
}

static void begin_planes(planes* p, const channels* c, bool with_grad) {
  shmt__part x, grad;

  find_plane(&c->x, 0, 0, &x);
  if (with_grad) find_plane(&c->grad, 0, 0, &grad);
  p->c = c;
  p->as_is = shmt__part_is_dense(&x) && (!with_grad || shmt__part_is_dense(&grad));
  p->group = !p->as_is && (c->x.strides[1] == x.item || (with_grad && c->grad.strides[1] == x.item)) ? GROUP : 1;
  shmt__part_chunks_init(&p->cut, &x, p->as_is ? INT64_MAX : SHMT_PACK_BYTES / p->group);
}

/* Makes part `index` of n channels' planes in sample i contiguous. x or grad may be NULL. */
static void take_planes(planes* p, const shmt__part* x, const shmt__part* grad, int64_t i, int64_t channel, int64_t n,
                        int64_t index) {
  const shmt__part* const all[2] = {x, grad};

  for (int k = 0; k < 2; k++) {
    shmt__part plane, part, each;
    p->data[k] = NULL;
    if (!all[k]) continue;
    if (p->as_is) {
      p->data[k] = all[k]->data + i * all[k]->strides[0] + channel * all[k]->strides[1];
      p->begin = 0;
      p->n = p->c->plane;
      continue;
    }
    find_plane(all[k], i, channel, &plane);
    p->begin = shmt__part_chunk(&p->cut, &plane, index, &part);
    p->n = shmt__part_numel(&part);
    each.data = part.data; /* field by field, because the struct has kilobytes */
    each.item = part.item;
    each.n_dims = part.n_dims + 1;
    each.sizes[0] = n;
    each.strides[0] = all[k]->strides[1];
    memcpy(each.sizes + 1, part.sizes, (size_t)part.n_dims * sizeof *part.sizes);
    memcpy(each.strides + 1, part.strides, (size_t)part.n_dims * sizeof *part.strides);
    p->data[k] = shmt__packed(&each, p->room[k]);
  }
}

/* Runs a loop that sums, over all planes of n channels. */
static void sum_over(planes* p, int row, const shmt__part* x, const shmt__part* grad, int64_t channel, int64_t n,
                     const double* means, double* sums) {
  for (int64_t g = 0; g < n; g++) sums[g] = 0;
  for (int64_t i = 0; i < p->c->n; i++)
    for (int64_t part = 0; part < p->cut.n; part++) {
      take_planes(p, x, grad, i, channel, n, part);
      for (int64_t g = 0, at = 0; g < n; g++, at += p->n * p->c->x.item) {
        const shmt__norm_args shape = {.mean = means ? means[g] : 0};
        char* data[3] = {(char*)&sums[g], p->data[0] + at, p->data[1] ? p->data[1] + at : NULL};
        shmt__loops[row][p->c->dtype](data, NULL, p->n, &shape);
      }
    }
}

/* Runs a loop from the elements of x (and of grad) to those of out, for n channels. */
static void run_over(planes* p, int row, const shmt__part* x, const shmt__part* grad, int64_t channel, int64_t n,
                     const shmt__norm_args* shapes) {
  const channels* c = p->c;
  const int64_t item = c->x.item, step = c->plane * item;

  for (int64_t i = 0; i < c->n; i++) {
    char* const out = (char*)shmt__tensor_data(c->out) + (i * c->n_channels + channel) * step;
    for (int64_t part = 0; part < p->cut.n; part++) {
      take_planes(p, x, grad, i, channel, n, part);
      for (int64_t g = 0, at = 0; g < n; g++, at += p->n * item) {
        char* data[3] = {out + g * step + p->begin * item, p->data[0] + at, grad ? p->data[1] + at : NULL};
        shmt__loops[row][c->dtype](data, NULL, p->n, &shapes[g]);
      }
    }
  }
}

static void forward_channels(void* ctx, int64_t begin, int64_t end) {
  const channels* c = ctx;
  const double count = (double)(c->n * c->plane);
  planes p;

  begin_planes(&p, c, false);
  for (int64_t k = begin, n; k < end; k += n) {
    double means[GROUP] = {0}, squares[GROUP] = {0};
    shmt__norm_args shapes[GROUP];
    n = end - k < p.group ? end - k : p.group;
    if (c->training) {
      sum_over(&p, SHMT_LOOP_run_sum, &c->x, NULL, k, n, NULL, means);
      for (int64_t g = 0; g < n; g++) means[g] /= count;
      sum_over(&p, SHMT_LOOP_run_square, &c->x, NULL, k, n, means, squares);
    }
    for (int64_t g = 0; g < n; g++) shapes[g] = shmt__batch_norm_finish_statistics(c, k + g, means[g], squares[g]);
    run_over(&p, SHMT_LOOP_run_affine, &c->x, NULL, k, n, shapes);
  }
}

static void backward_channels(void* ctx, int64_t begin, int64_t end) {
  const channels* c = ctx;
  planes p;

  begin_planes(&p, c, true);
  for (int64_t k = begin, n; k < end; k += n) {
    double means[GROUP], sums[GROUP], products[GROUP];
    shmt__norm_args shapes[GROUP];
    n = end - k < p.group ? end - k : p.group;
    for (int64_t g = 0; g < n; g++) means[g] = shmt__batch_norm_mean(c, k + g);
    sum_over(&p, SHMT_LOOP_run_sum, &c->grad, NULL, k, n, NULL, sums);
    sum_over(&p, SHMT_LOOP_run_product, &c->x, &c->grad, k, n, means, products);
    for (int64_t g = 0; g < n; g++) shapes[g] = shmt__batch_norm_finish_gradients(c, k + g, sums[g], products[g]);
    if (!c->out) continue;
    if (c->training)
      run_over(&p, SHMT_LOOP_run_backward, &c->x, &c->grad, k, n, shapes);
    else /* the statistics are constants, so the gradient does not depend on the input, which may be NaN */
      run_over(&p, SHMT_LOOP_run_affine, &c->grad, NULL, k, n, shapes);
  }
}

static shmt_status check_channel(const char* what, const shmt_tensor* t, int64_t n_channels) {
  SHMT_REQUIRE(!t || t->numel == n_channels, SHMT_E_RUNTIME, "%s should contain %" PRId64 " elements not %" PRId64,
               what, n_channels, t ? t->numel : 0);
  return SHMT_OK;
}

static shmt_status check_vector(const char* what, const shmt_tensor* t) {
  SHMT_REQUIRE(!t || t->n_dims == 1, SHMT_E_RUNTIME, "%s should have 1 dimension, but has %d", what, t ? t->n_dims : 0);
  return SHMT_OK;
}

/* The extent of (n, n_channels, plane). In channels-last memory every position counts as a sample. */
static void find_channels(const shmt_tensor* input, shmt_memory_format format, channels* c) {
  c->n = input->sizes[0];
  c->n_channels = input->sizes[1];
  c->plane = 1;
  c->n_dims = format == SHMT_CONTIGUOUS_FORMAT ? 1 : input->n_dims - 1;
  for (int d = 2; d < input->n_dims; d++) *(format == SHMT_CONTIGUOUS_FORMAT ? &c->plane : &c->n) *= input->sizes[d];
}

/* How many channels a task has. With the algorithm of columns: one task for each thread, and no two write to one cache
 * line. With too few channels for that, there is one task, whose rows the column loop divides among the threads. */
static int64_t grain_of(const channels* c) {
  enum { WORK = 16384, CHANNELS_AT_ONCE = 32 };
  const int64_t least = WORK / (c->n * c->plane + 1) + 1, threads = shmt__num_threads();
  const int64_t share =
      ((c->n_channels + threads - 1) / threads + CHANNELS_AT_ONCE - 1) / CHANNELS_AT_ONCE * CHANNELS_AT_ONCE;

  if (!shmt__batch_norm_has_columns(c)) return least;
  if (c->n_channels < threads * CHANNELS_AT_ONCE) return c->n_channels;
  return share > least ? share : least;
}

shmt_status shmt__native_batch_norm(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,
                                    shmt_tensor* running_mean, shmt_tensor* running_var, bool training, double momentum,
                                    double eps, shmt_tensor** out, shmt_tensor** save_mean,
                                    shmt_tensor** save_invstd) {
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) rm = NULL;
  SHMT_AUTO(shmt_tensor) rv = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) means = NULL;
  SHMT_AUTO(shmt_tensor) scales = NULL;
  channels c = {.training = training, .eps = eps, .momentum = momentum};
  const shmt_tensor* const parameters[] = {weight, bias, running_mean, running_var};

  SHMT_REQUIRE(input->n_dims >= 2, SHMT_E_RUNTIME, "batch_norm(): expected at least 2 dimensions, got %d",
               input->n_dims);
  SHMT_REQUIRE_LOOP(SHMT_LOOP_run_affine, input->dtype, "batch_norm");
  SHMT_TRY(shmt__check_norm_dtypes(input, parameters, 4));
  const shmt_memory_format format = shmt__tensor_suggest_format(input);
  find_channels(input, format, &c);
  SHMT_TRY(check_channel("running_mean", running_mean, c.n_channels));
  SHMT_TRY(check_channel("running_var", running_var, c.n_channels));
  SHMT_TRY(check_channel("weight", weight, c.n_channels));
  SHMT_TRY(check_channel("bias", bias, c.n_channels));
  SHMT_REQUIRE(training || (running_mean && running_var), SHMT_E_RUNTIME,
               "running_mean and running_var must be defined in evaluation mode");
  SHMT_REQUIRE(!running_mean == !running_var, SHMT_E_VALUE,
               "running_mean and running_var must either both be None or neither be None");
  if (training) SHMT_TRY(check_vector("running_mean", running_mean));
  if (training) SHMT_TRY(check_vector("running_var", running_var));
  SHMT_REQUIRE(!training || input->numel > 0, SHMT_E_RUNTIME,
               "input tensor must have at least one element, but got input_sizes = %s", SHMT_SHAPE_TEXT(input));
  if (training) SHMT_TRY(shmt__check_writable("batch_norm", running_mean));
  if (training) SHMT_TRY(shmt__check_writable("batch_norm", running_var));
  const shmt_dtype stat = weight ? weight->dtype : input->dtype;
  const shmt_ints stat_sizes = SHMT_INTS(training ? c.n_channels : 0);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(input), input->dtype, input->device, format, &result));
  SHMT_TRY(shmt__tensor_empty(stat_sizes, stat, input->device, SHMT_CONTIGUOUS_FORMAT, &means));
  SHMT_TRY(shmt__tensor_empty(stat_sizes, stat, input->device, SHMT_CONTIGUOUS_FORMAT, &scales));
  if (!shmt__tensor_is_meta(input) && input->numel > 0) {
    if (weight) SHMT_TRY(shmt__norm_dense(weight, weight->dtype, &w));
    if (bias) SHMT_TRY(shmt__norm_dense(bias, bias->dtype, &b));
    if (running_mean) SHMT_TRY(shmt__norm_dense(running_mean, running_mean->dtype, &rm));
    if (running_var) SHMT_TRY(shmt__norm_dense(running_var, running_var->dtype, &rv));
    shmt__part_init(&c.x, input, format);
    c.dtype = input->dtype;
    c.out = result;
    c.weight = w;
    c.bias = b;
    c.mean = means;
    c.scale = scales;
    c.running_mean = rm;
    c.running_var = rv;
    shmt__parallel_for(c.n_channels, grain_of(&c),
                       shmt__batch_norm_has_columns(&c) ? shmt__batch_norm_columns : forward_channels, &c);
    /* As in torch, the versions of the running statistics do not change: the node that saves them does not read them
     * when it was made in training. */
    if (training && running_mean && rm != running_mean) SHMT_TRY(shmt__tensor_copy(running_mean, rm));
    if (training && running_var && rv != running_var) SHMT_TRY(shmt__tensor_copy(running_var, rv));
  }
  *out = SHMT_TAKE(result);
  *save_mean = SHMT_TAKE(means);
  *save_invstd = SHMT_TAKE(scales);
  return SHMT_OK;
}

shmt_status shmt__native_batch_norm_backward(shmt_tensor* grad_out, shmt_tensor* input, shmt_tensor* weight,
                                             shmt_tensor* running_mean, shmt_tensor* running_var,
                                             shmt_tensor* save_mean, shmt_tensor* save_invstd, bool train, double eps,
                                             shmt_ints output_mask, shmt_tensor** grad_input,
                                             shmt_tensor** grad_weight, shmt_tensor** grad_bias) {
  SHMT_AUTO(shmt_tensor) g = NULL;
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) rm = NULL;
  SHMT_AUTO(shmt_tensor) rv = NULL;
  SHMT_AUTO(shmt_tensor) means = NULL;
  SHMT_AUTO(shmt_tensor) scales = NULL;
  SHMT_AUTO(shmt_tensor) for_input = NULL;
  SHMT_AUTO(shmt_tensor) for_weight = NULL;
  SHMT_AUTO(shmt_tensor) for_bias = NULL;
  channels c = {.training = train, .eps = eps};

  SHMT_REQUIRE(output_mask.len == 3, SHMT_E_RUNTIME, "native_batch_norm_backward(): expected 3 values of output_mask");
  SHMT_REQUIRE(input->n_dims >= 2 && shmt__sizes_are(grad_out, shmt__tensor_sizes(input)), SHMT_E_RUNTIME,
               "native_batch_norm_backward(): a gradient of size %s does not fit an input of size %s",
               SHMT_SHAPE_TEXT(grad_out), SHMT_SHAPE_TEXT(input));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_run_backward, input->dtype, "batch_norm_backward");
  const shmt_memory_format format = shmt__tensor_suggest_format(input);
  find_channels(input, format, &c);
  SHMT_TRY(check_channel("running_mean", running_mean, c.n_channels));
  SHMT_TRY(check_channel("running_var", running_var, c.n_channels));
  SHMT_TRY(check_channel("weight", weight, c.n_channels));
  if (train) SHMT_TRY(check_channel("save_mean", save_mean, c.n_channels));
  if (train) SHMT_TRY(check_channel("save_invstd", save_invstd, c.n_channels));
  SHMT_REQUIRE(train || (running_mean && running_var), SHMT_E_RUNTIME,
               "running_mean and running_var must be defined in evaluation mode");
  const shmt_dtype stat = weight ? weight->dtype : input->dtype;
  const shmt_ints per_channel = SHMT_INTS(c.n_channels);
  if (output_mask.data[0])
    SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(input), input->dtype, input->device, format, &for_input));
  if (output_mask.data[1])
    SHMT_TRY(shmt__tensor_empty(per_channel, stat, input->device, SHMT_CONTIGUOUS_FORMAT, &for_weight));
  if (output_mask.data[2])
    SHMT_TRY(shmt__tensor_empty(per_channel, stat, input->device, SHMT_CONTIGUOUS_FORMAT, &for_bias));
  if (!shmt__tensor_is_meta(input)) {
    SHMT_TRY(shmt__tensor_cast(grad_out, input->dtype, &g));
    if (weight) SHMT_TRY(shmt__norm_dense(weight, weight->dtype, &w));
    if (running_mean) SHMT_TRY(shmt__norm_dense(running_mean, running_mean->dtype, &rm));
    if (running_var) SHMT_TRY(shmt__norm_dense(running_var, running_var->dtype, &rv));
    SHMT_TRY(shmt__norm_dense(save_mean, save_mean->dtype, &means));
    SHMT_TRY(shmt__norm_dense(save_invstd, save_invstd->dtype, &scales));
    shmt__part_init(&c.x, input, format);
    shmt__part_init(&c.grad, g, format);
    c.dtype = input->dtype;
    c.weight = w;
    c.mean = means;
    c.scale = scales;
    c.running_mean = rm;
    c.running_var = rv;
    c.out = for_input;
    c.to_weight = for_weight;
    c.to_bias = for_bias;
    shmt__parallel_for(c.n_channels, grain_of(&c),
                       shmt__batch_norm_has_columns(&c) ? shmt__batch_norm_columns_backward : backward_channels, &c);
  }
  *grad_input = SHMT_TAKE(for_input);
  *grad_weight = SHMT_TAKE(for_weight);
  *grad_bias = SHMT_TAKE(for_bias);
  return SHMT_OK;
}
