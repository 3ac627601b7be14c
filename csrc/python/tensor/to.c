/* python/tensor/to.c -- to() and the dtype conversions: float(), int(), half(), cpu() and the like. */
#include "generated/ops.h"
#include "python/tensor/tensor_type.h"
#include "python/call/overrides.h"
#include "python/call/convert.h"
#include "python/values/types.h"

typedef struct target {
  shmt_dtype dtype;
  shmt_device device;
  shmt_memory_format format;
  bool non_blocking, copy;
} target;

static const target unchanged = {SHMT_DTYPE_NONE, SHMT_DEVICE_NONE, SHMT_MEMORY_FORMAT_NONE, false,
                                 false};

/* t as the target says; self itself when that changes nothing. */
static PyObject* convert(PyObject* self, const target* to) {
  shmt_tensor* t = shmt__py_tensor(self);
  bool same_format = to->format == SHMT_MEMORY_FORMAT_NONE || to->format == SHMT_PRESERVE_FORMAT ||
                     shmt__tensor_suggest_format(t) == to->format;
  if (!to->copy && same_format && (to->dtype == SHMT_DTYPE_NONE || to->dtype == t->dtype) &&
      (to->device == SHMT_DEVICE_NONE || to->device == t->device))
    return Py_NewRef(self);
  shmt_tensor* out = NULL;
  shmt_opt_bool pinned = {false, false};
  shmt_status s =
      SHMT_PY_UNLOCKED(t->numel, shmt_op__to_copy(t, to->dtype, SHMT_LAYOUT_NONE, to->device,
                                                  pinned, to->non_blocking, to->format, &out));
  return s == SHMT_OK ? shmt__py_wrap_like(self, out) : shmt__py_raise(s);
}

static int wrong(const char* name, const char* arg, const char* expected, PyObject* got) {
  PyObject* note = shmt__py_foreign_tensor_note(got);
  if (note != NULL)
    PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be %s, not %s%U", name, arg, expected,
                 Py_TYPE(got)->tp_name, note);
  Py_XDECREF(note);
  return -1;
}

static int set_flag(const char* arg, PyObject* o, bool* out) {
  int r = shmt__py_as_bool(o, out);
  return r == 0 ? wrong("to", arg, "bool", o) : r < 0 ? -1 : 0;
}

static int set_keyword(const char* name, const char* key, PyObject* o, target* to) {
  if (strcmp(key, "memory_format") == 0) {
    if (o == Py_None || shmt__py_constant_value(o, shmt__py_memory_format_type, &to->format))
      return 0;
    return wrong(name, key, "torch.memory_format", o);
  }
  if (strcmp(key, "dtype") == 0) {
    if (o == Py_None || shmt__py_as_dtype(o, &to->dtype)) return 0;
    return wrong(name, key, "torch.dtype", o);
  }
  if (strcmp(key, "device") == 0) {
    int r = o == Py_None ? 1 : shmt__py_as_device(o, &to->device);
    return r == 0 ? wrong(name, key, "torch.device", o) : r < 0 ? -1 : 0;
  }
  if (strcmp(key, "non_blocking") == 0) return set_flag(key, o, &to->non_blocking);
  if (strcmp(key, "copy") == 0) return set_flag(key, o, &to->copy);
  if (strcmp(key, "other") == 0 && shmt__py_is_tensor(o)) {
    to->dtype = shmt__py_tensor(o)->dtype;
    to->device = shmt__py_tensor(o)->device;
    return 0;
  }
  PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", name, key);
  return -1;
}

/* The class of self, or of what to() takes the dtype from, answers. */
static SHMT_COLD PyObject* answer_of_class(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  PyObject *positional, *kwargs;
  if (shmt__py_pack_arguments(self, args, n, kwnames, &positional, &kwargs) < 0) return NULL;
  PyObject* function = PyObject_GetAttrString((PyObject*)shmt__py_tensor_type, "to");
  PyObject* r = function ? shmt__py_answer_method(function, Py_NewRef(positional), kwargs) : NULL;
  Py_XDECREF(function);
  Py_DECREF(positional);
  Py_DECREF(kwargs);
  return r;
}

/* to(device=None, dtype=None, non_blocking=False, copy=False), to(dtype, non_blocking, copy),
 * to(other, non_blocking, copy); memory_format by keyword. */
