/* python/dispatch/library.c -- the dispatcher from Python: operators, Python kernels, registrations.
 *
 * A Python kernel is a boxed kernel whose context is the callable. Dropping its registration
 * empties the context under the interpreter lock; a call that had found the kernel just before then
 * fails with a clear error.
 */
#include "python/dispatch/library.h"

#include "dispatch/registry.h"
#include "dispatch/trace.h"
#include "python/call/call.h"
#include "python/call/convert.h"
#include "python/call/prepare.h"
#include "python/gil.h"
#include "python/values/types.h"
#include "storage/allocator.h"

#include <stdlib.h>
#include <string.h>

/* --- values and objects -------------------------------------------------------------------- */

int shmt__py_values_to_args(const shmt_operator* op, const void* values, PyObject** args,
                            PyObject** kwargs) {
  const shmt_schema* s = op->schema;
  const shmt_value* v = values;
  int n_positional = 0;
  while (n_positional < s->n_args && !(s->args[n_positional].flags & SHMT_ARG_KEYWORD_ONLY))
    n_positional++;
  *args = PyTuple_New(n_positional);
  *kwargs = n_positional < s->n_args ? PyDict_New() : NULL;
  if (!*args || (n_positional < s->n_args && !*kwargs)) goto fail;
  for (int i = 0; i < s->n_args; i++) {
    shmt_value copy = v[i]; /* borrowed */
    /* None of an enumeration is -1. */
    const bool none =
        (s->args[i].type == SHMT_TYPE_DTYPE || s->args[i].type == SHMT_TYPE_LAYOUT ||
         s->args[i].type == SHMT_TYPE_DEVICE || s->args[i].type == SHMT_TYPE_MEMORY_FORMAT) &&
        copy.tag == SHMT_VALUE_INT && copy.v.i < 0;
    PyObject* o = none ? Py_NewRef(Py_None) : shmt__py_from_value(&copy, &s->args[i], true);
    if (!o) goto fail;
    if (i < n_positional) {
      PyTuple_SET_ITEM(*args, i, o);
      continue;
    }
    int r = PyDict_SetItemString(*kwargs, s->args[i].name, o);
    Py_DECREF(o);
    if (r < 0) goto fail;
  }
  return 0;
fail:
  Py_CLEAR(*args);
  Py_CLEAR(*kwargs);
  return -1;
}

static int result_tensors(PyObject* o, shmt_value* out) {
  Py_ssize_t n = 0;
  PyObject** items = shmt__py_items(o, &n);
  shmt_tensor** list = NULL;
  if (!items) return 0;
  if (n && shmt__alloc((uint64_t)n * sizeof *list, (void**)&list) != SHMT_OK) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    if (shmt__py_is_tensor(items[i]) || items[i] == Py_None) continue;
    if (list) shmt__dealloc(list, (uint64_t)n * sizeof *list);
    return 0;
  }
  for (Py_ssize_t i = 0; i < n; i++)
    list[i] = items[i] == Py_None ? NULL : shmt__tensor_ref(shmt__py_tensor(items[i]));
  *out = (shmt_value){.v.tensors = {list, n}, .tag = SHMT_VALUE_TENSORS};
  return 1;
}

/* One returned object as the schema types it: 1, 0 (another type) or -1. */
static int result_from(PyObject* o, const shmt_arg* type, shmt_value* out) {
  *out = (shmt_value){.tag = SHMT_VALUE_NONE};
  switch (type->type) {
    case SHMT_TYPE_TENSOR:
      if (o == Py_None) return 1;
      if (!shmt__py_is_tensor(o)) return 0;
      *out =
          (shmt_value){.v.tensor = shmt__tensor_ref(shmt__py_tensor(o)), .tag = SHMT_VALUE_TENSOR};
      return 1;
    case SHMT_TYPE_TENSORS:
      return result_tensors(o, out);
    case SHMT_TYPE_SCALAR:
      out->tag = SHMT_VALUE_SCALAR;
      return shmt__py_as_scalar_or_tensor(o, &out->v.scalar);
    case SHMT_TYPE_INT:
      out->tag = SHMT_VALUE_INT;
      return shmt__py_as_int(o, &out->v.i);
    case SHMT_TYPE_FLOAT:
      out->tag = SHMT_VALUE_FLOAT;
      return shmt__py_as_float(o, &out->v.d);
    case SHMT_TYPE_BOOL:
      out->tag = SHMT_VALUE_BOOL;
      return shmt__py_as_bool(o, &out->v.b);
    case SHMT_TYPE_DTYPE: {
      shmt_dtype d;
      if (!shmt__py_as_dtype(o, &d)) return 0;
      *out = (shmt_value){.v.i = d, .tag = SHMT_VALUE_INT};
      return 1;
    }
    default:
      return 0;
  }
}

