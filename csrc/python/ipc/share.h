/* python/ipc/share.h -- the handles of tensors for pickles, and share_memory_(). */
#ifndef SHMT_PYTHON_IPC_SHARE_H
#define SHMT_PYTHON_IPC_SHARE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "storage/storage.h"

/* Make this process able to share: 0, or -1 with an exception. Called before shared memory is asked
 * for by anything that did not come through the package's own modules. */
int shmt__py_prepare_sharing(void);

/* Add _rebuild_shared_tensor to the module: 0, or -1 with an exception. */
int shmt__py_share_init(PyObject* module);

/* Is o, a Tensor of exactly that class, no more than its bytes? */
bool shmt__py_tensor_is_plain(PyObject* o);
/* Share the storage, without the interpreter lock when there is much to copy. */
shmt_status shmt__py_share_storage(shmt_storage* s);
/* The reduction of a Tensor for messages. New reference. */
PyObject* shmt__py_reduce_tensor(PyObject* o);

/* The method share_memory_(). New reference to self. */
PyObject* shmt__py_share_memory(PyObject* self, PyObject* unused);

extern PyMethodDef shmt__py_share_functions[]; /* of the module; null-terminated */

#endif
