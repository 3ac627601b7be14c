/* python/share.h -- tensors to and from the bytes that travel between processes. */
#ifndef SHMT_PYTHON_SHARE_H
#define SHMT_PYTHON_SHARE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyMethodDef shmt__py_share_functions[]; /* of the module; null-terminated */

#endif
