/* python/ipc/ring.c -- _Ring, the Python object of a ring: put and get of the queues. */
#include "python/gil.h"
#include "python/ipc/ring_object.h"

#include "api/service.h"
#include "ipc/service/open_or_make.h"
#include "ipc/session/session.h"
#include "python/ipc/wait_call.h"
#include "python/tensor/tensor_type.h"

#include <string.h>

static PyTypeObject* ring_type; /* owned */

enum { MOST_AT_ONCE = 256 };

/* --- operations that may wait --- */

typedef struct ring_call {
  shmt__py_wait_call base;
  shmt__ring* ring;
  const shmt__outgoing_message* message;
  shmt__received_message* received;
  uint32_t n_max, n_got;
  const uint32_t* ended; /* of the object; another thread may end it meanwhile */
} ring_call;

static shmt__ring_result call_put(shmt__py_wait_call* w, uint64_t deadline_ns) {
  ring_call* c = (ring_call*)w;
  return shmt__ring_put(c->ring, c->message, w->flags, deadline_ns);
}
/* Has another thread closed a subscription that this one waits for? */
static bool has_ended(const ring_call* c) {
  return c->ring->is_bare && *(const volatile uint32_t*)c->ended & SHMT_RING_NO_GET;
}
static shmt__ring_result call_get(shmt__py_wait_call* w, uint64_t deadline_ns) {
  ring_call* c = (ring_call*)w;
  if (has_ended(c)) return SHMT_RING_ALONE;
  return shmt__ring_get(c->ring, c->received, c->n_max, &c->n_got, deadline_ns);
}
static shmt__ring_result call_poll(shmt__py_wait_call* w, uint64_t deadline_ns) {
  ring_call* c = (ring_call*)w;
  return has_ended(c) ? SHMT_RING_ALONE : shmt__ring_poll(c->ring, deadline_ns);
}
static shmt__ring_result call_join(shmt__py_wait_call* w, uint64_t deadline_ns) {
  return shmt__ring_join(((ring_call*)w)->ring, deadline_ns);
}

/* --- life --- */

PyObject* shmt__py_ring_wrap(shmt__ring* ring) {
  shmt__py_ring* o = PyObject_New(shmt__py_ring, ring_type);
  if (o == NULL) {
    shmt__ring_close(ring);
    return NULL;
  }
  memset((char*)o + sizeof(PyObject), 0, sizeof *o - sizeof(PyObject));
  o->ring = ring;
  o->waiting_fork = o->kept_fork = shmt__fork_count();
  return (PyObject*)o;
}

bool shmt__py_is_ring(PyObject* o) { return Py_IS_TYPE(o, ring_type); }

/* _new_ring(max_messages) */
static PyObject* py_new_ring(PyObject* module, PyObject* n) {
  shmt__ring* ring = NULL;
  (void)module;
  long max = PyLong_AsLong(n);
  if (max == -1 && PyErr_Occurred()) return NULL;
  if (max < 0) max = 0;
  if (max > INT32_MAX) max = INT32_MAX;
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status = shmt__ring_create((uint32_t)max, &ring);
  shmt__py_gil_restore(saved);
  return status == SHMT_OK ? shmt__py_ring_wrap(ring) : shmt__py_raise(status);
}

/* _open_ring(handle) */
static PyObject* py_open_ring(PyObject* module, PyObject* o) {
  char* data = NULL;
  Py_ssize_t nbytes = 0;
  shmt__handle h;
  shmt__ring* ring = NULL;
  (void)module;
  if (PyBytes_AsStringAndSize(o, &data, &nbytes) < 0) return NULL;
  if (nbytes != sizeof h)
    return shmt__py_raise(shmt__fail(
        SHMT_E_HANDLE, "the handle of a queue has %zd bytes, expected %zu", nbytes, sizeof h));
  memcpy(&h, data, sizeof h);
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status = shmt__ring_open(&h, &ring);
  shmt__py_gil_restore(saved);
  return status == SHMT_OK ? shmt__py_ring_wrap(ring) : shmt__py_raise(status);
}

