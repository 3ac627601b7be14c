/* python/values/descriptor.h -- _Descriptor, the Python object of a descriptor that is kept: Note [Kept descriptors] in
 * os/descriptor.h. */
#ifndef SHMT_PYTHON_VALUES_DESCRIPTOR_H
#define SHMT_PYTHON_VALUES_DESCRIPTOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "os/descriptor.h"

typedef struct shmt__py_descriptor {
  PyObject_HEAD
  shmt__descriptor kept; /* owned */
} shmt__py_descriptor;

extern PyTypeObject* shmt__py_descriptor_type;

/* Add the type to the module: 0, or -1 with an exception. */
int shmt__py_descriptor_init(PyObject* module);

#endif
