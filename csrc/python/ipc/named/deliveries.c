/* python/ipc/named/deliveries.c -- the part of _Ring that gets with an acknowledgement. */
#include "python/ipc/ring_object.h"

#include "api/error.h"
#include "ipc/ring/unacknowledged.h"
#include "ipc/session/session.h"
#include "os/clock.h"
#include "python/ipc/wait_call.h"

#include <structmember.h>

enum { MOST_AT_ONCE = 256, QUIET_MS = 200, BRIEF_MS = 10 };

/* How a message was settled. Kept, as a caller that is interrupted does not learn it and asks once more. */
typedef enum outcome {
  OUTCOME_NONE,
  OUTCOME_ACKNOWLEDGED,
  OUTCOME_LET_GO,
  OUTCOME_LOST, /* it went back before */
} outcome;

/* A message that this process has. If nobody settles it, it goes back when the object is freed; no Python runs there,
 * so no signal's handler either. */
typedef struct claim_object {
  PyObject_HEAD shmt__py_ring* ring; /* owned */
  uint64_t id;                       /* 0: it is settled */
  uint32_t fork;                     /* shmt__fork_count() of the process that has the message */
  outcome settled;
  char counts; /* a caller has got it: if it goes back, it was delivered in vain */
} claim_object;

static PyTypeObject* claim_type; /* owned */

/* A message that could not go back, as a process was stopped in the queue. */
typedef struct left_message {
  shmt__py_ring* ring; /* owned */
  uint64_t id;
  uint32_t fork;
  bool counts;
} left_message;

static struct {
  left_message* at;
  uint32_t n, capacity;
} left; /* guarded by the interpreter's lock */

typedef struct delivery_call {
  shmt__py_wait_call base;
  shmt__ring* ring;
  shmt__received_message* received;
  shmt__delivery* deliveries;
  uint32_t n_max, n_got;
  uint64_t id;
  bool counts;
} delivery_call;

static shmt__ring_result call_deliver(shmt__py_wait_call* w, uint64_t deadline_ns) {
  delivery_call* c = (delivery_call*)w;
  return shmt__ring_deliver(c->ring, c->received, c->deliveries, c->n_max, &c->n_got, deadline_ns);
}
/* EMPTY is an answer, for which nobody waits. */
static shmt__ring_result call_acknowledge(shmt__py_wait_call* w, uint64_t deadline_ns) {
  delivery_call* c = (delivery_call*)w;
  shmt__ring_result result = shmt__ring_acknowledge(c->ring, c->id, deadline_ns);
  return result == SHMT_RING_EMPTY ? SHMT_RING_ALONE : result;
}
static shmt__ring_result call_let_go(shmt__py_wait_call* w, uint64_t deadline_ns) {
  delivery_call* c = (delivery_call*)w;
  shmt__ring_result result = shmt__ring_let_go(c->ring, c->id, c->counts, deadline_ns);
  return result == SHMT_RING_EMPTY ? SHMT_RING_ALONE : result;
}

/* Keep it for a later call. Without memory it goes back when this process ends. */
static void leave(shmt__py_ring* o, uint64_t id, bool counts) {
  if (left.n == left.capacity) {
    const uint32_t capacity = 2 * left.capacity + 16;
    left_message* grown = PyMem_Realloc(left.at, capacity * sizeof *grown);
    if (grown == NULL) return;
    left.at = grown;
    left.capacity = capacity;
  }
  left.at[left.n++] = (left_message){(shmt__py_ring*)Py_NewRef((PyObject*)o), id, shmt__fork_count(), counts};
}

/* False: the locks cannot be had, and a later call tries again. */
static bool let_go_within(shmt__py_ring* o, uint64_t id, bool counts, unsigned ms) {
  const uint64_t deadline_ns = shmt__os_now_ns() + ms * UINT64_C(1000000); /* however often signals come */
  shmt__ring_result result;
  do {
    result = shmt__ring_let_go(o->ring, id, counts, deadline_ns);
  } while (result == SHMT_RING_INTERRUPTED);
  shmt_error_clear();
  if (result == SHMT_RING_BUSY) leave(o, id, counts);
  return result != SHMT_RING_BUSY;
}

/* Let go of a message. An exception may be set, and stays. The interpreter's lock is kept here: while there are
 * messages that could not go back, the next ones hardly wait for the queue's locks. */
static void let_go_quietly(shmt__py_ring* o, uint64_t id, bool counts) {
  (void)let_go_within(o, id, counts, left.n > 0 ? BRIEF_MS : QUIET_MS);
}

