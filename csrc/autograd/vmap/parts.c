/* autograd/vmap/parts.c -- what batching rules are made of. */
#include "autograd/vmap/parts.h"

#include "generated/ops.h"

#include <string.h>

int shmt__batch_argument(const shmt__batch_call* c, const char* name) {
  for (int i = 0; i < c->op->schema->n_args; i++)
    if (strcmp(c->op->schema->args[i].name, name) == 0) return i;
  return -1;
}

void shmt__batch_set(shmt__batch_call* c, int i, shmt_tensor* t, int dim) {
  shmt__tensor_release(c->values[i].v.tensor);
  c->values[i] = (shmt_value){.v.tensor = t, .tag = SHMT_VALUE_TENSOR};
  c->dims[i] = dim;
}

shmt_status shmt__move_dim(shmt_tensor** t, int64_t from, int64_t to) {
  int64_t order[SHMT_MAX_DIMS], n = 0;
  if (from == to) return SHMT_OK;
  for (int64_t d = 0; d < (*t)->n_dims; d++) {
    if (n == to) order[n++] = from;
    if (d != from) order[n++] = d;
  }
  if (n == to) order[n++] = from;
  shmt_tensor* moved = NULL;
  SHMT_TRY(shmt_op_permute(*t, (shmt_ints){order, (*t)->n_dims}, &moved));
  shmt__tensor_release(*t);
  *t = moved;
  return SHMT_OK;
}

shmt_status shmt__batch_to_front(shmt__batch_call* c, int i) {
  if (!shmt__batch_has(c, i)) return SHMT_OK;
  SHMT_TRY(shmt__move_dim(&c->values[i].v.tensor, c->dims[i], 0));
  c->dims[i] = 0;
  return SHMT_OK;
}

/* A new dimension of this size in front of *t, which all its elements share. */
static shmt_status expand_front(shmt_tensor** t, int64_t size) {
  int64_t sizes[SHMT_MAX_DIMS + 1] = {size};
  SHMT_AUTO(shmt_tensor) row = NULL;
  shmt_tensor* made = NULL;
  memcpy(sizes + 1, (*t)->sizes, (size_t)(*t)->n_dims * sizeof *sizes);
  SHMT_TRY(shmt_op_unsqueeze(*t, 0, &row));
  SHMT_TRY(shmt_op_expand(row, (shmt_ints){sizes, row->n_dims}, false, &made));
  shmt__tensor_release(*t);
  *t = made;
  return SHMT_OK;
}

shmt_status shmt__batch_to_front_expanded(shmt__batch_call* c, int i) {
  if (shmt__batch_has(c, i)) return shmt__batch_to_front(c, i);
  if (!shmt__batch_tensor(c, i)) return SHMT_OK;
  SHMT_TRY(expand_front(&c->values[i].v.tensor, c->batch_size));
  c->dims[i] = 0;
  return SHMT_OK;
}

shmt_status shmt__batch_pad_rank(shmt__batch_call* c, int i, int rank) {
  const int from = shmt__batch_rank(c, i);
  if (!shmt__batch_has(c, i) || from >= rank) return SHMT_OK;
  shmt_tensor* t = shmt__batch_tensor(c, i);
  int64_t sizes[SHMT_MAX_DIMS + 1];
  SHMT_REQUIRE(rank < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "vmap: tensor has too many (>%d) dims: %d", SHMT_MAX_DIMS,
               rank + 1);
  sizes[0] = c->batch_size;
  for (int d = 1; d <= rank - from; d++) sizes[d] = 1;
  for (int d = 1; d <= from; d++) sizes[rank - from + d] = t->sizes[d];
  shmt_tensor* padded = NULL;
  SHMT_TRY(shmt_op_view(t, (shmt_ints){sizes, rank + 1}, &padded));
  shmt__batch_set(c, i, padded, 0);
  return SHMT_OK;
}

shmt_status shmt__merge_dims(shmt_tensor** t, int d) {
  int64_t sizes[SHMT_MAX_DIMS];
  const int n = (*t)->n_dims - 1;
  shmt_tensor* made = NULL;
  for (int k = 0; k < n; k++) sizes[k] = (*t)->sizes[k <= d ? k : k + 1];
  sizes[d] *= (*t)->sizes[d + 1];
  SHMT_TRY(shmt_op_reshape(*t, (shmt_ints){sizes, n}, &made));
  shmt__tensor_release(*t);
  *t = made;
  return SHMT_OK;
}

shmt_status shmt__split_dim(shmt_tensor** t, int d, int64_t outer) {
  int64_t sizes[SHMT_MAX_DIMS + 1];
  const int n = (*t)->n_dims + 1;
  shmt_tensor* made = NULL;
  for (int k = 0; k < n; k++) sizes[k] = (*t)->sizes[k <= d ? k : k - 1];
  sizes[d] = outer;
  sizes[d + 1] = outer ? (*t)->sizes[d] / outer : 0;
  SHMT_TRY(shmt_op_reshape(*t, (shmt_ints){sizes, n}, &made));
  shmt__tensor_release(*t);
  *t = made;
  return SHMT_OK;
}

shmt_status shmt__batch_merge_dims(shmt__batch_call* c, int i, int d) {
  return shmt__merge_dims(&c->values[i].v.tensor, d);
}

shmt_status shmt__batch_call_with(shmt__batch_call* c, const shmt_value* values) {
  return shmt__operator_call(c->op, false, 0, values, c->results);
}

shmt_status shmt__batch_call_self(shmt__batch_call* c) { return shmt__batch_call_with(c, c->values); }

shmt_tensor** shmt__batch_result(shmt__batch_call* c, int r) {
  return c->results[r].tag == SHMT_VALUE_TENSOR && c->results[r].v.tensor ? &c->results[r].v.tensor : NULL;
}

shmt_status shmt__batch_split_results(shmt__batch_call* c) {
  for (int r = 0; r < c->op->schema->n_returns; r++) {
    shmt_tensor** t = shmt__batch_result(c, r);
    if (t) SHMT_TRY(shmt__split_dim(t, 0, c->batch_size));
  }
  return SHMT_OK;
}

void shmt__batch_give(shmt__batch_call* c, int r, shmt_tensor* t) {
  shmt__value_fini(&c->results[r]);
  c->results[r] = (shmt_value){.v.tensor = t, .tag = t ? SHMT_VALUE_TENSOR : SHMT_VALUE_NONE};
}
