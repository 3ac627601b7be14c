/* python/ipc/pipes/task_sender.c -- _TaskSender, which gives tasks to one worker of a pool.
 *
 * It never waits, and keeps the interpreter lock: Note [A task is given in one call]. Its caller has the pool's lock.
 */
#include "python/ipc/pipes/task_sender.h"

#include "ipc/handle/lease_channel.h"
#include "python/values/descriptor.h"

#include <errno.h>
#include <sys/socket.h>

typedef struct task_sender {
  PyObject_HEAD
  shmt__py_descriptor* socket; /* owned */
  uint64_t channel;            /* what it leads to, once a lease has asked; else 0 */
  PyObject* task;              /* owned; NULL: the worker has none */
  Py_buffer message;           /* not written yet, or not whole; obj is NULL: none */
  unsigned char head[SHMT_PY_MESSAGE_HEAD];
  size_t n_head, n_written; /* of head and message */
} task_sender;

/* --- life --- */

static PyObject* sender_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* socket = NULL;
  if (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0)
    return PyErr_Format(PyExc_TypeError, "_TaskSender takes no keyword arguments");
  if (!PyArg_ParseTuple(args, "O!:_TaskSender", shmt__py_descriptor_type, &socket)) return NULL;
  task_sender* o = (task_sender*)type->tp_alloc(type, 0);
  if (o != NULL) o->socket = (shmt__py_descriptor*)Py_NewRef(socket);
  return (PyObject*)o;
}

static int sender_traverse(PyObject* self, visitproc visit, void* arg) {
  task_sender* o = (task_sender*)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(o->task);
  return 0;
}

static int sender_clear(PyObject* self) {
  Py_CLEAR(((task_sender*)self)->task);
  return 0;
}

static void drop_message(task_sender* o) {
  Py_buffer message = o->message;
  o->message.obj = NULL;
  if (message.obj != NULL) PyBuffer_Release(&message);
}

static void sender_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  task_sender* o = (task_sender*)self;
  PyObject_GC_UnTrack(self);
  drop_message(o);
  Py_XDECREF(o->task);
  Py_XDECREF(o->socket);
  type->tp_free(self);
  Py_DECREF(type);
}

/* --- sending --- */

/* Write what fits. Without a reader the message is dropped: the worker has ended, which its pool will notice. */
static void write_message(task_sender* o) {
  const int fd = shmt__descriptor_number(&o->socket->kept);
  while (o->message.obj != NULL) {
    const size_t in_head = o->n_written < o->n_head ? o->n_written : o->n_head, in_body = o->n_written - in_head;
    struct iovec parts[2] = {{o->head + in_head, o->n_head - in_head},
                             {(char*)o->message.buf + in_body, (size_t)o->message.len - in_body}};
    const struct msghdr rest = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n = sendmsg(fd, &rest, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) return;
    if (n >= 0) o->n_written += (size_t)n;
    if (n < 0 || o->n_written == o->n_head + (size_t)o->message.len) drop_message(o);
  }
}

/* begin(task, message) */
static PyObject* sender_begin(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  task_sender* o = (task_sender*)self;
  if (n != 2) return PyErr_Format(PyExc_TypeError, "begin() takes 2 arguments (%zd given)", n);
  if (o->task != NULL || o->message.obj != NULL) Py_RETURN_FALSE;
  if (PyObject_GetBuffer(args[1], &o->message, PyBUF_SIMPLE) < 0) return NULL;
  o->task = Py_NewRef(args[0]);
  o->n_head = shmt__py_message_head((uint64_t)o->message.len, o->head);
  o->n_written = 0;
  if (shmt__sent_messages_are_tracked())
    (void)shmt__sent_message_bind(shmt__descriptor_number(&o->socket->kept), o->message.buf, (size_t)o->message.len,
                                  false, &o->channel);
  write_message(o);
  Py_RETURN_TRUE;
}

static PyObject* sender_flush(PyObject* self, PyObject* unused) {
  task_sender* o = (task_sender*)self;
  (void)unused;
  write_message(o);
  return PyBool_FromLong(o->message.obj == NULL);
}

static PyObject* sender_end(PyObject* self, PyObject* unused) {
  task_sender* o = (task_sender*)self;
  PyObject* task = o->task;
  (void)unused;
  o->task = NULL;
  return task != NULL ? task : Py_NewRef(Py_None);
}

static PyObject* sender_drop(PyObject* self, PyObject* unused) {
  (void)unused;
  drop_message((task_sender*)self);
  Py_RETURN_NONE;
}

static PyObject* get_is_busy(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(((task_sender*)self)->task != NULL);
}

static PyObject* get_has_unsent(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(((task_sender*)self)->message.obj != NULL);
}

static PyMethodDef sender_methods[] = {
    {"begin", (PyCFunction)(void (*)(void))sender_begin, METH_FASTCALL,
     "begin($self, task, message, /)\n--\n\nGive the worker a task, and send its message as far as that goes without "
     "waiting.\n\nReturns False, and does nothing, if it has one. See `has_unsent`."},
    {"end", sender_end, METH_NOARGS,
     "end($self)\n--\n\nThe worker has done its task, which is returned; None: it had none."},
    {"flush", sender_flush, METH_NOARGS,
     "flush($self)\n--\n\nSend more of the message. Returns whether all of it was sent."},
    {"drop", sender_drop, METH_NOARGS, "drop($self)\n--\n\nForget what was not sent."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef sender_getset[] = {
    {"is_busy", get_is_busy, NULL, "Whether the worker has a task.", NULL},
    {"has_unsent", get_has_unsent, NULL, "Whether there is more for `flush` to send.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot sender_slots[] = {
    {Py_tp_new, (void*)sender_new},
    {Py_tp_dealloc, (void*)sender_dealloc},
    {Py_tp_traverse, (void*)sender_traverse},
    {Py_tp_clear, (void*)sender_clear},
    {Py_tp_methods, sender_methods},
    {Py_tp_getset, sender_getset},
    {Py_tp_doc, (void*)"_TaskSender(socket, /)\n--\n\nGives tasks to one worker of a pool, over the pool's socket."},
    {0, NULL},
};
static PyType_Spec sender_spec = {.name = "shmtensor._C._TaskSender",
                                  .basicsize = sizeof(task_sender),
                                  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                  .slots = sender_slots};

int shmt__py_task_sender_init(PyObject* module) {
  PyObject* type = PyType_FromSpec(&sender_spec);
  int status = type == NULL ? -1 : PyModule_AddObjectRef(module, "_TaskSender", type);
  Py_XDECREF(type);
  return status;
}
