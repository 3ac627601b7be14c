/* python/autograd/tensor_properties.h -- what autograd adds to tensors and to the module. */
#ifndef SHMT_PYTHON_AUTOGRAD_TENSOR_PROPERTIES_H
#define SHMT_PYTHON_AUTOGRAD_TENSOR_PROPERTIES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/types.h"

extern PyMethodDef shmt__py_autocast_functions[]; /* autocast.c */
extern PyMethodDef shmt__py_forward_functions[];  /* forward.c */
extern PyMethodDef shmt__py_vmap_functions[];     /* vmap.c */
extern PyMethodDef shmt__py_functorch_functions[]; /* vmap.c: shmtensor._C._functorch */
extern PyMethodDef shmt__py_profiler_functions[]; /* profiler.c */
extern PyMethodDef shmt__py_autograd_functions[]; /* of the module */

/* The types of what switches recording in a `with`: switches.c. 0 or -1. */
int shmt__py_switches_init(PyObject* module);

/* Make the Node, handle and Function types, and give _TensorBase its methods and properties; 0 or -1. */
int shmt__py_autograd_init(PyObject* module);

#endif
