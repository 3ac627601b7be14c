/* python/tensor/construct.c -- tensor(data): shapes, dtypes and values of nested Python data. */
#include "python/tensor/construct.h"

#include "autograd/meta.h"
#include "base/dtype.h"
#include "base/promote.h"
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/ops.h"
#include "ipc/handle/share.h"
#include "iter/copy/copy.h"
#include "ops/pointwise/conj_neg_views.h"
#include "python/call/convert.h"
#include "python/call/sharing.h"
#include "python/tensor/exchange/dlpack.h"
#include "python/values/default_device.h"
#include "python/values/types.h"

typedef struct shape {
  int64_t sizes[SHMT_MAX_DIMS];
  int n_dims;
} shape;

/* A sequence to descend into, as opposed to an element. */
static bool is_nested(PyObject* o) {
  if (PyList_Check(o) || PyTuple_Check(o)) return true;
  if (PyFloat_Check(o) || PyLong_Check(o) || PyUnicode_Check(o) || PyBytes_Check(o) ||
      shmt__py_is_tensor(o))
    return false;
  if (shmt__py_is_numpy_array(o)) {
    PyObject* ndim = PyObject_GetAttrString(o, "ndim"); /* a 0-d array is an element */
    long n = ndim ? PyLong_AsLong(ndim) : 0;
    Py_XDECREF(ndim);
    PyErr_Clear();
    return n > 0;
  }
  return PySequence_Check(o) && !PyDict_Check(o);
}

/* The elements of a sequence: as many as it says it has, by index. Lists and tuples stand for themselves. */
static PyObject* elements_of(PyObject* o) {
  if (PyList_Check(o) || PyTuple_Check(o)) return Py_NewRef(o);
  Py_ssize_t n = PySequence_Size(o);
  PyObject* list = n < 0 ? NULL : PyList_New(n);
  for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
    PyObject* item = PySequence_GetItem(o, i);
    if (item == NULL)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, i, item);
  }
  return list;
}

/* The element at 0 could not be had: a ValueError in its place, with the reason as its cause. */
static void refuse_sequence(PyObject* o) {
  PyObject *type, *cause, *traceback, *error;
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return;
  PyErr_Fetch(&type, &cause, &traceback);
  PyErr_NormalizeException(&type, &cause, &traceback);
  if (traceback != NULL) PyException_SetTraceback(cause, traceback);
  Py_DECREF(type);
  Py_XDECREF(traceback);
  PyErr_Format(PyExc_ValueError, "could not determine the shape of object type '%s'",
               Py_TYPE(o)->tp_name);
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  PyException_SetCause(error, cause);
  PyErr_Restore(type, error, traceback);
}

/* Sizes by the first element of each level. */
static int measure(PyObject* data, shape* out) {
  PyObject* o = Py_NewRef(data);
  out->n_dims = 0;
  while (is_nested(o)) {
    Py_ssize_t n = PySequence_Size(o);
    if (n < 0) goto fail;
    if (out->n_dims == SHMT_MAX_DIMS) {
      PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(o)->tp_name);
      goto fail;
    }
    out->sizes[out->n_dims++] = n;
    if (n == 0) break;
    PyObject* first = PySequence_GetItem(o, 0);
    if (first == NULL) {
      refuse_sequence(o);
      goto fail;
    }
    Py_SETREF(o, first);
  }
  if (out->n_dims > 0 && PyUnicode_Check(o)) {
    PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(o)->tp_name);
    goto fail;
  }
  Py_DECREF(o);
  return 0;
fail:
  Py_DECREF(o);
  return -1;
}

static shmt_dtype complex_default(void) { return shmt__to_complex_dtype(shmt__default_dtype()); }

static int element_dtype(PyObject* o, shmt_dtype* out);

/* The same of an array without dimensions, by what it holds. */
static int array_element_dtype(PyObject* array, shmt_dtype* out) {
  PyObject* nothing = PyTuple_New(0);
  PyObject* item = nothing ? PyObject_GetItem(array, nothing) : NULL;
  Py_XDECREF(nothing);
  if (item == NULL) return -1;
  int r = element_dtype(item, out);
  Py_DECREF(item);
  return r;
}

