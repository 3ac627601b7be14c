/* ops/pooling/pool.h -- max pooling for callers inside the library. */
#ifndef SHMT_OPS_POOLING_POOL_H
#define SHMT_OPS_POOLING_POOL_H

#include "base/error.h"
#include "base/types.h"

/* Max pooling over the last n dims of a CPU tensor, without indices; not recorded by autograd. New reference. Errors:
 * those of max_pool1d to 3d. */
shmt_status shmt__max_pool_without_indices(const char* name, int n, shmt_tensor* self, shmt_ints kernel_size,
                                           shmt_ints stride, shmt_ints padding, shmt_ints dilation, bool ceil_mode,
                                           shmt_tensor** out);

#endif
