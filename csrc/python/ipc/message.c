/* python/ipc/message.c -- turns Python objects into the messages of rings, and back. */
#include "python/ipc/message.h"

#include "ipc/handle/share.h"
#include "os/process.h"
#include "python/gil.h"
#include "python/ipc/message_records.h"
#include "python/ipc/plain_objects.h"
#include "python/ipc/share.h"
#include "python/ipc/to_send.h"
#include "python/tensor/construct.h"
#include "python/tensor/tensor_type.h"

#include <string.h>

enum { IDLE_PICKLERS = 4 };

/* The file that a pickler writes to. */
typedef struct sink {
  PyObject_HEAD
  shmt__py_message_writer* writer; /* borrowed; NULL while idle */
} sink;

/* Picklers are kept for reuse: making one costs more than a small message. */
typedef struct idle_pickler {
  PyObject* pickler;
  sink* sink;
} idle_pickler;

static PyTypeObject *packed_message_type, *sink_type; /* owned */
static struct {
  PyObject *pickler_class, *reducers, *loads, *empty, *full, *own_reducers, *came_from_handler; /* owned */
  PyObject *reduce_array, *torch_tensor, *reduce_torch, *as_ours;           /* owned; may be NULL */
} registered;
static idle_pickler idle[IDLE_PICKLERS]; /* guarded by the interpreter's lock */
static unsigned n_idle;
static PyObject *name_dump, *name_clear_memo; /* owned */

PyObject* shmt__py_empty(void) { return registered.empty; }
PyObject* shmt__py_full(void) { return registered.full; }

/* Is this the thread on which CPython runs handlers? */
static bool on_main_thread(void) { return shmt__os_thread_id() == shmt__os_pid(); }

shmt__py_fault shmt__py_fault_now(void) {
  if (!PyErr_Occurred()) return SHMT_PY_OF_MESSAGE;
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) /* the handler that is built in runs on one thread */
    return on_main_thread() ? SHMT_PY_OF_HANDLER : SHMT_PY_OF_MESSAGE;
  const bool is_scarcity = PyErr_ExceptionMatches(PyExc_MemoryError);
  const bool is_error = PyErr_ExceptionMatches(PyExc_Exception); /* errors are subclasses of it */
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != NULL) PyException_SetTraceback(value, trace);
  PyObject* answer = PyObject_CallOneArg(registered.came_from_handler, value);
  const bool is_of_handler = answer != Py_False;
  if (answer != NULL) {
    PyErr_Restore(type, value, trace);
  } else { /* another handler has raised, just now */
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  }
  Py_XDECREF(answer);
  if (is_of_handler) return SHMT_PY_OF_HANDLER;
  if (is_scarcity) return SHMT_PY_OF_EITHER;
  return is_error || !on_main_thread() ? SHMT_PY_OF_MESSAGE : SHMT_PY_OF_EITHER;
}

/* --- the packed message type --- */

static void packed_message_dealloc(PyObject* self) {
  shmt__py_packed_message* p = (shmt__py_packed_message*)self;
  PyTypeObject* type = Py_TYPE(self);
  shmt__py_writer_fini(&p->writer);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyType_Slot packed_message_slots[] = {
    {Py_tp_dealloc, (void*)packed_message_dealloc},
    {Py_tp_doc, (void*)"A pickled message that waits for room in its ring."},
    {0, NULL},
};
static PyType_Spec packed_message_spec = {.name = "shmtensor._C._PackedMessage",
                                  .basicsize = sizeof(shmt__py_packed_message),
                                  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  .slots = packed_message_slots};

bool shmt__py_is_packed_message(PyObject* o) { return Py_IS_TYPE(o, packed_message_type); }

static PyObject* sink_write(PyObject* self, PyObject* data) {
  sink* s = (sink*)self;
  Py_buffer view;
  if (s->writer == NULL)
    return PyErr_Format(PyExc_ValueError, "write to the file of a message that is finished");
  if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) return NULL;
  bool good = shmt__py_bytes_append(&s->writer->pickle, view.buf, (size_t)view.len);
  PyBuffer_Release(&view);
  if (!good) return NULL;
  Py_RETURN_NONE;
}