/* _named_ring(service, name, is_server, max_messages, max_deliveries, persists): service: address of a shmt_service */
static PyObject* py_named_ring(PyObject* module, PyObject* args) {
  unsigned long long service = 0;
  const char* name = NULL;
  long max = 0, max_deliveries = 0;
  int is_server = 0, persists = 0;
  shmt__ring* ring = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "Kspllp", &service, &name, &is_server, &max, &max_deliveries, &persists)) return NULL;
  if (service == 0 || max < 0 || max > INT32_MAX || max_deliveries < 0 || max_deliveries > SHMT_RING_MOST_DELIVERIES)
    return PyErr_Format(PyExc_ValueError, "_named_ring(): service %llu, %ld messages, %ld deliveries", service, max,
                        max_deliveries);
  shmt_service* v = (shmt_service*)(uintptr_t)service;
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status =
      is_server ? shmt__named_server_open(v, name, (uint32_t)max, persists != 0, &ring)
                : shmt__named_queue_open(v, name, (uint32_t)max, (uint32_t)max_deliveries, persists != 0, &ring);
  shmt__py_gil_restore(saved);
  return status == SHMT_OK ? shmt__py_ring_wrap(ring) : shmt__py_raise(status);
}

static PyObject* get_storage(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((shmt__py_ring*)self)->ring->storage);
}

static PyObject* get_max_messages(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromUnsignedLong(shmt__ring_max_messages(((shmt__py_ring*)self)->ring));
}

static void ring_dealloc(PyObject* self) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  PyTypeObject* type = Py_TYPE(self);
  shmt__py_ring_forget_waiting(o);
  shmt__py_ring_forget_kept(o);
  shmt__ring_close(o->ring);
  Py_XDECREF(o->show);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject* ring_handle(PyObject* self, PyObject* unused) {
  shmt__handle h;
  (void)unused;
  shmt_status status = shmt__ring_export(((shmt__py_ring*)self)->ring, &h);
  return status == SHMT_OK ? PyBytes_FromStringAndSize((const char*)&h, sizeof h)
                           : shmt__py_raise(status);
}

/* --- putting --- */

/* Returns None. Steals p. may_wait: for room, after this call. */
static PyObject* put_packed(shmt__py_ring* o, shmt__py_packed_message* p, bool may_wait, uint64_t deadline_ns) {
  shmt__outgoing_message view = shmt__py_packed_message_view(p);
  ring_call c = {.base.call = call_put, .ring = o->ring, .message = &view};
  shmt__py_wait_call* w = &c.base;
  if (may_wait && SHMT_UNLIKELY(o->first_waiting != NULL) && shmt__py_ring_has_waiting(o))
    w->flags = SHMT_RING_KEEP | SHMT_RING_BEHIND;
  else if (may_wait && deadline_ns != 0)
    w->is_patient = true; /* most often there is room soon, and waiting costs less than to keep the message */
  else if (may_wait)
    w->flags = SHMT_RING_KEEP;
  shmt__ring_result result = shmt__py_wait_call_run(w, deadline_ns);
  if (SHMT_UNLIKELY(result == SHMT_RING_NO_ROOM && w->flags & SHMT_RING_KEEP)) return shmt__py_ring_let_wait(o, p);
  PyObject* answer = result == SHMT_RING_DONE ? Py_NewRef(Py_None) : shmt__py_ring_raise(result, shmt__py_full());
  Py_DECREF(p);
  return answer;
}

static bool arguments(const char* name, Py_ssize_t n, Py_ssize_t expected) {
  if (n == expected) return true;
  PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, got %zd", name, expected, n);
  return false;
}

/* Has this process said that it no longer gets, or puts? True: OSError is set. */
static bool refuses(PyObject* self, unsigned end) {
  if (SHMT_LIKELY(!(((shmt__py_ring*)self)->ended & end))) return false;
  PyErr_SetString(PyExc_OSError, "handle is closed");
  return true;
}

