/* python/call/mode.c -- dispatch modes: Python objects that see every operator call of their thread
 * (__torch_dispatch__).
 *
 * Modes are two stacks per thread. While one is not empty the thread's calls include its key, whose fallback calls the
 * innermost mode's __torch_dispatch__(func, types, args, kwargs). During that call the mode is off the stack, so what
 * it does itself reaches the next mode out.
 *
 *   Python               sees calls as the program makes them; what it calls is recorded by autograd
 *   PythonBelowAutograd  sees what is left when composites are taken apart and autograd has made its nodes, so that
 *                        what it returns is what those nodes get
 */
#include "python/call/library.h"

#include "dispatch/registry.h"
#include "python/gil.h"
#include "python/values/tensor_object.h"

enum { MAX_MODES = 256 };

typedef struct mode_stack {
  PyObject** modes; /* owned references; the array comes with the first mode */
  int n;
  int busy; /* calls of modes under way, whose entries are off the stack */
} mode_stack;

enum { ABOVE, BELOW };
static _Thread_local mode_stack stacks[2];
static const int keys[2] = {SHMT_KEY_Python, SHMT_KEY_PythonBelowAutograd};

static void update_key(int which) {
  const shmt_keyset bit = (shmt_keyset)1 << keys[which];
  if (stacks[which].n)
    shmt__tls_keys.included |= bit;
  else
    shmt__tls_keys.included &= ~bit;
}

static PyObject* tensor_types(PyObject* args) {
  PyObject* set = PySet_New(NULL);
  for (Py_ssize_t i = 0; set && i < PyTuple_GET_SIZE(args); i++) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    if (shmt__py_is_tensor(o) && PySet_Add(set, (PyObject*)Py_TYPE(o)) < 0) Py_CLEAR(set);
  }
  PyObject* types = set ? PySequence_Tuple(set) : NULL;
  Py_XDECREF(set);
  return types;
}

static shmt_status call_mode(PyObject* mode, const shmt_operator* op, const shmt_value* values,
                             shmt_value* results) {
  PyObject *args, *kwargs, *types = NULL, *func = NULL, *r = NULL;
  shmt_status status = SHMT_E_PYTHON;
  if (shmt__py_values_to_args(op, values, &args, &kwargs) < 0) return status;
  if (!kwargs) kwargs = PyDict_New();
  types = tensor_types(args);
  func = shmt__py_operator_object(op);
  if (kwargs && types && func)
    r = PyObject_CallMethod(mode, "__torch_dispatch__", "OOOO", func, types, args, kwargs);
  if (r) status = shmt__py_results_from(op, r, results);
  Py_XDECREF(r);
  Py_XDECREF(func);
  Py_XDECREF(types);
  Py_XDECREF(args);
  Py_XDECREF(kwargs);
  return status;
}

static shmt_status call_innermost(int which, const shmt_operator* op, const shmt_value* args, shmt_value* results) {
  mode_stack* stack = &stacks[which];
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject* mode = stack->modes[--stack->n]; /* the reference is ours for now */
  const shmt__thread_keys before = shmt__tls_keys;
  update_key(which);
  stack->busy++;
  shmt_status status = call_mode(mode, op, args, results);
  stack->busy--;
  shmt__tls_keys = before;
  stack->modes[stack->n++] = mode;
  PyGILState_Release(gil);
  return status;
}

static shmt_status python_fallback(void* ctx, const shmt_operator* op, shmt_keyset ks,
                                   const shmt_value* args, shmt_value* results) {
  (void)ctx;
  if (stacks[ABOVE].n == 0) /* the key was included by hand, and there is no mode */
    return shmt__operator_call(op, true, shmt__keys_below(ks, SHMT_KEY_Python), args, results);
  return call_innermost(ABOVE, op, args, results);
}

static shmt_status below_fallback(void* ctx, const shmt_operator* op, shmt_keyset ks, const shmt_value* args,
                                  shmt_value* results) {
  (void)ctx;
  if (stacks[BELOW].n == 0 || op->is_composite)
    return shmt__operator_call(op, true, shmt__keys_below(ks, SHMT_KEY_PythonBelowAutograd), args, results);
  return call_innermost(BELOW, op, args, results);
}

/* Nobody pays for this row of all tables before somebody wants it. */
static shmt_status register_below_once(void) {
  static bool done; /* under the interpreter lock */
  static const shmt__kernel kernel = {.boxed = below_fallback, .where = "the Python layer"};
  shmt__registration* r; /* for the life of the process */
  if (done) return SHMT_OK;
  SHMT_TRY(shmt__key_fallback(SHMT_KEY_PythonBelowAutograd, &kernel, NULL, &r));
  done = true;
  return SHMT_OK;
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

PyMethodDef shmt__py_mode_functions[] = {
    {"_push_dispatch_mode", push_mode, METH_O, "Let an object see this thread's operator calls."},
    {"_pop_dispatch_mode", pop_mode, METH_NOARGS,
     "Undo the last push on this thread; returns the object."},
    {"_push_dispatch_mode_below_autograd", push_mode_below, METH_O,
     "Let an object see what this thread's calls compute, after autograd has recorded them."},
    {"_pop_dispatch_mode_below_autograd", pop_mode_below, METH_NOARGS,
     "Undo the last such push on this thread; returns the object."},
    {"_dispatch_mode_depth", mode_depth, METH_NOARGS, "How many modes are active on this thread."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_mode_init(void) {
  static const shmt__kernel kernel = {.boxed = python_fallback, .where = "the Python layer"};
  shmt__registration* r; /* for the life of the process */
  shmt_status status = shmt__key_fallback(SHMT_KEY_Python, &kernel, NULL, &r);
  if (status == SHMT_OK) return 0;
  shmt__py_raise(status);
  return -1;
}
