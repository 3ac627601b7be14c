/* ops/pointwise/conj_neg_views.h -- conj and neg views: tensors whose elements are the conjugate or negative of the
 * memory.
 *
 * Note [Conj and neg views]
 * conj() of a complex tensor is a view with a conj bit, and imag() of such a view is a view with a neg bit. A tensor
 * with a bit has the key Conjugate or Negative in its key set. View operators pass through these keys, and so do
 * operators tagged `geometry`, which do not read elements. For every other operator these keys call
 * shmt__conj_neg_fallback: it resolves the arguments to ordinary tensors, calls the kernel below, and writes changed
 * arguments back through their bits. So kernels never see a bit. Code that reads a tensor's bytes itself must run below
 * these keys or resolve first.
 */
#ifndef SHMT_OPS_POINTWISE_CONJ_NEG_VIEWS_H
#define SHMT_OPS_POINTWISE_CONJ_NEG_VIEWS_H

#include "dispatch/operator.h"
#include "tensor/tensor.h"

/* The tensor itself when it has no bit, else a copy with its values. Nothing is recorded.
 * Errors: those of the allocation. New reference. */
shmt_status shmt__resolve_conj_neg(shmt_tensor* t, shmt_tensor** out);

/* The kernel of the keys Conjugate and Negative for operators that have none of their own there: it gives the keys
 * below tensors without conj and neg bits. */
extern const shmt__kernel shmt__conj_neg_fallback;

#endif
