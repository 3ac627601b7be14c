/* python/errors.c -- statuses become exceptions, warnings become Python warnings. */
#include "python/errors.h"

#include "api/error.h"
#include "base/warn.h"
#include "ipc/session/request.h"
#include "generated/errors.h"
#include "python/gil.h"

static PyObject* classes[SHMT_N_STATUSES]; /* found at the first failure with that code */

/* shmtensor.errors.<name>, or the built-in of that name. Borrowed. */
static PyObject* exception_class(shmt_status status) {
  if (classes[status] != NULL) return classes[status];
  const shmt__status_row* row = &shmt__status_rows[status];
  PyObject* cls = NULL;
  if (row->class_name != NULL) {
    PyObject* module = PyImport_ImportModule("shmtensor.errors");
    if (module != NULL) {
      cls = PyObject_GetAttrString(module, row->class_name);
      Py_DECREF(module);
    }
    PyErr_Clear();
  }
  if (cls == NULL) {
    PyObject* builtins = PyEval_GetBuiltins(); /* borrowed */
    cls = builtins ? PyDict_GetItemString(builtins, row->raises) : NULL;
    Py_XINCREF(cls);
  }
  if (cls == NULL) {
    PyErr_Clear();
    return PyExc_RuntimeError;
  }
  classes[status] = cls;
  return cls;
}

/* The exception that a signal handler raised while the main thread waited for a manager, kept until its call ends;
 * under the interpreter lock. */
static PyObject *interrupt_type, *interrupt_value, *interrupt_trace;

PyObject* shmt__py_raise(shmt_status status) {
  if (status == SHMT_E_PYTHON) {
    if (!PyErr_Occurred() && interrupt_type != NULL) {
      PyErr_Restore(interrupt_type, interrupt_value, interrupt_trace);
      interrupt_type = interrupt_value = interrupt_trace = NULL;
    }
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_SystemError, "a Python callback failed without an exception");
    return NULL;
  }
  if (PyErr_Occurred()) return NULL; /* a Python callback below has raised it, and it says more */
  if (status <= SHMT_OK || status >= SHMT_N_STATUSES) {
    PyErr_Format(PyExc_SystemError, "unknown status %d", status);
    return NULL;
  }
  PyObject* cls = exception_class(status);
  /* Copied first: making the exception may run code that fails and overwrites the record. */
  PyObject* text = PyUnicode_DecodeUTF8(shmt_error_message(),
                                        (Py_ssize_t)strlen(shmt_error_message()), "replace");
  if (text == NULL) return NULL;
  if (status == SHMT_E_OS && shmt_error_errno() != 0) {
    PyObject* args = Py_BuildValue("(iN)", shmt_error_errno(), text);
    if (args != NULL) PyErr_SetObject(cls, args);
    Py_XDECREF(args);
  } else {
    PyErr_SetObject(cls, text);
    Py_DECREF(text);
  }
  return NULL;
}

static shmt_status warn(const char* message) {
  PyGILState_STATE gil = shmt__py_gil_ensure();
  int r = PyErr_WarnEx(PyExc_UserWarning, message, 1);
  PyGILState_Release(gil);
  return r < 0 ? SHMT_E_PYTHON : SHMT_OK;
}

/* --- waiting for a manager: Note [Waiting for a manager] in ipc/session/request.h --- */

static void* begin_wait(void) { return PyGILState_Check() ? PyEval_SaveThread() : NULL; }

static bool end_wait(void* begun) {
  PyGILState_STATE gil = PyGILState_UNLOCKED;
  if (begun != NULL)
    shmt__py_gil_restore(begun);
  else
    gil = shmt__py_gil_ensure();
  bool go_on = PyErr_CheckSignals() == 0;
  if (!go_on) {
    /* The exception is set aside: the C functions between here and Python know nothing of exceptions. */
    Py_CLEAR(interrupt_type);
    Py_CLEAR(interrupt_value);
    Py_CLEAR(interrupt_trace);
    PyErr_Fetch(&interrupt_type, &interrupt_value, &interrupt_trace);
  }
  if (begun == NULL) PyGILState_Release(gil);
  return go_on;
}

static PyObject* raise_interrupt(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return shmt__py_raise(SHMT_E_PYTHON);
}

static PyObject* set_warn_always(PyObject* module, PyObject* on) {
  (void)module;
  shmt__warn_set_always(on == Py_True);
  Py_RETURN_NONE;
}

PyMethodDef shmt__py_error_functions[] = {
    {"_set_warn_always", set_warn_always, METH_O,
     "Let what is told once in a process be told always: True or False."},
    {"_raise_interrupt", raise_interrupt, METH_NOARGS,
     "Raise what a signal handler raised in a call that returned the status PYTHON."},
    {NULL, NULL, 0, NULL},
};

void shmt__py_raise_int_overflow(void) { PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long"); }

void shmt__py_errors_init(void) {
  shmt__warn_set_hook(warn);
  shmt__request_set_hooks((shmt__wait_hooks){begin_wait, end_wait});
}
