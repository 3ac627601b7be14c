/* python/dispatch/mode.h -- dispatch modes, and the key by which the classes of tensors are asked. */
#ifndef SHMT_PYTHON_DISPATCH_MODE_H
#define SHMT_PYTHON_DISPATCH_MODE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyMethodDef shmt__py_mode_functions[];
int shmt__py_mode_init(void);

#endif
