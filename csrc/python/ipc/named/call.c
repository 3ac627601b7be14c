/* python/ipc/named/call.c -- _Line, on which a client calls, and _Request, which a server answers. */
#include "ipc/call/call.h"

#include "ipc/ring/wait.h"
#include "ipc/service/service.h"
#include "ipc/session/session.h"
#include "python/gil.h"
#include "python/ipc/ring_object.h"
#include "python/ipc/wait_call.h"
#include "python/tensor/tensor_type.h"

static PyTypeObject *line_type, *request_type; /* owned */

enum { MOST_AT_ONCE = 256 };

static bool arguments(const char* name, Py_ssize_t n, Py_ssize_t expected) {
  if (n == expected) return true;
  PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, got %zd", name, expected, n);
  return false;
}

/* --- _Line -------------------------------------------------------------------------------- */

typedef struct line_object {
  PyObject_HEAD shmt__ring* line; /* owned */
  uint32_t serial;                /* of the last call that `call` or next_serial() has counted */
} line_object;

typedef struct line_call {
  shmt__py_wait_call base;
  shmt__ring *server, *line;
  uint32_t serial;
  const shmt__outgoing_message* request;
  shmt__received_message* reply;
} line_call;

static shmt__ring_result call_begin(shmt__py_wait_call* w, uint64_t deadline_ns) {
  line_call* c = (line_call*)w;
  return shmt__call_begin(c->server, c->line, c->serial, c->request, deadline_ns);
}
static shmt__ring_result call_wait(shmt__py_wait_call* w, uint64_t deadline_ns) {
  line_call* c = (line_call*)w;
  return shmt__call_wait(c->line, c->serial, deadline_ns, c->reply);
}

/* _new_line(ring, n_calls) */
static PyObject* py_new_line(PyObject* module, PyObject* args) {
  PyObject* ring = NULL;
  unsigned int n = 0;
  shmt__ring* line = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "OI", &ring, &n)) return NULL;
  if (!shmt__py_is_ring(ring) || n < 1 || n > SHMT_CALL_WORDS)
    return PyErr_Format(PyExc_ValueError, "_new_line(): a %s for %u calls, at most %d", Py_TYPE(ring)->tp_name, n,
                        SHMT_CALL_WORDS);
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status = shmt__call_make_line(((shmt__py_ring*)ring)->ring, n, &line);
  shmt__py_gil_restore(saved);
  if (status != SHMT_OK) return shmt__py_raise(status);
  line_object* o = PyObject_New(line_object, line_type);
  if (o == NULL) {
    shmt__ring_close(line);
    return NULL;
  }
  o->line = line;
  o->serial = 0;
  return (PyObject*)o;
}

static void line_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  shmt__ring_close(((line_object*)self)->line);
  type->tp_free(self);
  Py_DECREF(type);
}

/* Are the first arguments a server's ring and a message for it? */
static bool are_ring_and_message(const char* name, PyObject* const* args) {
  if (shmt__py_is_ring(args[0]) && shmt__py_is_packed_message(args[1])) return true;
  PyErr_Format(PyExc_TypeError, "%s(): expected a _Ring and a _PackedMessage, got %s and %s", name,
               Py_TYPE(args[0])->tp_name, Py_TYPE(args[1])->tp_name);
  return false;
}

/* begin(ring, message, serial, timeout) */
static PyObject* line_begin(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  line_object* o = (line_object*)self;
  uint64_t deadline_ns;
  if (!arguments("begin", n, 4) || !shmt__py_deadline_of(args[3], &deadline_ns) || !are_ring_and_message("begin", args))
    return NULL;
  const shmt__outgoing_message view = shmt__py_packed_message_view((shmt__py_packed_message*)args[1]);
  const unsigned long serial = PyLong_AsUnsignedLong(args[2]);
  if (serial == (unsigned long)-1 && PyErr_Occurred()) return NULL;
  if (serial < 1 || serial >= SHMT_CALL_SERIALS)
    return PyErr_Format(PyExc_ValueError, "begin(): the serial number %lu", serial);
  line_call c = {.base.call = call_begin, .server = ((shmt__py_ring*)args[0])->ring, .line = o->line,
                 .serial = (uint32_t)serial, .request = &view};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (result != SHMT_RING_DONE) return shmt__py_ring_raise(result, shmt__py_full());
  Py_RETURN_NONE;
}

