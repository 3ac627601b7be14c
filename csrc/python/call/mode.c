/* python/call/mode.c -- dispatch modes: Python objects that see every operator call of their thread (__torch_dispatch__).
 *
 * Modes are a stack per thread. While it is not empty the thread's calls include the Python key,
 * whose fallback calls the innermost mode's __torch_dispatch__(func, types, args, kwargs). During
 * that call the mode is off the stack, so what it does itself reaches the next mode out.
 */
#include "python/call/library.h"

#include "dispatch/registry.h"
#include "python/values/tensor_object.h"

enum { MAX_MODES = 256 };

static _Thread_local struct {
  PyObject** modes; /* owned references; the array comes with the first mode */
  int n;
  int busy; /* calls of modes under way, whose entries are off the stack */
} stack;

static void update_key(void) {
  if (stack.n)
    shmt__tls_keys.included |= SHMT_KEYBIT_Python;
  else
    shmt__tls_keys.included &= ~(shmt_keyset)SHMT_KEYBIT_Python;
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

static shmt_status python_fallback(void* ctx, const shmt_operator* op, shmt_keyset ks,
                                   const shmt_value* args, shmt_value* results) {
  (void)ctx;
  if (stack.n == 0) /* the key was included by hand, and there is no mode */
    return shmt__operator_call(op, true, shmt__keys_below(ks, SHMT_KEY_Python), args, results);
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject* mode = stack.modes[--stack.n]; /* the reference is ours for now */
  const shmt__thread_keys keys = shmt__tls_keys;
  update_key();
  stack.busy++;
  shmt_status status = call_mode(mode, op, args, results);
  stack.busy--;
  shmt__tls_keys = keys;
  stack.modes[stack.n++] = mode;
  PyGILState_Release(gil);
  return status;
}

static PyObject* push_mode(PyObject* module, PyObject* mode) {
  (void)module;
  if (!stack.modes && !(stack.modes = PyMem_RawCalloc(MAX_MODES, sizeof *stack.modes)))
    return PyErr_NoMemory();
  if (stack.n == MAX_MODES)
    return PyErr_Format(PyExc_RecursionError, "more than %d dispatch modes at a time", MAX_MODES);
  stack.modes[stack.n++] = Py_NewRef(mode);
  update_key();
  Py_RETURN_NONE;
}

static PyObject* pop_mode(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  if (stack.n == 0)
    return PyErr_Format(PyExc_RuntimeError, "no dispatch mode is active on this thread");
  PyObject* mode = stack.modes[--stack.n];
  if (stack.n == 0 && stack.busy == 0) {
    PyMem_RawFree(stack.modes);
    stack.modes = NULL;
  }
  update_key();
  return mode;
}

static PyObject* mode_depth(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(stack.n);
}

PyMethodDef shmt__py_mode_functions[] = {
    {"_push_dispatch_mode", push_mode, METH_O, "Let an object see this thread's operator calls."},
    {"_pop_dispatch_mode", pop_mode, METH_NOARGS,
     "Undo the last push on this thread; returns the object."},
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
