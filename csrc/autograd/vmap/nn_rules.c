/* autograd/vmap/nn_rules.c -- batching rules of products, convolutions, normalizations and attention.
 *
 * Weights that differ from example to example make a convolution one with as many groups, since a group has its own
 * weights and channels: channels [N, B * C], weights [B * O, C / groups], B * groups groups.
 */
#include "autograd/vmap/loop.h"
#include "autograd/vmap/parts.h"
#include "autograd/vmap/rules.h"
#include "generated/ops.h"

#include <string.h>

/* --- products ---------------------------------------------------------------------------------------------- */

/* mm, bmm and mv: the batch is a dimension of batches to matmul. */
shmt_status shmt__batch_matmul(shmt__batch_call* c) {
  const bool by_vector = strcmp(c->op->schema->name, "mv") == 0 && shmt__batch_has(c, 1);
  shmt_tensor* made = NULL;
  SHMT_REQUIRE(shmt__batch_rank(c, 0) >= 2 && shmt__batch_rank(c, 1) >= (c->op->schema->name[1] == 'v' ? 1 : 2),
               SHMT_E_RUNTIME, "%s(): expected matrices, got examples with %d and %d dimensions", c->op->schema->name,
               shmt__batch_rank(c, 0), shmt__batch_rank(c, 1));
  SHMT_TRY(shmt__batch_to_front(c, 0));
  SHMT_TRY(shmt__batch_to_front(c, 1));
  if (by_vector) {
    SHMT_TRY(shmt_op_unsqueeze(shmt__batch_tensor(c, 1), 2, &made));
    shmt__batch_set(c, 1, made, 0);
  }
  made = NULL;
  SHMT_TRY(shmt_op_matmul(shmt__batch_tensor(c, 0), shmt__batch_tensor(c, 1), &made));
  shmt__batch_give(c, 0, made);
  if (!by_vector) return SHMT_OK;
  shmt_tensor* row = NULL;
  SHMT_TRY(shmt_op_squeeze_dim(made, 2, &row));
  shmt__batch_give(c, 0, row);
  return SHMT_OK;
}

/* --- convolutions ------------------------------------------------------------------------------------------- */

/* [B, N, C, ...] as [N, B * C, ...]. */
static shmt_status into_channels(shmt__batch_call* c, int i) {
  if (!shmt__batch_tensor(c, i)) return SHMT_OK;
  SHMT_TRY(shmt__batch_to_front_expanded(c, i));
  SHMT_TRY(shmt__move_dim(&c->values[i].v.tensor, 0, 1));
  return shmt__batch_merge_dims(c, i, 1);
}

/* [N, B * C, ...] of a result as [B, N, C, ...]. */
static shmt_status out_of_channels(shmt__batch_call* c, int r) {
  shmt_tensor** t = shmt__batch_result(c, r);
  if (!t) return SHMT_OK;
  SHMT_TRY(shmt__split_dim(t, 1, c->batch_size));
  return shmt__move_dim(t, 1, 0);
}

/* [B, O, ...] as [B * O, ...]. */
static shmt_status into_rows(shmt__batch_call* c, int i) {
  if (!shmt__batch_tensor(c, i)) return SHMT_OK;
  SHMT_TRY(shmt__batch_to_front_expanded(c, i));
  return shmt__batch_merge_dims(c, i, 0);
}

static shmt_status out_of_rows(shmt__batch_call* c, int r) {
  shmt_tensor** t = shmt__batch_result(c, r);
  return t ? shmt__split_dim(t, 0, c->batch_size) : SHMT_OK;
}

shmt_status shmt__batch_convolution(shmt__batch_call* c) {
  if (shmt__batch_rank(c, 0) != shmt__batch_rank(c, 1)) return shmt__batch_loop(c);
  if (!shmt__batch_has(c, 1) && !shmt__batch_has(c, 2)) { /* one set of weights: more images */
    SHMT_TRY(into_rows(c, 0));
    SHMT_TRY(shmt__batch_call_self(c));
    return out_of_rows(c, 0);
  }
  SHMT_TRY(into_channels(c, 0));
  SHMT_TRY(into_rows(c, 1));
  SHMT_TRY(into_rows(c, 2));
  c->values[8].v.i *= c->batch_size;
  SHMT_TRY(shmt__batch_call_self(c));
  return out_of_channels(c, 0);
}

