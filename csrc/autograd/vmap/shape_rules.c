/* autograd/vmap/shape_rules.c -- batching rules of views, cat, and operators that change a shape in place. */
#include "autograd/vmap/parts.h"
#include "autograd/vmap/rules.h"
#include "generated/ops.h"

#include <string.h>

shmt_status shmt__batch_permute(shmt__batch_call* c) {
  int64_t order[SHMT_MAX_DIMS + 1] = {0};
  const int rank = shmt__batch_rank(c, 0);
  const shmt_ints dims = c->values[1].v.ints;
  SHMT_REQUIRE(dims.len == rank, SHMT_E_RUNTIME,
               "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
               "ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %lld",
               rank, (long long)dims.len);
  SHMT_TRY(shmt__batch_to_front(c, 0));
  for (int d = 0; d < rank; d++) {
    SHMT_TRY(shmt__wrap_dim(dims.data[d], rank, &order[d + 1]));
    order[d + 1]++;
  }
  c->values[1].v.ints = (shmt_ints){order, rank + 1};
  return shmt__batch_call_self(c);
}

/* squeeze without dims: those of an example, not the batch. */
shmt_status shmt__batch_squeeze(shmt__batch_call* c) {
  int64_t dims[SHMT_MAX_DIMS], n = 0;
  shmt_tensor* made = NULL;
  SHMT_TRY(shmt__batch_to_front(c, 0));
  for (int d = 1; d < shmt__batch_tensor(c, 0)->n_dims; d++)
    if (shmt__batch_tensor(c, 0)->sizes[d] == 1) dims[n++] = d;
  SHMT_TRY(n ? shmt_op_squeeze_dims(shmt__batch_tensor(c, 0), (shmt_ints){dims, n}, &made)
             : shmt_op_alias(shmt__batch_tensor(c, 0), &made));
  shmt__batch_give(c, 0, made);
  return SHMT_OK;
}

shmt_status shmt__batch_t(shmt__batch_call* c) {
  const int rank = shmt__batch_rank(c, 0);
  shmt_tensor* made = NULL;
  SHMT_REQUIRE(rank <= 2, SHMT_E_RUNTIME, "t() expects a tensor with <= 2 dimensions, but self is %dD", rank);
  SHMT_TRY(shmt__batch_to_front(c, 0));
  SHMT_TRY(rank == 2 ? shmt_op_transpose_int(shmt__batch_tensor(c, 0), 1, 2, &made)
                     : shmt_op_alias(shmt__batch_tensor(c, 0), &made));
  shmt__batch_give(c, 0, made);
  return SHMT_OK;
}

shmt_status shmt__batch_unsqueeze(shmt__batch_call* c) {
  int64_t dim;
  SHMT_TRY(shmt__wrap_dim(c->values[1].v.i, shmt__batch_rank(c, 0) + 1, &dim));
  SHMT_TRY(shmt__batch_to_front(c, 0));
  c->values[1].v.i = dim + 1;
  return shmt__batch_call_self(c);
}

/* expand and repeat: a list for each dim of the result, which may have more than self. */
shmt_status shmt__batch_grow(shmt__batch_call* c) {
  const shmt_ints list = c->values[1].v.ints;
  int64_t grown[SHMT_MAX_DIMS + 1];
  const bool repeats = strcmp(c->op->schema->name, "repeat") == 0;
  SHMT_REQUIRE(list.len < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "vmap: tensor has too many (>%d) dims", SHMT_MAX_DIMS);
  SHMT_TRY(shmt__batch_to_front(c, 0));
  SHMT_TRY(shmt__batch_pad_rank(c, 0, (int)list.len));
  grown[0] = repeats ? 1 : c->batch_size;
  shmt__copy_ints(grown + 1, list);
  c->values[1].v.ints = (shmt_ints){grown, list.len + 1};
  return shmt__batch_call_self(c);
}

/* Strides and offset of an example, which its batched tensor shows, are those of its value. */
shmt_status shmt__batch_as_strided(shmt__batch_call* c) {
  int64_t sizes[SHMT_MAX_DIMS + 1], strides[SHMT_MAX_DIMS + 1];
  const shmt_ints size = c->values[1].v.ints, stride = c->values[2].v.ints;
  SHMT_REQUIRE(size.len < SHMT_MAX_DIMS && size.len == stride.len, SHMT_E_RUNTIME,
               "mismatch in length of strides and shape: %lld sizes, %lld strides", (long long)size.len,
               (long long)stride.len);
  SHMT_TRY(shmt__batch_to_front(c, 0));
  shmt_tensor* t = shmt__batch_tensor(c, 0);
  sizes[0] = c->batch_size;
  strides[0] = t->strides[0];
  shmt__copy_ints(sizes + 1, size);
  shmt__copy_ints(strides + 1, stride);
  c->values[1].v.ints = (shmt_ints){sizes, size.len + 1};
  c->values[2].v.ints = (shmt_ints){strides, size.len + 1};
  return shmt__batch_call_self(c);
}

/* Examples with these strides, one behind the other. */
shmt_status shmt__batch_new_strided(shmt__batch_call* c) {
  int64_t sizes[SHMT_MAX_DIMS + 1], strides[SHMT_MAX_DIMS + 1], extent = 1;
  const shmt_ints size = c->values[1].v.ints, stride = c->values[2].v.ints;
  SHMT_REQUIRE(size.len < SHMT_MAX_DIMS && size.len == stride.len, SHMT_E_RUNTIME,
               "mismatch in length of strides and shape: %lld sizes, %lld strides", (long long)size.len,
               (long long)stride.len);
  for (int64_t d = 0; d < size.len; d++) {
    sizes[d + 1] = size.data[d];
    strides[d + 1] = stride.data[d];
    extent += size.data[d] > 0 ? (size.data[d] - 1) * stride.data[d] : 0;
  }
  sizes[0] = c->batch_size;
  strides[0] = extent;
  c->values[1].v.ints = (shmt_ints){sizes, size.len + 1};
  c->values[2].v.ints = (shmt_ints){strides, size.len + 1};
  return shmt__batch_call_self(c);
}

