/* python/ipc/message.c -- turns Python objects into the messages of rings, and back. */
#include "python/ipc/message.h"

#include "ipc/session/session.h"
#include "ipc/handle/share.h"
#include "python/gil.h"
#include "python/ipc/plain_objects.h"
#include "python/ipc/share.h"
#include "python/ipc/to_send.h"
#include "python/tensor/construct.h"
#include "python/tensor/tensor_type.h"

#include <inttypes.h>
#include <string.h>

enum {
  IS_STORAGE = 0xff,
  IDLE_PICKLERS = 4,
};

typedef struct record {
  uint32_t storage; /* index */
  uint8_t dtype;    /* or IS_STORAGE */
  uint8_t n_dims;
  uint16_t bits;  /* SHMT_TENSOR_CONJ_NEG of the tensor's flags */
  int64_t offset; /* then the sizes and the strides */
} record;
_Static_assert(sizeof(record) == 16, "records travel as bytes");

typedef struct message_head {
  uint32_t n_records; /* bytes */
  uint32_t is_quick;  /* what follows is python/ipc/plain_objects.h's, else a pickle */
} message_head;

/* The file that a pickler writes to. */
typedef struct sink {
  PyObject_HEAD
  shmt__py_packed_message* message; /* borrowed; NULL while idle */
} sink;

/* Picklers are kept for reuse: making one costs more than a small message. */
typedef struct idle_pickler {
  PyObject* pickler;
  sink* sink;
} idle_pickler;

static PyTypeObject *packed_message_type, *sink_type; /* owned */
static struct {
  PyObject *pickler_class, *reducers, *loads, *empty, *full, *own_reducers; /* owned */
  PyObject *reduce_array, *torch_tensor, *reduce_torch;                     /* owned; may be NULL */
} registered;
static idle_pickler idle[IDLE_PICKLERS]; /* guarded by the interpreter's lock */
static unsigned n_idle;
static PyObject *name_dump, *name_clear_memo; /* owned */

/* What is being pickled and unpickled in this thread. */
typedef struct incoming {
  shmt_storage* const* storages;
  uint32_t n_storages;
  const char* records;
  uint32_t n_records;
} incoming;
static _Thread_local shmt__py_packed_message* outgoing;
static _Thread_local const incoming* current;

PyObject* shmt__py_empty(void) { return registered.empty; }
PyObject* shmt__py_full(void) { return registered.full; }

/* --- bytes and lists --- */

bool shmt__py_bytes_append(shmt__py_bytes* b, const void* data, size_t nbytes) {
  if (nbytes > b->cap - b->len) {
    size_t cap = b->cap ? b->cap * 2 : 256;
    while (cap < b->len + nbytes) cap *= 2;
    char* at = PyMem_Realloc(b->at, cap);
    if (at == NULL) {
      PyErr_NoMemory();
      return false;
    }
    b->at = at;
    b->cap = cap;
  }
  memcpy(b->at + b->len, data, nbytes);
  b->len += nbytes;
  return true;
}

/* Retains s. */
static bool append_storage(shmt__py_packed_message* p, shmt_storage* s) {
  if (p->n_storages == p->storages_cap) {
    uint32_t cap = p->storages_cap ? p->storages_cap * 2 : 4;
    shmt_storage** grown = PyMem_Realloc(p->storages, sizeof *grown * cap);
    if (grown == NULL) {
      PyErr_NoMemory();
      return false;
    }
    p->storages = grown;
    p->storages_cap = cap;
  }
  shmt__storage_retain(s);
  p->storages[p->n_storages++] = s;
  return true;
}

/* --- the packed message type --- */

static void packed_message_dealloc(PyObject* self) {
  shmt__py_packed_message* p = (shmt__py_packed_message*)self;
  PyTypeObject* type = Py_TYPE(self);
  for (uint32_t i = 0; i < p->n_storages; i++) shmt__storage_release(p->storages[i]);
  PyMem_Free(p->storages);
  PyMem_Free(p->records.at);
  PyMem_Free(p->pickle.at);
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
  if (s->message == NULL)
    return PyErr_Format(PyExc_ValueError, "write to the file of a message that is finished");
  if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) return NULL;
  bool good = shmt__py_bytes_append(&s->message->pickle, view.buf, (size_t)view.len);
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

bool shmt__py_packed_message_suspend(void) {
  bool was = outgoing != NULL && outgoing->is_reducing;
  if (was) outgoing->is_reducing = false;
  return was;
}
void shmt__py_packed_message_resume(bool state) {
  if (outgoing != NULL) outgoing->is_reducing = state;
}

