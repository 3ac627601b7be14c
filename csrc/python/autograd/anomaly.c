/* python/autograd/anomaly.c -- anomaly mode: the Python stack that a node was made from, and the warning about a node
 * that failed. */
#include "python/autograd/anomaly.h"

#include "autograd/engine/anomaly.h"
#include "autograd/node.h"
#include "python/gil.h"

#include <string.h>

/* "".join(traceback.format_stack()) as a malloc'ed text. */
static char* python_stack(void) {
  char* text = NULL;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* traceback = PyImport_ImportModule("traceback");
  PyObject* frames = traceback ? PyObject_CallMethod(traceback, "format_stack", NULL) : NULL;
  PyObject* empty = PyUnicode_FromString("");
  PyObject* joined = frames && empty ? PyUnicode_Join(empty, frames) : NULL;
  const char* utf8 = joined ? PyUnicode_AsUTF8(joined) : NULL;
  if (utf8) text = strdup(utf8);
  Py_XDECREF(joined);
  Py_XDECREF(empty);
  Py_XDECREF(frames);
  Py_XDECREF(traceback);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
  return text;
}

static void report_anomaly(const char* node_name, const char* trace) {
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject *type, *value, *tb;
  PyErr_Fetch(&type, &value, &tb);
  int r = PyErr_WarnFormat(
      PyExc_UserWarning, 1,
      trace ? "Error detected in %s. Traceback of forward call that caused the error:\n%s"
            : "Error detected in %s. No forward pass information available. Enable detect anomaly "
              "during forward pass for more information.%s",
      node_name, trace ? trace : "");
  if (r < 0) PyErr_WriteUnraisable(NULL);
  PyErr_Restore(type, value, tb);
  PyGILState_Release(gil);
}

static PyObject* set_anomaly(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  int on = n == 2 ? PyObject_IsTrue(args[0]) : -1;
  int nan = n == 2 && on >= 0 ? PyObject_IsTrue(args[1]) : -1;
  if (on < 0 || nan < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected (enabled, check_nan)");
    return NULL;
  }
  shmt__anomaly_on = on;
  shmt__anomaly_check_nan = nan;
  Py_RETURN_NONE;
}

static PyObject* get_anomaly(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return Py_BuildValue("(OO)", shmt__anomaly_on ? Py_True : Py_False,
                       shmt__anomaly_check_nan ? Py_True : Py_False);
}

PyMethodDef shmt__py_anomaly_functions[] = {
    {"_set_anomaly", (PyCFunction)(void (*)(void))set_anomaly, METH_FASTCALL,
     "Switch anomaly mode: enabled, check_nan."},
    {"_get_anomaly", get_anomaly, METH_NOARGS, "Anomaly mode as (enabled, check_nan)."},
    {NULL, NULL, 0, NULL},
};

void shmt__py_anomaly_init(void) {
  shmt__anomaly_stack = python_stack;
  shmt__anomaly_report = report_anomaly;
}