shmt_status shmt__py_results_from(const shmt_operator* op, PyObject* returned, void* results) {
  const shmt_schema* s = op->schema;
  shmt_value* out = results;
  char name[256];
  if (s->n_returns == 0) return SHMT_OK;
  const bool several = s->n_returns > 1;
  if (several && (!PyTuple_Check(returned) || PyTuple_GET_SIZE(returned) != s->n_returns)) {
    PyErr_Format(PyExc_RuntimeError,
                 "%s: expected a tuple of %d results from a Python kernel, got %R",
                 shmt__operator_name(op, name, sizeof name), s->n_returns, Py_TYPE(returned));
    return SHMT_E_PYTHON;
  }
  for (int i = 0; i < s->n_returns; i++) {
    PyObject* o = several ? PyTuple_GET_ITEM(returned, i) : returned;
    int r = result_from(o, &s->returns[i], &out[i]);
    if (r == 1) continue;
    if (r == 0)
      PyErr_Format(PyExc_RuntimeError, "%s: result %d of a Python kernel must be %s, got %s",
                   shmt__operator_name(op, name, sizeof name), i,
                   s->returns[i].type == SHMT_TYPE_TENSOR ? "a Tensor" : "as its schema says",
                   Py_TYPE(o)->tp_name);
    out[i].tag = SHMT_VALUE_NONE;
    for (int k = 0; k < i; k++) shmt__value_fini(&out[k]);
    return SHMT_E_PYTHON;
  }
  return SHMT_OK;
}

/* --- Python kernels ------------------------------------------------------------------------- */

typedef struct py_kernel {
  PyObject* fn; /* NULL once deregistered */
  bool with_keyset;
  bool is_fallback; /* called with the operator first */
} py_kernel;

static PyObject* call_python(const py_kernel* k, PyObject* fn, const shmt_operator* op,
                             shmt_keyset ks, const shmt_value* values) {
  PyObject *args, *kwargs, *first = NULL, *result = NULL;
  if (shmt__py_values_to_args(op, values, &args, &kwargs) < 0) return NULL;
  if (k->is_fallback)
    first = Py_BuildValue("(N)", shmt__py_operator_object(op));
  else if (k->with_keyset)
    first = Py_BuildValue("(K)", (unsigned long long)ks);
  if (k->is_fallback || k->with_keyset)
    Py_SETREF(args, first ? PySequence_Concat(first, args) : NULL);
  if (args) result = PyObject_Call(fn, args, kwargs);
  Py_XDECREF(first);
  Py_XDECREF(args);
  Py_XDECREF(kwargs);
  return result;
}

static shmt_status run_python_kernel(void* ctx, const shmt_operator* op, shmt_keyset ks,
                                     const shmt_value* args, shmt_value* results) {
  const py_kernel* k = ctx;
  shmt_status status = SHMT_E_PYTHON;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject* fn = Py_XNewRef(k->fn);
  if (fn) {
    PyObject* r = call_python(k, fn, op, ks, args);
    if (r) status = shmt__py_results_from(op, r, results);
    Py_XDECREF(r);
    Py_DECREF(fn);
  } else {
    char name[256];
    status = shmt__fail(SHMT_E_RUNTIME, "%s: the Python kernel was taken back during the call",
                        shmt__operator_name(op, name, sizeof name));
  }
  PyGILState_Release(gil);
  return status;
}

/* The struct stays: a call may still read it. */
static void drop_python_kernel(void* ctx) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  Py_CLEAR(((py_kernel*)ctx)->fn);
  PyGILState_Release(gil);
}

/* --- registrations ---------------------------------------------------------------------------- */

static const char registration_name[] = "shmtensor.registration";

static void drop_registration(PyObject* capsule) {
  shmt__registration_drop(PyCapsule_GetPointer(capsule, registration_name));
}

static PyObject* registration_object(shmt__registration* r) {
  PyObject* capsule = PyCapsule_New(r, registration_name, drop_registration);
  if (!capsule) shmt__registration_drop(r);
  return capsule;
}

/* _library_define(schema, where) */
static PyObject* library_define(PyObject* module, PyObject* args) {
  const char *text, *where;
  shmt__registration* r = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "ss", &text, &where)) return NULL;
  shmt_status status = shmt__operator_define(text, where, &r);
  return status == SHMT_OK ? registration_object(r) : shmt__py_raise(status);
}

