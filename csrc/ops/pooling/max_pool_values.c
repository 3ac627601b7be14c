/* ops/pooling/max_pool_values.c -- max pooling whose indices nobody asks for. */
#include "dispatch/operator.h"
#include "dispatch/trace.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/pooling/pool.h"

#define VALUES(N)                                                                                               \
  shmt_status shmt__max_pool##N##d_values(shmt_tensor* self, shmt_ints kernel_size, shmt_ints stride,           \
                                          shmt_ints padding, shmt_ints dilation, bool ceil_mode,                \
                                          shmt_tensor** out) {                                                  \
    SHMT_AUTO(shmt_tensor) indices = NULL;                                                                      \
    if (shmt__is_unobserved_call(shmt__tensor_keys(self)))                                                      \
      return shmt__max_pool_without_indices("max_pool" #N "d", N, self, kernel_size, stride, padding, dilation, \
                                            ceil_mode, out);                                                    \
    return shmt_op_max_pool##N##d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode, out,    \
                                               &indices);                                                       \
  }
VALUES(1)
VALUES(2)
VALUES(3)
