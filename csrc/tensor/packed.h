/* tensor/packed.h -- tensors as the bytes that travel between processes.
 *
 *   0        56      60    61       62     64       72            72 + 8*n        72 + 16*n
 *   +--------+-------+-----+--------+------+--------+-------------+---------------+
 *   | handle | check |dtype| n_dims | bits | offset | sizes       | strides       |
 *   +--------+-------+-----+--------+------+--------+-------------+---------------+
 *
 * `check` is a keyed checksum of what follows it, with the handle's key. `bits` says whether the tensor is a conj or a
 * neg view.
 */
#ifndef SHMT_TENSOR_PACKED_H
#define SHMT_TENSOR_PACKED_H

#include "ipc/handle/handle.h"
#include "tensor/tensor.h"

typedef struct shmt__packed_tensor {
  shmt__handle handle;
  uint32_t check;
  uint8_t dtype, n_dims;
  uint16_t bits; /* SHMT_TENSOR_CONJ, SHMT_TENSOR_NEG */
  int64_t offset;
  int64_t dims[2 * SHMT_MAX_DIMS]; /* only 2 * n_dims of them travel */
} shmt__packed_tensor;
_Static_assert(offsetof(shmt__packed_tensor, dims) == 72, "packed tensors travel as bytes");

/* The bytes of a tensor, with a lease on the block of s: its storage, or a copy of that in shared memory.
 * Errors: SHMT_E_RUNTIME (s is not shared), SHMT_E_HANDLE (its session is gone). */
shmt_status shmt__tensor_pack(const shmt_tensor* t, shmt_storage* s, shmt__packed_tensor* out, size_t* out_nbytes);
/* The tensor of such bytes, over the same memory; ends the lease. The bytes may come from an untrusted process.
 * Errors: SHMT_E_HANDLE with the values. New reference. */
shmt_status shmt__tensor_unpack(const void* data, size_t nbytes, shmt_tensor** out);

#endif