static void sink_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyMethodDef sink_methods[] = {
    {"write", sink_write, METH_O, "Append bytes to the message."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot sink_slots[] = {
    {Py_tp_dealloc, (void*)sink_dealloc},
    {Py_tp_methods, sink_methods},
    {0, NULL},
};
static PyType_Spec sink_spec = {.name = "shmtensor._C._MessageSink",
                                .basicsize = sizeof(sink),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .slots = sink_slots};

/* --- pickling --- */

/* Call a reduction. Our own reductions may add to the list. */
static PyObject* call_reducer(PyObject* reducer, PyObject* o) {
  shmt__py_message_writer* w = shmt__py_tls_writer;
  int ours = PySet_Contains(registered.own_reducers, reducer);
  if (ours < 0) return NULL;
  bool was = w->is_reducing;
  w->is_reducing = ours != 0;
  PyObject* result = PyObject_CallOneArg(reducer, o);
  w->is_reducing = was;
  return result;
}

/* An array, and of no subclass. */
static bool is_plain_array(PyObject* o) {
  return strcmp(Py_TYPE(o)->tp_name, "numpy.ndarray") == 0 && shmt__py_is_numpy_array(o);
}

/* The pickler's hook, which it calls for everything but the plain built-in types. */
static PyObject* py_reduce_for_message(PyObject* module, PyObject* o) {
  shmt__py_message_writer* w = shmt__py_tls_writer;
  (void)module;
  if (w == NULL || PyType_Check(o) || PyFunction_Check(o)) Py_RETURN_NOTIMPLEMENTED;
  if (Py_TYPE(o) == shmt__py_tensor_type) {
    w->is_reducing = true;
    PyObject* result = shmt__py_reduce_tensor(o);
    w->is_reducing = false;
    return result;
  }
  if ((w->adopts & SHMT_PY_ADOPTS_NUMPY) && registered.reduce_array != NULL && is_plain_array(o))
    return call_reducer(registered.reduce_array, o);
  if ((w->adopts & SHMT_PY_ADOPTS_TORCH) && (PyObject*)Py_TYPE(o) == registered.torch_tensor)
    return call_reducer(registered.reduce_torch, o);
  PyObject* reducer = PyDict_GetItemWithError(registered.reducers, (PyObject*)Py_TYPE(o));
  if (reducer == NULL) {
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NOTIMPLEMENTED;
  }
  Py_INCREF(reducer);
  PyObject* result = call_reducer(reducer, o);
  Py_DECREF(reducer);
  return result;
}

static bool take_pickler(idle_pickler* out) {
  if (n_idle > 0) {
    *out = idle[--n_idle];
    return true;
  }
  if (registered.pickler_class == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "shmtensor.multiprocessing.queues is not imported");
    return false;
  }
  sink* s = PyObject_New(sink, sink_type);
  if (s == NULL) return false;
  s->writer = NULL;
  PyObject* pickler = PyObject_CallOneArg(registered.pickler_class, (PyObject*)s);
  if (pickler == NULL) {
    Py_DECREF(s);
    return false;
  }
  *out = (idle_pickler){pickler, s};
  return true;
}

static void give_pickler(idle_pickler k, bool is_good) {
  k.sink->writer = NULL;
  if (is_good && n_idle < IDLE_PICKLERS) {
    PyObject* done = PyObject_CallMethodNoArgs(k.pickler, name_clear_memo);
    if (done != NULL && n_idle < IDLE_PICKLERS) {
      Py_DECREF(done);
      idle[n_idle++] = k;
      return;
    }
    Py_XDECREF(done);
    PyErr_Clear();
  }
  Py_DECREF(k.pickler);
  Py_DECREF(k.sink);
}

static bool run_pickler(shmt__py_message_writer* w, PyObject* o) {
  idle_pickler k;
  if (!take_pickler(&k)) return false;
  shmt__py_message_writer* outer = shmt__py_tls_writer;
  shmt__py_tls_writer = w;
  k.sink->writer = w;
  PyObject* done = PyObject_CallMethodOneArg(k.pickler, name_dump, o);
  shmt__py_tls_writer = outer;
  if (done == NULL) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    give_pickler(k, false);
    PyErr_Restore(type, value, trace);
    return false;
  }
  Py_DECREF(done);
  give_pickler(k, true);
  return true;
}

/* The data is too long for a ring: put it into a block of its own. */
static bool spill(shmt__py_packed_message* p) {
  shmt__py_message_writer* w = &p->writer;
  size_t nbytes = w->records.len + w->pickle.len;
  SHMT_AUTO(shmt_storage) s = NULL;
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status = shmt__py_storage_for(w->session, nbytes, SHMT_SHARING_FILE_SYSTEM, &s);
  if (status == SHMT_OK) {
    memcpy(s->data, w->records.at, w->records.len);
    memcpy((char*)s->data + w->records.len, w->pickle.at, w->pickle.len);
  }
  shmt__py_gil_restore(saved);
  if (status != SHMT_OK) {
    (void)shmt__py_raise(status);
    return false;
  }
  if (!shmt__py_writer_add_storage(w, &s)) return false;
  p->flags = SHMT_RING_SPILLED;
  PyMem_Free(w->pickle.at);
  w->pickle = (shmt__py_bytes){0};
  return true;
}

