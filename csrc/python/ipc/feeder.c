/* python/ipc/feeder.c -- messages for which there was no room, and the thread of this process that puts them.
 *
 * They are in a list at the ring's object, and the ring counts them as pending. A thread is started with the first of
 * them and ends when none is left. It is started here: Python code that starts a thread can be interrupted, and
 * libraries replace threads by something that does not run beside the rest.
 */
#include "python/ipc/ring_object.h"

#include "ipc/ring/wait.h"
#include "ipc/session/session.h"
#include "os/futex.h"
#include "python/gil.h"

#include <limits.h>

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

/* Put what waits. */
static void feed(shmt__py_ring* o) {
  if (o->is_fed) return;
  o->is_fed = true;
  while (o->first_waiting != NULL) {
    shmt__ring_result result = put_first(o);
    if (result != SHMT_RING_DONE) {
      forget_pending(o);
      (void)shmt__py_ring_raise(result, shmt__py_full());
      PyErr_WriteUnraisable((PyObject*)o);
    }
    /* Only now: until here a new message must go behind this one. */
    drop_first(o);
  }
  o->is_fed = false;
  (void)PySet_Discard(fed_rings, (PyObject*)o);
  signal_feed_event(o);
}

typedef struct feeder {
  shmt__py_ring* ring;              /* owned */
  atomic_uint_least32_t has_begun; /* the thread has the ring, and a state of the interpreter */
} feeder;

static void run_feeder(void* arg) {
  shmt__os_thread_name("shmtensor-feed");
  feeder* f = arg;
  shmt__py_ring* o = f->ring;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  atomic_store_explicit(&f->has_begun, 1, memory_order_release);
  (void)shmt__os_futex_wake(&f->has_begun, 1); /* f is gone as soon as we give up the interpreter's lock */
  feed(o);
  Py_DECREF(o);
  PyGILState_Release(gil);
}

/* Start the thread, and wait until it has begun: a thread that begins while the interpreter ends could not. False with
 * an exception. */
static bool start_feeder(shmt__py_ring* o) {
  feeder f = {.ring = o};
  if (PySet_Add(fed_rings, (PyObject*)o) < 0) return false;
  Py_INCREF(o);
  if (PyThread_start_new_thread(run_feeder, &f) == PYTHREAD_INVALID_THREAD_ID) {
    Py_DECREF(o);
    PyErr_SetString(PyExc_RuntimeError, "can't start new thread to feed a queue");
    return false;
  }
  PyThreadState* saved = PyEval_SaveThread();
  while (atomic_load_explicit(&f.has_begun, memory_order_acquire) == 0)
    (void)shmt__os_futex_wait(&f.has_begun, 0, shmt__ring_slice(UINT64_MAX));
  shmt__py_gil_restore(saved);
  return true;
}

PyObject* shmt__py_ring_let_wait(shmt__py_ring* o, shmt__py_packed_message* p) {
  after_fork(o);
  append(o, p);
  if (o->is_fed || start_feeder(o)) Py_RETURN_NONE;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  forget_pending(o);
  drop_first(o); /* the only one, as there is no thread */
  PyErr_Restore(type, value, trace);
  return NULL;
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

static PyObject* py_set_fed_rings(PyObject* module, PyObject* set) {
  (void)module;
  if (!PySet_Check(set))
    return PyErr_Format(PyExc_TypeError, "_set_fed_rings(): expected a set, got %s", Py_TYPE(set)->tp_name);
  Py_XSETREF(fed_rings, Py_NewRef(set));
  Py_RETURN_NONE;
}

PyMethodDef shmt__py_feeder_functions[] = {
    {"_set_fed_rings", py_set_fed_rings, METH_O, "Name the set of rings for which messages wait for room."},
    {NULL, NULL, 0, NULL},
};
