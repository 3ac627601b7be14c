/* dispatch/value.c -- releasing an argument or result of a boxed call. */
#include "dispatch/value.h"

#include "storage/allocator.h"
#include "tensor/tensor.h"

void shmt__value_fini(shmt_value* value) {
  switch (value->tag) {
    case SHMT_VALUE_TENSOR:
      shmt__tensor_release(value->v.tensor);
      break;
    case SHMT_VALUE_TENSORS:
      for (int64_t i = 0; i < value->v.tensors.len; i++)
        shmt__tensor_release(value->v.tensors.data[i]);
      if (value->v.tensors.data)
        shmt__dealloc((void*)value->v.tensors.data,
                      (uint64_t)value->v.tensors.len * sizeof(shmt_tensor*));
      break;
    case SHMT_VALUE_STORAGE:
      shmt__storage_release(value->v.storage);
      break;
    default:
      break;
  }
  *value = (shmt_value){.tag = SHMT_VALUE_NONE};
}
