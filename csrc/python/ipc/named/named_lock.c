/* python/ipc/named/named_lock.c -- _NamedLock, the Python object of a lock, semaphore or barrier that is found by name.
 *
 * Note [Taken for a caller]
 * A signal handler may raise between any two bytecodes. So what changes a lock and the note that this object has it are
 * one call of C, in which no handler runs; handlers run between two slices of a wait. `with` calls these methods
 * without a bytecode in between. An object that has been interrupted knows what it has, and has what it knows.
 */
#include "python/ipc/message.h"

#include "api/error.h"
#include "ipc/service/named_locks.h"
#include "ipc/service/service_internal.h"
#include "os/clock.h"
#include "os/process.h"
#include "python/errors.h"
#include "python/gil.h"
#include "shm/names.h"

#include <math.h>
#include <string.h>

enum { SLICE_MS = 100, LEAVING_MS = 1, TRIES = 3 };

typedef struct permit {
  shmt__opened_lock opened;
  uint32_t slot;
} permit;

typedef struct lock_object {
  PyObject_HEAD
  shmt_service* service; /* owned */
  shmt__opened_lock opened;
  uint32_t kind, n;
  permit* held; /* taken by this object, oldest first */
  uint32_t n_held, held_cap;
  char name[SHMT_NAME_BYTES];
} lock_object;

static PyTypeObject* lock_type; /* owned */

/* --- times --- */

/* None waits for ever; seconds from now otherwise. 0: do not wait. */
static bool deadline_of(PyObject* timeout, uint64_t* out_ms) {
  *out_ms = UINT64_MAX;
  if (timeout == NULL || timeout == Py_None) return true;
  double seconds = PyFloat_AsDouble(timeout);
  if (seconds == -1.0 && PyErr_Occurred()) return false;
  if (isnan(seconds)) {
    PyErr_SetString(PyExc_ValueError, "timeout must be a number of seconds, got nan");
    return false;
  }
  if (seconds <= 0)
    *out_ms = 0;
  else if (seconds < 1e9)
    *out_ms = shmt__os_now_ms() + (uint64_t)ceil(seconds * 1e3);
  return true;
}

/* How long to wait next, at most `most`. 0: the deadline has passed. */
static int slice_of(uint64_t deadline_ms, int most) {
  uint64_t now = deadline_ms == 0 ? 0 : shmt__os_now_ms();
  if (now >= deadline_ms) return 0;
  return deadline_ms - now < (uint64_t)most ? (int)(deadline_ms - now) : most;
}

/* --- life --- */

static shmt_status refresh(lock_object* o) {
  PyThreadState* saved = PyEval_SaveThread();
  shmt__opened_lock opened = o->opened;
  shmt_status status = shmt__named_lock_refresh(o->service, o->name, o->kind, o->n, &opened);
  shmt__py_gil_restore(saved);
  if (status == SHMT_OK) o->opened = opened;
  return status;
}

/* _NamedLock(service, name, kind, n): service: address of a shmt_service */
static PyObject* lock_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  unsigned long long service = 0;
  const char* name = NULL;
  long long kind = 0, n = 0;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "KsLL", &service, &name, &kind, &n)) return NULL;
  if (service == 0 || strlen(name) >= SHMT_NAME_BYTES || n < 0 || n > UINT32_MAX)
    return PyErr_Format(PyExc_ValueError,
                        "\"%.200s\" needs a name of at most %d bytes and a number of places, got %lld", name,
                        SHMT_NAME_BYTES - 1, n);
  lock_object* o = (lock_object*)type->tp_alloc(type, 0);
  if (o == NULL) return NULL;
  o->service = shmt__service_retain((shmt_service*)(uintptr_t)service);
  o->kind = (uint32_t)kind;
  o->n = (uint32_t)n;
  memcpy(o->name, name, strlen(name) + 1);
  shmt_status status = refresh(o);
  if (status == SHMT_OK) return (PyObject*)o;
  Py_DECREF(o);
  return shmt__py_raise(status);
}

static void lock_dealloc(PyObject* self) {
  lock_object* o = (lock_object*)self;
  PyTypeObject* type = Py_TYPE(self);
  shmt_service_free(o->service);
  PyMem_Free(o->held);
  type->tp_free(self);
  Py_DECREF(type);
}

/* --- semaphores --- */