/* What a server that fails sends: a text, a traceback, the exception. New reference. */
static PyObject* unreadable(void) {
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  PyErr_NormalizeException(&kind, &error, &trace);
  PyObject* facts = Py_BuildValue("ssO", "the reply cannot be read", "", error);
  Py_XDECREF(kind);
  Py_XDECREF(error);
  Py_XDECREF(trace);
  return facts;
}

/* The object of a reply, and whether it is an error. Consumes d. New reference, or NULL with an exception. */
static PyObject* reply_of(const line_object* o, shmt__received_message* d, uint32_t mode, PyObject** out_is_error) {
  PyObject* object = NULL;
  if (shmt__py_received_in_mode(d, mode)) object = shmt__py_received_object(o->line, d);
  *out_is_error = d->flags & SHMT_RING_ERROR ? Py_True : Py_False;
  shmt__received_message_fini(d);
  /* No other call is to learn of it. Nobody opens a reply twice, so a MemoryError is the reply's, too. */
  const shmt__py_fault fault = object == NULL ? shmt__py_fault_now() : SHMT_PY_OF_MESSAGE;
  const bool is_scarcity = fault == SHMT_PY_OF_EITHER && PyErr_ExceptionMatches(PyExc_MemoryError);
  if (object == NULL && (fault == SHMT_PY_OF_MESSAGE || is_scarcity)) {
    object = unreadable();
    *out_is_error = Py_True;
  }
  return object;
}

/* wait(serial, timeout, mode): (serial, is_error, object) of the next reply; None: the server of the call is gone */
static PyObject* line_wait(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  line_object* o = (line_object*)self;
  uint64_t deadline_ns;
  uint32_t mode;
  if (!arguments("wait", n, 3) || !shmt__py_deadline_of(args[1], &deadline_ns) ||
      !shmt__py_ring_mode_of(args[2], &mode))
    return NULL;
  const unsigned long serial = PyLong_AsUnsignedLong(args[0]);
  if (serial == (unsigned long)-1 && PyErr_Occurred()) return NULL;
  shmt__received_message d;
  line_call c = {.base.call = call_wait, .line = o->line, .serial = (uint32_t)serial, .reply = &d};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (result == SHMT_RING_ALONE) Py_RETURN_NONE;
  if (result != SHMT_RING_DONE) return shmt__py_ring_raise(result, shmt__py_empty());
  const uint32_t of = shmt__call_serial_of(d.flags);
  PyObject *is_error, *object = reply_of(o, &d, mode, &is_error);
  return object != NULL ? Py_BuildValue("ION", of, is_error, object) : NULL;
}

static uint32_t count_call(line_object* o) {
  o->serial = o->serial % (SHMT_CALL_SERIALS - 1) + 1;
  return o->serial;
}

/* A reply of another call came, and is dropped. A server may send such without end: other threads run in between, and
 * so do the handlers of signals. Returns SHMT_RING_DONE: wait on. */
static shmt__ring_result drop_reply(line_call* c, uint64_t* begun_ns, uint64_t deadline_ns) {
  PyThreadState* saved = PyEval_SaveThread();
  shmt__received_message_fini(c->reply);
  const shmt__ring_result result = shmt__ring_round(begun_ns, deadline_ns);
  shmt__py_gil_restore(saved);
  if (result != SHMT_RING_INTERRUPTED) return result;
  *begun_ns = 0;
  return PyErr_CheckSignals() < 0 ? SHMT_RING_INTERRUPTED : SHMT_RING_DONE;
}

