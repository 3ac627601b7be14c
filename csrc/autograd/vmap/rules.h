/* autograd/vmap/rules.h -- batching rules.
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
shmt_status shmt__batch_masked_select(shmt__batch_call* c);
shmt_status shmt__batch_attention(shmt__batch_call* c);


#endif
