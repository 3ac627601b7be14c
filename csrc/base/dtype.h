/* base/dtype.h -- the default dtype, and what a dtype is called and related to. */
#ifndef SHMT_BASE_DTYPE_H
#define SHMT_BASE_DTYPE_H

#include "base/error.h"
#include "base/types.h"
#include "generated/dtype_tables.h"

#include <stdatomic.h>

/* The dtype of Python floats; float32 at start. Set by shmt__set_default_dtype only. */
extern _Atomic(shmt_dtype) shmt__default_dtype_cell;
static inline shmt_dtype shmt__default_dtype(void) {
  /* relaxed: a setting, it publishes nothing else. */
  return atomic_load_explicit(&shmt__default_dtype_cell, memory_order_relaxed);
}
/* Errors: SHMT_E_TYPE when dtype is not floating ("only floating-point types are supported as the default type"). */
shmt_status shmt__set_default_dtype(shmt_dtype dtype);

/* bool 0, integral 1, floating 2, complex 3. */
int shmt__dtype_category(shmt_dtype dtype);

static inline bool shmt__is_complex(shmt_dtype d) { return shmt__dtype_kind[d] == SHMT_KIND_COMPLEX; }
static inline bool shmt__is_floating(shmt_dtype d) { return shmt__dtype_kind[d] == SHMT_KIND_FLOATING; }
/* float16 and bfloat16. Loops compute them in float32. */
static inline bool shmt__is_half(shmt_dtype d) { return shmt__is_floating(d) && shmt__dtype_size[d] == 2; }
/* The integer dtypes, without bool. */
static inline bool shmt__is_integral(shmt_dtype d) { return shmt__dtype_category(d) == 1; }

/* complex32 for float16, complex128 for float64, complex64 for the rest; complex stays. */
shmt_dtype shmt__to_complex_dtype(shmt_dtype dtype);
/* The dtype of a complex dtype's real part; other dtypes stay. */
shmt_dtype shmt__to_real_dtype(shmt_dtype dtype);
/* "Float", "Long", ...: how torch's messages call a dtype. */
const char* shmt__dtype_title(shmt_dtype dtype);

#endif
