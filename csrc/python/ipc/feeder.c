/* python/ipc/feeder.c -- messages for which there was no room, and the thread of this process that puts them.
 *
 * They are in a list at the ring's object, and the ring counts them as pending. A thread that calls `feed` is started
 * with the first of them and ends when none is left. It is Python's, so that it waits for nothing at the interpreter's
 * end, and is started here, since Python code that starts a thread could be interrupted.
 */
#include "python/ipc/ring_object.h"

#include "ipc/ring/wait.h"
#include "ipc/session/session.h"
#include "os/futex.h"
#include "python/gil.h"

#include <limits.h>

static PyObject* start_new_thread; /* _thread.start_new_thread, owned */
static PyObject* fed_rings; /* a set of rings for which messages wait, owned; the process joins them when it ends */

static void signal_feed_event(shmt__py_ring* o) {
  atomic_fetch_add_explicit(&o->feed_event, 1, memory_order_seq_cst);
  (void)shmt__os_futex_wake(&o->feed_event, INT_MAX);
}

static void append(shmt__py_ring* o, shmt__py_packed_message* p) {
  if (o->last_waiting != NULL)
    o->last_waiting->next = p;
  else
    o->first_waiting = p;
  o->last_waiting = p;
}

static void drop_first(shmt__py_ring* o) {
  shmt__py_packed_message* p = o->first_waiting;
  o->first_waiting = p->next;
  if (o->first_waiting == NULL) o->last_waiting = NULL;
  Py_DECREF(p);
}

void shmt__py_ring_forget_waiting(shmt__py_ring* o) {
  while (o->first_waiting != NULL) drop_first(o);
}

/* Forget what is the parent's, from whom this process was forked. */
static void after_fork(shmt__py_ring* o) {
  if (SHMT_LIKELY(o->waiting_fork == shmt__fork_count())) return;
  o->waiting_fork = shmt__fork_count();
  shmt__py_ring_forget_waiting(o);
  o->is_fed = o->is_join_cancelled = false;
}

bool shmt__py_ring_has_waiting(shmt__py_ring* o) {
  if (SHMT_UNLIKELY(o->first_waiting != NULL)) after_fork(o);
  return o->first_waiting != NULL;
}

/* One pending message will not be put. */
static void forget_pending(shmt__py_ring* o) {
  PyThreadState* saved = PyEval_SaveThread();
  shmt__ring_forget_pending(o->ring, 1);
  shmt__py_gil_restore(saved);
}

static bool start_feeder(shmt__py_ring* o) {
  PyObject* feed = PyObject_GetAttrString((PyObject*)o, "feed");
  PyObject* arguments = PyTuple_New(0);
  PyObject* started = NULL;
  if (feed != NULL && arguments != NULL && PySet_Add(fed_rings, (PyObject*)o) == 0)
    started = PyObject_CallFunctionObjArgs(start_new_thread, feed, arguments, NULL);
  Py_XDECREF(started);
  Py_XDECREF(feed);
  Py_XDECREF(arguments);
  return started != NULL;
}

PyObject* shmt__py_ring_let_wait(shmt__py_ring* o, shmt__py_packed_message* p) {
  after_fork(o);
  /* First the thread, which begins when we give up the interpreter's lock. */
  if (o->is_fed || start_feeder(o)) {
    append(o, p);
    Py_RETURN_NONE;
  }
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  forget_pending(o);
  Py_DECREF(p);
  PyErr_Restore(type, value, trace);
  return NULL;
}

/* Put the first message. The interpreter's lock is released while it waits. */
static shmt__ring_result put_first(shmt__py_ring* o) {
  shmt__outgoing_message view = shmt__py_packed_message_view(o->first_waiting);
  shmt__ring_result result;
  PyThreadState* saved = PyEval_SaveThread();
  do {
    result = shmt__ring_put(o->ring, &view, SHMT_RING_PENDING, UINT64_MAX);
  } while (result == SHMT_RING_INTERRUPTED);
  shmt__py_gil_restore(saved);
  return result;
}

PyObject* shmt__py_ring_feed(PyObject* self, PyObject* unused) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  (void)unused;
  if (o->is_fed) Py_RETURN_NONE;
  o->is_fed = true;
  while (o->first_waiting != NULL) {
    shmt__ring_result result = put_first(o);
    if (result != SHMT_RING_DONE) {
      forget_pending(o);
      (void)shmt__py_ring_raise(result, shmt__py_full());
      PyErr_WriteUnraisable(self);
    }
    /* Only now: until here a new message must go behind this one. */
    drop_first(o);
  }
  o->is_fed = false;
  (void)PySet_Discard(fed_rings, self);
  signal_feed_event(o);
  Py_RETURN_NONE;
}

/* join_feeder(): wait until nothing waits for room, or the join is cancelled. */
PyObject* shmt__py_ring_join_feeder(PyObject* self, PyObject* unused) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  (void)unused;
  while (shmt__py_ring_has_waiting(o) && !o->is_join_cancelled) {
    uint32_t event = atomic_load_explicit(&o->feed_event, memory_order_seq_cst);
    PyThreadState* saved = PyEval_SaveThread();
    (void)shmt__os_futex_wait(&o->feed_event, event, shmt__ring_slice(UINT64_MAX));
    shmt__py_gil_restore(saved);
    if (PyErr_CheckSignals() < 0) return NULL;
  }
  Py_RETURN_NONE;
}

/* cancel_join(): no thread is to wait for what is left. */
PyObject* shmt__py_ring_cancel_join(PyObject* self, PyObject* unused) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  (void)unused;
  after_fork(o);
  o->is_join_cancelled = true;
  signal_feed_event(o);
  Py_RETURN_NONE;
}

/* _set_feeders(start_new_thread, fed_rings) */
static PyObject* py_set_feeders(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  if (n != 2 || !PySet_Check(args[1]))
    return PyErr_Format(PyExc_TypeError, "_set_feeders(): expected a function and a set, got %zd arguments", n);
  Py_XSETREF(start_new_thread, Py_NewRef(args[0]));
  Py_XSETREF(fed_rings, Py_NewRef(args[1]));
  Py_RETURN_NONE;
}

PyMethodDef shmt__py_feeder_functions[] = {
    {"_set_feeders", (PyCFunction)(void (*)(void))py_set_feeders, METH_FASTCALL,
     "Name the function that starts a thread, and the set of rings for which one runs."},
    {NULL, NULL, 0, NULL},
};