shmt_status shmt__batch_roll(shmt__batch_call* c) {
  if (c->values[2].v.ints.len > 0 || shmt__batch_rank(c, 0) == 0) return shmt__batch_front(c);
  int64_t sizes[SHMT_MAX_DIMS];
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) rolled = NULL;
  shmt_tensor* made = NULL;
  SHMT_TRY(shmt__batch_to_front(c, 0));
  shmt_tensor* t = shmt__batch_tensor(c, 0);
  memcpy(sizes, t->sizes, t->n_dims * sizeof *sizes);
  SHMT_TRY(shmt_op_reshape(t, SHMT_INTS(c->batch_size, shmt__tensor_extent(t, 1, t->n_dims)), &rows));
  SHMT_TRY(shmt_op_roll(rows, c->values[1].v.ints, SHMT_INTS(1), &rolled));
  SHMT_TRY(shmt_op_reshape(rolled, (shmt_ints){sizes, t->n_dims}, &made));
  shmt__batch_give(c, 0, made);
  return SHMT_OK;
}

/* squeeze_, t_, transpose_, unsqueeze_: the batched tensor stands for a view of what it stood for. */
shmt_status shmt__batch_view_inplace(shmt__batch_call* c) {
  static const struct {
    const char* name;
    const char* view;
    shmt_status (*rule)(shmt__batch_call*);
  } twins[] = {
      {"squeeze_", "squeeze", shmt__batch_squeeze},   {"squeeze_.dim", "squeeze.dim", shmt__batch_front},
      {"squeeze_.dims", "squeeze.dims", shmt__batch_front}, {"t_", "t", shmt__batch_t},
      {"transpose_", "transpose.int", shmt__batch_front},   {"unsqueeze_", "unsqueeze", shmt__batch_unsqueeze},
  };
  char name[128];
  shmt__operator_name(c->op, name, sizeof name);
  size_t i = 0;
  while (i < sizeof twins / sizeof *twins && strcmp(twins[i].name, name) != 0) i++;
  SHMT_REQUIRE(i < sizeof twins / sizeof *twins, SHMT_E_RUNTIME,
               "vmap: aten::%s cannot change a tensor that stands for a batch", name);
  const shmt_operator* op = c->op;
  c->op = shmt__operator_lookup(twins[i].view);
  shmt_status status = twins[i].rule(c);
  c->op = op;
  SHMT_TRY(status);
  return shmt__batched_replace(c->args[0].v.tensor, *shmt__batch_result(c, 0), 0);
}

/* fill_ with a number that differs from example to example. */
shmt_status shmt__batch_fill(shmt__batch_call* c) {
  if (!shmt__batch_has(c, 1)) return shmt__batch_front(c);
  SHMT_TRY(shmt__batch_to_front_expanded(c, 0));
  SHMT_TRY(shmt__batch_to_front(c, 1));
  SHMT_TRY(shmt__batch_pad_rank(c, 1, shmt__batch_rank(c, 0)));
  if (c->op->schema->args[0].flags & SHMT_ARG_WRITE)
    return shmt_op_copy_(shmt__batch_tensor(c, 0), shmt__batch_tensor(c, 1), false);
  shmt_tensor* made = NULL;
  SHMT_TRY(shmt_op_clone(shmt__batch_tensor(c, 0), SHMT_CONTIGUOUS_FORMAT, &made));
  shmt__batch_give(c, 0, made);
  return shmt_op_copy_(made, shmt__batch_tensor(c, 1), false);
}

/* --- cat, stack ---------------------------------------------------------------------------------------- */

/* The batch in front of all tensors of a list. */
static shmt_status expand_list(shmt__batch_call* c, int i) {
  const shmt_tensors list = c->values[i].v.tensors;
  shmt_value saved = c->values[i];
  const int saved_dim = c->dims[i];
  for (int64_t k = 0; k < list.len; k++) {
    shmt_tensor** slot = (shmt_tensor**)&list.data[k];
    if (!*slot) continue;
    c->values[i] = (shmt_value){.v.tensor = *slot, .tag = SHMT_VALUE_TENSOR};
    c->dims[i] = c->list_dims[i][k];
    shmt_status status = shmt__batch_to_front_expanded(c, i);
    *slot = c->values[i].v.tensor;
    c->list_dims[i][k] = c->dims[i];
    c->values[i] = saved;
    c->dims[i] = saved_dim;
    SHMT_TRY(status);
  }
  return SHMT_OK;
}

shmt_status shmt__batch_cat(shmt__batch_call* c) {
  const bool stacks = strcmp(c->op->schema->name, "stack") == 0;
  SHMT_TRY(expand_list(c, 0));
  const shmt_tensors list = c->values[0].v.tensors;
  int rank = 0;
  for (int64_t k = 0; k < list.len; k++) {
    const int own = list.data[k]->n_dims - 1;
    if (own > rank) rank = own;
    SHMT_REQUIRE(stacks || own > 0, SHMT_E_RUNTIME, "zero-dimensional tensor (at position %lld) cannot be concatenated",
                 (long long)k);
  }
  SHMT_TRY(shmt__wrap_dim(c->values[1].v.i, rank + stacks, &c->values[1].v.i));
  c->values[1].v.i++;
  return shmt__batch_call_self(c);
}
