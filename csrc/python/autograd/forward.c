/* python/autograd/forward.c -- forward mode from Python: levels, and dual tensors. */
#include "python/autograd/tensor_properties.h"

#include "autograd/forward/dual.h"
#include "autograd/forward/tangents.h"
#include "autograd/vmap/levels.h"
#include "python/tensor/tensor_type.h"

static bool in_dual_level; /* one in the process, as in torch; under the interpreter lock */

/* _enter_dual_level(nested=False) -> int */
static PyObject* enter_level(PyObject* module, PyObject* args) {
  (void)module;
  int nested = 0;
  shmt__forward_number level;
  if (!PyArg_ParseTuple(args, "|p", &nested)) return NULL;
  if (!nested && (shmt__forward_level_count() > 0 || in_dual_level)) {
    PyErr_SetString(PyExc_RuntimeError, "Nested forward mode AD is not supported at the moment");
    return NULL;
  }
  shmt_status status = shmt__forward_level_enter(shmt__level_count(), &level);
  if (status != SHMT_OK) return shmt__py_raise(status);
  if (!nested) in_dual_level = true;
  return PyLong_FromLongLong(level);
}

/* _exit_dual_level(level, nested=False) */
static PyObject* exit_level(PyObject* module, PyObject* args) {
  (void)module;
  long long level;
  int nested = 0;
  if (!PyArg_ParseTuple(args, "L|p", &level, &nested)) return NULL;
  shmt_status status = shmt__forward_level_exit(level);
  if (status != SHMT_OK) return shmt__py_raise(status);
  if (!nested) in_dual_level = false;
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
  long long level;
  if (!PyArg_ParseTuple(args, "OOL", &primal, &tangent, &level)) return NULL;
  if (!is_tensor("_make_dual", "primal", 1, primal) || !is_tensor("_make_dual", "tangent", 2, tangent)) return NULL;
  SHMT_AUTO(shmt_tensor) dual = NULL;
  shmt_status status = shmt__make_dual(shmt__py_tensor(primal), shmt__py_tensor(tangent), level, &dual);
  return status == SHMT_OK ? shmt__py_wrap(SHMT_TAKE(dual)) : shmt__py_raise(status);
}

/* _unpack_dual(dual, level) -> (primal, tangent or None) */
static PyObject* unpack_dual(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* dual;
  long long level;
  if (!PyArg_ParseTuple(args, "OL", &dual, &level)) return NULL;
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
  const shmt__forward_number level = shmt__forward_enabled() ? shmt__tangent_level(shmt__py_tensor(o)) : SHMT_NO_LEVEL;
  if (level == SHMT_NO_LEVEL) Py_RETURN_NONE;
  shmt_status status = shmt__tangent_of(shmt__py_tensor(o), level, &tangent);
  return status == SHMT_OK ? shmt__py_wrap_opt(SHMT_TAKE(tangent)) : shmt__py_raise(status);
}

/* _tangent_at(tensor, level): its tangent at a level, or None */
static PyObject* tangent_at(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* o;
  long long level;
  if (!PyArg_ParseTuple(args, "OL", &o, &level) || !is_tensor("_tangent_at", "tensor", 1, o)) return NULL;
  SHMT_AUTO(shmt_tensor) tangent = NULL;
  shmt_status status;
  {
    SHMT_HIDE_LEVEL(level);
    status = shmt__tangent_of(shmt__py_tensor(o), level, &tangent);
  }
  return status == SHMT_OK ? shmt__py_wrap_opt(SHMT_TAKE(tangent)) : shmt__py_raise(status);
}

/* _has_tangents_inside(tensor, vmap_level): has it a tangent of a level that began inside of that vmap? */
static PyObject* has_tangents_inside(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* o;
  int vmap_level;
  if (!PyArg_ParseTuple(args, "Oi", &o, &vmap_level) || !is_tensor("_has_tangents_inside", "tensor", 1, o)) return NULL;
  const shmt__forward_number level = shmt__forward_enabled() ? shmt__tangent_level(shmt__py_tensor(o)) : SHMT_NO_LEVEL;
  return PyBool_FromLong(level != SHMT_NO_LEVEL && level >= shmt__forward_level_inside(vmap_level));
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
     "Begin a level of forward mode and return its number; refused inside of another unless told that it nests."},
    {"_exit_dual_level", exit_level, METH_VARARGS, "Leave a level, as it was begun: its tangents are gone."},
    {"_make_dual", make_dual, METH_VARARGS, "A view with a tangent: primal, tangent, level."},
    {"_unpack_dual", unpack_dual, METH_VARARGS, "(a view without the tangent, the tangent or None): dual, level."},
    {"_tangent_of", tangent_of, METH_O, "The tangent of a tensor, or None."},
    {"_tangent_at", tangent_at, METH_VARARGS, "The tangent of a tensor at a level, or None."},
    {"_has_tangents_inside", has_tangents_inside, METH_VARARGS,
     "Whether a tensor has a tangent of a level that began inside of this vmap."},
    {"_set_fwd_grad_enabled", set_enabled, METH_O, "Follow tangents on this thread, or not; returns what was."},
    {"_is_fwd_grad_enabled", is_enabled, METH_NOARGS, "Are tangents followed on this thread?"},
    {NULL, NULL, 0, NULL},
};