static PyObject* m_to(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  target to = unchanged;
  Py_ssize_t i = 0;
  if (SHMT_UNLIKELY(!shmt__py_is_plain(self) || shmt__py_n_function_modes) && shmt__py_operands_answer(self, self))
    return answer_of_class(self, args, n, kwnames);
  if (n > 0) {
    PyObject* first = args[i++];
    if (shmt__py_is_tensor(first)) {
      if (Py_TYPE(first) != shmt__py_tensor_type && shmt__py_operands_answer(first, first))
        return answer_of_class(self, args, n, kwnames);
      to.dtype = shmt__py_tensor(first)->dtype;
      to.device = shmt__py_tensor(first)->device;
    } else if (!shmt__py_as_dtype(first, &to.dtype)) {
      int r = first == Py_None ? 1 : shmt__py_as_device(first, &to.device);
      if (r < 0) return NULL;
      if (r == 0 && shmt__py_operands_answer(first, first)) return answer_of_class(self, args, n, kwnames);
      if (r == 0) {
        PyObject* note = shmt__py_foreign_tensor_note(first);
        if (note != NULL)
          PyErr_Format(PyExc_TypeError,
                       "to() received an invalid combination of arguments - got (%s), but expected "
                       "a torch.device, torch.dtype or Tensor first%U",
                       Py_TYPE(first)->tp_name, note);
        Py_XDECREF(note);
        return NULL;
      }
      if (i < n && (args[i] == Py_None || shmt__py_as_dtype(args[i], &to.dtype))) i++;
    }
  }
  if (i < n && set_flag("non_blocking", args[i++], &to.non_blocking) < 0) return NULL;
  if (i < n && set_flag("copy", args[i++], &to.copy) < 0) return NULL;
  if (i < n) {
    PyErr_Format(PyExc_TypeError, "to() takes at most %zd positional arguments but %zd were given",
                 i, n);
    return NULL;
  }
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
    const char* key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k));
    if (key == NULL || set_keyword("to", key, args[n + k], &to) < 0) return NULL;
  }
  return convert(self, &to);
}

/* float(memory_format=preserve_format) and its kin. */
static PyObject* cast(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames,
                      const char* name, shmt_dtype dtype, shmt_device device) {
  target to = unchanged;
  if (n > 0) {
    PyErr_Format(PyExc_TypeError, "%s() takes 0 positional arguments but %zd %s given", name, n,
                 n == 1 ? "was" : "were");
    return NULL;
  }
  to.dtype = dtype;
  to.device = device;
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
    const char* key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k));
    if (key == NULL) return NULL;
    if (strcmp(key, "memory_format") != 0) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", name, key);
      return NULL;
    }
    if (set_keyword(name, key, args[k], &to) < 0) return NULL;
  }
  return convert(self, &to);
}

#define CASTS(X)                                                                 \
  X(bool, SHMT_BOOL)                                                             \
  X(byte, SHMT_UINT8)                                                            \
  X(char, SHMT_INT8) X(short, SHMT_INT16) X(int, SHMT_INT32) X(long, SHMT_INT64) \
      X(half, SHMT_FLOAT16) X(bfloat16, SHMT_BFLOAT16) X(float, SHMT_FLOAT32)    \
          X(double, SHMT_FLOAT64) X(cfloat, SHMT_COMPLEX64) X(cdouble, SHMT_COMPLEX128)    \
              X(chalf, SHMT_COMPLEX32)

#define CAST(name, dtype)                                                        \
  static PyObject* m_##name(PyObject* self, PyObject* const* args, Py_ssize_t n, \
                            PyObject* kwnames) {                                 \
    return cast(self, args, n, kwnames, #name, dtype, SHMT_DEVICE_NONE);         \
  }
CASTS(CAST)

static PyObject* m_cpu(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return cast(self, args, n, kwnames, "cpu", SHMT_DTYPE_NONE, SHMT_CPU);
}

#define FAST(f) ((PyCFunction)(void (*)(void))(f)), METH_FASTCALL | METH_KEYWORDS
#define ROW(name, dtype)  \
  {#name, FAST(m_##name), \
   #name "($self, *, memory_format=...)\n--\n\nThis tensor with elements of dtype " #name \
         "; itself when they are that already. Differentiable between floating-point dtypes.\n\n" \
         "memory_format: the order of a copy in memory, by default that of this tensor."},

PyMethodDef shmt__py_to_methods[] = {
    {"to", FAST(m_to),
     "to($self, *args, **kwargs)\n--\n\nThis tensor with another dtype, device or memory format; itself "
     "when nothing changes.\n\nCalls:\n    to(dtype, non_blocking=False, copy=False, *, "
     "memory_format=None) -> Tensor\n    to(device, dtype=None, non_blocking=False, copy=False, *, "
     "memory_format=None) -> Tensor\n    to(other: Tensor, non_blocking=False, copy=False, *, "
     "memory_format=None) -> Tensor\n\ncopy=True copies in any case; non_blocking has no effect on the "
     "CPU. Differentiable."},
    {"cpu", FAST(m_cpu),
     "cpu($self, *, memory_format=...)\n--\n\nThis tensor on the CPU: itself, unless it is on meta, which "
     "raises NotImplementedError."},
    CASTS(ROW){NULL, NULL, 0, NULL},
};
