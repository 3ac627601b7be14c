/* api/tensor.h -- tensors by address, for the parts of the Python package behind cffi.
 *
 * A tensor reaches Python's side of cffi as the number `_cdata`, borrowed; a new one is stored in a place, from which
 * `_tensor_from_place` takes it. Functions that return int return a status.
 */
#ifndef SHMT_API_TENSOR_H
#define SHMT_API_TENSOR_H

#include <stdint.h>

#include "api/storage.h"

typedef struct shmt_tensor shmt_tensor;

/* A tensor over s (retained) with the given geometry in elements; strides NULL: row-major.
 * Errors: SHMT_E_RUNTIME when it does not fit into s. *out is a new reference. */
int shmt_tensor_from_storage(shmt_storage* s, const int64_t* sizes, const int64_t* strides, int64_t n_dims,
                             int64_t storage_offset, int dtype, shmt_tensor** out);
/* Release *place and make it NULL; for an object that owns the place before a function here fills it. */
void shmt_tensor_clear(shmt_tensor** place);

#endif
