/* python/overridable/functions.c -- functions written in Python whose arguments may answer their calls.
 *
 * Such a function stands behind an object that looks at the classes of its arguments first. With plain ones it costs
 * a few nanoseconds, which a check in Python would not. To programs the object is the function: its attributes are the
 * function's, isinstance() takes it for one, and pickles have its name.
 */
#include "python/overridable/functions.h"

#include "python/call/convert.h"
#include "python/call/overrides.h"
#include "python/values/tensor_object.h"

#include <structmember.h>

typedef struct overridable {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* function; /* what a call does when nobody answers it */
  vectorcallfunc call; /* of the function */
  PyObject* straight; /* the operator that calls of positional arguments alone are, none of them None; or NULL */
  int least, most;    /* how many arguments such a call has */
  PyObject* answer;   /* answer(self, args, kwargs) lets the arguments answer */
  PyObject* weak_references;
} overridable;

static PyTypeObject* overridable_type;

static SHMT_COLD bool holds_answering(PyObject* o) {
  Py_ssize_t n = 0;
  PyObject** items = shmt__py_items(o, &n);
  for (Py_ssize_t i = 0; items && i < n; i++)
    if (!shmt__py_is_plain(items[i]) && shmt__py_has_torch_function(Py_TYPE(items[i]))) return true;
  return items == NULL && shmt__py_has_torch_function(Py_TYPE(o));
}

static inline bool has_answering(PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; i++)
    if (SHMT_UNLIKELY(!shmt__py_is_plain(args[i])) && Py_TYPE(args[i]) != &PyUnicode_Type && holds_answering(args[i]))
      return true;
  return false;
}

static SHMT_COLD PyObject* let_answer(const overridable* f, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  PyObject *positional, *kwargs;
  if (shmt__py_pack_arguments(NULL, args, n, kwnames, &positional, &kwargs) < 0) return NULL;
  PyObject* r = PyObject_CallFunctionObjArgs(f->answer, (PyObject*)f, positional, kwargs, NULL);
  Py_DECREF(positional);
  Py_DECREF(kwargs);
  return r;
}

static inline bool has_no_none(PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; i++)
    if (args[i] == Py_None) return false;
  return true;
}

static PyObject* overridable_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const overridable* f = (const overridable*)self;
  const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
  const Py_ssize_t n_kw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  if (SHMT_UNLIKELY(shmt__py_n_function_modes || has_answering(args, n + n_kw))) return let_answer(f, args, n, kwnames);
  if (f->straight && n_kw == 0 && n >= f->least && n <= f->most && has_no_none(args, n))
    return PyObject_Vectorcall(f->straight, args, nargsf, NULL);
  return f->call(f->function, args, nargsf, kwnames);
}

/* There is no tp_clear: a cycle goes through the function's module, whose dict is cleared, and until its end the object
 * can be called. */
static int overridable_traverse(PyObject* self, visitproc visit, void* arg) {
  overridable* f = (overridable*)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(f->function);
  Py_VISIT(f->straight);
  Py_VISIT(f->answer);
  return 0;
}

static void overridable_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  overridable* f = (overridable*)self;
  if (f->weak_references) PyObject_ClearWeakRefs(self);
  Py_XDECREF(f->function);
  Py_XDECREF(f->straight);
  Py_XDECREF(f->answer);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject* overridable_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject *function, *straight, *answer;
  int least, most;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "O!O(ii)O:_Overridable", &PyFunction_Type, &function, &straight, &least, &most, &answer))
    return NULL;
  overridable* f = (overridable*)type->tp_alloc(type, 0);
  if (f == NULL) return NULL;
  f->vectorcall = overridable_vectorcall;
  f->function = Py_NewRef(function);
  f->call = PyVectorcall_Function(function);
  f->straight = straight == Py_None ? NULL : Py_NewRef(straight);
  f->least = least;
  f->most = most;
  f->answer = Py_NewRef(answer);
  return (PyObject*)f;
}

static PyObject* overridable_repr(PyObject* self) {
  return PyObject_Repr(((overridable*)self)->function);
}

/* In a class it is a method, as a function is. */
static PyObject* overridable_get(PyObject* self, PyObject* object, PyObject* type) {
  (void)type;
  return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

static PyObject* overridable_getattro(PyObject* self, PyObject* name) {
  overridable* f = (overridable*)self;
  if (PyUnicode_CompareWithASCIIString(name, "__wrapped__") == 0) return Py_NewRef(f->function);
  if (PyUnicode_CompareWithASCIIString(name, "__reduce__") == 0 ||
      PyUnicode_CompareWithASCIIString(name, "__reduce_ex__") == 0)
    return PyObject_GenericGetAttr(self, name);
  return PyObject_GetAttr(f->function, name);
}

static int overridable_setattro(PyObject* self, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(((overridable*)self)->function, name, value);
}

/* Pickles have the name alone. */
static PyObject* overridable_reduce(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyObject_GetAttrString(((overridable*)self)->function, "__qualname__");
}

static PyMethodDef overridable_methods[] = {
    {"__reduce__", overridable_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef overridable_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(overridable, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(overridable, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot overridable_slots[] = {
    {Py_tp_new, overridable_new},           {Py_tp_dealloc, overridable_dealloc},
    {Py_tp_traverse, overridable_traverse}, {Py_tp_call, PyVectorcall_Call},
    {Py_tp_repr, overridable_repr},         {Py_tp_descr_get, overridable_get},
    {Py_tp_getattro, overridable_getattro}, {Py_tp_setattro, overridable_setattro},
    {Py_tp_methods, overridable_methods},   {Py_tp_members, overridable_members},
    {0, NULL},
};

static PyType_Spec overridable_spec = {.name = "shmtensor._C._Overridable",
                                       .basicsize = sizeof(overridable),
                                       .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                                Py_TPFLAGS_METHOD_DESCRIPTOR,
                                       .slots = overridable_slots};

int shmt__py_overridable_init(PyObject* module) {
  overridable_type = (PyTypeObject*)PyType_FromSpec(&overridable_spec);
  if (overridable_type == NULL) return -1;
  return PyModule_AddObjectRef(module, "_Overridable", (PyObject*)overridable_type);
}
