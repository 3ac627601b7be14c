/* capi/dlpack_dtype.h -- dtypes as DLPack says them. */
#ifndef SHMT_CAPI_DLPACK_DTYPE_H
#define SHMT_CAPI_DLPACK_DTYPE_H

#include "base/types.h"
#include "capi/shmtensor_dlpack.h"

_Static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, shape) == 24, "as specified");
_Static_assert(offsetof(DLManagedTensor, deleter) == 56, "as specified");
_Static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32, "as specified");

DLDataType shmt__dl_of_dtype(shmt_dtype dtype);
/* SHMT_DTYPE_NONE: we have none like it. */
shmt_dtype shmt__dtype_of_dl(DLDataType type);

#endif
