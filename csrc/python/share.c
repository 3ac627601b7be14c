/* python/share.c -- tensors to and from the bytes that travel between processes.
 *
 *   0        48      52    53       54     56       64            64 + 8*n        64 + 16*n
 *   +--------+-------+-----+--------+------+--------+-------------+---------------+
 *   | handle | check |dtype| n_dims | zero | offset | sizes       | strides       |
 *   +--------+-------+-----+--------+------+--------+-------------+---------------+
 *
 * `check` covers what follows it. These functions are what a queue costs, so they are C from the
 * call to the bytes; what needs Python (gradients, hooks, subclasses) is decided in
 * multiprocessing/reductions.py.
 */
#include "python/share.h"

#include "ipc/share.h"
#include "python/tensor_type.h"

#include <inttypes.h>
#include <string.h>

typedef struct packed_head {
  shmt__handle handle;
  uint32_t check;
  uint8_t dtype, n_dims;
  uint16_t zero;
  int64_t offset;
} packed_head;
_Static_assert(sizeof(packed_head) == 64, "packed tensors travel as bytes");

enum { CHECKED_FROM = offsetof(packed_head, dtype), COPY_BYTES = 1 << 16 };

typedef struct packed_tensor {
  packed_head head;
  int64_t dims[2 * SHMT_MAX_DIMS];
} packed_tensor;

static PyObject*
    rebuild_function;         /* _C._rebuild_shared_tensor, owned; both NULL until registered */
static PyObject* slow_reduce; /* what reduces tensors that need Python, owned */

/* Share the storage, without the interpreter lock when there is much to copy. */
static shmt_status share_storage(shmt_storage* s) {
  shmt_status status;
  if (shmt__storage_is_shared(s)) return SHMT_OK;
  if (s->nbytes < COPY_BYTES) return shmt__storage_share(s);
  PyThreadState* saved = PyEval_SaveThread();
  status = shmt__storage_share(s);
  PyEval_RestoreThread(saved);
  return status;
}

/* The bytes of a tensor, with a lease on its block. */
static PyObject* pack(shmt_tensor* t) {
  packed_tensor p;
  uint64_t secret = 0;
  size_t n = t->n_dims, nbytes = sizeof p.head + 2 * sizeof(int64_t) * n;
  shmt_status status = share_storage(t->storage);
  if (status == SHMT_OK) status = shmt__storage_export(t->storage, true, &p.head.handle, &secret);
  if (status != SHMT_OK) return shmt__py_raise(status);
  p.head.dtype = (uint8_t)t->dtype;
  p.head.n_dims = t->n_dims;
  p.head.zero = 0;
  p.head.offset = t->offset;
  memcpy(p.dims, t->sizes, sizeof(int64_t) * n);
  memcpy(p.dims + n, t->strides, sizeof(int64_t) * n);
  p.head.check =
      shmt__handle_checksum(secret, (const char*)&p + CHECKED_FROM, nbytes - CHECKED_FROM);
  return PyBytes_FromStringAndSize((const char*)&p, (Py_ssize_t)nbytes);
}

static PyObject* py_pack(PyObject* module, PyObject* o) {
  (void)module;
  if (!shmt__py_is_tensor(o))
    return PyErr_Format(PyExc_TypeError, "_pack_shared_tensor(): expected a Tensor, got %s",
                        Py_TYPE(o)->tp_name);
  return pack(shmt__py_tensor(o));
}

/* The reduction of the pickler's table. */
static PyObject* py_reduce(PyObject* module, PyObject* o) {
  (void)module;
  if (!shmt__py_is_tensor(o))
    return PyErr_Format(PyExc_TypeError, "_reduce_shared_tensor(): expected a Tensor, got %s",
                        Py_TYPE(o)->tp_name);
  if (slow_reduce == NULL)
    return PyErr_Format(PyExc_RuntimeError,
                        "_reduce_shared_tensor(): shmtensor.multiprocessing is not imported");
  shmt_tensor* t = shmt__py_tensor(o);
  bool is_plain = Py_TYPE(o) == shmt__py_tensor_type && t->autograd == NULL &&
                  !shmt__tensor_is_meta(t) && !(shmt__tensor_keys(t) & SHMT_KEYBIT_Autograd) &&
                  !(t->flags & (SHMT_TENSOR_CONJ | SHMT_TENSOR_NEG));
  if (!is_plain) return PyObject_CallOneArg(slow_reduce, o);
  PyObject* bytes = pack(t);
  if (bytes == NULL) return NULL;
  PyObject* args = PyTuple_Pack(1, bytes);
  Py_DECREF(bytes);
  if (args == NULL) return NULL;
  PyObject* result = PyTuple_Pack(2, rebuild_function, args);
  Py_DECREF(args);
  return result;
}