static void let_go_of_left(void) {
  left_message* those = left.at;
  const shmt__py_ring* stuck = NULL;
  const uint32_t n = left.n;
  left.at = NULL;
  left.n = left.capacity = 0;
  for (uint32_t i = 0; i < n; i++) {
    const left_message* m = &those[i];
    if (m->fork == shmt__fork_count()) {
      if (m->ring == stuck)
        leave(m->ring, m->id, m->counts);
      else if (!let_go_within(m->ring, m->id, m->counts, BRIEF_MS))
        stuck = m->ring;
    }
    Py_DECREF((PyObject*)m->ring);
  }
  PyMem_Free(those);
}

/* A message that cannot be unpickled would come back for ever, unless the queue counts that. An exception may be set,
 * and stays. */
static void refuse(shmt__py_ring* o, uint64_t id) {
  if (atomic_load_explicit(&o->ring->header->max_deliveries, memory_order_relaxed) > 0) {
    let_go_quietly(o, id, true);
    return;
  }
  const uint64_t deadline_ns = shmt__os_now_ns() + QUIET_MS * UINT64_C(1000000);
  while (shmt__ring_acknowledge(o->ring, id, deadline_ns) == SHMT_RING_INTERRUPTED) {
  }
  shmt_error_clear();
}

/* Unpickling has raised what may be the message's own fault. It goes back, as one that was delivered in vain; but it
 * must not end one process after the other. Consumes d. */
static void settle_doubted(shmt__py_ring* o, shmt__received_message* d, const shmt__delivery* delivery) {
  shmt__received_message_fini(d);
  if (delivery->deliveries > 1)
    refuse(o, delivery->id);
  else
    let_go_quietly(o, delivery->id, true);
}

/* Append (object, claim, deliveries). From here on the claim has the message, also when this fails. */
static bool append(shmt__py_ring* o, PyObject* list, PyObject* object, const shmt__delivery* d) {
  claim_object* claim = PyObject_New(claim_object, claim_type);
  if (claim == NULL) {
    let_go_quietly(o, d->id, false);
    return false;
  }
  claim->ring = (shmt__py_ring*)Py_NewRef((PyObject*)o);
  claim->id = d->id;
  claim->fork = shmt__fork_count();
  claim->settled = OUTCOME_NONE;
  claim->counts = 0;
  PyObject* entry = Py_BuildValue("(ONk)", object, (PyObject*)claim, (unsigned long)d->deliveries);
  const bool good = entry != NULL && PyList_Append(list, entry) == 0;
  Py_XDECREF(entry);
  return good;
}

/* Append what was taken. Consumes the messages; those that are not in the list go back. False with an exception. */
static bool open_all(shmt__py_ring* o, shmt__received_message* received, const shmt__delivery* deliveries, uint32_t n,
                     PyObject* list) {
  uint32_t i = 0;
  /* A signal that came while we waited ends this call, and not what its caller does next. */
  for (; PyErr_CheckSignals() == 0 && i < n; i++) {
    bool is_read;
    PyObject* object = shmt__py_ring_object_of(o, &received[i], &is_read);
    const shmt__py_fault fault = object == NULL ? shmt__py_fault_now() : SHMT_PY_OF_MESSAGE;
    if (fault == SHMT_PY_OF_HANDLER) break;
    if (fault == SHMT_PY_OF_EITHER) {
      settle_doubted(o, &received[i], &deliveries[i]);
      i++;
      break;
    }
    if (object == NULL) {
      shmt__received_message_fini(&received[i]);
      refuse(o, deliveries[i].id);
      if (!is_read && (i + 1 < n || PyList_GET_SIZE(list) > 0)) {
        PyErr_WriteUnraisable((PyObject*)o);
        continue;
      }
      i++;
      break;
    }
    shmt__received_message_fini(&received[i]);
    const bool good = append(o, list, object, &deliveries[i]);
    Py_DECREF(object);
    if (good) continue;
    i++;
    break;
  }
  /* The last one first: each goes to the front. */
  for (uint32_t j = n; j-- > i;) {
    shmt__received_message_fini(&received[j]);
    let_go_quietly(o, deliveries[j].id, false);
  }
  return !PyErr_Occurred();
}

/* A message that a get took and whose caller was interrupted: it is this process's already. */
static bool take_kept(shmt__py_ring* o, PyObject* list) {
  PyObject* object = shmt__py_ring_take_kept(o);
  PyObject* entry = object != NULL ? Py_BuildValue("(NOi)", object, Py_None, 1) : NULL;
  const bool good = entry != NULL && PyList_Append(list, entry) == 0;
  Py_XDECREF(entry);
  return good;
}

