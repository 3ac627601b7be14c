/* ops/pooling/pool.h -- pooling that no operator of its own stands for. */
#ifndef SHMT_OPS_POOLING_POOL_H
#define SHMT_OPS_POOLING_POOL_H

#include "base/error.h"
#include "base/types.h"

/* Maxima over windows of the last n dims of a CPU tensor, without their positions; not recorded. *out: a new
 * reference. Errors: those of max_pool1d to 3d. */
shmt_status shmt__max_pool_without_indices(const char* name, int n, shmt_tensor* self, shmt_ints kernel_size,
                                           shmt_ints stride, shmt_ints padding, shmt_ints dilation, bool ceil_mode,
                                           shmt_tensor** out);

#endif
