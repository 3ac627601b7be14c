/* python/tensor/number.c -- the number protocol: + and the like call the C functions of operators directly.
 *
 * An operand is a tensor, a Python number or a NumPy scalar; numbers become 0-d wrapped tensors.
 * Anything else is NotImplemented, so that Python tries the other operand and then raises
 * TypeError. */
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/ops.h"
#include "python/tensor/construct.h"
#include "python/call/convert.h"
#include "python/call/overrides.h"
#include "tensor/batched.h"

typedef struct operand {
  shmt_tensor* t;
  bool owned;
} operand;

static SHMT_COLD int refuse_devices(void) {
  PyErr_SetString(PyExc_RuntimeError,
                  "Expected all tensors to be on the same device, but found at least two devices, "
                  "cpu and meta!");
  return -1;
}

/* Both operands; at least one is a tensor. 1, 0 (NotImplemented) or -1. */
static inline int operands(PyObject* x, PyObject* y, operand* a, operand* b) {
  bool x_is = shmt__py_is_tensor(x), y_is = shmt__py_is_tensor(y);
  a->owned = b->owned = false;
  if (SHMT_LIKELY(x_is)) a->t = shmt__py_tensor(x);
  if (SHMT_LIKELY(y_is)) b->t = shmt__py_tensor(y);
  if (SHMT_LIKELY(x_is && y_is)) {
    bool mixed =
        a->t->device != b->t->device && (a->t->device == SHMT_CPU ? a->t : b->t)->n_dims > 0;
    return SHMT_UNLIKELY(mixed) ? refuse_devices() : 1;
  }
  if (SHMT_UNLIKELY(!y_is)) {
    b->owned = true;
    return shmt__py_wrapped_number(y, a->t, &b->t);
  }
  if (SHMT_UNLIKELY(!x_is)) {
    a->owned = true;
    return shmt__py_wrapped_number(x, b->t, &a->t);
  }
  return 1;
}

static inline void operands_release(operand* a, operand* b) {
  if (SHMT_UNLIKELY(b->owned)) shmt__tensor_release(b->t);
  if (SHMT_UNLIKELY(a->owned)) shmt__tensor_release(a->t);
}

/* Elements of the larger operand: what decides whether a call is large work. */
static inline int64_t larger(const shmt_tensor* a, const shmt_tensor* b) {
  return a->numel > b->numel ? a->numel : b->numel;
}

/* What __torch_function__ gets for an operator: a method of Tensor, and the one for (y, x) when x is no tensor. */
typedef struct operator_names {
  const char *forward, *reflected; /* equal where the operator is symmetric */
} operator_names;

/* Do modes or the classes of the operands answer? Two plain tensors do not. */
static inline bool is_answered(PyObject* x, PyObject* y) {
  return SHMT_UNLIKELY(!shmt__py_is_plain(x) || !shmt__py_is_plain(y) || shmt__py_n_function_modes) &&
         shmt__py_operands_answer(x, y);
}

static SHMT_COLD PyObject* answer(operator_names names, PyObject* x, PyObject* y) {
  return shmt__py_answer_operator(names.forward, names.reflected, x, y);
}

typedef shmt_status (*binary_op)(shmt_tensor* a, shmt_tensor* b, shmt_tensor** out);
typedef shmt_status (*binary_inplace)(shmt_tensor* a, shmt_tensor* b);

static inline __attribute__((always_inline)) PyObject* binary(PyObject* x, PyObject* y, operator_names names,
                                                              binary_op op) {
  operand a, b;
  if (is_answered(x, y)) return answer(names, x, y);
  int r = operands(x, y, &a, &b);
  if (SHMT_UNLIKELY(r != 1)) {
    if (r < 0) return NULL;
    Py_RETURN_NOTIMPLEMENTED;
  }
  shmt_tensor* out = NULL;
  shmt_status s = SHMT_PY_UNLOCKED(larger(a.t, b.t), op(a.t, b.t, &out));
  operands_release(&a, &b);
  if (SHMT_UNLIKELY(s != SHMT_OK)) return shmt__py_raise(s);
  PyTypeObject* type = shmt__py_tensor_type;
  if (SHMT_LIKELY(!a.owned)) type = shmt__py_result_type_of(type, x);
  if (SHMT_LIKELY(!b.owned)) type = shmt__py_result_type_of(type, y);
  return shmt__py_wrap_result(type, out);
}

