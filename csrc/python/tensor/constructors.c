/* python/tensor/constructors.c -- tensor(), as_tensor() and from_numpy(): their options, and sharing without a copy. */
#include "base/warn.h"
#include "ipc/handle/share.h"
#include "python/call/convert.h"
#include "python/call/overrides.h"
#include "python/tensor/construct.h"
#include "python/values/default_device.h"
#include "python/values/types.h"

typedef struct options {
  PyObject* data;
  shmt_dtype dtype;
  shmt_device device;
  bool requires_grad, shared;
} options;

static int wrong_type(const char* name, const char* arg, const char* expected, PyObject* got) {
  PyObject* note = shmt__py_foreign_tensor_note(got);
  if (note != NULL)
    PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be %s, not %s%U", name, arg, expected,
                 Py_TYPE(got)->tp_name, note);
  Py_XDECREF(note);
  return -1;
}

/* One option by name: 0 or -1. */
static int set_option(options* o, const char* name, const char* key, PyObject* v) {
  if (strcmp(key, "data") == 0) {
    if (o->data != NULL) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument 'data'", name);
      return -1;
    }
    o->data = v;
  } else if (strcmp(key, "dtype") == 0) {
    if (v != Py_None && !shmt__py_as_dtype(v, &o->dtype))
      return wrong_type(name, key, "torch.dtype", v);
  } else if (strcmp(key, "device") == 0) {
    int r = v == Py_None ? 1 : shmt__py_as_device(v, &o->device);
    if (r < 1) return r < 0 ? -1 : wrong_type(name, key, "torch.device", v);
  } else if (strcmp(key, "requires_grad") == 0 || strcmp(key, "shared") == 0) {
    if (!PyBool_Check(v)) return wrong_type(name, key, "bool", v);
    *(*key == 'r' ? &o->requires_grad : &o->shared) = v == Py_True;
  } else if (strcmp(key, "pin_memory") == 0) {
    if (v != Py_False && v != Py_None) {
      PyErr_SetString(PyExc_RuntimeError,
                      "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator "
                      "is available on this system.");
      return -1;
    }
  } else {
    PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", name, key);
    return -1;
  }
  return 0;
}

static int parse_options(const char* name, int n_positional, PyObject* const* args, Py_ssize_t n,
                         PyObject* kwnames, options* o) {
  static const char* const order[] = {"data", "dtype", "device"};
  *o = (options){NULL, SHMT_DTYPE_NONE, SHMT_DEVICE_NONE, false, false};
  if (n > n_positional) {
    PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd were given", name,
                 n_positional, n_positional == 1 ? "" : "s", n);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++)
    if (set_option(o, name, order[i], args[i]) < 0) return -1;
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
    const char* key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, i));
    if (key == NULL || set_option(o, name, key, args[n + i]) < 0) return -1;
  }
  if (o->data == NULL) {
    PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional arguments: \"data\"", name);
    return -1;
  }
  if (o->device == SHMT_DEVICE_NONE) o->device = shmt__tls_default_device;
  if (o->shared && o->device == SHMT_META) {
    PyErr_Format(PyExc_NotImplementedError,
                 "%s(): shared=True on a meta device, there is no data to share", name);
    return -1;
  }
  return 0;
}

/* Move t to the device and grad mode asked for, and wrap it. Consumes t. */
static PyObject* finish_tensor(shmt_tensor* t, const options* o) {
  if (o->device == SHMT_META) {
    shmt_tensor* meta = NULL;
    shmt_status s = shmt__tensor_empty(shmt__tensor_sizes(t), t->dtype, SHMT_META,
                                       SHMT_CONTIGUOUS_FORMAT, &meta);
    shmt__tensor_release(t);
    if (s != SHMT_OK) return shmt__py_raise(s);
    t = meta;
  }
  return shmt__py_with_grad(shmt__py_wrap(t), o->requires_grad);
}

static SHMT_COLD PyObject* answer_of_mode(const char* name, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  PyObject *positional, *kwargs;
  if (shmt__py_pack_arguments(NULL, args, n, kwnames, &positional, &kwargs) < 0) return NULL;
  PyObject* r = shmt__py_answer_factory(name, positional, kwargs);
  Py_DECREF(kwargs);
  return r;
}

static PyObject* py_tensor(PyObject* module, PyObject* const* args, Py_ssize_t n,
                           PyObject* kwnames) {
  if (SHMT_UNLIKELY(shmt__py_n_function_modes)) return answer_of_mode("tensor", args, n, kwnames);
  options o;
  shmt_tensor* t = NULL;
  (void)module;
  if (parse_options("tensor", 1, args, n, kwnames, &o) < 0) return NULL;
  if (shmt__py_is_tensor(o.data)) {
    if (PyErr_WarnEx(PyExc_UserWarning,
                     "To copy construct from a tensor, it is recommended to use "
                     "sourceTensor.detach().clone() or "
                     "sourceTensor.detach().clone().requires_grad_(True), rather than "
                     "torch.tensor(sourceTensor).",
                     1) < 0)
      return NULL;
    if (o.device == SHMT_DEVICE_NONE && !o.shared) o.device = shmt__py_tensor(o.data)->device;
  }
  if (shmt__py_tensor_from_data_in(o.data, o.dtype, o.shared, &t) < 0) return NULL;
  return finish_tensor(t, &o);
}

