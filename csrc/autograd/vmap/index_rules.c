/* autograd/vmap/index_rules.c -- batching rules of indexing.
 *
 * When only the indexed tensor is batched, its batch is one more dimension in front. When an index is batched, it gets
 * the batch in front, and the batch of the tensor is indexed by 0, 1, ... beside it, so that each example meets its
 * own.
 */
#include "autograd/vmap/loop.h"
#include "autograd/vmap/parts.h"
#include "autograd/vmap/rules.h"
#include "generated/ops.h"

#include <stdlib.h>
#include <string.h>

/* What a list of indices does. */
typedef struct layout {
  int first;     /* the first dim that is indexed */
  int n;         /* how many indices there are */
  int rank;      /* of the indices, broadcast, for one example */
  bool adjacent; /* no dim without an index lies between two with one */
  bool batched;  /* one of them is batched */
} layout;

static bool is_mask(const shmt_tensor* t) { return t->dtype == SHMT_BOOL || t->dtype == SHMT_UINT8; }

static shmt_status read_layout(const shmt__batch_call* c, int i, layout* l) {
  const shmt_tensors list = c->values[i].v.tensors;
  *l = (layout){.first = -1, .adjacent = true};
  int last = -1;
  for (int64_t k = 0; k < list.len; k++) {
    const shmt_tensor* t = list.data[k];
    if (!t) continue;
    const bool batched = c->list_dims[i][k] != SHMT_NOT_BATCHED;
    SHMT_REQUIRE(!(batched && is_mask(t)), SHMT_E_RUNTIME,
                 "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over "
                 "indexing with a boolean mask.");
    const int rank = is_mask(t) ? 1 : t->n_dims - batched;
    if (rank > l->rank) l->rank = rank;
    if (l->first < 0) l->first = (int)k;
    if (last >= 0 && k != last + 1) l->adjacent = false;
    last = (int)k;
    l->n++;
    l->batched |= batched;
  }
  return SHMT_OK;
}

/* The indices for a value with the batch in front; tensors in data are owned. */
typedef struct indices {
  shmt_tensor* data[SHMT_MAX_DIMS + 1];
  int n;
} indices;

static void release_indices(indices* x) {
  for (int k = 0; k < x->n; k++) shmt__tensor_release(x->data[k]);
}

/* [B, 1, ..., index] of rank dims behind the batch. */
static shmt_status batched_index(const shmt__batch_call* c, shmt_tensor* t, int dim, int rank, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS + 1] = {c->batch_size};
  SHMT_AUTO(shmt_tensor) front = shmt__tensor_ref(t);
  SHMT_TRY(shmt__move_dim(&front, dim, 0));
  const int own = front->n_dims - 1;
  for (int d = 1; d <= rank - own; d++) sizes[d] = 1;
  for (int d = 1; d <= own; d++) sizes[rank - own + d] = front->sizes[d];
  return shmt_op_reshape(front, (shmt_ints){sizes, rank + 1}, out);
}

/* 0, 1, ... as [B, 1, ..., 1]. */
static shmt_status batch_index(const shmt__batch_call* c, int rank, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS + 1] = {c->batch_size};
  SHMT_AUTO(shmt_tensor) row = NULL;
  for (int d = 1; d <= rank; d++) sizes[d] = 1;
  SHMT_TRY(shmt_op_arange(shmt__scalar_int(c->batch_size), SHMT_INT64, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE,
                          (shmt_opt_bool){0}, &row));
  return shmt_op_reshape(row, (shmt_ints){sizes, rank + 1}, out);
}

static shmt_status make_indices(const shmt__batch_call* c, int i, const layout* l, bool self_batched, indices* x) {
  const shmt_tensors list = c->values[i].v.tensors;
  SHMT_REQUIRE(list.len < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "vmap: %lld indices", (long long)list.len);
  x->n = 0;
  if (self_batched) {
    x->data[x->n++] = NULL;
    if (l->batched) SHMT_TRY(batch_index(c, l->rank, &x->data[0]));
  }
  for (int64_t k = 0; k < list.len; k++) {
    shmt_tensor** slot = &x->data[x->n++];
    *slot = NULL;
    if (!list.data[k]) continue;
    if (c->list_dims[i][k] != SHMT_NOT_BATCHED)
      SHMT_TRY(batched_index(c, list.data[k], c->list_dims[i][k], l->rank, slot));
    else
      *slot = shmt__tensor_ref(list.data[k]);
  }
  return SHMT_OK;
}

static bool has_mask(const shmt__batch_call* c, int i) {
  const shmt_tensors list = c->values[i].v.tensors;
  for (int64_t k = 0; k < list.len; k++)
    if (list.data[k] && is_mask(list.data[k])) return true;
  return false;
}

/* Dims 1 .. rank of *t go behind the `before` dims that follow them: torch puts broadcast indices in front when the
 * batch index stands apart from them. */
