/* python/call/sharing.h -- moving storages to shared memory from Python. */
#ifndef SHMT_PYTHON_CALL_SHARING_H
#define SHMT_PYTHON_CALL_SHARING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "storage/storage.h"

/* Make this process able to share: 0, or -1 with an exception. Called before shared memory is asked
 * for by anything that did not come through the package's own modules. */
int shmt__py_prepare_sharing(void);

/* Share the storage, without the interpreter lock when there is much to copy. */
shmt_status shmt__py_share_storage(shmt_storage* s);
/* The method share_memory_(). New reference to self. */
PyObject* shmt__py_share_memory(PyObject* self, PyObject* unused);

#endif
