/* python/tensor/exchange/dlpack.c -- tensors to other array libraries and back, over the same memory.
 *
 * An exported tensor holds its storage and pins its address. It has no Python objects, so that its deleter may run on
 * any thread, also after Python has ended. */
#include "python/call/overrides.h"
#include "python/tensor/exchange/dlpack.h"

#include "api/storage.h"
#include "base/overflow.h"
#include "capi/dlpack_dtype.h"
#include "iter/copy/copy.h"
#include "python/tensor/tensor_type.h"
#include "python/call/convert.h"
#include "python/values/types.h"
#include "storage/allocator.h"
#include "tensor/batched.h"

void shmt__dl_describe(const shmt_tensor* t, DLTensor* out) {
  *out = (DLTensor){
      .data = shmt__tensor_data(t),
      .device = {.device_type = kDLCPU},
      .ndim = t->n_dims,
      .dtype = shmt__dl_of_dtype(t->dtype),
      .shape = t->sizes,
      .strides = t->strides,
  };
}

/* --- export ------------------------------------------------------------------------------- */

typedef struct exported {
  union {
    DLManagedTensor plain;
    DLManagedTensorVersioned versioned;
  } managed; /* first: the deleters get its address */
  shmt_storage* storage;
  int64_t dims[]; /* shape, then strides */
} exported;

static void exported_free(exported* e) {
  shmt_storage_unpin(e->storage);
  shmt__storage_release(e->storage);
  free(e);
}
static void delete_plain(DLManagedTensor* m) { exported_free((exported*)m); }
static void delete_versioned(DLManagedTensorVersioned* m) { exported_free((exported*)m); }

/* The destructor of a capsule that no consumer took over. */
static void capsule_destructor(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    DLManagedTensor* m = PyCapsule_GetPointer(capsule, "dltensor");
    if (m->deleter) m->deleter(m);
  } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    DLManagedTensorVersioned* m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (m->deleter) m->deleter(m);
  }
}

/* The structures for t, which hold its storage; NULL: no memory. */
static exported* make_exported(const shmt_tensor* t, bool versioned, bool copied) {
  exported* e = malloc(sizeof *e + 2 * (size_t)t->n_dims * sizeof e->dims[0]);
  if (e == NULL) return NULL;
  DLTensor* dl = versioned ? &e->managed.versioned.dl_tensor : &e->managed.plain.dl_tensor;
  e->storage = t->storage;
  shmt_storage_retain(e->storage);
  shmt_storage_pin(e->storage);
  for (int i = 0; i < t->n_dims; i++) {
    e->dims[i] = t->sizes[i];
    /* Consumers that ask for compact memory look at strides that do not matter as well. */
    e->dims[t->n_dims + i] = t->sizes[i] == 1 ? 1 : t->strides[i];
  }
  shmt__dl_describe(t, dl);
  dl->shape = e->dims;
  dl->strides = e->dims + t->n_dims;
  if (versioned) {
    DLManagedTensorVersioned* m = &e->managed.versioned;
    m->version.major = 1;
    m->version.minor = 0;
    m->manager_ctx = e;
    m->deleter = delete_versioned;
    m->flags = (shmt__storage_has(t->storage, SHMT_STORAGE_READ_ONLY) ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) |
               (copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0);
  } else {
    e->managed.plain.manager_ctx = e;
    e->managed.plain.deleter = delete_plain;
  }
  return e;
}

DLManagedTensorVersioned* shmt__dl_export(const shmt_tensor* t) {
  exported* e = make_exported(t, true, false);
  return e ? &e->managed.versioned : NULL;
}

static PyObject* export_tensor(shmt_tensor* t, bool versioned, bool copied) {
  exported* e = make_exported(t, versioned, copied);
  if (e == NULL) return PyErr_NoMemory();
  PyObject* capsule = PyCapsule_New(&e->managed, versioned ? "dltensor_versioned" : "dltensor", capsule_destructor);
  if (capsule == NULL) exported_free(e);
  return capsule;
}

