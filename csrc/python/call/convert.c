/* python/call/convert.c -- single values between Python and C. */
#include "python/call/convert.h"

#include "base/dtype.h"
#include "base/scalar.h"
#include "python/values/types.h"

shmt__py_numpy_kind shmt__py_numpy_scalar_kind(PyObject* o) {
  const char* name = Py_TYPE(o)->tp_name;
  if (SHMT_LIKELY(strncmp(name, "numpy.", 6) != 0)) return SHMT_NUMPY_NONE;
  name += 6;
  if (strncmp(name, "bool", 4) == 0) return SHMT_NUMPY_BOOL;
  if (strncmp(name, "int", 3) == 0 || strncmp(name, "uint", 4) == 0 ||
      strcmp(name, "longlong") == 0 || strcmp(name, "ulonglong") == 0)
    return SHMT_NUMPY_INT;
  if (strncmp(name, "float", 5) == 0 || strcmp(name, "longdouble") == 0) return SHMT_NUMPY_FLOAT;
  if (strncmp(name, "complex", 7) == 0 || strcmp(name, "clongdouble") == 0)
    return SHMT_NUMPY_COMPLEX;
  return SHMT_NUMPY_NONE;
}

static int long_as_scalar(PyObject* o, shmt_scalar* out) {
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (SHMT_UNLIKELY(overflow != 0)) {
    if (overflow > 0) {
      unsigned long long u = PyLong_AsUnsignedLongLong(o);
      if (!(u == (unsigned long long)-1 && PyErr_Occurred())) {
        *out = shmt__scalar_uint(u);
        return 1;
      }
      PyErr_Clear();
    }
    PyErr_SetString(PyExc_OverflowError, "int too big to convert");
    return -1;
  }
  if (v == -1 && PyErr_Occurred()) return -1;
  *out = shmt__scalar_int(v);
  return 1;
}

int shmt__py_as_scalar(PyObject* o, shmt_scalar* out) {
  if (PyFloat_Check(o)) {
    *out = shmt__scalar_float(PyFloat_AS_DOUBLE(o));
    return 1;
  }
  if (PyBool_Check(o)) {
    *out = shmt__scalar_bool(o == Py_True);
    return 1;
  }
  if (PyLong_Check(o)) return long_as_scalar(o, out);
  if (PyComplex_Check(o)) {
    Py_complex z = PyComplex_AsCComplex(o);
    *out = shmt__scalar_complex(z.real, z.imag);
    return 1;
  }
  shmt__py_numpy_kind kind = shmt__py_numpy_scalar_kind(o);
  if (kind == SHMT_NUMPY_NONE) return 0;
  if (kind == SHMT_NUMPY_INT) {
    PyObject* i = PyNumber_Index(o);
    int r = i ? long_as_scalar(i, out) : -1;
    Py_XDECREF(i);
    return r;
  }
  if (kind == SHMT_NUMPY_BOOL) {
    int is_true = PyObject_IsTrue(o);
    *out = shmt__scalar_bool(is_true > 0);
    return is_true < 0 ? -1 : 1;
  }
  if (kind == SHMT_NUMPY_FLOAT) {
    double d = PyFloat_AsDouble(o);
    *out = shmt__scalar_float(d);
    return d == -1.0 && PyErr_Occurred() ? -1 : 1;
  }
  Py_complex z = PyComplex_AsCComplex(o);
  *out = shmt__scalar_complex(z.real, z.imag);
  return z.real == -1.0 && PyErr_Occurred() ? -1 : 1;
}

/* Is o a 0-d tensor that may stand for a number? */
static bool is_number_tensor(PyObject* o) {
  if (!shmt__py_is_tensor(o)) return false;
  shmt_tensor* t = shmt__py_tensor(o);
  return t->n_dims == 0 && !(shmt__tensor_keys(t) & (SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD));
}

static int read_item(PyObject* o, shmt_scalar* out) {
  shmt_status s = shmt__tensor_item(shmt__py_tensor(o), out);
  if (s == SHMT_OK) return 1;
  shmt__py_raise(s);
  return -1;
}

int shmt__py_as_scalar_or_tensor(PyObject* o, shmt_scalar* out) {
  int r = shmt__py_as_scalar(o, out);
  if (r != 0 || !is_number_tensor(o)) return r;
  return read_item(o, out);
}