/* put(obj, timeout, may_wait) */
static PyObject* ring_put(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  uint64_t deadline_ns;
  if (!arguments("put", n, 3) || !shmt__py_deadline_of(args[1], &deadline_ns)) return NULL;
  if (refuses(self, SHMT_RING_NO_PUT)) return NULL;
  shmt__py_packed_message* p = shmt__py_packed_message_of(args[0], o->ring, o->adopts);
  if (p == NULL) return NULL;
  return put_packed(o, p, args[2] == Py_True, deadline_ns);
}

/* pack(obj) */
static PyObject* ring_pack(PyObject* self, PyObject* obj) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  return (PyObject*)shmt__py_packed_message_of(obj, o->ring, o->adopts);
}

/* put_packed(message, timeout): it may wait for room after this call */
static PyObject* ring_put_packed(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  uint64_t deadline_ns;
  if (!arguments("put_packed", n, 2) || !shmt__py_deadline_of(args[1], &deadline_ns)) return NULL;
  if (!shmt__py_is_packed_message(args[0]))
    return PyErr_Format(PyExc_TypeError, "put_packed(): expected a _PackedMessage, got %s",
                        Py_TYPE(args[0])->tp_name);
  return put_packed((shmt__py_ring*)self, (shmt__py_packed_message*)Py_NewRef(args[0]), true, deadline_ns);
}

/* put_packed_many(packed_messages): how many there was room for now */
static PyObject* ring_put_packed_many(PyObject* self, PyObject* list) {
  shmt__outgoing_message views[MOST_AT_ONCE];
  uint32_t n_put = 0;
  if (!PyList_Check(list))
    return PyErr_Format(PyExc_TypeError, "put_packed_many(): expected a list, got %s",
                        Py_TYPE(list)->tp_name);
  if (shmt__py_ring_has_waiting((shmt__py_ring*)self)) return PyLong_FromLong(0);
  uint32_t n = PyList_GET_SIZE(list) < MOST_AT_ONCE ? (uint32_t)PyList_GET_SIZE(list)
                                                    : (uint32_t)MOST_AT_ONCE;
  for (uint32_t i = 0; i < n; i++) {
    PyObject* p = PyList_GET_ITEM(list, i);
    if (!shmt__py_is_packed_message(p))
      return PyErr_Format(PyExc_TypeError, "put_packed_many(): expected a _PackedMessage, got %s",
                          Py_TYPE(p)->tp_name);
    views[i] = shmt__py_packed_message_view((shmt__py_packed_message*)p);
  }
  shmt__ring_result result =
      shmt__ring_put_many(((shmt__py_ring*)self)->ring, views, n, &n_put);
  if (result != SHMT_RING_DONE && n_put == 0) return shmt__py_ring_raise(result, shmt__py_full());
  return PyLong_FromUnsignedLong(n_put);
}

/* --- taking --- */

/* ring[timeout]: take the first message, and return its object. An operator, and no method: Note [Interrupted calls] in
 * python/ipc/ring_object.h. */
static PyObject* ring_take(PyObject* self, PyObject* timeout) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  uint64_t deadline_ns;
  if (!shmt__py_deadline_of(timeout, &deadline_ns) || refuses(self, SHMT_RING_NO_GET)) return NULL;
  if (SHMT_UNLIKELY(o->kept != NULL) && shmt__py_ring_has_kept(o)) return shmt__py_ring_take_kept(o);
  shmt__received_message d;
  ring_call c = {.base.call = call_get, .ring = o->ring, .received = &d, .n_max = 1, .ended = &o->ended};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (SHMT_LIKELY(result == SHMT_RING_DONE)) return shmt__py_ring_open_message(o, &d);
  return shmt__py_ring_raise(result, shmt__py_empty());
}

/* Take kept messages into a list. Returns false with an exception. */
static bool take_many_kept(shmt__py_ring* o, uint32_t n_max, PyObject* list) {
  bool good = true;
  for (; good && n_max > 0 && shmt__py_ring_has_kept(o); n_max--) {
    PyObject* object = shmt__py_ring_take_kept(o);
    good = object != NULL && PyList_Append(list, object) == 0;
    Py_XDECREF(object);
  }
  return good;
}