/* The dtype of one element: 0 or -1. */
static int element_dtype(PyObject* o, shmt_dtype* out) {
  if (PyFloat_CheckExact(o))
    *out = shmt__default_dtype();
  else if (PyBool_Check(o))
    *out = SHMT_BOOL;
  else if (PyLong_CheckExact(o))
    *out = SHMT_INT64;
  else if (shmt__py_is_tensor(o))
    *out = shmt__py_tensor(o)->dtype;
  else if ((*out = shmt__py_numpy_scalar_dtype(o)) != SHMT_DTYPE_NONE)
    return 0;
  else if (shmt__py_is_numpy_array(o))
    return array_element_dtype(o, out);
  else if (PyFloat_Check(o))
    *out = shmt__default_dtype();
  else if (PyLong_Check(o))
    *out = SHMT_INT64;
  else if (PyComplex_Check(o))
    *out = complex_default();
  else if (PyUnicode_Check(o) || PyBytes_Check(o)) {
    PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(o)->tp_name);
    return -1;
  } else {
    PyObject* note = shmt__py_foreign_tensor_note(o);
    if (note != NULL)
      PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s%U", Py_TYPE(o)->tp_name, note);
    Py_XDECREF(note);
    return -1;
  }
  return 0;
}

/* Promote *dtype (NONE at first) by every element below o. */
static int infer(PyObject* o, int depth, shmt_dtype* dtype) {
  if (!is_nested(o)) {
    shmt_dtype d;
    if (element_dtype(o, &d) < 0) return -1;
    if (*dtype == d) return 0;
    if (*dtype == SHMT_DTYPE_NONE) {
      *dtype = d;
      return 0;
    }
    shmt_status s = shmt__promote_types(*dtype, d, dtype);
    if (s == SHMT_OK) return 0;
    shmt__py_raise(s);
    return -1;
  }
  if (depth == SHMT_MAX_DIMS) {
    PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(o)->tp_name);
    return -1;
  }
  PyObject* fast = elements_of(o);
  if (fast == NULL) return -1;
  int r = 0;
  for (Py_ssize_t i = 0; r == 0 && i < PySequence_Fast_GET_SIZE(fast); i++) {
    if (PySequence_Fast_GET_ITEM(fast, i) == o) {
      PyErr_SetString(PyExc_TypeError, "new(): self-referential lists are incompatible");
      r = -1;
      break;
    }
    r = infer(PySequence_Fast_GET_ITEM(fast, i), depth + 1, dtype);
  }
  Py_DECREF(fast);
  return r;
}

/* An integer beyond 64 bits, for which an OverflowError is set: its truth, or the nearest float. 1, or -1. */
static int huge_int(PyObject* o, shmt_dtype dtype, shmt_scalar* s) {
  if (!PyLong_Check(o) || (dtype != SHMT_BOOL && shmt__dtype_category(dtype) < 2)) return -1;
  PyErr_Clear();
  *s = dtype == SHMT_BOOL ? shmt__scalar_bool(true) : shmt__scalar_float(PyLong_AsDouble(o));
  return PyErr_Occurred() ? -1 : 1;
}

