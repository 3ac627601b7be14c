/* capi/dlpack_dtype.c -- dtypes as DLPack says them. */
#include "capi/dlpack_dtype.h"

#include "generated/dtype_tables.h"

DLDataType shmt__dl_of_dtype(shmt_dtype dtype) {
  static const uint8_t codes[] = {[SHMT_KIND_BOOL] = kDLBool,
                                  [SHMT_KIND_UNSIGNED] = kDLUInt,
                                  [SHMT_KIND_SIGNED] = kDLInt,
                                  [SHMT_KIND_FLOATING] = kDLFloat,
                                  [SHMT_KIND_COMPLEX] = kDLComplex};
  const uint8_t code = dtype == SHMT_BFLOAT16 ? kDLBfloat : codes[shmt__dtype_kind[dtype]];
  return (DLDataType){code, (uint8_t)(shmt__dtype_size[dtype] * 8), 1};
}

shmt_dtype shmt__dtype_of_dl(DLDataType type) {
  for (int d = 0; d < SHMT_N_DTYPES; d++) {
    const DLDataType candidate = shmt__dl_of_dtype(d);
    if (candidate.code == type.code && candidate.bits == type.bits && type.lanes == 1) return d;
  }
  return SHMT_DTYPE_NONE;
}
