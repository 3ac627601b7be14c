/* python/autograd/function_jvp.c -- forward mode through an autograd.Function: its jvp method. */
#include "python/autograd/function.h"

#include "autograd/forward/tangents.h"
#include "autograd/meta.h"
#include "dispatch/registry.h"
#include "generated/ops.h"
#include "python/tensor/tensor_type.h"
#include "tensor/batched.h"

/* The lowest level above this one at which an input has a tangent; SHMT_NO_LEVEL: there is none. */
static shmt__forward_number level_after(PyObject* inputs, shmt__forward_number above) {
  shmt__forward_number level = SHMT_NO_LEVEL;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
    PyObject* o = PyTuple_GET_ITEM(inputs, i);
    const shmt__forward_number own =
        shmt__py_is_tensor(o) ? shmt__tangent_level_after(shmt__py_tensor(o), above) : SHMT_NO_LEVEL;
    if (own != SHMT_NO_LEVEL && (level == SHMT_NO_LEVEL || own < level)) level = own;
  }
  return level;
}

shmt__forward_number shmt__py_function_first_level(PyObject* inputs) {
  int vmap_level = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
    PyObject* o = PyTuple_GET_ITEM(inputs, i);
    const shmt__batched* b = shmt__py_is_tensor(o) ? shmt__batched_of(shmt__py_tensor(o)) : NULL;
    if (b && b->level > vmap_level) vmap_level = b->level;
  }
  return vmap_level ? shmt__forward_level_inside(vmap_level) : 0;
}

/* What jvp gets for an input: its tangent, zeros, or None. A new reference. */
static PyObject* tangent_of_input(const shmt__py_context* ctx, PyObject* o, shmt__forward_number level) {
  SHMT_AUTO(shmt_tensor) t = NULL;
  if (!shmt__py_is_tensor(o)) Py_RETURN_NONE;
  shmt_tensor* input = shmt__py_tensor(o);
  shmt_status status = shmt__tangent_of(input, level, &t);
  const bool zeros = !t && ctx->materialize && shmt__dtype_differentiable(input->dtype);
  if (status == SHMT_OK && zeros) status = shmt__zero_tangent(input, &t);
  if (status != SHMT_OK) return shmt__py_raise(status);
  return shmt__py_wrap_opt(SHMT_TAKE(t));
}

/* (ctx, tangents of the inputs ...) */
static PyObject* arguments_of(shmt__py_context* ctx, PyObject* inputs, shmt__forward_number level) {
  const Py_ssize_t n = PyTuple_GET_SIZE(inputs);
  PyObject* all = PyTuple_New(n + 1);
  if (!all) return NULL;
  PyTuple_SET_ITEM(all, 0, Py_NewRef((PyObject*)ctx));
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* t = tangent_of_input(ctx, PyTuple_GET_ITEM(inputs, i), level);
    if (!t) {
      Py_DECREF(all);
      return NULL;
    }
    PyTuple_SET_ITEM(all, i + 1, t);
  }
  return all;
}

static bool contains(PyObject* tuple, PyObject* o) {
  for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++)
    if (PyTuple_GET_ITEM(tuple, i) == o) return true;
  return false;
}

/* The tangent that was given for the input o; borrowed, NULL when o is no input. */
static PyObject* given_for(PyObject* inputs, PyObject* arguments, PyObject* o) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++)
    if (PyTuple_GET_ITEM(inputs, i) == o) return PyTuple_GET_ITEM(arguments, i + 1);
  return NULL;
}

static bool is_view_of_input(PyObject* inputs, const shmt_tensor* t) {
  if (!(t->flags & SHMT_TENSOR_VIEW)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
    PyObject* o = PyTuple_GET_ITEM(inputs, i);
    if (shmt__py_is_tensor(o) && shmt__py_tensor(o)->storage == t->storage) return true;
  }
  return false;
}

