/* python/ipc/kept_messages.c -- messages that were taken out of a ring, and whose callers were interrupted before they
 * had them. The next get of this process returns them: Note [Interrupted calls] in python/ipc/ring_object.h.
 */
#include "python/ipc/ring_object.h"

#include "ipc/session/session.h"

typedef struct shmt__py_kept_message {
  struct shmt__py_kept_message* next;
  PyObject* object;                /* owned; NULL: not opened yet */
  bool is_doubted;                 /* opening it has raised what may be its fault */
  shmt__received_message received; /* owned */
} kept_message;

/* Put a message before those that are kept. Takes over what it has. Without memory it is lost, as with its reader. */
static void keep_message(shmt__py_ring* o, PyObject* object, shmt__received_message* received, bool is_doubted) {
  kept_message* k = PyMem_Calloc(1, sizeof *k);
  if (k == NULL) {
    Py_XDECREF(object);
    if (received != NULL) shmt__received_message_fini(received);
    return;
  }
  k->object = object;
  k->is_doubted = is_doubted;
  if (received != NULL) k->received = *received;
  k->next = o->kept;
  o->kept = k;
  shmt__ring_readiness_keep(o->ring, ++o->n_kept);
}

/* Take the first one out of the list; the caller owns what it has. */
static kept_message take_first(shmt__py_ring* o) {
  kept_message* k = o->kept;
  kept_message first = *k;
  o->kept = k->next;
  shmt__ring_readiness_keep(o->ring, --o->n_kept);
  PyMem_Free(k);
  return first;
}

void shmt__py_ring_forget_kept(shmt__py_ring* o) {
  while (o->kept != NULL) {
    kept_message first = take_first(o);
    Py_XDECREF(first.object);
    shmt__received_message_fini(&first.received);
  }
}

/* Forget what is the parent's, from whom this process was forked. */
static void after_fork(shmt__py_ring* o) {
  if (SHMT_LIKELY(o->kept_fork == shmt__fork_count())) return;
  o->kept_fork = shmt__fork_count();
  shmt__py_ring_forget_kept(o);
}

bool shmt__py_ring_has_kept(shmt__py_ring* o) {
  if (SHMT_UNLIKELY(o->kept != NULL)) after_fork(o);
  return o->kept != NULL;
}

PyObject* shmt__py_ring_object_of(const shmt__py_ring* o, shmt__received_message* d, bool* out_is_read) {
  PyObject* object = shmt__py_received_in_mode(d, o->mode) ? shmt__py_received_object(o->ring, d) : NULL;
  *out_is_read = object != NULL;
  if (SHMT_LIKELY(o->show == NULL) || object == NULL) return object;
  Py_SETREF(object, PyObject_CallOneArg(o->show, object));
  return object;
}

/* Is a message that could not be opened to be opened again? What may be its own fault must not come for ever. */
static bool is_worth_keeping(shmt__py_fault fault, bool is_doubted) {
  return fault == SHMT_PY_OF_HANDLER || (fault == SHMT_PY_OF_EITHER && !is_doubted);
}

static PyObject* open_message(shmt__py_ring* o, shmt__received_message* d, bool is_doubted) {
  /* A signal that came while we waited ends this call, and not what its caller does next. */
  if (PyErr_CheckSignals() < 0) {
    keep_message(o, NULL, d, is_doubted);
    return NULL;
  }
  bool is_read;
  PyObject* object = shmt__py_ring_object_of(o, d, &is_read);
  const shmt__py_fault fault = object == NULL ? shmt__py_fault_now() : SHMT_PY_OF_MESSAGE;
  if (SHMT_UNLIKELY(is_worth_keeping(fault, is_doubted)))
    keep_message(o, NULL, d, is_doubted || fault == SHMT_PY_OF_EITHER);
  else
    shmt__received_message_fini(d);
  return object;
}

PyObject* shmt__py_ring_open_message(shmt__py_ring* o, shmt__received_message* d) { return open_message(o, d, false); }

bool shmt__py_ring_open_messages(shmt__py_ring* o, shmt__received_message* received, uint32_t n, PyObject* list) {
  uint32_t i = 0;
  bool is_doubted = false; /* the one at i */
  for (; PyErr_CheckSignals() == 0 && i < n; i++) {
    bool is_read;
    PyObject* object = shmt__py_ring_object_of(o, &received[i], &is_read);
    const shmt__py_fault fault = object == NULL ? shmt__py_fault_now() : SHMT_PY_OF_MESSAGE;
    is_doubted = fault == SHMT_PY_OF_EITHER;
    if (is_worth_keeping(fault, false)) break;
    shmt__received_message_fini(&received[i]);
    if (object == NULL && !is_read && (i + 1 < n || PyList_GET_SIZE(list) > 0)) {
      PyErr_WriteUnraisable((PyObject*)o);
      continue;
    }
    if (object == NULL) {
      i++;
      break;
    }
    int failed = PyList_Append(list, object);
    Py_DECREF(object);
    if (failed) {
      i++;
      break;
    }
  }
  bool is_complete = !PyErr_Occurred();
  for (uint32_t j = n; j-- > i;) keep_message(o, NULL, &received[j], j == i && is_doubted);
  return is_complete;
}

PyObject* shmt__py_ring_take_kept(shmt__py_ring* o) {
  kept_message first = take_first(o);
  return first.object != NULL ? first.object : open_message(o, &first.received, first.is_doubted);
}

PyObject* shmt__py_ring_give_back(PyObject* self, PyObject* objects) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  if (!PyList_CheckExact(objects))
    return PyErr_Format(PyExc_TypeError, "give_back(): expected a list, got %s", Py_TYPE(objects)->tp_name);
  after_fork(o);
  for (Py_ssize_t i = PyList_GET_SIZE(objects); i-- > 0;)
    keep_message(o, Py_NewRef(PyList_GET_ITEM(objects, i)), NULL, false);
  Py_RETURN_NONE;
}
