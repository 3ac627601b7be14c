/* python/ipc/named/event.c -- _Event, the Python object of an event, and _RingWait, one wait for any of several queues
 * and events. */
#include "ipc/ring/wait_any.h"

#include "api/error.h"
#include "ipc/service/open_or_make.h"
#include "python/gil.h"
#include "python/ipc/ring_object.h"
#include "python/ipc/wait_call.h"
#include "python/tensor/tensor_type.h"

#include <stdlib.h>

static PyTypeObject *event_type, *wait_type; /* owned */

typedef struct event_object {
  PyObject_HEAD shmt__ring* ring; /* owned */
} event_object;

static shmt__ring* ring_of(PyObject* self) { return ((event_object*)self)->ring; }

/* NULL: it is no _Event. */
static shmt__ring* event_ring(PyObject* o) { return Py_IS_TYPE(o, event_type) ? ring_of(o) : NULL; }

/* --- operations that may wait --- */

typedef struct event_call {
  shmt__py_wait_call base;
  shmt__ring* ring;
  shmt__event_mark since;
  bool only_pulses;
  uint64_t id;
} event_call;

static shmt__ring_result call_wait(shmt__py_wait_call* w, uint64_t deadline_ns) {
  event_call* c = (event_call*)w;
  return shmt__event_wait(c->ring, c->since, c->only_pulses, deadline_ns);
}
static shmt__ring_result call_pulse(shmt__py_wait_call* w, uint64_t deadline_ns) {
  event_call* c = (event_call*)w;
  return shmt__event_pulse(c->ring, c->id, deadline_ns);
}

/* --- life --- */

static PyObject* wrap(shmt__ring* ring) {
  event_object* o = PyObject_New(event_object, event_type);
  if (o == NULL) {
    shmt__ring_close(ring);
    return NULL;
  }
  o->ring = ring;
  return (PyObject*)o;
}

/* _named_event(service, name, persists): service: address of a shmt_service */
static PyObject* py_named_event(PyObject* module, PyObject* args) {
  unsigned long long service = 0;
  const char* name = NULL;
  int persists = 0;
  shmt__ring* ring = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "Ksp", &service, &name, &persists)) return NULL;
  if (service == 0) return PyErr_Format(PyExc_ValueError, "_named_event(): address 0");
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status = shmt__named_event_open((shmt_service*)(uintptr_t)service, name, persists != 0, &ring);
  shmt__py_gil_restore(saved);
  return status == SHMT_OK ? wrap(ring) : shmt__py_raise(status);
}

static void event_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  shmt__ring_close(ring_of(self));
  type->tp_free(self);
  Py_DECREF(type);
}

/* --- methods --- */

static PyObject* event_set(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt_status status = shmt__event_set(ring_of(self));
  if (status != SHMT_OK) return shmt__py_raise(status);
  Py_RETURN_NONE;
}

static PyObject* event_clear(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt_status status = shmt__event_clear(ring_of(self));
  if (status != SHMT_OK) return shmt__py_raise(status);
  Py_RETURN_NONE;
}

static PyObject* event_is_set(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyBool_FromLong(shmt__event_is_set(ring_of(self)));
}

static shmt__ring_result wait_for(PyObject* self, PyObject* timeout, bool only_pulses, event_call* c) {
  uint64_t deadline_ns;
  if (!shmt__py_deadline_of(timeout, &deadline_ns)) return SHMT_RING_INTERRUPTED; /* an exception is set */
  *c = (event_call){.base.call = call_wait, .ring = ring_of(self), .only_pulses = only_pulses};
  c->since = shmt__event_mark_now(c->ring);
  return shmt__py_wait_call_run(&c->base, deadline_ns);
}

/* wait(timeout) */
static PyObject* event_wait(PyObject* self, PyObject* timeout) {
  event_call c;
  shmt__ring_result result = wait_for(self, timeout, false, &c);
  if (result == SHMT_RING_DONE) Py_RETURN_TRUE;
  if (result == SHMT_RING_EMPTY) Py_RETURN_FALSE;
  return shmt__py_ring_raise(result, NULL);
}

/* wait_pulse(timeout): its id, or None */
static PyObject* event_wait_pulse(PyObject* self, PyObject* timeout) {
  event_call c;
  uint64_t id = 0;
  shmt__ring_result result = wait_for(self, timeout, true, &c);
  if (result == SHMT_RING_EMPTY) Py_RETURN_NONE;
  if (result != SHMT_RING_DONE) return shmt__py_ring_raise(result, NULL);
  (void)shmt__event_pulse_since(c.ring, c.since.n_pulses, &id);
  return PyLong_FromUnsignedLongLong(id);
}

