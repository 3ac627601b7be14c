/* python/ipc/plain_objects.c -- writes and reads messages of plain objects, without the pickler. */
#include "python/ipc/plain_objects.h"

#include "ipc/message/message_format.h"
#include "python/ipc/message.h"
#include "python/ipc/share.h"
#include "python/ipc/to_send.h"
#include "python/tensor/construct.h"
#include "python/tensor/tensor_type.h"

#include <string.h>

enum { FEW_OBJECTS = 16 };

/* --- which objects occurred --- */

/* Objects and, in the order of their coming, their numbers. An open table once they are many. They are held: one that
 * another thread took out meanwhile would leave its address to a new one. */
typedef struct memo {
  PyObject* few[FEW_OBJECTS]; /* owned references; the table's, once there is one */
  PyObject** at;    /* table of addresses; NULL while there are few */
  uint32_t* number; /* of the address in the same place */
  uint32_t n, capacity;
} memo;

static void free_table(memo* m) {
  PyMem_Free(m->at);
  PyMem_Free(m->number);
}

static void memo_fini(memo* m) {
  const uint32_t n = m->at != NULL ? m->capacity : m->n;
  PyObject** at = m->at != NULL ? m->at : m->few;
  for (uint32_t i = 0; i < n; i++) Py_XDECREF(at[i]);
  free_table(m);
}

static uint32_t place_of(const memo* m, const PyObject* o) {
  uint64_t h = ((uint64_t)(uintptr_t)o >> 4) * UINT64_C(0x9E3779B97F4A7C15);
  uint32_t i = (uint32_t)(h >> 32) & (m->capacity - 1);
  while (m->at[i] != NULL && m->at[i] != o) i = (i + 1) & (m->capacity - 1);
  return i;
}

/* The number of o, or -1. */
static int64_t memo_find(const memo* m, const PyObject* o) {
  if (m->at != NULL) {
    uint32_t i = place_of(m, o);
    return m->at[i] != NULL ? (int64_t)m->number[i] : -1;
  }
  for (uint32_t i = 0; i < m->n; i++)
    if (m->few[i] == o) return i;
  return -1;
}

static bool memo_grow(memo* m) {
  memo grown = {.n = m->n, .capacity = m->capacity ? m->capacity * 2 : 4 * FEW_OBJECTS};
  grown.at = PyMem_Calloc(grown.capacity, sizeof *grown.at);
  grown.number = PyMem_Calloc(grown.capacity, sizeof *grown.number);
  if (grown.at == NULL || grown.number == NULL) {
    free_table(&grown);
    return false;
  }
  uint32_t n_old = m->at != NULL ? m->capacity : m->n;
  for (uint32_t i = 0; i < n_old; i++) {
    PyObject* o = m->at != NULL ? m->at[i] : m->few[i];
    if (o == NULL) continue;
    uint32_t to = place_of(&grown, o);
    grown.at[to] = o;
    grown.number[to] = m->at != NULL ? m->number[i] : i;
  }
  free_table(m);
  m->at = grown.at;
  m->number = grown.number;
  m->capacity = grown.capacity;
  return true;
}

/* False: out of memory. */
static bool memo_add(memo* m, PyObject* o) {
  if (m->at == NULL && m->n < FEW_OBJECTS) {
    m->few[m->n++] = Py_NewRef(o);
    return true;
  }
  if ((m->at == NULL || m->n * 2 >= m->capacity) && !memo_grow(m)) return false;
  uint32_t i = place_of(m, o);
  m->at[i] = Py_NewRef(o);
  m->number[i] = m->n++;
  return true;
}

/* --- writing --- */

typedef struct writer {
  shmt__py_message_writer* message;
  memo memo;
  const PyObject* open[SHMT_MESSAGE_MOST_DEPTH]; /* what is being written, by depth */
  bool is_in_key;
} writer;

static bool write_bytes(writer* w, const void* data, size_t nbytes) {
  return shmt__py_bytes_append(&w->message->pickle, data, nbytes);
}

