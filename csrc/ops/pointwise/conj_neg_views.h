/* ops/pointwise/conj_neg_views.h -- tensors that are the conjugate or the negative of what lies in memory.
 *
 * Note [Conj and neg views]
 * conj() of a complex tensor is a view with a bit set, and so is imag() of such a view, with another
 * bit. Tensors with a bit have the key Conjugate or Negative in their key set. Views pass on through
 * these keys, and so do operators tagged `geometry`, which do not look at elements; of all others
 * the row is filled with shmt__conj_neg_fallback. It makes ordinary tensors of the arguments, calls
 * what is below, and writes what was written to back behind the bits. So kernels never see a bit, and
 * code that reads a tensor's bytes itself must be below these keys or resolve first.
 */
#ifndef SHMT_OPS_POINTWISE_CONJ_NEG_VIEWS_H
#define SHMT_OPS_POINTWISE_CONJ_NEG_VIEWS_H

#include "dispatch/operator.h"
#include "tensor/tensor.h"

/* The tensor itself when it has no bit, else its values in memory of their own, not recorded.
 * Errors: of the allocation. New reference. */
shmt_status shmt__resolve_conj_neg(shmt_tensor* t, shmt_tensor** out);

#endif