/* A tensor as the options say; itself where that changes nothing. */
static PyObject* convert_tensor(PyObject* tensor, const options* o) {
  shmt_tensor* from = shmt__py_tensor(tensor);
  if (o->shared && (from->sparse != NULL || !shmt__storage_is_shared(from->storage))) {
    shmt_tensor* t = NULL;
    if (shmt__py_tensor_from_data_in(tensor, o->dtype, true, &t) < 0) return NULL;
    return finish_tensor(t, o);
  }
  if ((o->dtype == SHMT_DTYPE_NONE || o->dtype == from->dtype) &&
      (o->device == SHMT_DEVICE_NONE || o->device == from->device))
    return Py_NewRef(tensor);
  PyObject* d = shmt__py_from_dtype(o->dtype == SHMT_DTYPE_NONE ? from->dtype : o->dtype);
  PyObject* device =
      shmt__py_from_device(o->device == SHMT_DEVICE_NONE ? from->device : o->device);
  PyObject* r = d && device ? PyObject_CallMethod(tensor, "to", "OO", device, d) : NULL;
  Py_XDECREF(d);
  Py_XDECREF(device);
  return r;
}

/* Without a copy where the data is a tensor or an array of the wanted dtype already. */
static PyObject* py_as_tensor(PyObject* module, PyObject* const* args, Py_ssize_t n,
                              PyObject* kwnames) {
  if (SHMT_UNLIKELY(shmt__py_n_function_modes)) return answer_of_mode("as_tensor", args, n, kwnames);
  options o;
  shmt_tensor* t = NULL;
  (void)module;
  if (parse_options("as_tensor", 3, args, n, kwnames, &o) < 0) return NULL;
  if (shmt__py_is_tensor(o.data)) return convert_tensor(o.data, &o);
  PyObject* array = o.shared ? NULL : shmt__py_as_numpy_array(o.data);
  if (array == NULL) {
    PyObject* exchanged = PyErr_Occurred() ? NULL : shmt__py_as_dlpack_tensor(o.data);
    if (exchanged != NULL) {
      PyObject* r = convert_tensor(exchanged, &o);
      Py_DECREF(exchanged);
      return r;
    }
    if (PyErr_Occurred() || shmt__py_tensor_from_data_in(o.data, o.dtype, o.shared, &t) < 0)
      return NULL;
    return finish_tensor(t, &o);
  }
  int r = shmt__py_from_numpy(array, false, &t);
  Py_DECREF(array);
  if (r < 0) return NULL;
  if (o.dtype != SHMT_DTYPE_NONE && o.dtype != t->dtype) {
    shmt_tensor* cast = NULL;
    r = shmt__py_copy_of(t, o.dtype, false, &cast);
    shmt__tensor_release(t);
    if (r < 0) return NULL;
    t = cast;
  }
  return finish_tensor(t, &o);
}

static PyObject* py_from_numpy(PyObject* module, PyObject* args, PyObject* kwargs) {
  if (SHMT_UNLIKELY(shmt__py_n_function_modes))
    return shmt__py_answer_factory("from_numpy", Py_NewRef(args), kwargs);
  static const char* const names[] = {"ndarray", "shared", NULL};
  shmt_tensor* t = NULL;
  PyObject* array;
  int shared = 0;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$p:from_numpy", (char**)names, &array, &shared))
    return NULL;
  if (!shmt__py_is_numpy_array(array)) {
    PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)", Py_TYPE(array)->tp_name);
    return NULL;
  }
  int r = shared ? shmt__py_tensor_from_data_in(array, SHMT_DTYPE_NONE, true, &t)
                 : shmt__py_from_numpy(array, false, &t);
  return r < 0 ? NULL : shmt__py_wrap(t);
}

PyMethodDef shmt__py_construct_functions[] = {
    {"from_numpy", (PyCFunction)(void (*)(void))py_from_numpy, METH_VARARGS | METH_KEYWORDS,
     "from_numpy(ndarray, *, shared=False)\n--\n\nA tensor that shares the memory of a NumPy "
     "array.\n\nWith shared=True it is a copy in shared memory. Over an array that is not writable the "
     "tensor is\nread-only: what would write to it raises RuntimeError. Raises TypeError for an array of "
     "another dtype\nthan tensors have."},
    {"tensor", (PyCFunction)(void (*)(void))py_tensor, METH_FASTCALL | METH_KEYWORDS,
     "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False, "
     "shared=False)\n--\n\nCopy data into a new tensor.\n\nArgs:\n    data: A number, nested lists or "
     "tuples of numbers, a NumPy array, or a tensor.\n    dtype: Default: that of data; the default dtype "
     "for Python floats, int64 for ints.\n    device: 'cpu' or 'meta'.\n    requires_grad: Record "
     "operations on it.\n    pin_memory: Refused: there is no device to pin memory for.\n    shared: Make "
     "it in shared memory, where other processes can map it.\n\nRaises ValueError for lists of unlike "
     "lengths, TypeError for anything but numbers.\n\nExample:\n    >>> shmtensor.tensor([[1, 2], [3, 4]])\n    "
     "tensor([[1, 2],\n            [3, 4]])"},
    {"as_tensor", (PyCFunction)(void (*)(void))py_as_tensor, METH_FASTCALL | METH_KEYWORDS,
     "as_tensor(data, dtype=None, device=None, *, shared=False)\n--\n\nA tensor of data that shares its "
     "memory where that is possible, and else copies it.\n\nArgs:\n    data: As for tensor().\n    dtype: "
     "Default: that of data. Another one makes a copy.\n    device: 'cpu' or 'meta'.\n    shared: Copy "
     "what is not in shared memory into it."},
    {NULL, NULL, 0, NULL},
};
