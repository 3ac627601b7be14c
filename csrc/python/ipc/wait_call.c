/* python/ipc/wait_call.c -- runs operations of rings and topics that may wait. */
#include "python/ipc/wait_call.h"

#include "os/clock.h"
#include "python/gil.h"

#include <math.h>

enum { PATIENCE_NS = 1000000, LOCK_PATIENCE_NS = 20000000 };

bool shmt__py_deadline_of(PyObject* timeout, uint64_t* out_ns) {
  if (timeout == Py_None) {
    *out_ns = UINT64_MAX;
    return true;
  }
  double seconds = PyFloat_AsDouble(timeout);
  if (seconds == -1.0 && PyErr_Occurred()) return false;
  if (isnan(seconds)) {
    PyErr_SetString(PyExc_ValueError, "timeout must be a number of seconds, got nan");
    return false;
  }
  if (seconds <= 0)
    *out_ns = 0;
  else if (seconds >= 1e9)
    *out_ns = UINT64_MAX;
  else
    *out_ns = shmt__os_now_ns() + (uint64_t)(seconds * 1e9);
  return true;
}

/* Put without KEEP for a moment. */
static shmt__ring_result wait_briefly(shmt__py_wait_call* w, uint64_t deadline_ns) {
  const unsigned flags = w->flags;
  uint64_t end_ns = shmt__os_now_ns() + PATIENCE_NS;
  PyThreadState* saved = PyEval_SaveThread();
  w->flags = 0;
  shmt__ring_result result = w->call(w, end_ns < deadline_ns ? end_ns : deadline_ns);
  w->flags = flags;
  shmt__py_gil_restore(saved);
  return result;
}

static bool has_to_wait(const shmt__py_wait_call* w, shmt__ring_result result) {
  return result == SHMT_RING_EMPTY || result == SHMT_RING_FULL || result == SHMT_RING_BUSY ||
         (result == SHMT_RING_NO_ROOM && !(w->flags & SHMT_RING_KEEP));
}

/* time.sleep if gevent has replaced it: then all of the program's tasks run in this thread, and a wait in C would stop
 * them. New reference, or NULL. */
static PyObject* sleep_of_gevent(void) {
  static PyObject* name;
  if (name == NULL && (name = PyUnicode_InternFromString("gevent.monkey")) == NULL) return NULL;
  PyObject* monkey = PyDict_GetItemWithError(PyImport_GetModuleDict(), name); /* borrowed */
  if (SHMT_LIKELY(monkey == NULL)) return NULL;
  Py_INCREF(monkey);
  PyObject* patched = PyObject_CallMethod(monkey, "is_module_patched", "s", "time");
  PyObject* time = patched == Py_True ? PyImport_ImportModule("time") : NULL;
  PyObject* sleep = time != NULL ? PyObject_GetAttrString(time, "sleep") : NULL;
  Py_XDECREF(time);
  Py_XDECREF(patched);
  Py_DECREF(monkey);
  return sleep;
}

/* A call that does not wait. It may wait a moment for a lock all the same, and be interrupted there; however often
 * signals come, it ends. */
static shmt__ring_result call_at_once(shmt__py_wait_call* w) {
  shmt__ring_result result = w->call(w, 0);
  if (SHMT_LIKELY(result != SHMT_RING_INTERRUPTED)) return result;
  const uint64_t end_ns = shmt__os_now_ns() + LOCK_PATIENCE_NS;
  do {
    if (PyErr_CheckSignals() < 0) return SHMT_RING_INTERRUPTED;
    result = w->call(w, 0);
  } while (result == SHMT_RING_INTERRUPTED && shmt__os_now_ns() < end_ns);
  return result == SHMT_RING_INTERRUPTED ? SHMT_RING_BUSY : result;
}

/* Try again and again, and sleep by this function in between. Consumes it. */
static shmt__ring_result run_with(PyObject* sleep, shmt__py_wait_call* w, uint64_t deadline_ns) {
  enum { FIRST_NS = 100000, LONGEST_NS = 10000000 };
  uint64_t slice_ns = FIRST_NS;
  if (w->is_patient) w->flags = SHMT_RING_KEEP;
  shmt__ring_result result;
  for (;;) {
    /* Not 0: only a call that may wait looks whether anybody is at the other end. */
    result = w->call(w, shmt__os_now_ns() + 1);
    if (!has_to_wait(w, result) && result != SHMT_RING_INTERRUPTED) break;
    uint64_t now_ns = shmt__os_now_ns();
    if (now_ns >= deadline_ns) {
      if (result == SHMT_RING_INTERRUPTED) result = call_at_once(w);
      break;
    }
    if (slice_ns > deadline_ns - now_ns) slice_ns = deadline_ns - now_ns;
    PyObject* slept = PyObject_CallFunction(sleep, "d", (double)slice_ns * 1e-9);
    result = SHMT_RING_INTERRUPTED;
    if (slept == NULL) break;
    Py_DECREF(slept);
    slice_ns = slice_ns < LONGEST_NS / 2 ? 2 * slice_ns : LONGEST_NS;
  }
  Py_DECREF(sleep);
  return result;
}

shmt__ring_result shmt__py_wait_call_run(shmt__py_wait_call* w, uint64_t deadline_ns) {
  shmt__ring_result result = call_at_once(w);
  if (!has_to_wait(w, result) || deadline_ns == 0) return result;
  PyObject* sleep = sleep_of_gevent();
  if (sleep != NULL) return run_with(sleep, w, deadline_ns);
  if (PyErr_Occurred()) return SHMT_RING_INTERRUPTED;
  if (w->is_patient) {
    w->flags = SHMT_RING_KEEP;
    if (result == SHMT_RING_NO_ROOM) result = wait_briefly(w, deadline_ns);
    if (result == SHMT_RING_DONE) return result;
  }
  do {
    PyThreadState* saved = PyEval_SaveThread();
    result = w->call(w, deadline_ns);
    shmt__py_gil_restore(saved);
    if (result == SHMT_RING_INTERRUPTED && PyErr_CheckSignals() < 0) return result;
  } while (result == SHMT_RING_INTERRUPTED);
  return result;
}
