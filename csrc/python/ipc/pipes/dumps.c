/* python/ipc/pipes/dumps.c -- pickles messages of plain objects and tensors for the standard library's queues
 * and pipes. */
#include "python/ipc/pipes/dumps.h"

#include "ipc/handle/export.h"
#include "ipc/handle/import.h"
#include "ipc/handle/lease_channel.h"
#include "ipc/handle/unsent_leases.h"
#include "python/ipc/share.h"
#include "python/ipc/pipes/task_sender.h"
#include "python/tensor/tensor_type.h"

#include <string.h>

/* How far to search a message for tensors. The pickler handles messages without any, and must not be slowed down. */
enum { FIRST_ITEMS = 4, ITEM_DEPTH = 3 };

typedef struct packed_head {
  uint32_t check, n_storages;
} packed_head;

/* The pickle of a call of _rebuild_message with bytes, in two parts, as the pickler would write it. */
static const char BEFORE[] =
    "\x80\x04\x8c\x0cshmtensor._C\x8c\x10_rebuild_message\x93"
    "B"; /* the number of bytes, the bytes */
static const char AFTER[] = "\x85R.";
enum { N_BEFORE = sizeof BEFORE - 1, N_AFTER = sizeof AFTER - 1, CHECKED_FROM = 4 };

/* --- writing --- */

/* Is there a tensor among the first items, or among the first items of these? */
static bool has_tensor(PyObject* o, int depth) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == shmt__py_tensor_type) return true;
  if (depth == ITEM_DEPTH) return false;
  if (type == &PyDict_Type) {
    Py_ssize_t position = 0;
    PyObject* value = NULL;
    for (int i = 0; i < FIRST_ITEMS && PyDict_Next(o, &position, NULL, &value); i++)
      if (has_tensor(value, depth + 1)) return true;
    return false;
  }
  if (type != &PyTuple_Type && type != &PyList_Type) return false;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  PyObject** items = PySequence_Fast_ITEMS(o);
  for (Py_ssize_t i = 0; i < n && i < FIRST_ITEMS; i++)
    if (has_tensor(items[i], depth + 1)) return true;
  return false;
}

/* New reference, NULL with an exception. */
static PyObject* pickle_of(const shmt__py_message_writer* w, size_t n_handles) {
  size_t n_message = w->records.len + w->pickle.len;
  uint32_t nbytes = (uint32_t)(sizeof(packed_head) + n_handles + n_message);
  PyObject* result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(N_BEFORE + sizeof nbytes + nbytes + N_AFTER));
  if (result == NULL) return NULL;
  char* at = PyBytes_AS_STRING(result);
  memcpy(at, BEFORE, N_BEFORE);
  memcpy(at + N_BEFORE, &nbytes, sizeof nbytes);
  char* packed = at + N_BEFORE + sizeof nbytes;
  char* message = packed + sizeof(packed_head) + n_handles;
  packed_head head = {.n_storages = w->n_storages};
  uint64_t secret = 0;
  shmt_status status = shmt__storages_export(w->storages, w->n_storages, packed + sizeof head, &secret);
  if (status != SHMT_OK) {
    Py_DECREF(result);
    return shmt__py_raise(status);
  }
  memcpy(message, w->records.at, w->records.len);
  memcpy(message + w->records.len, w->pickle.at, w->pickle.len);
  memcpy(packed, &head, sizeof head);
  head.check = shmt__handle_checksum(secret, packed + CHECKED_FROM, nbytes - CHECKED_FROM);
  memcpy(packed, &head, sizeof head);
  memcpy(packed + nbytes, AFTER, N_AFTER);
  return result;
}

static PyObject* py_dumps(PyObject* module, PyObject* o) {
  (void)module;
  if (!has_tensor(o, 0)) Py_RETURN_NONE;
  shmt__py_packed_message* p = shmt__py_packed_message_of_plain(o);
  if (p == NULL && PyErr_Occurred()) return NULL;
  if (p == NULL) Py_RETURN_NONE;
  PyObject* result = NULL;
  const shmt__py_message_writer* w = &p->writer;
  size_t n_handles = sizeof(shmt__handle) * w->n_storages;
  if (w->records.len + w->pickle.len > UINT32_MAX - n_handles - sizeof(packed_head))
    result = Py_NewRef(Py_None);
  else
    result = pickle_of(w, n_handles);
  Py_DECREF(p);
  return result;
}

/* The channel that a connection remembers, or 0. */
static uint64_t channel_of(PyObject* connection, PyObject* name) {
  PyObject* known = PyObject_GetAttr(connection, name);
  uint64_t channel = known != NULL && PyLong_Check(known) ? PyLong_AsUnsignedLongLong(known) : 0;
  Py_XDECREF(known);
  if (!PyErr_Occurred()) return channel;
  PyErr_Clear();
  return 0;
}

