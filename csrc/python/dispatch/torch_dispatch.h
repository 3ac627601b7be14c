/* python/dispatch/torch_dispatch.h -- __torch_dispatch__: Python objects and classes that answer operators.
 *
 * A mode (python/dispatch/mode.c) is asked first, then the classes of the arguments whose tensors have the key
 * PythonBelowAutograd (Note [Wrappers] in tensor/tensor.h).
 */
#ifndef SHMT_PYTHON_DISPATCH_TORCH_DISPATCH_H
#define SHMT_PYTHON_DISPATCH_TORCH_DISPATCH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dispatch/registry.h"

/* Is one of the tensors of a call answered by its class? */
bool shmt__py_has_answered_tensor(const shmt_operator* op, const shmt_value* args);
/* The answer of the mode, which may be NULL, else of the classes; takes the interpreter lock.
 * Errors: SHMT_E_PYTHON: TypeError when all return NotImplemented, RuntimeError for results of other types than the
 * schema says. */
shmt_status shmt__py_call_torch_dispatch(PyObject* mode, const shmt_operator* op, const shmt_value* args,
                                         shmt_value* results);
int shmt__py_torch_dispatch_init(void);

#endif