static inline __attribute__((always_inline)) PyObject* inplace(PyObject* x, PyObject* y, operator_names names,
                                                               binary_inplace op) {
  operand a, b;
  if (is_answered(x, y)) return answer(names, x, y);
  int r = operands(x, y, &a, &b);
  if (SHMT_UNLIKELY(r != 1 || a.owned)) {
    if (r == 1) operands_release(&a, &b);
    if (r < 0) return NULL;
    Py_RETURN_NOTIMPLEMENTED;
  }
  shmt_status s = SHMT_PY_UNLOCKED(larger(a.t, b.t), op(a.t, b.t));
  operands_release(&a, &b);
  if (SHMT_UNLIKELY(s != SHMT_OK)) return shmt__py_raise(s);
  return Py_NewRef(x);
}

static inline __attribute__((always_inline)) PyObject* unary(PyObject* x, operator_names names,
                                                             shmt_status (*op)(shmt_tensor*,
                                                                               shmt_tensor**)) {
  if (is_answered(x, x)) return answer(names, x, NULL);
  shmt_tensor* t = shmt__py_tensor(x);
  shmt_tensor* out = NULL;
  shmt_status s = SHMT_PY_UNLOCKED(t->numel, op(t, &out));
  if (SHMT_UNLIKELY(s != SHMT_OK)) return shmt__py_raise(s);
  return shmt__py_wrap_like(x, out);
}

/* name: the slot's; forward, reflected: as in operator_names; expr: the operator's call with a, b and out in scope. */
#define BINARY(name, forward, reflected, expr)                                               \
  static inline shmt_status call_##name(shmt_tensor* a, shmt_tensor* b, shmt_tensor** out) { \
    return expr;                                                                             \
  }                                                                                          \
  static PyObject* slot_##name(PyObject* x, PyObject* y) {                                   \
    return binary(x, y, (operator_names){forward, reflected}, call_##name);                  \
  }
#define INPLACE(name, forward, expr)                                                     \
  static inline shmt_status call_##name(shmt_tensor* a, shmt_tensor* b) { return expr; } \
  static PyObject* slot_##name(PyObject* x, PyObject* y) {                               \
    return inplace(x, y, (operator_names){forward, forward}, call_##name);               \
  }
#define UNARY(name, forward, function) \
  static PyObject* slot_##name(PyObject* x) { return unary(x, (operator_names){forward, forward}, function); }

#define ONE shmt__scalar_int(1)

BINARY(add, "add", "add", shmt_op_add_Tensor(a, b, ONE, out))
BINARY(subtract, "sub", "__rsub__", shmt_op_sub_Tensor(a, b, ONE, out))
/* A number goes second: only there is it not rounded to a half-precision dtype. */
static inline shmt_status multiply(shmt_tensor* a, shmt_tensor* b, shmt_tensor** out) {
  return a->flags & SHMT_TENSOR_WRAPPED_NUMBER ? shmt_op_mul_Tensor(b, a, out) : shmt_op_mul_Tensor(a, b, out);
}
BINARY(multiply, "mul", "mul", multiply(a, b, out))
BINARY(true_divide, "div", "__rdiv__", shmt_op_div_Tensor(a, b, out))
BINARY(floor_divide, "__floordiv__", "__rfloordiv__", shmt_op_floor_divide(a, b, out))
BINARY(remainder, "remainder", "__rmod__", shmt_op_remainder_Tensor(a, b, out))
BINARY(matrix_multiply, "matmul", "__rmatmul__", shmt_op_matmul(a, b, out))
BINARY(and, "__and__", "bitwise_and", shmt_op_bitwise_and_Tensor(a, b, out))
BINARY(or, "__or__", "bitwise_or", shmt_op_bitwise_or_Tensor(a, b, out))
BINARY(xor, "__xor__", "bitwise_xor", shmt_op_bitwise_xor_Tensor(a, b, out))
BINARY(lshift, "__lshift__", "__rlshift__", shmt_op_bitwise_left_shift_Tensor(a, b, out))
BINARY(rshift, "__rshift__", "__rrshift__", shmt_op_bitwise_right_shift_Tensor(a, b, out))
INPLACE(inplace_add_alone, "add_", shmt_op_add__Tensor(a, b, ONE))
INPLACE(inplace_subtract, "sub_", shmt_op_sub__Tensor(a, b, ONE))
INPLACE(inplace_multiply, "mul_", shmt_op_mul__Tensor(a, b))
INPLACE(inplace_true_divide, "div_", shmt_op_div__Tensor(a, b))
INPLACE(inplace_floor_divide, "floor_divide_", shmt_op_floor_divide_(a, b))
INPLACE(inplace_remainder, "remainder_", shmt_op_remainder__Tensor(a, b))
INPLACE(inplace_and, "__iand__", shmt_op_bitwise_and__Tensor(a, b))
INPLACE(inplace_or, "__ior__", shmt_op_bitwise_or__Tensor(a, b))
INPLACE(inplace_xor, "__ixor__", shmt_op_bitwise_xor__Tensor(a, b))
INPLACE(inplace_lshift, "__ilshift__", shmt_op_bitwise_left_shift__Tensor(a, b))
INPLACE(inplace_rshift, "__irshift__", shmt_op_bitwise_right_shift__Tensor(a, b))
UNARY(negative, "neg", shmt_op_neg)
UNARY(absolute, "abs", shmt_op_abs)
UNARY(invert_integers, "__invert__", shmt_op_bitwise_not)
BINARY(eq, "__eq__", "eq", shmt_op_eq_Tensor(a, b, out))
BINARY(ne, "ne", "ne", shmt_op_ne_Tensor(a, b, out))
BINARY(lt, "lt", "gt", shmt_op_lt_Tensor(a, b, out))
BINARY(le, "le", "ge", shmt_op_le_Tensor(a, b, out))
BINARY(gt, "gt", "lt", shmt_op_gt_Tensor(a, b, out))
BINARY(ge, "ge", "le", shmt_op_ge_Tensor(a, b, out))

