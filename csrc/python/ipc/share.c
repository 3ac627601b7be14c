/* python/ipc/share.c -- pickles tensors as handles and rebuilds them, and share_memory_().
 *
 * Most of the time of a queue is spent here, so this is C from the call to the bytes. Tensors that need Python
 * (gradients, hooks, subclasses) are handled in multiprocessing/reductions.py.
 */
#include "python/ipc/share.h"

#include "ipc/handle/export.h"
#include "ipc/handle/import.h"
#include "python/ipc/message_records.h"
#include "python/ipc/to_send.h"
#include "python/tensor/tensor_type.h"
#include "tensor/packed.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

static PyObject* rebuild_function; /* _C._rebuild_shared_tensor, owned */
static PyObject* slow_reduce; /* what reduces tensors that need Python, owned; NULL until set */

/* The tensor's index in the message that is being packed; without one, its handle as bytes, with a lease on its
 * block. */
static PyObject* pack_tensor(shmt_tensor* t) {
  SHMT_AUTO(shmt_storage) s = NULL;
  shmt__packed_tensor p;
  size_t nbytes = 0;
  shmt_status status = shmt__py_storage_to_send(t->storage, shmt__py_writer_session(), &s);
  int64_t place = status == SHMT_OK ? shmt__py_writer_offer(t, &s) : -1;
  if (place >= 0) return PyLong_FromLongLong(place);
  if (place == -2) return NULL;
  if (status == SHMT_OK) status = shmt__tensor_pack(t, s, &p, &nbytes);
  if (status != SHMT_OK) return shmt__py_raise(status);
  return PyBytes_FromStringAndSize((const char*)&p, (Py_ssize_t)nbytes);
}

static PyObject* py_pack(PyObject* module, PyObject* o) {
  (void)module;
  if (!shmt__py_is_tensor(o))
    return PyErr_Format(PyExc_TypeError, "_pack_shared_tensor(): expected a Tensor, got %s",
                        Py_TYPE(o)->tp_name);
  if (shmt__py_refuse_sparse(shmt__py_tensor(o)) < 0) return NULL;
  return pack_tensor(shmt__py_tensor(o));
}

bool shmt__py_tensor_is_plain(PyObject* o) {
  const shmt_tensor* t = shmt__py_tensor(o);
  return Py_TYPE(o) == shmt__py_tensor_type && t->autograd == NULL && !shmt__tensor_is_meta(t) && t->sparse == NULL &&
         !(shmt__tensor_keys(t) & SHMT_KEYBIT_Autograd);
}

PyObject* shmt__py_reduce_tensor(PyObject* o) {
  if (!shmt__py_is_tensor(o))
    return PyErr_Format(PyExc_TypeError, "_reduce_shared_tensor(): expected a Tensor, got %s",
                        Py_TYPE(o)->tp_name);
  if (slow_reduce == NULL)
    return PyErr_Format(PyExc_RuntimeError,
                        "_reduce_shared_tensor(): shmtensor.multiprocessing is not imported");
  shmt_tensor* t = shmt__py_tensor(o);
  if (!shmt__py_tensor_is_plain(o)) return PyObject_CallOneArg(slow_reduce, o);
  PyObject* packed = pack_tensor(t);
  if (packed == NULL) return NULL;
  PyObject* args = PyTuple_Pack(1, packed);
  Py_DECREF(packed);
  if (args == NULL) return NULL;
  PyObject* result = PyTuple_Pack(2, rebuild_function, args);
  Py_DECREF(args);
  return result;
}

/* The reduction in the pickler's table, for ordinary messages, also when one is pickled inside another. */
static PyObject* py_reduce(PyObject* module, PyObject* o) {
  (void)module;
  bool state = shmt__py_writer_suspend();
  PyObject* result = shmt__py_reduce_tensor(o);
  shmt__py_writer_resume(state);
  return result;
}

/* --- what messages call to rebuild ---
 *
 * _C._rebuild_shared_tensor is an object without a __name__. The pickler reads the name once for each tensor, and for a
 * built-in function that makes a new string every time. */

typedef struct rebuilder {
  PyObject_HEAD
  vectorcallfunc call;
} rebuilder;

