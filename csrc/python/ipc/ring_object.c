/* python/ipc/ring_object.c -- the exceptions of operations on rings. */
#include "python/ipc/ring_object.h"

#include "api/error.h"
#include "ipc/service/service.h"
#include "python/errors.h"

bool shmt__py_ring_mode_of(PyObject* o, uint32_t* out) {
  const unsigned long mode = PyLong_AsUnsignedLong(o);
  if (mode == (unsigned long)-1 && PyErr_Occurred()) return false;
  if (mode > SHMT_ATTACH_PRIVATE) {
    PyErr_Format(PyExc_ValueError, "no mode %lu of storages", mode);
    return false;
  }
  *out = (uint32_t)mode;
  return true;
}

bool shmt__py_most_of(const char* name, PyObject* o, Py_ssize_t* out) {
  *out = PyNumber_AsSsize_t(o, NULL); /* NULL: what is larger is as good as the largest */
  if (*out == -1 && PyErr_Occurred()) return false;
  if (*out >= 1) return true;
  PyErr_Format(PyExc_ValueError, "%s(): max_n must be at least 1, got %zd", name, *out);
  return false;
}

bool shmt__py_received_in_mode(shmt__received_message* d, uint32_t mode) {
  const uint32_t n = d->n_storages - (d->flags & SHMT_RING_SPILLED && d->n_storages > 0); /* not the data */
  for (uint32_t i = 0; mode != SHMT_ATTACH_WRITING && i < n; i++) {
    shmt_storage* seen = NULL;
    shmt_status status = shmt__storage_in_mode(d->storages[i], (int)mode, &seen);
    if (status != SHMT_OK) {
      (void)shmt__py_raise(status);
      return false;
    }
    shmt__storage_release(d->storages[i]);
    d->storages[i] = seen;
  }
  return true;
}

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
