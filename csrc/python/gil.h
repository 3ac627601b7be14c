/* python/gil.h -- waiting for the interpreter lock, which no thread does while it holds a mutex: see Note [Mutexes
 * across fork] in os/mutex.h. */
#ifndef SHMT_PYTHON_GIL_H
#define SHMT_PYTHON_GIL_H

#include <Python.h>

#include "os/mutex.h"

/* As PyGILState_Ensure, for any thread. */
static inline PyGILState_STATE shmt__py_gil_ensure(void) {
  SHMT_ASSERT(!shmt__mutex_is_held());
  return PyGILState_Ensure();
}

/* As PyEval_RestoreThread: undoes PyEval_SaveThread. */
static inline void shmt__py_gil_restore(PyThreadState* saved) {
  SHMT_ASSERT(!shmt__mutex_is_held());
  PyEval_RestoreThread(saved);
}

#endif
