/* autograd/forward/dual.h -- making dual tensors and taking them apart. */
#ifndef SHMT_AUTOGRAD_FORWARD_DUAL_H
#define SHMT_AUTOGRAD_FORWARD_DUAL_H

#include "autograd/forward/tangents.h"

/* *out: a view of primal with a tangent at that level, a tensor of the vmap that the level is inside of. The tangent is
 * shared where its layout is that of primal. Recorded as a view. Where forward mode is off the view has no tangent.
 * Errors: SHMT_E_RUNTIME when either has a tangent at this level already, or the sizes differ. New reference. */
shmt_status shmt__make_dual(shmt_tensor* primal, shmt_tensor* tangent, shmt__forward_number level, shmt_tensor** out);
/* *primal: a view of dual without a tangent at that level; *tangent: its tangent, or NULL. New references. */
shmt_status shmt__unpack_dual(shmt_tensor* dual, shmt__forward_number level, shmt_tensor** primal,
                              shmt_tensor** tangent);

#endif
