/* autograd/recording/copy_slices.h -- the history of a base whose view was changed in place.
 *
 *   base = base_before with one region replaced by f(that region)
 *
 * Backward: outside the region the gradient of base passes unchanged; inside it goes through the node of f.
 */
#ifndef SHMT_AUTOGRAD_RECORDING_COPY_SLICES_H
#define SHMT_AUTOGRAD_RECORDING_COPY_SLICES_H

#include "autograd/node.h"

/* A CopySlices node around fn, whose edge 0 is the view before the change; edge 0 of the new node
 * is base before it. Errors: SHMT_E_NOMEM. Ownership: retains fn; *out is a new reference. */
shmt_status shmt__copy_slices_create(shmt_tensor* base, shmt_tensor* view, shmt_node* fn,
                                     shmt_node** out);
/* Is node a CopySlices node around fn? */
bool shmt__copy_slices_runs(const shmt_node* node, const shmt_node* fn);
/* Give t, which has the memory of the view after the change, the history of that view: a region of node's output. For
 * results that fn saved. Errors: SHMT_E_NOMEM. */
shmt_status shmt__copy_slices_region(shmt_node* node, shmt_tensor* t);

#endif