static int store_element(PyObject* o, shmt_dtype dtype, char* p) {
  if (PyFloat_CheckExact(o) && dtype == SHMT_FLOAT32) {
    float f = (float)PyFloat_AS_DOUBLE(o);
    memcpy(p, &f, sizeof f);
    return 0;
  }
  shmt_scalar s;
  int r = shmt__py_as_scalar(o, &s);
  if (r < 0 && PyErr_ExceptionMatches(PyExc_OverflowError)) r = huge_int(o, dtype, &s);
  if (r == 0 && shmt__py_is_tensor(o)) {
    if (shmt__py_tensor(o)->numel != 1) {
      PyErr_SetString(PyExc_ValueError,
                      "only one element tensors can be converted to Python scalars");
      return -1;
    }
    shmt_status status = shmt__tensor_item(shmt__py_tensor(o), &s);
    if (status != SHMT_OK) {
      shmt__py_raise(status);
      return -1;
    }
    r = 1;
  } else if (r == 0 && shmt__py_is_numpy_array(o)) {
    PyObject* item = PyObject_CallMethod(o, "item", NULL);
    r = item ? shmt__py_as_scalar(item, &s) : -1;
    Py_XDECREF(item);
  }
  if (r == 0) {
    if (is_nested(o))
      PyErr_Format(PyExc_TypeError, "'%s' object cannot be interpreted as an integer",
                   Py_TYPE(o)->tp_name);
    else
      PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(o)->tp_name);
    return -1;
  }
  if (r < 0) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
      if (dtype == SHMT_UINT64)
        PyErr_SetString(PyExc_OverflowError, "int too big to convert");
      else
        shmt__py_raise_int_overflow();
    }
    return -1;
  }
  if (s.tag == SHMT_SCALAR_INT && dtype == SHMT_UINT64 && shmt__scalar_to_int64(s) < 0) {
    PyErr_SetString(PyExc_OverflowError, "can't convert negative int to unsigned");
    return -1;
  }
  if (s.tag == SHMT_SCALAR_UINT && dtype != SHMT_UINT64 && dtype != SHMT_BOOL && shmt__dtype_category(dtype) < 2) {
    shmt__py_raise_int_overflow();
    return -1;
  }
  if (s.tag == SHMT_SCALAR_COMPLEX && shmt__dtype_kind[dtype] != SHMT_KIND_COMPLEX &&
      dtype != SHMT_BOOL) {
    PyErr_SetString(PyExc_TypeError, "must be real number, not complex");
    return -1;
  }
  if (shmt__dtype_category(dtype) >= 2) {
    shmt__scalar_store_unsafe(s, dtype, p); /* 1e40 in float32 is infinite, and so is 2^62 in float16 */
    return 0;
  }
  shmt_status status = shmt__scalar_store(s, dtype, p);
  if (status == SHMT_OK) return 0;
  shmt__py_raise(status);
  return -1;
}

/* Write the elements below o (at level dim) to *p on, row by row. */
static int store(PyObject* o, const shape* sh, int dim, shmt_dtype dtype, char** p) {
  if (dim == sh->n_dims) {
    if (store_element(o, dtype, *p) < 0) return -1;
    *p += shmt__dtype_size[dtype];
    return 0;
  }
  if (!is_nested(o)) {
    PyErr_SetString(PyExc_TypeError, "not a sequence");
    return -1;
  }
  PyObject* fast = elements_of(o);
  if (fast == NULL) return -1;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
  int r = 0;
  if (n != sh->sizes[dim]) {
    PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)",
                 (long long)sh->sizes[dim], dim, n);
    r = -1;
  }
  static _Atomic(bool) warned;
  if (r == 0 && n > 0 && dim + 1 < sh->n_dims &&
      shmt__py_is_numpy_array(PySequence_Fast_GET_ITEM(fast, 0))) {
    shmt_status s = shmt__warn_once(&warned, "Creating a tensor from a list of numpy.ndarrays is extremely slow: "
                                           "make one array of them with numpy.array() first");
    if (s != SHMT_OK) r = (shmt__py_raise(s), -1);
  }
  /* The size is asked again each time: reading an element may run code that changes the list. */
  for (Py_ssize_t i = 0; r == 0 && i < n; i++) {
    if (i >= PySequence_Fast_GET_SIZE(fast)) {
      PyErr_SetString(PyExc_RuntimeError, "the sequence changed while a tensor was made of it");
      r = -1;
      break;
    }
    PyObject* item = Py_NewRef(PySequence_Fast_GET_ITEM(fast, i));
    r = store(item, sh, dim + 1, dtype, p);
    Py_DECREF(item);
  }
  Py_DECREF(fast);
  return r;
}

