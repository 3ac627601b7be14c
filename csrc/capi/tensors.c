/* capi/tensors.c -- tensors as DLPack's structures, over storages. */
#include "capi/tensors.h"

#include "base/overflow.h"
#include "capi/dlpack_dtype.h"
#include "generated/dtype_tables.h"
#include "ipc/handle/share.h"
#include "ipc/session/session.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- geometry --- */

/* Bytes from the first element to behind the last one; 0: there are none. False: more than 2^63. */
static bool span_of(const shmt__geometry* g, int64_t* out_nbytes) {
  const int64_t item = shmt__dtype_size[g->dtype];
  int64_t last = 0, reach = 0, count = 1;
  *out_nbytes = 0;
  for (int i = 0; i < g->n_dims; i++) {
    const int64_t size = g->dims[i], stride = g->dims[g->n_dims + i];
    if (size == 0) return true;
    if (!shmt__mul_i64(count, size, &count) || !shmt__mul_i64(size - 1, stride, &reach) ||
        !shmt__add_i64(last, reach, &last))
      return false;
  }
  return shmt__add_i64(last, 1, &last) && shmt__mul_i64(last, item, out_nbytes);
}

shmt_status shmt__geometry_check(const shmt__geometry* g, const shmt_storage* s, const char* what) {
  const int64_t item = shmt__dtype_size[g->dtype];
  int64_t span = 0, begin = 0, end = 0;
  for (int i = 0; i < 2 * g->n_dims; i++)
    SHMT_REQUIRE(g->dims[i] >= 0, SHMT_E_HANDLE, "%s: a tensor with %s %" PRId64, what,
                 i < g->n_dims ? "a size of" : "a stride of", g->dims[i]);
  const bool fits = g->offset >= 0 && span_of(g, &span) && shmt__mul_i64(g->offset, item, &begin) &&
                    shmt__add_i64(begin, span, &end) && (span == 0 || (uint64_t)end <= s->nbytes);
  SHMT_REQUIRE(fits, SHMT_E_HANDLE, "%s: a tensor of %" PRId64 " bytes at element %" PRId64 " of %" PRIu64 " bytes",
               what, span, g->offset, s->nbytes);
  return SHMT_OK;
}

shmtensor_status shmt__geometry_of(const char* function, DLDataType dtype, int ndim, const int64_t* shape,
                                   shmt__geometry* out, uint64_t* out_nbytes) {
  SHMT_NEED_THAT(ndim >= 0 && ndim <= SHMT_MAX_DIMS, "%s(): ndim must be 0 to %d, got %d", function, SHMT_MAX_DIMS,
                 ndim);
  SHMT_NEED_THAT(ndim == 0 || shape != NULL, "%s(): shape is NULL", function);
  *out = (shmt__geometry){.dtype = shmt__dtype_of_dl(dtype), .n_dims = ndim};
  if (out->dtype == SHMT_DTYPE_NONE)
    return shmt__public_fail(SHMTENSOR_E_TYPE, "%s(): there is no dtype of code %d with %d bits and %d lanes", function,
                             dtype.code, dtype.bits, dtype.lanes);
  int64_t dense = 1, nbytes = 0;
  for (int i = ndim - 1; i >= 0; i--) {
    SHMT_NEED_THAT(shape[i] >= 0, "%s(): size %d of the shape is %" PRId64, function, i, shape[i]);
    out->dims[i] = shape[i];
    out->dims[ndim + i] = dense;
    SHMT_NEED_THAT(shmt__mul_i64(dense, shape[i] > 0 ? shape[i] : 1, &dense), "%s(): the shape is too large", function);
  }
  SHMT_NEED_THAT(span_of(out, &nbytes), "%s(): the shape is too large", function);
  *out_nbytes = (uint64_t)nbytes;
  return SHMTENSOR_OK;
}

/* --- to programs --- */

typedef struct exported {
  DLManagedTensorVersioned managed; /* first: the deleter gets its address */
  shmt_storage* storage;            /* owned and pinned */
  int64_t dims[];
} exported;

static void delete_exported(DLManagedTensorVersioned* m) {
  if (m == NULL) return;
  exported* e = (exported*)m;
  (void)atomic_fetch_sub_explicit(&e->storage->exports, 1, memory_order_release);
  shmt__storage_release(e->storage);
  free(e);
}

shmtensor_status shmt__tensor_export(shmt_storage* s, const shmt__geometry* g, DLManagedTensorVersioned** out) {
  const size_t n = (size_t)g->n_dims;
  exported* e = malloc(sizeof *e + 2 * n * sizeof e->dims[0]);
  if (e == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "a tensor of %zu dimensions", n);
  char* data = s->data != NULL ? (char*)s->data + g->offset * shmt__dtype_size[g->dtype] : NULL;
  memcpy(e->dims, g->dims, 2 * n * sizeof e->dims[0]);
  /* Consumers that ask for compact memory look at strides that do not matter as well. */
  for (size_t i = 0; i < n; i++)
    if (e->dims[i] == 1) e->dims[n + i] = 1;
  e->storage = s;
  shmt__storage_retain(s);
  /* relaxed: the reference keeps the storage. */
  (void)atomic_fetch_add_explicit(&s->exports, 1, memory_order_relaxed);
  e->managed = (DLManagedTensorVersioned){
      .version = {1, 0},
      .manager_ctx = e,
      .deleter = delete_exported,
      .flags = shmt__storage_has(s, SHMT_STORAGE_READ_ONLY) ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
      .dl_tensor = {.data = data,
                    .device = {.device_type = kDLCPU},
                    .ndim = g->n_dims,
                    .dtype = shmt__dl_of_dtype(g->dtype),
                    .shape = e->dims,
                    .strides = e->dims + n},
  };
  *out = &e->managed;
  return SHMTENSOR_OK;
}

