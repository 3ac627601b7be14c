/* python/ipc/event.c -- _Event, the Python object of an event. */
#include "ipc/ring/event.h"

#include "api/error.h"
#include "api/service.h"
#include "python/gil.h"
#include "python/ipc/ring_object.h"
#include "python/ipc/wait_call.h"
#include "python/tensor/tensor_type.h"

static PyTypeObject* event_type; /* owned */

typedef struct event_object {
  PyObject_HEAD shmt__ring* ring; /* owned */
} event_object;

static shmt__ring* ring_of(PyObject* self) { return ((event_object*)self)->ring; }

shmt__ring* shmt__py_event_ring(PyObject* o) { return Py_IS_TYPE(o, event_type) ? ring_of(o) : NULL; }

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

/* _new_event_in(service): the address of a shmt_service */
static PyObject* py_new_event_in(PyObject* module, PyObject* o) {
  shmt_storage* s = NULL;
  shmt__ring* ring = NULL;
  (void)module;
  shmt_service* service = PyLong_AsVoidPtr(o);
  if (service == NULL) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "_new_event_in(): address 0");
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status = (shmt_status)shmt_service_new_storage(service, SHMT_EVENT_BYTES, &s);
  if (status == SHMT_OK) status = shmt__event_create_in(s, &ring);
  shmt__py_gil_restore(saved);
  return status == SHMT_OK ? wrap(ring) : shmt__py_raise(status);
}

/* _event_over(storage): the address of a storage that is an event */
static PyObject* py_event_over(PyObject* module, PyObject* o) {
  shmt__ring* ring = NULL;
  (void)module;
  shmt_storage* s = PyLong_AsVoidPtr(o);
  if (s == NULL) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "_event_over(): address 0");
  shmt__storage_retain(s);
  shmt_status status = shmt__event_over(s, &ring);
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
    {"_new_event_in", py_new_event_in, METH_O, "_new_event_in(service)\n--\n\nA new event in a service's memory."},
    {"_event_over", py_event_over, METH_O, "_event_over(storage)\n--\n\nThe event that a storage is."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_event_init(PyObject* module) {
  event_type = (PyTypeObject*)PyType_FromSpec(&event_spec);
  if (event_type == NULL || PyModule_AddObjectRef(module, "_Event", (PyObject*)event_type) < 0) return -1;
  return PyModule_AddFunctions(module, event_functions);
}
