/* python/dispatch/mode.c -- dispatch modes: Python objects that see every operator call of their thread
 * (__torch_dispatch__).
 *
 * Modes are two stacks per thread. While one is not empty the thread's calls include its key, whose fallback calls the
 * innermost mode's __torch_dispatch__(func, types, args, kwargs). During that call the mode is off the stack, so what
 * it does itself reaches the next mode out.
 *
 *   Python               sees calls as the program makes them; what it calls is recorded by autograd
 *   PythonBelowAutograd  sees what is left when composites are taken apart and autograd has made its nodes, so that
 *                        what it returns is what those nodes get. The classes of tensors are asked here, too,
 *                        after the modes (ADR 0083).
 */
#include "python/dispatch/mode.h"

#include "autograd/meta.h"
#include "dispatch/registry.h"
#include "python/call/convert.h"
#include "python/dispatch/torch_dispatch.h"
#include "python/values/tensor_object.h"

enum { MAX_MODES = 256 };

typedef struct mode_stack {
  PyObject** modes; /* owned references; the array comes with the first mode */
  int n;
  int busy; /* calls of modes under way, whose entries are off the stack */
} mode_stack;

enum { ABOVE, BELOW };
static _Thread_local mode_stack stacks[2];
static const int mode_keys[2] = {SHMT_KEY_Python, SHMT_KEY_PythonBelowAutograd};

static void update_key(int which) {
  const shmt_keyset bit = (shmt_keyset)1 << mode_keys[which];
  if (stacks[which].n)
    shmt__tls_keys.included |= bit;
  else
    shmt__tls_keys.included &= ~bit;
}

/* Ask the innermost mode of a stack, off the stack meanwhile. */
static shmt_status call_innermost(int which, const shmt_operator* op, const shmt_value* args, shmt_value* results) {
  mode_stack* stack = &stacks[which];
  PyObject* mode = stack->modes[--stack->n]; /* the reference is ours for now */
  const shmt__thread_keys before = shmt__tls_keys;
  update_key(which);
  stack->busy++;
  shmt_status status = shmt__py_call_torch_dispatch(mode, op, args, results);
  stack->busy--;
  shmt__tls_keys = before;
  stack->modes[stack->n++] = mode;
  return status;
}

static shmt_status python_fallback(void* ctx, const shmt_operator* op, shmt_keyset ks,
                                   const shmt_value* args, shmt_value* results) {
  (void)ctx;
  if (stacks[ABOVE].n == 0) /* the key was included by hand, and there is no mode */
    return shmt__operator_call(op, true, shmt__keys_below(ks, SHMT_KEY_Python), args, results);
  return call_innermost(ABOVE, op, args, results);
}

/* --- below autograd --------------------------------------------------------------------------- */

/* Is it made of other operators, which are seen instead? */
static bool is_taken_apart(const shmt_operator* op) {
  if (op->call_unboxed) return op->is_composite;
  return shmt__operator_has_kernel(op, SHMT_ALIAS_CompositeImplicitAutograd); /* defined at run time */
}

/* What is recorded, tracked or cast was so before the call came here. */
enum {
  DONE_ABOVE = SHMT_KEYBIT_ADInplaceOrView | SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD | SHMT_KEYBIT_AutogradSparse |
      SHMT_KEYBIT_Autocast,
};

/* Calls below autograd that run on this thread: what they call in turn is neither recorded nor tracked. */
static _Thread_local int n_running;

static bool is_argument(const shmt_tensor* t, const shmt_operator* op, const shmt_value* args) {
  for (int i = 0; i < op->schema->n_args; i++)
    if (args[i].tag == SHMT_VALUE_TENSOR && args[i].v.tensor == t) return true;
  return false;
}

/* May a layer above give results a history or a tangent? */
static bool is_tracked(const shmt_operator* op, const shmt_value* args) {
  const shmt_keyset tracking = SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD | SHMT_KEYBIT_AutogradSparse;
  for (int i = 0; i < op->schema->n_args; i++) {
    if (args[i].tag == SHMT_VALUE_TENSOR) {
      if (args[i].v.tensor && (shmt__tensor_own_keys(args[i].v.tensor) & tracking)) return true;
    } else if (args[i].tag == SHMT_VALUE_TENSORS) {
      const shmt_tensors list = args[i].v.tensors;
      for (int64_t k = 0; k < list.len; k++)
        if (list.data[k] && (shmt__tensor_own_keys(list.data[k]) & tracking)) return true;
    }
  }
  return false;
}

/* In the layers above, a result becomes a view or gets a history. Then it must be a tensor of its own: one that the
 * program has already is replaced by what detach() gives for it. */
