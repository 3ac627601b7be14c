/* python/call/overrides.c -- __torch_function__: arguments whose class overrides calls. */
#include "python/call/overrides.h"

#include "python/call/convert.h"

#include <string.h>

enum { FEW_OVERLOADED = 16 };

static PyObject* torch_function_name;      /* "__torch_function__" */
static PyObject* default_torch_function;   /* the function of Tensor.__torch_function__ */
static PyObject* disabled_torch_function;  /* _disabled_torch_function_impl */
static PyObject* function_modules; /* modules in which functions are looked up */
static _Thread_local int n_disabled;    /* regions that treat subclasses as plain */

/* Modes: objects that answer every call of their thread, the innermost last. */
enum { MAX_MODES = 256 };
_Thread_local int shmt__py_n_function_modes __attribute__((tls_model("initial-exec")));
static _Thread_local PyObject** function_modes; /* owned references; comes with the first mode */

/* Does the class have a __torch_function__ of its own? */
static bool has_own_torch_function(PyTypeObject* type) {
  if (type == shmt__py_tensor_type || type == shmt__py_base_type || torch_function_name == NULL)
    return false;
  if (type->tp_flags & (Py_TPFLAGS_LONG_SUBCLASS | Py_TPFLAGS_LIST_SUBCLASS |
                        Py_TPFLAGS_TUPLE_SUBCLASS | Py_TPFLAGS_UNICODE_SUBCLASS |
                        Py_TPFLAGS_DICT_SUBCLASS | Py_TPFLAGS_TYPE_SUBCLASS))
    return false;
  PyObject* found = _PyType_Lookup(type, torch_function_name); /* borrowed */
  if (found == NULL || found == disabled_torch_function) return false;
  PyObject* own = NULL;
  if (Py_IS_TYPE(found, &PyClassMethod_Type)) {
    own = PyObject_GetAttrString(found, "__func__");
    if (own == NULL) PyErr_Clear();
    Py_XDECREF(own); /* the class keeps it */
  }
  return own != default_torch_function;
}

/* --- overloaded arguments, in the order of their calls ------------------------------------------------------- */

typedef struct overloaded_args {
  PyObject* few[FEW_OVERLOADED];
  PyObject** objects; /* owned, since a handler may empty the list that an argument is; one of each class, subclasses
                       * before their bases. `few`, or of the heap */
  int n, capacity;
} overloaded_args;

static void overloaded_free_heap(overloaded_args* a) {
  if (a->objects != a->few) PyMem_Free(a->objects);
}

static void overloaded_fini(overloaded_args* a) {
  for (int i = 0; i < a->n; i++) Py_DECREF(a->objects[i]);
  overloaded_free_heap(a);
}

/* -1 with MemoryError. */
static int overloaded_grow(overloaded_args* a) {
  const size_t bytes = sizeof *a->objects * (size_t)a->capacity;
  PyObject** grown = PyMem_Malloc(2 * bytes);
  if (grown == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  memcpy(grown, a->objects, bytes);
  overloaded_free_heap(a);
  a->objects = grown;
  a->capacity *= 2;
  return 0;
}

/* -1 with MemoryError. */
static int add_overloaded(overloaded_args* a, PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (!has_own_torch_function(type)) return 0;
  int at = a->n;
  for (int i = 0; i < a->n; i++) {
    if (Py_TYPE(a->objects[i]) == type) return 0;
    if (at == a->n && PyType_IsSubtype(type, Py_TYPE(a->objects[i]))) at = i;
  }
  if (a->n == a->capacity && overloaded_grow(a) < 0) return -1;
  memmove(&a->objects[at + 1], &a->objects[at], sizeof a->objects[0] * (size_t)(a->n - at));
  a->objects[at] = Py_NewRef(o);
  a->n++;
  return 0;
}

/* -1 with MemoryError. */
static int add_from(overloaded_args* a, PyObject* o) {
  Py_ssize_t n = 0;
  PyObject** items = shmt__py_items(o, &n);
  if (items == NULL) return add_overloaded(a, o);
  int status = 0;
  for (Py_ssize_t i = 0; i < n && status == 0; i++) status = add_overloaded(a, items[i]);
  return status;
}

/* -1 with MemoryError. */
static int collect(overloaded_args* a, const shmt__py_call_args* call) {
  Py_ssize_t n = call->n_args + (call->kwnames ? PyTuple_GET_SIZE(call->kwnames) : 0);
  int status = call->self ? add_overloaded(a, call->self) : 0;
  for (Py_ssize_t i = 0; i < n && status == 0; i++) status = add_from(a, call->args[i]);
  return status;
}

/* --- calling __torch_function__ ----------------------------------------------------- */

/* The public object of the function: new reference; NULL without an exception when there is none. */
static PyObject* function_object(const shmt__py_function* f) {
  if (f->is_method) {
    PyObject* o = PyObject_GetAttrString((PyObject*)shmt__py_tensor_type, f->name);
    if (o == NULL) PyErr_Clear();
    return o;
  }
  Py_ssize_t n = function_modules ? PyTuple_GET_SIZE(function_modules) : 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* o = PyObject_GetAttrString(PyTuple_GET_ITEM(function_modules, i), f->name);
    if (o != NULL) return o;
    PyErr_Clear();
  }
  return NULL;
}