static shmt_status put_indexed_behind(shmt_tensor** t, int rank, int before) {
  for (int k = 0; k < rank; k++) SHMT_TRY(shmt__move_dim(t, 1, rank + before));
  return SHMT_OK;
}

shmt_status shmt__batch_index(shmt__batch_call* c) {
  layout l;
  indices x = {.n = 0};
  SHMT_TRY(read_layout(c, 1, &l));
  if (l.batched && has_mask(c, 1)) return shmt__batch_loop(c);
  const bool self_batched = shmt__batch_has(c, 0);
  SHMT_TRY(shmt__batch_to_front(c, 0));
  shmt_tensor* made = NULL;
  shmt_status status = make_indices(c, 1, &l, self_batched, &x);
  if (status == SHMT_OK) status = shmt_op_index_Tensor(shmt__batch_tensor(c, 0), (shmt_tensors){x.data, x.n}, &made);
  release_indices(&x);
  SHMT_TRY(status);
  shmt__batch_give(c, 0, made);
  if (!self_batched)
    c->result_dim = l.adjacent ? l.first : 0;
  else if (!l.batched)
    c->result_dim = l.adjacent ? 0 : l.rank;
  else if (l.first > 0 && l.adjacent)
    return put_indexed_behind(shmt__batch_result(c, 0), l.rank, l.first);
  return SHMT_OK;
}

/* index_put(self, indices, values, accumulate), where the indexed part of each example lies behind the batch. */
shmt_status shmt__batch_index_put(shmt__batch_call* c) {
  layout l;
  indices x = {.n = 0};
  SHMT_TRY(read_layout(c, 1, &l));
  const bool simple = l.n > 0 && !has_mask(c, 1) && l.first == 0 && l.adjacent;
  if (!simple) return shmt__batch_loop(c);
  SHMT_TRY(shmt__batch_to_front_expanded(c, 0));
  l.batched = true; /* the batch is indexed as well, so that values have the batch in front */
  if (shmt__batch_has(c, 2)) {
    SHMT_TRY(shmt__batch_to_front(c, 2));
    SHMT_TRY(shmt__batch_pad_rank(c, 2, l.rank + shmt__batch_rank(c, 0) - l.n));
  }
  shmt_value values[4] = {c->values[0], {.tag = SHMT_VALUE_TENSORS}, c->values[2], c->values[3]};
  shmt_status status = make_indices(c, 1, &l, true, &x);
  values[1].v.tensors = (shmt_tensors){x.data, x.n};
  if (status == SHMT_OK) status = shmt__batch_call_with(c, values);
  release_indices(&x);
  return status;
}

shmt_status shmt__batch_index_select(shmt__batch_call* c) {
  if (!shmt__batch_has(c, 2) || shmt__batch_rank(c, 0) == 0)
    return shmt__batch_has(c, 2) ? shmt__batch_loop(c) : shmt__batch_front(c);
  int64_t dim, sizes[SHMT_MAX_DIMS + 1];
  const int rank = shmt__batch_rank(c, 0);
  SHMT_AUTO(shmt_tensor) index = NULL;
  shmt_tensor* made = NULL;
  SHMT_TRY(shmt__wrap_dim(c->values[1].v.i, rank, &dim));
  SHMT_TRY(shmt__batch_to_front_expanded(c, 0));
  SHMT_TRY(shmt__batch_to_front(c, 2));
  SHMT_TRY(shmt__batch_pad_rank(c, 2, 1)); /* a number selects one */
  shmt_tensor* t = shmt__batch_tensor(c, 0);
  const int64_t n = shmt__batch_tensor(c, 2)->sizes[1];
  for (int d = 0; d <= rank; d++) sizes[d] = d == 0 ? c->batch_size : d == dim + 1 ? n : 1;
  SHMT_TRY(shmt_op_reshape(shmt__batch_tensor(c, 2), (shmt_ints){sizes, rank + 1}, &made));
  shmt__batch_set(c, 2, made, 0);
  for (int d = 0; d <= rank; d++) sizes[d] = d == dim + 1 ? n : t->sizes[d];
  SHMT_TRY(shmt_op_expand(shmt__batch_tensor(c, 2), (shmt_ints){sizes, rank + 1}, false, &index));
  SHMT_TRY(shmt_op_gather(t, dim + 1, index, false, &made));
  shmt__batch_give(c, 0, made);
  return SHMT_OK;
}

/* index_add, index_copy, index_fill with one index for all examples. */
shmt_status shmt__batch_index_along(shmt__batch_call* c) {
  int64_t dim;
  if (shmt__batch_has(c, 2) || shmt__batch_rank(c, 0) == 0) return shmt__batch_loop(c);
  if (shmt__batch_tensor(c, 3) && shmt__batch_rank(c, 3) != shmt__batch_rank(c, 0)) return shmt__batch_loop(c);
  SHMT_TRY(shmt__wrap_dim(c->values[1].v.i, shmt__batch_rank(c, 0), &dim));
  SHMT_TRY(shmt__batch_to_front_expanded(c, 0));
  if (shmt__batch_tensor(c, 3)) SHMT_TRY(shmt__batch_to_front_expanded(c, 3));
  c->values[1].v.i = dim + 1;
  return shmt__batch_call_self(c);
}