static shmt__py_packed_message* new_packed_message(struct shmt__session* session) {
  shmt__py_packed_message* p = PyObject_New(shmt__py_packed_message, packed_message_type);
  if (p == NULL) return NULL;
  p->flags = 0;
  p->next = NULL;
  if (shmt__py_writer_init(&p->writer, session)) return p;
  Py_DECREF(p);
  return NULL;
}

/* A pickle runs what its sender likes in its receiver. */
static bool refuse_pickle(PyObject* o) {
  (void)PyErr_Format(PyExc_TypeError,
                     "a queue between users takes tensors, numbers, text, bytes, None, and lists, tuples and dicts "
                     "of them; this %s would have to be pickled",
                     Py_TYPE(o)->tp_name);
  return false;
}

/* Write o without the pickler, if need be with what is other libraries' as ours. *out_sent: what is to be pickled after
 * NOT_PLAIN; a new reference, or NULL. */
static shmt__py_quick write_quick(shmt__py_message_writer* w, PyObject* o, PyObject** out_sent) {
  *out_sent = Py_NewRef(o);
  shmt__py_quick quick = shmt__py_quick_write(w, o);
  if (quick != SHMT_PY_QUICK_NOT_PLAIN || !(w->adopts & SHMT_PY_SENDS_AS_OURS) || registered.as_ours == NULL)
    return quick;
  Py_SETREF(*out_sent, PyObject_CallOneArg(registered.as_ours, o));
  if (*out_sent == NULL) return SHMT_PY_QUICK_FAILED;
  return *out_sent == o ? quick : shmt__py_quick_write(w, *out_sent);
}

shmt__py_packed_message* shmt__py_packed_message_of(PyObject* o, const shmt__ring* r, uint32_t adopts) {
  shmt__py_packed_message* p = new_packed_message(r->session);
  if (p == NULL) return NULL;
  p->writer.adopts = adopts;
  p->writer.most_storages = shmt__ring_most_storages(r);
  shmt__py_copies copies;
  PyObject* sent = NULL;
  shmt__py_copies_begin(&copies);
  shmt__py_quick quick = write_quick(&p->writer, o, &sent);
  bool is_packed = quick == SHMT_PY_QUICK_DONE;
  if (quick == SHMT_PY_QUICK_NOT_PLAIN)
    is_packed = shmt__ring_takes_pickles(r) ? run_pickler(&p->writer, sent) : refuse_pickle(sent);
  Py_XDECREF(sent);
  shmt__py_copies_end(&copies);
  if (is_packed) {
    shmt__py_writer_finish(&p->writer, quick == SHMT_PY_QUICK_DONE);
    if (p->writer.records.len + p->writer.pickle.len <= r->inline_bytes || spill(p)) return p;
  }
  Py_DECREF(p);
  return NULL;
}

shmt__py_packed_message* shmt__py_packed_message_of_plain(PyObject* o) {
  shmt__py_packed_message* p = new_packed_message(NULL);
  shmt__py_copies copies;
  if (p == NULL) return NULL;
  shmt__py_copies_begin(&copies);
  shmt__py_quick quick = shmt__py_quick_write(&p->writer, o);
  shmt__py_copies_end(&copies);
  if (quick == SHMT_PY_QUICK_DONE) {
    shmt__py_writer_finish(&p->writer, true);
    return p;
  }
  Py_DECREF(p);
  return NULL;
}

shmt__outgoing_message shmt__py_packed_message_view(const shmt__py_packed_message* p) {
  const shmt__py_message_writer* w = &p->writer;
  shmt__outgoing_message view = {.storages = w->storages, .n_storages = w->n_storages, .flags = p->flags};
  if (p->flags & SHMT_RING_SPILLED) return view;
  view.parts[0] = w->records.at;
  view.part_bytes[0] = (uint32_t)w->records.len;
  view.parts[1] = w->pickle.at;
  view.part_bytes[1] = (uint32_t)w->pickle.len;
  return view;
}

/* --- unpickling --- */