/* Put the request and wait for its reply; those of calls that were given up are dropped. */
static shmt__ring_result request_and_wait(line_call* c, uint64_t deadline_ns) {
  uint64_t begun_ns = 0;
  shmt__ring_result result = shmt__py_wait_call_run(&c->base, deadline_ns);
  c->base.call = call_wait;
  while (result == SHMT_RING_DONE) {
    result = shmt__py_wait_call_run(&c->base, deadline_ns);
    if (result != SHMT_RING_DONE || shmt__call_serial_of(c->reply->flags) == c->serial) break;
    result = drop_reply(c, &begun_ns, deadline_ns);
  }
  return result;
}

/* call(ring, message, timeout): (is_error, object) of the reply; None: the server is gone */
static PyObject* line_request(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  line_object* o = (line_object*)self;
  uint64_t deadline_ns;
  if (!arguments("call", n, 3) || !shmt__py_deadline_of(args[2], &deadline_ns) || !are_ring_and_message("call", args))
    return NULL;
  const shmt__outgoing_message view = shmt__py_packed_message_view((shmt__py_packed_message*)args[1]);
  shmt__received_message d;
  line_call c = {.base.call = call_begin, .server = ((shmt__py_ring*)args[0])->ring, .line = o->line,
                 .serial = count_call(o), .request = &view, .reply = &d};
  shmt__ring_result result = request_and_wait(&c, deadline_ns);
  PyObject *answer = NULL, *is_error = NULL, *object = NULL;
  if (result == SHMT_RING_DONE) {
    object = reply_of(o, &d, SHMT_ATTACH_WRITING, &is_error);
    if (object != NULL) answer = PyTuple_Pack(2, is_error, object);
    Py_XDECREF(object);
  } else if (result == SHMT_RING_ALONE && c.base.call == call_wait) {
    answer = Py_NewRef(Py_None);
  } else {
    (void)shmt__py_ring_raise(result, c.base.call == call_wait ? shmt__py_empty() : shmt__py_full());
  }
  shmt__call_give_up(o->line, c.serial);
  return answer;
}

static PyObject* line_next_serial(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(count_call((line_object*)self));
}

static PyObject* line_give_up(PyObject* self, PyObject* serial) {
  const unsigned long n = PyLong_AsUnsignedLong(serial);
  if (n == (unsigned long)-1 && PyErr_Occurred()) return NULL;
  shmt__call_give_up(((line_object*)self)->line, (uint32_t)n);
  Py_RETURN_NONE;
}

static PyObject* line_is_lost(PyObject* self, PyObject* serial) {
  const unsigned long n = PyLong_AsUnsignedLong(serial);
  if (n == (unsigned long)-1 && PyErr_Occurred()) return NULL;
  return PyBool_FromLong(shmt__call_is_lost(((line_object*)self)->line, (uint32_t)n));
}

static PyObject* line_fileno(PyObject* self, PyObject* unused) {
  int fd = -1;
  (void)unused;
  shmt_status status = shmt__ring_fileno(((line_object*)self)->line, true, &fd);
  return status == SHMT_OK ? PyLong_FromLong(fd) : shmt__py_raise(status);
}

/* --- _Request ----------------------------------------------------------------------------- */

typedef struct request_object {
  PyObject_HEAD shmt__call call;
  PyObject *server, *value; /* owned */
  uint32_t fork;            /* shmt__fork_count() of the process that took it */
  bool is_open;
} request_object;

/* The request of a received message, without its value. */
static request_object* new_request(PyTypeObject* type, PyObject* server, shmt__received_message* d) {
  request_object* o = (request_object*)type->tp_alloc(type, 0);
  if (o == NULL) return NULL;
  o->server = Py_NewRef(server);
  o->fork = shmt__fork_count();
  o->is_open = shmt__call_open(d, &o->call);
  return o;
}

/* The request of a received message; its value is NULL, with an exception, when that cannot be read. Consumes d. */
static request_object* request_of(PyTypeObject* type, PyObject* server, shmt__py_ring* ring,
                                  shmt__received_message* d) {
  request_object* o = new_request(type, server, d);
  if (o == NULL) {
    shmt__received_message_fini(d);
    return NULL;
  }
  if (shmt__py_received_in_mode(d, ring->mode)) o->value = shmt__py_received_object(ring->ring, d);
  shmt__received_message_fini(d);
  return o;
}