shmt_status shmt__batch_convolution_backward(shmt__batch_call* c) {
  const shmt_ints mask = c->values[10].v.ints, bias = c->values[3].v.ints;
  int64_t bias_size;
  if (shmt__batch_rank(c, 1) != shmt__batch_rank(c, 2)) return shmt__batch_loop(c);
  if (!shmt__batch_has(c, 2) && !mask.data[1] && !mask.data[2]) {
    SHMT_TRY(into_rows(c, 0));
    SHMT_TRY(into_rows(c, 1));
    SHMT_TRY(shmt__batch_call_self(c));
    return out_of_rows(c, 0);
  }
  SHMT_TRY(into_channels(c, 0));
  SHMT_TRY(into_channels(c, 1));
  SHMT_TRY(into_rows(c, 2));
  if (bias.len > 0) {
    bias_size = bias.data[0] * c->batch_size;
    c->values[3].v.ints = (shmt_ints){&bias_size, 1};
  }
  c->values[9].v.i *= c->batch_size;
  SHMT_TRY(shmt__batch_call_self(c));
  SHMT_TRY(out_of_channels(c, 0));
  SHMT_TRY(out_of_rows(c, 1));
  return out_of_rows(c, 2);
}

/* --- batch norm ---------------------------------------------------------------------------------------------- */

/* Statistics that training changes in place must be batched themselves. */
static shmt_status check_statistics(const shmt__batch_call* c) {
  const int training = shmt__batch_argument(c, "training");
  if (!c->values[training].v.b || !shmt__batch_has(c, 0)) return SHMT_OK;
  for (int i = 3; i < 5; i++)
    SHMT_REQUIRE(
        !shmt__batch_tensor(c, i) || shmt__batch_has(c, i), SHMT_E_RUNTIME,
        "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated "
        "in place, were not batched.\nIf you are using a module and do not need eval mode, please set "
        "`track_running_stats` to be False, or call torch.func.replace_all_batch_norm_modules_() on it");
  return SHMT_OK;
}

/* The statistics of all examples in a row, and what training has made of them written back. */
static shmt_status normalize_channels(shmt__batch_call* c) {
  const bool training = c->values[shmt__batch_argument(c, "training")].v.b;
  SHMT_AUTO(shmt_tensor) mean = NULL;
  SHMT_AUTO(shmt_tensor) var = NULL;
  shmt_tensor** kept[2] = {&mean, &var};
  for (int i = 3; i < 5; i++) {
    if (!shmt__batch_tensor(c, i)) continue;
    SHMT_TRY(shmt__batch_to_front(c, i));
    *kept[i - 3] = shmt__tensor_ref(shmt__batch_tensor(c, i));
  }
  SHMT_TRY(into_channels(c, 0));
  for (int i = 1; i < 5; i++) SHMT_TRY(into_rows(c, i));
  SHMT_TRY(shmt__batch_call_self(c));
  for (int i = 3; training && i < 5; i++) {
    SHMT_AUTO(shmt_tensor) rows = NULL;
    if (!shmt__batch_tensor(c, i)) continue;
    rows = shmt__tensor_ref(shmt__batch_tensor(c, i));
    SHMT_TRY(shmt__split_dim(&rows, 0, c->batch_size));
    SHMT_TRY(shmt_op_copy_(*kept[i - 3], rows, false));
  }
  return SHMT_OK;
}

shmt_status shmt__batch_batch_norm(shmt__batch_call* c) {
  SHMT_TRY(check_statistics(c));
  SHMT_TRY(normalize_channels(c));
  SHMT_TRY(out_of_channels(c, 0));
  for (int r = 1; r < 3; r++) {
    shmt_tensor** t = shmt__batch_result(c, r);
    shmt_tensor* made = NULL;
    if (!t) continue;
    if ((*t)->numel) {
      SHMT_TRY(shmt__split_dim(t, 0, c->batch_size));
      continue;
    }
    SHMT_TRY(shmt_op_reshape(*t, SHMT_INTS(c->batch_size, 0), &made));
    shmt__batch_give(c, r, made);
  }
  return SHMT_OK;
}

