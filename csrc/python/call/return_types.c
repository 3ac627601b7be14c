/* python/call/return_types.c -- the named tuples that operators return, as torch.return_types.max. */
#include "python/call/return_types.h"

#include "python/call/prepare.h"

#include <string.h>
#include <structmember.h>

enum { MAX_FIELDS = SHMT_SCHEMA_MAX_RETURNS };
static const char PREFIX[] = "torch.return_types.";

static PyObject* known;         /* dict: name -> type */
static PyObject* make_function; /* _C._named_result */

static const char* short_name(PyObject* self) {
  const char* dot = strrchr(Py_TYPE(self)->tp_name, '.');
  return dot ? dot + 1 : Py_TYPE(self)->tp_name;
}

/* torch.return_types.max(
 * values=tensor(2.),
 * indices=tensor(0)) */
static PyObject* result_repr(PyObject* self) {
  const PyMemberDef* fields = Py_TYPE(self)->tp_members;
  PyObject* text = PyUnicode_FromFormat("%s%s(", PREFIX, short_name(self));
  for (Py_ssize_t i = 0; text != NULL && i < PyTuple_GET_SIZE(self); i++) {
    PyObject* line = PyUnicode_FromFormat("%s\n%s=%R", i > 0 ? "," : "", fields[i].name,
                                          PyTuple_GET_ITEM(self, i));
    PyObject* longer = line ? PyUnicode_Concat(text, line) : NULL;
    Py_XDECREF(line);
    Py_SETREF(text, longer);
  }
  if (text == NULL) return NULL;
  PyObject* result = PyUnicode_FromFormat("%U)", text);
  Py_DECREF(text);
  return result;
}

/* Pickled as a call with the names in it: the type may not exist yet where it is unpickled. */
static PyObject* result_reduce(PyObject* self, PyObject* unused) {
  const PyMemberDef* field = Py_TYPE(self)->tp_members;
  (void)unused;
  PyObject* fields = PyUnicode_FromString("");
  for (Py_ssize_t i = 0; fields != NULL && i < PyTuple_GET_SIZE(self); i++)
    Py_SETREF(fields, PyUnicode_FromFormat("%U%s%s", fields, i > 0 ? " " : "", field[i].name));
  if (fields == NULL) return NULL;
  PyObject* values = PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self));
  if (values != NULL && PyTuple_CheckExact(values))
    return Py_BuildValue("O(sNN)", make_function, short_name(self), fields, values);
  Py_DECREF(fields);
  Py_XDECREF(values);
  return NULL;
}

static PyTypeObject* make_type(const char* name, const char* words) {
  static PyMethodDef reduce = {"__reduce__", result_reduce, METH_NOARGS, NULL};
  PyStructSequence_Field fields[MAX_FIELDS + 1] = {{NULL, NULL}};
  char* text = PyMem_Malloc(strlen(words) + 1); /* the type keeps pointing into it */
  char* full_name = PyMem_Malloc(sizeof PREFIX + strlen(name));
  if (text == NULL || full_name == NULL) {
    PyMem_Free(text);
    PyMem_Free(full_name);
    PyErr_NoMemory();
    return NULL;
  }
  strcpy(text, words);
  strcpy(full_name, PREFIX);
  strcat(full_name, name);
  int n = 0;
  char* rest = NULL;
  for (char* word = strtok_r(text, " ", &rest); word && n < MAX_FIELDS;
       word = strtok_r(NULL, " ", &rest))
    fields[n++] = (PyStructSequence_Field){word, ""};
  PyStructSequence_Desc desc = {full_name, "Named results.", fields, n};
  PyTypeObject* type = PyStructSequence_NewType(&desc);
#if PY_VERSION_HEX >= 0x030b0000
  PyMem_Free(full_name); /* the type has its own copy, which older versions' types lack */
#endif
  if (type == NULL) return NULL;
  type->tp_repr = result_repr;
  PyObject* method = PyDescr_NewMethod(type, &reduce);
  if (method == NULL || PyObject_SetAttrString((PyObject*)type, "__reduce__", method) < 0)
    Py_CLEAR(type);
  Py_XDECREF(method);
  return type;
}

PyTypeObject* shmt__py_return_type(const char* name, const char* fields) {
  if (known == NULL && (known = PyDict_New()) == NULL) return NULL;
  PyObject* type = PyDict_GetItemString(known, name);
  if (type != NULL) return (PyTypeObject*)type;
  PyTypeObject* made = make_type(name, fields);
  if (made == NULL) return NULL;
  int failed = PyDict_SetItemString(known, name, (PyObject*)made);
  Py_DECREF(made); /* the dict keeps it */
  return failed ? NULL : made;
}

/* _named_result(name, fields, values) */
static PyObject* py_named_result(PyObject* module, PyObject* args) {
  const char *name, *fields;
  PyObject* values;
  (void)module;
  if (!PyArg_ParseTuple(args, "ssO!:_named_result", &name, &fields, &PyTuple_Type, &values))
    return NULL;
  PyTypeObject* type = shmt__py_return_type(name, fields);
  return type ? PyObject_CallOneArg((PyObject*)type, values) : NULL;
}

int shmt__py_return_types_init(PyObject* module) {
  make_function = PyObject_GetAttrString(module, "_named_result");
  return make_function ? 0 : -1;
}

PyMethodDef shmt__py_return_type_functions[] = {
    {"_named_result", py_named_result, METH_VARARGS,
     "A result with named fields: the type's name, the fields as words, a tuple of values."},
    {NULL, NULL, 0, NULL},
};
