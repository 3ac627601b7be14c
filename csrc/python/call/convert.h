/* python/call/convert.h -- single values between Python and C. */
#ifndef SHMT_PYTHON_CALL_CONVERT_H
#define SHMT_PYTHON_CALL_CONVERT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dispatch/schema.h"
#include "dispatch/value.h"
#include "python/values/tensor_object.h"

/* What kind of NumPy scalar o is, by its type's name; the library need not be loaded. */
typedef enum shmt__py_numpy_kind {
  SHMT_NUMPY_NONE,
  SHMT_NUMPY_BOOL,
  SHMT_NUMPY_INT,
  SHMT_NUMPY_FLOAT,
  SHMT_NUMPY_COMPLEX,
} shmt__py_numpy_kind;
shmt__py_numpy_kind shmt__py_numpy_scalar_kind(PyObject* o);

/* The conversions return 1 when o was one, 0 when it is of another type, -1 with an exception set
 * (an int that overflows, a tensor that cannot be read). */

/* bool, int, float, complex or a NumPy scalar. */
int shmt__py_as_scalar(PyObject* o, shmt_scalar* out);
/* Those and 0-d tensors that do not require grad. */
int shmt__py_as_scalar_or_tensor(PyObject* o, shmt_scalar* out);
/* int (not bool), NumPy integer, 0-d integral tensor. */
int shmt__py_as_int(PyObject* o, int64_t* out);
/* float, int, NumPy real, 0-d real tensor. */
int shmt__py_as_float(PyObject* o, double* out);
/* True, False or NumPy's. */
int shmt__py_as_bool(PyObject* o, bool* out);

/* An UntypedStorage or TypedStorage; *out is borrowed from o. */
int shmt__py_as_storage(PyObject* o, shmt_storage** out);
/* 0 when the storage in o is untyped or of this dtype; else -1 with a RuntimeError. */
int shmt__py_check_storage_dtype(PyObject* o, shmt_dtype dtype);

/* Python's own tuple or list with its items; NULL items when it is neither. Borrowed. */
static inline PyObject** shmt__py_items(PyObject* o, Py_ssize_t* n) {
  if (PyTuple_Check(o)) {
    *n = PyTuple_GET_SIZE(o);
    return ((PyTupleObject*)o)->ob_item;
  }
  if (PyList_Check(o)) {
    static PyObject* none[1];
    *n = PyList_GET_SIZE(o);
    return *n ? ((PyListObject*)o)->ob_item : none; /* an empty list has no array */
  }
  return NULL;
}

/* What an error message adds about an object of another library: that from_dlpack() takes it, or that this package
 * has its own dtypes and devices. Empty for other objects. New reference, or NULL. */
PyObject* shmt__py_foreign_tensor_note(PyObject* o);

/* Warn once in a process when a tensor that requires grad becomes a Python number. 0, or -1 with an exception. */
int shmt__py_warn_of_history(const shmt_tensor* t);

/* New reference, or NULL with an exception. */
PyObject* shmt__py_from_scalar(shmt_scalar s);
/* The element at p. */
PyObject* shmt__py_from_element(const void* p, shmt_dtype dtype);
/* An argument or a result as the schema types it. Tensors are taken over from an owned value (the
 * value becomes none); borrowed: they are retained instead. New tensors are of the class type. */
PyObject* shmt__py_from_value_as(PyTypeObject* type, shmt_value* value, const shmt_arg* arg, bool borrowed);
/* With plain tensors. */
PyObject* shmt__py_from_value(shmt_value* value, const shmt_arg* arg, bool borrowed);

/* 0-d wrapped number for use beside the tensor `like` (NULL: unknown), in like's own dtype where
 * that changes nothing, which saves the operator a cast. 1, 0 (no number) or -1. New reference. */
int shmt__py_wrapped_number(PyObject* o, const shmt_tensor* like, shmt_tensor** out);

#endif
