/* autograd/recording/inplace.h -- in-place changes of tensors and views: what is refused, and the new history. */
#ifndef SHMT_AUTOGRAD_RECORDING_INPLACE_H
#define SHMT_AUTOGRAD_RECORDING_INPLACE_H

#include "autograd/node.h"

/* Call before an in-place operator that will be recorded: checks leaves and views, with torch's messages. */
shmt_status shmt__check_inplace(shmt_tensor* self, bool will_record);
/* Call after it: node becomes the history of self and, for a view, of its base, through CopySlices. */
shmt_status shmt__rebase_history(shmt_tensor* self, shmt_node* node);
/* The same for an operator that changes the geometry of self and no element: the base of a view keeps its history,
 * from which that of the view is made again. */
shmt_status shmt__rebase_geometry(shmt_tensor* self, shmt_node* node);
/* As shmt__rebase_history, for several tensors that one operator wrote to: output i of node is changed.data[i]. A view
 * among them other than the first is refused (RUNTIME); see there. */
shmt_status shmt__rebase_histories(shmt_tensors changed, shmt_node* node);

#endif
