/* autograd/vmap/parts.h -- what batching rules are made of. */
#ifndef SHMT_AUTOGRAD_VMAP_PARTS_H
#define SHMT_AUTOGRAD_VMAP_PARTS_H

#include "autograd/vmap/dispatch.h"

static inline bool shmt__batch_has(const shmt__batch_call* c, int i) { return c->dims[i] != SHMT_NOT_BATCHED; }
static inline shmt_tensor* shmt__batch_tensor(const shmt__batch_call* c, int i) {
  return c->values[i].tag == SHMT_VALUE_TENSOR ? c->values[i].v.tensor : NULL;
}
/* Dimensions of an example of a tensor argument. */
static inline int shmt__batch_rank(const shmt__batch_call* c, int i) {
  return shmt__batch_tensor(c, i)->n_dims - shmt__batch_has(c, i);
}
/* The index of an argument by its name, -1 when there is none. */
int shmt__batch_argument(const shmt__batch_call* c, const char* name);
/* Put another tensor in an argument's place (consumed), with its batch dimension. */
void shmt__batch_set(shmt__batch_call* c, int i, shmt_tensor* t, int dim);
/* Move the batch of an argument to the front, if it has one. */
shmt_status shmt__batch_to_front(shmt__batch_call* c, int i);
/* The same; a tensor without a batch is expanded to one. */
shmt_status shmt__batch_to_front_expanded(shmt__batch_call* c, int i);
/* Bring examples of an argument, whose batch is in front, to `rank` dimensions by ones after the batch. */
shmt_status shmt__batch_pad_rank(shmt__batch_call* c, int i, int rank);
/* Make dims d and d + 1 of an argument one. */
shmt_status shmt__batch_merge_dims(shmt__batch_call* c, int i, int d);
/* *t with dims d and d + 1 as one; or dim d as [outer, size / outer]. */
shmt_status shmt__merge_dims(shmt_tensor** t, int d);
shmt_status shmt__split_dim(shmt_tensor** t, int d, int64_t outer);
/* *t with dim from at to. */
shmt_status shmt__move_dim(shmt_tensor** t, int64_t from, int64_t to);
/* Call the operator itself on the values. */
shmt_status shmt__batch_call_self(shmt__batch_call* c);
/* Call the operator itself with other values; results to c->results. */
shmt_status shmt__batch_call_with(shmt__batch_call* c, const shmt_value* values);
/* The tensor of a result, to change it in place; NULL when it is none. */
shmt_tensor** shmt__batch_result(shmt__batch_call* c, int r);
/* Give all results of tensors whose first dim is batch * n two dims in its place. */
shmt_status shmt__batch_split_results(shmt__batch_call* c);
/* Store a tensor (consumed) as result r. */
void shmt__batch_give(shmt__batch_call* c, int r, shmt_tensor* t);

#endif
