/* python/errors.h -- failures become Python exceptions, warnings become Python warnings. */
#ifndef SHMT_PYTHON_ERRORS_H
#define SHMT_PYTHON_ERRORS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/error.h"

/* Turn status into the exception of its code and return NULL; with SHMT_E_PYTHON one is already
 * set. */
SHMT_COLD PyObject* shmt__py_raise(shmt_status status);
/* Set torch's ValueError for an int of more than 64 bits. */
void shmt__py_raise_int_overflow(void);

/* Let shmt__warn reach Python's warnings. */
void shmt__py_errors_init(void);

/* Functions of shmtensor._C. */
extern PyMethodDef shmt__py_error_functions[];

#endif
