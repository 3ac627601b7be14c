/* python/ipc/deliveries.c -- the part of _Ring that gets with an acknowledgement. */
#include "python/ipc/ring_object.h"

#include "api/error.h"
#include "ipc/ring/unacknowledged.h"
#include "os/clock.h"
#include "python/ipc/wait_call.h"

enum { MOST_AT_ONCE = 256 };

typedef struct delivery_call {
  shmt__py_wait_call base;
  shmt__ring* ring;
  shmt__received_message* received;
  shmt__delivery* deliveries;
  uint32_t n_max, n_got;
  uint64_t id;
  bool counts;
} delivery_call;

static shmt__ring_result call_deliver(shmt__py_wait_call* w, uint64_t deadline_ns) {
  delivery_call* c = (delivery_call*)w;
  return shmt__ring_deliver(c->ring, c->received, c->deliveries, c->n_max, &c->n_got, deadline_ns);
}
/* EMPTY is an answer, for which nobody waits. */
static shmt__ring_result call_acknowledge(shmt__py_wait_call* w, uint64_t deadline_ns) {
  delivery_call* c = (delivery_call*)w;
  shmt__ring_result result = shmt__ring_acknowledge(c->ring, c->id, deadline_ns);
  return result == SHMT_RING_EMPTY ? SHMT_RING_ALONE : result;
}
static shmt__ring_result call_let_go(shmt__py_wait_call* w, uint64_t deadline_ns) {
  delivery_call* c = (delivery_call*)w;
  shmt__ring_result result = shmt__ring_let_go(c->ring, c->id, c->counts, deadline_ns);
  return result == SHMT_RING_EMPTY ? SHMT_RING_ALONE : result;
}

/* Let go of a message that its caller will not get. An exception may be set, and stays. Where the locks cannot be had
 * for a second, the message goes back when this process ends. */
static void let_go_quietly(shmt__ring* ring, uint64_t id, bool counts) {
  const uint64_t deadline_ns = shmt__os_now_ns() + UINT64_C(1000000000);
  while (shmt__ring_let_go(ring, id, counts, deadline_ns) == SHMT_RING_INTERRUPTED) {
  }
  shmt_error_clear();
}

/* A message that cannot be unpickled would come back for ever, unless the queue counts that. */
static void refuse(shmt__ring* ring, uint64_t id) {
  if (*(const volatile uint32_t*)&ring->header->max_deliveries > 0) {
    let_go_quietly(ring, id, true);
    return;
  }
  const uint64_t deadline_ns = shmt__os_now_ns() + UINT64_C(1000000000);
  while (shmt__ring_acknowledge(ring, id, deadline_ns) == SHMT_RING_INTERRUPTED) {
  }
  shmt_error_clear();
}

static bool append(PyObject* list, PyObject* object, const shmt__delivery* d) {
  PyObject* entry = Py_BuildValue("(OKk)", object, (unsigned long long)d->id, (unsigned long)d->deliveries);
  const bool good = entry != NULL && PyList_Append(list, entry) == 0;
  Py_XDECREF(entry);
  return good;
}

/* Append what was taken. Consumes the messages; those that are not in the list go back. False with an exception. */
static bool open_all(shmt__py_ring* o, shmt__received_message* received, const shmt__delivery* deliveries, uint32_t n,
                     PyObject* list) {
  uint32_t i = 0;
  /* A signal that came while we waited ends this call, and not what its caller does next. */
  for (; PyErr_CheckSignals() == 0 && i < n; i++) {
    PyObject* object =
        shmt__py_received_in_mode(&received[i], o->mode) ? shmt__py_received_object(o->ring, &received[i]) : NULL;
    if (object == NULL && shmt__py_is_interrupted()) break;
    if (object == NULL) {
      shmt__received_message_fini(&received[i]);
      refuse(o->ring, deliveries[i].id);
      if (i + 1 == n && PyList_GET_SIZE(list) == 0) return false;
      PyErr_WriteUnraisable((PyObject*)o);
      continue;
    }
    const bool good = append(list, object, &deliveries[i]);
    Py_DECREF(object);
    if (!good) break;
    shmt__received_message_fini(&received[i]);
  }
  /* The last one first: each goes to the front. */
  for (uint32_t j = n; j-- > i;) {
    shmt__received_message_fini(&received[j]);
    let_go_quietly(o->ring, deliveries[j].id, false);
  }
  return !PyErr_Occurred();
}

