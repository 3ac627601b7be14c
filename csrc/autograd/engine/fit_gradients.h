/* autograd/engine/fit_gradients.h -- gradients are summed and cast to the shape and dtype of their tensor. */
#ifndef SHMT_AUTOGRAD_ENGINE_FIT_GRADIENTS_H
#define SHMT_AUTOGRAD_ENGINE_FIT_GRADIENTS_H

#include "autograd/node.h"

/* Fit *g (owned) to what target's input nr expects: sum it to the shape, cast it to the dtype. fn, index: the node
 * that delivers it, for messages; fn NULL: a root. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__grad_validate_slow(shmt_tensor** g, const shmt_edge* target, const shmt_node* fn,
                                uint32_t index);
/* Zeros as target's gradient; NULL where nothing is known of it. Errors: SHMT_E_NOMEM. */
shmt_status shmt__grad_zeros(const shmt_edge* target, shmt_tensor** out);
/* sum += other, of one shape, without dispatch. Borrows both. Errors: SHMT_E_NOMEM. */
shmt_status shmt__grad_add_inplace(shmt_tensor* sum, shmt_tensor* other);
/* *sum += g; consumes g. In place when no other holder can see the sum. Errors: those of add. */
shmt_status shmt__grad_add(shmt_tensor** sum, shmt_tensor* g);

#endif
