/* ops/sorting/mode.h -- the most frequent element along a dim. */
#ifndef SHMT_OPS_SORTING_MODE_H
#define SHMT_OPS_SORTING_MODE_H

#include "tensor/tensor.h"

/* The most frequent element along a dim (the least of them) and its last index. values (of self's dtype) and indices
 * (int64) are dense, not empty, and have self's sizes except along dim. Fails with SHMT_E_NOMEM. */
shmt_status shmt__mode_along_dim(shmt_tensor* self, int64_t dim, shmt_tensor* values, shmt_tensor* indices);

#endif