/* Put a reply. Returns whether somebody wanted it; -1 with an exception. is_patient: wait a moment for a client that
 * does not read its replies. */
static int answer(request_object* o, PyObject* value, uint32_t adopts, uint32_t flags, bool is_patient) {
  shmt__py_packed_message* p = shmt__py_packed_message_of(value, &o->call.line, adopts);
  if (p == NULL) return -1;
  const shmt__outgoing_message view = shmt__py_packed_message_view(p);
  shmt__ring_result result = shmt__call_reply(&o->call, &view, flags, false);
  if (result == SHMT_RING_NO_ROOM && is_patient) {
    PyThreadState* saved = PyEval_SaveThread();
    result = shmt__call_reply(&o->call, &view, flags, true);
    shmt__py_gil_restore(saved);
  }
  Py_DECREF(p);
  if (result == SHMT_RING_DONE) return 1;
  if (result == SHMT_RING_ALONE) return 0;
  if (result == SHMT_RING_FAILED) {
    (void)shmt__py_ring_raise(result, NULL);
    return -1;
  }
  PyErr_SetString(PyExc_BufferError, "the reply does not fit: the client reads none of those that are there");
  return -1;
}

static void close_request(request_object* o) {
  if (!o->is_open) return;
  o->is_open = false;
  shmt__call_close(&o->call);
}

/* _answer(value, is_error): whether anybody waited for it */
static PyObject* request_answer(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  request_object* o = (request_object*)self;
  if (!arguments("_answer", n, 2)) return NULL;
  if (!o->is_open) {
    PyErr_SetString(PyExc_RuntimeError, "a request was answered before");
    return NULL;
  }
  /* Pickling runs the program's code, and other threads run meanwhile: none of them answers this one, or ends it. */
  o->is_open = false;
  int is_wanted = answer(o, args[0], SHMT_PY_SENDS_AS_OURS, args[1] == Py_True ? SHMT_RING_ERROR : 0, true);
  o->is_open = true;
  if (is_wanted < 0) return NULL;
  close_request(o);
  return PyBool_FromLong(is_wanted);
}

static PyObject* request_let_go(PyObject* self, PyObject* unused) {
  (void)unused;
  close_request((request_object*)self);
  Py_RETURN_NONE;
}

