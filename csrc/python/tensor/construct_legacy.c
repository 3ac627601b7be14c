/* python/tensor/construct_legacy.c -- Tensor(...) and the typed constructors of the old style. */
#include "base/dtype.h"
#include "generated/ops.h"
#include "ops/creation/uninitialized.h"
#include "python/call/convert.h"
#include "python/tensor/construct.h"
#include "python/values/types.h"

static int failed(shmt_status s) {
  shmt__py_raise(s);
  return -1;
}

/* n objects as sizes of an uninitialised tensor. */
static int from_sizes(PyObject* const* items, Py_ssize_t n, shmt_dtype dtype, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS];
  if (n > SHMT_MAX_DIMS) {
    PyErr_Format(PyExc_ValueError, "new(): at most %d dimensions are supported, got %zd",
                 SHMT_MAX_DIMS, n);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    int r = shmt__py_as_int(items[i], &sizes[i]);
    if (r == 0)
      PyErr_Format(PyExc_TypeError,
                   "new(): argument 'size' failed to unpack the object at pos %zd with error "
                   "\"type must be tuple of "
                   "ints,but got %s\"",
                   i + 1, Py_TYPE(items[i])->tp_name);
    if (r != 1) return -1;
    if (sizes[i] < 0) {
      char text[256];
      PyErr_Format(PyExc_RuntimeError, "Trying to create tensor with negative dimension %lld: %s",
                   (long long)sizes[i],
                   shmt__ints_text((shmt_ints){sizes, i + 1}, text, sizeof text));
      return -1;
    }
  }
  shmt_status s =
      shmt__tensor_empty((shmt_ints){sizes, n}, dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, out);
  if (s == SHMT_OK && (s = shmt__fill_uninitialized(*out)) != SHMT_OK) shmt__tensor_release(*out);
  return s == SHMT_OK ? 0 : failed(s);
}

/* Several arguments that are no sizes. */
static void refuse_several(PyObject* args) {
  PyObject* types = PyList_New(0);
  for (Py_ssize_t i = 0; types != NULL && i < PyTuple_GET_SIZE(args); i++) {
    PyObject* type = PyUnicode_FromString(Py_TYPE(PyTuple_GET_ITEM(args, i))->tp_name);
    if (type == NULL || PyList_Append(types, type) < 0) Py_CLEAR(types);
    Py_XDECREF(type);
  }
  PyObject* comma = types != NULL ? PyUnicode_FromString(", ") : NULL;
  PyObject* got = comma != NULL ? PyUnicode_Join(comma, types) : NULL;
  if (got != NULL)
    PyErr_Format(PyExc_TypeError,
                 "new() received an invalid combination of arguments - got (%U), but expected one "
                 "of:\n"
                 " * (*, torch.device device = None)\n"
                 " * (Storage storage)\n"
                 " * (Tensor other)\n"
                 " * (tuple of ints size, *, torch.device device = None)\n"
                 " * (object data, *, torch.device device = None)\n",
                 got);
  Py_XDECREF(got);
  Py_XDECREF(comma);
  Py_XDECREF(types);
}

/* The tensor that the old constructor makes of its positional arguments. */
static int legacy_tensor(PyObject* args, shmt_dtype dtype, bool any_dtype, shmt_tensor** out) {
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  if (n == 0) {
    shmt_status s = shmt__tensor_empty((shmt_ints){(const int64_t[]){0}, 1}, dtype, SHMT_CPU,
                                       SHMT_CONTIGUOUS_FORMAT, out);
    return s == SHMT_OK ? 0 : failed(s);
  }
  PyObject* first = PyTuple_GET_ITEM(args, 0);
  int64_t size;
  if (n == 1 && shmt__py_is_tensor(first)) {
    shmt_tensor* t = shmt__py_tensor(first);
    if (!any_dtype && t->dtype != dtype) {
      PyErr_Format(PyExc_TypeError, "expected %s (got %s)", shmt__dtype_name[dtype],
                   shmt__dtype_name[t->dtype]);
      return -1;
    }
    shmt_status s = shmt_op_detach(t, out);
    return s == SHMT_OK ? 0 : failed(s);
  }
  if (n == 1 && Py_TYPE(first) == shmt__py_size_type)
    return from_sizes(&PyTuple_GET_ITEM(first, 0), PyTuple_GET_SIZE(first), dtype, out);
  int is_storage = n == 1 ? shmt__py_over_storage(first, dtype, out) : 0;
  if (is_storage != 0) return is_storage < 0 ? -1 : 0;
  int is_int = shmt__py_as_int(first, &size);
  if (is_int < 0) return -1;
  if (is_int == 1) return from_sizes(&PyTuple_GET_ITEM(args, 0), n, dtype, out);
  if (n > 1) {
    refuse_several(args);
    return -1;
  }
  if (PyUnicode_Check(first) || PyBytes_Check(first)) {
    PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(first)->tp_name);
    return -1;
  }
  if (!PySequence_Check(first)) {
    PyErr_Format(PyExc_TypeError, "new(): data must be a sequence (got %s)",
                 Py_TYPE(first)->tp_name);
    return -1;
  }
  return shmt__py_tensor_from_data(first, dtype, out);
}