int shmt__py_as_int(PyObject* o, int64_t* out) {
  if (SHMT_LIKELY(PyLong_Check(o))) {
    if (PyBool_Check(o)) return 0;
    int overflow;
    long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow != 0) {
      shmt__py_raise_int_overflow();
      return -1;
    }
    *out = v;
    return 1;
  }
  if (is_number_tensor(o)) {
    int kind = shmt__dtype_kind[shmt__py_tensor(o)->dtype];
    if (kind != SHMT_KIND_SIGNED && kind != SHMT_KIND_UNSIGNED) return 0;
    shmt_scalar s;
    int r = read_item(o, &s);
    if (r == 1) *out = shmt__scalar_to_int64(s);
    return r;
  }
  if (shmt__py_is_tensor(o) || !PyIndex_Check(o)) return 0;
  PyObject* i = PyNumber_Index(o);
  if (i == NULL) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
    PyErr_Clear();
    return 0;
  }
  int r = PyBool_Check(i) ? 0 : shmt__py_as_int(i, out);
  Py_DECREF(i);
  return r;
}

int shmt__py_as_float(PyObject* o, double* out) {
  if (PyFloat_Check(o)) {
    *out = PyFloat_AS_DOUBLE(o);
    return 1;
  }
  if (PyLong_Check(o)) { /* bool is one */
    *out = PyLong_AsDouble(o);
    return *out == -1.0 && PyErr_Occurred() ? -1 : 1;
  }
  shmt_scalar s;
  int r = shmt__py_as_scalar_or_tensor(o, &s);
  if (r != 1) return r;
  if (s.tag == SHMT_SCALAR_COMPLEX || s.tag == SHMT_SCALAR_BOOL) return 0;
  *out = shmt__scalar_to_double(s);
  return 1;
}

int shmt__py_as_bool(PyObject* o, bool* out) {
  if (SHMT_LIKELY(PyBool_Check(o))) {
    *out = o == Py_True;
    return 1;
  }
  if (shmt__py_numpy_scalar_kind(o) != SHMT_NUMPY_BOOL) return 0;
  int is_true = PyObject_IsTrue(o);
  *out = is_true > 0;
  return is_true < 0 ? -1 : 1;
}

/* An attribute of shmtensor.storage when that is loaded; no storage exists before. New reference.
 */
static PyObject* storage_class(const char* name) {
  PyObject* module_name = PyUnicode_FromString("shmtensor.storage");
  PyObject* module = module_name ? PyImport_GetModule(module_name) : NULL;
  PyObject* cls = module ? PyObject_GetAttrString(module, name) : NULL;
  Py_XDECREF(module_name);
  Py_XDECREF(module);
  return cls;
}

int shmt__py_as_storage(PyObject* o, shmt_storage** out) {
  static PyObject *untyped, *typed;
  if (untyped == NULL) untyped = storage_class("UntypedStorage");
  if (typed == NULL) typed = storage_class("TypedStorage");
  if (untyped == NULL || typed == NULL) {
    PyErr_Clear();
    return 0;
  }
  PyObject* inner = NULL;
  int is_typed = PyObject_IsInstance(o, typed);
  if (is_typed > 0) o = inner = PyObject_CallMethod(o, "untyped", NULL);
  int r = is_typed < 0 || o == NULL ? -1 : PyObject_IsInstance(o, untyped);
  if (r == 1) {
    PyObject* address = PyObject_GetAttrString(o, "_cdata");
    *out = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(address);
    if (*out == NULL) r = -1;
    if (*out == NULL && !PyErr_Occurred())
      PyErr_SetString(PyExc_RuntimeError, "the storage is closed");
  }
  Py_XDECREF(inner); /* the typed storage keeps it alive */
  return r;
}