/* Who lets go of a request without an answer says so. In a forked child it is the parent's. */
static void request_dealloc(PyObject* self) {
  request_object* o = (request_object*)self;
  PyTypeObject* type = Py_TYPE(self);
  if (o->is_open && o->fork == shmt__fork_count()) {
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    if (answer(o, Py_None, 0, SHMT_RING_ERROR, false) < 0) PyErr_Clear();
    PyErr_Restore(kind, error, trace);
  }
  close_request(o);
  Py_XDECREF(o->server);
  Py_XDECREF(o->value);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject* get_value(PyObject* self, void* unused) {
  (void)unused;
  PyObject* value = ((request_object*)self)->value;
  return Py_NewRef(value != NULL ? value : Py_None);
}
static int set_value(PyObject* self, PyObject* value, void* unused) {
  (void)unused;
  Py_XSETREF(((request_object*)self)->value, Py_XNewRef(value));
  return 0;
}
static PyObject* get_server(PyObject* self, void* unused) {
  (void)unused;
  PyObject* server = ((request_object*)self)->server;
  return Py_NewRef(server != NULL ? server : Py_None);
}
static PyObject* get_is_open(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(((request_object*)self)->is_open);
}
static PyObject* get_takes_pickles(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(shmt__ring_takes_pickles(&((request_object*)self)->call.line));
}
static PyObject* get_is_wanted(PyObject* self, void* unused) {
  request_object* o = (request_object*)self;
  (void)unused;
  return PyBool_FromLong(o->is_open && shmt__call_is_wanted(&o->call));
}

/* --- taking requests ---------------------------------------------------------------------- */

typedef struct take_call {
  shmt__py_wait_call base;
  shmt__ring* ring;
  shmt__received_message* received;
  uint32_t n_max, n_got;
} take_call;

static shmt__ring_result call_take(shmt__py_wait_call* w, uint64_t deadline_ns) {
  take_call* c = (take_call*)w;
  return shmt__ring_get(c->ring, c->received, c->n_max, &c->n_got, deadline_ns);
}

/* _serve(ring) */
static PyObject* py_serve(PyObject* module, PyObject* ring) {
  (void)module;
  if (!shmt__py_is_ring(ring))
    return PyErr_Format(PyExc_TypeError, "_serve(): expected a _Ring, got %s", Py_TYPE(ring)->tp_name);
  shmt__call_serve(((shmt__py_ring*)ring)->ring);
  Py_RETURN_NONE;
}

/* Answer a request whose value cannot be read with the text of the error that is set, and clear that. */
static void refuse(request_object* o) {
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  PyErr_NormalizeException(&kind, &error, &trace);
  PyObject* text = error != NULL ? PyObject_Repr(error) : NULL;
  if (text == NULL || answer(o, text, 0, SHMT_RING_ERROR, false) < 0) PyErr_Clear();
  close_request(o);
  Py_XDECREF(text);
  Py_XDECREF(kind);
  Py_XDECREF(error);
  Py_XDECREF(trace);
}

/* Let go of requests that were not read. An exception may be set, and stays. */
static void let_go_of(PyTypeObject* type, PyObject* server, shmt__received_message* received, uint32_t n) {
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  for (uint32_t i = 0; i < n; i++) {
    PyObject* request = (PyObject*)new_request(type, server, &received[i]);
    shmt__received_message_fini(&received[i]);
    Py_XDECREF(request); /* which tells the client */
  }
  PyErr_Clear();
  PyErr_Restore(kind, error, trace);
}

/* Make requests of messages, and append those that can be read to the list. False with an exception: a request is not
 * there, or a signal's handler has raised it. Consumes the messages. */
static bool append_requests(PyObject* list, PyTypeObject* type, PyObject* server, shmt__py_ring* ring,
                            shmt__received_message* received, uint32_t n) {
  bool is_good = true;
  for (uint32_t i = 0; i < n; i++) {
    request_object* request = request_of(type, server, ring, &received[i]);
    if (request != NULL && request->value == NULL && shmt__py_fault_now() == SHMT_PY_OF_HANDLER) {
      let_go_of(type, server, &received[i + 1], n - i - 1);
      Py_DECREF(request);
      return false;
    }
    if (request != NULL && request->value == NULL)
      refuse(request);
    else
      is_good = request != NULL && PyList_Append(list, (PyObject*)request) == 0 && is_good;
    Py_XDECREF(request);
  }
  return is_good;
}

/* _take_requests(ring, class, server, n_max, timeout, taken) */
static PyObject* py_take_requests(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  shmt__received_message received[MOST_AT_ONCE];
  uint64_t deadline_ns;
  (void)module;
  if (!arguments("_take_requests", n, 6)) return NULL;
  Py_ssize_t n_max;
  if (!shmt__py_most_of("_take_requests", args[3], &n_max)) return NULL;
  if (!shmt__py_is_ring(args[0]) || !PyType_Check(args[1]) ||
      !PyType_IsSubtype((PyTypeObject*)args[1], request_type) || !PyList_CheckExact(args[5]))
    return PyErr_Format(PyExc_TypeError, "_take_requests(): requests of a %s", Py_TYPE(args[0])->tp_name);
  if (!shmt__py_deadline_of(args[4], &deadline_ns)) return NULL;
  shmt__py_ring* r = (shmt__py_ring*)args[0];
  take_call c = {.base.call = call_take, .ring = r->ring, .received = received,
                 .n_max = n_max < MOST_AT_ONCE ? (uint32_t)n_max : MOST_AT_ONCE};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (result != SHMT_RING_DONE && c.n_got == 0) return shmt__py_ring_raise(result, shmt__py_empty());
  if (!append_requests(args[5], (PyTypeObject*)args[1], args[2], r, received, c.n_got)) return NULL;
  Py_RETURN_NONE;
}

/* --- types -------------------------------------------------------------------------------- */

#define FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL
static PyMethodDef line_methods[] = {
    {"call", FAST(line_request),
     "call(ring, message, timeout)\n--\n\nPut a request, and return (is_error, object) of its reply; None: the server "
     "is gone. Raises queue.Empty or queue.Full after the timeout."},
    {"next_serial", line_next_serial, METH_NOARGS, "Count a call; its number, for begin()."},
    {"begin", FAST(line_begin), "begin(ring, message, serial, timeout)\n--\n\nPut a request."},
    {"wait", FAST(line_wait),
     "wait(serial, timeout, mode)\n--\n\n(serial, is_error, object) of the next reply; None: the server of the call is "
     "gone."},
    {"give_up", line_give_up, METH_O, "give_up(serial)\n--\n\nThe reply is not wanted any more."},
    {"is_lost", line_is_lost, METH_O, "is_lost(serial)\n--\n\nWhether the server of the call is gone."},
    {"fileno", line_fileno, METH_NOARGS, "A descriptor that is readable while there is a reply."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot line_slots[] = {
    {Py_tp_dealloc, (void*)line_dealloc},
    {Py_tp_methods, line_methods},
    {Py_tp_doc, (void*)"What a client calls on: a ring of replies."},
    {0, NULL},
};
static PyType_Spec line_spec = {.name = "shmtensor._C._Line",
                                .basicsize = sizeof(line_object),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .slots = line_slots};
static PyMethodDef request_methods[] = {
    {"_answer", FAST(request_answer),
     "_answer($self, value, is_error, /)\n--\n\nAnswer; whether anybody waited for it."},
    {"_let_go", request_let_go, METH_NOARGS, "Give the request up without an answer: its call is lost."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef request_getset[] = {
    {"value", get_value, set_value, "What was asked.", NULL},
    {"_server", get_server, NULL, "Whose request it is.", NULL},
    {"_is_open", get_is_open, NULL, "Whether it was not answered yet.", NULL},
    {"_is_wanted", get_is_wanted, NULL, "Whether the client still waits.", NULL},
    {"_takes_pickles", get_takes_pickles, NULL, "Whether the client is a process of the same user.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot request_slots[] = {
    {Py_tp_dealloc, (void*)request_dealloc},
    {Py_tp_methods, request_methods},
    {Py_tp_getset, request_getset},
    {Py_tp_doc, (void*)"A request that a server has taken."},
    {0, NULL},
};
static PyType_Spec request_spec = {.name = "shmtensor._C._Request",
                                   .basicsize = sizeof(request_object),
                                   .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE |
                                            Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   .slots = request_slots};
static PyMethodDef call_functions[] = {
    {"_new_line", py_new_line, METH_VARARGS, "_new_line(ring, n_calls)\n--\n\nA line to call a server's ring."},
    {"_serve", py_serve, METH_O, "_serve(ring)\n--\n\nTake requests out of the ring from now on."},
    {"_take_requests", FAST(py_take_requests),
     "_take_requests(ring, class, server, n_max, timeout, taken)\n--\n\nAppend the requests that are there, as objects "
     "of a class derived from _Request, to a list."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_call_init(PyObject* module) {
  line_type = (PyTypeObject*)PyType_FromSpec(&line_spec);
  request_type = (PyTypeObject*)PyType_FromSpec(&request_spec);
  if (line_type == NULL || request_type == NULL) return -1;
  if (PyModule_AddObjectRef(module, "_Line", (PyObject*)line_type) < 0 ||
      PyModule_AddObjectRef(module, "_Request", (PyObject*)request_type) < 0)
    return -1;
  return PyModule_AddFunctions(module, call_functions);
}
