/* python/ipc/to_send.c -- which storage goes into a message in place of a tensor's own. See Note [Memory that others
 * see]. */
#include "python/ipc/to_send.h"

#include "ipc/handle/program_files.h"
#include "ipc/handle/share.h"
#include "ipc/session/session.h"
#include "python/call/sharing.h"
#include "python/gil.h"
#include "python/tensor/construct.h"
#include "storage/allocator.h"

#include <stdlib.h>
#include <string.h>

enum { COPY_BYTES = 1 << 16 }; /* from here on bytes are copied without the interpreter lock */

static _Thread_local shmt__py_copies* current;

void shmt__py_copies_begin(shmt__py_copies* copies) {
  *copies = (shmt__py_copies){.outer = current};
  current = copies;
}

void shmt__py_copies_end(shmt__py_copies* copies) {
  current = copies->outer;
  for (uint32_t i = 0; i < copies->n; i++) {
    shmt__storage_release(copies->at[i].original);
    shmt__storage_release(copies->at[i].copy);
  }
  free(copies->at);
}

static shmt_storage* find_copy(const shmt_storage* s) {
  for (uint32_t i = 0; current != NULL && i < current->n; i++)
    if (current->at[i].original == s) return current->at[i].copy;
  return NULL;
}

static shmt_status remember_copy(shmt_storage* original, shmt_storage* copy) {
  if (current == NULL) return SHMT_OK;
  if (current->n == current->cap) {
    uint32_t cap = current->cap ? current->cap * 2 : 4;
    struct shmt__py_copy* grown = realloc(current->at, sizeof *grown * cap);
    SHMT_REQUIRE(grown != NULL, SHMT_E_NOMEM, "copies of a message: tried to allocate %zu bytes", sizeof *grown * cap);
    current->at = grown;
    current->cap = cap;
  }
  shmt__storage_retain(original);
  shmt__storage_retain(copy);
  current->at[current->n++] = (struct shmt__py_copy){original, copy};
  return SHMT_OK;
}

/* Must the bytes stay where they are? A read-only tensor would be writable in shared memory. */
static bool stays(const shmt_storage* s) {
  return s->nbytes > 0 && (shmt__storage_has(s, SHMT_STORAGE_READ_ONLY) || shmt__py_is_seen_elsewhere(s));
}

static bool is_of_service(const shmt__session* session) { return session != NULL && session->key.is_service; }

shmt_status shmt__py_storage_for(shmt__session* session, uint64_t nbytes, int how, shmt_storage** out) {
  return is_of_service(session) ? shmt__storage_create_in(session, nbytes, out)
                                : shmt__storage_create_shared(nbytes, how, out);
}

/* Are the bytes in the session's arena, for all to write? Or there are none. */
static bool is_in(const shmt_storage* s, const shmt__session* session) {
  const shmt__held_block* h = s->allocator == &shmt__allocator_managed ? s->ctx : NULL;
  return s->nbytes == 0 || (h != NULL && h->session == session && h->generation != 0 && h->map == NULL &&
                            !shmt__storage_has(s, SHMT_STORAGE_READ_ONLY));
}

static shmt_status make_copy(const shmt_storage* s, shmt__session* session, shmt_storage** out) {
  SHMT_TRY(shmt__py_storage_for(session, s->nbytes, shmt__sharing_strategy(), out));
  memcpy((*out)->data, s->data, s->nbytes);
  return SHMT_OK;
}

static shmt_status copy_to_send(shmt_storage* s, shmt__session* session, shmt_storage** out) {
  shmt_storage* known = find_copy(s);
  if (known != NULL) {
    shmt__storage_retain(known);
    *out = known;
    return SHMT_OK;
  }
  PyThreadState* saved = s->nbytes < COPY_BYTES ? NULL : PyEval_SaveThread();
  shmt_status status = make_copy(s, session, out);
  if (saved != NULL) shmt__py_gil_restore(saved);
  if (status == SHMT_OK) status = remember_copy(s, *out);
  return status;
}

/* The manager may have to answer, which takes a while. */
static shmt_status register_file(shmt_storage* s) {
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status = shmt__storage_register_file(s);
  shmt__py_gil_restore(saved);
  return status;
}

shmt_status shmt__py_storage_to_send(shmt_storage* s, shmt__session* session, shmt_storage** out) {
  if (SHMT_UNLIKELY(is_of_service(session))) {
    if (!is_in(s, session)) return copy_to_send(s, session, out);
    shmt__storage_retain(s);
    *out = s;
    return SHMT_OK;
  }
  bool is_shared = shmt__storage_is_shared(s);
  if (SHMT_UNLIKELY(!is_shared && stays(s))) return copy_to_send(s, NULL, out);
  if (SHMT_UNLIKELY(is_shared && shmt__storage_is_unknown_file(s))) SHMT_TRY(register_file(s));
  if (!is_shared) SHMT_TRY(shmt__py_share_storage(s));
  shmt__storage_retain(s);
  *out = s;
  return SHMT_OK;
}

/* --- the module's part --- */

static PyObject* py_begin(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  shmt__py_copies* copies = malloc(sizeof *copies);
  if (copies == NULL) return PyErr_NoMemory();
  shmt__py_copies_begin(copies);
  Py_RETURN_NONE;
}

static PyObject* py_end(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  shmt__py_copies* copies = current;
  if (copies == NULL) return PyErr_Format(PyExc_RuntimeError, "_end_copies: no message is being made");
  shmt__py_copies_end(copies);
  free(copies);
  Py_RETURN_NONE;
}

static PyObject* py_goes_as_copy(PyObject* module, PyObject* o) {
  (void)module;
  const shmt_storage* s = PyLong_AsVoidPtr(o);
  if (s == NULL && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "_goes_as_copy(): address 0");
  return s == NULL ? NULL : PyBool_FromLong(!shmt__storage_is_shared(s) && stays(s));
}

PyMethodDef shmt__py_to_send_functions[] = {
    {"_begin_copies", py_begin, METH_NOARGS,
     "A message is going to be pickled: tensors over one storage get one copy, where they need one."},
    {"_end_copies", py_end, METH_NOARGS, "The message is pickled."},
    {"_goes_as_copy", py_goes_as_copy, METH_O,
     "Would a message get a copy of the bytes of the storage at an address, because others see them?"},
    {NULL, NULL, 0, NULL},
};