int shmt__py_check_storage_dtype(PyObject* o, shmt_dtype dtype) {
  shmt_dtype own = dtype;
  PyObject* given = PyObject_HasAttrString(o, "dtype") ? PyObject_GetAttrString(o, "dtype") : Py_NewRef(Py_None);
  if (given == NULL) return -1;
  (void)shmt__py_as_dtype(given, &own);
  Py_DECREF(given);
  if (own == dtype) return 0;
  PyErr_Format(PyExc_RuntimeError,
               "Expected a Storage of type %s or an UntypedStorage, but got type %s for argument 1 'storage'",
               shmt__dtype_title(dtype), shmt__dtype_title(own));
  return -1;
}

/* --- to Python ------------------------------------------------------------------- */

/* Passed by reference: a copy would have to wait for values that were just written in parts. */
static inline PyObject* from_number(const shmt_scalar* s) {
  if (s->tag == SHMT_SCALAR_FLOAT) return PyFloat_FromDouble(s->v.d);
  if (s->tag == SHMT_SCALAR_INT) return PyLong_FromLongLong(s->v.i);
  if (s->tag == SHMT_SCALAR_UINT) return PyLong_FromUnsignedLongLong((unsigned long long)s->v.i);
  if (s->tag == SHMT_SCALAR_BOOL) return PyBool_FromLong(s->v.b);
  if (s->tag == SHMT_SCALAR_COMPLEX) return PyComplex_FromDoubles(s->v.z[0], s->v.z[1]);
  Py_RETURN_NONE;
}

PyObject* shmt__py_from_scalar(shmt_scalar s) { return from_number(&s); }

PyObject* shmt__py_from_element(const void* p, shmt_dtype dtype) {
  const shmt_scalar s = shmt__scalar_load(p, dtype);
  return from_number(&s);
}

