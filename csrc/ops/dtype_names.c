/* ops/dtype_names.c -- the C names of dtypes in torch's messages. */
#include "ops/dtype_names.h"

const char* shmt__dtype_ctype(shmt_dtype dtype) {
  static const char* const names[SHMT_N_DTYPES] = {
      [SHMT_BOOL] = "bool",
      [SHMT_UINT8] = "unsigned char",
      [SHMT_INT8] = "signed char",
      [SHMT_INT16] = "short int",
      [SHMT_INT32] = "int",
      [SHMT_INT64] = "long int",
      [SHMT_UINT16] = "short unsigned int",
      [SHMT_UINT32] = "unsigned int",
      [SHMT_UINT64] = "long unsigned int",
      [SHMT_FLOAT16] = "c10::Half",
      [SHMT_BFLOAT16] = "c10::BFloat16",
      [SHMT_FLOAT32] = "float",
      [SHMT_FLOAT64] = "double",
      [SHMT_COMPLEX64] = "c10::complex<float>",
      [SHMT_COMPLEX128] = "c10::complex<double>",
      [SHMT_COMPLEX32] = "c10::complex<c10::Half>",
  };
  return dtype >= 0 && dtype < SHMT_N_DTYPES && names[dtype] ? names[dtype] : "undefined";
}