/* x + y as Python does it for x += y, which it must not go on with: it would call this function once more, because a
 * subclass has it for `+=` of sequences too, and give the NotImplemented that it returns to the program. */
static SHMT_COLD PyObject* add_instead(PyObject* x, PyObject* y) {
  const PyNumberMethods* methods[] = {Py_TYPE(x)->tp_as_number, Py_TYPE(y)->tp_as_number};
  binaryfunc before = NULL;
  for (int i = 0; i < 2; i++) {
    binaryfunc add = methods[i] ? methods[i]->nb_add : NULL;
    if (add == NULL || add == before) continue;
    PyObject* r = add(x, y);
    if (r != Py_NotImplemented) return r;
    Py_DECREF(r);
    before = add;
  }
  return PyErr_Format(PyExc_TypeError, "unsupported operand type(s) for +=: '%.100s' and '%.100s'", Py_TYPE(x)->tp_name,
                      Py_TYPE(y)->tp_name);
}

static PyObject* slot_inplace_add(PyObject* x, PyObject* y) {
  PyObject* r = slot_inplace_add_alone(x, y);
  if (SHMT_LIKELY(r != Py_NotImplemented)) return r;
  Py_DECREF(r);
  return add_instead(x, y);
}

static PyObject* slot_invert(PyObject* x) {
  if (is_answered(x, x)) return answer((operator_names){"__invert__", NULL}, x, NULL);
  const int kind = shmt__dtype_kind[shmt__py_tensor(x)->dtype];
  if (kind == SHMT_KIND_FLOATING || kind == SHMT_KIND_COMPLEX) {
    PyErr_SetString(PyExc_TypeError,
                    "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return NULL;
  }
  return slot_invert_integers(x);
}

/* t @ 2 has no meaning: only tensors. */
static PyObject* slot_matmul(PyObject* x, PyObject* y) {
  if (is_answered(x, y)) return answer((operator_names){"matmul", "__rmatmul__"}, x, y);
  if (!shmt__py_is_tensor(x) || !shmt__py_is_tensor(y)) Py_RETURN_NOTIMPLEMENTED;
  return slot_matrix_multiply(x, y);
}

/* Powers keep a Python exponent a number: x ** 2 is a square, not a general power. */
static PyObject* slot_power(PyObject* x, PyObject* y, PyObject* modulo) {
  if (modulo != Py_None) Py_RETURN_NOTIMPLEMENTED;
  if (is_answered(x, y)) return answer((operator_names){"__pow__", "__rpow__"}, x, y);
  shmt_tensor* out = NULL;
  shmt_status s;
  shmt_scalar number;
  if (shmt__py_is_tensor(x) && shmt__py_is_tensor(y)) {
    shmt_tensor *a = shmt__py_tensor(x), *b = shmt__py_tensor(y);
    s = SHMT_PY_UNLOCKED(larger(a, b), shmt_op_pow_Tensor_Tensor(a, b, &out));
  } else {
    bool x_is = shmt__py_is_tensor(x);
    int r = shmt__py_as_scalar(x_is ? y : x, &number);
    if (r < 0) return NULL;
    if (r == 0) Py_RETURN_NOTIMPLEMENTED;
    shmt_tensor* t = shmt__py_tensor(x_is ? x : y);
    s = SHMT_PY_UNLOCKED(t->numel, x_is ? shmt_op_pow_Tensor_Scalar(t, number, &out)
                                        : shmt_op_pow_Scalar(number, t, &out));
  }
  if (s != SHMT_OK) return shmt__py_raise(s);
  return shmt__py_wrap_like(shmt__py_is_tensor(x) ? x : y, out);
}

static PyObject* slot_inplace_power(PyObject* x, PyObject* y, PyObject* modulo) {
  shmt_scalar number;
  shmt_tensor* t = shmt__py_tensor(x);
  shmt_status s;
  if (modulo != Py_None) Py_RETURN_NOTIMPLEMENTED;
  if (is_answered(x, y)) return answer((operator_names){"__ipow__", "__ipow__"}, x, y);
  if (shmt__py_is_tensor(y)) {
    s = SHMT_PY_UNLOCKED(t->numel, shmt_op_pow__Tensor_Tensor(t, shmt__py_tensor(y)));
  } else {
    int r = shmt__py_as_scalar(y, &number);
    if (r < 0) return NULL;
    if (r == 0) Py_RETURN_NOTIMPLEMENTED;
    s = SHMT_PY_UNLOCKED(t->numel, shmt_op_pow__Tensor_Scalar(t, number));
  }
  if (s != SHMT_OK) return shmt__py_raise(s);
  return Py_NewRef(x);
}

static PyObject* slot_positive(PyObject* x) {
  if (is_answered(x, x)) return answer((operator_names){"positive", NULL}, x, NULL);
  if (shmt__py_tensor(x)->dtype == SHMT_BOOL) {
    PyErr_SetString(PyExc_RuntimeError, "The `+` operator, on a bool tensor is not supported.");
    return NULL;
  }
  return Py_NewRef(x);
}

/* == of an array goes element by element, as NumPy's own does; arrays that cannot be tensors are
 * for the other operand. */
static PyObject* equals(PyObject* x, PyObject* array) {
  PyObject* known = slot_eq(x, array);
  if (SHMT_LIKELY(known != Py_NotImplemented) || !shmt__py_is_numpy_array(array)) return known;
  Py_DECREF(known);
  shmt_tensor* t = NULL;
  if (shmt__py_from_numpy(array, true, &t) < 0) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return NULL;
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
  }
  PyObject* y = shmt__py_wrap(t);
  PyObject* result = y ? slot_eq(x, y) : NULL;
  Py_XDECREF(y);
  return result;
}

