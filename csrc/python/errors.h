/* python/errors.h -- the way of failures and warnings to Python; shmt__py_raise is in
 * tensor_type.h. */
#ifndef SHMT_PYTHON_ERRORS_H
#define SHMT_PYTHON_ERRORS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Let shmt__warn reach Python's warnings. */
void shmt__py_errors_init(void);

/* Functions of shmtensor._C. */
extern PyMethodDef shmt__py_error_functions[];

#endif