/* Errors: those that torch raises for a jvp that does not do in place, or as a view, what forward does. */
static shmt_status give(shmt__py_context* ctx, PyObject* inputs, PyObject* arguments, PyObject* output,
                        PyObject* tangent, shmt__forward_number level) {
  shmt_tensor* y = shmt__py_tensor(output);
  shmt_tensor* t = shmt__py_tensor(tangent);
  if (contains(ctx->dirty, output)) {
    SHMT_REQUIRE(given_for(inputs, arguments, output) == tangent, SHMT_E_RUNTIME,
                 "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                 "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace.");
  } else if (is_view_of_input(inputs, y)) {
    bool is_view = false;
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(arguments); i++) {
      PyObject* given = PyTuple_GET_ITEM(arguments, i);
      is_view |= shmt__py_is_tensor(given) && given != tangent && shmt__py_tensor(given)->storage == t->storage;
    }
    SHMT_REQUIRE(
        is_view, SHMT_E_RUNTIME,
        "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view.");
    y->flags |= SHMT_TENSOR_VIEW_NO_TANGENT;
  }
  return shmt__tangent_set(y, level, t);
}

/* Give the outputs the tangents that jvp has returned. */
static int give_all(shmt__py_context* ctx, PyObject* inputs, PyObject* arguments, PyObject* outputs, PyObject* tangents,
                    shmt__forward_number level) {
  const Py_ssize_t n = PyTuple_GET_SIZE(outputs);
  const Py_ssize_t given = PyTuple_Check(tangents) ? PyTuple_GET_SIZE(tangents) : 1;
  if (given != n) {
    PyErr_Format(PyExc_RuntimeError,
                 "Function's jvp returned an invalid number of forward gradients (expected %zd but got %zd)", n, given);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* o = PyTuple_GET_ITEM(outputs, i);
    PyObject* t = PyTuple_Check(tangents) ? PyTuple_GET_ITEM(tangents, i) : tangents;
    if (t == Py_None) continue;
    if (!shmt__py_is_tensor(t)) {
      PyErr_Format(PyExc_RuntimeError, "expected Variable or None (got %s) for grad output %zd.", Py_TYPE(t)->tp_name,
                   i);
      return -1;
    }
    if (!shmt__py_is_tensor(o) || contains(ctx->non_differentiable, o)) continue;
    if (!shmt__dtype_differentiable(shmt__py_tensor(o)->dtype)) continue;
    const shmt_status status = give(ctx, inputs, arguments, o, t, level);
    if (status != SHMT_OK) return shmt__py_raise(status), -1;
  }
  return 0;
}

static int follow_level(PyObject* cls, shmt__py_context* ctx, PyObject* inputs, PyObject* outputs,
                        shmt__forward_number level) {
  SHMT_KEYS_GUARD(guard);
  if (shmt__forward_level_is_outermost(level)) shmt__tls_keys.excluded |= SHMT_KEYBIT_ForwardAD;
  SHMT_HIDE_LEVEL(level);
  PyObject* arguments = arguments_of(ctx, inputs, level);
  PyObject* jvp = arguments ? PyObject_GetAttrString(cls, "jvp") : NULL;
  PyObject* tangents = jvp ? PyObject_CallObject(jvp, arguments) : NULL;
  const int r = tangents ? give_all(ctx, inputs, arguments, outputs, tangents, level) : -1;
  Py_XDECREF(tangents);
  Py_XDECREF(jvp);
  Py_XDECREF(arguments);
  return r;
}

/* The lowest level first: where the jvp of a higher one reads outputs, they have the tangents of the lower. */
int shmt__py_function_jvp(PyObject* cls, shmt__py_context* ctx, PyObject* inputs, PyObject* outputs) {
  if (!shmt__forward_enabled() || shmt__tls_inference_mode) return 0;
  shmt__forward_number level = shmt__py_function_first_level(inputs) - 1;
  while ((level = level_after(inputs, level)) != SHMT_NO_LEVEL)
    if (follow_level(cls, ctx, inputs, outputs, level) < 0) return -1;
  return 0;
}