PyObject* shmt__py_richcompare(PyObject* x, PyObject* y, int op) {
  switch (op) {
    case Py_EQ:
      return equals(x, y);
    case Py_NE:
      return slot_ne(x, y);
    case Py_LT:
      return slot_lt(x, y);
    case Py_LE:
      return slot_le(x, y);
    case Py_GT:
      return slot_gt(x, y);
    default:
      return slot_ge(x, y);
  }
}

/* --- conversions to Python numbers ---------------------------------------------------- */

/* Do modes or the class answer for a conversion? */
static inline bool is_converted_by_class(PyObject* x) { return is_answered(x, x); }

static SHMT_COLD int bool_of_answer(PyObject* x) {
  PyObject* r = answer((operator_names){"__bool__", NULL}, x, NULL);
  int value = r == Py_True;
  if (r && !PyBool_Check(r)) {
    PyErr_Format(PyExc_TypeError, "__bool__ should return bool, returned %s", Py_TYPE(r)->tp_name);
    value = -1;
  }
  Py_XDECREF(r);
  return r ? value : -1;
}

static int slot_bool(PyObject* x) {
  if (is_converted_by_class(x)) return bool_of_answer(x);
  shmt_tensor* t = shmt__py_tensor(x);
  if (t->numel != 1) {
    PyErr_Format(PyExc_RuntimeError, "Boolean value of Tensor with %s is ambiguous",
                 t->numel ? "more than one value" : "no values");
    return -1;
  }
  const shmt__batched* b = shmt__batched_of(t);
  if (SHMT_UNLIKELY(b != NULL && b->dim != SHMT_NOT_BATCHED)) {
    PyErr_SetString(
        PyExc_RuntimeError,
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
        "support that yet.");
    return -1;
  }
  shmt_scalar s;
  shmt_status status = shmt__tensor_item(t, &s);
  if (status != SHMT_OK) {
    shmt__py_raise(status);
    return -1;
  }
  return shmt__scalar_to_bool(s);
}

int shmt__py_warn_of_history(const shmt_tensor* t) {
  static _Atomic(bool) warned;
  if (SHMT_LIKELY(!(shmt__tensor_own_keys(t) & SHMT_KEYBIT_Autograd)) || !shmt__grad_enabled()) return 0;
  shmt_status s = shmt__warn_once(
      &warned,
      "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
      "Consider using tensor.detach() first.");
  return s == SHMT_OK ? 0 : (shmt__py_raise(s), -1);
}