/* Take messages into a list. SHMT_RING_EMPTY: none came. SHMT_RING_INTERRUPTED: there is an exception. */
static shmt__ring_result take_many(shmt__py_ring* o, uint32_t n_max, uint64_t deadline_ns, PyObject* list) {
  shmt__received_message received[MOST_AT_ONCE];
  if (SHMT_UNLIKELY(shmt__py_ring_has_kept(o)))
    return take_many_kept(o, n_max, list) ? SHMT_RING_DONE : SHMT_RING_INTERRUPTED;
  ring_call c = {.base.call = call_get,
                 .ring = o->ring,
                 .received = received,
                 .ended = &o->ended,
                 .n_max = n_max < MOST_AT_ONCE ? n_max : MOST_AT_ONCE};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (result == SHMT_RING_FAILED && c.n_got > 0) {
    (void)shmt__py_ring_raise(result, NULL);
    PyErr_WriteUnraisable((PyObject*)o);
    result = SHMT_RING_DONE;
  }
  if (result == SHMT_RING_EMPTY || result == SHMT_RING_BUSY) return SHMT_RING_EMPTY;
  if (result == SHMT_RING_DONE && shmt__py_ring_open_messages(o, received, c.n_got, list)) return SHMT_RING_DONE;
  if (result != SHMT_RING_DONE) (void)shmt__py_ring_raise(result, NULL);
  return SHMT_RING_INTERRUPTED;
}

/* get_many(n_max, timeout, taken): append to the list */
static PyObject* ring_get_many(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  uint64_t deadline_ns;
  if (!arguments("get_many", n, 3) || !shmt__py_deadline_of(args[1], &deadline_ns)) return NULL;
  Py_ssize_t max;
  if (!shmt__py_most_of("get_many", args[0], &max)) return NULL;
  if (!PyList_CheckExact(args[2]))
    return PyErr_Format(PyExc_TypeError, "get_many(): expected a list, got %s", Py_TYPE(args[2])->tp_name);
  const Py_ssize_t begun = PyList_GET_SIZE(args[2]);
  for (Py_ssize_t left = max, n_got = 0;; deadline_ns = 0) {
    const uint32_t n_max = left < MOST_AT_ONCE ? (uint32_t)left : MOST_AT_ONCE;
    const shmt__ring_result result = take_many((shmt__py_ring*)self, n_max, deadline_ns, args[2]);
    if (result == SHMT_RING_INTERRUPTED) return NULL;
    if (result == SHMT_RING_EMPTY && n_got == 0) return shmt__py_ring_raise(result, shmt__py_empty());
    if (result == SHMT_RING_EMPTY) break; /* what was taken before is the answer */
    const Py_ssize_t n_now = PyList_GET_SIZE(args[2]) - begun - n_got;
    n_got += n_now;
    left -= n_now;
    if (left <= 0 || n_now < (Py_ssize_t)n_max) break;
  }
  Py_RETURN_NONE;
}

static PyObject* ring_poll(PyObject* self, PyObject* timeout) {
  uint64_t deadline_ns;
  if (!shmt__py_deadline_of(timeout, &deadline_ns)) return NULL;
  if (shmt__py_ring_has_kept((shmt__py_ring*)self)) Py_RETURN_TRUE;
  ring_call c = {.base.call = call_poll, .ring = ((shmt__py_ring*)self)->ring, .ended = &((shmt__py_ring*)self)->ended};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (result == SHMT_RING_DONE || result == SHMT_RING_ALONE) Py_RETURN_TRUE; /* get will not wait */
  if (result == SHMT_RING_EMPTY) Py_RETURN_FALSE;
  return shmt__py_ring_raise(result, shmt__py_empty());
}

/* --- counting --- */

static uint32_t n_kept(PyObject* self) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  return shmt__py_ring_has_kept(o) ? o->n_kept : 0;
}

static PyObject* ring_size(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(shmt__ring_size(((shmt__py_ring*)self)->ring) + n_kept(self));
}

