/* ops/dtype_names.h -- dtype predicates and the names that torch's messages use. */
#ifndef SHMT_OPS_DTYPE_NAMES_H
#define SHMT_OPS_DTYPE_NAMES_H

#include "base/dtype.h"
#include "generated/dtype_tables.h"

static inline bool shmt__is_complex(shmt_dtype d) { return shmt__dtype_category(d) == 3; }
static inline bool shmt__is_floating(shmt_dtype d) { return shmt__dtype_category(d) == 2; }
/* The integer dtypes, without bool. */
static inline bool shmt__is_integral(shmt_dtype d) { return shmt__dtype_category(d) == 1; }
/* float16 and bfloat16. Loops compute them in float32. */
static inline bool shmt__is_half(shmt_dtype d) { return shmt__is_floating(d) && shmt__dtype_size[d] == 2; }

/* "float", "long int", "c10::Half": the C name of a dtype, where torch's messages use that. */
const char* shmt__dtype_ctype(shmt_dtype dtype);

static inline const char* shmt__device_name(shmt_device device) { return device == SHMT_META ? "meta" : "cpu"; }

#endif
