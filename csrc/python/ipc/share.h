/* python/ipc/share.h -- the handles of tensors for pickles, and share_memory_(). */
#ifndef SHMT_PYTHON_IPC_SHARE_H
#define SHMT_PYTHON_IPC_SHARE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "python/call/sharing.h"

/* Add _rebuild_shared_tensor to the module: 0, or -1 with an exception. */
int shmt__py_share_init(PyObject* module);

/* Is o, a Tensor of exactly that class, no more than its bytes? */
bool shmt__py_tensor_is_plain(PyObject* o);
/* The reduction of a Tensor for messages. New reference. */
PyObject* shmt__py_reduce_tensor(PyObject* o);

extern PyMethodDef shmt__py_share_functions[]; /* of the module; null-terminated */

#endif
