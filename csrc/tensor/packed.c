/* tensor/packed.c -- tensors as the bytes that travel between processes. */
#include "tensor/packed.h"

#include "ipc/handle/export.h"
#include "ipc/handle/import.h"

#include <inttypes.h>
#include <string.h>

enum {
  HEAD_BYTES = offsetof(shmt__packed_tensor, dims),
  CHECKED_FROM = offsetof(shmt__packed_tensor, dtype),
};

shmt_status shmt__tensor_pack(const shmt_tensor* t, shmt_storage* s, shmt__packed_tensor* out, size_t* out_nbytes) {
  uint64_t secret = 0;
  size_t n = t->n_dims, nbytes = HEAD_BYTES + 2 * sizeof(int64_t) * n;
  SHMT_TRY(shmt__storage_export(s, true, &out->handle, &secret));
  out->dtype = (uint8_t)t->dtype;
  out->n_dims = t->n_dims;
  out->bits = (uint16_t)(t->flags & SHMT_TENSOR_CONJ_NEG);
  out->offset = t->offset;
  memcpy(out->dims, t->sizes, sizeof(int64_t) * n);
  memcpy(out->dims + n, t->strides, sizeof(int64_t) * n);
  out->check =
      shmt__handle_checksum(secret, (const char*)out + CHECKED_FROM, nbytes - CHECKED_FROM);
  *out_nbytes = nbytes;
  return SHMT_OK;
}

shmt_status shmt__tensor_unpack(const void* data, size_t nbytes, shmt_tensor** out) {
  shmt__packed_tensor p;
  SHMT_AUTO(shmt_storage) s = NULL;
  SHMT_REQUIRE(nbytes >= HEAD_BYTES && nbytes <= sizeof p, SHMT_E_HANDLE,
               "a packed tensor of %zu bytes, expected %d to %zu", nbytes, (int)HEAD_BYTES,
               sizeof p);
  memcpy(&p, data, nbytes);
  size_t n = p.n_dims;
  SHMT_REQUIRE(n <= SHMT_MAX_DIMS && nbytes == HEAD_BYTES + 2 * sizeof(int64_t) * n, SHMT_E_HANDLE,
               "a packed tensor of %zu bytes says it has %zu dimensions", nbytes, n);
  SHMT_REQUIRE(p.handle.magic == SHMT_HANDLE_MAGIC, SHMT_E_HANDLE,
               "not a packed tensor: it begins with %08" PRIx32, p.handle.magic);
  for (size_t i = 0; i < 2 * n; i++)
    SHMT_REQUIRE(p.dims[i] >= 0, SHMT_E_HANDLE, "a packed tensor with %s %" PRId64,
                 i < n ? "a size of" : "a stride of", p.dims[i]);
  SHMT_REQUIRE(p.dtype < SHMT_N_DTYPES, SHMT_E_HANDLE, "a packed tensor of dtype %u", p.dtype);
  SHMT_REQUIRE(shmt__conj_neg_bits_fit(p.dtype, p.bits), SHMT_E_HANDLE,
               "a packed tensor of dtype %u with bits %#x", p.dtype, (unsigned)p.bits);
  shmt__checked_bytes beside = {(const char*)&p + CHECKED_FROM, nbytes - CHECKED_FROM, p.check};
  SHMT_TRY(shmt__storage_import(&p.handle, &beside, &s));
  SHMT_TRY(shmt__tensor_from_storage(s, (shmt_ints){p.dims, (int64_t)n},
                                     (shmt_ints){p.dims + n, (int64_t)n}, p.offset, p.dtype, out));
  shmt__tensor_set_conj_neg(*out, p.bits);
  return SHMT_OK;
}