static PyObject* refuse(const char* why) {
  PyErr_SetString(PyExc_BufferError, why);
  return NULL;
}

int shmt__py_check_exportable(const shmt_tensor* t) {
  const char* why = NULL;
  if (shmt__check_has_memory(t) != SHMT_OK) {
    shmt__py_raise(SHMT_E_RUNTIME);
    return -1;
  }
  if (shmt__tensor_keys(t) & SHMT_KEYBIT_Autograd)
    why = "Can't export tensors that require gradient, use tensor.detach()";
  else if (t->sparse != NULL)
    why = "Can't export tensors with layout other than torch.strided";
  else if (t->flags & SHMT_TENSOR_CONJ)
    why = "Can't export tensors with the conjugate bit set; use tensor.resolve_conj()";
  else if (t->flags & SHMT_TENSOR_NEG)
    why = "Can't export tensors with the negative bit set; use tensor.resolve_neg()";
  else if (shmt__tensor_is_meta(t))
    why = "Can't export a meta tensor: it has no data";
  if (why == NULL) return 0;
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

/* The version a consumer understands: 1 or more is versioned. -1 with an exception. */
static int wants_versioned(PyObject* max_version) {
  if (max_version == NULL || max_version == Py_None) return 0;
  long major, minor;
  if (!PyTuple_Check(max_version) || !PyArg_ParseTuple(max_version, "ll", &major, &minor)) {
    PyErr_SetString(PyExc_TypeError, "__dlpack__(): max_version must be a tuple of two ints or None");
    return -1;
  }
  return major >= 1;
}

/* The cpu has no streams: None, and -1, which asks for no synchronisation. */
static int check_stream(PyObject* stream) {
  if (stream == NULL || stream == Py_None) return 0;
  if (!PyLong_Check(stream)) {
    PyErr_SetString(PyExc_TypeError, "stream must be ``int`` or ``none``");
    return -1;
  }
  int overflow;
  if (PyLong_AsLongAndOverflow(stream, &overflow) == -1 && !overflow) return 0;
  PyErr_SetString(PyExc_AssertionError, "stream should be None on cpu.");
  return -1;
}

static int check_copy(const char* name, PyObject* copy) {
  if (copy == NULL || copy == Py_None || PyBool_Check(copy)) return 0;
  PyErr_Format(PyExc_TypeError, "%s(): argument 'copy' must be bool, not %s", name, Py_TYPE(copy)->tp_name);
  return -1;
}

static PyObject* m_dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = NULL, *max_version = NULL, *device = NULL, *copy = NULL;
  shmt_tensor* t = shmt__py_tensor(self);
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", (char**)names, &stream, &max_version, &device,
                                   &copy))
    return NULL;
  if (check_stream(stream) < 0 || check_copy("__dlpack__", copy) < 0) return NULL;
  if (shmt__py_check_exportable(t) < 0) return NULL;
  if (device != NULL && device != Py_None) {
    int type, id;
    if (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ii", &type, &id)) {
      PyErr_Format(PyExc_TypeError, "__dlpack__(): dl_device must be a tuple of two ints, not %R", device);
      return NULL;
    }
    if (type != kDLCPU) return refuse("the tensor is on the cpu and cannot be exported to another device");
  }
  int versioned = wants_versioned(max_version);
  if (versioned < 0) return NULL;
  if (shmt__storage_has(t->storage, SHMT_STORAGE_READ_ONLY) && !versioned && copy != Py_True)
    return refuse("a read-only tensor can only be exported with DLPack version 1 or later");
  if (copy != Py_True) return export_tensor(t, versioned, false);
  SHMT_AUTO(shmt_tensor) copied = NULL;
  shmt_status s = shmt__tensor_empty_like(t, t->dtype, &copied);
  if (s == SHMT_OK) s = SHMT_PY_UNLOCKED(t->numel, shmt__tensor_copy(copied, t));
  return s == SHMT_OK ? export_tensor(copied, versioned, true) : shmt__py_raise(s);
}

