/* autograd/recording/replay_views.h -- making a view again, from another tensor with the layout of its base.
 *
 * Most views are as_strided of their base. view_as_real and view_as_complex have another dtype, and a conj or neg view
 * has other bits.
 */
#ifndef SHMT_AUTOGRAD_RECORDING_REPLAY_VIEWS_H
#define SHMT_AUTOGRAD_RECORDING_REPLAY_VIEWS_H

#include "autograd/node.h"

/* How a view is made from its base. Strides and offsets count in elements of the tensor that they belong to, from the
 * start of the storage. */
typedef struct shmt__view_recipe {
  int64_t* sizes; /* n_dims sizes, then n_dims strides; malloc'ed */
  int64_t offset, base_offset;
  int n_dims;
  int16_t dtype, base_dtype;
  uint32_t bits; /* the conj and neg bits that only one of them has */
} shmt__view_recipe;

/* Record how view is made from base. Errors: SHMT_E_NOMEM; SHMT_E_NOT_IMPLEMENTED for a view as another dtype that
 * has no derivative. Release with shmt__view_recipe_fini. */
shmt_status shmt__view_recipe_init(shmt__view_recipe* r, const shmt_tensor* base, const shmt_tensor* view);
void shmt__view_recipe_fini(shmt__view_recipe* r);

/* Make the view from a tensor with the strides of base. It is recorded like any operator. New reference. Errors:
 * those of the operators. */
shmt_status shmt__view_replay(const shmt__view_recipe* r, shmt_tensor* base, shmt_tensor** out);

#endif