static void remember_channel(PyObject* connection, PyObject* name, uint64_t channel) {
  PyObject* number = PyLong_FromUnsignedLongLong(channel);
  if (number == NULL || PyObject_SetAttr(connection, name, number) < 0) PyErr_Clear();
  Py_XDECREF(number);
}

/* Tell the leases of a message through which connection it is about to be written. Returns 1: it has leases, 0: it has
 * none, -1: an exception. is_sending: they are confirmed when it is written. */
static int bind(PyObject* connection, const Py_buffer* message, bool is_sending) {
  static PyObject* name;
  if (!shmt__sent_messages_are_tracked()) return 0;
  if (name == NULL && (name = PyUnicode_InternFromString("_shmtensor_channel")) == NULL) return -1;
  const uint64_t known = channel_of(connection, name);
  uint64_t channel = known;
  int fd = known != 0 ? -1 : PyObject_AsFileDescriptor(connection);
  if (known == 0 && fd < 0) return -1;
  bool any = shmt__sent_message_bind(fd, message->buf, (size_t)message->len, is_sending, &channel);
  if (channel != known) remember_channel(connection, name, channel);
  return any;
}

/* The same, for the arguments (connection, message) of a function. */
static int bind_arguments(const char* caller, PyObject* const* args, Py_ssize_t n, bool is_sending) {
  Py_buffer message;
  if (n != 2) {
    PyErr_Format(PyExc_TypeError, "%s: 2 arguments expected, got %zd", caller, n);
    return -1;
  }
  if (PyObject_GetBuffer(args[1], &message, PyBUF_SIMPLE) < 0) return -1;
  int any = bind(args[0], &message, is_sending);
  PyBuffer_Release(&message);
  return any;
}

static PyObject* py_bind(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  if (bind_arguments("_bind_message", args, n, false) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject* py_begin_send(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  int any = bind_arguments("_begin_send", args, n, true);
  return any < 0 ? NULL : PyBool_FromLong(any);
}

static PyObject* py_end_send(PyObject* module, PyObject* o) {
  Py_buffer bytes;
  (void)module;
  if (PyObject_GetBuffer(o, &bytes, PyBUF_SIMPLE) < 0) return NULL;
  shmt__sent_message_confirm(bytes.buf, (size_t)bytes.len);
  PyBuffer_Release(&bytes);
  Py_RETURN_NONE;
}

/* Call a function that pickles a message, or, sends: that also sends the one that it pickles first. If it raises, the
 * leases of the message end; in Python code there would be a moment between the two. */
static PyObject* call_tracked(PyObject* const* args, Py_ssize_t n, bool sends) {
  if (n < 1) return PyErr_Format(PyExc_TypeError, "a function expected");
  shmt__unsent_mark mark = shmt__unsent_begin(sends);
  PyObject* result = PyObject_Vectorcall(args[0], args + 1, (size_t)(n - 1), NULL);
  if (result != NULL && !sends && PyErr_CheckSignals() < 0) Py_CLEAR(result); /* what was sent stays sent */
  shmt__unsent_end(mark, result != NULL ? SHMT_UNSENT_COMPLETE : SHMT_UNSENT_GIVEN_UP);
  return result;
}

static PyObject* py_call_tracked(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  return call_tracked(args, n, false);
}

static PyObject* py_call_sending(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  return call_tracked(args, n, true);
}

/* --- sending --- */

enum { ALONE_FROM = 16385 };

/* The length before a message as the standard library writes it, and behind it the message if that is short. */
static PyObject* head_of(const Py_buffer* message) {
  unsigned char head[SHMT_PY_MESSAGE_HEAD];
  const size_t n = (size_t)message->len, n_head = shmt__py_message_head(n, head), n_body = n < ALONE_FROM ? n : 0;
  PyObject* bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n_head + n_body));
  if (bytes == NULL) return NULL;
  memcpy(PyBytes_AS_STRING(bytes), head, n_head);
  memcpy(PyBytes_AS_STRING(bytes) + n_head, message->buf, n_body);
  return bytes;
}

/* Write all bytes of an object. *begun: some were written. Returns false with what `write` raised. */
static bool write_all(PyObject* write, PyObject* fd, PyObject* bytes, bool* begun) {
  Py_buffer view;
  if (PyObject_GetBuffer(bytes, &view, PyBUF_SIMPLE) < 0) return false;
  Py_ssize_t at = 0;
  while (at < view.len) {
    PyObject* rest =
        at == 0 ? Py_NewRef(bytes) : PyMemoryView_FromMemory((char*)view.buf + at, view.len - at, PyBUF_READ);
    PyObject* n = rest != NULL ? PyObject_CallFunctionObjArgs(write, fd, rest, NULL) : NULL;
    Py_ssize_t n_written = n != NULL ? PyLong_AsSsize_t(n) : -1;
    Py_XDECREF(rest);
    Py_XDECREF(n);
    if (PyErr_Occurred()) break;
    if (n_written < 0 || n_written > view.len - at) { /* `write` may be somebody else's */
      PyErr_Format(PyExc_OSError, "write says that it wrote %zd of %zd bytes", n_written, view.len - at);
      break;
    }
    *begun = *begun || n_written > 0;
    at += n_written;
  }
  bool done = at == view.len;
  PyBuffer_Release(&view);
  return done;
}

