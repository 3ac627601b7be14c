/* python/ipc/named/topic.c -- _Topic, the Python object of a topic: publishing and subscribing. */
#include "ipc/topic/topic.h"

#include "api/service.h"
#include "ipc/service/open_or_make.h"
#include "python/gil.h"
#include "python/ipc/ring_object.h"
#include "python/ipc/wait_call.h"
#include "python/tensor/tensor_type.h"

static PyTypeObject* topic_type; /* owned */

typedef struct topic_object {
  PyObject_HEAD shmt__topic* topic; /* owned */
  uint32_t adopts;                  /* SHMT_PY_ADOPTS_* */
} topic_object;

/* --- operations that may wait --- */

typedef struct topic_call {
  shmt__py_wait_call base;
  shmt__topic* topic;
  const shmt__outgoing_message* message;
  shmt__received_message* received;
  bool only_local;
  shmt__ring* ring;
} topic_call;

static shmt__ring_result call_publish(shmt__py_wait_call* w, uint64_t deadline_ns) {
  topic_call* c = (topic_call*)w;
  return shmt__topic_publish(c->topic, c->message, deadline_ns);
}
static shmt__ring_result call_subscribe(shmt__py_wait_call* w, uint64_t deadline_ns) {
  topic_call* c = (topic_call*)w;
  return shmt__topic_subscribe(c->topic, c->only_local, deadline_ns, &c->ring);
}
/* An empty history is an answer, for which nobody waits. */
static shmt__ring_result call_latest(shmt__py_wait_call* w, uint64_t deadline_ns) {
  topic_call* c = (topic_call*)w;
  shmt__ring_result result = shmt__topic_latest(c->topic, deadline_ns, c->received);
  return result == SHMT_RING_EMPTY ? SHMT_RING_ALONE : result;
}

/* --- life --- */

static PyObject* wrap(shmt__topic* topic) {
  topic_object* o = PyObject_New(topic_object, topic_type);
  if (o == NULL) {
    shmt__topic_close(topic);
    return NULL;
  }
  o->topic = topic;
  o->adopts = 0;
  return (PyObject*)o;
}

/* _named_topic(service, name, depth, history, overflow, persists): service: address of a shmt_service; a negative
 * number leaves it open */
static PyObject* py_named_topic(PyObject* module, PyObject* args) {
  unsigned long long service = 0;
  const char* name = NULL;
  long long depth = 0, history = 0, overflow = 0;
  int persists = 0;
  shmt__topic* topic = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "KsLLLp", &service, &name, &depth, &history, &overflow, &persists)) return NULL;
  if (service == 0) return PyErr_Format(PyExc_ValueError, "_named_topic(): address 0");
  const shmt__topic_wish wish = {.depth = depth, .history = history, .overflow = overflow};
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status =
      shmt__named_topic_open((shmt_service*)(uintptr_t)service, name, &wish, persists != 0, &topic);
  shmt__py_gil_restore(saved);
  return status == SHMT_OK ? wrap(topic) : shmt__py_raise(status);
}

static void topic_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  shmt__topic_close(((topic_object*)self)->topic);
  type->tp_free(self);
  Py_DECREF(type);
}

/* --- publishing --- */

static bool arguments(const char* name, Py_ssize_t n, Py_ssize_t expected) {
  if (n == expected) return true;
  PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, got %zd", name, expected, n);
  return false;
}

/* pack(obj) */
static PyObject* topic_pack(PyObject* self, PyObject* obj) {
  const topic_object* o = (topic_object*)self;
  return (PyObject*)shmt__py_packed_message_of(obj, o->topic->log, o->adopts);
}

/* publish(obj, timeout, is_forwarded): obj may be what pack() has returned */
static PyObject* topic_publish(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  topic_object* o = (topic_object*)self;
  uint64_t deadline_ns;
  if (!arguments("publish", n, 3) || !shmt__py_deadline_of(args[1], &deadline_ns)) return NULL;
  shmt__py_packed_message* p = shmt__py_is_packed_message(args[0])
                                   ? (shmt__py_packed_message*)Py_NewRef(args[0])
                                   : shmt__py_packed_message_of(args[0], o->topic->log, o->adopts);
  if (p == NULL) return NULL;
  shmt__outgoing_message view = shmt__py_packed_message_view(p);
  if (args[2] == Py_True) view.flags |= SHMT_RING_FORWARDED;
  topic_call c = {.base.call = call_publish, .topic = o->topic, .message = &view};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  Py_DECREF(p);
  if (result != SHMT_RING_DONE) return shmt__py_ring_raise(result, shmt__py_full());
  Py_RETURN_NONE;
}

/* --- subscribing --- */

/* subscribe(timeout, mode, only_local): a _Ring */
static PyObject* topic_subscribe(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  topic_object* o = (topic_object*)self;
  uint64_t deadline_ns;
  uint32_t mode;
  if (!arguments("subscribe", n, 3) || !shmt__py_deadline_of(args[0], &deadline_ns) ||
      !shmt__py_ring_mode_of(args[1], &mode))
    return NULL;
  topic_call c = {.base.call = call_subscribe, .topic = o->topic, .only_local = args[2] == Py_True};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (result != SHMT_RING_DONE) return shmt__py_ring_raise(result, PyExc_TimeoutError);
  PyObject* ring = shmt__py_ring_wrap(c.ring);
  if (ring != NULL) ((shmt__py_ring*)ring)->mode = mode;
  return ring;
}

