/* dispatch/value.h -- one argument or result of a boxed call.
 *
 * Arguments are borrowed; results are owned by the receiver (tensors are new references,
 * a tensor list's array and elements are released by shmt__value_fini).
 */
#ifndef SHMT_DISPATCH_VALUE_H
#define SHMT_DISPATCH_VALUE_H

#include "base/types.h"

typedef enum shmt_value_tag {
  SHMT_VALUE_NONE,
  SHMT_VALUE_TENSOR,
  SHMT_VALUE_TENSORS,
  SHMT_VALUE_SCALAR,
  SHMT_VALUE_INT, /* also dtype, layout, device, memory format: the schema says which */
  SHMT_VALUE_FLOAT,
  SHMT_VALUE_BOOL,
  SHMT_VALUE_INTS,
  SHMT_VALUE_FLOATS,
  SHMT_VALUE_STR,
  SHMT_VALUE_GENERATOR,
  SHMT_VALUE_STORAGE,
} shmt_value_tag;

typedef struct shmt_value {
  union {
    shmt_tensor* tensor;
    shmt_tensors tensors;
    shmt_scalar scalar;
    int64_t i;
    double d;
    bool b;
    shmt_ints ints;
    shmt_floats floats;
    const char* str;
    shmt_generator* generator;
    shmt_storage* storage;
  } v;
  shmt_value_tag tag;
} shmt_value;

/* Release an owned value (a result); sets it to none. */
void shmt__value_fini(shmt_value* value);

/* Release a list that an operator returned; it becomes empty. */
static inline void shmt__tensor_vec_fini(shmt_tensor_vec* list) {
  if (!list->data) return;
  shmt_value owned = {.v.tensors = {list->data, list->len}, .tag = SHMT_VALUE_TENSORS};
  shmt__value_fini(&owned);
  *list = (shmt_tensor_vec){0, 0};
}

#endif
