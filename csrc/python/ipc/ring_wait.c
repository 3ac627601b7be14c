/* python/ipc/ring_wait.c -- _RingWait, one wait for any of several queues and events. */
#include "ipc/ring/wait_any.h"

#include "python/gil.h"
#include "python/ipc/ring_object.h"
#include "python/ipc/wait_call.h"
#include "python/tensor/tensor_type.h"

#include <stdlib.h>

static PyTypeObject* wait_type; /* owned */

typedef struct wait_object {
  PyObject_HEAD PyObject* things; /* owned: a tuple of _Ring and _Event */
  shmt__wait_item* items;         /* owned; one for each */
  shmt__ring_watch* watch;        /* owned, or NULL */
  uint32_t n;
} wait_object;

typedef struct any_call {
  shmt__py_wait_call base;
  wait_object* wait;
} any_call;

static shmt__ring_result call_any(shmt__py_wait_call* w, uint64_t deadline_ns) {
  const wait_object* o = ((any_call*)w)->wait;
  return shmt__ring_wait_any(o->items, o->n, deadline_ns);
}

/* --- life --- */

static bool fill(wait_object* o) {
  for (uint32_t i = 0; i < o->n; i++) {
    PyObject* thing = PyTuple_GET_ITEM(o->things, i);
    shmt__ring* event = shmt__py_event_ring(thing);
    if (event == NULL && !shmt__py_is_ring(thing)) {
      PyErr_Format(PyExc_TypeError, "_RingWait(): expected _Ring or _Event, got %s", Py_TYPE(thing)->tp_name);
      return false;
    }
    shmt__ring* ring = event != NULL ? event : ((shmt__py_ring*)thing)->ring;
    o->items[i] = (shmt__wait_item){.ring = ring, .is_event = event != NULL, .since = shmt__event_mark_now(ring)};
  }
  return true;
}

/* _RingWait(things): a list; what happens to events counts from now on */
static PyObject* wait_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* list = NULL;
  if (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0)
    return PyErr_Format(PyExc_TypeError, "_RingWait() takes no keyword arguments");
  if (!PyArg_ParseTuple(args, "O!", &PyList_Type, &list)) return NULL;
  wait_object* o = (wait_object*)type->tp_alloc(type, 0);
  if (o == NULL) return NULL;
  o->things = PyList_AsTuple(list);
  if (o->things != NULL) {
    o->n = (uint32_t)PyTuple_GET_SIZE(o->things);
    o->items = calloc(o->n > 0 ? o->n : 1, sizeof *o->items);
    if (o->items == NULL) (void)PyErr_NoMemory();
    if (o->items != NULL && fill(o)) return (PyObject*)o;
  }
  Py_DECREF(o);
  return NULL;
}

static void end_watch(wait_object* o) {
  shmt__ring_watch_close(o->watch);
  o->watch = NULL;
}

static void wait_dealloc(PyObject* self) {
  wait_object* o = (wait_object*)self;
  PyTypeObject* type = Py_TYPE(self);
  end_watch(o);
  free(o->items);
  Py_XDECREF(o->things);
  type->tp_free(self);
  Py_DECREF(type);
}

/* --- methods --- */

/* ready(): the positions of those that are ready */
static PyObject* wait_ready(PyObject* self, PyObject* unused) {
  const wait_object* o = (wait_object*)self;
  (void)unused;
  PyObject* list = PyList_New(0);
  for (uint32_t i = 0; list != NULL && i < o->n; i++) {
    PyObject* thing = PyTuple_GET_ITEM(o->things, i);
    const bool is_kept = !o->items[i].is_event && shmt__py_ring_has_kept((shmt__py_ring*)thing);
    if (!is_kept && !shmt__wait_item_is_ready(&o->items[i])) continue;
    PyObject* position = PyLong_FromUnsignedLong(i);
    if (position == NULL || PyList_Append(list, position) < 0) Py_CLEAR(list);
    Py_XDECREF(position);
  }
  return list;
}