PyObject* shmt__py_ring_deliver(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  shmt__py_ring* o = (shmt__py_ring*)self;
  shmt__received_message received[MOST_AT_ONCE];
  shmt__delivery deliveries[MOST_AT_ONCE];
  uint64_t deadline_ns;
  if (n != 3 || !PyList_CheckExact(args[2]))
    return PyErr_Format(PyExc_TypeError, "deliver() takes a number, a timeout and a list, got %zd arguments", n);
  Py_ssize_t max;
  if (!shmt__py_most_of("deliver", args[0], &max)) return NULL;
  if (!shmt__py_deadline_of(args[1], &deadline_ns)) return NULL;
  if (SHMT_UNLIKELY(left.n > 0)) let_go_of_left();
  if (SHMT_UNLIKELY(shmt__py_ring_has_kept(o))) {
    if (!take_kept(o, args[2])) return NULL;
    Py_RETURN_NONE;
  }
  delivery_call c = {.base.call = call_deliver,
                     .ring = o->ring,
                     .received = received,
                     .deliveries = deliveries,
                     .n_max = max < MOST_AT_ONCE ? (uint32_t)max : (uint32_t)MOST_AT_ONCE};
  const shmt__ring_result result = shmt__py_wait_call_run(&c.base, deadline_ns);
  if (result == SHMT_RING_NO_ROOM) {
    PyErr_SetString(shmt__py_full(), shmt_error_message());
    return NULL;
  }
  if (result != SHMT_RING_DONE) return shmt__py_ring_raise(result, shmt__py_empty());
  if (!open_all(o, received, deliveries, c.n_got, args[2])) return NULL;
  Py_RETURN_NONE;
}

/* --- claims --- */

static PyObject* settle(claim_object* c, outcome wanted,
                        shmt__ring_result (*call)(shmt__py_wait_call* w, uint64_t deadline_ns)) {
  if (c->fork != shmt__fork_count()) Py_RETURN_FALSE;
  if (c->id != 0) {
    delivery_call w = {.base.call = call, .ring = c->ring->ring, .id = c->id, .counts = true};
    const shmt__ring_result result = shmt__py_wait_call_run(&w.base, UINT64_MAX);
    if (result != SHMT_RING_DONE && result != SHMT_RING_ALONE) return shmt__py_ring_raise(result, PyExc_TimeoutError);
    if (c->id != 0) c->settled = result == SHMT_RING_DONE ? wanted : OUTCOME_LOST; /* else another thread was faster */
    c->id = 0;
  }
  return PyBool_FromLong(c->settled == wanted);
}

static PyObject* claim_acknowledge(PyObject* self, PyObject* unused) {
  (void)unused;
  return settle((claim_object*)self, OUTCOME_ACKNOWLEDGED, call_acknowledge);
}

static PyObject* claim_let_go(PyObject* self, PyObject* unused) {
  (void)unused;
  return settle((claim_object*)self, OUTCOME_LET_GO, call_let_go);
}

static void claim_dealloc(PyObject* self) {
  claim_object* c = (claim_object*)self;
  PyTypeObject* type = Py_TYPE(self);
  if (c->id != 0 && c->fork == shmt__fork_count()) let_go_quietly(c->ring, c->id, c->counts != 0);
  Py_DECREF((PyObject*)c->ring);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyMethodDef claim_methods[] = {
    {"acknowledge", claim_acknowledge, METH_NOARGS, "The work is done. False: the message went back before."},
    {"let_go", claim_let_go, METH_NOARGS, "The message goes back. False: it did before, or was acknowledged."},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef claim_members[] = {
    {"counts", T_BOOL, offsetof(claim_object, counts), 0, "If it goes back, it was delivered in vain."},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot claim_slots[] = {
    {Py_tp_dealloc, (void*)claim_dealloc},
    {Py_tp_methods, claim_methods},
    {Py_tp_members, claim_members},
    {Py_tp_doc, (void*)"A message that this process has; it goes back when this object is freed unsettled."},
    {0, NULL},
};
static PyType_Spec claim_spec = {.name = "shmtensor._C._Claim",
                                 .basicsize = sizeof(claim_object),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = claim_slots};

int shmt__py_claim_init(PyObject* module) {
  claim_type = (PyTypeObject*)PyType_FromSpec(&claim_spec);
  return claim_type != NULL ? PyModule_AddObjectRef(module, "_Claim", (PyObject*)claim_type) : -1;
}

/* --- the rest of _Ring --- */

PyObject* shmt__py_ring_recover(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt__ring_recover(((shmt__py_ring*)self)->ring);
  Py_RETURN_NONE;
}

PyObject* shmt__py_ring_n_unacknowledged(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(shmt__ring_n_unacknowledged(((shmt__py_ring*)self)->ring));
}

PyObject* shmt__py_ring_n_dead_letters(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(shmt__ring_n_dead_letters(((shmt__py_ring*)self)->ring));
}

PyObject* shmt__py_ring_max_deliveries(PyObject* self, void* unused) {
  (void)unused;
  shmt__ring_header* h = ((shmt__py_ring*)self)->ring->header;
  return PyLong_FromUnsignedLong(atomic_load_explicit(&h->max_deliveries, memory_order_relaxed));
}
