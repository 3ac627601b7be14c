/* ops/normalization/double_backward.c -- double backward of layer norm, RMS norm, group norm and batch norm.
 *
 * All of them normalise x by its mean and inverse standard deviation over some dims, and then apply a weight and a bias
 * that are constant along other dims. So all share one function: x is reshaped to up to four dims, and the statistics
 * and the weight have size 1 along the dims where they do not vary.
 */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"

#include <inttypes.h>
#include <string.h>

typedef struct form {
  int n;
  int64_t sizes[4];
  bool is_stat[4];   /* the statistics are taken over this dim */
  bool is_common[4]; /* the weight is constant along this dim */
  bool train, centred;
} form;

/* The operator's tensors; some may be NULL. */
typedef struct given {
  shmt_tensor *a, *u, *v; /* gradients with respect to the gradients of input, weight and bias */
  shmt_tensor *grad, *input, *mean, *rstd, *weight;
} given;

static shmt_ints sizes_of(const form* f) { return (shmt_ints){f->sizes, f->n}; }

/* The form's sizes, with 1 where the flag is true. */
static shmt_ints sizes_without(const form* f, const bool* dropped, int64_t* to) {
  for (int d = 0; d < f->n; d++) to[d] = dropped[d] ? 1 : f->sizes[d];
  return (shmt_ints){to, f->n};
}

static shmt_ints dims_where(const form* f, const bool* flags, int64_t* to) {
  int64_t n = 0;

  for (int d = 0; d < f->n; d++)
    if (flags[d]) to[n++] = d;
  return (shmt_ints){to, n};
}

/* t reshaped to sizes, or a tensor filled with `missing` when t is NULL. */
static shmt_status part(shmt_tensor* t, shmt_ints sizes, const shmt_tensor* like, int64_t missing, shmt_tensor** out) {
  if (t) return shmt_op_reshape(t, sizes, out);
  return shmt_op_full(sizes, shmt__scalar_int(missing), like->dtype, SHMT_LAYOUT_NONE, like->device, (shmt_opt_bool){0},
                      out);
}

static shmt_status second(const form* f, const given* g, shmt_tensor** for_grad, shmt_tensor** for_input,
                          shmt_tensor** for_weight) {
  int64_t stat_sizes[4], weight_sizes[4], stat_dims[4], common_dims[4];
  const shmt_ints stats = sizes_without(f, f->is_stat, stat_sizes);
  const shmt_ints shared = sizes_without(f, f->is_common, weight_sizes);
  const shmt_ints dims = dims_where(f, f->is_stat, stat_dims), others = dims_where(f, f->is_common, common_dims);
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) grad = NULL;
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) u = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) mean = NULL;
  SHMT_AUTO(shmt_tensor) rstd = NULL;
  SHMT_AUTO(shmt_tensor) centred = NULL;
  SHMT_AUTO(shmt_tensor) unit = NULL;
  SHMT_AUTO(shmt_tensor) to_grad = NULL;
  SHMT_AUTO(shmt_tensor) to_input = NULL;

  SHMT_TRY(part(g->input, sizes_of(f), g->input, 0, &x));
  SHMT_TRY(part(g->grad, sizes_of(f), g->input, 0, &grad));
  SHMT_TRY(part(g->a, sizes_of(f), g->input, 0, &a));
  SHMT_TRY(part(g->u, shared, g->input, 0, &u));
  SHMT_TRY(part(g->v, shared, g->input, 0, &v));
  SHMT_TRY(part(g->weight, shared, g->input, 1, &w));
  SHMT_TRY(part(g->mean, stats, g->input, 0, &mean));
  SHMT_TRY(part(g->rstd, stats, g->input, 1, &rstd));
  SHMT_TRY(shmt_op_sub_Tensor(x, mean, shmt__scalar_int(1), &centred));
  SHMT_TRY(shmt_op_mul_Tensor(centred, rstd, &unit));
  SHMT_TRY(shmt_op__norm_double_backward_output(a, u, v, unit, rstd, w, dims, f->train, f->centred, &to_grad));
  SHMT_TRY(shmt_op__norm_double_backward_input(a, u, grad, unit, rstd, w, dims, f->train, f->centred, &to_input));
  SHMT_TRY(shmt_op_reshape(to_grad, shmt__tensor_sizes(g->grad), for_grad));
  SHMT_TRY(shmt_op_reshape(to_input, shmt__tensor_sizes(g->input), for_input));
  if (g->weight) {
    SHMT_AUTO(shmt_tensor) to_weight = NULL;
    SHMT_TRY(shmt_op__norm_double_backward_weight(a, grad, unit, rstd, dims, others, f->train, f->centred, &to_weight));
    SHMT_TRY(shmt_op_reshape(to_weight, shmt__tensor_sizes(g->weight), for_weight));
  }
  return SHMT_OK;
}