/* Can the list take the storage, now that it is shared? */
static bool takes(const shmt__py_packed_message* p, const shmt_storage* s) {
  if (p->n_storages + 1 >= SHMT_RING_MAX_BLOCKS) return false; /* one is reserved for the data */
  if (s->nbytes == 0) return true;
  if (s->allocator != &shmt__allocator_managed || s->flags & SHMT_STORAGE_READ_ONLY) return false;
  const shmt__held_block* h = s->ctx;
  return (p->session == NULL || h->session == p->session) && h->generation != 0;
}

/* The index of a new record. -1: the list cannot take it, -2: out of memory, MemoryError is set. */
static int64_t add_record(shmt__py_packed_message* p, shmt_storage* s, const shmt_tensor* t) {
  if (!takes(p, s)) return -1;
  record r = {.storage = p->n_storages, .dtype = IS_STORAGE};
  int64_t place = (int64_t)(p->records.len - sizeof(message_head));
  bool good;
  if (t != NULL) {
    size_t dims = sizeof(int64_t) * t->n_dims;
    r.dtype = (uint8_t)t->dtype;
    r.n_dims = t->n_dims;
    r.bits = (uint16_t)(t->flags & SHMT_TENSOR_CONJ_NEG);
    r.offset = t->offset;
    good = shmt__py_bytes_append(&p->records, &r, sizeof r) &&
           shmt__py_bytes_append(&p->records, t->sizes, dims) &&
           shmt__py_bytes_append(&p->records, t->strides, dims);
  } else {
    good = shmt__py_bytes_append(&p->records, &r, sizeof r);
  }
  return good && append_storage(p, s) ? place : -2;
}

int64_t shmt__py_packed_message_add_plain(shmt__py_packed_message* p, PyObject* tensor) {
  const shmt_tensor* t = shmt__py_tensor(tensor);
  SHMT_AUTO(shmt_storage) s = NULL;
  shmt_status status = shmt__py_storage_to_send(t->storage, &s);
  if (status == SHMT_OK) return add_record(p, s, t);
  (void)shmt__py_raise(status);
  return -2;
}

int64_t shmt__py_packed_message_add_tensor(const shmt_tensor* t, shmt_storage* s) {
  return outgoing != NULL && outgoing->is_reducing ? add_record(outgoing, s, t) : -1;
}

int64_t shmt__py_packed_message_add_storage(shmt_storage* s) {
  return outgoing != NULL && outgoing->is_reducing ? add_record(outgoing, s, NULL) : -1;
}

/* Call a reduction. Our own reductions may add to the list. */
static PyObject* call_reducer(PyObject* reducer, PyObject* o) {
  shmt__py_packed_message* p = outgoing;
  int ours = PySet_Contains(registered.own_reducers, reducer);
  if (ours < 0) return NULL;
  bool was = p->is_reducing;
  p->is_reducing = ours != 0;
  PyObject* result = PyObject_CallOneArg(reducer, o);
  p->is_reducing = was;
  return result;
}

/* An array, and of no subclass. */
static bool is_plain_array(PyObject* o) {
  return strcmp(Py_TYPE(o)->tp_name, "numpy.ndarray") == 0 && shmt__py_is_numpy_array(o);
}

/* The pickler's hook, which it calls for everything but the plain built-in types. */
static PyObject* py_reduce_for_message(PyObject* module, PyObject* o) {
  shmt__py_packed_message* p = outgoing;
  (void)module;
  if (p == NULL || PyType_Check(o) || PyFunction_Check(o)) Py_RETURN_NOTIMPLEMENTED;
  if (Py_TYPE(o) == shmt__py_tensor_type) {
    p->is_reducing = true;
    PyObject* result = shmt__py_reduce_tensor(o);
    p->is_reducing = false;
    return result;
  }
  if ((p->adopts & SHMT_PY_ADOPTS_NUMPY) && registered.reduce_array != NULL && is_plain_array(o))
    return call_reducer(registered.reduce_array, o);
  if ((p->adopts & SHMT_PY_ADOPTS_TORCH) && (PyObject*)Py_TYPE(o) == registered.torch_tensor)
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
  s->message = NULL;
  PyObject* pickler = PyObject_CallOneArg(registered.pickler_class, (PyObject*)s);
  if (pickler == NULL) {
    Py_DECREF(s);
    return false;
  }
  *out = (idle_pickler){pickler, s};
  return true;
}