static shmt_status own_result(const shmt_operator* op, const shmt_arg* returned, const shmt_value* args,
                              shmt_tensor** t) {
  if (*t == NULL || (returned->flags & SHMT_ARG_WRITE)) return SHMT_OK;
  const bool is_view = returned->alias != 0;
  const bool has_holders = !shmt__is_last_reference(&(*t)->refs) || (*t)->base || (*t)->autograd;
  if (is_view ? !has_holders : !is_argument(*t, op, args) || !is_tracked(op, args)) return SHMT_OK;
  shmt_tensor* own = NULL;
  n_running++;
  shmt_status status = shmt__tensor_detached(*t, &own);
  n_running--;
  if (status != SHMT_OK) return status;
  shmt__tensor_release(*t);
  *t = own;
  return SHMT_OK;
}

static shmt_status own_results(const shmt_operator* op, const shmt_value* args, shmt_value* results) {
  const shmt_schema* s = op->schema;
  shmt_status status = SHMT_OK;
  for (int i = 0; i < s->n_returns && status == SHMT_OK; i++) {
    if (results[i].tag == SHMT_VALUE_TENSOR) {
      status = own_result(op, &s->returns[i], args, &results[i].v.tensor);
    } else if (results[i].tag == SHMT_VALUE_TENSORS) {
      shmt_tensor** list = (shmt_tensor**)results[i].v.tensors.data;
      for (int64_t k = 0; k < results[i].v.tensors.len && status == SHMT_OK; k++)
        status = own_result(op, &s->returns[i], args, &list[k]);
    }
  }
  return status;
}

static shmt_status below_fallback(void* ctx, const shmt_operator* op, shmt_keyset ks, const shmt_value* args,
                                  shmt_value* results) {
  (void)ctx;
  const bool has_mode = stacks[BELOW].n != 0;
  if ((!has_mode && !shmt__py_has_answered_tensor(op, args)) || is_taken_apart(op))
    return shmt__operator_call(op, true, shmt__keys_below(ks, SHMT_KEY_PythonBelowAutograd), args, results);
  SHMT_KEYS_GUARD(keys);
  shmt__tls_keys.excluded |= DONE_ABOVE;
  n_running++;
  shmt_status status = has_mode ? call_innermost(BELOW, op, args, results)
                                : shmt__py_call_torch_dispatch(NULL, op, args, results);
  n_running--;
  return status == SHMT_OK && n_running == 0 ? own_results(op, args, results) : status;
}

/* Nobody pays for this row of all tables before somebody wants it: the first mode, or the first class. */
static shmt_status register_below_once(void) {
  static bool done; /* under the interpreter lock */
  static const shmt__kernel kernel = {.boxed = below_fallback, .where = "the Python layer"};
  shmt__registration* r; /* for the life of the process */
  if (done) return SHMT_OK;
  SHMT_TRY(shmt__key_fallback(SHMT_KEY_PythonBelowAutograd, &kernel, NULL, &r));
  done = true;
  return SHMT_OK;
}

static int watch_operators(void) {
  shmt_status status = register_below_once();
  if (status == SHMT_OK) return 0;
  shmt__py_raise(status);
  return -1;
}

static PyObject* push(int which, PyObject* mode) {
  mode_stack* stack = &stacks[which];
  if (!stack->modes && !(stack->modes = PyMem_RawCalloc(MAX_MODES, sizeof *stack->modes)))
    return PyErr_NoMemory();
  if (stack->n == MAX_MODES)
    return PyErr_Format(PyExc_RecursionError, "more than %d dispatch modes at a time", MAX_MODES);
  stack->modes[stack->n++] = Py_NewRef(mode);
  update_key(which);
  Py_RETURN_NONE;
}

static PyObject* pop(int which) {
  mode_stack* stack = &stacks[which];
  if (stack->n == 0)
    return PyErr_Format(PyExc_RuntimeError, "no dispatch mode is active on this thread");
  PyObject* mode = stack->modes[--stack->n];
  if (stack->n == 0 && stack->busy == 0) {
    PyMem_RawFree(stack->modes);
    stack->modes = NULL;
  }
  update_key(which);
  return mode;
}

static PyObject* push_mode(PyObject* module, PyObject* mode) {
  (void)module;
  return push(ABOVE, mode);
}

static PyObject* pop_mode(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return pop(ABOVE);
}

static PyObject* push_mode_below(PyObject* module, PyObject* mode) {
  (void)module;
  shmt_status status = register_below_once();
  return status == SHMT_OK ? push(BELOW, mode) : shmt__py_raise(status);
}