static shmt__py_quick write_tag(writer* w, uint8_t tag, const void* data, size_t nbytes) {
  char head[16];
  head[0] = (char)tag;
  memcpy(head + 1, data, nbytes);
  return write_bytes(w, head, 1 + nbytes) ? SHMT_PY_QUICK_DONE : SHMT_PY_QUICK_FAILED;
}

static shmt__py_quick write_count(writer* w, uint8_t tag, uint32_t n) {
  return write_tag(w, tag, &n, sizeof n);
}

static shmt__py_quick write_run(writer* w, uint8_t tag, const char* data, Py_ssize_t n) {
  if ((size_t)n > UINT32_MAX) return SHMT_PY_QUICK_NOT_PLAIN;
  shmt__py_quick r = write_count(w, tag, (uint32_t)n);
  if (r != SHMT_PY_QUICK_DONE) return r;
  return write_bytes(w, data, (size_t)n) ? SHMT_PY_QUICK_DONE : SHMT_PY_QUICK_FAILED;
}

static shmt__py_quick write_int(writer* w, PyObject* o) {
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow != 0) return SHMT_PY_QUICK_NOT_PLAIN;
  int8_t small = (int8_t)value;
  return small == value ? write_tag(w, SHMT_TAG_BYTE, &small, sizeof small)
                        : write_tag(w, SHMT_TAG_INT, &value, sizeof value);
}

static shmt__py_quick write_text(writer* w, PyObject* o) {
  Py_ssize_t n = 0;
  const char* data = PyUnicode_AsUTF8AndSize(o, &n);
  if (data != NULL) return write_run(w, SHMT_TAG_TEXT, data, n);
  PyErr_Clear(); /* a lone surrogate: the pickler knows what to do */
  return SHMT_PY_QUICK_NOT_PLAIN;
}

static shmt__py_quick write_object(writer* w, PyObject* o, int depth);

static void set_count(writer* w, size_t at, uint32_t n) {
  memcpy(w->message->pickle.at + at + 1, &n, sizeof n);
}

/* The lock may be given up while a tensor is shared, and others may change what is being written:
 * so every item is held, and counts are written last. */
static shmt__py_quick write_items(writer* w, PyObject* o, uint8_t tag, int depth) {
  size_t at = w->message->pickle.len;
  uint32_t n = 0;
  shmt__py_quick r = write_count(w, tag, 0);
  for (; r == SHMT_PY_QUICK_DONE; n++) {
    Py_ssize_t size = tag == SHMT_TAG_LIST ? PyList_GET_SIZE(o) : PyTuple_GET_SIZE(o);
    if ((Py_ssize_t)n >= size) break;
    PyObject* item = tag == SHMT_TAG_LIST ? PyList_GET_ITEM(o, n) : PyTuple_GET_ITEM(o, n);
    Py_INCREF(item);
    r = write_object(w, item, depth + 1);
    Py_DECREF(item);
  }
  if (r == SHMT_PY_QUICK_DONE) set_count(w, at, n);
  return r;
}

static shmt__py_quick write_dict(writer* w, PyObject* o, int depth) {
  size_t at = w->message->pickle.len;
  uint32_t n = 0;
  Py_ssize_t position = 0, size = PyDict_GET_SIZE(o);
  PyObject *key, *value;
  shmt__py_quick r = write_count(w, SHMT_TAG_DICT, 0);
  while (r == SHMT_PY_QUICK_DONE && PyDict_Next(o, &position, &key, &value)) {
    const bool was_in_key = w->is_in_key;
    Py_INCREF(key);
    Py_INCREF(value);
    w->is_in_key = true;
    r = write_object(w, key, depth + 1);
    w->is_in_key = was_in_key;
    if (r == SHMT_PY_QUICK_DONE) r = write_object(w, value, depth + 1);
    Py_DECREF(key);
    Py_DECREF(value);
    n++;
    if (PyDict_GET_SIZE(o) != size && r == SHMT_PY_QUICK_DONE) {
      PyErr_SetString(PyExc_RuntimeError, "dictionary changed size during iteration");
      r = SHMT_PY_QUICK_FAILED;
    }
  }
  if (r == SHMT_PY_QUICK_DONE) set_count(w, at, n);
  return r;
}

