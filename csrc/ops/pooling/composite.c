/* ops/pooling/composite.c -- max pooling without indices, and second derivatives of pooling. */
#include "dispatch/operator.h"
#include "dispatch/trace.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"
#include "ops/pooling/pool.h"

#include <inttypes.h>
#include <string.h>

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

shmt_status shmt__max_pool_double_backward(shmt_tensor* grad, shmt_tensor* indices, int64_t n, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) planes = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE(n >= 1 && n <= grad->n_dims && indices->n_dims == grad->n_dims, SHMT_E_RUNTIME,
               "max_pool_double_backward(): indices of size %s do not fit %" PRId64 " last dimensions of size %s",
               SHMT_SHAPE_TEXT(indices), n, SHMT_SHAPE_TEXT(grad));
  const int outer = grad->n_dims - (int)n;
  memcpy(sizes, grad->sizes, (size_t)outer * sizeof *sizes);
  sizes[outer] = 1;
  for (int d = outer; d < grad->n_dims; d++) sizes[outer] *= grad->sizes[d];
  SHMT_TRY(shmt_op_reshape(grad, (shmt_ints){sizes, outer + 1}, &planes));
  sizes[outer] = 1;
  for (int d = outer; d < indices->n_dims; d++) sizes[outer] *= indices->sizes[d];
  SHMT_TRY(shmt_op_reshape(indices, (shmt_ints){sizes, outer + 1}, &where));
  SHMT_TRY(shmt_op_gather(planes, -1, where, false, &values));
  return shmt_op_reshape(values, shmt__tensor_sizes(indices), out);
}

shmt_status shmt__adaptive_avg_pool_double_backward(shmt_tensor* grad, shmt_ints sizes, int64_t n, shmt_tensor** out) {
  SHMT_REQUIRE(n >= 1 && n <= 3 && sizes.len >= n, SHMT_E_RUNTIME,
               "adaptive_avg_pool_backward(): %" PRId64 " sizes for %" PRId64 " dimensions", sizes.len, n);
  const shmt_ints last = {sizes.data + (sizes.len - n), n};

  if (n == 1) return shmt_op_adaptive_avg_pool1d(grad, last, out);
  if (n == 2) return shmt_op_adaptive_avg_pool2d(grad, last, out);
  return shmt_op_adaptive_avg_pool3d(grad, last, out);
}
