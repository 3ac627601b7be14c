/* python/call/site.c -- where in a Python program something happens. */
#include "python/call/site.h"
#include "python/gil.h"

#include "base/utf8.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

/* Is it a file of the package, or of the standard library's multiprocessing, which calls it? */
static int is_inner(const char* path) {
  return strstr(path, "/shmtensor/") != NULL || strstr(path, "/multiprocessing/") != NULL ||
         path[0] == '<';
}

/* New reference to the frame to name, or NULL. */
static PyFrameObject* outer_frame(void) {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != NULL) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* path = PyUnicode_AsUTF8(code->co_filename);
    int inner = path == NULL || is_inner(path);
    Py_DECREF(code);
    if (!inner) return frame;
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return NULL;
}

static void write_end(PyFrameObject* frame, char* out, size_t capacity) {
  PyCodeObject* code = PyFrame_GetCode(frame);
  const char* path = PyUnicode_AsUTF8(code->co_filename);
  char line[16];
  (void)PyOS_snprintf(line, sizeof line, ":%d", PyFrame_GetLineNumber(frame));
  size_t room = capacity - 1 - strlen(line), n = path != NULL ? strlen(path) : 0;
  const char* end = n > room ? shmt__utf8_first_whole(path + n - room) : path;
  (void)PyOS_snprintf(out, capacity, "%s%s", path != NULL ? end : "?", line);
  Py_DECREF(code);
}

void shmt__py_append_call_site(char* out, size_t capacity) {
  out[0] = '\0';
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback); /* an exception that is being raised must not be lost */
  PyFrameObject* frame = outer_frame();
  if (frame != NULL) write_end(frame, out, capacity);
  Py_XDECREF(frame);
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  PyGILState_Release(gil);
}
