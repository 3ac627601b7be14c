/* autograd/vmap/rules.h -- batching rules, and what they are made of.
 *
 * `batch: name` in the specification means the rule shmt__batch_<name>; dispatch.h says what a rule gets and gives
 * (Note [Batching rules]). `batch:` with an expression says how the operator is made of others, on the tensors of one
 * example; then it needs no rule.
 */
#ifndef SHMT_AUTOGRAD_VMAP_RULES_H
#define SHMT_AUTOGRAD_VMAP_RULES_H

#include "autograd/vmap/dispatch.h"

/* --- rules for families (rules.c) --------------------------------------------------------------------- */

/* Broadcasting operators: the batch in front, missing dimensions of examples after it. */
shmt_status shmt__batch_pointwise(shmt__batch_call* c);
/* The batch in front of batched tensors, others as they are. Dimensions are counted from behind it, and sizes begin
 * with it. */
shmt_status shmt__batch_front(shmt__batch_call* c);
/* The same with the batch in front of all tensors. */
shmt_status shmt__batch_expand(shmt__batch_call* c);
/* The same, and examples with fewer dimensions get ones after the batch. */
shmt_status shmt__batch_align(shmt__batch_call* c);
/* As front, where no dimension, or none at all, means all of an example's. */
shmt_status shmt__batch_reduce(shmt__batch_call* c);
/* Reductions of everything: each example as a row, by the overload that takes a dimension. */
shmt_status shmt__batch_reduce_all(shmt__batch_call* c);
/* Operators on [N, C, ...] or [C, ...]: the batch and N are one dimension. */
shmt_status shmt__batch_merge(shmt__batch_call* c);
/* The number of results' elements depends on values. */
shmt_status shmt__batch_dynamic(shmt__batch_call* c);
shmt_status shmt__batch_allclose(shmt__batch_call* c); /* one answer for all examples would be none */

/* --- rules for single operators ------------------------------------------------------------------------ */

shmt_status shmt__batch_permute(shmt__batch_call* c);
shmt_status shmt__batch_squeeze(shmt__batch_call* c);
shmt_status shmt__batch_t(shmt__batch_call* c);
shmt_status shmt__batch_unsqueeze(shmt__batch_call* c);
shmt_status shmt__batch_grow(shmt__batch_call* c); /* expand, repeat */
shmt_status shmt__batch_as_strided(shmt__batch_call* c);
shmt_status shmt__batch_new_strided(shmt__batch_call* c);
shmt_status shmt__batch_roll(shmt__batch_call* c);
shmt_status shmt__batch_view_inplace(shmt__batch_call* c);
shmt_status shmt__batch_fill(shmt__batch_call* c);
shmt_status shmt__batch_matmul(shmt__batch_call* c);
shmt_status shmt__batch_cat(shmt__batch_call* c);
shmt_status shmt__batch_convolution(shmt__batch_call* c);
shmt_status shmt__batch_convolution_backward(shmt__batch_call* c);
shmt_status shmt__batch_batch_norm(shmt__batch_call* c);
shmt_status shmt__batch_batch_norm_backward(shmt__batch_call* c);
shmt_status shmt__batch_group_norm(shmt__batch_call* c);
shmt_status shmt__batch_group_norm_backward(shmt__batch_call* c);
shmt_status shmt__batch_layer_norm(shmt__batch_call* c);
shmt_status shmt__batch_layer_norm_backward(shmt__batch_call* c);
shmt_status shmt__batch_embedding(shmt__batch_call* c);
shmt_status shmt__batch_embedding_backward(shmt__batch_call* c);
shmt_status shmt__batch_index(shmt__batch_call* c);
shmt_status shmt__batch_index_put(shmt__batch_call* c);
shmt_status shmt__batch_index_select(shmt__batch_call* c);
shmt_status shmt__batch_index_along(shmt__batch_call* c); /* index_add, index_copy, index_fill */
shmt_status shmt__batch_attention(shmt__batch_call* c);

/* --- parts (parts.c) -------------------------------------------------------------------------------- */

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