static PyObject* types_of(const overloaded_args* a) {
  PyObject* types = PyTuple_New(a->n);
  for (int i = 0; types && i < a->n; i++)
    PyTuple_SET_ITEM(types, i, Py_NewRef(Py_TYPE(a->objects[i])));
  return types;
}

static int arguments_of(const shmt__py_call_args* call, PyObject** args, PyObject** kwargs) {
  Py_ssize_t first = call->self ? 1 : 0;
  Py_ssize_t n_kw = call->kwnames ? PyTuple_GET_SIZE(call->kwnames) : 0;
  *args = PyTuple_New(first + call->n_args);
  *kwargs = PyDict_New();
  if (!*args || !*kwargs) return -1;
  if (call->self) PyTuple_SET_ITEM(*args, 0, Py_NewRef(call->self));
  for (Py_ssize_t i = 0; i < call->n_args; i++)
    PyTuple_SET_ITEM(*args, first + i, Py_NewRef(call->args[i]));
  for (Py_ssize_t i = 0; i < n_kw; i++)
    if (PyDict_SetItem(*kwargs, PyTuple_GET_ITEM(call->kwnames, i),
                       call->args[call->n_args + i]) < 0)
      return -1;
  return 0;
}

static PyObject* raise_not_implemented(PyObject* function, const overloaded_args* a) {
  PyObject* text = PyUnicode_FromFormat(
      "Multiple dispatch failed for %R; all __torch_function__ handlers returned NotImplemented:\n",
      function);
  for (int i = 0; text && i < a->n; i++)
    Py_SETREF(text, PyUnicode_FromFormat("%U\n  - %R", text, Py_TYPE(a->objects[i])));
  if (text) PyErr_SetObject(PyExc_TypeError, text);
  Py_XDECREF(text);
  return NULL;
}

static PyObject* call_each(const overloaded_args* a, PyObject* function, PyObject* args,
                          PyObject* kwargs) {
  PyObject* types = types_of(a);
  for (int i = 0; types && i < a->n; i++) {
    PyObject* answer = PyObject_GetAttr(a->objects[i], torch_function_name);
    PyObject* r =
        answer ? PyObject_CallFunctionObjArgs(answer, function, types, args, kwargs, NULL) : NULL;
    Py_XDECREF(answer);
    if (r != Py_NotImplemented) {
      Py_DECREF(types);
      return r;
    }
    Py_DECREF(r);
  }
  if (types == NULL) return NULL;
  Py_DECREF(types);
  return raise_not_implemented(function, a);
}

/* A call that __torch_function__ is handling, on the stack of its thread. */
typedef struct torch_function_call {
  const shmt__py_function* f;
  const shmt__py_call_args* call;
  const struct torch_function_call* outer;
} torch_function_call;

static _Thread_local const torch_function_call* innermost;

/* Has __torch_function__ called the function again with the same arguments? Tensors of another library do so. */
static bool is_recursive(const shmt__py_function* f, const shmt__py_call_args* call) {
  const torch_function_call* a = innermost;
  if (a == NULL || a->f != f) return false;
  const shmt__py_call_args* before = a->call;
  Py_ssize_t n = call->n_args + (call->kwnames ? PyTuple_GET_SIZE(call->kwnames) : 0);
  Py_ssize_t n_before = before->n_args + (before->kwnames ? PyTuple_GET_SIZE(before->kwnames) : 0);
  if (n != n_before || call->self != before->self) return false;
  for (Py_ssize_t i = 0; i < n; i++)
    if (call->args[i] != before->args[i]) return false;
  return true;
}

/* Call the innermost mode, off the stack meanwhile, so that what it calls reaches the next one. */
static PyObject* call_mode(const overloaded_args* a, PyObject* function, PyObject* args,
                           PyObject* kwargs) {
  PyObject* types = types_of(a);
  if (types == NULL) return NULL;
  PyObject* mode = function_modes[--shmt__py_n_function_modes];
  PyObject* r = PyObject_CallMethod(mode, "__torch_function__", "OOOO", function, types, args,
                                    kwargs);
  function_modes[shmt__py_n_function_modes++] = mode;
  Py_DECREF(types);
  return r;
}

