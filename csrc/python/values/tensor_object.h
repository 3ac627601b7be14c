/* python/values/tensor_object.h -- the Python object of a tensor, and how results are wrapped in one.
 *
 * A tensor has at most one Python object (its wrapper) at a time, shmt_tensor.py_object, so that C returns the same
 * object for the same tensor. A wrapper owns one reference of its tensor.
 *
 * Note [Wrappers and the collector]
 * Wrappers are objects of the garbage collector, but start untracked, which makes them cheap. A wrapper is tracked from
 * the first attribute that is set on it, or the first access to its __dict__: only then can it be part of a cycle.
 *
 * Note [PyObject preservation]
 * A wrapper without references is freed, unless something would be lost with it (attributes, a weak reference, its
 * class) while C still holds its tensor: as the gradient of another tensor, in the graph, as the base of a view. Then
 * ownership is reversed: the tensor keeps the wrapper, and the wrapper gives up its reference of the tensor. The next
 * wrap of the tensor returns that wrapper and reverses ownership again. When C releases the tensor first, the wrapper
 * takes the last reference, and both end together.
 *
 * The collector does not see what C holds, so the attributes of a tensor with other holders are not visited: they count
 * as reachable.
 */
#ifndef SHMT_PYTHON_VALUES_TENSOR_OBJECT_H
#define SHMT_PYTHON_VALUES_TENSOR_OBJECT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "python/errors.h"
#include "python/gil.h"
#include "tensor/tensor.h"

/* For what needs a storage: -1 with NotImplementedError when t is sparse, else 0. */
int shmt__py_refuse_sparse(const shmt_tensor* t);

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
/* Does the class answer operators itself, by a __torch_dispatch__ of its own? Then its objects' tensors get the key by
 * which it is asked; see Note [Wrappers] in tensor/tensor.h. */
bool shmt__py_class_answers_operators(PyTypeObject* type);
extern PyObject* shmt__py_torch_dispatch_name;     /* "__torch_dispatch__" */
extern PyObject* shmt__py_disabled_torch_dispatch; /* what the others have; NULL before the package is loaded */
/* Let operators look for that key from now on; -1 with an exception. Installed by python/dispatch/mode.c. */
extern int (*shmt__py_watch_operators)(void);
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
/* Set requires_grad of o, a new leaf, when `on`. Returns o, or NULL with an exception. Consumes o, which may be
 * NULL. */
PyObject* shmt__py_with_grad(PyObject* o, bool on);
/* Releasing the interpreter lock pays when all operands together have more elements than this. */
enum { SHMT_PY_GIL_THRESHOLD = 20000 };

/* Evaluate a call that returns shmt_status, without the interpreter lock when n elements are worth it. */
#define SHMT_PY_UNLOCKED(n, call)                       \
  ({                                                    \
    shmt_status shmt_unlocked_;                         \
    if (SHMT_UNLIKELY((n) > SHMT_PY_GIL_THRESHOLD)) {   \
      PyThreadState* shmt_saved_ = PyEval_SaveThread(); \
      shmt_unlocked_ = (call);                          \
      shmt__py_gil_restore(shmt_saved_);                \
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