static void give_pickler(idle_pickler k, bool is_good) {
  k.sink->message = NULL;
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

static bool run_pickler(shmt__py_packed_message* p, PyObject* o) {
  idle_pickler k;
  if (!take_pickler(&k)) return false;
  shmt__py_packed_message* outer = outgoing;
  outgoing = p;
  k.sink->message = p;
  PyObject* done = PyObject_CallMethodOneArg(k.pickler, name_dump, o);
  outgoing = outer;
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
  size_t nbytes = p->records.len + p->pickle.len;
  shmt_storage* s = NULL;
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status = shmt__storage_create_shared(nbytes, SHMT_SHARING_FILE_SYSTEM, &s);
  if (status == SHMT_OK) {
    memcpy(s->data, p->records.at, p->records.len);
    memcpy((char*)s->data + p->records.len, p->pickle.at, p->pickle.len);
  }
  shmt__py_gil_restore(saved);
  if (status != SHMT_OK) {
    (void)shmt__py_raise(status);
    return false;
  }
  bool good = append_storage(p, s);
  shmt__storage_release(s);
  if (!good) return false;
  p->flags = SHMT_RING_SPILLED;
  PyMem_Free(p->pickle.at);
  p->pickle = (shmt__py_bytes){0};
  return true;
}

/* Make an empty message. set_head writes its head at the end. */
static shmt__py_packed_message* new_packed_message(const struct shmt__session* session) {
  shmt__py_packed_message* p = PyObject_New(shmt__py_packed_message, packed_message_type);
  message_head head = {0};
  if (p == NULL) return NULL;
  memset((char*)p + sizeof(PyObject), 0, sizeof *p - sizeof(PyObject));
  p->session = session;
  if (shmt__py_bytes_append(&p->records, &head, sizeof head)) return p;
  Py_DECREF(p);
  return NULL;
}

static void set_head(shmt__py_packed_message* p, bool is_quick) {
  message_head head = {(uint32_t)(p->records.len - sizeof head), is_quick};
  memcpy(p->records.at, &head, sizeof head);
}

shmt__py_packed_message* shmt__py_packed_message_of(PyObject* o, const shmt__ring* r, uint32_t adopts) {
  shmt__py_packed_message* p = new_packed_message(r->session);
  if (p == NULL) return NULL;
  p->adopts = adopts;
  shmt__py_copies copies;
  shmt__py_copies_begin(&copies);
  shmt__py_quick quick = shmt__py_quick_write(p, o);
  bool is_packed = quick == SHMT_PY_QUICK_DONE || (quick == SHMT_PY_QUICK_NOT_PLAIN && run_pickler(p, o));
  shmt__py_copies_end(&copies);
  if (is_packed) {
    set_head(p, quick == SHMT_PY_QUICK_DONE);
    if (p->records.len + p->pickle.len <= SHMT_RING_INLINE || spill(p)) return p;
  }
  Py_DECREF(p);
  return NULL;
}

shmt__py_packed_message* shmt__py_packed_message_of_plain(PyObject* o) {
  shmt__py_packed_message* p = new_packed_message(NULL);
  shmt__py_copies copies;
  if (p == NULL) return NULL;
  shmt__py_copies_begin(&copies);
  shmt__py_quick quick = shmt__py_quick_write(p, o);
  shmt__py_copies_end(&copies);
  if (quick == SHMT_PY_QUICK_DONE) {
    set_head(p, true);
    return p;
  }
  Py_DECREF(p);
  return NULL;
}

shmt__outgoing_message shmt__py_packed_message_view(const shmt__py_packed_message* p) {
  shmt__outgoing_message view = {
      .storages = p->storages, .n_storages = p->n_storages, .flags = p->flags};
  if (p->flags & SHMT_RING_SPILLED) return view;
  view.parts[0] = p->records.at;
  view.part_bytes[0] = (uint32_t)p->records.len;
  view.parts[1] = p->pickle.at;
  view.part_bytes[1] = (uint32_t)p->pickle.len;
  return view;
}

/* --- unpickling --- */

/* The record of this index, checked against the bounds of the message. */
static shmt_status find_record(int64_t place, record* out, int64_t* dims) {
  const incoming* in = current;
  SHMT_REQUIRE(in != NULL, SHMT_E_HANDLE,
               "record %" PRId64 " of a message outside of the message", place);
  SHMT_REQUIRE(place >= 0 && (uint64_t)place + sizeof *out <= in->n_records, SHMT_E_HANDLE,
               "a message with %" PRIu32 " bytes of records names place %" PRId64, in->n_records,
               place);
  memcpy(out, in->records + place, sizeof *out);
  size_t n = 2 * sizeof(int64_t) * out->n_dims;
  SHMT_REQUIRE(out->storage < in->n_storages && out->n_dims <= SHMT_MAX_DIMS &&
                   (uint64_t)place + sizeof *out + n <= in->n_records,
               SHMT_E_HANDLE,
               "a damaged record of a message: storage %" PRIu32 " of %" PRIu32 ", %u dimensions",
               out->storage, in->n_storages, out->n_dims);
  if (dims != NULL) memcpy(dims, in->records + place + sizeof *out, n);
  return SHMT_OK;
}

shmt_status shmt__py_received_tensor(int64_t place, shmt_tensor** out) {
  int64_t dims[2 * SHMT_MAX_DIMS];
  record r;
  SHMT_TRY(find_record(place, &r, dims));
  SHMT_REQUIRE(r.dtype < SHMT_N_DTYPES && shmt__conj_neg_bits_fit(r.dtype, r.bits), SHMT_E_HANDLE,
               "place %" PRId64 " of a message is no tensor: dtype %u, bits %#x", place, r.dtype,
               (unsigned)r.bits);
  int64_t n = r.n_dims;
  for (int64_t i = 0; i < 2 * n; i++)
    SHMT_REQUIRE(dims[i] >= 0, SHMT_E_HANDLE, "a tensor of a message with %s %" PRId64,
                 i < n ? "a size of" : "a stride of", dims[i]);
  SHMT_TRY(shmt__tensor_from_storage(current->storages[r.storage], (shmt_ints){dims, n},
                                     (shmt_ints){dims + n, n}, r.offset, r.dtype, out));
  shmt__tensor_set_conj_neg(*out, r.bits);
  return SHMT_OK;
}

shmt_status shmt__py_received_storage(int64_t place, shmt_storage** out) {
  record r;
  SHMT_TRY(find_record(place, &r, NULL));
  *out = current->storages[r.storage];
  shmt__storage_retain(*out);
  return SHMT_OK;
}

PyObject* shmt__py_message_object(shmt_storage* const* storages, uint32_t n_storages,
                                  const char* data, uint64_t nbytes) {
  message_head head = {0};
  if (nbytes >= sizeof head) memcpy(&head, data, sizeof head);
  if (nbytes < sizeof head || head.n_records > nbytes - sizeof head)
    return shmt__py_raise(shmt__fail(SHMT_E_HANDLE, "a damaged message of %" PRIu64 " bytes",
                                     nbytes));
  incoming in = {storages, n_storages, data + sizeof head, head.n_records};
  const incoming* outer = current;
  uint64_t at = sizeof head + head.n_records;
  PyObject* result = NULL;
  current = &in;
  if (head.is_quick) {
    result = shmt__py_quick_read(data + at, nbytes - at);
  } else {
    /* Nothing that is unpickled refers to these bytes afterwards. */
    PyObject* view =
        PyMemoryView_FromMemory((char*)data + at, (Py_ssize_t)(nbytes - at), PyBUF_READ);
    if (view != NULL) result = PyObject_CallOneArg(registered.loads, view);
    Py_XDECREF(view);
  }
  current = outer;
  return result;
}

PyObject* shmt__py_received_object(const shmt__received_message* d) {
  const char* data = d->data;
  uint64_t nbytes = d->nbytes;
  uint32_t n_storages = d->n_storages;
  if (d->flags & SHMT_RING_SPILLED && n_storages > 0) {
    data = d->storages[--n_storages]->data;
    nbytes = d->storages[n_storages]->nbytes;
  }
  return shmt__py_message_object(d->storages, n_storages, data, nbytes);
}

/* --- the module's part --- */

/* _set_messages(pickler_class, reducers, loads, empty, full, own_reducers) */
static PyObject* py_set_messages(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  PyObject** slots[] = {&registered.pickler_class, &registered.reducers, &registered.loads,
                        &registered.empty,         &registered.full,     &registered.own_reducers};
  (void)module;
  if (n != 6 || !PyDict_Check(args[1]) || !PyAnySet_Check(args[5]))
    return PyErr_Format(PyExc_TypeError,
                        "_set_messages(): expected a class, a dict, a function, two exceptions "
                        "and a set, got %zd arguments",
                        n);
  for (int i = 0; i < 6; i++) Py_XSETREF(*slots[i], Py_NewRef(args[i]));
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

PyMethodDef shmt__py_message_functions[] = {
    {"_reduce_for_message", py_reduce_for_message, METH_O,
     "The reducer_override of the pickler for rings."},
    {"_set_messages", (PyCFunction)(void (*)(void))py_set_messages, METH_FASTCALL,
     "Name the pickler class and what goes with it."},
    {"_set_array_reduce", py_set_array_reduce, METH_O,
     "Name the function that reduces a NumPy array to shared memory."},
    {"_set_torch_reduce", (PyCFunction)(void (*)(void))py_set_torch_reduce, METH_FASTCALL,
     "Name torch's class of tensors and the function that reduces one to shared memory."},
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
