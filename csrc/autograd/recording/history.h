/* autograd/recording/history.h -- giving outputs their node. */
#ifndef SHMT_AUTOGRAD_RECORDING_HISTORY_H
#define SHMT_AUTOGRAD_RECORDING_HISTORY_H

#include "autograd/node.h"

/* out becomes output number nr of node (borrows node; out keeps its own reference). Integral
 * outputs are left alone. */
shmt_status shmt__set_history(shmt_tensor* out, shmt_node* node, uint32_t nr);
/* Forward output i looks like t; set_history does this too. Errors: SHMT_E_NOMEM. */
shmt_status shmt__node_describe_input(shmt_node* n, uint32_t i, const shmt_tensor* t);

#endif