static PyObject* m_dlpack_device(PyObject* self, PyObject* unused) {
  (void)unused;
  if (shmt__tensor_is_meta(shmt__py_tensor(self))) {
    PyErr_SetString(PyExc_ValueError, "a meta tensor is on no DLPack device");
    return NULL;
  }
  return Py_BuildValue("(ii)", kDLCPU, 0);
}

/* --- import -------------------------------------------------------------------------------- */

static void drop_plain(void* arg, void* data) {
  DLManagedTensor* m = arg;
  (void)data;
  if (m->deleter) m->deleter(m);
}
static void drop_versioned(void* arg, void* data) {
  DLManagedTensorVersioned* m = arg;
  (void)data;
  if (m->deleter) m->deleter(m);
}

/* The capsule's destructor, and the deleter that it calls, may be Python code. An exception that is set stays so. */
static void drop_capsule(PyObject* capsule) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Py_DECREF(capsule);
  PyErr_Restore(type, value, trace);
}

/* Geometry of dl in elements, and the bytes it spans. 0, or -1 with an exception. */
static int read_geometry(const DLTensor* dl, int64_t item, int64_t* strides, uint64_t* nbytes) {
  int64_t span = item, dense = 1;
  bool empty = false;
  if (dl->ndim > 0 && dl->shape == NULL) {
    PyErr_Format(PyExc_BufferError, "from_dlpack(): a tensor of %d dimensions without a shape", (int)dl->ndim);
    return -1;
  }
  for (int i = dl->ndim - 1; i >= 0; i--) {
    int64_t size = dl->shape[i], reach;
    strides[i] = dl->strides ? dl->strides[i] : dense;
    if (size < 0 || (strides[i] < 0 && size > 1)) {
      PyErr_Format(PyExc_ValueError,
                   "from_dlpack(): size %lld and stride %lld of dimension %d: negative ones are "
                   "not supported",
                   (long long)size, (long long)strides[i], i);
      return -1;
    }
    if (size <= 1 && strides[i] < 0) strides[i] = 1;
    empty |= size == 0;
    if (!shmt__mul_i64(dense, size > 0 ? size : 1, &dense) ||
        !shmt__mul_i64(size > 0 ? size - 1 : 0, strides[i], &reach) || !shmt__mul_i64(reach, item, &reach) ||
        !shmt__add_i64(span, reach, &span)) {
      PyErr_SetString(PyExc_ValueError, "from_dlpack(): the tensor spans more than 2^63 bytes");
      return -1;
    }
  }
  *nbytes = empty ? 0 : (uint64_t)span;
  return 0;
}

/* A tensor over dl, which `drop(arg)` gives back. 0, or -1 with an exception and dl not taken over. See Note [What
 * producers say]. */
static int import_tensor(const DLTensor* dl, uint32_t flags, void (*drop)(void*, void*), void* arg,
                         shmt_tensor** out) {
  int64_t strides[SHMT_MAX_DIMS];
  uint64_t nbytes;
  if (dl->device.device_type != kDLCPU) {
    PyErr_Format(PyExc_BufferError, "from_dlpack(): the data is on device type %d, only the cpu (%d) is supported",
                 (int)dl->device.device_type, kDLCPU);
    return -1;
  }
  shmt_dtype dtype = shmt__dtype_of_dl(dl->dtype);
  if (dtype == SHMT_DTYPE_NONE || dl->ndim < 0 || dl->ndim > SHMT_MAX_DIMS) {
    PyErr_Format(PyExc_BufferError,
                 "from_dlpack(): unsupported type code %d with %d bits and %d lanes, or %d dimensions",
                 (int)dl->dtype.code, (int)dl->dtype.bits, (int)dl->dtype.lanes, (int)dl->ndim);
    return -1;
  }
  if (read_geometry(dl, shmt__dtype_size[dtype], strides, &nbytes) < 0) return -1;
  if (dl->data == NULL && nbytes > 0) {
    PyErr_SetString(PyExc_BufferError, "from_dlpack(): the tensor has elements, but no data");
    return -1;
  }
  if (!shmt__bytes_can_lie_at(dl->data, dl->byte_offset, nbytes)) {
    PyErr_Format(PyExc_BufferError, "from_dlpack(): %llu bytes at offset %llu of %p lie outside of memory",
                 (unsigned long long)nbytes, (unsigned long long)dl->byte_offset, dl->data);
    return -1;
  }
  shmt_storage* storage = NULL;
  char* data = nbytes > 0 ? (char*)dl->data + dl->byte_offset : dl->data;
  shmt_status s = shmt__storage_from_blob(data, nbytes, drop, arg, flags, &storage);
  if (s != SHMT_OK) {
    shmt__py_raise(s);
    return -1;
  }
  s = shmt__tensor_from_storage(storage, (shmt_ints){dl->shape, dl->ndim}, (shmt_ints){strides, dl->ndim}, 0, dtype,
                                out);
  if (s != SHMT_OK) shmt__storage_disown(storage);
  shmt__storage_release(storage);
  if (s == SHMT_OK) return 0;
  shmt__py_raise(s);
  return -1;
}