static shmt__py_quick write_tensor(writer* w, PyObject* o) {
  if (!shmt__py_tensor_is_plain(o)) return SHMT_PY_QUICK_NOT_PLAIN;
  const shmt_tensor* t = shmt__py_tensor(o);
  SHMT_AUTO(shmt_storage) s = NULL;
  shmt_status status = shmt__py_storage_to_send(t->storage, w->message->session, &s);
  if (status != SHMT_OK) {
    (void)shmt__py_raise(status);
    return SHMT_PY_QUICK_FAILED;
  }
  int64_t place = shmt__py_writer_add_record(w->message, t, &s);
  if (place < 0 || place > UINT32_MAX)
    return place == -2 ? SHMT_PY_QUICK_FAILED : SHMT_PY_QUICK_NOT_PLAIN;
  return write_count(w, SHMT_TAG_TENSOR, (uint32_t)place);
}

/* NumPy's array as a tensor of ours, where the ring sends it so. Views that share memory are to share it at the
 * receiver too: one is plain only if there is nothing else in the message. */
static shmt__py_quick write_array(writer* w, PyObject* o, int depth) {
  PyObject* tensor = shmt__py_tensor_of_simple_array(o, depth == 0);
  if (tensor == NULL) return SHMT_PY_QUICK_NOT_PLAIN;
  shmt__py_quick r = write_tensor(w, tensor);
  Py_DECREF(tensor);
  return r;
}

static shmt__py_quick note(writer* w, PyObject* o) {
  if (memo_add(&w->memo, o)) return SHMT_PY_QUICK_DONE;
  PyErr_NoMemory();
  return SHMT_PY_QUICK_FAILED;
}

/* What has an identity that the receiver may rely on. */
static shmt__py_quick write_known(writer* w, PyObject* o, uint8_t tag, int depth) {
  int64_t before = memo_find(&w->memo, o);
  if (before >= 0) return write_count(w, SHMT_TAG_AGAIN, (uint32_t)before);
  if (w->memo.n >= SHMT_MESSAGE_MOST_OBJECTS) return SHMT_PY_QUICK_NOT_PLAIN;
  shmt__py_quick noted = note(w, o);
  if (noted != SHMT_PY_QUICK_DONE) return noted;
  if (tag == SHMT_TAG_TENSOR) return Py_TYPE(o) == shmt__py_tensor_type ? write_tensor(w, o) : write_array(w, o, depth);
  return tag == SHMT_TAG_DICT ? write_dict(w, o, depth) : write_items(w, o, tag, depth);
}

/* A tuple in another object. It is held here and there; if by others too, it may come again. */
static shmt__py_quick write_inner_tuple(writer* w, PyObject* o, int depth) {
  if (Py_REFCNT(o) <= 2) return write_items(w, o, SHMT_TAG_TUPLE, depth);
  int64_t before = memo_find(&w->memo, o);
  if (before >= 0) return write_count(w, SHMT_TAG_AGAIN, (uint32_t)before);
  for (int i = 0; i < depth; i++)
    if (w->open[i] == o) return SHMT_PY_QUICK_NOT_PLAIN; /* it holds itself */
  /* Programs hold many rows, and most of them are in a message once. */
  if (w->memo.n >= SHMT_MESSAGE_MOST_OBJECTS) return write_items(w, o, SHMT_TAG_TUPLE, depth);
  shmt__py_quick r = write_items(w, o, SHMT_TAG_SHARED_TUPLE, depth);
  if (r != SHMT_PY_QUICK_DONE) return r;
  return w->memo.n < SHMT_MESSAGE_MOST_OBJECTS ? note(w, o) : SHMT_PY_QUICK_NOT_PLAIN;
}

