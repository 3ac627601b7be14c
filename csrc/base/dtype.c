/* base/dtype.c -- the default dtype, and what a dtype is called and related to. */
#include "base/dtype.h"

#include "generated/dtype_tables.h"

_Atomic(shmt_dtype) shmt__default_dtype_cell = SHMT_FLOAT32;

shmt_status shmt__set_default_dtype(shmt_dtype dtype) {
  SHMT_REQUIRE(dtype >= 0 && dtype < SHMT_N_DTYPES && shmt__dtype_category(dtype) == 2, SHMT_E_TYPE,
               "only floating-point types are supported as the default type");
  atomic_store_explicit(&shmt__default_dtype_cell, dtype, memory_order_relaxed);
  return SHMT_OK;
}

int shmt__dtype_category(shmt_dtype dtype) {
  static const uint8_t of_kind[] = {
      [SHMT_KIND_BOOL] = 0, [SHMT_KIND_UNSIGNED] = 1, [SHMT_KIND_SIGNED] = 1, [SHMT_KIND_FLOATING] = 2,
      [SHMT_KIND_COMPLEX] = 3,
  };
  return of_kind[shmt__dtype_kind[dtype]];
}

shmt_dtype shmt__to_complex_dtype(shmt_dtype dtype) {
  if (shmt__dtype_kind[dtype] == SHMT_KIND_COMPLEX) return dtype;
  for (shmt_dtype d = 0; d < SHMT_N_DTYPES; d++)
    if (shmt__dtype_real[d] == dtype && d != dtype) return d;
  return SHMT_COMPLEX64;
}

shmt_dtype shmt__to_real_dtype(shmt_dtype dtype) { return shmt__dtype_real[dtype]; }

const char* shmt__dtype_title(shmt_dtype dtype) {
  static const char* const titles[SHMT_N_DTYPES] = {
      [SHMT_BOOL] = "Bool",         [SHMT_UINT8] = "Byte",       [SHMT_INT8] = "Char",
      [SHMT_INT16] = "Short",       [SHMT_INT32] = "Int",        [SHMT_INT64] = "Long",
      [SHMT_UINT16] = "UInt16",     [SHMT_UINT32] = "UInt32",    [SHMT_UINT64] = "UInt64",
      [SHMT_FLOAT16] = "Half",      [SHMT_BFLOAT16] = "BFloat16", [SHMT_FLOAT32] = "Float",
      [SHMT_FLOAT64] = "Double",    [SHMT_COMPLEX64] = "ComplexFloat",
      [SHMT_COMPLEX128] = "ComplexDouble", [SHMT_COMPLEX32] = "ComplexHalf",
  };
  return dtype >= 0 && dtype < SHMT_N_DTYPES ? titles[dtype] : "Undefined";
}
