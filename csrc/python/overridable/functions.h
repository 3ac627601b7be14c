/* python/overridable/functions.h -- functions written in Python whose arguments may answer their calls. */
#ifndef SHMT_PYTHON_OVERRIDABLE_FUNCTIONS_H
#define SHMT_PYTHON_OVERRIDABLE_FUNCTIONS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the type. -1 with an exception. */
int shmt__py_overridable_init(PyObject* module);

#endif