/* Have this thread's next storages made in shared memory, when `shared`; gives what was set. */
static const shmt__storage_source* enter_storage_source(bool shared) {
  const shmt__storage_source* before = shmt__tls_storage_source;
  if (shared) shmt__tls_storage_source = &shmt__place_shared;
  return before;
}

static int from_sequence(PyObject* data, shmt_dtype dtype, bool shared, shmt_tensor** out) {
  shape sh;
  if (measure(data, &sh) < 0) return -1;
  if (dtype == SHMT_DTYPE_NONE) {
    bool empty = false;
    for (int i = 0; i < sh.n_dims; i++) empty |= sh.sizes[i] == 0;
    if (!empty && infer(data, 0, &dtype) < 0) return -1;
    if (empty) dtype = shmt__default_dtype();
  }
  shmt_tensor* t = NULL;
  const shmt__storage_source* before = enter_storage_source(shared);
  shmt_status s = shmt__tensor_empty((shmt_ints){sh.sizes, sh.n_dims}, dtype, SHMT_CPU,
                                     SHMT_CONTIGUOUS_FORMAT, &t);
  shmt__tls_storage_source = before;
  if (s != SHMT_OK) {
    shmt__py_raise(s);
    return -1;
  }
  char* p = shmt__tensor_data(t);
  if (t->numel > 0 && store(data, &sh, 0, dtype, &p) < 0) {
    shmt__tensor_release(t);
    return -1;
  }
  *out = t;
  return 0;
}

/* A copy without history, as the class of the tensor makes it. */
static SHMT_COLD int copy_by_class(shmt_tensor* given, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) t = NULL;
  shmt_status s = shmt__tensor_detached(given, &t);
  if (s == SHMT_OK)
    s = shmt_op__to_copy(t, dtype == SHMT_DTYPE_NONE ? given->dtype : dtype, SHMT_LAYOUT_NONE, given->device,
                         (shmt_opt_bool){0}, false, SHMT_MEMORY_FORMAT_NONE, out);
  return s == SHMT_OK ? 0 : (shmt__py_raise(s), -1);
}

int shmt__py_copy_of(shmt_tensor* given, shmt_dtype dtype, bool shared, shmt_tensor** out) {
  shmt_tensor* copy = NULL;
  SHMT_AUTO(shmt_tensor) t = NULL;
  if (SHMT_UNLIKELY(shmt__tensor_is_answered(given) && !shared)) return copy_by_class(given, dtype, out);
  shmt_status resolved = shmt__resolve_conj_neg(given, &t);
  if (resolved != SHMT_OK) {
    shmt__py_raise(resolved);
    return -1;
  }
  if (dtype == SHMT_DTYPE_NONE) dtype = t->dtype;
  const shmt__storage_source* before = enter_storage_source(shared);
  shmt_status s = SHMT_OK;
  if (SHMT_UNLIKELY(t->sparse != NULL)) {
    s = shmt_op__to_copy_below(shmt__tensor_backend(t), t, dtype, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE,
                               (shmt_opt_bool){0}, false, SHMT_MEMORY_FORMAT_NONE, out);
    shmt__tls_storage_source = before;
    return s == SHMT_OK ? 0 : (shmt__py_raise(s), -1);
  }
  s = shmt__tensor_empty_like(t, dtype, &copy);
  shmt__tls_storage_source = before;
  if (s == SHMT_OK) s = SHMT_PY_UNLOCKED(t->numel, shmt__tensor_copy(copy, t));
  if (s == SHMT_OK) {
    *out = copy;
    return 0;
  }
  shmt__tensor_release(copy);
  shmt__py_raise(s);
  return -1;
}

