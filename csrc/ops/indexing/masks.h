/* ops/indexing/masks.h -- the elements that a mask selects. */
#ifndef SHMT_OPS_INDEXING_MASKS_H
#define SHMT_OPS_INDEXING_MASKS_H

#include "tensor/tensor.h"

/* The elements of self, one after the other, where mask (bool, of self's sizes) is set. The mask is read once. New
 * reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__select_masked(shmt_tensor* self, shmt_tensor* mask, shmt_tensor** out);

#endif
