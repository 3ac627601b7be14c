/* ops/dtype_names.h -- the names of dtypes and devices that torch's messages use. */
#ifndef SHMT_OPS_DTYPE_NAMES_H
#define SHMT_OPS_DTYPE_NAMES_H

#include "base/dtype.h"

/* "float", "long int", "c10::Half": the C name of a dtype, where torch's messages use that. */
const char* shmt__dtype_ctype(shmt_dtype dtype);

static inline const char* shmt__device_name(shmt_device device) { return device == SHMT_META ? "meta" : "cpu"; }

#endif