shmt_status shmt__layer_norm_double_backward(shmt_tensor* ggrad_input, shmt_tensor* ggrad_weight,
                                             shmt_tensor* ggrad_bias, shmt_tensor* grad_out, shmt_tensor* input,
                                             shmt_ints normalized_shape, shmt_tensor* mean, shmt_tensor* rstd,
                                             shmt_tensor* weight, shmt_tensor** for_grad, shmt_tensor** for_input,
                                             shmt_tensor** for_weight) {
  form f = {.n = 2, .sizes = {1, 1}, .is_stat = {false, true}, .is_common = {true, false}, .train = true};
  const given g = {ggrad_input, ggrad_weight, ggrad_bias, grad_out, input, mean, rstd, weight};

  f.centred = mean != NULL;
  for (int d = 0; d < input->n_dims; d++)
    f.sizes[d < input->n_dims - normalized_shape.len ? 0 : 1] *= input->sizes[d];
  return second(&f, &g, for_grad, for_input, for_weight);
}

shmt_status shmt__group_norm_double_backward(shmt_tensor* ggrad_input, shmt_tensor* ggrad_weight,
                                             shmt_tensor* ggrad_bias, shmt_tensor* grad_out, shmt_tensor* input,
                                             shmt_tensor* mean, shmt_tensor* rstd, shmt_tensor* weight, int64_t n,
                                             int64_t channels, int64_t plane, int64_t group, shmt_tensor** for_grad,
                                             shmt_tensor** for_input, shmt_tensor** for_weight) {
  const form f = {.n = 4,
                  .sizes = {n, group, group > 0 ? channels / group : 0, plane},
                  .is_stat = {false, false, true, true},
                  .is_common = {true, false, false, true},
                  .train = true,
                  .centred = true};
  const given g = {ggrad_input, ggrad_weight, ggrad_bias, grad_out, input, mean, rstd, weight};

  SHMT_REQUIRE(group > 0, SHMT_E_RUNTIME, "Expected num groups to be greater than 0, got %" PRId64, group);
  return second(&f, &g, for_grad, for_input, for_weight);
}

shmt_status shmt__batch_norm_double_backward(shmt_tensor* ggrad_input, shmt_tensor* ggrad_weight,
                                             shmt_tensor* ggrad_bias, shmt_tensor* grad_out, shmt_tensor* input,
                                             shmt_tensor* weight, shmt_tensor* running_mean, shmt_tensor* running_var,
                                             shmt_tensor* save_mean, shmt_tensor* save_invstd, bool train, double eps,
                                             shmt_tensor** for_grad, shmt_tensor** for_input,
                                             shmt_tensor** for_weight) {
  SHMT_AUTO(shmt_tensor) moved = NULL;
  SHMT_AUTO(shmt_tensor) scale = NULL;
  form f = {.n = 3,
            .sizes = {0, 0, 1},
            .is_stat = {true, false, true},
            .is_common = {true, false, true},
            .train = train,
            .centred = true};
  given g = {ggrad_input, ggrad_weight, ggrad_bias, grad_out, input, save_mean, save_invstd, weight};

  SHMT_REQUIRE(input->n_dims >= 2, SHMT_E_RUNTIME, "batch_norm: expected an input of two or more dims, got %s",
               SHMT_SHAPE_TEXT(input));
  SHMT_REQUIRE(train || (running_mean && running_var), SHMT_E_RUNTIME,
               "running_mean and running_var must be defined in evaluation mode");
  f.sizes[0] = input->sizes[0];
  f.sizes[1] = input->sizes[1];
  for (int d = 2; d < input->n_dims; d++) f.sizes[2] *= input->sizes[d];
  if (!train) {
    SHMT_TRY(shmt_op_add_Scalar(running_var, shmt__scalar_float(eps), shmt__scalar_int(1), &moved));
    SHMT_TRY(shmt_op_rsqrt(moved, &scale));
    g.mean = running_mean;
    g.rstd = scale;
  }
  return second(&f, &g, for_grad, for_input, for_weight);
}
