/* python/dispatch/torch_dispatch.c -- __torch_dispatch__: Python objects and classes that answer operators. */
#include "python/dispatch/torch_dispatch.h"

#include "autograd/meta.h"
#include "dispatch/registry.h"
#include "generated/ops.h"
#include "python/call/convert.h"
#include "python/dispatch/library.h"
#include "python/values/overloaded.h"
#include "python/call/prepare.h"
#include "python/gil.h"
#include "python/values/override_classes.h"

/* --- arguments ------------------------------------------------------------------------------ */

bool shmt__py_has_answered_tensor(const shmt_operator* op, const shmt_value* args) {
  for (int i = 0; i < op->schema->n_args; i++) {
    if (args[i].tag == SHMT_VALUE_TENSOR) {
      if (args[i].v.tensor && shmt__tensor_is_answered(args[i].v.tensor)) return true;
    } else if (args[i].tag == SHMT_VALUE_TENSORS) {
      const shmt_tensors list = args[i].v.tensors;
      for (int64_t k = 0; k < list.len; k++)
        if (list.data[k] && shmt__tensor_is_answered(list.data[k])) return true;
    }
  }
  return false;
}

/* -1 with MemoryError. */
static int add_answered(shmt__py_overloaded* a, PyObject* o) {
  if (!shmt__py_is_tensor(o) || !shmt__tensor_is_answered(shmt__py_tensor(o))) return 0;
  return shmt__py_class_answers_operators(Py_TYPE(o)) ? shmt__py_overloaded_add(a, o) : 0;
}

/* o, or the tensors in it. -1 with MemoryError. */
static int add_from(shmt__py_overloaded* a, PyObject* o) {
  Py_ssize_t n = 0;
  PyObject** items = shmt__py_items(o, &n);
  if (items == NULL) return add_answered(a, o);
  int status = 0;
  for (Py_ssize_t i = 0; i < n && status == 0; i++) status = add_answered(a, items[i]);
  return status;
}

/* Is the argument what a call without it has? */
static int is_default(PyObject* o, const shmt_arg* arg, const shmt_value* value) {
  if (arg->default_text == NULL || shmt__py_is_tensor(o)) return 0;
  shmt_value copy = *value; /* borrowed */
  const bool is_enumeration = arg->type == SHMT_TYPE_DTYPE || arg->type == SHMT_TYPE_LAYOUT ||
                              arg->type == SHMT_TYPE_DEVICE || arg->type == SHMT_TYPE_MEMORY_FORMAT;
  PyObject* given = is_enumeration && copy.tag == SHMT_VALUE_INT && copy.v.i < 0
                        ? Py_NewRef(Py_None)
                        : shmt__py_from_value(&copy, arg, true);
  if (given == NULL) return -1;
  const int equal = given == o ? 1 : Py_TYPE(given) == Py_TYPE(o) ? PyObject_RichCompareBool(o, given, Py_EQ) : 0;
  Py_DECREF(given);
  return equal;
}

/* A handler sees what a program would write: lists, and no arguments that a call may leave out. */
typedef struct handler_args {
  PyObject *args, *kwargs;
  shmt__py_overloaded classes;
} handler_args;

static void handler_args_fini(handler_args* h) {
  Py_XDECREF(h->args);
  Py_XDECREF(h->kwargs);
  shmt__py_overloaded_fini(&h->classes);
}

static int listed(PyObject** o) {
  if (!PyTuple_CheckExact(*o)) return 0;
  PyObject* list = PySequence_List(*o);
  if (list == NULL) return -1;
  Py_SETREF(*o, list);
  return 0;
}

/* The number that a Python number was made a tensor of, if the operator takes one in its place. 0 or -1. */
static int numbered(PyObject** o, const shmt_operator* op) {
  if (!shmt__py_is_tensor(*o)) return 0;
  shmt_tensor* t = shmt__py_tensor(*o);
  shmt_scalar number;
  if (!(t->flags & SHMT_TENSOR_WRAPPED_NUMBER) || !shmt__tensor_has_memory(t) || shmt__tensor_is_meta(t) ||
      !shmt__py_takes_scalar_as_tensor(op->schema->name) || shmt__tensor_item_in_memory(t, &number) != SHMT_OK)
    return 0;
  PyObject* value = shmt__py_from_scalar(number);
  if (value == NULL) return -1;
  Py_SETREF(*o, value);
  return 0;
}

/* The positional arguments of all; trailing ones that are defaults are left out. -1 with an exception. */
static int take_positional(handler_args* h, const shmt_operator* op, PyObject* all, const shmt_value* defaults) {
  const shmt_schema* s = op->schema;
  Py_ssize_t n = PyTuple_GET_SIZE(all);
  while (n > 0) {
    const int leave_out = is_default(PyTuple_GET_ITEM(all, n - 1), &s->args[n - 1], &defaults[n - 1]);
    if (leave_out < 0) return -1;
    if (!leave_out) break;
    n--;
  }
  h->args = PyTuple_New(n);
  for (Py_ssize_t i = 0; h->args && i < n; i++) {
    PyObject* o = PyTuple_GET_ITEM(all, i);
    if (add_from(&h->classes, o) < 0) return -1;
    PyTuple_SET_ITEM(h->args, i, Py_NewRef(o));
    PyObject** const place = &PyTuple_GET_ITEM(h->args, i);
    if (listed(place) < 0 || (i > 0 && numbered(place, op) < 0)) return -1;
  }
  return h->args ? 0 : -1;
}