/* Make room to note one more permit. Other threads may take permits meanwhile, so each needs room of its own. */
static bool make_room(lock_object* o) {
  if (o->n_held < o->held_cap) return true;
  uint32_t cap = o->held_cap * 2 + 4;
  permit* grown = PyMem_Realloc(o->held, cap * sizeof *grown);
  if (grown == NULL) {
    PyErr_NoMemory();
    return false;
  }
  o->held = grown;
  o->held_cap = cap;
  return true;
}

/* Take a permit and note it, or wait at most timeout_ms. */
static shmt_status take_named_lock(lock_object* o, int timeout_ms) {
  permit p = {.opened = o->opened};
  PyThreadState* saved = PyEval_SaveThread();
  shmt_status status = shmt__named_lock_acquire(o->service, &p.opened, timeout_ms, &p.slot);
  shmt__py_gil_restore(saved);
  if (status != SHMT_OK) return status;
  if (!make_room(o)) {
    (void)shmt__named_lock_release(o->service, &p.opened, p.slot);
    return SHMT_E_PYTHON;
  }
  o->held[o->n_held++] = p;
  return SHMT_OK;
}

static PyObject* acquire(lock_object* o, uint64_t deadline_ms) {
  int n_stale = 0;
  for (;;) {
    shmt_status status = refresh(o);
    int wait_ms = slice_of(deadline_ms, SLICE_MS);
    if (status == SHMT_OK) status = take_named_lock(o, wait_ms);
    if (status == SHMT_OK) Py_RETURN_TRUE;
    if (status == SHMT_E_RUNTIME && n_stale++ < TRIES) continue; /* rejoined meanwhile */
    if (status != SHMT_E_TIMEOUT) return shmt__py_raise(status);
    n_stale = 0;
    if (wait_ms == 0) Py_RETURN_FALSE;
    if (PyErr_CheckSignals() < 0) return NULL;
  }
}

/* acquire(blocking=True, timeout=None) */
static PyObject* lock_acquire(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const keywords[] = {"blocking", "timeout", NULL};
  int blocking = 1;
  PyObject* timeout = NULL;
  uint64_t deadline_ms = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|pO:acquire", (char**)(uintptr_t)keywords, &blocking, &timeout) ||
      !deadline_of(timeout, &deadline_ms))
    return NULL;
  return acquire((lock_object*)self, blocking ? deadline_ms : 0);
}

/* Give back the permit that was taken last. Never waits, so the interpreter lock is kept. */
static PyObject* lock_release(PyObject* self, PyObject* unused) {
  lock_object* o = (lock_object*)self;
  (void)unused;
  if (o->n_held == 0)
    return PyErr_Format(PyExc_ValueError, "release(): no permit of '%s' was taken by this object", o->name);
  permit p = o->held[--o->n_held];
  if (shmt__named_lock_release(o->service, &p.opened, p.slot) == SHMT_OK) Py_RETURN_NONE;
  PyErr_SetString(PyExc_ValueError, shmt_error_message());
  return NULL;
}

static PyObject* lock_enter(PyObject* self, PyObject* unused) {
  (void)unused;
  return acquire((lock_object*)self, UINT64_MAX);
}

static PyObject* lock_exit(PyObject* self, PyObject* args) {
  (void)args;
  return lock_release(self, NULL);
}

/* Permits that are free, or parties that are missing. */
static PyObject* get_n_free(PyObject* self, void* unused) {
  lock_object* o = (lock_object*)self;
  uint32_t n = 0;
  (void)unused;
  shmt_status status = refresh(o);
  if (status == SHMT_OK) status = shmt__named_lock_value(o->service, &o->opened, &n);
  return status == SHMT_OK ? PyLong_FromUnsignedLong(n) : shmt__py_raise(status);
}

static PyObject* get_n_held(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(((lock_object*)self)->n_held);
}

/* --- barriers --- */

typedef struct arrival {
  shmt__opened_lock opened;
  uint32_t slot, phase;
  bool is_last;
} arrival;

/* Arrive. Errors: as of shmt__barrier_arrive; SHMT_E_TIMEOUT: there was no place before the deadline. */
static shmt_status arrive(lock_object* o, uint64_t deadline_ms, arrival* out) {
  int n_stale = 0;
  for (;;) {
    SHMT_TRY(refresh(o));
    out->opened = o->opened;
    shmt_status status = shmt__barrier_arrive(o->service, &out->opened, &out->slot, &out->phase, &out->is_last);
    if (status == SHMT_E_RUNTIME && n_stale++ < TRIES) continue;
    if (status != SHMT_E_TIMEOUT) return status;
    n_stale = 0;
    int wait_ms = slice_of(deadline_ms, LEAVING_MS);
    if (wait_ms == 0) return status;
    PyThreadState* saved = PyEval_SaveThread();
    shmt__os_sleep_ms((unsigned)wait_ms); /* the parties of the last phase are still leaving */
    shmt__py_gil_restore(saved);
    if (PyErr_CheckSignals() < 0) return SHMT_E_PYTHON;
  }
}

