/* python/errors.c -- statuses become exceptions, warnings become Python warnings. */
#include "python/errors.h"

#include "api/error.h"
#include "base/warn.h"
#include "generated/errors.h"
#include "python/tensor_type.h"

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

PyObject* shmt__py_raise(shmt_status status) {
  if (status == SHMT_E_PYTHON) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_SystemError, "a Python callback failed without an exception");
    return NULL;
  }
  if (PyErr_Occurred()) return NULL; /* raised by a callback below; it says more */
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
  PyGILState_STATE gil = PyGILState_Ensure();
  int r = PyErr_WarnEx(PyExc_UserWarning, message, 1);
  PyGILState_Release(gil);
  return r < 0 ? SHMT_E_PYTHON : SHMT_OK;
}

void shmt__py_errors_init(void) { shmt__warn_set_hook(warn); }
