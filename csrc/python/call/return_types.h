/* python/call/return_types.h -- the named tuples that operators return, as torch.return_types.max. */
#ifndef SHMT_PYTHON_CALL_RETURN_TYPES_H
#define SHMT_PYTHON_CALL_RETURN_TYPES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The one type of that name; fields are words. Made when first asked for, kept for ever. Borrowed;
 * NULL with an exception. */
PyTypeObject* shmt__py_return_type(const char* name, const char* fields);

/* After the functions were added. -1 with an exception. */
int shmt__py_return_types_init(PyObject* module);
extern PyMethodDef shmt__py_return_type_functions[];

#endif