static shmt__py_quick write_object(writer* w, PyObject* o, int depth) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == &PyUnicode_Type) return write_text(w, o);
  if (type == &PyLong_Type) return write_int(w, o);
  if (type == shmt__py_tensor_type) return write_known(w, o, SHMT_TAG_TENSOR, depth);
  if (type == &PyFloat_Type) {
    double value = PyFloat_AS_DOUBLE(o);
    return write_tag(w, SHMT_TAG_FLOAT, &value, sizeof value);
  }
  if (o == Py_None) return write_tag(w, SHMT_TAG_NONE, "", 0);
  if (o == Py_True) return write_tag(w, SHMT_TAG_TRUE, "", 0);
  if (o == Py_False) return write_tag(w, SHMT_TAG_FALSE, "", 0);
  if (type == &PyBytes_Type) return write_run(w, SHMT_TAG_BYTES, PyBytes_AS_STRING(o), PyBytes_GET_SIZE(o));
  if (depth >= SHMT_MESSAGE_MOST_DEPTH) return SHMT_PY_QUICK_NOT_PLAIN;
  w->open[depth] = o;
  if (type == &PyTuple_Type)
    return depth == 0 || w->is_in_key ? write_items(w, o, SHMT_TAG_TUPLE, depth) : write_inner_tuple(w, o, depth);
  if (type == &PyList_Type) return write_known(w, o, SHMT_TAG_LIST, depth);
  if (type == &PyDict_Type) return write_known(w, o, SHMT_TAG_DICT, depth);
  if (w->message->adopts & SHMT_PY_SENDS_AS_OURS) return write_known(w, o, SHMT_TAG_TENSOR, depth);
  return SHMT_PY_QUICK_NOT_PLAIN;
}

shmt__py_quick shmt__py_quick_write(shmt__py_message_writer* message, PyObject* o) {
  writer w = {.message = message};
  shmt__py_writer_mark before = shmt__py_writer_here(message);
  shmt__py_quick r = write_object(&w, o, 0);
  memo_fini(&w.memo);
  if (r != SHMT_PY_QUICK_DONE) shmt__py_writer_go_back(message, before);
  return r;
}

/* --- reading --- */

typedef struct reader {
  const char *at, *end;
  PyObject** known; /* owned references */
  uint32_t n_known, known_capacity;
  PyObject* few[FEW_OBJECTS];
  bool is_in_key;
} reader;

static PyObject* fail_damaged(const reader* r) {
  return shmt__py_raise(shmt__fail(SHMT_E_HANDLE, "a damaged message: %td bytes before its end",
                                   r->end - r->at));
}

static bool take_bytes(reader* r, void* out, size_t nbytes) {
  if ((size_t)(r->end - r->at) < nbytes) return false;
  memcpy(out, r->at, nbytes);
  r->at += nbytes;
  return true;
}

/* o, also known by the next number from now on. Steals o when it fails; passes NULL on. */
static PyObject* remember(reader* r, PyObject* o) {
  if (o == NULL) return NULL;
  if (r->n_known == r->known_capacity) {
    uint32_t capacity = r->known_capacity * 2;
    PyObject** grown = PyMem_Realloc(r->known == r->few ? NULL : r->known,
                                     sizeof *grown * capacity);
    if (grown == NULL) {
      Py_DECREF(o);
      return PyErr_NoMemory();
    }
    if (r->known == r->few) memcpy(grown, r->few, sizeof r->few);
    r->known = grown;
    r->known_capacity = capacity;
  }
  r->known[r->n_known++] = Py_NewRef(o);
  return o;
}

static PyObject* read_object(reader* r, int depth);

static PyObject* read_tuple(reader* r, uint32_t n, int depth) {
  PyObject* o = PyTuple_New((Py_ssize_t)n);
  for (uint32_t i = 0; o != NULL && i < n; i++) {
    PyObject* item = read_object(r, depth + 1);
    if (item == NULL)
      Py_CLEAR(o);
    else
      PyTuple_SET_ITEM(o, (Py_ssize_t)i, item);
  }
  return o;
}

static PyObject* read_list(reader* r, uint32_t n, int depth) {
  PyObject* o = remember(r, PyList_New(0));
  for (uint32_t i = 0; o != NULL && i < n; i++) {
    PyObject* item = read_object(r, depth + 1);
    if (item == NULL || PyList_Append(o, item) < 0) Py_CLEAR(o);
    Py_XDECREF(item);
  }
  return o;
}