PyObject* shmt__py_message_object(shmt_storage* const* storages, uint32_t n_storages, const char* data,
                                  uint64_t nbytes, const shmt__ring* ring) {
  shmt__py_message_reader r;
  PyObject* result = NULL;
  shmt_status status = shmt__py_reader_begin(&r, storages, n_storages, data, nbytes);
  if (status != SHMT_OK) return shmt__py_raise(status);
  if (r.is_quick) {
    result = shmt__py_quick_read(r.pickle, r.n_pickle);
  } else if (ring != NULL && !shmt__ring_takes_pickles(ring)) {
    (void)shmt__py_raise(shmt__fail(SHMT_E_HANDLE, "a pickle in a queue between users"));
  } else {
    /* Nothing that is unpickled refers to these bytes afterwards. */
    PyObject* view = PyMemoryView_FromMemory((char*)r.pickle, (Py_ssize_t)r.n_pickle, PyBUF_READ);
    if (view != NULL) result = PyObject_CallOneArg(registered.loads, view);
    Py_XDECREF(view);
  }
  shmt__py_reader_end(&r);
  return result;
}

PyObject* shmt__py_received_object(const shmt__ring* ring, const shmt__received_message* d) {
  const char* data = d->data;
  uint64_t nbytes = d->nbytes;
  uint32_t n_storages = d->n_storages;
  if (d->flags & SHMT_RING_SPILLED && n_storages > 0) {
    data = d->storages[--n_storages]->data;
    nbytes = d->storages[n_storages]->nbytes;
  }
  if (SHMT_LIKELY(data == d->data || shmt__ring_takes_pickles(ring)))
    return shmt__py_message_object(d->storages, n_storages, data, nbytes, ring);
  /* Another user could change the bytes while they are read. */
  char* copy = PyMem_Malloc(nbytes);
  if (copy == NULL) return PyErr_NoMemory();
  memcpy(copy, data, nbytes);
  PyObject* result = shmt__py_message_object(d->storages, n_storages, copy, nbytes, ring);
  PyMem_Free(copy);
  return result;
}

/* --- the module's part --- */

/* _set_messages(pickler_class, reducers, loads, empty, full, own_reducers, came_from_handler) */
static PyObject* py_set_messages(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  PyObject** slots[] = {&registered.pickler_class, &registered.reducers, &registered.loads,
                        &registered.empty,         &registered.full,     &registered.own_reducers,
                        &registered.came_from_handler};
  (void)module;
  if (n != 7 || !PyDict_Check(args[1]) || !PyAnySet_Check(args[5]))
    return PyErr_Format(PyExc_TypeError,
                        "_set_messages(): expected a class, a dict, a function, two exceptions, "
                        "a set and a function, got %zd arguments",
                        n);
  for (int i = 0; i < 7; i++) Py_XSETREF(*slots[i], Py_NewRef(args[i]));
  Py_RETURN_NONE;
}

static PyObject* py_set_array_reduce(PyObject* module, PyObject* function) {
  (void)module;
  Py_XSETREF(registered.reduce_array, Py_NewRef(function));
  Py_RETURN_NONE;
}

/* _set_torch_reduce(class, function) */
static PyObject* py_set_torch_reduce(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  if (n != 2) return PyErr_Format(PyExc_TypeError, "_set_torch_reduce(): expected 2 arguments, got %zd", n);
  Py_XSETREF(registered.torch_tensor, Py_NewRef(args[0]));
  Py_XSETREF(registered.reduce_torch, Py_NewRef(args[1]));
  Py_RETURN_NONE;
}

/* _set_as_ours(function) */
static PyObject* py_set_as_ours(PyObject* module, PyObject* function) {
  (void)module;
  Py_XSETREF(registered.as_ours, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyMethodDef shmt__py_message_functions[] = {
    {"_reduce_for_message", py_reduce_for_message, METH_O,
     "The reducer_override of the pickler for rings."},
    {"_set_messages", (PyCFunction)(void (*)(void))py_set_messages, METH_FASTCALL,
     "Name the pickler class and what goes with it."},
    {"_set_array_reduce", py_set_array_reduce, METH_O,
     "Name the function that reduces a NumPy array to shared memory."},
    {"_set_torch_reduce", (PyCFunction)(void (*)(void))py_set_torch_reduce, METH_FASTCALL,
     "Name torch's class of tensors and the function that reduces one to shared memory."},
    {"_set_as_ours", py_set_as_ours, METH_O, "Name the function that shows other libraries' arrays as our tensors."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_message_init(PyObject* module) {
  packed_message_type = (PyTypeObject*)PyType_FromSpec(&packed_message_spec);
  sink_type = (PyTypeObject*)PyType_FromSpec(&sink_spec);
  name_dump = PyUnicode_InternFromString("dump");
  name_clear_memo = PyUnicode_InternFromString("clear_memo");
  if (packed_message_type == NULL || sink_type == NULL || name_dump == NULL || name_clear_memo == NULL)
    return -1;
  return PyModule_AddObjectRef(module, "_PackedMessage", (PyObject*)packed_message_type);
}