/* A message that a get took and whose caller was interrupted: it is this process's already. */
static bool take_kept(shmt__py_ring* o, PyObject* list) {
  const shmt__delivery none = {.deliveries = 1};
  PyObject* object = shmt__py_ring_take_kept(o);
  const bool good = object != NULL && append(list, object, &none);
  Py_XDECREF(object);
  return good;
}

PyObject* shmt__py_ring_deliver(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  shmt__received_message received[MOST_AT_ONCE];
  shmt__delivery deliveries[MOST_AT_ONCE];
  uint64_t deadline_ns;
  if (n != 3 || !PyList_CheckExact(args[2]))
    return PyErr_Format(PyExc_TypeError, "deliver() takes a number, a timeout and a list, got %zd arguments", n);
  const long max = PyLong_AsLong(args[0]);
  if (max == -1 && PyErr_Occurred()) return NULL;
  if (max < 1) return PyErr_Format(PyExc_ValueError, "deliver(): max_n must be at least 1, got %ld", max);
  if (!shmt__py_deadline_of(args[1], &deadline_ns)) return NULL;
  if (SHMT_UNLIKELY(shmt__py_ring_has_kept(o))) {
    if (!take_kept(o, args[2])) return NULL;
    Py_RETURN_NONE;
  }
  delivery_call c = {.base.call = call_deliver,
                     .ring = o->ring,
                     .received = received,
                     .deliveries = deliveries,
                     .n_max = max < MOST_AT_ONCE ? (uint32_t)max : (uint32_t)MOST_AT_ONCE};
  const shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (result == SHMT_RING_NO_ROOM) {
    PyErr_SetString(shmt__py_full(), shmt_error_message());
    return NULL;
  }
  if (result != SHMT_RING_DONE) return shmt__py_ring_raise(result, shmt__py_empty());
  if (!open_all(o, received, deliveries, c.n_got, args[2])) return NULL;
  Py_RETURN_NONE;
}

static PyObject* answer(shmt__ring_result result) {
  if (result == SHMT_RING_DONE || result == SHMT_RING_ALONE) return PyBool_FromLong(result == SHMT_RING_DONE);
  return shmt__py_ring_raise(result, PyExc_TimeoutError);
}

PyObject* shmt__py_ring_acknowledge(PyObject* self, PyObject* id) {
  delivery_call c = {.base.call = call_acknowledge, .ring = ((shmt__py_ring*)self)->ring};
  c.id = PyLong_AsUnsignedLongLong(id);
  if (PyErr_Occurred()) return NULL;
  return answer(shmt__py_wait_call_run(&c.base, UINT64_MAX));
}

PyObject* shmt__py_ring_let_go(PyObject* self, PyObject* args) {
  unsigned long long id = 0;
  int counts = 0;
  PyObject* timeout = NULL;
  uint64_t deadline_ns;
  if (!PyArg_ParseTuple(args, "KpO", &id, &counts, &timeout) || !shmt__py_deadline_of(timeout, &deadline_ns)) return NULL;
  delivery_call c = {
      .base.call = call_let_go, .ring = ((shmt__py_ring*)self)->ring, .id = id, .counts = counts != 0};
  return answer(shmt__py_wait_call_run(&c.base, deadline_ns));
}

PyObject* shmt__py_ring_recover(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt__ring_recover(((shmt__py_ring*)self)->ring);
  Py_RETURN_NONE;
}

PyObject* shmt__py_ring_n_unacknowledged(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(shmt__ring_n_unacknowledged(((shmt__py_ring*)self)->ring));
}

PyObject* shmt__py_ring_n_dead_letters(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(shmt__ring_n_dead_letters(((shmt__py_ring*)self)->ring));
}

PyObject* shmt__py_ring_max_deliveries(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(*(const volatile uint32_t*)&((shmt__py_ring*)self)->ring->header->max_deliveries);
}