static int check_device(PyObject* value, PyObject* args, PyObject* kwargs) {
  PyObject* first = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : PyDict_GetItemString(kwargs, "other");
  if (value != Py_None && first != NULL && shmt__py_is_tensor(first)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "Legacy tensor new of the form tensor.new(tensor, device=device) is not supported. "
                    "Use torch.as_tensor(...) instead.");
    return -1;
  }
  shmt_device device = SHMT_CPU;
  int r = value == Py_None ? 1 : shmt__py_as_device(value, &device);
  if (r < 0) return -1;
  if (r == 1 && device == SHMT_CPU) return 0;
  PyErr_Format(PyExc_RuntimeError,
               "legacy constructor expects device type: cpu but device type: %S was passed", value);
  return -1;
}

/* What is given by one of these keywords, as if it were the only argument by position: a new
 * reference, or NULL with an exception. */
static PyObject* from_keyword(PyObject* key, PyObject* value) {
  const char *name = PyUnicode_AsUTF8(key), *expected = NULL;
  if (name == NULL) return NULL;
  if (strcmp(name, "size") == 0) {
    if (PyTuple_Check(value) || PyList_Check(value))
      return PyObject_CallOneArg((PyObject*)shmt__py_size_type, value);
    expected = "tuple of ints";
  } else if (strcmp(name, "other") == 0) {
    expected = shmt__py_is_tensor(value) ? NULL : "Tensor";
  } else if (strcmp(name, "storage") == 0) {
    expected = PyObject_HasAttrString(value, "_cdata") && !shmt__py_is_tensor(value) ? NULL : "torch.Storage";
  } else if (strcmp(name, "data") != 0) {
    return PyErr_Format(PyExc_TypeError, "new() got an unexpected keyword argument '%U'", key);
  }
  if (expected == NULL) return Py_NewRef(value);
  return PyErr_Format(PyExc_TypeError, "new(): argument '%U' must be %s, not %s", key, expected,
                      Py_TYPE(value)->tp_name);
}

/* legacy_tensor of positional arguments and keywords. */
static int legacy_tensor_of(PyObject* args, PyObject* kwargs, shmt_dtype dtype, bool any_dtype,
                            shmt_tensor** out) {
  PyObject *key, *value, *given = NULL;
  Py_ssize_t pos = 0;
  while (kwargs && PyDict_Next(kwargs, &pos, &key, &value)) {
    if (PyUnicode_CompareWithASCIIString(key, "device") == 0) {
      if (check_device(value, args, kwargs) < 0) goto fail;
    } else if (given != NULL || PyTuple_GET_SIZE(args) > 0) {
      PyErr_Format(PyExc_TypeError,
                   "new() received an invalid combination of arguments: '%U' beside others", key);
      goto fail;
    } else if ((given = from_keyword(key, value)) == NULL) {
      return -1;
    }
  }
  if (given == NULL) return legacy_tensor(args, dtype, any_dtype, out);
  PyObject* alone = PyTuple_Pack(1, given);
  Py_DECREF(given);
  if (alone == NULL) return -1;
  int r = legacy_tensor(alone, dtype, any_dtype, out);
  Py_DECREF(alone);
  return r;
fail:
  Py_XDECREF(given);
  return -1;
}

PyObject* shmt__py_legacy_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  shmt_tensor* t = NULL;
  if (legacy_tensor_of(args, kwargs, shmt__default_dtype(), true, &t) < 0) return NULL;
  return shmt__py_wrap_as(type == shmt__py_base_type ? shmt__py_tensor_type : type, t);
}

/* _legacy_new(dtype, *args, **kwargs): what FloatTensor and its kin give. */
static PyObject* legacy_new(PyObject* module, PyObject* args, PyObject* kwargs) {
  shmt_dtype dtype;
  shmt_tensor* t = NULL;
  (void)module;
  if (PyTuple_GET_SIZE(args) < 1 || !shmt__py_as_dtype(PyTuple_GET_ITEM(args, 0), &dtype)) {
    PyErr_SetString(PyExc_TypeError, "_legacy_new(): the first argument must be a torch.dtype");
    return NULL;
  }
  PyObject* rest = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
  if (rest == NULL) return NULL;
  int r = legacy_tensor_of(rest, kwargs, dtype, false, &t);
  Py_DECREF(rest);
  return r < 0 ? NULL : shmt__py_wrap(t);
}

static PyObject* set_fills_uninitialized(PyObject* module, PyObject* on) {
  (void)module;
  shmt__set_fills_uninitialized(on == Py_True);
  Py_RETURN_NONE;
}

PyMethodDef shmt__py_construct_legacy_functions[] = {
    {"_set_fills_uninitialized", set_fills_uninitialized, METH_O,
     "Fill memory that a program asks for without values: True or False."},
    {"_legacy_new", (PyCFunction)(void (*)(void))legacy_new, METH_VARARGS | METH_KEYWORDS,
     "What the typed constructor of a dtype gives for these arguments."},
    {NULL, NULL, 0, NULL},
};
