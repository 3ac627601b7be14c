/* python/call/overrides.c -- __torch_function__: arguments whose class overrides calls. */
#include "python/call/overrides.h"

#include "python/call/convert.h"
#include "python/values/overloaded.h"

#include <string.h>

enum { FEW_MODES = 16 };

/* Modes: objects that answer every call of their thread, the innermost last. */
static _Thread_local PyObject** function_modes; /* owned references; comes with the first mode */
static _Thread_local int modes_capacity;
static _Thread_local int n_modes_busy; /* off the stack, to come back when their call ends */

/* --- overloaded arguments, in the order of their calls ------------------------------------------------------- */

/* -1 with MemoryError. */
static int add_overloaded(shmt__py_overloaded* a, PyObject* o) {
  return shmt__py_has_own_torch_function(Py_TYPE(o)) ? shmt__py_overloaded_add(a, o) : 0;
}

/* -1 with MemoryError. */
static int add_from(shmt__py_overloaded* a, PyObject* o) {
  Py_ssize_t n = 0;
  PyObject** items = shmt__py_items(o, &n);
  if (items == NULL) return add_overloaded(a, o);
  int status = 0;
  for (Py_ssize_t i = 0; i < n && status == 0; i++) status = add_overloaded(a, items[i]);
  return status;
}

/* The keyword argument of a parameter, or NULL. */
static PyObject* keyword_of(const shmt__py_call_args* call, const shmt__py_arg* parameter) {
  for (Py_ssize_t k = 0; call->kwnames && k < PyTuple_GET_SIZE(call->kwnames); k++)
    if (shmt__py_is_argument_name(parameter, PyTuple_GET_ITEM(call->kwnames, k)))
      return call->args[call->n_args + k];
  return NULL;
}

/* In the order of the parameters, out= last. -1 with MemoryError. */
static int collect(shmt__py_overloaded* a, const shmt__py_prepared_signature* sig, const shmt__py_call_args* call) {
  int status = call->self ? add_overloaded(a, call->self) : 0;
  for (Py_ssize_t i = 0; i < call->n_args && status == 0; i++) status = add_from(a, call->args[i]);
  for (int i = 0; i < sig->n_args && call->kwnames && status == 0; i++) {
    PyObject* o = keyword_of(call, &sig->args[i]);
    if (o) status = add_from(a, o);
  }
  return status == 0 && call->out ? add_from(a, call->out) : status;
}

/* --- calling __torch_function__ ----------------------------------------------------- */

/* The namespace of a function that is not in the first of the modules. */
static const char* space_of(const char* name) {
  if (strncmp(name, "linalg_", 7) == 0) return "torch.linalg";
  if (strncmp(name, "special_", 8) == 0) return "torch.special";
  return strncmp(name, "fft_", 4) == 0 ? "torch.fft" : "torch.nn";
}

/* The public object of the function and where it is found; NULL without an exception when there is none. */
static PyObject* function_object(const shmt__py_function* f, const char** where) {
  *where = f->is_method ? "torch.Tensor" : "torch";
  if (f->is_method) {
    PyObject* o = PyObject_GetAttrString((PyObject*)shmt__py_tensor_type, f->name);
    if (o == NULL) PyErr_Clear();
    return o;
  }
  Py_ssize_t n = shmt__py_overrides.modules ? PyTuple_GET_SIZE(shmt__py_overrides.modules) : 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* o = PyObject_GetAttrString(PyTuple_GET_ITEM(shmt__py_overrides.modules, i), f->name);
    if (i > 0) *where = space_of(f->name);
    if (o != NULL) return o;
    PyErr_Clear();
  }
  return NULL;
}

int shmt__py_pack_arguments(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, PyObject** tuple,
                            PyObject** dict) {
  const Py_ssize_t first = self ? 1 : 0;
  const Py_ssize_t n_kw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  *tuple = PyTuple_New(first + n);
  *dict = PyDict_New();
  bool ok = *tuple && *dict;
  if (ok && self) PyTuple_SET_ITEM(*tuple, 0, Py_NewRef(self));
  for (Py_ssize_t i = 0; ok && i < n; i++) PyTuple_SET_ITEM(*tuple, first + i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; ok && i < n_kw; i++)
    ok = PyDict_SetItem(*dict, PyTuple_GET_ITEM(kwnames, i), args[n + i]) == 0;
  if (ok) return 0;
  Py_CLEAR(*tuple);
  Py_CLEAR(*dict);
  return -1;
}

/* Torch has some of the functions in Python, and hands over what is said there: a rule makes it of the arguments. -1
 * with an exception. */