/* As import_tensor. */
static int import_versioned(DLManagedTensorVersioned* m, shmt_tensor** out) {
  if (m->version.major != 1) {
    PyErr_Format(PyExc_BufferError, "from_dlpack(): version %u.%u is not supported", m->version.major,
                 m->version.minor);
    return -1;
  }
  uint32_t flags = m->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? SHMT_STORAGE_READ_ONLY : 0;
  return import_tensor(&m->dl_tensor, flags, drop_versioned, m, out);
}

PyObject* shmt__dl_import(DLManagedTensorVersioned* m) {
  shmt_tensor* t = NULL;
  return import_versioned(m, &t) == 0 ? shmt__py_wrap(t) : NULL;
}

static PyObject* from_capsule(PyObject* capsule) {
  shmt_tensor* t = NULL;
  int r;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    r = import_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"), &t);
    if (r == 0) PyCapsule_SetName(capsule, "used_dltensor_versioned");
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    DLManagedTensor* m = PyCapsule_GetPointer(capsule, "dltensor");
    r = import_tensor(&m->dl_tensor, 0, drop_plain, m, &t);
    if (r == 0) PyCapsule_SetName(capsule, "used_dltensor");
  } else {
    PyErr_SetString(PyExc_RuntimeError,
                    "from_dlpack received an invalid capsule. Note that DLTensor capsules can be "
                    "consumed only once, so you "
                    "might have already constructed a tensor from it once.");
    return NULL;
  }
  return r == 0 ? shmt__py_wrap(t) : NULL;
}

/* The keyword arguments of __dlpack__; those that are None stay away. */
static PyObject* request(PyObject* copy, bool to_cpu) {
  PyObject* options = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);
  if (options != NULL && copy != Py_None && PyDict_SetItemString(options, "copy", copy) < 0) Py_CLEAR(options);
  if (options == NULL || !to_cpu) return options;
  PyObject* device = Py_BuildValue("(ii)", kDLCPU, 0);
  if (device == NULL || PyDict_SetItemString(options, "dl_device", device) < 0) Py_CLEAR(options);
  Py_XDECREF(device);
  return options;
}

/* o.__dlpack__ with the newest version, or without arguments for producers from before it. Then a copy is left to the
 * caller: *copied is whether the producer was asked for one. */
static PyObject* call_dlpack(PyObject* o, PyObject* copy, bool to_cpu, bool* copied) {
  PyObject* method = PyObject_GetAttrString(o, "__dlpack__");
  if (method == NULL) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "from_dlpack(): %s has no __dlpack__", Py_TYPE(o)->tp_name);
    return NULL;
  }
  PyObject* none = PyTuple_New(0);
  PyObject* options = request(copy, to_cpu);
  PyObject* capsule = none && options ? PyObject_Call(method, none, options) : NULL;
  *copied = true;
  if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    *copied = false;
    capsule = PyObject_Call(method, none, NULL);
  }
  Py_XDECREF(none);
  Py_XDECREF(options);
  Py_DECREF(method);
  return capsule;
}