static PyObject* pop_mode_below(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return pop(BELOW);
}

static PyObject* mode_depth(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(stacks[ABOVE].n);
}

/* _disabled_torch_dispatch_impl(func, types, args, kwargs): what classes without a rule of their own do, call func as
 * if no class answered. */
static PyObject* disabled_impl(PyObject* module, PyObject* given) {
  PyObject *func, *types, *call_args = NULL, *kwargs = NULL;
  (void)module;
  if (!PyArg_ParseTuple(given, "OO|OO:_disabled_torch_dispatch_impl", &func, &types, &call_args, &kwargs)) return NULL;
  if (kwargs == Py_None) kwargs = NULL;
  if (kwargs != NULL && !PyDict_Check(kwargs))
    return PyErr_Format(PyExc_TypeError, "kwargs must be dict, not %s", Py_TYPE(kwargs)->tp_name);
  PyObject* positional = call_args ? PySequence_Tuple(call_args) : PyTuple_New(0);
  if (positional == NULL) return NULL;
  SHMT_KEYS_GUARD(keys);
  shmt__tls_keys.excluded |= SHMT_KEYBIT_PythonBelowAutograd;
  PyObject* r = PyObject_Call(func, positional, kwargs);
  Py_DECREF(positional);
  return r;
}

/* _set_torch_dispatch(disabled): what classes have that do not answer. */
static PyObject* set_torch_dispatch(PyObject* module, PyObject* disabled) {
  (void)module;
  Py_XSETREF(shmt__py_disabled_torch_dispatch, Py_NewRef(disabled));
  Py_RETURN_NONE;
}

/* _record_again(None) -> what the thread's calls below autograd have switched off, which is on from now; _record_again
 * of that switches it off again. */
static PyObject* record_again(PyObject* module, PyObject* before) {
  unsigned long long excluded = shmt__tls_keys.excluded;
  int n = n_running;
  (void)module;
  if (before == Py_None) {
    shmt__tls_keys.excluded &= ~(shmt_keyset)DONE_ABOVE;
    n_running = 0;
    return Py_BuildValue("(Ki)", excluded, n);
  }
  if (!PyArg_ParseTuple(before, "Ki", &excluded, &n)) return NULL;
  shmt__tls_keys.excluded = excluded;
  n_running = n;
  Py_RETURN_NONE;
}

/* _has_answered(list of tensors): does the class of one of them answer operators? */
static PyObject* has_answered(PyObject* module, PyObject* list) {
  Py_ssize_t n = 0;
  PyObject** items = shmt__py_items(list, &n);
  (void)module;
  for (Py_ssize_t i = 0; items && i < n; i++)
    if (shmt__py_is_tensor(items[i]) && shmt__tensor_is_answered(shmt__py_tensor(items[i]))) Py_RETURN_TRUE;
  Py_RETURN_FALSE;
}

PyMethodDef shmt__py_mode_functions[] = {
    {"_push_dispatch_mode", push_mode, METH_O, "Let an object see this thread's operator calls."},
    {"_pop_dispatch_mode", pop_mode, METH_NOARGS,
     "Undo the last push on this thread; returns the object."},
    {"_push_dispatch_mode_below_autograd", push_mode_below, METH_O,
     "Let an object see what this thread's calls compute, after autograd has recorded them."},
    {"_pop_dispatch_mode_below_autograd", pop_mode_below, METH_NOARGS,
     "Undo the last such push on this thread; returns the object."},
    {"_disabled_torch_dispatch_impl", disabled_impl, METH_VARARGS,
     "As a class's __torch_dispatch__: it is not asked about operators."},
    {"_record_again", record_again, METH_O, "Let calls inside of __torch_dispatch__ be recorded; None begins it."},
    {"_has_answered", has_answered, METH_O, "Does the class of a tensor in a list answer operators?"},
    {"_set_torch_dispatch", set_torch_dispatch, METH_O, "Name the __torch_dispatch__ of classes that do not answer."},
    {"_dispatch_mode_depth", mode_depth, METH_NOARGS, "How many modes are active on this thread."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_mode_init(void) {
  if (shmt__py_torch_dispatch_init() < 0) return -1;
  shmt__py_watch_operators = watch_operators;
  static const shmt__kernel kernel = {.boxed = python_fallback, .where = "the Python layer"};
  shmt__registration* r; /* for the life of the process */
  shmt_status status = shmt__key_fallback(SHMT_KEY_Python, &kernel, NULL, &r);
  if (status == SHMT_OK) return 0;
  shmt__py_raise(status);
  return -1;
}
