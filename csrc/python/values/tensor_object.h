/* python/values/tensor_object.h -- the Python object of a tensor, and how results are wrapped in one.
 *
 * One wrapper per tensor: shmt_tensor.py_object names the live wrapper, so a tensor that C hands
 * out twice is the same Python object. A wrapper owns one reference of its tensor.
 *
 * Note [Wrappers and the collector]
 * Wrappers are collector objects but start untracked, which makes them cheap; the first attribute
 * that a user sets on one, or the first look at its __dict__, tracks it, since only then can it be
 * part of a cycle.
 *
 * Note [PyObject preservation]
 * A wrapper that nobody refers to ends, unless something would be lost with it (attributes, a weak
 * reference, its class) while C still holds its tensor: as the gradient of another one, in the graph,
 * as the base of a view. Then the two change places: the tensor keeps the wrapper, which gives up its
 * reference of the tensor. Whoever wraps the tensor next gets that wrapper and they change back. When C
 * lets go of the tensor first, the wrapper gets the last reference, and ends with it.
 *
 * What C holds is not seen by the collector, so the attributes of a tensor with other holders are not
 * visited: they count as reachable.
 */
#ifndef SHMT_PYTHON_VALUES_TENSOR_OBJECT_H
#define SHMT_PYTHON_VALUES_TENSOR_OBJECT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "python/errors.h"
#include "tensor/tensor.h"

typedef struct shmt__py_object {
  PyObject_HEAD shmt_tensor* t; /* owned; NULL only while it is being destroyed */
  PyObject* dict;               /* NULL until an attribute is set */
  PyObject* weakrefs;
  bool is_kept;                 /* by the tensor; t is borrowed. See Note [PyObject preservation] */
} shmt__py_object;

extern PyTypeObject* shmt__py_base_type; /* _TensorBase */
extern PyTypeObject*
    shmt__py_tensor_type; /* the registered subclass Tensor; _TensorBase until then */

static inline bool shmt__py_is_tensor(PyObject* o) {
  PyTypeObject* tp = Py_TYPE(o);
  return SHMT_LIKELY(tp == shmt__py_tensor_type) || PyType_IsSubtype(tp, shmt__py_base_type);
}
/* The tensor inside; borrowed. o must be one. */
static inline shmt_tensor* shmt__py_tensor(PyObject* o) { return ((shmt__py_object*)o)->t; }

/* The wrapper of t: the live one, or a new Tensor. Consumes t, also on failure. */
PyObject* shmt__py_wrap(shmt_tensor* t);
/* The same with another class for a new wrapper. Errors: RuntimeError when t has a wrapper of
 * another class. */
PyObject* shmt__py_wrap_as(PyTypeObject* type, shmt_tensor* t);
/* The class that results of an operator have when one of its operands has this class: subclasses are
 * kept, as in torch, unless their __torch_function__ is _disabled_torch_function_impl (Parameter).
 * In python/call/overrides.c. */
PyTypeObject* shmt__py_result_type(PyTypeObject* operand);
/* The same for one more operand; the more derived class wins. */
static inline PyTypeObject* shmt__py_result_type_of(PyTypeObject* so_far, PyObject* operand) {
  PyTypeObject* type = Py_TYPE(operand);
  if (SHMT_LIKELY(type == shmt__py_tensor_type)) return so_far;
  type = shmt__py_result_type(type);
  return PyType_IsSubtype(type, so_far) ? type : so_far;
}
/* A result: the live wrapper, or a new one of that class. Consumes t. */
PyObject* shmt__py_wrap_result_slow(PyTypeObject* type, shmt_tensor* t);
static inline PyObject* shmt__py_wrap_result(PyTypeObject* type, shmt_tensor* t) {
  if (SHMT_LIKELY(type == shmt__py_tensor_type)) return shmt__py_wrap(t);
  return shmt__py_wrap_result_slow(type, t);
}
/* The result of an operator on self alone. */
static inline PyObject* shmt__py_wrap_like(PyObject* self, shmt_tensor* t) {
  return shmt__py_wrap_result(shmt__py_result_type_of(shmt__py_tensor_type, self), t);
}
/* None for NULL. Consumes t. */
static inline PyObject* shmt__py_wrap_opt(shmt_tensor* t) {
  if (!t) Py_RETURN_NONE;
  return shmt__py_wrap(t);
}
/* o, a new leaf, with requires_grad set; NULL with an exception. Consumes o, which may be NULL. */
PyObject* shmt__py_with_grad(PyObject* o, bool on);
/* Elements in all operands above which dropping the interpreter lock pays. */
enum { SHMT_PY_GIL_THRESHOLD = 20000 };

/* Evaluate a call that returns shmt_status, without the lock when n elements are worth it. */
#define SHMT_PY_UNLOCKED(n, call)                       \
  ({                                                    \
    shmt_status shmt_unlocked_;                         \
    if (SHMT_UNLIKELY((n) > SHMT_PY_GIL_THRESHOLD)) {   \
      PyThreadState* shmt_saved_ = PyEval_SaveThread(); \
      shmt_unlocked_ = (call);                          \
      PyEval_RestoreThread(shmt_saved_);                \
    } else {                                            \
      shmt_unlocked_ = (call);                          \
    }                                                   \
    shmt_unlocked_;                                     \
  })

/* --- for tensor_type.c ------------------------------------------------------------ */

void shmt__py_tensor_dealloc(PyObject* self); /* tp_dealloc */
/* The finished _TensorBase (consumed); it is the class of new tensors, too, until another one is set. */
void shmt__py_set_base_type(PyTypeObject* type);
/* New tensors are of this class from now on. */
void shmt__py_set_tensor_type(PyTypeObject* type);

#endif