/* A copy in place of `object`, whose reference is consumed. */
static PyObject* copy_of(PyObject* object) {
  shmt_tensor *t = shmt__py_tensor(object), *copied = NULL;
  shmt_status s = shmt__tensor_empty_like(t, t->dtype, &copied);
  if (s == SHMT_OK) s = SHMT_PY_UNLOCKED(t->numel, shmt__tensor_copy(copied, t));
  Py_DECREF(object);
  if (s == SHMT_OK) return shmt__py_wrap(copied);
  if (copied) shmt__tensor_release(copied);
  return shmt__py_raise(s);
}

static PyObject* import_object(PyObject* o, PyObject* copy, bool to_cpu) {
  bool copied = false;
  PyObject* capsule = call_dlpack(o, copy, to_cpu, &copied);
  if (capsule == NULL) return NULL;
  PyObject* t = PyCapsule_CheckExact(capsule) ? from_capsule(capsule) : NULL;
  if (t == NULL && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "from_dlpack(): __dlpack__ gave no capsule");
  drop_capsule(capsule);
  return t != NULL && copy == Py_True && !copied ? copy_of(t) : t;
}

PyObject* shmt__py_import_dlpack(PyObject* o, PyObject* copy) {
  return PyCapsule_CheckExact(o) ? from_capsule(o) : import_object(o, copy, false);
}

static PyObject* py_from_dlpack(PyObject* module, PyObject* args, PyObject* kwargs) {
  if (SHMT_UNLIKELY(shmt__py_n_function_modes))
    return shmt__py_answer_factory("from_dlpack", Py_NewRef(args), kwargs);
  static const char* const names[] = {"ext_tensor", "device", "copy", NULL};
  PyObject *o, *device_object = Py_None, *copy = Py_None;
  shmt_device device = SHMT_CPU;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OO:from_dlpack", (char**)names, &o, &device_object, &copy))
    return NULL;
  if (check_copy("from_dlpack", copy) < 0) return NULL;
  if (PyCapsule_CheckExact(o) && (device_object != Py_None || copy != Py_None)) {
    PyErr_SetString(PyExc_AssertionError,
                    "from_dlpack(): a capsule has its device and memory; pass the object that made "
                    "it for another device or a copy");
    return NULL;
  }
  int r = device_object == Py_None ? 1 : shmt__py_as_device(device_object, &device);
  if (r == 1 && device != SHMT_CPU) r = 0;
  if (r == 0)
    PyErr_Format(PyExc_ValueError, "from_dlpack(): tensors can only be imported to the cpu, not to %S", device_object);
  if (r != 1) return NULL;
  return PyCapsule_CheckExact(o) ? from_capsule(o) : import_object(o, copy, device_object != Py_None);
}

PyMethodDef shmt__py_dlpack_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))m_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack "
     "capsule over the same memory, or over a copy of it with copy=True.\n\nRaises BufferError for what "
     "DLPack cannot say: a tensor that requires grad, a sparse one, another device."},
    {"__dlpack_device__", m_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self)\n--\n\n(1, 0): the CPU."},
    {NULL, NULL, 0, NULL},
};

PyMethodDef shmt__py_dlpack_functions[] = {
    {"from_dlpack", (PyCFunction)(void (*)(void))py_from_dlpack, METH_VARARGS | METH_KEYWORDS,
     "from_dlpack(ext_tensor, *, device=None, copy=None)\n--\n\nA tensor over the memory of another "
     "library's array.\n\nArgs:\n    ext_tensor: An object with __dlpack__, or a capsule.\n    device: "
     "Where the tensor is wanted: the CPU.\n    copy: True copies, False raises BufferError where the "
     "other library would have to copy."},
    {NULL, NULL, 0, NULL},
};
