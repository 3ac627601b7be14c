/* base/scalar.h -- Python numbers as shmt_scalar: what fits a dtype, loading and storing an element. */
#ifndef SHMT_BASE_SCALAR_H
#define SHMT_BASE_SCALAR_H

#include "base/error.h"
#include "base/types.h"

static inline shmt_scalar shmt__scalar_complex(double re, double im) {
  return (shmt_scalar){.v.z = {re, im}, .tag = SHMT_SCALAR_COMPLEX};
}
/* Any uint64: an INT when it fits int64, else a UINT (v.i holds the bits). */
static inline shmt_scalar shmt__scalar_uint(uint64_t u) {
  return (shmt_scalar){.v.i = (int64_t)u, .tag = u > INT64_MAX ? SHMT_SCALAR_UINT : SHMT_SCALAR_INT};
}

/* The value as another type, as C converts; complex loses its imaginary part, floats out of
 * an integer's range saturate. */
double shmt__scalar_to_double(shmt_scalar s);
int64_t shmt__scalar_to_int64(shmt_scalar s);
bool shmt__scalar_to_bool(shmt_scalar s);
void shmt__scalar_to_complex(shmt_scalar s, double out[2]);
bool shmt__scalar_is_integral(shmt_scalar s, bool include_bool);

/* The dtype of a Python number of this kind: bool, int64, the default dtype or its complex counterpart. */
shmt_dtype shmt__scalar_dtype(shmt_scalar s);

/* Write value as one element of dtype at p.
 *
 * Errors: SHMT_E_RUNTIME "value cannot be converted to type uint8_t without overflow"; negative
 *         integers wrap into unsigned dtypes while their magnitude fits. */
shmt_status shmt__scalar_store(shmt_scalar value, shmt_dtype dtype, void* p);
/* The same check, of a value that stays a scalar. */
shmt_status shmt__scalar_check(shmt_scalar value, shmt_dtype dtype);
/* shmt__scalar_store without the check: integers wrap, floats become infinite. Cannot fail. */
void shmt__scalar_store_unsafe(shmt_scalar value, shmt_dtype dtype, void* p);
/* Is value representable, as shmt__scalar_store checks? */
bool shmt__scalar_fits(shmt_scalar value, shmt_dtype dtype);
/* The element of dtype at p (any alignment). */
shmt_scalar shmt__scalar_load(const void* p, shmt_dtype dtype);

#endif
