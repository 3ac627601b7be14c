/* python/autograd/anomaly.h -- anomaly mode, as Python shows and switches it. */
#ifndef SHMT_PYTHON_AUTOGRAD_ANOMALY_H
#define SHMT_PYTHON_AUTOGRAD_ANOMALY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyMethodDef shmt__py_anomaly_functions[];
/* Let the engine take Python's stacks, and report with Python's warnings. */
void shmt__py_anomaly_init(void);

#endif