static PyObject* ring_n_messages(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(shmt__ring_n_messages(((shmt__py_ring*)self)->ring) + n_kept(self));
}

static PyObject* ring_task_done(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyBool_FromLong(shmt__ring_task_done(((shmt__py_ring*)self)->ring));
}

static PyObject* ring_join(PyObject* self, PyObject* timeout) {
  uint64_t deadline_ns;
  if (!shmt__py_deadline_of(timeout, &deadline_ns)) return NULL;
  ring_call c = {.base.call = call_join, .ring = ((shmt__py_ring*)self)->ring};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (result == SHMT_RING_INTERRUPTED) return NULL;
  return PyBool_FromLong(result == SHMT_RING_DONE);
}

static PyObject* ring_end(PyObject* self, PyObject* o) {
  long ends = PyLong_AsLong(o);
  if (ends == -1 && PyErr_Occurred()) return NULL;
  shmt__py_ring* ring = (shmt__py_ring*)self;
  ring->ended |= (unsigned)ends & (SHMT_RING_NO_GET | SHMT_RING_NO_PUT);
  shmt__ring_end(ring->ring, ring->ended);
  Py_RETURN_NONE;
}

/* fileno(data) */
static PyObject* ring_fileno(PyObject* self, PyObject* data) {
  int fd = -1;
  shmt_status status = shmt__ring_fileno(((shmt__py_ring*)self)->ring, data == Py_True, &fd);
  return status == SHMT_OK ? PyLong_FromLong(fd) : shmt__py_raise(status);
}

static PyObject* get_takes_pickles(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(shmt__ring_takes_pickles(((shmt__py_ring*)self)->ring));
}
static PyObject* get_n_lost(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(
      atomic_load_explicit(&((shmt__py_ring*)self)->ring->header->n_lost, memory_order_relaxed));
}

static PyObject* get_adopts(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(((shmt__py_ring*)self)->adopts);
}

static int set_adopts(PyObject* self, PyObject* value, void* unused) {
  (void)unused;
  unsigned long bits = value != NULL ? PyLong_AsUnsignedLong(value) : 0;
  if (bits == (unsigned long)-1 && PyErr_Occurred()) return -1;
  ((shmt__py_ring*)self)->adopts = (uint32_t)bits;
  return 0;
}

static PyObject* get_mode(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(((shmt__py_ring*)self)->mode);
}

static int set_mode(PyObject* self, PyObject* value, void* unused) {
  (void)unused;
  if (value != NULL) return shmt__py_ring_mode_of(value, &((shmt__py_ring*)self)->mode) ? 0 : -1;
  PyErr_SetString(PyExc_AttributeError, "the mode of a ring cannot be deleted");
  return -1;
}

static PyObject* get_show(PyObject* self, void* unused) {
  (void)unused;
  PyObject* show = ((shmt__py_ring*)self)->show;
  return Py_NewRef(show != NULL ? show : Py_None);
}

static int set_show(PyObject* self, PyObject* value, void* unused) {
  (void)unused;
  Py_XSETREF(((shmt__py_ring*)self)->show, value != Py_None ? Py_XNewRef(value) : NULL);
  return 0;
}