int shmt__py_over_storage(PyObject* o, shmt_dtype dtype, shmt_tensor** out) {
  shmt_storage* storage;
  if (PyList_Check(o) || PyTuple_Check(o) || PyLong_Check(o) || PyFloat_Check(o) ||
      !PyObject_HasAttrString(o, "_storage_address"))
    return 0;
  if (dtype == SHMT_DTYPE_NONE) dtype = shmt__default_dtype();
  int r = shmt__py_as_storage(o, &storage);
  if (r != 1) return r;
  if (shmt__py_check_storage_dtype(o, dtype) < 0) return -1;
  const int64_t n = (int64_t)(storage->nbytes / shmt__dtype_size[dtype]);
  shmt_status s = shmt__tensor_from_storage(storage, SHMT_INTS(n), SHMT_INTS(1), 0, dtype, out);
  if (s == SHMT_OK) return 1;
  shmt__py_raise(s);
  return -1;
}

PyObject* shmt__py_as_numpy_array(PyObject* data) {
  if (shmt__py_is_numpy_array(data)) return Py_NewRef(data);
  if (PyList_Check(data) || PyTuple_Check(data) || PyLong_Check(data) || PyFloat_Check(data))
    return NULL;
  if (shmt__py_numpy_scalar_kind(data) != SHMT_NUMPY_NONE ||
      !PyObject_HasAttrString(data, "__array_interface__"))
    return NULL;
  PyObject* numpy = PyImport_ImportModule("numpy");
  PyObject* array = numpy ? PyObject_CallMethod(numpy, "asarray", "O", data) : NULL;
  Py_XDECREF(numpy);
  if (array != NULL && shmt__py_check_inside_base(array) < 0) Py_CLEAR(array);
  return array;
}

PyObject* shmt__py_as_dlpack_tensor(PyObject* data) {
  if (is_nested(data) || PyFloat_Check(data) || PyLong_Check(data) || PyComplex_Check(data) ||
      shmt__py_numpy_scalar_kind(data) != SHMT_NUMPY_NONE ||
      !PyObject_HasAttrString((PyObject*)Py_TYPE(data), "__dlpack__"))
    return NULL;
  return shmt__py_import_dlpack(data, Py_None);
}

int shmt__py_tensor_from_data(PyObject* data, shmt_dtype dtype, shmt_tensor** out) {
  return shmt__py_tensor_from_data_in(data, dtype, false, out);
}

int shmt__py_tensor_from_data_in(PyObject* data, shmt_dtype dtype, bool shared, shmt_tensor** out) {
  if (shared && shmt__py_prepare_sharing() < 0) return -1;
  if (shmt__py_is_tensor(data)) return shmt__py_copy_of(shmt__py_tensor(data), dtype, shared, out);
  PyObject* array = shmt__py_as_numpy_array(data);
  if (array == NULL) {
    if (PyErr_Occurred()) return -1;
    if (PyUnicode_Check(data)) {
      PyErr_SetString(PyExc_TypeError, "new(): invalid data type 'str'");
      return -1;
    }
    SHMT_AUTO(shmt_tensor) stored = NULL;
    int is_storage = shmt__py_over_storage(data, dtype, &stored);
    if (is_storage != 0) return is_storage < 0 ? -1 : shmt__py_copy_of(stored, dtype, shared, out);
    PyObject* exchanged = shmt__py_as_dlpack_tensor(data);
    if (exchanged == NULL)
      return PyErr_Occurred() ? -1 : from_sequence(data, dtype, shared, out);
    int copied = shmt__py_copy_of(shmt__py_tensor(exchanged), dtype, shared, out);
    Py_DECREF(exchanged);
    return copied;
  }
  shmt_tensor* over = NULL;
  int r = shmt__py_from_numpy(array, true, &over);
  if (r == 0) {
    r = shmt__py_copy_of(over, dtype, shared, out);
    shmt__tensor_release(over);
  }
  Py_DECREF(array);
  return r;
}

int shmt__py_index_sequence(PyObject* sequence, shmt_tensor** out) {
  if (shmt__py_is_numpy_array(sequence))
    return shmt__py_tensor_from_data(sequence, SHMT_DTYPE_NONE, out);
  shmt_dtype dtype = SHMT_DTYPE_NONE;
  if (infer(sequence, 0, &dtype) < 0) return -1;
  return from_sequence(sequence, dtype == SHMT_BOOL ? SHMT_BOOL : SHMT_INT64, false, out);
}