static PyObject* read_dict(reader* r, uint32_t n, int depth) {
  PyObject* o = remember(r, PyDict_New());
  for (uint32_t i = 0; o != NULL && i < n; i++) {
    const bool was_in_key = r->is_in_key;
    r->is_in_key = true;
    PyObject* key = read_object(r, depth + 1);
    r->is_in_key = was_in_key;
    PyObject* value = key != NULL ? read_object(r, depth + 1) : NULL;
    if (value == NULL || PyDict_SetItem(o, key, value) < 0) Py_CLEAR(o);
    Py_XDECREF(key);
    Py_XDECREF(value);
  }
  return o;
}

static PyObject* read_tensor(reader* r, uint32_t place) {
  shmt_tensor* t = NULL;
  shmt_status status = shmt__py_received_tensor(place, &t);
  if (status != SHMT_OK) return shmt__py_raise(status);
  return remember(r, shmt__py_wrap(t));
}

static PyObject* read_number(reader* r, char tag) {
  int8_t small;
  int64_t value;
  double real;
  if (tag == SHMT_TAG_BYTE && take_bytes(r, &small, sizeof small)) return PyLong_FromLong(small);
  if (tag == SHMT_TAG_INT && take_bytes(r, &value, sizeof value)) return PyLong_FromLongLong(value);
  if (tag == SHMT_TAG_FLOAT && take_bytes(r, &real, sizeof real)) return PyFloat_FromDouble(real);
  return fail_damaged(r);
}

static PyObject* read_object(reader* r, int depth) {
  char tag = 0;
  uint32_t n = 0;
  if (depth > SHMT_MESSAGE_MOST_DEPTH || !take_bytes(r, &tag, 1)) return fail_damaged(r);
  if (tag == SHMT_TAG_NONE) Py_RETURN_NONE;
  if (tag == SHMT_TAG_TRUE) Py_RETURN_TRUE;
  if (tag == SHMT_TAG_FALSE) Py_RETURN_FALSE;
  if (tag < SHMT_TAG_TEXT) return read_number(r, tag);
  if (!take_bytes(r, &n, sizeof n)) return fail_damaged(r);
  if (tag == SHMT_TAG_TENSOR) return read_tensor(r, n);
  /* A tuple in a key is hashed once for each way to it. */
  const bool is_shared = r->is_in_key && (tag == SHMT_TAG_SHARED_TUPLE || tag == SHMT_TAG_AGAIN);
  if (tag == SHMT_TAG_AGAIN && n < r->n_known && !(is_shared && PyTuple_Check(r->known[n])))
    return Py_NewRef(r->known[n]);
  /* A byte at least for each item: a false count makes nothing large. */
  if (tag > SHMT_TAG_SHARED_TUPLE || n > (size_t)(r->end - r->at)) return fail_damaged(r);
  if (tag == SHMT_TAG_TUPLE) return read_tuple(r, n, depth);
  if (tag == SHMT_TAG_SHARED_TUPLE && !is_shared) return remember(r, read_tuple(r, n, depth));
  if (tag == SHMT_TAG_LIST) return read_list(r, n, depth);
  if (tag == SHMT_TAG_DICT) return read_dict(r, n, depth);
  if (tag > SHMT_TAG_DICT) return fail_damaged(r);
  const char* data = r->at;
  r->at += n;
  return tag == SHMT_TAG_TEXT ? PyUnicode_DecodeUTF8(data, (Py_ssize_t)n, NULL)
                     : PyBytes_FromStringAndSize(data, (Py_ssize_t)n);
}

PyObject* shmt__py_quick_read(const char* data, size_t nbytes) {
  reader r = {.at = data, .end = data + nbytes, .known_capacity = FEW_OBJECTS};
  r.known = r.few;
  PyObject* o = read_object(&r, 0);
  for (uint32_t i = 0; i < r.n_known; i++) Py_DECREF(r.known[i]);
  if (r.known != r.few) PyMem_Free(r.known);
  if (o == NULL || r.at == r.end) return o;
  Py_DECREF(o);
  return fail_damaged(&r);
}