#define FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL
static PyMethodDef ring_methods[] = {
    {"put", FAST(ring_put),
     "put(obj, timeout, may_wait)\n--\n\nPickle and put; may_wait: for room, after this call."},
    {"pack", ring_pack, METH_O, "Pickle into a packed message."},
    {"put_packed", FAST(ring_put_packed),
     "put_packed(message, timeout)\n--\n\nPut a packed message, which may wait for room after this call."},
    {"put_packed_many", ring_put_packed_many, METH_O,
     "Put as many of a list of packed_messages as there is room for; how many."},
    {"join_feeder", shmt__py_ring_join_feeder, METH_NOARGS, "Wait until nothing waits for room."},
    {"cancel_join", shmt__py_ring_cancel_join, METH_NOARGS, "Let join_feeder return at once."},
    {"get_many", FAST(ring_get_many),
     "get_many(n_max, timeout, taken)\n--\n\nAppend the objects of the messages that are there."},
    {"give_back", shmt__py_ring_give_back, METH_O,
     "The next get returns these objects."},
    {"deliver", FAST(shmt__py_ring_deliver),
     "deliver(max_n, timeout, taken)\n--\n\nAppend (object, claim, deliveries) of messages."},
    {"recover", shmt__py_ring_recover, METH_NOARGS, "Give back the messages of takers that are dead."},
    {"poll", ring_poll, METH_O, "poll(timeout)\n--\n\nWhether get would not wait."},
    {"size", ring_size, METH_NOARGS, "Messages in the ring and waiting for room."},
    {"n_messages", ring_n_messages, METH_NOARGS, "Messages in the ring."},
    {"task_done", ring_task_done, METH_NOARGS, "One message is finished; False: none was left."},
    {"join", ring_join, METH_O, "join(timeout)\n--\n\nWait until all messages are finished."},
    {"end", ring_end, METH_O, "end(ends)\n--\n\nThis process no longer gets (1) or puts (2)."},
    {"fileno", ring_fileno, METH_O,
     "fileno(data)\n--\n\nA descriptor that is readable while there is data, or else room."},
    {"handle", ring_handle, METH_NOARGS, "Bytes that _open_ring opens, once, in any process."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef ring_getset[] = {
    {"adopts", get_adopts, set_adopts, "Whose arrays travel as shared memory: 1 NumPy's, 2 torch's.", NULL},
    {"mode", get_mode, set_mode, "Of the storages that it receives: 0 rw, 1 ro, 2 cow.", NULL},
    {"show", get_show, set_show, "Makes what the reader gets of each object that arrives, or None.", NULL},
    {"takes_pickles", get_takes_pickles, NULL, "Whether only processes of one user have it.", NULL},
    {"n_lost", get_n_lost, NULL, "Messages that did not reach this ring of a topic's subscriber.", NULL},
    {"n_unacknowledged", shmt__py_ring_n_unacknowledged, NULL, "Messages that were taken and not acknowledged.", NULL},
    {"n_dead_letters", shmt__py_ring_n_dead_letters, NULL, "Messages that were delivered in vain too often.", NULL},
    {"max_deliveries", shmt__py_ring_max_deliveries, NULL, "How often a message is delivered; 0: no bound.", NULL},
    {"storage", get_storage, NULL, "Address of its storage, which lives as long as the ring.", NULL},
    {"max_messages", get_max_messages, NULL, "How many it takes; 0: no bound.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot ring_slots[] = {
    {Py_tp_dealloc, (void*)ring_dealloc},
    {Py_tp_methods, ring_methods},
    {Py_tp_getset, ring_getset},
    {Py_mp_subscript, (void*)ring_take},
    {Py_tp_doc, (void*)"A queue of messages in shared memory. ring[timeout] takes the first one."},
    {0, NULL},
};
static PyType_Spec ring_spec = {.name = "shmtensor._C._Ring",
                                .basicsize = sizeof(shmt__py_ring),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .slots = ring_slots};
static PyMethodDef ring_functions[] = {
    {"_new_ring", py_new_ring, METH_O, "_new_ring(max_messages)\n--\n\nA new ring; 0: no bound."},
    {"_named_ring", py_named_ring, METH_VARARGS,
     "_named_ring(service, name, is_server, max_messages, max_deliveries, persists)\n--\n\nThe ring of a name, made if "
     "need be."},
    {"_open_ring", py_open_ring, METH_O, "_open_ring(handle)\n--\n\nThe ring of a handle."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_ring_init(PyObject* module) {
  ring_type = (PyTypeObject*)PyType_FromSpec(&ring_spec);
  if (ring_type == NULL || PyModule_AddObjectRef(module, "_Ring", (PyObject*)ring_type) < 0)
    return -1;
  if (PyModule_AddFunctions(module, shmt__py_feeder_functions) < 0 || shmt__py_claim_init(module) < 0) return -1;
  return PyModule_AddFunctions(module, ring_functions);
}