static int apply_rule(PyObject* function, PyObject** args, PyObject** kwargs) {
  PyObject *new_args, *new_kwargs;
  PyObject* rule = shmt__py_overrides.rules ? PyDict_GetItemWithError(shmt__py_overrides.rules, function) : NULL;
  if (rule == NULL) return PyErr_Occurred() ? -1 : 0;
  PyObject* r = PyObject_CallFunctionObjArgs(rule, *args, *kwargs, NULL);
  const bool ok = r && PyArg_ParseTuple(r, "O!O!", &PyTuple_Type, &new_args, &PyDict_Type, &new_kwargs);
  if (ok) {
    Py_SETREF(*args, Py_NewRef(new_args));
    Py_SETREF(*kwargs, Py_NewRef(new_kwargs));
  }
  Py_XDECREF(r);
  return ok ? 0 : -1;
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
static PyObject* call_mode(const shmt__py_overloaded* a, PyObject* function, PyObject* args,
                           PyObject* kwargs) {
  PyObject* types = shmt__py_overloaded_types(a);
  if (types == NULL) return NULL;
  PyObject* mode = function_modes[--shmt__py_n_function_modes];
  n_modes_busy++;
  PyObject* r = PyObject_CallMethod(mode, "__torch_function__", "OOOO", function, types, args,
                                    kwargs);
  n_modes_busy--;
  function_modes[shmt__py_n_function_modes++] = mode;
  Py_DECREF(types);
  return r;
}

/* The answer of the modes and the classes in `a`; NULL without an exception when there are none. */
static PyObject* call_overrides(const shmt__py_function* f, const shmt__py_call_args* call,
                                const shmt__py_overloaded* a) {
  const bool has_mode = shmt__py_n_function_modes > 0;
  if (a->n == 0 && !has_mode) return NULL;
  const char* where;
  PyObject* function = function_object(f, &where);
  if (function == NULL) return NULL;
  PyObject *args = NULL, *kwargs = NULL, *r = NULL;
  PyObject* mode = has_mode ? Py_NewRef(function_modes[shmt__py_n_function_modes - 1]) : NULL;
  if (shmt__py_pack_arguments(call->self, call->args, call->n_args, call->kwnames, &args, &kwargs) == 0 &&
      apply_rule(function, &args, &kwargs) == 0) {
    if (has_mode) r = call_mode(a, function, args, kwargs);
    if (!has_mode || r == Py_NotImplemented) {
      Py_XDECREF(r);
      torch_function_call here = {f, call, innermost};
      innermost = &here;
      r = shmt__py_overloaded_call(a, shmt__py_overrides.name, function, args, kwargs);
      innermost = here.outer;
    }
  }
  if (r == Py_NotImplemented) {
    Py_DECREF(r);
    r = NULL;
    PyObject* name = PyUnicode_FromFormat("%s.%s", where, f->name);
    if (name) shmt__py_overloaded_refuse(a, shmt__py_overrides.name, name, mode);
    Py_XDECREF(name);
  }
  Py_XDECREF(mode);
  Py_XDECREF(args);
  Py_XDECREF(kwargs);
  Py_DECREF(function);
  return r;
}

PyObject* shmt__py_call_torch_function(const shmt__py_function* f, const shmt__py_prepared_signature* sig,
                                       const shmt__py_call_args* call) {
  shmt__py_overloaded a;
  shmt__py_overloaded_init(&a);
  const bool skips_classes = shmt__py_n_overrides_off > 0 || is_recursive(f, call);
  PyObject* r = skips_classes || collect(&a, sig, call) == 0 ? call_overrides(f, call, &a) : NULL;
  shmt__py_overloaded_fini(&a);
  return r;
}

/* --- operators ---------------------------------------------------------------------------- */

bool shmt__py_operands_answer(PyObject* x, PyObject* y) {
  return shmt__py_n_function_modes || shmt__py_has_torch_function(Py_TYPE(x)) ||
         shmt__py_has_torch_function(Py_TYPE(y));
}

PyObject* shmt__py_answer_operator(const char* forward, const char* reflected, PyObject* x, PyObject* y) {
  const bool is_reflected = !shmt__py_is_tensor(x);
  PyObject* function =
      PyObject_GetAttrString((PyObject*)shmt__py_tensor_type, is_reflected ? reflected : forward);
  if (function == NULL) return NULL;
  PyObject* r = y == NULL ? PyObject_CallFunctionObjArgs(shmt__py_overrides.operators, function, x, NULL)
                : is_reflected ? PyObject_CallFunctionObjArgs(shmt__py_overrides.operators, function, y, x, NULL)
                               : PyObject_CallFunctionObjArgs(shmt__py_overrides.operators, function, x, y, NULL);
  Py_DECREF(function);
  return r;
}

PyObject* shmt__py_answer_factory(const char* name, PyObject* args, PyObject* kwargs) {
  PyObject* module = PyImport_ImportModule("shmtensor._C");
  PyObject* function = module ? PyObject_GetAttrString(module, name) : NULL;
  PyObject* r = NULL;
  if (function)
    r = shmt__py_answer_method(function, args, kwargs);
  else
    Py_XDECREF(args);
  Py_XDECREF(function);
  Py_XDECREF(module);
  return r;
}

PyObject* shmt__py_answer_method(PyObject* function, PyObject* args, PyObject* kwargs) {
  PyObject* r = args ? PyObject_CallFunctionObjArgs(shmt__py_overrides.methods, function, args, kwargs, NULL) : NULL;
  Py_XDECREF(args);
  return r;
}

bool shmt__py_key_answers(PyObject* key) {
  enum { DEEPEST = 8 }; /* a list may hold itself */
  static _Thread_local int depth;
  Py_ssize_t n = 0;
  PyObject** items = shmt__py_items(key, &n);
  if (items == NULL) return shmt__py_has_torch_function(Py_TYPE(key));
  bool found = false;
  if (depth == DEEPEST) return false;
  depth++;
  for (Py_ssize_t i = 0; i < n && !found; i++)
    if (Py_TYPE(items[i]) != shmt__py_tensor_type) found = shmt__py_key_answers(items[i]);
  depth--;
  return found;
}

PyObject* shmt__py_answer_subscript(PyObject* self, PyObject* key, PyObject* value) {
  PyObject* function =
      PyObject_GetAttrString((PyObject*)shmt__py_tensor_type, value ? "__setitem__" : "__getitem__");
  if (function == NULL) return NULL;
  PyObject* r = PyObject_CallFunctionObjArgs(shmt__py_overrides.operators, function, self, key, value, NULL);
  Py_DECREF(function);
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
    shmt__py_n_overrides_off++;
    r = PyObject_Call(func, positional, here.kwargs);
    shmt__py_n_overrides_off--;
    innermost_disabled = here.outer;
  }
  Py_DECREF(positional);
  return r;
}

