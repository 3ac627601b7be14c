/* python/values/overloaded.c -- the arguments of a call whose classes answer it, and asking them in turn. */
#include "python/values/overloaded.h"

#include <string.h>

static void free_heap(shmt__py_overloaded* a) {
  if (a->objects != a->few) PyMem_Free(a->objects);
}

void shmt__py_overloaded_fini(shmt__py_overloaded* a) {
  for (int i = 0; i < a->n; i++) Py_DECREF(a->objects[i]);
  free_heap(a);
}

/* -1 with MemoryError. */
static int grow(shmt__py_overloaded* a) {
  const size_t bytes = sizeof *a->objects * (size_t)a->capacity;
  PyObject** grown = PyMem_Malloc(2 * bytes);
  if (grown == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  memcpy(grown, a->objects, bytes);
  free_heap(a);
  a->objects = grown;
  a->capacity *= 2;
  return 0;
}

int shmt__py_overloaded_add(shmt__py_overloaded* a, PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  int at = a->n;
  for (int i = 0; i < a->n; i++) {
    if (Py_TYPE(a->objects[i]) == type) return 0;
    if (at == a->n && PyType_IsSubtype(type, Py_TYPE(a->objects[i]))) at = i;
  }
  if (a->n == a->capacity && grow(a) < 0) return -1;
  memmove(&a->objects[at + 1], &a->objects[at], sizeof a->objects[0] * (size_t)(a->n - at));
  a->objects[at] = Py_NewRef(o);
  a->n++;
  return 0;
}

PyObject* shmt__py_overloaded_types(const shmt__py_overloaded* a) {
  PyObject* types = PyTuple_New(a->n);
  for (int i = 0; types && i < a->n; i++)
    PyTuple_SET_ITEM(types, i, Py_NewRef(Py_TYPE(a->objects[i])));
  return types;
}

PyObject* shmt__py_overloaded_call(const shmt__py_overloaded* a, PyObject* protocol, PyObject* function, PyObject* args,
                                   PyObject* kwargs) {
  PyObject* types = shmt__py_overloaded_types(a);
  for (int i = 0; types && i < a->n; i++) {
    PyObject* answer = PyObject_GetAttr(a->objects[i], protocol);
    PyObject* r =
        answer ? PyObject_CallFunctionObjArgs(answer, function, types, args, kwargs, NULL) : NULL;
    Py_XDECREF(answer);
    if (r != Py_NotImplemented) {
      Py_DECREF(types);
      return r;
    }
    Py_DECREF(r);
  }
  if (!types) return NULL;
  Py_DECREF(types);
  return Py_NewRef(Py_NotImplemented);
}

PyObject* shmt__py_overloaded_refuse(const shmt__py_overloaded* a, PyObject* protocol, PyObject* name, PyObject* mode) {
  PyObject* text = PyUnicode_FromFormat(
      "Multiple dispatch failed for '%U'; all %U handlers returned NotImplemented:\n", name, protocol);
  if (text && mode) Py_SETREF(text, PyUnicode_FromFormat("%U\n  - mode object %R", text, mode));
  for (int i = 0; text && i < a->n; i++)
    Py_SETREF(text, PyUnicode_FromFormat("%U\n  - tensor subclass %R", text, Py_TYPE(a->objects[i])));
  if (text) PyErr_SetObject(PyExc_TypeError, text);
  Py_XDECREF(text);
  return NULL;
}