/* The answer of the modes and the classes in `a`; NULL without an exception when there are none. */
static PyObject* call_overrides(const shmt__py_function* f, const shmt__py_call_args* call, const overloaded_args* a) {
  const bool has_mode = shmt__py_n_function_modes > 0;
  if (a->n == 0 && !has_mode) return NULL;
  PyObject* function = function_object(f);
  if (function == NULL) return NULL;
  PyObject *args = NULL, *kwargs = NULL, *r = NULL;
  if (arguments_of(call, &args, &kwargs) == 0) {
    if (has_mode) r = call_mode(a, function, args, kwargs);
    if (!has_mode || r == Py_NotImplemented) {
      Py_XDECREF(r);
      torch_function_call here = {f, call, innermost};
      innermost = &here;
      r = call_each(a, function, args, kwargs);
      innermost = here.outer;
    }
  }
  Py_XDECREF(args);
  Py_XDECREF(kwargs);
  Py_DECREF(function);
  return r;
}

PyObject* shmt__py_call_torch_function(const shmt__py_function* f, const shmt__py_call_args* call) {
  overloaded_args a = {.objects = a.few, .capacity = FEW_OVERLOADED};
  const bool skips_classes = n_disabled > 0 || is_recursive(f, call);
  PyObject* r = skips_classes || collect(&a, call) == 0 ? call_overrides(f, call, &a) : NULL;
  overloaded_fini(&a);
  return r;
}

/* --- subclasses that do not override calls -------------------------------------------------- */

/* A function that runs with __torch_function__ disabled, on the stack of its thread. */
typedef struct disabled_call {
  PyObject *func, *args, *kwargs; /* borrowed; kwargs may be NULL */
  const struct disabled_call* outer;
} disabled_call;

static _Thread_local const disabled_call* innermost_disabled;

static bool same_keywords(PyObject* a, PyObject* b) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  if ((a ? PyDict_GET_SIZE(a) : 0) != (b ? PyDict_GET_SIZE(b) : 0)) return false;
  while (a && PyDict_Next(a, &at, &key, &value))
    if (PyDict_GetItem(b, key) != value) return false;
  return true;
}

/* Does the function call __torch_function__ once more, with the same arguments? Ours never does. It is a function of
 * another library, which takes the tensor for one of its own. */
static bool is_foreign_library(const disabled_call* here) {
  const disabled_call* before = here->outer;
  if (before == NULL || before->func != here->func) return false;
  Py_ssize_t n = PyTuple_GET_SIZE(here->args);
  if (n != PyTuple_GET_SIZE(before->args)) return false;
  for (Py_ssize_t i = 0; i < n; i++)
    if (PyTuple_GET_ITEM(here->args, i) != PyTuple_GET_ITEM(before->args, i)) return false;
  return same_keywords(here->kwargs, before->kwargs);
}

static PyObject* raise_foreign_library(PyObject* func) {
  PyObject* name = PyObject_GetAttrString(func, "__name__");
  if (name == NULL) PyErr_Clear();
  PyErr_Format(PyExc_TypeError,
               "%S() of another library got a tensor of shmtensor: give it what its from_dlpack() "
               "makes of the tensor, which shares the memory",
               name ? name : func);
  Py_XDECREF(name);
  return NULL;
}

/* _disabled_torch_function_impl(func, types, args, kwargs): call func as if its arguments were
 * plain. */
static PyObject* disabled_impl(PyObject* module, PyObject* args) {
  PyObject *func, *types, *call_args = NULL, *kwargs = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO|OO:_disabled_torch_function_impl", &func, &types, &call_args,
                        &kwargs))
    return NULL;
  if (kwargs == Py_None) kwargs = NULL;
  if (kwargs != NULL && !PyDict_Check(kwargs))
    return PyErr_Format(PyExc_TypeError, "kwargs must be dict, not %s", Py_TYPE(kwargs)->tp_name);
  PyObject* positional = call_args ? PySequence_Tuple(call_args) : PyTuple_New(0);
  if (positional == NULL) return NULL;
  disabled_call here = {func, positional, kwargs, innermost_disabled};
  PyObject* r;
  if (is_foreign_library(&here)) {
    r = raise_foreign_library(func);
  } else {
    innermost_disabled = &here;
    n_disabled++;
    r = PyObject_Call(func, positional, here.kwargs);
    n_disabled--;
    innermost_disabled = here.outer;
  }
  Py_DECREF(positional);
  return r;
}