/* --- from programs --- */

static void drop(void* arg, void* data) {
  DLManagedTensorVersioned* m = arg;
  (void)data;
  if (m->deleter != NULL) m->deleter(m);
}

static shmtensor_status read_geometry(const char* function, const DLTensor* dl, shmt__geometry* out) {
  if (dl->device.device_type != kDLCPU)
    return shmt__public_fail(SHMTENSOR_E_TYPE, "%s(): the tensor is on device type %d, only the CPU (%d) is supported",
                             function, (int)dl->device.device_type, (int)kDLCPU);
  uint64_t dense_bytes = 0;
  SHMT_PASS(shmt__geometry_of(function, dl->dtype, dl->ndim, dl->shape, out, &dense_bytes));
  for (int i = 0; dl->strides != NULL && i < dl->ndim; i++) {
    SHMT_NEED_THAT(dl->strides[i] >= 0 || dl->shape[i] <= 1, "%s(): stride %d of the tensor is %" PRId64, function, i,
                   dl->strides[i]);
    out->dims[dl->ndim + i] = dl->shape[i] <= 1 && dl->strides[i] < 0 ? 1 : dl->strides[i];
  }
  return SHMTENSOR_OK;
}

/* One of our own: the same storage. Its owner may have made the structure describe a part of the tensor. */
static shmtensor_status take_back(const char* function, exported* e, shmt__geometry* g, shmt_storage** out) {
  const DLTensor* dl = &e->managed.dl_tensor;
  const int64_t item = shmt__dtype_size[g->dtype];
  const intptr_t begin = (intptr_t)dl->data + (intptr_t)dl->byte_offset - (intptr_t)e->storage->data;
  g->offset = begin / item;
  const bool fits = begin % item == 0 && shmt__geometry_check(g, e->storage, function) == SHMT_OK;
  SHMT_NEED_THAT(fits,
                 "%s(): a tensor of ours that was changed to lie %" PRIdPTR
                 " bytes behind the start of its storage of %" PRIu64,
                 function, begin, e->storage->nbytes);
  *out = e->storage;
  shmt__storage_retain(e->storage);
  delete_exported(&e->managed);
  return SHMTENSOR_OK;
}

shmtensor_status shmt__tensor_import(const char* function, DLManagedTensorVersioned* m, shmt_storage** out,
                                     shmt__geometry* g) {
  int64_t nbytes = 0;
  SHMT_NEED_THAT(m->version.major == 1, "%s(): version %u.%u of DLPack, expected 1", function, m->version.major,
                 m->version.minor);
  const DLTensor* dl = &m->dl_tensor;
  SHMT_PASS(read_geometry(function, dl, g));
  if (m->deleter == delete_exported) return take_back(function, (exported*)m, g, out);
  SHMT_NEED_THAT(span_of(g, &nbytes) && shmt__bytes_can_lie_at(dl->data, dl->byte_offset, (uint64_t)nbytes),
                 "%s(): %" PRId64 " bytes at offset %" PRIu64 " of %p lie outside of memory", function, nbytes,
                 dl->byte_offset, dl->data);
  const uint32_t flags = m->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? (uint32_t)SHMT_STORAGE_READ_ONLY : 0;
  char* data = nbytes > 0 ? (char*)dl->data + dl->byte_offset : dl->data;
  SHMT_PUBLIC_TRY(shmt__storage_from_blob(data, (uint64_t)nbytes, drop, m, flags, out));
  return SHMTENSOR_OK;
}

/* --- sending --- */

bool shmt__storage_is_in(const shmt_storage* s, const shmt__session* session) {
  const shmt__held_block* h = s->allocator == &shmt__allocator_managed ? s->ctx : NULL;
  return s->nbytes == 0 || (h != NULL && h->session == session && h->generation != 0 && h->map == NULL &&
                            !shmt__storage_has(s, SHMT_STORAGE_READ_ONLY));
}

void shmt__storage_copies_fini(shmt__storage_copies* copies) {
  for (uint32_t i = 0; i < copies->n; i++) {
    shmt__storage_release(copies->at[i].original);
    shmt__storage_release(copies->at[i].copy);
  }
  free(copies->at);
}

static shmt_status make_room(shmt__storage_copies* copies) {
  if (copies->n < copies->cap) return SHMT_OK;
  const uint32_t cap = copies->cap ? copies->cap * 2 : 4;
  struct shmt__storage_copy* grown = realloc(copies->at, sizeof *grown * cap);
  SHMT_REQUIRE(grown != NULL, SHMT_E_NOMEM, "copies of a message: tried to allocate %zu bytes", sizeof *grown * cap);
  copies->at = grown;
  copies->cap = cap;
  return SHMT_OK;
}

shmt_status shmt__storage_to_send(shmt_storage* s, shmt__session* session, shmt__storage_copies* copies,
                                  shmt_storage** out) {
  shmt_storage* found = shmt__storage_is_in(s, session) ? s : NULL;
  for (uint32_t i = 0; found == NULL && i < copies->n; i++)
    if (copies->at[i].original == s) found = copies->at[i].copy;
  if (found == NULL) {
    SHMT_TRY(make_room(copies));
    SHMT_TRY(shmt__storage_create_in(session, s->nbytes, &found));
    memcpy(found->data, s->data, s->nbytes);
    shmt__storage_retain(s);
    copies->at[copies->n++] = (struct shmt__storage_copy){s, found};
  }
  shmt__storage_retain(found);
  *out = found;
  return SHMT_OK;
}