shmt_status shmt__batch_batch_norm_backward(shmt__batch_call* c) {
  SHMT_TRY(into_channels(c, 0));
  SHMT_TRY(into_channels(c, 1));
  for (int i = 2; i < 7; i++) SHMT_TRY(into_rows(c, i));
  SHMT_TRY(shmt__batch_call_self(c));
  SHMT_TRY(out_of_channels(c, 0));
  SHMT_TRY(out_of_rows(c, 1));
  return out_of_rows(c, 2);
}

/* --- group norm and layer norm ---------------------------------------------------------------------------------- */

/* result 0 = result 0 * weight + bias, whose examples have sizes [.., C] spread over `rank` dims by `view`. */
static shmt_status scale_and_shift(shmt__batch_call* c, shmt_tensor* weight, shmt_tensor* bias) {
  shmt_tensor* made = NULL;
  if (weight) {
    SHMT_TRY(shmt_op_mul_Tensor(*shmt__batch_result(c, 0), weight, &made));
    shmt__batch_give(c, 0, made);
  }
  made = NULL;
  if (!bias) return SHMT_OK;
  SHMT_TRY(shmt_op_add_Tensor(*shmt__batch_result(c, 0), bias, shmt__scalar_int(1), &made));
  shmt__batch_give(c, 0, made);
  return SHMT_OK;
}

/* A weight out of the arguments, as [B or 1, 1, C, 1, ...] to go with an image of `rank` dims; NULL when there is
 * none. */
static shmt_status take_channel_weight(shmt__batch_call* c, int i, int rank, shmt_tensor** out) {
  shmt_tensor* t = shmt__batch_tensor(c, i);
  int64_t sizes[SHMT_MAX_DIMS + 1];
  if (!t) return SHMT_OK;
  SHMT_TRY(shmt__batch_to_front(c, i));
  t = shmt__batch_tensor(c, i);
  for (int d = 0; d <= rank; d++) sizes[d] = 1;
  if (shmt__batch_has(c, i)) sizes[0] = c->batch_size;
  sizes[2] = t->sizes[t->n_dims - 1];
  SHMT_TRY(shmt_op_reshape(t, (shmt_ints){sizes, rank + 1}, out));
  shmt__batch_set(c, i, NULL, SHMT_NOT_BATCHED);
  c->values[i].tag = SHMT_VALUE_NONE;
  return SHMT_OK;
}

shmt_status shmt__batch_group_norm(shmt__batch_call* c) {
  SHMT_AUTO(shmt_tensor) weight = NULL;
  SHMT_AUTO(shmt_tensor) bias = NULL;
  const int rank = shmt__batch_rank(c, 0);
  if (shmt__batch_has(c, 1) || shmt__batch_has(c, 2)) {
    SHMT_TRY(take_channel_weight(c, 1, rank, &weight));
    SHMT_TRY(take_channel_weight(c, 2, rank, &bias));
  }
  SHMT_TRY(into_rows(c, 0));
  c->values[3].v.i *= c->batch_size;
  SHMT_TRY(shmt__batch_call_self(c));
  for (int r = 0; r < 3; r++) SHMT_TRY(out_of_rows(c, r));
  return scale_and_shift(c, weight, bias);
}

/* Sums of grad * xhat and of grad over all dims but the batch and the channel. */
static shmt_status channel_sums(shmt__batch_call* c, shmt_tensor* grad, shmt_tensor* xhat, shmt_ints mask) {
  int64_t dims[SHMT_MAX_DIMS], n = 0;
  SHMT_AUTO(shmt_tensor) product = NULL;
  shmt_tensor* made = NULL;
  for (int d = 1; d < grad->n_dims; d++)
    if (d != 2) dims[n++] = d;
  if (mask.data[1]) {
    SHMT_TRY(shmt_op_mul_Tensor(grad, xhat, &product));
    SHMT_TRY(shmt_op_sum_dim_IntList(product, (shmt_ints){dims, n}, false, SHMT_DTYPE_NONE, &made));
    shmt__batch_give(c, 1, made);
  }
  made = NULL;
  if (!mask.data[2]) return SHMT_OK;
  SHMT_TRY(shmt_op_sum_dim_IntList(grad, (shmt_ints){dims, n}, false, SHMT_DTYPE_NONE, &made));
  shmt__batch_give(c, 2, made);
  return SHMT_OK;
}

