/* python/nn/modules.c -- what nn.Module does most: being called, and finding its parameters.
 *
 * Note [Attributes of modules]
 * Parameters, buffers and child modules lie in dicts of their module, its registries; Module.__getattr__ finds them
 * there. For a class that has a __getattr__ the interpreter makes an AttributeError first, and then calls a function in
 * Python: that is slower than the smallest operators are. So get_attribute() looks into the registries in between. It
 * is the slot of those classes that have Module.__getattr__ and object.__getattribute__ alone. Whenever one of the two
 * changes for a class, the interpreter puts its own slot back; the next call of a module of that class looks whether it
 * may have ours again.
 */
#include "python/nn/modules.h"

#include "python/call/overrides.h"

enum { N_REGISTRIES = 3, N_HOOKS = 4 };

static const char* const registry_texts[N_REGISTRIES] = {"_parameters", "_buffers", "_modules"};
static const char* const hook_texts[N_HOOKS] = {"_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
                                                "_backward_pre_hooks"};

/* What _module_call() is given and looks up; owned until the process ends. */
static struct {
  PyObject* registries[N_REGISTRIES]; /* their names, interned, as those that follow */
  PyObject* hooks[N_HOOKS];
  PyObject *forward, *call_with_hooks, *getattr, *getattribute;
  PyObject* plain_getattr;      /* Module.__getattr__ */
  PyObject* plain_getattribute; /* object.__getattribute__ */
  PyObject* global_hooks;       /* the dicts of hooks of all modules: a tuple */
} names;

/* A dict whose items are what its class says: others may say something else when they are asked in Python. */
static bool is_plain_dict(PyObject* o) { return PyDict_CheckExact(o) || PyODict_CheckExact(o); }

/* --- attributes ------------------------------------------------------------------------------ */

/* What the registries have under a name; NULL, maybe with an exception, when they have nothing. */
static PyObject* find_registered(PyObject* self, PyObject* name) {
  PyObject* own = PyObject_GenericGetDict(self, NULL);
  PyObject* found = NULL;
  for (int i = 0; own != NULL && found == NULL && i < N_REGISTRIES && !PyErr_Occurred(); i++) {
    /* Kept: keys may be compared in Python, which may drop the registry. */
    PyObject* registry = Py_XNewRef(PyDict_GetItemWithError(own, names.registries[i]));
    if (registry != NULL && is_plain_dict(registry)) found = Py_XNewRef(PyDict_GetItemWithError(registry, name));
    Py_XDECREF(registry);
  }
  Py_XDECREF(own);
  return found;
}

/* tp_getattro; see Note [Attributes of modules]. */
static PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* o = _PyObject_GenericGetAttrWithDict(self, name, NULL, 1); /* 1: without an AttributeError */
  if (o == NULL && !PyErr_Occurred()) o = find_registered(self, name);
  if (o != NULL || PyErr_Occurred()) return o;
  return PyObject_CallFunctionObjArgs(names.plain_getattr, self, name, NULL);
}

/* Does the class use get_attribute(), from now on if not before? */
static inline bool has_own_slot(PyTypeObject* type) {
  if (SHMT_LIKELY(type->tp_getattro == get_attribute)) return true;
  if (_PyType_Lookup(type, names.getattr) != names.plain_getattr ||
      _PyType_Lookup(type, names.getattribute) != names.plain_getattribute)
    return false;
  type->tp_getattro = get_attribute;
  return true;
}

/* --- calls ----------------------------------------------------------------------------------- */

/* Is there a hook under that name? own: the dict of self; NULL when its class says where attributes are. -1 with an
 * exception. */
static inline int has_hook(PyObject* self, PyObject* own, PyObject* name) {
  PyObject* hooks = own != NULL ? PyDict_GetItemWithError(own, name) : NULL;
  if (SHMT_LIKELY(hooks != NULL && is_plain_dict(hooks))) return PyDict_GET_SIZE(hooks) != 0;
  hooks = PyErr_Occurred() ? NULL : PyObject_GetAttr(self, name);
  const int r = hooks != NULL ? PyObject_IsTrue(hooks) : -1;
  Py_XDECREF(hooks);
  return r;
}

/* Does the module have hooks, or do all modules have some? -1 with an exception. */
static int has_hooks(PyObject* self) {
  PyObject* own = NULL;
  int r = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.global_hooks); i++)
    if (PyDict_GET_SIZE(PyTuple_GET_ITEM(names.global_hooks, i)) != 0) return 1;
  if (has_own_slot(Py_TYPE(self)) && (own = PyObject_GenericGetDict(self, NULL)) == NULL) return -1;
  for (int i = 0; r == 0 && i < N_HOOKS; i++) r = has_hook(self, own, names.hooks[i]);
  Py_XDECREF(own);
  return r;
}

static SHMT_COLD PyObject* call_with_hooks(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  PyObject *positional, *kwargs;
  if (shmt__py_pack_arguments(NULL, args, n, kwnames, &positional, &kwargs) < 0) return NULL;
  PyObject* r = PyObject_CallMethodObjArgs(self, names.call_with_hooks, positional, kwargs, NULL);
  Py_DECREF(positional);
  Py_DECREF(kwargs);
  return r;
}

/* Module.__call__ */
static PyObject* call_module(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  const int hooked = has_hooks(self);
  if (SHMT_UNLIKELY(hooked != 0)) return hooked < 0 ? NULL : call_with_hooks(self, args, n, kwnames);
  PyObject* forward = PyObject_GetAttr(self, names.forward);
  if (SHMT_UNLIKELY(forward == NULL)) return NULL;
  PyObject* r = PyObject_Vectorcall(forward, args, (size_t)n, kwnames);
  Py_DECREF(forward);
  return r;
}

/* --- the function of the module ---------------------------------------------------------------- */

static int intern_all(PyObject** out, const char* const* texts, int n) {
  for (int i = 0; i < n; i++)
    if ((out[i] = PyUnicode_InternFromString(texts[i])) == NULL) return -1;
  return 0;
}

/* _module_call(cls, hooks): cls is Module, hooks are the dicts of hooks of all modules. */
static PyObject* module_call(PyObject* module, PyObject* args) {
  static const char* const others[] = {"forward", "_call_with_hooks", "__getattr__", "__getattribute__"};
  static PyMethodDef def = {"__call__", (PyCFunction)(void (*)(void))call_module, METH_FASTCALL | METH_KEYWORDS,
                            "__call__($self, /, *args, **kwargs)\n--\n\nRun ``forward`` and the hooks around it."};
  PyTypeObject* cls;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O!:_module_call", &PyType_Type, &cls, &PyTuple_Type, &names.global_hooks)) return NULL;
  PyObject* found[4];
  if (intern_all(names.registries, registry_texts, N_REGISTRIES) < 0 ||
      intern_all(names.hooks, hook_texts, N_HOOKS) < 0 || intern_all(found, others, 4) < 0)
    return NULL;
  names.forward = found[0];
  names.call_with_hooks = found[1];
  names.getattr = found[2];
  names.getattribute = found[3];
  names.plain_getattr = Py_XNewRef(_PyType_Lookup(cls, names.getattr));
  names.plain_getattribute = Py_XNewRef(_PyType_Lookup(&PyBaseObject_Type, names.getattribute));
  Py_INCREF(names.global_hooks);
  return PyDescr_NewMethod(cls, &def);
}

PyMethodDef shmt__py_nn_module_functions[] = {
    {"_module_call", module_call, METH_VARARGS,
     "_module_call(cls, hooks)\n--\n\nThe __call__ of Module, given the dicts of hooks of all modules."},
    {NULL, NULL, 0, NULL},
};
