/* ops/check.c -- refusals of dtypes. */
#include "ops/check.h"

#include "base/dtype.h"

shmt_status shmt__no_kernel(const char* what, shmt_dtype dtype) {
  SHMT_FAIL(SHMT_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", what, shmt__dtype_title(dtype));
}

shmt_status shmt__check_scalar_type(const shmt_tensor* t, shmt_dtype expected) {
  SHMT_REQUIRE(t->dtype == expected, SHMT_E_RUNTIME, "expected scalar type %s but found %s",
               shmt__dtype_title(expected), shmt__dtype_title(t->dtype));
  return SHMT_OK;
}

shmt_status shmt__check_float_dtype(const char* name, const shmt_tensor* t) {
  SHMT_REQUIRE(shmt__is_floating(t->dtype) || shmt__is_complex(t->dtype), SHMT_E_RUNTIME,
               "%s: Expected a floating point or complex tensor as input. Got %s", name, shmt__dtype_title(t->dtype));
  return SHMT_OK;
}