/* (input - mean) * rstd of each group; input [B, N, C, ...], mean and rstd [B, N, groups]. */
static shmt_status normalized_groups(shmt__batch_call* c, int64_t groups, shmt_tensor** out) {
  shmt_tensor* input = shmt__batch_tensor(c, 1);
  const int64_t batch = input->sizes[0], n = input->sizes[1];
  SHMT_AUTO(shmt_tensor) grouped = NULL;
  SHMT_AUTO(shmt_tensor) mean = NULL;
  SHMT_AUTO(shmt_tensor) rstd = NULL;
  SHMT_AUTO(shmt_tensor) centered = NULL;
  SHMT_AUTO(shmt_tensor) scaled = NULL;
  const int64_t rest = batch * n * groups > 0 ? input->numel / (batch * n * groups) : 0;
  SHMT_TRY(shmt_op_reshape(input, SHMT_INTS(batch, n, groups, rest), &grouped));
  SHMT_TRY(shmt_op_reshape(shmt__batch_tensor(c, 2), SHMT_INTS(batch, n, groups, 1), &mean));
  SHMT_TRY(shmt_op_reshape(shmt__batch_tensor(c, 3), SHMT_INTS(batch, n, groups, 1), &rstd));
  SHMT_TRY(shmt_op_sub_Tensor(grouped, mean, shmt__scalar_int(1), &centered));
  SHMT_TRY(shmt_op_mul_Tensor(centered, rstd, &scaled));
  return shmt_op_reshape(scaled, shmt__tensor_sizes(input), out);
}

shmt_status shmt__batch_group_norm_backward(shmt__batch_call* c) {
  const int rank = shmt__batch_rank(c, 1);
  const shmt_ints mask = c->values[9].v.ints;
  const int64_t only_input[3] = {mask.data[0], 0, 0};
  SHMT_AUTO(shmt_tensor) weight = NULL;
  SHMT_AUTO(shmt_tensor) xhat = NULL;
  SHMT_AUTO(shmt_tensor) grad = NULL;
  for (int i = 0; i < 4; i++) SHMT_TRY(shmt__batch_to_front_expanded(c, i));
  if (mask.data[1]) SHMT_TRY(normalized_groups(c, c->values[8].v.i, &xhat));
  grad = shmt__tensor_ref(shmt__batch_tensor(c, 0));
  if (mask.data[0]) {
    if (shmt__batch_has(c, 4)) {
      shmt_tensor* weighted = NULL;
      SHMT_TRY(take_channel_weight(c, 4, rank, &weight));
      SHMT_TRY(shmt_op_mul_Tensor(grad, weight, &weighted));
      shmt__batch_set(c, 0, weighted, 0);
    }
    for (int i = 0; i < 4; i++) SHMT_TRY(shmt__batch_merge_dims(c, i, 0));
    c->values[5].v.i *= c->batch_size;
    c->values[9].v.ints = (shmt_ints){only_input, 3};
    SHMT_TRY(shmt__batch_call_self(c));
    SHMT_TRY(out_of_rows(c, 0));
  }
  return channel_sums(c, grad, xhat, mask);
}

/* A weight out of the arguments, as [B, 1, ..., normalized shape] beside examples of `rank` dims. */
static shmt_status take_layer_weight(shmt__batch_call* c, int i, int rank, shmt_tensor** out) {
  if (!shmt__batch_tensor(c, i)) return SHMT_OK;
  SHMT_TRY(shmt__batch_to_front(c, i));
  SHMT_TRY(shmt__batch_pad_rank(c, i, rank));
  *out = shmt__tensor_ref(shmt__batch_tensor(c, i));
  shmt__batch_set(c, i, NULL, SHMT_NOT_BATCHED);
  c->values[i].tag = SHMT_VALUE_NONE;
  return SHMT_OK;
}