/* The same of those that are given by keyword. */
static int take_keywords(handler_args* h, const shmt_schema* s, PyObject* all, const shmt_value* defaults) {
  if ((h->kwargs = PyDict_New()) == NULL) return -1;
  for (int i = 0; all && i < s->n_args; i++) {
    if (!(s->args[i].flags & SHMT_ARG_KEYWORD_ONLY)) continue;
    PyObject* o = PyDict_GetItemString(all, s->args[i].name); /* borrowed */
    const int leave_out = o ? is_default(o, &s->args[i], &defaults[i]) : 1;
    if (leave_out < 0) return -1;
    if (leave_out) continue;
    if (add_from(&h->classes, o) < 0) return -1;
    Py_INCREF(o);
    int status = listed(&o);
    if (status == 0) status = PyDict_SetItemString(h->kwargs, s->args[i].name, o);
    Py_DECREF(o);
    if (status < 0) return -1;
  }
  return 0;
}

static int handler_args_init(handler_args* h, const shmt_operator* op, const shmt_value* values) {
  PyObject *args, *kwargs;
  h->args = h->kwargs = NULL;
  shmt__py_overloaded_init(&h->classes);
  const shmt_value* defaults = shmt__py_operator_defaults(op);
  if (defaults == NULL || shmt__py_values_to_args(op, values, &args, &kwargs) < 0) return -1;
  int status = take_positional(h, op, args, defaults);
  if (status == 0) status = take_keywords(h, op->schema, kwargs, defaults);
  Py_DECREF(args);
  Py_XDECREF(kwargs);
  return status;
}

/* --- handlers ------------------------------------------------------------------------------- */

static PyObject* refuse(const handler_args* h, PyObject* func, PyObject* mode) {
  PyObject* module = PyObject_GetAttrString(func, "__module__");
  PyObject* name = module ? PyObject_GetAttrString(func, "__name__") : NULL;
  PyObject* full = name ? PyUnicode_FromFormat("%S.%S", module, name) : NULL;
  if (full) shmt__py_overloaded_refuse(&h->classes, shmt__py_torch_dispatch_name, full, mode);
  Py_XDECREF(full);
  Py_XDECREF(name);
  Py_XDECREF(module);
  return NULL;
}

static PyObject* call_handlers(PyObject* mode, const handler_args* h, PyObject* func) {
  PyObject* r = NULL;
  PyObject* types = shmt__py_overloaded_types(&h->classes);
  if (types == NULL) return NULL;
  if (mode)
    r = PyObject_CallMethodObjArgs(mode, shmt__py_torch_dispatch_name, func, types, h->args, h->kwargs, NULL);
  Py_DECREF(types);
  if (mode && r != Py_NotImplemented) return r;
  Py_XDECREF(r);
  r = shmt__py_overloaded_call(&h->classes, shmt__py_torch_dispatch_name, func, h->args, h->kwargs);
  if (r != Py_NotImplemented) return r;
  Py_DECREF(r);
  return refuse(h, func, mode);
}

/* C that calls operators counts on the tensors that they return. */
static shmt_status check_tensors(const shmt_operator* op, const shmt_value* results) {
  const shmt_schema* s = op->schema;
  char name[256];
  for (int i = 0; i < s->n_returns; i++) {
    bool missing = s->returns[i].type == SHMT_TYPE_TENSOR && s->n_returns == 1 && results[i].tag == SHMT_VALUE_NONE &&
                   !(s->returns[i].flags & (SHMT_ARG_OPTIONAL | SHMT_ARG_WRITE));
    if (results[i].tag == SHMT_VALUE_TENSORS && !(s->returns[i].flags & SHMT_ARG_ELEM_OPTIONAL))
      for (int64_t k = 0; k < results[i].v.tensors.len; k++) missing |= results[i].v.tensors.data[k] == NULL;
    SHMT_REQUIRE(!missing, SHMT_E_RUNTIME, "%s: __torch_dispatch__ returned None, where the schema says Tensor",
                 shmt__operator_name(op, name, sizeof name));
  }
  return SHMT_OK;
}

/* The operator that a handler is asked about in place of op, which is a part of it: op takes the same arguments, and
 * behind them what the other has found out about its tensors, so that a derivative need not. */
static const shmt_operator* asked_about(const shmt_operator* op) {
  static const struct {
    const char *part, *whole;
  } parts[] = {{"_cat_sized", "cat"}, {"_as_strided_at", "as_strided"}};
  for (size_t i = 0; op->schema->name[0] == '_' && i < sizeof parts / sizeof *parts; i++)
    if (strcmp(op->schema->name, parts[i].part) == 0) return shmt__operator_lookup(parts[i].whole);
  return op;
}

shmt_status shmt__py_call_torch_dispatch(PyObject* mode, const shmt_operator* op, const shmt_value* args,
                                         shmt_value* results) {
  shmt_status status = SHMT_E_PYTHON;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  handler_args h;
  op = asked_about(op);
  PyObject* func = shmt__py_operator_object(op);
  PyObject* r = NULL;
  if (handler_args_init(&h, op, args) == 0 && func && Py_EnterRecursiveCall(" in __torch_dispatch__") == 0) {
    shmt__py_n_overrides_off++;
    r = call_handlers(mode, &h, func);
    shmt__py_n_overrides_off--;
    Py_LeaveRecursiveCall();
  }
  if (r) status = shmt__py_results_from(op, r, results);
  Py_XDECREF(r);
  Py_XDECREF(func);
  handler_args_fini(&h);
  PyGILState_Release(gil);
  if (status == SHMT_OK) status = check_tensors(op, results);
  return status;
}

/* --- single elements ------------------------------------------------------------------------ */

static shmt_status answered_item(shmt_tensor* t, shmt_scalar* out) {
  return shmt_op__local_scalar_dense(t, out);
}

int shmt__py_torch_dispatch_init(void) {
  shmt__answered_item = answered_item;
  return (shmt__py_torch_dispatch_name = PyUnicode_InternFromString("__torch_dispatch__")) ? 0 : -1;
}