/* pulse_since(n_pulses): the id of the newest pulse after that number, or None */
static PyObject* event_pulse_since(PyObject* self, PyObject* o) {
  uint64_t id = 0;
  const unsigned long long n = PyLong_AsUnsignedLongLong(o);
  if (n == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
  if (!shmt__event_pulse_since(ring_of(self), n, &id)) Py_RETURN_NONE;
  return PyLong_FromUnsignedLongLong(id);
}

/* pulse(id) */
static PyObject* event_pulse(PyObject* self, PyObject* o) {
  const unsigned long long id = PyLong_AsUnsignedLongLong(o);
  if (id == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
  event_call c = {.base.call = call_pulse, .ring = ring_of(self), .id = id};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, UINT64_MAX);
  if (result != SHMT_RING_DONE) return shmt__py_ring_raise(result, PyExc_TimeoutError);
  Py_RETURN_NONE;
}

static PyObject* event_fileno(PyObject* self, PyObject* unused) {
  int fd = -1;
  (void)unused;
  shmt_status status = shmt__ring_fileno(ring_of(self), true, &fd);
  return status == SHMT_OK ? PyLong_FromLong(fd) : shmt__py_raise(status);
}

static PyObject* get_storage(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromVoidPtr(ring_of(self)->storage);
}
static PyObject* get_n_pulses(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(shmt__event_mark_now(ring_of(self)).n_pulses);
}

static PyMethodDef event_methods[] = {
    {"set", event_set, METH_NOARGS, "Set it and wake all who wait."},
    {"clear", event_clear, METH_NOARGS, "Clear it."},
    {"is_set", event_is_set, METH_NOARGS, "Whether it is set."},
    {"wait", event_wait, METH_O, "wait(timeout)\n--\n\nFalse: it was neither set nor pulsed in time."},
    {"pulse", event_pulse, METH_O, "pulse(id)\n--\n\nWake all who wait."},
    {"wait_pulse", event_wait_pulse, METH_O, "wait_pulse(timeout)\n--\n\nThe id of the next pulse, or None."},
    {"pulse_since", event_pulse_since, METH_O,
     "pulse_since(n_pulses)\n--\n\nThe id of the newest pulse after so many, or None."},
    {"fileno", event_fileno, METH_NOARGS, "A descriptor that is readable while it is set."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef event_getset[] = {
    {"storage", get_storage, NULL, "Address of its storage, which lives as long as the event.", NULL},
    {"n_pulses", get_n_pulses, NULL, "How many pulses there were.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot event_slots[] = {
    {Py_tp_dealloc, (void*)event_dealloc},
    {Py_tp_methods, event_methods},
    {Py_tp_getset, event_getset},
    {Py_tp_doc, (void*)"An event in shared memory."},
    {0, NULL},
};
static PyType_Spec event_spec = {.name = "shmtensor._C._Event",
                                 .basicsize = sizeof(event_object),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = event_slots};
static PyMethodDef event_functions[] = {
    {"_named_event", py_named_event, METH_VARARGS,
     "_named_event(service, name, persists)\n--\n\nThe event of a name, made if need be."},
    {NULL, NULL, 0, NULL},
};

/* --- _RingWait --- */

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

/* --- its life --- */

static bool fill(wait_object* o) {
  for (uint32_t i = 0; i < o->n; i++) {
    PyObject* thing = PyTuple_GET_ITEM(o->things, i);
    shmt__ring* event = event_ring(thing);
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

/* --- its methods --- */

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

int shmt__py_event_init(PyObject* module) {
  event_type = (PyTypeObject*)PyType_FromSpec(&event_spec);
  if (event_type == NULL || PyModule_AddObjectRef(module, "_Event", (PyObject*)event_type) < 0) return -1;
  wait_type = (PyTypeObject*)PyType_FromSpec(&wait_spec);
  if (wait_type == NULL || PyModule_AddObjectRef(module, "_RingWait", (PyObject*)wait_type) < 0) return -1;
  if (PyModule_AddIntConstant(module, "_MOST_FUTEXES", (long)shmt__os_most_futexes()) < 0) return -1;
  return PyModule_AddFunctions(module, event_functions);
}
