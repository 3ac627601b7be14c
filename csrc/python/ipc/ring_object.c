/* python/ipc/ring_object.c -- the exceptions of operations on rings. */
#include "python/ipc/ring_object.h"

#include "api/error.h"
#include "python/errors.h"

PyObject* shmt__py_ring_raise(shmt__ring_result result, PyObject* late) {
  switch (result) {
    case SHMT_RING_EMPTY:
    case SHMT_RING_FULL:
    case SHMT_RING_NO_ROOM:
    case SHMT_RING_BUSY:
      if (late != NULL) {
        PyErr_SetNone(late);
        return NULL;
      }
      break;
    case SHMT_RING_ALONE:
      if (late == shmt__py_full()) {
        PyErr_SetString(PyExc_BrokenPipeError, "no process is left that could get from the queue");
        return NULL;
      }
      PyErr_SetString(PyExc_EOFError, "no process is left that could put into the queue");
      return NULL;
    case SHMT_RING_FAILED:
      return shmt__py_raise(shmt_error_code());
    case SHMT_RING_INTERRUPTED:
      return NULL;
    case SHMT_RING_DONE:
      break;
  }
  PyErr_SetString(PyExc_RuntimeError, "the queue gave no answer");
  return NULL;
}
