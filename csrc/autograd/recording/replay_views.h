/* autograd/recording/replay_views.h -- a view made again, of another tensor that is laid out as its base.
 *
 * Most views are as_strided of their base. A view of the parts of complex numbers, or of pairs as
 * complex numbers, has another dtype, and a conj or neg view has other bits.
 */
#ifndef SHMT_AUTOGRAD_RECORDING_REPLAY_VIEWS_H
#define SHMT_AUTOGRAD_RECORDING_REPLAY_VIEWS_H

#include "autograd/node.h"

/* How a view looks at its base's memory. Strides and offsets count in elements of the tensor they
 * belong to, from the start of the storage. */
typedef struct shmt__view_recipe {
  int64_t* sizes; /* n_dims sizes, then n_dims strides; malloc'ed */
  int64_t offset, base_offset;
  int n_dims;
  int16_t dtype, base_dtype;
  uint32_t bits; /* the conj and neg bits that only one of them has */
} shmt__view_recipe;

/* What is needed to make view, of base, again. Errors: SHMT_E_NOMEM; SHMT_E_NOT_IMPLEMENTED for a
 * reading as another dtype that has no derivative. Release with shmt__view_recipe_fini. */
shmt_status shmt__view_recipe_init(shmt__view_recipe* r, const shmt_tensor* base, const shmt_tensor* view);
void shmt__view_recipe_fini(shmt__view_recipe* r);

/* The view of a tensor with the base's strides. It is recorded where operators are. New reference.
 * Errors: of the operators. */
shmt_status shmt__view_replay(const shmt__view_recipe* r, shmt_tensor* base, shmt_tensor** out);

#endif