PyTypeObject* shmt__py_result_type(PyTypeObject* operand) {
  static PyTypeObject* plain_before; /* the last class with plain results; owned */
  if (operand == plain_before || operand == shmt__py_tensor_type || operand == shmt__py_base_type)
    return shmt__py_tensor_type;
  if (n_disabled > 0) return shmt__py_tensor_type;
  PyObject* impl = PyObject_GetAttrString((PyObject*)operand, "__torch_function__");
  if (impl == NULL) PyErr_Clear();
  Py_XDECREF(impl);
  if (impl == NULL || impl != disabled_torch_function) return operand;
  Py_INCREF(operand);
  Py_XSETREF(plain_before, operand);
  return shmt__py_tensor_type;
}

/* --- module functions -------------------------------------------------------------------- */

/* _set_torch_function(default function, disabled function, modules) */
static PyObject* set_torch_function(PyObject* module, PyObject* args) {
  PyObject *function, *disabled, *modules;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOO!", &function, &disabled, &PyTuple_Type, &modules)) return NULL;
  if (!torch_function_name && !(torch_function_name = PyUnicode_InternFromString("__torch_function__")))
    return NULL;
  Py_XSETREF(default_torch_function, Py_NewRef(function));
  Py_XSETREF(disabled_torch_function, Py_NewRef(disabled));
  Py_XSETREF(function_modules, Py_NewRef(modules));
  Py_RETURN_NONE;
}

static PyObject* change_disabled_depth(PyObject* module, PyObject* by) {
  (void)module;
  long change = PyLong_AsLong(by);
  if (change == -1 && PyErr_Occurred()) return NULL;
  n_disabled += (int)change;
  return PyLong_FromLong(n_disabled);
}

static PyObject* has_override(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  if (shmt__py_n_function_modes) Py_RETURN_TRUE;
  for (Py_ssize_t i = 0; n_disabled == 0 && i < n; i++)
    if (has_own_torch_function(Py_TYPE(args[i]))) Py_RETURN_TRUE;
  Py_RETURN_FALSE;
}

static PyObject* push_mode(PyObject* module, PyObject* mode) {
  (void)module;
  if (!function_modes && !(function_modes = PyMem_RawCalloc(MAX_MODES, sizeof *function_modes)))
    return PyErr_NoMemory();
  if (shmt__py_n_function_modes == MAX_MODES)
    return PyErr_Format(PyExc_RecursionError, "more than %d function modes at a time", MAX_MODES);
  function_modes[shmt__py_n_function_modes++] = Py_NewRef(mode);
  Py_RETURN_NONE;
}

static PyObject* pop_mode(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  if (shmt__py_n_function_modes == 0)
    return PyErr_Format(PyExc_RuntimeError, "no function mode is active on this thread");
  return function_modes[--shmt__py_n_function_modes];
}

static PyObject* mode_at(PyObject* module, PyObject* index) {
  (void)module;
  long i = PyLong_AsLong(index);
  if (i == -1 && PyErr_Occurred()) return NULL;
  if (i < 0 || i >= shmt__py_n_function_modes)
    return PyErr_Format(PyExc_IndexError, "function mode %ld of %d", i, shmt__py_n_function_modes);
  return Py_NewRef(function_modes[i]);
}

static PyObject* mode_depth(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(shmt__py_n_function_modes);
}

PyMethodDef shmt__py_override_functions[] = {
    {"_push_function_mode", push_mode, METH_O, "Let an object answer this thread's calls."},
    {"_pop_function_mode", pop_mode, METH_NOARGS,
     "Undo the last push on this thread; returns the object."},
    {"_function_mode_at", mode_at, METH_O, "A mode of this thread, the outermost first."},
    {"_function_mode_depth", mode_depth, METH_NOARGS,
     "How many function modes are active on this thread."},
    {"_disabled_torch_function_impl", disabled_impl, METH_VARARGS,
     "As a class's __torch_function__: results of operators on it are plain tensors."},
    {"_set_torch_function", set_torch_function, METH_VARARGS,
     "Name the default and the disabled __torch_function__, and the modules of functions."},
    {"_change_overrides_off", change_disabled_depth, METH_O,
     "Enter (1) or leave (-1) a region that treats subclasses as plain; returns the depth."},
    {"_has_override", (PyCFunction)(void (*)(void))has_override, METH_FASTCALL,
     "Does one of the arguments, or a mode, answer calls itself?"},
    {NULL, NULL, 0, NULL},
};