/* native_layer_norm and _fused_rms_norm: trailing dims are normalized, so the batch is one more before them. */
shmt_status shmt__batch_layer_norm(shmt__batch_call* c) {
  SHMT_AUTO(shmt_tensor) weight = NULL;
  SHMT_AUTO(shmt_tensor) bias = NULL;
  const int bias_at = shmt__batch_argument(c, "bias"), rank = shmt__batch_rank(c, 0);
  SHMT_TRY(shmt__batch_to_front_expanded(c, 0));
  if (shmt__batch_has(c, 2) || (bias_at >= 0 && shmt__batch_has(c, bias_at))) {
    SHMT_TRY(take_layer_weight(c, 2, rank, &weight));
    if (bias_at >= 0) SHMT_TRY(take_layer_weight(c, bias_at, rank, &bias));
  }
  SHMT_TRY(shmt__batch_call_self(c));
  return scale_and_shift(c, weight, bias);
}

/* The sum of the dims of examples before the normalized ones. */
static shmt_status sum_leading(shmt__batch_call* c, shmt_tensor* t, int64_t n_normalized, int r) {
  int64_t dims[SHMT_MAX_DIMS], n = 0;
  shmt_tensor* made = NULL;
  for (int d = 1; d < t->n_dims - n_normalized; d++) dims[n++] = d;
  if (n)
    SHMT_TRY(shmt_op_sum_dim_IntList(t, (shmt_ints){dims, n}, false, SHMT_DTYPE_NONE, &made));
  else
    made = shmt__tensor_ref(t);
  shmt__batch_give(c, r, made);
  return SHMT_OK;
}

shmt_status shmt__batch_layer_norm_backward(shmt__batch_call* c) {
  const bool centers = shmt__batch_argument(c, "mean") >= 0;
  const int rstd_at = centers ? 4 : 3, weight_at = rstd_at + 1, mask_at = rstd_at + 2;
  const int rank = shmt__batch_rank(c, 1);
  const shmt_ints mask = c->values[mask_at].v.ints;
  const int64_t only_input[3] = {mask.data[0], 0, 0}, n_normalized = c->values[2].v.ints.len;
  SHMT_AUTO(shmt_tensor) weight = NULL;
  SHMT_AUTO(shmt_tensor) grad = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  for (int i = 0; i <= rstd_at; i++)
    if (shmt__batch_tensor(c, i)) SHMT_TRY(shmt__batch_to_front_expanded(c, i));
  grad = shmt__tensor_ref(shmt__batch_tensor(c, 0));
  if (mask.data[1]) {
    SHMT_AUTO(shmt_tensor) centered = shmt__tensor_ref(shmt__batch_tensor(c, 1));
    SHMT_AUTO(shmt_tensor) xhat = NULL;
    if (centers) {
      shmt_tensor* made = NULL;
      SHMT_TRY(shmt_op_sub_Tensor(centered, shmt__batch_tensor(c, 3), shmt__scalar_int(1), &made));
      shmt__tensor_release(centered);
      centered = made;
    }
    SHMT_TRY(shmt_op_mul_Tensor(centered, shmt__batch_tensor(c, rstd_at), &xhat));
    SHMT_TRY(shmt_op_mul_Tensor(grad, xhat, &product));
  }
  if (mask.data[0]) {
    if (shmt__batch_has(c, weight_at)) {
      shmt_tensor* weighted = NULL;
      SHMT_TRY(take_layer_weight(c, weight_at, rank, &weight));
      SHMT_TRY(shmt_op_mul_Tensor(grad, weight, &weighted));
      shmt__batch_set(c, 0, weighted, 0);
    }
    c->values[mask_at].v.ints = (shmt_ints){only_input, mask.len};
    SHMT_TRY(shmt__batch_call_self(c));
  }
  if (mask.data[1]) SHMT_TRY(sum_leading(c, product, n_normalized, 1));
  return centers && mask.data[2] ? sum_leading(c, grad, n_normalized, 2) : SHMT_OK;
}

/* --- attention
 * ------------------------------------------------------------------------------------------------------ */

shmt_status shmt__batch_attention(shmt__batch_call* c) {
  const int mask = shmt__batch_argument(c, "attn_mask");
  if (shmt__batch_tensor(c, mask)) {
    if (shmt__batch_has(c, mask)) return shmt__batch_loop(c);
    if (shmt__batch_rank(c, mask) > 2) return shmt__batch_loop(c);
  }
  for (int i = 0; i < mask; i++)
    if (shmt__batch_tensor(c, i)) SHMT_TRY(into_rows(c, i));
  SHMT_TRY(shmt__batch_call_self(c));
  return shmt__batch_split_results(c);
}
