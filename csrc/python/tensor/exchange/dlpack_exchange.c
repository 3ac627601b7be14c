/* python/tensor/exchange/dlpack_exchange.c -- DLPack's table of functions, by which libraries in C exchange tensors
 * without calling methods.
 *
 * They find the table in a capsule at the attribute __dlpack_c_exchange_api__ of the type, and may keep it. "No sync":
 * no stream is waited for; the cpu has none.
 *
 * Source: the DLPack specification, version 1.3. */
#include "api/error.h"
#include "capi/dlpack_dtype.h"
#include "python/call/convert.h"
#include "python/tensor/exchange/dlpack.h"
#include "python/values/types.h"

typedef void set_error(void* context, const char* kind, const char* message);

typedef struct exchange_api {
  uint32_t major, minor;
  void* older_api; /* NULL: none */
  int (*allocate)(DLTensor* prototype, DLManagedTensorVersioned** out, void* context, set_error* fail);
  int (*managed_from_object)(void* object, DLManagedTensorVersioned** out);
  int (*managed_to_object)(DLManagedTensorVersioned* managed, void** out);
  int (*view_from_object)(void* object, DLTensor* out);
  int (*current_stream)(int device_type, int32_t device, void** out);
} exchange_api;

_Static_assert(sizeof(exchange_api) == 56 && offsetof(exchange_api, allocate) == 16, "as specified");

/* A new tensor of the prototype's shape and dtype. The interpreter lock need not be held. */
static int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context, set_error* fail) {
  shmt_dtype dtype = shmt__dtype_of_dl(prototype->dtype);
  if (prototype->device.device_type != kDLCPU || dtype == SHMT_DTYPE_NONE || prototype->ndim < 0 ||
      prototype->ndim > SHMT_MAX_DIMS || (prototype->ndim > 0 && prototype->shape == NULL)) {
    fail(context, "BufferError",
         "tensors are on the cpu, have a shape, a dtype of shmtensor and at most 64 dimensions");
    return -1;
  }
  SHMT_AUTO(shmt_tensor) t = NULL;
  shmt_ints sizes = {prototype->shape, prototype->ndim};
  shmt_status s = shmt__tensor_empty(sizes, dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &t);
  if (s != SHMT_OK) {
    fail(context, s == SHMT_E_NOMEM ? "MemoryError" : "RuntimeError", shmt_error_message());
    return -1;
  }
  *out = shmt__dl_export(t);
  if (*out != NULL) return 0;
  fail(context, "MemoryError", "no memory for the description of a tensor");
  return -1;
}

/* The tensor of an object that other libraries can be shown, or NULL with an exception. */
static const shmt_tensor* exportable(void* object) {
  if (!shmt__py_is_tensor(object)) {
    PyErr_Format(PyExc_TypeError, "expected a tensor of shmtensor, got %s", Py_TYPE((PyObject*)object)->tp_name);
    return NULL;
  }
  const shmt_tensor* t = shmt__py_tensor(object);
  return shmt__py_check_exportable(t) < 0 ? NULL : t;
}

static int managed_from_object(void* object, DLManagedTensorVersioned** out) {
  const shmt_tensor* t = exportable(object);
  if (t == NULL) return -1;
  *out = shmt__dl_export(t);
  if (*out == NULL) PyErr_NoMemory();
  return *out ? 0 : -1;
}

static int managed_to_object(DLManagedTensorVersioned* managed, void** out) {
  *out = shmt__dl_import(managed);
  return *out ? 0 : -1;
}

/* What is shown belongs to the object, and is there until the caller returns to Python. */
static int view_from_object(void* object, DLTensor* out) {
  const shmt_tensor* t = exportable(object);
  if (t == NULL) return -1;
  if (shmt__storage_has(t->storage, SHMT_STORAGE_READ_ONLY)) {
    PyErr_SetString(PyExc_BufferError, "a view of a read-only tensor could not say so; ask for a managed tensor");
    return -1;
  }
  shmt__dl_describe(t, out);
  return 0;
}

static int current_stream(int device_type, int32_t device, void** out) {
  (void)device_type;
  (void)device;
  *out = NULL;
  return 0;
}

PyObject* shmt__dl_exchange_api(void) {
  static exchange_api api = {.major = 1,
                             .minor = 3,
                             .allocate = allocate,
                             .managed_from_object = managed_from_object,
                             .managed_to_object = managed_to_object,
                             .view_from_object = view_from_object,
                             .current_stream = current_stream};
  return PyCapsule_New(&api, "dlpack_exchange_api", NULL);
}