static int key_from(const char* name) {
  int key = shmt__key_find(name);
  if (key >= 0) return key;
  char known[512] = "";
  for (int k = 0; k < 128; k++) {
    const char* each = shmt__dispatch_key_name(k);
    if (strcmp(each, "Undefined") == 0) continue;
    if (*known) strncat(known, ", ", sizeof known - strlen(known) - 1);
    strncat(known, each, sizeof known - strlen(known) - 1);
  }
  PyErr_Format(PyExc_ValueError, "could not parse dispatch key: '%s' (known: %s)", name, known);
  return -1;
}

/* _library_impl(name or None for a fallback, key, callable or None for a fallthrough, where,
 * with_keyset) */
static PyObject* library_impl(PyObject* module, PyObject* args) {
  const char *name, *key_name, *where;
  PyObject* fn;
  int with_keyset;
  (void)module;
  if (!PyArg_ParseTuple(args, "zsOsp", &name, &key_name, &fn, &where, &with_keyset)) return NULL;
  const int key = key_from(key_name);
  if (key < 0) return NULL;
  py_kernel* k = NULL;
  shmt__kernel kernel = {.where = where};
  if (fn != Py_None) {
    if (!PyCallable_Check(fn))
      return PyErr_Format(PyExc_TypeError, "expected a callable as kernel, got %s",
                          Py_TYPE(fn)->tp_name);
    k = calloc(1, sizeof *k);
    if (!k) return PyErr_NoMemory();
    *k = (py_kernel){Py_NewRef(fn), with_keyset, name == NULL};
    kernel.boxed = run_python_kernel;
    kernel.ctx = k;
  }
  shmt__registration* r = NULL;
  shmt_status status = name ? shmt__operator_impl(name, key, &kernel, drop_python_kernel, &r)
                            : shmt__key_fallback(key, &kernel, drop_python_kernel, &r);
  if (status == SHMT_OK) return registration_object(r);
  Py_XDECREF(fn == Py_None ? NULL : fn);
  free(k);
  return shmt__py_raise(status);
}

/* --- operators ----------------------------------------------------------------------------------
 */

static const char operator_name[] = "shmtensor.operator";

static PyObject* make_overload; /* callable(capsule, name, overload, schema) -> OpOverload */
static PyObject* overloads; /* id -> OpOverload; a run-time operator's id is never given again */

PyObject* shmt__py_operator_object(const shmt_operator* op) {
  if (!make_overload || !overloads) {
    PyErr_SetString(PyExc_RuntimeError, "shmtensor._ops is not loaded");
    return NULL;
  }
  PyObject* id = PyLong_FromUnsignedLong(op->id);
  if (!id) return NULL;
  PyObject* o = Py_XNewRef(PyDict_GetItemWithError(overloads, id));
  if (!o && !PyErr_Occurred()) {
    PyObject* capsule = PyCapsule_New((void*)(uintptr_t)op, operator_name, NULL);
    if (capsule)
      o = PyObject_CallFunction(make_overload, "Nsss", capsule, op->schema->name,
                                op->schema->overload, op->schema->text);
    if (o && PyDict_SetItem(overloads, id, o) < 0) Py_CLEAR(o);
  }
  Py_DECREF(id);
  return o;
}

static PyObject* set_overload_class(PyObject* module, PyObject* fn) {
  (void)module;
  if (!overloads && !(overloads = PyDict_New())) return NULL;
  Py_XSETREF(make_overload, Py_NewRef(fn));
  Py_RETURN_NONE;
}

/* _find_operator("name.overload") -> OpOverload or None */
static PyObject* find_operator(PyObject* module, PyObject* o) {
  (void)module;
  const char* name = PyUnicode_AsUTF8(o);
  if (!name) return NULL;
  const shmt_operator* op = shmt__operator_lookup(name);
  if (!op) Py_RETURN_NONE;
  return shmt__py_operator_object(op);
}

/* _operator_overloads("name") -> list of OpOverload */
static PyObject* operator_overloads(PyObject* module, PyObject* o) {
  (void)module;
  const char* name = PyUnicode_AsUTF8(o);
  PyObject* list = name ? PyList_New(0) : NULL;
  const shmt_operator* op;
  for (size_t i = 0; list && (op = shmt__operator_overload(name, i)); i++) {
    PyObject* each = shmt__py_operator_object(op);
    if (!each || PyList_Append(list, each) < 0) Py_CLEAR(list);
    Py_XDECREF(each);
  }
  return list;
}

static const shmt_operator* operator_of(PyObject* capsule) {
  return PyCapsule_GetPointer(capsule, operator_name);
}

