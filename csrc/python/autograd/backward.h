/* python/autograd/backward.h -- runs of the engine from Python. */
#ifndef SHMT_PYTHON_AUTOGRAD_BACKWARD_H
#define SHMT_PYTHON_AUTOGRAD_BACKWARD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Tensor.backward(gradient=None, retain_graph=None, create_graph=False, inputs=None) */
PyObject* shmt__py_backward(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames);
extern PyMethodDef shmt__py_backward_functions[];

#endif
