/* capi/tensors.h -- tensors as DLPack's structures, over storages. */
#ifndef SHMT_CAPI_TENSORS_H
#define SHMT_CAPI_TENSORS_H

#include "capi/status.h"
#include "storage/storage.h"

/* Where a tensor lies in its storage. */
typedef struct shmt__geometry {
  shmt_dtype dtype;
  int32_t n_dims;
  int64_t offset;                   /* elements */
  int64_t dims[2 * SHMT_MAX_DIMS];  /* sizes, then strides in elements */
} shmt__geometry;

/* Check a geometry that comes from outside: sizes and strides are not negative, and all elements lie in the storage.
 * what: begins the text. Errors: SHMT_E_HANDLE. */
shmt_status shmt__geometry_check(const shmt__geometry* g, const shmt_storage* s, const char* what);
/* A row-major geometry. Errors: VALUE, TYPE. *out_nbytes: what its storage needs. */
shmtensor_status shmt__geometry_of(const char* function, DLDataType dtype, int ndim, const int64_t* shape,
                                   shmt__geometry* out, uint64_t* out_nbytes);

/* A tensor that programs get: it holds the storage until its deleter is called. Errors: NO_MEMORY. */
shmtensor_status shmt__tensor_export(shmt_storage* s, const shmt__geometry* g, DLManagedTensorVersioned** out);
/* The storage and the geometry of a tensor that a program gives: ours, or a storage over the other library's memory,
 * whose end calls the deleter. Consumes the tensor on success. *out: new reference. Errors: TYPE, VALUE, NO_MEMORY. */
shmtensor_status shmt__tensor_import(const char* function, DLManagedTensorVersioned* tensor, shmt_storage** out,
                                     shmt__geometry* out_geometry);

struct shmt__session;
/* Can others of the session use the storage as it is? */
bool shmt__storage_is_in(const shmt_storage* s, const struct shmt__session* session);

/* The copies that one message or publication needs: two tensors over one storage share memory at the receiver too. */
typedef struct shmt__storage_copies {
  struct shmt__storage_copy {
    shmt_storage *original, *copy; /* owned references */
  }* at;
  uint32_t n, cap;
} shmt__storage_copies;
void shmt__storage_copies_fini(shmt__storage_copies* copies);
/* The storage to send in place of s: itself, or a copy in the session. New reference. Errors: SHMT_E_NOMEM,
 * SHMT_E_MANAGER. */
shmt_status shmt__storage_to_send(shmt_storage* s, struct shmt__session* session, shmt__storage_copies* copies,
                                  shmt_storage** out);

#endif