static PyObject* rebuild(PyObject* self, PyObject* const* args, size_t n, PyObject* kwnames) {
  char* data = NULL;
  Py_ssize_t nbytes = 0;
  shmt_tensor* t = NULL;
  (void)self;
  if (PyVectorcall_NARGS(n) != 1 || kwnames != NULL)
    return PyErr_Format(PyExc_TypeError,
                        "_rebuild_shared_tensor() takes exactly one argument (%zd given)",
                        PyVectorcall_NARGS(n) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
  shmt_status status;
  if (PyLong_Check(args[0])) {
    int64_t place = PyLong_AsLongLong(args[0]);
    if (place == -1 && PyErr_Occurred()) return NULL;
    status = shmt__py_received_tensor(place, &t);
  } else {
    if (PyBytes_AsStringAndSize(args[0], &data, &nbytes) < 0) return NULL;
    status = shmt__tensor_unpack(data, (size_t)nbytes, &t);
  }
  return status == SHMT_OK ? shmt__py_wrap(t) : shmt__py_raise(status);
}

/* Pickled by name. */
static PyObject* rebuilder_reduce(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return PyUnicode_FromString("_rebuild_shared_tensor");
}

int shmt__py_share_init(PyObject* module) {
  static PyMethodDef methods[] = {
      {"__reduce__", rebuilder_reduce, METH_NOARGS, "Pickle by name."},
      {NULL, NULL, 0, NULL},
  };
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(rebuilder, call), READONLY, NULL},
      {NULL, 0, 0, 0, NULL},
  };
  static PyType_Slot slots[] = {
      {Py_tp_methods, methods},
      {Py_tp_members, members},
      {Py_tp_call, PyVectorcall_Call},
      {Py_tp_doc, (void*)"The tensor of _pack_shared_tensor's bytes, over the same memory."},
      {0, NULL},
  };
  static PyType_Spec spec = {
      .name = "shmtensor._C._SharedTensorRebuilder",
      .basicsize = sizeof(rebuilder),
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
      .slots = slots,
  };
  PyTypeObject* type = (PyTypeObject*)PyType_FromSpec(&spec);
  if (type == NULL) return -1;
  rebuilder* o = PyObject_New(rebuilder, type);
  Py_DECREF(type); /* the object keeps it */
  if (o == NULL) return -1;
  o->call = rebuild;
  rebuild_function = (PyObject*)o;
  return PyModule_AddObjectRef(module, "_rebuild_shared_tensor", rebuild_function);
}

/* --- storages, by address --- */

static PyObject* py_pack_storage(PyObject* module, PyObject* o) {
  SHMT_AUTO(shmt_storage) s = NULL;
  shmt__handle h;
  (void)module;
  shmt_storage* own = PyLong_AsVoidPtr(o);
  if (own == NULL)
    return PyErr_Occurred() ? NULL
                            : PyErr_Format(PyExc_ValueError, "_pack_shared_storage(): address 0");
  shmt_status status = shmt__py_storage_to_send(own, shmt__py_writer_session(), &s);
  int64_t place = status == SHMT_OK ? shmt__py_writer_offer(NULL, &s) : -1;
  if (place >= 0) return PyLong_FromLongLong(place);
  if (place == -2) return NULL;
  if (status == SHMT_OK) status = shmt__storage_export(s, true, &h, NULL);
  return status == SHMT_OK ? PyBytes_FromStringAndSize((const char*)&h, sizeof h)
                           : shmt__py_raise(status);
}

static shmt_status rebuild_storage(PyObject* packed, shmt_storage** out) {
  char* data = NULL;
  Py_ssize_t nbytes = 0;
  shmt__handle h;
  if (PyLong_Check(packed)) {
    int64_t place = PyLong_AsLongLong(packed);
    return place == -1 && PyErr_Occurred() ? SHMT_E_PYTHON : shmt__py_received_storage(place, out);
  }
  if (PyBytes_AsStringAndSize(packed, &data, &nbytes) < 0) return SHMT_E_PYTHON;
  SHMT_REQUIRE(nbytes == sizeof h, SHMT_E_HANDLE, "a packed storage of %zd bytes, expected %zu", nbytes, sizeof h);
  memcpy(&h, data, sizeof h);
  return shmt__storage_import(&h, NULL, out);
}

/* The place has an owner already, so an exception that arrives next finds one. */
static PyObject* py_rebuild_storage(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  if (n != 2) return PyErr_Format(PyExc_TypeError, "_rebuild_shared_storage() takes 2 arguments (%zd given)", n);
  shmt_storage** place = PyLong_AsVoidPtr(args[1]);
  if (place == NULL)
    return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "the address of a place is zero");
  shmt_status status = rebuild_storage(args[0], place);
  if (status != SHMT_OK) return shmt__py_raise(status);
  Py_RETURN_NONE;
}

static PyObject* py_set_slow_reduce(PyObject* module, PyObject* o) {
  (void)module;
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
    {"_pack_shared_storage", py_pack_storage, METH_O, "The same for the storage at an address."},
    {"_rebuild_shared_storage", (PyCFunction)(void (*)(void))py_rebuild_storage, METH_FASTCALL,
     "_rebuild_shared_storage(packed, place)\n--\n\nStore a reference to the storage of a message in a place."},
    {NULL, NULL, 0, NULL},
};