/* Wait for the end of the phase. Errors: SHMT_E_TIMEOUT, SHMT_E_PYTHON, as of shmt__barrier_wait. */
static shmt_status wait_for_others(lock_object* o, const arrival* a, uint64_t deadline_ms) {
  for (;;) {
    int wait_ms = slice_of(deadline_ms, SLICE_MS);
    PyThreadState* saved = PyEval_SaveThread();
    shmt_status status = shmt__barrier_wait(o->service, &a->opened, a->slot, a->phase, wait_ms);
    shmt__py_gil_restore(saved);
    if (status != SHMT_E_TIMEOUT || wait_ms == 0) return status;
    if (PyErr_CheckSignals() < 0) return SHMT_E_PYTHON;
  }
}

/* _wait(timeout): True: the last one, False: another; None: the others did not come in time, and this arrival was
 * withdrawn. */
static PyObject* lock_wait(PyObject* self, PyObject* timeout) {
  lock_object* o = (lock_object*)self;
  uint64_t deadline_ms = 0;
  arrival a = {.slot = 0};
  if (!deadline_of(timeout, &deadline_ms)) return NULL;
  shmt_status status = arrive(o, deadline_ms, &a);
  if (status == SHMT_E_TIMEOUT) Py_RETURN_NONE;
  if (status != SHMT_OK) return shmt__py_raise(status);
  if (a.is_last) Py_RETURN_TRUE;
  status = wait_for_others(o, &a, deadline_ms);
  if (status == SHMT_OK) Py_RETURN_FALSE;
  bool was_withdrawn = shmt__barrier_withdraw(o->service, &a.opened, a.slot, a.phase);
  if (status != SHMT_E_TIMEOUT) return shmt__py_raise(status);
  if (was_withdrawn) Py_RETURN_NONE;
  Py_RETURN_FALSE;
}

static PyMethodDef lock_methods[] = {
    {"acquire", (PyCFunction)(void (*)(void))lock_acquire, METH_VARARGS | METH_KEYWORDS,
     "acquire($self, blocking=True, timeout=None)\n--\n\nTake a permit.\n\n"
     "Args:\n    blocking: Whether to wait when none is free.\n"
     "    timeout: Seconds to wait; None waits forever.\n\n"
     "Returns:\n    Whether a permit was taken."},
    {"release", lock_release, METH_NOARGS,
     "release($self)\n--\n\nRelease the permit that this object took last.\n\n"
     "Raises:\n    ValueError: This object has none, or it was taken before this process was forked."},
    {"__enter__", lock_enter, METH_NOARGS, "__enter__($self)\n--\n\nTake a permit."},
    {"__exit__", lock_exit, METH_VARARGS, "__exit__($self, *args)\n--\n\nRelease the permit."},
    {"_wait", lock_wait, METH_O, "_wait($self, timeout)\n--\n\nArrive at a barrier, and wait; None if time is up."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef lock_getset[] = {
    {"_n_free", get_n_free, NULL, "Permits that are free, or parties that are missing.", NULL},
    {"_n_held", get_n_held, NULL, "Permits that were taken by this object; never waits.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot lock_slots[] = {
    {Py_tp_new, (void*)lock_new},
    {Py_tp_dealloc, (void*)lock_dealloc},
    {Py_tp_methods, lock_methods},
    {Py_tp_getset, lock_getset},
    {Py_tp_doc, (void*)"A lock, semaphore or barrier of a service."},
    {0, NULL},
};
static PyType_Spec lock_spec = {.name = "shmtensor._C._NamedLock",
                                .basicsize = sizeof(lock_object),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                .slots = lock_slots};

int shmt__py_named_lock_init(PyObject* module) {
  lock_type = (PyTypeObject*)PyType_FromSpec(&lock_spec);
  if (lock_type == NULL || PyModule_AddObjectRef(module, "_NamedLock", (PyObject*)lock_type) < 0) return -1;
  if (PyModule_AddIntConstant(module, "_MOST_PERMITS", SHMT_NAMED_LOCK_SLOTS) < 0) return -1;
  return PyModule_AddIntConstant(module, "_MOST_PARTIES", SHMT_BARRIER_SLOTS);
}