/* wait(timeout): sleep in this thread until one is ready; False: none was in time */
static PyObject* wait_wait(PyObject* self, PyObject* timeout) {
  wait_object* o = (wait_object*)self;
  uint64_t deadline_ns;
  if (!shmt__py_deadline_of(timeout, &deadline_ns)) return NULL;
  if (o->n < 1 || o->n > shmt__os_most_futexes())
    return PyErr_Format(PyExc_ValueError, "_RingWait.wait(): 1 to %u things, got %u", shmt__os_most_futexes(), o->n);
  any_call c = {.base.call = call_any, .wait = o};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (result == SHMT_RING_DONE) Py_RETURN_TRUE;
  if (result == SHMT_RING_EMPTY) Py_RETURN_FALSE;
  return shmt__py_ring_raise(result, NULL);
}

/* watch(at_once): a descriptor that is readable once one is ready; threads sleep on so many each */
static PyObject* wait_watch(PyObject* self, PyObject* at_once) {
  wait_object* o = (wait_object*)self;
  const unsigned long n = PyLong_AsUnsignedLong(at_once);
  if (n == (unsigned long)-1 && PyErr_Occurred()) return NULL;
  if (o->n < 1 || n < 1 || n > shmt__os_most_futexes())
    return PyErr_Format(PyExc_ValueError, "_RingWait.watch(): %u things, %lu at once", o->n, n);
  if (o->watch == NULL) {
    shmt_status status = shmt__ring_watch_open(o->items, o->n, (uint32_t)n, &o->watch);
    if (status != SHMT_OK) return shmt__py_raise(status);
  }
  return PyLong_FromLong(shmt__ring_watch_fileno(o->watch));
}

static PyObject* wait_lower(PyObject* self, PyObject* unused) {
  const wait_object* o = (wait_object*)self;
  (void)unused;
  if (o->watch != NULL) shmt__ring_watch_lower(o->watch);
  PyThreadState* saved = PyEval_SaveThread();
  shmt__ring_wait_any_check(o->items, o->n);
  shmt__py_gil_restore(saved);
  Py_RETURN_NONE;
}

static PyObject* wait_close(PyObject* self, PyObject* unused) {
  (void)unused;
  end_watch((wait_object*)self);
  Py_RETURN_NONE;
}

static PyMethodDef wait_methods[] = {
    {"ready", wait_ready, METH_NOARGS, "The positions of those that are ready."},
    {"wait", wait_wait, METH_O, "wait(timeout)\n--\n\nFalse: none was ready in time."},
    {"watch", wait_watch, METH_O,
     "watch(at_once)\n--\n\nA descriptor that is readable once one is ready; so many for each thread."},
    {"lower", wait_lower, METH_NOARGS, "Make it unreadable; look at them after this."},
    {"close", wait_close, METH_NOARGS, "End what watch() began."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot wait_slots[] = {
    {Py_tp_new, (void*)wait_new},
    {Py_tp_dealloc, (void*)wait_dealloc},
    {Py_tp_methods, wait_methods},
    {Py_tp_doc, (void*)"_RingWait(things)\n--\n\nOne wait for any of several queues and events."},
    {0, NULL},
};
static PyType_Spec wait_spec = {.name = "shmtensor._C._RingWait",
                                .basicsize = sizeof(wait_object),
                                .flags = Py_TPFLAGS_DEFAULT,
                                .slots = wait_slots};

int shmt__py_ring_wait_init(PyObject* module) {
  wait_type = (PyTypeObject*)PyType_FromSpec(&wait_spec);
  if (wait_type == NULL || PyModule_AddObjectRef(module, "_RingWait", (PyObject*)wait_type) < 0) return -1;
  return PyModule_AddIntConstant(module, "_MOST_FUTEXES", (long)shmt__os_most_futexes());
}