/* The function record of each operator that is called as an object; never freed, as it keeps what was prepared for
 * it. */
typedef struct call_record {
  shmt__py_signature signature;
  shmt__py_function function;
} call_record;
static call_record** records; /* by operator id */
static size_t n_records;

static shmt__py_function* function_for(const shmt_operator* op) {
  if (op->id >= n_records) {
    size_t n = op->id + 256;
    call_record** p = realloc(records, n * sizeof *p);
    if (!p) return NULL;
    memset(p + n_records, 0, (n - n_records) * sizeof *p);
    records = p;
    n_records = n;
  }
  call_record* r = records[op->id];
  if (!r) {
    r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->signature.op = op;
    r->function = (shmt__py_function){.name = op->schema->name, .signatures = &r->signature, .n_signatures = 1};
    records[op->id] = r;
  }
  return &r->function;
}

const shmt_value* shmt__py_operator_defaults(const shmt_operator* op) {
  shmt__py_function* f = function_for(op);
  const shmt__py_prepared* p = f ? shmt__py_prepare(f) : NULL;
  if (!f) (void)PyErr_NoMemory();
  return p ? p->signatures[0].defaults : NULL;
}

/* _call_operator(capsule, *args, **kwargs) */
static PyObject* call_operator(PyObject* module, PyObject* const* args, Py_ssize_t n,
                               PyObject* kwnames) {
  (void)module;
  const shmt_operator* op = n ? operator_of(args[0]) : NULL;
  if (!op)
    return PyErr_Occurred() ? NULL
                            : PyErr_Format(PyExc_TypeError, "_call_operator needs an operator");
  shmt__py_function* f = function_for(op);
  return f ? shmt__py_call(f, NULL, args + 1, n - 1, kwnames) : PyErr_NoMemory();
}

/* _map_operator(capsule, count, *columns, **columns) -> the results of count calls. A tuple among the arguments has one
 * for each call; anything else is the same in all. */
static PyObject* map_operator(PyObject* module, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  enum { MAX_COLUMNS = 16 };
  (void)module;
  const shmt_operator* op = n >= 2 ? operator_of(args[0]) : NULL;
  const Py_ssize_t count = op ? PyLong_AsSsize_t(args[1]) : -1;
  const Py_ssize_t n_columns = n - 2 + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  if (!op || count < 0 || n_columns > MAX_COLUMNS) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError, "_map_operator expected an operator, a count and arguments");
    return NULL;
  }
  shmt__py_function* f = function_for(op);
  if (!f) return PyErr_NoMemory();
  for (Py_ssize_t k = 0; k < n_columns; k++)
    if (PyTuple_CheckExact(args[2 + k]) && PyTuple_GET_SIZE(args[2 + k]) != count)
      return PyErr_Format(PyExc_ValueError, "_map_operator: argument %zd has %zd items for %zd calls", k,
                          PyTuple_GET_SIZE(args[2 + k]), count);
  PyObject* all = PyTuple_New(count);
  for (Py_ssize_t i = 0; all && i < count; i++) {
    PyObject* one[MAX_COLUMNS];
    for (Py_ssize_t k = 0; k < n_columns; k++)
      one[k] = PyTuple_CheckExact(args[2 + k]) ? PyTuple_GET_ITEM(args[2 + k], i) : args[2 + k];
    PyObject* result = shmt__py_call(f, NULL, one, n - 2, kwnames);
    if (result)
      PyTuple_SET_ITEM(all, i, result);
    else
      Py_CLEAR(all);
  }
  return all;
}

/* _operator_has_kernel(capsule, key) */
static PyObject* operator_has_kernel(PyObject* module, PyObject* args) {
  PyObject* capsule;
  const char* key_name;
  (void)module;
  if (!PyArg_ParseTuple(args, "Os", &capsule, &key_name)) return NULL;
  const shmt_operator* op = operator_of(capsule);
  const int key = op ? key_from(key_name) : -1;
  return key < 0 ? NULL : PyBool_FromLong(shmt__operator_has_kernel(op, key));
}