/* Bytes of this length are a packed tensor or raise. */
static shmt_status unpack(const char* data, size_t nbytes, shmt_tensor** out) {
  packed_tensor p;
  SHMT_AUTO(shmt_storage) s = NULL;
  SHMT_REQUIRE(nbytes >= sizeof p.head && nbytes <= sizeof p, SHMT_E_HANDLE,
               "a packed tensor of %zu bytes, expected %zu to %zu", nbytes, sizeof p.head,
               sizeof p);
  memcpy(&p, data, nbytes);
  size_t n = p.head.n_dims;
  SHMT_REQUIRE(n <= SHMT_MAX_DIMS && nbytes == sizeof p.head + 2 * sizeof(int64_t) * n,
               SHMT_E_HANDLE, "a packed tensor of %zu bytes says it has %zu dimensions", nbytes, n);
  SHMT_REQUIRE(p.head.handle.magic == SHMT_HANDLE_MAGIC, SHMT_E_HANDLE,
               "not a packed tensor: it begins with %08" PRIx32, p.head.handle.magic);
  shmt__beside beside = {(const char*)&p + CHECKED_FROM, nbytes - CHECKED_FROM, p.head.check};
  SHMT_TRY(shmt__storage_import(&p.head.handle, &beside, &s));
  SHMT_REQUIRE(p.head.dtype < SHMT_N_DTYPES, SHMT_E_HANDLE, "a packed tensor of dtype %u",
               p.head.dtype);
  return shmt__tensor_from_storage(s, (shmt_ints){p.dims, (int64_t)n},
                                   (shmt_ints){p.dims + n, (int64_t)n}, p.head.offset, p.head.dtype,
                                   out);
}

static PyObject* py_rebuild(PyObject* module, PyObject* o) {
  char* data = NULL;
  Py_ssize_t nbytes = 0;
  shmt_tensor* t = NULL;
  (void)module;
  if (PyBytes_AsStringAndSize(o, &data, &nbytes) < 0) return NULL;
  shmt_status status = unpack(data, (size_t)nbytes, &t);
  return status == SHMT_OK ? shmt__py_wrap(t) : shmt__py_raise(status);
}

/* --- storages, by address --- */

static PyObject* py_pack_storage(PyObject* module, PyObject* o) {
  shmt__handle h;
  (void)module;
  shmt_storage* s = PyLong_AsVoidPtr(o);
  if (s == NULL)
    return PyErr_Occurred() ? NULL
                            : PyErr_Format(PyExc_ValueError, "_pack_shared_storage(): address 0");
  shmt_status status = share_storage(s);
  if (status == SHMT_OK) status = shmt__storage_export(s, true, &h, NULL);
  return status == SHMT_OK ? PyBytes_FromStringAndSize((const char*)&h, sizeof h)
                           : shmt__py_raise(status);
}

static PyObject* py_rebuild_storage(PyObject* module, PyObject* o) {
  char* data = NULL;
  Py_ssize_t nbytes = 0;
  shmt__handle h;
  shmt_storage* s = NULL;
  (void)module;
  if (PyBytes_AsStringAndSize(o, &data, &nbytes) < 0) return NULL;
  if (nbytes != sizeof h)
    return shmt__py_raise(
        shmt__fail(SHMT_E_HANDLE, "a packed storage of %zd bytes, expected %zu", nbytes, sizeof h));
  memcpy(&h, data, sizeof h);
  shmt_status status = shmt__storage_import(&h, NULL, &s);
  return status == SHMT_OK ? PyLong_FromVoidPtr(s) : shmt__py_raise(status);
}

static PyObject* py_set_slow_reduce(PyObject* module, PyObject* o) {
  PyObject* rebuild = PyObject_GetAttrString(module, "_rebuild_shared_tensor");
  if (rebuild == NULL) return NULL;
  Py_XSETREF(rebuild_function, rebuild);
  Py_INCREF(o);
  Py_XSETREF(slow_reduce, o);
  Py_RETURN_NONE;
}

PyMethodDef shmt__py_share_functions[] = {
    {"_set_slow_reduce", py_set_slow_reduce, METH_O,
     "Name the function that reduces tensors which need Python."},
    {"_reduce_shared_tensor", py_reduce, METH_O,
     "The reduction of a tensor for messages between processes."},
    {"_pack_shared_tensor", py_pack, METH_O,
     "Share a tensor's storage; bytes that rebuild the tensor once elsewhere."},
    {"_rebuild_shared_tensor", py_rebuild, METH_O,
     "The tensor of _pack_shared_tensor's bytes, over the same memory."},
    {"_pack_shared_storage", py_pack_storage, METH_O, "The same for the storage at an address."},
    {"_rebuild_shared_storage", py_rebuild_storage, METH_O,
     "Address of a storage, carrying a reference."},
    {NULL, NULL, 0, NULL},
};
