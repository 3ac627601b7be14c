/* python/values/types.h -- the small value types: dtype, layout, memory_format, device, Size, Generator.
 *
 * dtype, layout and memory_format objects exist once per value, so identity is equality and a
 * conversion is one comparison of types and one load. */
#ifndef SHMT_PYTHON_VALUES_TYPES_H
#define SHMT_PYTHON_VALUES_TYPES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/error.h"
#include "base/types.h"

typedef struct shmt__py_constant {
  PyObject_HEAD int value;
  const char* name; /* static; as printed after "torch." */
} shmt__py_constant;

typedef struct shmt__py_device_object {
  PyObject_HEAD int kind; /* of shmt_device, or one without tensors */
  int index; /* -1: none was given */
} shmt__py_device_object;

extern PyTypeObject* shmt__py_dtype_type;
extern PyTypeObject* shmt__py_layout_type;
extern PyTypeObject* shmt__py_memory_format_type;
extern PyTypeObject* shmt__py_device_type;
extern PyTypeObject* shmt__py_size_type;
extern PyTypeObject* shmt__py_generator_type;

/* New references. */
PyObject* shmt__py_from_dtype(shmt_dtype dtype);
PyObject* shmt__py_from_device(shmt_device device);
PyObject* shmt__py_from_layout(shmt_layout layout);
PyObject* shmt__py_from_memory_format(shmt_memory_format format);
PyObject* shmt__py_size_from(shmt_ints sizes);
PyObject* shmt__py_tuple_from(shmt_ints values);
PyObject* shmt__py_from_generator(shmt_generator* g); /* retains g */

static inline bool shmt__py_constant_value(PyObject* o, PyTypeObject* type, int* out) {
  if (Py_TYPE(o) != type) return false;
  *out = ((shmt__py_constant*)o)->value;
  return true;
}
/* A dtype object, or one of Python's float, int, bool, complex; false for anything else (no
 * exception). */
bool shmt__py_as_dtype(PyObject* o, shmt_dtype* out);
/* A device object, a string or an index: 1; 0 for another type; -1 with an exception for a bad
 * string. */
int shmt__py_as_device(PyObject* o, shmt_device* out);
/* NULL when o is no Generator; borrowed. */
shmt_generator* shmt__py_as_generator(PyObject* o);

int shmt__py_dtypes_init(PyObject* module);
int shmt__py_device_init(PyObject* module);
extern PyMethodDef shmt__py_device_functions[]; /* set_default_device, get_default_device */
extern PyMethodDef shmt__py_size_functions[]; /* _infer_size */
int shmt__py_size_init(PyObject* module);
int shmt__py_generator_init(PyObject* module);

#endif
