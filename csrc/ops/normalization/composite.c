/* ops/normalization/composite.c -- layer_norm, batch_norm, group_norm, instance_norm and rms_norm, made of the native
 * operators. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"
#include "ops/normalization/normalization.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

shmt_status shmt__layer_norm(shmt_tensor* input, shmt_ints normalized_shape, shmt_tensor* weight, shmt_tensor* bias,
                             double eps, bool cudnn_enable, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) mean = NULL;
  SHMT_AUTO(shmt_tensor) rstd = NULL;

  (void)cudnn_enable;
  return shmt_op_native_layer_norm(input, normalized_shape, weight, bias, eps, out, &mean, &rstd);
}

/* Channels as (1, C, 1, ...) for broadcasting over n dims. */
static shmt_status as_channels(shmt_tensor* t, int n_dims, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS];

  for (int d = 0; d < n_dims; d++) sizes[d] = d == 1 ? t->numel : 1;
  return shmt_op_reshape(t, (shmt_ints){sizes, n_dims}, out);
}

static shmt_status apply_affine(shmt_tensor** t, shmt_tensor* weight, shmt_tensor* bias) {
  const int n_dims = (*t)->n_dims;

  if (weight) {
    SHMT_AUTO(shmt_tensor) before = SHMT_TAKE(*t);
    SHMT_AUTO(shmt_tensor) factor = NULL;
    SHMT_TRY(as_channels(weight, n_dims, &factor));
    SHMT_TRY(shmt_op_mul_Tensor(before, factor, t));
  }
  if (bias) {
    SHMT_AUTO(shmt_tensor) before = SHMT_TAKE(*t);
    SHMT_AUTO(shmt_tensor) term = NULL;
    SHMT_TRY(as_channels(bias, n_dims, &term));
    SHMT_TRY(shmt_op_add_Tensor(before, term, shmt__scalar_int(1), t));
  }
  return SHMT_OK;
}

/* Batch norm of an empty input. The result is empty, but computed from weight and bias, so that these get zero
 * gradients. */
static shmt_status batch_norm_of_nothing(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,
                                         shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  if (input->n_dims < 2) return shmt_op_clone(input, SHMT_MEMORY_FORMAT_NONE, out);
  SHMT_TRY(shmt_op_clone(input, SHMT_MEMORY_FORMAT_NONE, &result));
  SHMT_TRY(apply_affine(&result, weight, bias));
  return shmt_op_to_dtype(result, input->dtype, false, false, SHMT_MEMORY_FORMAT_NONE, out);
}

shmt_status shmt__batch_norm(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias, shmt_tensor* running_mean,
                             shmt_tensor* running_var, bool training, double momentum, double eps, bool cudnn_enabled,
                             shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) mean = NULL;
  SHMT_AUTO(shmt_tensor) scale = NULL;

  (void)cudnn_enabled;
  if (input->numel == 0 && (training || input->n_dims < 2)) return batch_norm_of_nothing(input, weight, bias, out);
  return shmt_op_native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, out, &mean,
                                   &scale);
}

shmt_status shmt__group_norm(shmt_tensor* input, int64_t num_groups, shmt_tensor* weight, shmt_tensor* bias, double eps,
                             bool cudnn_enabled, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) mean = NULL;
  SHMT_AUTO(shmt_tensor) rstd = NULL;

  (void)cudnn_enabled;
  SHMT_REQUIRE(input->n_dims >= 2, SHMT_E_RUNTIME, "Expected at least 2 dimensions for input tensor but received %d",
               input->n_dims);
  return shmt_op_native_group_norm(input, weight, bias, input->sizes[0], input->sizes[1],
                                   shmt__tensor_extent(input, 2, input->n_dims), num_groups, eps, out, &mean, &rstd);
}

