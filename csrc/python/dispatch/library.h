/* python/dispatch/library.h -- the dispatcher as Python sees it: operators and kernels in Python. */
#ifndef SHMT_PYTHON_DISPATCH_LIBRARY_H
#define SHMT_PYTHON_DISPATCH_LIBRARY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/error.h"

extern PyMethodDef shmt__py_library_functions[];

/* Python's view of values, for kernels and modes: positional arguments and keyword-only ones. New
 * references. */
struct shmt_operator;
int shmt__py_values_to_args(const struct shmt_operator* op, const void* values, PyObject** args,
                            PyObject** kwargs);
/* The values that its arguments have when a call leaves them out, by place; NULL with an exception. Borrowed. */
const struct shmt_value* shmt__py_operator_defaults(const struct shmt_operator* op);
/* What a Python kernel returned, as results of the schema. */
shmt_status shmt__py_results_from(const struct shmt_operator* op, PyObject* returned,
                                  void* results);
/* The OpOverload object of an operator; new reference. */
PyObject* shmt__py_operator_object(const struct shmt_operator* op);

#endif
