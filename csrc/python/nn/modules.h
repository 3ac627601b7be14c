/* python/nn/modules.h -- what nn.Module does most: being called, and finding its parameters. */
#ifndef SHMT_PYTHON_NN_MODULES_H
#define SHMT_PYTHON_NN_MODULES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyMethodDef shmt__py_nn_module_functions[]; /* _module_call */

#endif