PyTypeObject* shmt__py_result_type(PyTypeObject* operand) {
  static shmt__py_plain_class before; /* the last class with plain results */
  const bool is_known = operand == before.type && operand->tp_version_tag == before.version;
  if (is_known || operand == shmt__py_tensor_type || operand == shmt__py_base_type) return shmt__py_tensor_type;
  if (shmt__py_n_overrides_off > 0) return shmt__py_tensor_type;
  PyObject* impl = PyObject_GetAttrString((PyObject*)operand, "__torch_function__");
  if (impl == NULL) PyErr_Clear();
  Py_XDECREF(impl);
  if (impl == NULL || impl != shmt__py_overrides.disabled_function) return operand;
  if (operand->tp_version_tag != 0) before = (shmt__py_plain_class){operand, operand->tp_version_tag};
  return shmt__py_tensor_type;
}

/* --- module functions -------------------------------------------------------------------- */

/* _set_torch_function(default function, disabled function, functions for operators and methods, modules, rules) */
static PyObject* set_torch_function(PyObject* module, PyObject* args) {
  PyObject *function, *disabled, *operators, *methods, *modules, *rules;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOOOO!O!", &function, &disabled, &operators, &methods, &PyTuple_Type, &modules,
                        &PyDict_Type, &rules))
    return NULL;
  Py_XSETREF(shmt__py_overrides.default_function, Py_NewRef(function));
  Py_XSETREF(shmt__py_overrides.disabled_function, Py_NewRef(disabled));
  Py_XSETREF(shmt__py_overrides.operators, Py_NewRef(operators));
  Py_XSETREF(shmt__py_overrides.methods, Py_NewRef(methods));
  Py_XSETREF(shmt__py_overrides.rules, Py_NewRef(rules));
  Py_XSETREF(shmt__py_overrides.modules, Py_NewRef(modules));
  Py_RETURN_NONE;
}

static PyObject* change_disabled_depth(PyObject* module, PyObject* by) {
  (void)module;
  long change = PyLong_AsLong(by);
  if (change == -1 && PyErr_Occurred()) return NULL;
  shmt__py_n_overrides_off += (int)change;
  return PyLong_FromLong(shmt__py_n_overrides_off);
}

static PyObject* has_override(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  if (shmt__py_n_function_modes) Py_RETURN_TRUE;
  for (Py_ssize_t i = 0; shmt__py_n_overrides_off == 0 && i < n; i++)
    if (shmt__py_has_own_torch_function(Py_TYPE(args[i]))) Py_RETURN_TRUE;
  Py_RETURN_FALSE;
}

static PyObject* push_mode(PyObject* module, PyObject* mode) {
  (void)module;
  if (shmt__py_n_function_modes + n_modes_busy == modes_capacity) {
    const int capacity = modes_capacity ? 2 * modes_capacity : FEW_MODES;
    PyObject** grown = PyMem_RawRealloc(function_modes, sizeof *grown * (size_t)capacity);
    if (grown == NULL) return PyErr_NoMemory();
    function_modes = grown;
    modes_capacity = capacity;
  }
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
     "Name the default and the disabled __torch_function__, what answers for operators and methods, the modules of "
     "functions, and by function the rules of what is handed over."},
    {"_change_overrides_off", change_disabled_depth, METH_O,
     "Enter (1) or leave (-1) a region that treats subclasses as plain; returns the depth."},
    {"_has_override", (PyCFunction)(void (*)(void))has_override, METH_FASTCALL,
     "Does one of the arguments, or a mode, answer calls itself?"},
    {NULL, NULL, 0, NULL},
};
