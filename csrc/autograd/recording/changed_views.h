/* autograd/recording/changed_views.h -- views that take part in no graph once what they show was changed in place. */
#ifndef SHMT_AUTOGRAD_RECORDING_CHANGED_VIEWS_H
#define SHMT_AUTOGRAD_RECORDING_CHANGED_VIEWS_H

#include "tensor/tensor.h"

enum {
  SHMT_VIEWS_WITHOUT_HISTORY =
      SHMT_TENSOR_VIEW_NO_GRAD | SHMT_TENSOR_VIEW_INFERENCE | SHMT_TENSOR_VIEW_MULTI | SHMT_TENSOR_VIEW_CUSTOM,
};

/* Has t no history of its own that an in-place change could go on from? It was made without recording, with other
 * views in one call, or by a custom function. */
static inline bool shmt__view_has_no_history(const shmt_tensor* t) {
  return (t->flags & SHMT_VIEWS_WITHOUT_HISTORY) != 0;
}

/* Fail for such a view. through_base: its base or another view was changed, and not the view itself. Returns
 * SHMT_E_RUNTIME. */
SHMT_COLD shmt_status shmt__fail_changed_view(const shmt_tensor* view, bool through_base);

#endif