/* Complex input is computed by plain operators, because the fused loop has no complex dtypes. */
shmt_status shmt__rms_norm(shmt_tensor* input, shmt_ints normalized_shape, shmt_tensor* weight, shmt_opt_float eps,
                           shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rstd = NULL;
  SHMT_AUTO(shmt_tensor) square = NULL;
  SHMT_AUTO(shmt_tensor) mean = NULL;
  SHMT_AUTO(shmt_tensor) moved = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t dims[SHMT_MAX_DIMS];

  SHMT_REQUIRE(input->n_dims >= normalized_shape.len, SHMT_E_VALUE,
               "Input tensor must have at least %" PRId64 " dimensions, but got %d", normalized_shape.len,
               input->n_dims);
  if (shmt__dtype_kind[input->dtype] != SHMT_KIND_COMPLEX)
    return shmt_op__fused_rms_norm(input, normalized_shape, weight, eps, out, &rstd);
  SHMT_TRY(shmt__check_normalized(input, normalized_shape, weight, NULL));
  for (int64_t d = 0; d < normalized_shape.len; d++) dims[d] = input->n_dims - normalized_shape.len + d;
  const double term = eps.has ? eps.value : input->dtype == SHMT_COMPLEX128 ? DBL_EPSILON : (double)FLT_EPSILON;
  SHMT_TRY(shmt_op_mul_Tensor(input, input, &square));
  SHMT_TRY(shmt_op_mean_dim(square, (shmt_ints){dims, normalized_shape.len}, true, SHMT_DTYPE_NONE, &mean));
  SHMT_TRY(shmt_op_add_Scalar(mean, shmt__scalar_float(term), shmt__scalar_int(1), &moved));
  SHMT_TRY(shmt_op_rsqrt(moved, &rstd));
  SHMT_TRY(shmt_op_mul_Tensor(input, rstd, &result));
  if (weight) return shmt_op_mul_Tensor(result, weight, out);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__instance_norm(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias, shmt_tensor* running_mean,
                                shmt_tensor* running_var, bool use_input_stats, double momentum, double eps,
                                bool cudnn_enabled, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) folded = NULL;
  SHMT_AUTO(shmt_tensor) means = NULL;
  SHMT_AUTO(shmt_tensor) vars = NULL;
  SHMT_AUTO(shmt_tensor) weights = NULL;
  SHMT_AUTO(shmt_tensor) biases = NULL;
  SHMT_AUTO(shmt_tensor) normal = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  (void)cudnn_enabled;
  SHMT_REQUIRE(input->n_dims >= 2, SHMT_E_RUNTIME, "instance_norm(): expected at least 2 dimensions, got %d",
               input->n_dims);
  SHMT_REQUIRE(use_input_stats || (running_mean && running_var), SHMT_E_RUNTIME,
               "Expected running_mean and running_var to be defined when use_input_stats is false");
  memcpy(sizes, input->sizes, (size_t)input->n_dims * sizeof *sizes);
  const int64_t n = sizes[0];
  sizes[1] *= n;
  sizes[0] = 1;
  SHMT_TRY(shmt_op_reshape(input, (shmt_ints){sizes, input->n_dims}, &folded));
  if (running_mean) SHMT_TRY(shmt_op_repeat(running_mean, SHMT_INTS(n), &means));
  if (running_var) SHMT_TRY(shmt_op_repeat(running_var, SHMT_INTS(n), &vars));
  if (weight) SHMT_TRY(shmt_op_repeat(weight, SHMT_INTS(n), &weights));
  if (bias) SHMT_TRY(shmt_op_repeat(bias, SHMT_INTS(n), &biases));
  SHMT_TRY(shmt__batch_norm(folded, weights, biases, means, vars, use_input_stats, momentum, eps, false, &normal));
  if (use_input_stats) {
    shmt_tensor* const stats[2][2] = {{running_mean, means}, {running_var, vars}};
    for (int i = 0; i < 2; i++) {
      SHMT_AUTO(shmt_tensor) each = NULL;
      SHMT_AUTO(shmt_tensor) average = NULL;
      if (!stats[i][0]) continue;
      SHMT_TRY(shmt_op_view(stats[i][1], SHMT_INTS(n, input->sizes[1]), &each));
      SHMT_TRY(shmt_op_mean_dim(each, SHMT_INTS(0), false, SHMT_DTYPE_NONE, &average));
      SHMT_TRY(shmt_op_copy_(stats[i][0], average, false));
    }
  }
  return shmt_op_reshape(normal, shmt__tensor_sizes(input), out);
}

shmt_status shmt__batch_norm_with_update(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,
                                         shmt_tensor* running_mean, shmt_tensor* running_var, double momentum,
                                         double eps, shmt_tensor** out, shmt_tensor** save_mean,
                                         shmt_tensor** save_invstd, shmt_tensor** reserve) {
  SHMT_AUTO(shmt_tensor) spare = NULL;

  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(0), SHMT_UINT8, input->device, SHMT_CONTIGUOUS_FORMAT, &spare));
  SHMT_TRY(shmt_op_native_batch_norm(input, weight, bias, running_mean, running_var, true, momentum, eps, out,
                                     save_mean, save_invstd));
  *reserve = SHMT_TAKE(spare);
  return SHMT_OK;
}
