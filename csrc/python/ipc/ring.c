/* python/ipc/ring.c -- _Ring, the Python object of a ring: put and get of the queues.
 *
 * The first attempt of put and get is made with the interpreter lock held, since it takes less time than to release the
 * lock. Only waiting releases it. A signal ends a wait, so that its handlers run; then the wait continues with the time
 * that is left.
 */
#include "python/gil.h"
#include "python/ipc/ring_object.h"

#include "api/service.h"
#include "ipc/session/session.h"
#include "python/tensor/tensor_type.h"

#include <math.h>
#include <string.h>

static PyTypeObject* ring_type; /* owned */

enum { MOST_AT_ONCE = 256, PATIENCE_NS = 1000000 };

/* --- times and waits --- */

/* None waits for ever; seconds from now otherwise. */
static bool deadline_of(PyObject* timeout, uint64_t* out_ns) {
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

/* An operation that may wait. */
typedef struct wait_call {
  shmt__ring* ring;
  shmt__ring_result (*call)(struct wait_call* w, uint64_t deadline_ns);
  const shmt__outgoing_message* message;
  unsigned flags;
  shmt__received_message* received;
  uint32_t n_max, n_got;
  bool is_patient; /* put: KEEP after PATIENCE_NS without room */
} wait_call;

static shmt__ring_result call_put(wait_call* w, uint64_t deadline_ns) {
  return shmt__ring_put(w->ring, w->message, w->flags, deadline_ns);
}
static shmt__ring_result call_get(wait_call* w, uint64_t deadline_ns) {
  return shmt__ring_get(w->ring, w->received, w->n_max, &w->n_got, deadline_ns);
}
static shmt__ring_result call_poll(wait_call* w, uint64_t deadline_ns) {
  return shmt__ring_poll(w->ring, deadline_ns);
}
static shmt__ring_result call_join(wait_call* w, uint64_t deadline_ns) {
  return shmt__ring_join(w->ring, deadline_ns);
}

/* Put without KEEP for a moment. */
static shmt__ring_result wait_briefly(wait_call* w, uint64_t deadline_ns) {
  uint64_t end_ns = shmt__os_now_ns() + PATIENCE_NS;
  PyThreadState* saved = PyEval_SaveThread();
  shmt__ring_result result =
      shmt__ring_put(w->ring, w->message, 0, end_ns < deadline_ns ? end_ns : deadline_ns);
  shmt__py_gil_restore(saved);
  return result;
}

static bool has_to_wait(const wait_call* w, shmt__ring_result result) {
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

/* Try again and again, and sleep by this function in between. Consumes it. */
static shmt__ring_result run_with(PyObject* sleep, wait_call* w, uint64_t deadline_ns) {
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
      if (result == SHMT_RING_INTERRUPTED) result = w->call(w, 0);
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

/* Run to the end or the deadline. INTERRUPTED: an exception is set. */
static shmt__ring_result run_wait_call(wait_call* w, uint64_t deadline_ns) {
  shmt__ring_result result = w->call(w, 0);
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

/* --- life --- */

static PyObject* wrap(shmt__ring* ring) {
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

/* _new_ring(max_messages) */
static PyObject* py_new_ring(PyObject* module, PyObject* n) {
  shmt__ring* ring = NULL;
  (void)module;
  unsigned long max = PyLong_AsUnsignedLong(n);
  if (max == (unsigned long)-1 && PyErr_Occurred()) return NULL;
  if (max > INT32_MAX) max = INT32_MAX;
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status = shmt__ring_create((uint32_t)max, &ring);
  shmt__py_gil_restore(saved);
  return status == SHMT_OK ? wrap(ring) : shmt__py_raise(status);
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
  return status == SHMT_OK ? wrap(ring) : shmt__py_raise(status);
}

/* _new_ring_in(service, max_messages): service: address of a shmt_service */
static PyObject* py_new_ring_in(PyObject* module, PyObject* args) {
  unsigned long long service = 0;
  unsigned long max = 0;
  shmt_storage* s = NULL;
  shmt__ring* ring = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "Kk", &service, &max)) return NULL;
  if (service == 0 || max > INT32_MAX)
    return PyErr_Format(PyExc_ValueError, "_new_ring_in(): service %llu, %lu messages", service, max);
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status = shmt_service_new_storage((shmt_service*)(uintptr_t)service, SHMT_RING_BYTES, &s);
  if (status == SHMT_OK) status = shmt__ring_create_in(s, (uint32_t)max, &ring);
  shmt__py_gil_restore(saved);
  return status == SHMT_OK ? wrap(ring) : shmt__py_raise(status);
}

/* _ring_over(storage): the address of a storage that is a ring */
static PyObject* py_ring_over(PyObject* module, PyObject* o) {
  shmt__ring* ring = NULL;
  (void)module;
  shmt_storage* s = PyLong_AsVoidPtr(o);
  if (s == NULL) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "_ring_over(): address 0");
  shmt__storage_retain(s);
  shmt_status status = shmt__ring_over(s, &ring);
  return status == SHMT_OK ? wrap(ring) : shmt__py_raise(status);
}

static PyObject* get_storage(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((shmt__py_ring*)self)->ring->storage);
}

static PyObject* get_max_messages(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromUnsignedLong(((shmt__py_ring*)self)->ring->max_messages);
}

static void ring_dealloc(PyObject* self) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  PyTypeObject* type = Py_TYPE(self);
  shmt__py_ring_forget_waiting(o);
  shmt__py_ring_forget_kept(o);
  shmt__ring_close(o->ring);
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
  wait_call w = {.ring = o->ring, .call = call_put, .message = &view};
  if (may_wait && SHMT_UNLIKELY(o->first_waiting != NULL) && shmt__py_ring_has_waiting(o))
    w.flags = SHMT_RING_KEEP | SHMT_RING_BEHIND;
  else if (may_wait && deadline_ns != 0)
    w.is_patient = true; /* most often there is room soon, and waiting costs less than to keep the message */
  else if (may_wait)
    w.flags = SHMT_RING_KEEP;
  shmt__ring_result result = run_wait_call(&w, deadline_ns);
  if (SHMT_UNLIKELY(result == SHMT_RING_NO_ROOM && w.flags & SHMT_RING_KEEP)) return shmt__py_ring_let_wait(o, p);
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
  if (!arguments("put", n, 3) || !deadline_of(args[1], &deadline_ns)) return NULL;
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
  if (!arguments("put_packed", n, 2) || !deadline_of(args[1], &deadline_ns)) return NULL;
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
  if (!deadline_of(timeout, &deadline_ns) || refuses(self, SHMT_RING_NO_GET)) return NULL;
  if (SHMT_UNLIKELY(o->kept != NULL) && shmt__py_ring_has_kept(o)) return shmt__py_ring_take_kept(o);
  shmt__received_message d;
  wait_call w = {.ring = o->ring, .call = call_get, .received = &d, .n_max = 1};
  shmt__ring_result result = run_wait_call(&w, deadline_ns);
  if (SHMT_LIKELY(result == SHMT_RING_DONE)) return shmt__py_ring_open_message(o, &d);
  return shmt__py_ring_raise(result, shmt__py_empty());
}

