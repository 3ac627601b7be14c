/* autograd/recording/connect.h -- where a tensor's gradient goes, and edges that lead there. */
#ifndef SHMT_AUTOGRAD_RECORDING_CONNECT_H
#define SHMT_AUTOGRAD_RECORDING_CONNECT_H

#include "autograd/node.h"

/* Where t's gradient goes: *out gets a new reference, or NULL when t needs none. */
shmt_status shmt__gradient_edge(shmt_tensor* t, shmt_edge* out);
/* Edge i leads to where t's gradient goes (grad_fn, or its AccumulateGrad); empty when t is NULL or
 * needs none. */
shmt_status shmt__node_connect(shmt_node* n, uint32_t i, shmt_tensor* t);

#endif