static PyObject* topic_unsubscribe(PyObject* self, PyObject* ring) {
  if (!shmt__py_is_ring(ring))
    return PyErr_Format(PyExc_TypeError, "unsubscribe(): expected a _Ring, got %s", Py_TYPE(ring)->tp_name);
  shmt__topic_unsubscribe(((topic_object*)self)->topic, ((shmt__py_ring*)ring)->ring);
  Py_RETURN_NONE;
}

/* latest(timeout, mode) */
static PyObject* topic_latest(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  topic_object* o = (topic_object*)self;
  uint64_t deadline_ns;
  uint32_t mode;
  if (!arguments("latest", n, 2) || !shmt__py_deadline_of(args[0], &deadline_ns) ||
      !shmt__py_ring_mode_of(args[1], &mode))
    return NULL;
  shmt__received_message d = {0};
  topic_call c = {.base.call = call_latest, .topic = o->topic, .received = &d};
  shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (result == SHMT_RING_ALONE) return shmt__py_ring_raise(SHMT_RING_EMPTY, shmt__py_empty());
  if (result != SHMT_RING_DONE) return shmt__py_ring_raise(result, PyExc_TimeoutError);
  PyObject* object = NULL;
  if (shmt__py_received_in_mode(&d, mode)) object = shmt__py_received_object(o->topic->log, &d);
  shmt__received_message_fini(&d);
  return object;
}

/* --- attributes --- */

static const shmt__topic* topic_of(PyObject* self) { return ((topic_object*)self)->topic; }

static PyObject* get_log(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromVoidPtr(topic_of(self)->log->storage);
}
static PyObject* get_table(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromVoidPtr(topic_of(self)->storage);
}
static PyObject* get_depth(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(shmt__topic_kind_now(topic_of(self)).depth);
}
static PyObject* get_history(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(shmt__topic_kind_now(topic_of(self)).history);
}
static PyObject* get_overflow(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromLong((long)shmt__topic_kind_now(topic_of(self)).overflow);
}
static PyObject* or_none(int64_t said) {
  if (said == SHMT_TOPIC_UNSAID) Py_RETURN_NONE;
  return PyLong_FromLongLong(said);
}
static PyObject* get_said(PyObject* self, void* unused) {
  (void)unused;
  const shmt__topic_wish said = shmt__topic_said_now(topic_of(self));
  return Py_BuildValue("NNN", or_none(said.depth), or_none(said.history), or_none(said.overflow));
}
static PyObject* get_n_subscribers(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(shmt__topic_n_subscribers(topic_of(self)));
}
static PyObject* get_n_published(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(shmt__topic_n_published(topic_of(self)));
}
static PyObject* get_adopts(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(((topic_object*)self)->adopts);
}
static int set_adopts(PyObject* self, PyObject* value, void* unused) {
  (void)unused;
  unsigned long bits = value != NULL ? PyLong_AsUnsignedLong(value) : 0;
  if (bits == (unsigned long)-1 && PyErr_Occurred()) return -1;
  ((topic_object*)self)->adopts = (uint32_t)bits;
  return 0;
}

#define FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL
static PyMethodDef topic_methods[] = {
    {"pack", topic_pack, METH_O, "pack(obj)\n--\n\nPickle into a packed message."},
    {"publish", FAST(topic_publish),
     "publish(obj, timeout, is_forwarded)\n--\n\nPickle and publish, or publish a packed message; is_forwarded: it "
     "comes from another machine."},
    {"subscribe", FAST(topic_subscribe),
     "subscribe(timeout, mode, only_local)\n--\n\nA _Ring that gets what is published, or only what is published "
     "on this machine; mode: of received storages."},
    {"unsubscribe", topic_unsubscribe, METH_O, "unsubscribe(ring)\n--\n\nThe ring gets no more."},
    {"latest", FAST(topic_latest), "latest(timeout, mode)\n--\n\nThe newest object of the history."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef topic_getset[] = {
    {"log", get_log, NULL, "Address of the storage of its log, which lives as long as the topic.", NULL},
    {"table", get_table, NULL, "The same of its table.", NULL},
    {"depth", get_depth, NULL, "Messages that a subscriber's ring takes.", NULL},
    {"history", get_history, NULL, "Messages that a late subscriber gets.", NULL},
    {"overflow", get_overflow, NULL, "0 drop_oldest, 1 block, 2 drop_newest.", NULL},
    {"said", get_said, NULL, "Depth, history and overflow; None: nobody has said it.", NULL},
    {"n_subscribers", get_n_subscribers, NULL, "Subscribers; those killed just now may count.", NULL},
    {"n_published", get_n_published, NULL, "Messages that were ever published.", NULL},
    {"adopts", get_adopts, set_adopts, "As of a _Ring.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot topic_slots[] = {
    {Py_tp_dealloc, (void*)topic_dealloc},
    {Py_tp_methods, topic_methods},
    {Py_tp_getset, topic_getset},
    {Py_tp_doc, (void*)"A topic in shared memory: every subscriber gets every message."},
    {0, NULL},
};
static PyType_Spec topic_spec = {.name = "shmtensor._C._Topic",
                                 .basicsize = sizeof(topic_object),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = topic_slots};
static PyMethodDef topic_functions[] = {
    {"_named_topic", py_named_topic, METH_VARARGS,
     "_named_topic(service, name, depth, history, overflow, persists)\n--\n\nThe topic of a name, made if need be."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_topic_init(PyObject* module) {
  topic_type = (PyTypeObject*)PyType_FromSpec(&topic_spec);
  if (topic_type == NULL || PyModule_AddObjectRef(module, "_Topic", (PyObject*)topic_type) < 0) return -1;
  return PyModule_AddFunctions(module, topic_functions);
}