/* Take messages into a list. Returns false with an exception. */
static bool take_many(shmt__py_ring* o, uint32_t n_max, uint64_t deadline_ns, PyObject* list) {
  shmt__received_message received[MOST_AT_ONCE];
  if (SHMT_UNLIKELY(shmt__py_ring_has_kept(o))) {
    PyObject* object = shmt__py_ring_take_kept(o);
    bool good = object != NULL && PyList_Append(list, object) == 0;
    Py_XDECREF(object);
    return good;
  }
  wait_call w = {.ring = o->ring,
                 .call = call_get,
                 .received = received,
                 .n_max = n_max < MOST_AT_ONCE ? n_max : MOST_AT_ONCE};
  shmt__ring_result result = run_wait_call(&w, deadline_ns);
  if (result == SHMT_RING_FAILED && w.n_got > 0) {
    (void)shmt__py_ring_raise(result, NULL);
    PyErr_WriteUnraisable((PyObject*)o);
    result = SHMT_RING_DONE;
  }
  if (result == SHMT_RING_DONE) return shmt__py_ring_open_messages(o, received, w.n_got, list);
  (void)shmt__py_ring_raise(result, shmt__py_empty());
  return false;
}

/* get_many(n_max, timeout, taken): append to the list */
static PyObject* ring_get_many(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  uint64_t deadline_ns;
  if (!arguments("get_many", n, 3) || !deadline_of(args[1], &deadline_ns)) return NULL;
  long max = PyLong_AsLong(args[0]);
  if (max == -1 && PyErr_Occurred()) return NULL;
  if (max < 1)
    return PyErr_Format(PyExc_ValueError, "get_many(): max_n must be at least 1, got %ld", max);
  if (!PyList_CheckExact(args[2]))
    return PyErr_Format(PyExc_TypeError, "get_many(): expected a list, got %s", Py_TYPE(args[2])->tp_name);
  uint32_t n_max = max < MOST_AT_ONCE ? (uint32_t)max : MOST_AT_ONCE;
  if (!take_many((shmt__py_ring*)self, n_max, deadline_ns, args[2])) return NULL;
  Py_RETURN_NONE;
}

static PyObject* ring_poll(PyObject* self, PyObject* timeout) {
  uint64_t deadline_ns;
  if (!deadline_of(timeout, &deadline_ns)) return NULL;
  if (shmt__py_ring_has_kept((shmt__py_ring*)self)) Py_RETURN_TRUE;
  wait_call w = {.ring = ((shmt__py_ring*)self)->ring, .call = call_poll};
  shmt__ring_result result = run_wait_call(&w, deadline_ns);
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
  if (!deadline_of(timeout, &deadline_ns)) return NULL;
  wait_call w = {.ring = ((shmt__py_ring*)self)->ring, .call = call_join};
  shmt__ring_result result = run_wait_call(&w, deadline_ns);
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
    {"_new_ring_in", py_new_ring_in, METH_VARARGS,
     "_new_ring_in(service, max_messages)\n--\n\nThe same in a service's memory."},
    {"_open_ring", py_open_ring, METH_O, "_open_ring(handle)\n--\n\nThe ring of a handle."},
    {"_ring_over", py_ring_over, METH_O, "_ring_over(storage)\n--\n\nThe ring that a storage is."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_ring_init(PyObject* module) {
  ring_type = (PyTypeObject*)PyType_FromSpec(&ring_spec);
  if (ring_type == NULL || PyModule_AddObjectRef(module, "_Ring", (PyObject*)ring_type) < 0)
    return -1;
  if (PyModule_AddFunctions(module, shmt__py_feeder_functions) < 0) return -1;
  return PyModule_AddFunctions(module, ring_functions);
}
