/* ops/distance/cosine_similarity.c -- cosine_similarity and normalize.
 *
 * Both are made of the same operators whether autograd records or not, so that their values do not depend on it: ties
 * between distances stay ties.
 */
#include "base/dtype.h"
#include "base/promote.h"
#include "dispatch/operator.h"
#include "dispatch/registry.h"
#include "dispatch/trace.h"
#include "generated/impls.h"
#include "generated/ops.h"

/* t divided by its norm along dim, which is at least eps. The bound does not contribute to the gradient. */
static shmt_status with_unit_length(shmt_tensor* t, int64_t dim, double eps, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) length = NULL;
  SHMT_AUTO(shmt_tensor) divisor = NULL;

  SHMT_TRY(shmt_op_linalg_vector_norm(t, shmt__scalar_int(2), SHMT_INTS(dim), true, SHMT_DTYPE_NONE, &length));
  if (shmt__tensor_own_keys(length) & (SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD)) {
    SHMT_TRY(shmt_op_clone(length, SHMT_MEMORY_FORMAT_NONE, &divisor));
    SHMT_KEYS_GUARD(keys);
    shmt__tls_keys.excluded |= SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD;
    SHMT_TRY(shmt_op_clamp_min_(divisor, shmt__scalar_float(eps)));
  } else {
    SHMT_TRY(shmt_op_clamp_min(length, shmt__scalar_float(eps), &divisor));
  }
  return shmt_op_div_Tensor(t, divisor, out);
}

static shmt_status cast_and_expand(shmt_tensor* t, shmt_dtype dtype, shmt_ints sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  if (t->dtype != dtype) SHMT_TRY(shmt_op_to_dtype(t, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, &cast));
  return shmt_op_expand(cast ? cast : t, sizes, false, out);
}

shmt_status shmt__cosine_similarity(shmt_tensor* x1, shmt_tensor* x2, int64_t dim, double eps, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) unit_a = NULL;
  SHMT_AUTO(shmt_tensor) unit_b = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  shmt_dtype dtype;
  int64_t sizes[SHMT_MAX_DIMS], n;

  SHMT_TRY(shmt__promote_types(x1->dtype, x2->dtype, &dtype));
  SHMT_REQUIRE(shmt__dtype_kind[dtype] == SHMT_KIND_FLOATING, SHMT_E_RUNTIME,
               "expected common dtype to be floating point, yet common dtype is %s", shmt__dtype_title(dtype));
  SHMT_REQUIRE(eps >= 0, SHMT_E_RUNTIME, "eps must be non-negative, got: %g", eps);
  SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(x1), shmt__tensor_sizes(x2), sizes, &n));
  SHMT_TRY(cast_and_expand(x1, dtype, (shmt_ints){sizes, n}, &a));
  SHMT_TRY(cast_and_expand(x2, dtype, (shmt_ints){sizes, n}, &b));
  SHMT_TRY(with_unit_length(a, dim, eps, &unit_a));
  SHMT_TRY(with_unit_length(b, dim, eps, &unit_b));
  SHMT_TRY(shmt_op_mul_Tensor(unit_a, unit_b, &product));
  return shmt_op_sum_dim_IntList(product, SHMT_INTS(dim), false, SHMT_DTYPE_NONE, out);
}

shmt_status shmt__normalize(shmt_tensor* self, shmt_scalar p, int64_t dim, double eps, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) length = NULL;
  SHMT_AUTO(shmt_tensor) divisor = NULL;

  SHMT_TRY(shmt_op_linalg_vector_norm(self, p, SHMT_INTS(dim), true, SHMT_DTYPE_NONE, &length));
  SHMT_TRY(shmt_op_clamp_min(length, shmt__scalar_float(eps), &divisor));
  return shmt_op_div_Tensor(self, divisor, out);
}