/* Write a pickled message to a connection, after its leases were told of it. */
static bool write_message(PyObject* connection, PyObject* pickled, PyObject* write, bool* begun) {
  Py_buffer message;
  if (PyObject_GetBuffer(pickled, &message, PyBUF_SIMPLE) < 0) return false;
  PyObject* head = head_of(&message);
  PyObject* fd = PyLong_FromLong(PyObject_AsFileDescriptor(connection));
  int leases = head != NULL && fd != NULL && !PyErr_Occurred() ? bind(connection, &message, true) : -1;
  bool done = leases >= 0 && write_all(write, fd, head, begun) &&
              (message.len < ALONE_FROM || write_all(write, fd, pickled, begun));
  if (*begun && leases > 0) shmt__sent_message_confirm(message.buf, (size_t)message.len);
  Py_XDECREF(head);
  Py_XDECREF(fd);
  PyBuffer_Release(&message);
  return done;
}

/* _send_message(connection, obj, dumps, write): pickle and write a message. If nothing of it was written, its leases
 * end. */
static PyObject* py_send(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  if (n != 4) return PyErr_Format(PyExc_TypeError, "_send_message: 4 arguments expected, got %zd", n);
  bool begun = false;
  shmt__unsent_mark mark = shmt__unsent_begin(true);
  PyObject* pickled = PyObject_CallOneArg(args[2], args[1]);
  bool done = pickled != NULL && write_message(args[0], pickled, args[3], &begun);
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  shmt__unsent_end(mark, begun ? SHMT_UNSENT_WRITTEN : SHMT_UNSENT_GIVEN_UP);
  Py_XDECREF(pickled);
  PyErr_Restore(type, value, trace);
  if (!done) return NULL;
  Py_RETURN_NONE;
}

/* --- reading --- */

static PyObject* py_rebuild_message(PyObject* module, PyObject* o) {
  char* packed = NULL;
  Py_ssize_t length = 0;
  packed_head head;
  (void)module;
  if (PyBytes_AsStringAndSize(o, &packed, &length) < 0) return NULL;
  size_t nbytes = (size_t)length;
  if (nbytes >= sizeof head) memcpy(&head, packed, sizeof head);
  if (nbytes < sizeof head || head.n_storages == 0 || head.n_storages > (nbytes - sizeof head) / sizeof(shmt__handle))
    return shmt__py_raise(shmt__fail(SHMT_E_HANDLE, "a damaged message of %zu bytes with tensors", nbytes));
  shmt_storage** storages = PyMem_Malloc(sizeof *storages * head.n_storages);
  if (storages == NULL) return PyErr_NoMemory();
  const shmt__checked_bytes beside = {packed + CHECKED_FROM, nbytes - CHECKED_FROM, head.check};
  shmt_status status = shmt__storages_import(packed + sizeof head, head.n_storages, &beside, storages);
  if (status != SHMT_OK) {
    PyMem_Free(storages);
    return shmt__py_raise(status);
  }
  size_t at = sizeof head + sizeof(shmt__handle) * head.n_storages;
  PyObject* result = shmt__py_message_object(storages, head.n_storages, packed + at, nbytes - at, NULL);
  for (uint32_t i = 0; i < head.n_storages; i++) shmt__storage_release(storages[i]);
  PyMem_Free(storages);
  return result;
}

PyMethodDef shmt__py_dumps_functions[] = {
    {"_dumps_message", py_dumps, METH_O, "The pickle of plain objects with plain tensors; None for any other message."},
    {"_call_tracked", (PyCFunction)(void (*)(void))py_call_tracked, METH_FASTCALL,
     "Call what pickles a message; if that raises, the leases of the message end."},
    {"_call_sending", (PyCFunction)(void (*)(void))py_call_sending, METH_FASTCALL,
     "Call what pickles a message and sends it; if that raises, the leases of the message end."},
    {"_send_message", (PyCFunction)(void (*)(void))py_send, METH_FASTCALL,
     "Pickle a message and write it to a connection."},
    {"_bind_message", (PyCFunction)(void (*)(void))py_bind, METH_FASTCALL,
     "Tell the leases of a message through which connection it is about to be written."},
    {"_begin_send", (PyCFunction)(void (*)(void))py_begin_send, METH_FASTCALL,
     "The same, for a message that is not written yet. True: _end_send must be called after that."},
    {"_end_send", py_end_send, METH_O, "The message was written."},
    {"_rebuild_message", py_rebuild_message, METH_O, "The objects of such a pickle."},
    {NULL, NULL, 0, NULL},
};
