/* python/autograd/forward.c -- forward mode from Python: levels, and dual tensors. */
#include "python/autograd/tensor_properties.h"

#include "autograd/forward/dual.h"
#include "autograd/forward/tangents.h"
#include "python/tensor/tensor_type.h"

/* _enter_dual_level(nested=False) -> int */
static PyObject* enter_level(PyObject* module, PyObject* args) {
  (void)module;
  int nested = 0, level;
  if (!PyArg_ParseTuple(args, "|p", &nested)) return NULL;
  if (!nested && shmt__forward_level_count() > 0) {
    PyErr_SetString(PyExc_RuntimeError, "Nested forward mode AD is not supported at the moment");
    return NULL;
  }
  shmt_status status = shmt__forward_level_enter(&level);
  return status == SHMT_OK ? PyLong_FromLong(level) : shmt__py_raise(status);
}

static PyObject* exit_level(PyObject* module, PyObject* args) {
  (void)module;
  int level;
  if (!PyArg_ParseTuple(args, "i", &level)) return NULL;
  shmt_status status = shmt__forward_level_exit(level);
  if (status != SHMT_OK) return shmt__py_raise(status);
  Py_RETURN_NONE;
}

static int is_tensor(const char* name, const char* argument, int position, PyObject* o) {
  if (shmt__py_is_tensor(o)) return 1;
  PyErr_Format(PyExc_TypeError, "%s(): argument '%s' (position %d) must be Tensor, not %s", name, argument, position,
               Py_TYPE(o)->tp_name);
  return 0;
}

static PyObject* make_dual(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *primal, *tangent;
  int level;
  if (!PyArg_ParseTuple(args, "OOi", &primal, &tangent, &level)) return NULL;
  if (!is_tensor("_make_dual", "primal", 1, primal) || !is_tensor("_make_dual", "tangent", 2, tangent)) return NULL;
  SHMT_AUTO(shmt_tensor) dual = NULL;
  shmt_status status = shmt__make_dual(shmt__py_tensor(primal), shmt__py_tensor(tangent), level, &dual);
  return status == SHMT_OK ? shmt__py_wrap(SHMT_TAKE(dual)) : shmt__py_raise(status);
}

/* _unpack_dual(dual, level) -> (primal, tangent or None) */
static PyObject* unpack_dual(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* dual;
  int level;
  if (!PyArg_ParseTuple(args, "Oi", &dual, &level)) return NULL;
  if (!is_tensor("_unpack_dual", "dual", 1, dual)) return NULL;
  SHMT_AUTO(shmt_tensor) primal = NULL;
  SHMT_AUTO(shmt_tensor) tangent = NULL;
  shmt_status status = shmt__unpack_dual(shmt__py_tensor(dual), level, &primal, &tangent);
  if (status != SHMT_OK) return shmt__py_raise(status);
  PyObject* first = shmt__py_wrap(SHMT_TAKE(primal));
  PyObject* second = tangent ? shmt__py_wrap(SHMT_TAKE(tangent)) : Py_NewRef(Py_None);
  PyObject* pair = first && second ? PyTuple_Pack(2, first, second) : NULL;
  Py_XDECREF(first);
  Py_XDECREF(second);
  return pair;
}

/* _tangent_of(tensor): the tangent at the innermost level, or None */
static PyObject* tangent_of(PyObject* module, PyObject* o) {
  (void)module;
  if (!is_tensor("_tangent_of", "tensor", 1, o)) return NULL;
  SHMT_AUTO(shmt_tensor) tangent = NULL;
  const int level = shmt__forward_enabled() ? shmt__tangent_level(shmt__py_tensor(o)) : SHMT_NO_LEVEL;
  if (level == SHMT_NO_LEVEL) Py_RETURN_NONE;
  shmt_status status = shmt__tangent_of(shmt__py_tensor(o), level, &tangent);
  return status == SHMT_OK ? shmt__py_wrap_opt(SHMT_TAKE(tangent)) : shmt__py_raise(status);
}

static PyObject* set_enabled(PyObject* module, PyObject* on) {
  (void)module;
  const int value = PyObject_IsTrue(on);
  if (value < 0) return NULL;
  return PyBool_FromLong(shmt__forward_set_enabled(value));
}

static PyObject* is_enabled(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyBool_FromLong(shmt__forward_enabled());
}

PyMethodDef shmt__py_forward_functions[] = {
    {"_enter_dual_level", enter_level, METH_VARARGS,
     "Begin a level of forward mode and return its number; only the outermost unless told that it nests."},
    {"_exit_dual_level", exit_level, METH_VARARGS, "Leave a level: its tangents are gone."},
    {"_make_dual", make_dual, METH_VARARGS, "A view with a tangent: primal, tangent, level."},
    {"_unpack_dual", unpack_dual, METH_VARARGS, "(a view without the tangent, the tangent or None): dual, level."},
    {"_tangent_of", tangent_of, METH_O, "The tangent of a tensor, or None."},
    {"_set_fwd_grad_enabled", set_enabled, METH_O, "Follow tangents on this thread, or not; returns what was."},
    {"_is_fwd_grad_enabled", is_enabled, METH_NOARGS, "Are tangents followed on this thread?"},
    {NULL, NULL, 0, NULL},
};