/* _operator_arguments(capsule) -> [(name, type text flags...)] for schemas shown in Python */
static PyObject* operator_arguments(PyObject* module, PyObject* capsule) {
  (void)module;
  const shmt_operator* op = operator_of(capsule);
  PyObject* list = op ? PyList_New(0) : NULL;
  for (int i = 0; list && i < op->schema->n_args; i++) {
    const shmt_arg* a = &op->schema->args[i];
    PyObject* row =
        Py_BuildValue("(sOOz)", a->name, a->flags & SHMT_ARG_KEYWORD_ONLY ? Py_True : Py_False,
                      a->flags & SHMT_ARG_WRITE ? Py_True : Py_False, a->default_text);
    if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

/* (alias set, written) of each argument or result; 0: it aliases none. */
static PyObject* aliases_of(const shmt_arg* args, int n) {
  PyObject* list = PyList_New(0);
  for (int i = 0; list && i < n; i++) {
    PyObject* row = Py_BuildValue("(iO)", (int)args[i].alias, args[i].flags & SHMT_ARG_WRITE ? Py_True : Py_False);
    if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

/* _operator_aliases(capsule) -> what the schema says of the arguments, and of the results */
static PyObject* operator_aliases(PyObject* module, PyObject* capsule) {
  (void)module;
  const shmt_operator* op = operator_of(capsule);
  if (!op) return NULL;
  return Py_BuildValue("(NN)", aliases_of(op->schema->args, op->schema->n_args),
                       aliases_of(op->schema->returns, op->schema->n_returns));
}

/* --- the thread's keys ---------------------------------------------------------------------------
 */

/* _change_keys(included or excluded set, key name, on) -> what it was */
static PyObject* change_keys(PyObject* module, PyObject* args) {
  int included, on;
  const char* key_name;
  (void)module;
  if (!PyArg_ParseTuple(args, "psp", &included, &key_name, &on)) return NULL;
  const int key = key_from(key_name);
  if (key < 0) return NULL;
  if (key >= SHMT_N_KEYS)
    return PyErr_Format(PyExc_ValueError, "'%s' is an alias, not a run-time dispatch key",
                        key_name);
  shmt_keyset* set = included ? &shmt__tls_keys.included : &shmt__tls_keys.excluded;
  const shmt_keyset bit = (shmt_keyset)1 << key;
  const bool was = (*set & bit) != 0;
  *set = on ? *set | bit : *set & ~bit;
  return PyBool_FromLong(was);
}

static PyObject* dispatch_keys(PyObject* module, PyObject* o) {
  (void)module;
  if (!shmt__py_is_tensor(o))
    return PyErr_Format(PyExc_TypeError, "expected a Tensor, got %s", Py_TYPE(o)->tp_name);
  const shmt_keyset ks = shmt__tensor_keys(shmt__py_tensor(o));
  PyObject* list = PyList_New(0);
  for (int key = SHMT_N_KEYS - 1; list && key >= 0; key--) {
    if (!(ks >> key & 1)) continue;
    PyObject* name = PyUnicode_FromString(shmt__dispatch_key_name(key));
    if (!name || PyList_Append(list, name) < 0) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  return list;
}

static PyObject* set_trace(PyObject* module, PyObject* on) {
  (void)module;
  int want = PyObject_IsTrue(on);
  return want < 0 ? NULL : PyBool_FromLong(shmt__trace_set(want));
}

PyMethodDef shmt__py_library_functions[] = {
    {"_library_define", library_define, METH_VARARGS, "Define an operator: schema, where."},
    {"_library_impl", library_impl, METH_VARARGS,
     "Register a kernel or fallback: name, key, fn, where, with_keyset."},
    {"_set_overload_class", set_overload_class, METH_O, "What makes OpOverload objects."},
    {"_find_operator", find_operator, METH_O, "The OpOverload of a full name, or None."},
    {"_operator_overloads", operator_overloads, METH_O, "All overloads of a name."},
    {"_call_operator", (PyCFunction)(void (*)(void))call_operator, METH_FASTCALL | METH_KEYWORDS,
     "Call an operator."},
    {"_map_operator", (PyCFunction)(void (*)(void))map_operator, METH_FASTCALL | METH_KEYWORDS,
     "Call an operator several times: operator, count, arguments; tuples have one for each call."},
    {"_operator_has_kernel", operator_has_kernel, METH_VARARGS,
     "Does an operator have its own kernel for a key?"},
    {"_operator_arguments", operator_arguments, METH_O,
     "(name, keyword only, written, default) per argument."},
    {"_operator_aliases", operator_aliases, METH_O,
     "(alias set, written) per argument, and per result."},
    {"_change_keys", change_keys, METH_VARARGS,
     "Switch a key in the thread's sets: included, key, on."},
    {"_dispatch_keys", dispatch_keys, METH_O,
     "The names of a tensor's dispatch keys, highest first."},
    {"_set_dispatch_trace", set_trace, METH_O,
     "Print every call and redispatch; returns what it was."},
    {NULL, NULL, 0, NULL},
};
