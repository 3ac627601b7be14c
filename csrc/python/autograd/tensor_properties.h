/* python/autograd/tensor_properties.h -- what the graph adds to tensors and to the module: tables for the type
 * and module. */
#ifndef SHMT_PYTHON_AUTOGRAD_TENSOR_PROPERTIES_H
#define SHMT_PYTHON_AUTOGRAD_TENSOR_PROPERTIES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/types.h"

extern PyMethodDef shmt__py_autograd_methods[]; /* of _TensorBase */
extern PyGetSetDef shmt__py_autograd_getset[];
extern PyMethodDef shmt__py_autograd_functions[]; /* of the module */

/* The collector's view of hooks on a leaf that nobody but its wrapper holds: a hook often refers to
 * its tensor. */
int shmt__py_visit_hooks(shmt_tensor* t, visitproc visit, void* arg);
void shmt__py_clear_hooks(shmt_tensor* t);

/* Make the Node, handle and Function types and the fallback of the Python key; 0 or -1. */
int shmt__py_autograd_init(PyObject* module);

#endif