/* One mask for all examples chooses columns of them as rows. */
shmt_status shmt__batch_masked_select(shmt__batch_call* c) {
  int64_t sizes[SHMT_MAX_DIMS + 1] = {c->batch_size}, n;
  SHMT_AUTO(shmt_tensor) examples = NULL;
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) spread = NULL;
  SHMT_AUTO(shmt_tensor) columns = NULL;
  SHMT_AUTO(shmt_tensor) chosen = NULL;
  SHMT_AUTO(shmt_tensor) index = NULL;
  shmt_tensor* made = NULL;
  SHMT_REQUIRE(!shmt__batch_has(c, 1), SHMT_E_RUNTIME,
               "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because "
               "for each batch this would return a differently shaped Tensor.");
  shmt_tensor* mask = shmt__batch_tensor(c, 1);
  SHMT_REQUIRE(mask->dtype == SHMT_BOOL, SHMT_E_RUNTIME, "masked_select: expected BoolTensor for mask");
  SHMT_TRY(shmt__batch_to_front(c, 0));
  const shmt_ints own = {shmt__batch_tensor(c, 0)->sizes + 1, shmt__batch_rank(c, 0)};
  SHMT_TRY(shmt__broadcast_sizes(own, shmt__tensor_sizes(mask), sizes + 1, &n));
  SHMT_TRY(shmt__batch_pad_rank(c, 0, (int)n));
  SHMT_TRY(shmt_op_expand(shmt__batch_tensor(c, 0), (shmt_ints){sizes, n + 1}, false, &examples));
  const int64_t length = shmt__tensor_extent(examples, 1, examples->n_dims);
  SHMT_TRY(shmt_op_reshape(examples, SHMT_INTS(c->batch_size, length), &rows));
  SHMT_TRY(shmt_op_expand(mask, (shmt_ints){sizes + 1, n}, false, &spread));
  SHMT_TRY(shmt_op_reshape(spread, SHMT_INTS(length), &columns));
  SHMT_TRY(shmt_op_nonzero(columns, &chosen));
  SHMT_TRY(shmt_op_squeeze_dim(chosen, 1, &index));
  SHMT_TRY(shmt_op_index_select(rows, 1, index, &made));
  shmt__batch_give(c, 0, made);
  return SHMT_OK;
}

/* --- embedding -------------------------------------------------------------------------------------------- */

/* Rows of all examples' tables are counted on: example b begins at b * n. */
static shmt_status offset_indices(shmt__batch_call* c, int i, int64_t n) {
  SHMT_AUTO(shmt_tensor) batch = NULL;
  SHMT_AUTO(shmt_tensor) offsets = NULL;
  shmt_tensor* made = NULL;
  SHMT_TRY(shmt__batch_to_front_expanded(c, i));
  SHMT_TRY(batch_index(c, shmt__batch_rank(c, i), &batch));
  SHMT_TRY(shmt_op_mul_Scalar(batch, shmt__scalar_int(n), &offsets));
  SHMT_TRY(shmt_op_add_Tensor(shmt__batch_tensor(c, i), offsets, shmt__scalar_int(1), &made));
  shmt__batch_set(c, i, made, 0);
  return SHMT_OK;
}

shmt_status shmt__batch_embedding(shmt__batch_call* c) {
  if (!shmt__batch_has(c, 0)) return shmt__batch_front(c);
  SHMT_TRY(shmt__batch_to_front(c, 0));
  SHMT_TRY(offset_indices(c, 1, shmt__batch_tensor(c, 0)->sizes[1]));
  SHMT_TRY(shmt__batch_merge_dims(c, 0, 0));
  c->values[2].v.i = -1; /* padding matters to the derivative only, and that is a call of its own */
  return shmt__batch_call_self(c);
}

shmt_status shmt__batch_embedding_backward(shmt__batch_call* c) {
  const int64_t n = c->values[2].v.i, padding = c->values[3].v.i;
  SHMT_TRY(shmt__batch_to_front_expanded(c, 0));
  SHMT_TRY(offset_indices(c, 1, n));
  c->values[2].v.i = n * c->batch_size;
  c->values[3].v.i = -1;
  SHMT_TRY(shmt__batch_call_self(c));
  SHMT_TRY(shmt__split_dim(shmt__batch_result(c, 0), 0, c->batch_size));
  if (padding < 0) return SHMT_OK;
  SHMT_AUTO(shmt_tensor) row = NULL;
  SHMT_TRY(shmt_op_select_int(*shmt__batch_result(c, 0), 1, padding, &row));
  return shmt_op_zero_(row);
}