static PyObject* from_tensors(PyTypeObject* type, shmt_value* value, bool borrowed) {
  PyObject* list = PyTuple_New((Py_ssize_t)value->v.tensors.len);
  if (list == NULL) return NULL;
  for (int64_t i = 0; i < value->v.tensors.len; i++) {
    shmt_tensor* t = value->v.tensors.data[i];
    if (t != NULL && borrowed) shmt_tensor_retain(t);
    if (!borrowed) ((shmt_tensor**)value->v.tensors.data)[i] = NULL; /* ours now */
    PyObject* o = t ? shmt__py_wrap_result(type, t) : Py_NewRef(Py_None);
    if (o == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyTuple_SET_ITEM(list, i, o);
  }
  return list;
}

static PyObject* from_floats(shmt_floats v) {
  PyObject* r = PyTuple_New((Py_ssize_t)v.len);
  for (int64_t i = 0; r != NULL && i < v.len; i++) {
    PyObject* x = PyFloat_FromDouble(v.data[i]);
    if (x == NULL)
      Py_CLEAR(r);
    else
      PyTuple_SET_ITEM(r, i, x);
  }
  return r;
}

PyObject* shmt__py_from_value(shmt_value* value, const shmt_arg* arg, bool borrowed) {
  return shmt__py_from_value_as(shmt__py_tensor_type, value, arg, borrowed);
}

PyObject* shmt__py_from_value_as(PyTypeObject* type, shmt_value* value, const shmt_arg* arg,
                                 bool borrowed) {
  switch (value->tag) {
    case SHMT_VALUE_NONE:
      Py_RETURN_NONE;
    case SHMT_VALUE_TENSOR: {
      shmt_tensor* t = value->v.tensor;
      if (t != NULL && borrowed) shmt_tensor_retain(t);
      if (!borrowed) *value = (shmt_value){.tag = SHMT_VALUE_NONE};
      return t ? shmt__py_wrap_result(type, t) : Py_NewRef(Py_None);
    }
    case SHMT_VALUE_TENSORS:
      return from_tensors(type, value, borrowed);
    case SHMT_VALUE_SCALAR:
      return shmt__py_from_scalar(value->v.scalar);
    case SHMT_VALUE_INT:
      if (arg->type == SHMT_TYPE_DTYPE) return shmt__py_from_dtype((int)value->v.i);
      if (arg->type == SHMT_TYPE_DEVICE) return shmt__py_from_device((int)value->v.i);
      if (arg->type == SHMT_TYPE_LAYOUT) return shmt__py_from_layout((int)value->v.i);
      if (arg->type == SHMT_TYPE_MEMORY_FORMAT) return shmt__py_from_memory_format((int)value->v.i);
      return PyLong_FromLongLong(value->v.i);
    case SHMT_VALUE_FLOAT:
      return PyFloat_FromDouble(value->v.d);
    case SHMT_VALUE_BOOL:
      return PyBool_FromLong(value->v.b);
    case SHMT_VALUE_INTS:
      if (value->v.ints.len < 0) Py_RETURN_NONE;
      return shmt__py_tuple_from(value->v.ints);
    case SHMT_VALUE_FLOATS:
      if (value->v.floats.len < 0) Py_RETURN_NONE;
      return from_floats(value->v.floats);
    case SHMT_VALUE_STR:
      if (value->v.str == NULL) Py_RETURN_NONE;
      return PyUnicode_FromString(value->v.str);
    case SHMT_VALUE_GENERATOR:
      if (value->v.generator == NULL) Py_RETURN_NONE;
      return shmt__py_from_generator(value->v.generator);
    case SHMT_VALUE_STORAGE:
      if (value->v.storage == NULL) Py_RETURN_NONE;
      return PyLong_FromVoidPtr(value->v.storage);
  }
  PyErr_Format(PyExc_SystemError, "value of unknown kind %d", (int)value->tag);
  return NULL;
}

int shmt__py_wrapped_number(PyObject* o, const shmt_tensor* like, shmt_tensor** out) {
  shmt_scalar s = {.tag = SHMT_SCALAR_NONE};
  shmt_dtype dtype = SHMT_DTYPE_NONE;
  if (SHMT_LIKELY(like != NULL && !shmt__tensor_is_answered(like))) { /* a class sees the number as it is */
    if (PyFloat_CheckExact(o)) {
      s = shmt__scalar_float(PyFloat_AS_DOUBLE(o));
    } else if (PyLong_CheckExact(o)) {
      int overflow;
      long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
      /* Up to 2^24 every integer is itself in float32 too. */
      if (!overflow && v >= -(1 << 24) && v <= (1 << 24)) s = shmt__scalar_int(v);
    }
    bool floating = like->dtype == SHMT_FLOAT32 || like->dtype == SHMT_FLOAT64;
    /* What float32 does not hold stays float64, and becomes infinite where the operator reads it. */
    if ((s.tag != SHMT_SCALAR_NONE && floating && shmt__scalar_fits(s, like->dtype)) ||
        (s.tag == SHMT_SCALAR_INT && like->dtype == SHMT_INT64))
      dtype = like->dtype;
  }
  if (SHMT_UNLIKELY(dtype == SHMT_DTYPE_NONE)) {
    int r = shmt__py_as_scalar(o, &s);
    if (r != 1) return r;
    dtype = s.tag == SHMT_SCALAR_FLOAT     ? SHMT_FLOAT64
            : s.tag == SHMT_SCALAR_BOOL    ? SHMT_BOOL
            : s.tag == SHMT_SCALAR_COMPLEX ? SHMT_COMPLEX128
            : s.tag == SHMT_SCALAR_UINT    ? SHMT_UINT64
                                           : SHMT_INT64;
  }
  shmt_status status = shmt__tensor_from_scalar(s, dtype, true, out);
  if (SHMT_LIKELY(status == SHMT_OK)) return 1;
  shmt__py_raise(status);
  return -1;
}

PyObject* shmt__py_foreign_tensor_note(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  bool constant = strcmp(type->tp_name, "torch.dtype") == 0 ||
                  strcmp(type->tp_name, "torch.device") == 0 ||
                  strcmp(type->tp_name, "torch.layout") == 0 ||
                  strcmp(type->tp_name, "torch.memory_format") == 0;
  if (constant && type != shmt__py_dtype_type && type != shmt__py_device_type &&
      type != shmt__py_layout_type && type != shmt__py_memory_format_type)
    return PyUnicode_FromFormat(" (%R is of another package; shmtensor has its own)", o);
  bool exchanges = !shmt__py_is_tensor(o) && strncmp(type->tp_name, "numpy.", 6) != 0 &&
                   PyObject_HasAttrString((PyObject*)type, "__dlpack__");
  if (!exchanges) return PyUnicode_FromString("");
  return PyUnicode_FromFormat(" (from_dlpack() makes a tensor over the memory of a %R)", type);
}