/* The one element, for int(), float() and complex(). */
static int read_one(PyObject* x, shmt_scalar* out) {
  shmt_tensor* t = shmt__py_tensor(x);
  if (t->numel != 1) {
    PyErr_SetString(PyExc_ValueError,
                    "only one element tensors can be converted to Python scalars");
    return -1;
  }
  shmt_status status = shmt__tensor_item(t, out);
  if (status == SHMT_OK) return 0;
  shmt__py_raise(status);
  return -1;
}

static PyObject* slot_int(PyObject* x) {
  if (is_converted_by_class(x)) return answer((operator_names){"__int__", NULL}, x, NULL);
  shmt_scalar s;
  if (read_one(x, &s) < 0) return NULL;
  if (s.tag == SHMT_SCALAR_FLOAT) return PyLong_FromDouble(s.v.d);
  if (s.tag == SHMT_SCALAR_UINT) return PyLong_FromUnsignedLongLong((unsigned long long)s.v.i);
  if (s.tag == SHMT_SCALAR_COMPLEX && s.v.z[1] != 0) {
    PyErr_SetString(PyExc_RuntimeError,
                    "value cannot be converted to type int64_t without overflow");
    return NULL;
  }
  return PyLong_FromLongLong(shmt__scalar_to_int64(s));
}

static PyObject* slot_float(PyObject* x) {
  if (is_converted_by_class(x)) return answer((operator_names){"__float__", NULL}, x, NULL);
  shmt_scalar s;
  if (shmt__py_warn_of_history(shmt__py_tensor(x)) < 0 || read_one(x, &s) < 0) return NULL;
  if (s.tag == SHMT_SCALAR_COMPLEX && s.v.z[1] != 0) {
    PyErr_SetString(PyExc_RuntimeError,
                    "value cannot be converted to type double without overflow");
    return NULL;
  }
  return PyFloat_FromDouble(shmt__scalar_to_double(s));
}

static PyObject* slot_index(PyObject* x) {
  if (is_converted_by_class(x)) return answer((operator_names){"__index__", NULL}, x, NULL);
  shmt_tensor* t = shmt__py_tensor(x);
  int kind = shmt__dtype_kind[t->dtype];
  if (t->numel != 1 || kind == SHMT_KIND_FLOATING || kind == SHMT_KIND_COMPLEX) {
    PyErr_SetString(PyExc_TypeError,
                    "only integer tensors of a single element can be converted to an index");
    return NULL;
  }
  return slot_int(x);
}

PyType_Slot shmt__py_number_slots[] = {
    {Py_nb_add, slot_add},
    {Py_nb_subtract, slot_subtract},
    {Py_nb_multiply, slot_multiply},
    {Py_nb_true_divide, slot_true_divide},
    {Py_nb_floor_divide, slot_floor_divide},
    {Py_nb_remainder, slot_remainder},
    {Py_nb_power, slot_power},
    {Py_nb_matrix_multiply, slot_matmul},
    {Py_nb_and, slot_and},
    {Py_nb_or, slot_or},
    {Py_nb_xor, slot_xor},
    {Py_nb_lshift, slot_lshift},
    {Py_nb_rshift, slot_rshift},
    {Py_nb_inplace_add, slot_inplace_add},
    {Py_nb_inplace_subtract, slot_inplace_subtract},
    {Py_nb_inplace_multiply, slot_inplace_multiply},
    {Py_nb_inplace_true_divide, slot_inplace_true_divide},
    {Py_nb_inplace_floor_divide, slot_inplace_floor_divide},
    {Py_nb_inplace_remainder, slot_inplace_remainder},
    {Py_nb_inplace_power, slot_inplace_power},
    {Py_nb_inplace_and, slot_inplace_and},
    {Py_nb_inplace_or, slot_inplace_or},
    {Py_nb_inplace_xor, slot_inplace_xor},
    {Py_nb_inplace_lshift, slot_inplace_lshift},
    {Py_nb_inplace_rshift, slot_inplace_rshift},
    {Py_nb_negative, slot_negative},
    {Py_nb_positive, slot_positive},
    {Py_nb_absolute, slot_absolute},
    {Py_nb_invert, slot_invert},
    {Py_nb_bool, slot_bool},
    {Py_nb_int, slot_int},
    {Py_nb_float, slot_float},
    {Py_nb_index, slot_index},
    {0, NULL},
};
