/* autograd/recording/inplace.c -- in-place changes of tensors and views: what is refused, and the new history. */
#include "autograd/recording/inplace.h"

#include "autograd/meta.h"
#include "autograd/recording/changed_views.h"
#include "autograd/recording/copy_slices.h"
#include "autograd/recording/history.h"

shmt_status shmt__check_inplace(shmt_tensor* self, bool will_record) {
  if (!will_record || !shmt__grad_enabled()) return SHMT_OK;
  if (self->flags & SHMT_TENSOR_VIEW) {
    if (SHMT_UNLIKELY(shmt__view_has_no_history(self))) return shmt__fail_changed_view(self, false);
    if (shmt__tensor_requires_grad(self) && shmt__tensor_is_leaf(self->base))
      SHMT_FAIL(
          SHMT_E_RUNTIME,
          "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  }
  if (shmt__tensor_requires_grad(self) && shmt__tensor_is_leaf(self))
    SHMT_FAIL(SHMT_E_RUNTIME,
              "a leaf Variable that requires grad is being used in an in-place operation.");
  return SHMT_OK;
}

/* The history of a view is its base's, seen through its geometry. */
static shmt_status history_of_base(shmt_tensor* self) {
  if (!shmt__meta_of(self)) return SHMT_E_NOMEM;
  self->autograd->attr_version = shmt__tensor_version(self) - 1; /* stale */
  return shmt__meta_refresh(self);
}

shmt_status shmt__rebase_geometry(shmt_tensor* self, shmt_node* node) {
  return self->flags & SHMT_TENSOR_VIEW ? history_of_base(self) : shmt__rebase_history(self, node);
}

shmt_status shmt__rebase_history(shmt_tensor* self, shmt_node* node) {
  if (!shmt__dtype_differentiable(self->dtype)) return SHMT_OK;
  if (!(self->flags & SHMT_TENSOR_VIEW)) return shmt__set_history(self, node, 0);
  shmt_tensor* base = self->base;
  shmt_node* slices = NULL;
  SHMT_TRY(shmt__node_describe_input(node, 0, self));
  SHMT_TRY(shmt__copy_slices_create(base, self, node, &slices));
  shmt_status status = shmt__set_history(base, slices, 0);
  shmt__node_release(slices);
  return status == SHMT_OK ? history_of_base(self) : status;
}

/* CopySlices takes over the first edge of its node. A second view of the same base would make that edge lead back to
 * the first CopySlices, which owns the node: a reference cycle that is never freed. */
shmt_status shmt__rebase_histories(shmt_tensors changed, shmt_node* node) {
  for (int64_t i = 0; i < changed.len; i++) {
    shmt_tensor* t = changed.data[i];
    if (!shmt__dtype_differentiable(t->dtype)) continue;
    const bool view = (t->flags & SHMT_TENSOR_VIEW) != 0;
    SHMT_REQUIRE(!view || i == 0, SHMT_E_RUNTIME,
                 "Functions which modify views in-place must return a single Variable");
    SHMT_TRY(view ? shmt__rebase_history(t, node) : shmt__set_history(t, node, (uint32_t)i));
  }
  return SHMT_OK;
}
