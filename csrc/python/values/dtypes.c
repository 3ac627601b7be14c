/* python/values/dtypes.c -- dtype, layout and memory_format objects: one per value, never freed. */
#include "api/dtypes.h"
#include "base/dtype.h"
#include "python/values/tensor_object.h"
#include "python/values/types.h"

PyTypeObject* shmt__py_dtype_type;
PyTypeObject* shmt__py_layout_type;
PyTypeObject* shmt__py_memory_format_type;

static shmt__py_constant* dtypes[SHMT_N_DTYPES];
enum { N_LAYOUTS = 7 };
static shmt__py_constant* layouts[N_LAYOUTS];
static shmt__py_constant* formats[4];

static PyObject* constant_repr(PyObject* self) {
  return PyUnicode_FromFormat("torch.%s", ((shmt__py_constant*)self)->name);
}

/* Pickled and copied by name: shmtensor.float32. */
static PyObject* constant_reduce(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyUnicode_FromString(((shmt__py_constant*)self)->name);
}

static PyMethodDef constant_methods[] = {
    {"__reduce__", constant_reduce, METH_NOARGS, "Name in the package, for pickle and copy."},
    {NULL, NULL, 0, NULL},
};

/* --- dtype --------------------------------------------------------------------- */

static int kind_of(PyObject* self) { return shmt__dtype_kind[((shmt__py_constant*)self)->value]; }

static PyObject* get_is_floating_point(PyObject* self, void* c) {
  (void)c;
  return PyBool_FromLong(kind_of(self) == SHMT_KIND_FLOATING);
}
static PyObject* get_is_complex(PyObject* self, void* c) {
  (void)c;
  return PyBool_FromLong(kind_of(self) == SHMT_KIND_COMPLEX);
}
static PyObject* get_is_signed(PyObject* self, void* c) {
  (void)c;
  int k = kind_of(self);
  return PyBool_FromLong(k != SHMT_KIND_BOOL && k != SHMT_KIND_UNSIGNED);
}
static PyObject* get_itemsize(PyObject* self, void* c) {
  (void)c;
  return PyLong_FromLongLong(shmt__dtype_size[((shmt__py_constant*)self)->value]);
}
/* Internal: the code of the dtype in C, for calls through cffi. */
static PyObject* get_code(PyObject* self, void* c) {
  (void)c;
  return PyLong_FromLong(((shmt__py_constant*)self)->value);
}

static PyObject* dtype_to_complex(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt_dtype d = ((shmt__py_constant*)self)->value;
  if (shmt__dtype_category(d) >= 2) return shmt__py_from_dtype(shmt__to_complex_dtype(d));
  PyErr_Format(PyExc_RuntimeError, "Unknown Complex ScalarType for %s", shmt__dtype_title(d));
  return NULL;
}

static PyObject* dtype_to_real(PyObject* self, PyObject* unused) {
  (void)unused;
  return shmt__py_from_dtype(shmt__to_real_dtype(((shmt__py_constant*)self)->value));
}

static PyGetSetDef dtype_getset[] = {
    {"is_floating_point", get_is_floating_point, NULL, "True for real floating dtypes.", NULL},
    {"is_complex", get_is_complex, NULL, "True for complex dtypes.", NULL},
    {"is_signed", get_is_signed, NULL, "True when values may be negative.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of one element.", NULL},
    {"_code", get_code, NULL, "The number C uses for it.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef dtype_methods[] = {
    {"__reduce__", constant_reduce, METH_NOARGS, "Name in the package, for pickle and copy."},
    {"to_complex", dtype_to_complex, METH_NOARGS,
     "to_complex($self)\n--\n\nThe complex dtype with parts of this dtype. Raises RuntimeError for "
     "integers and bool."},
    {"to_real", dtype_to_real, METH_NOARGS,
     "to_real($self)\n--\n\nThe dtype of the real part; itself when it is real."},
    {NULL, NULL, 0, NULL},
};

PyObject* shmt__py_from_dtype(shmt_dtype dtype) {
  if (dtype < 0 || dtype >= SHMT_N_DTYPES) Py_RETURN_NONE;
  return Py_NewRef((PyObject*)dtypes[dtype]);
}

bool shmt__py_as_dtype(PyObject* o, shmt_dtype* out) {
  int v;
  if (SHMT_LIKELY(shmt__py_constant_value(o, shmt__py_dtype_type, &v)))
    *out = v;
  else if (o == (PyObject*)&PyFloat_Type)
    *out = SHMT_FLOAT64;
  else if (o == (PyObject*)&PyLong_Type)
    *out = SHMT_INT64;
  else if (o == (PyObject*)&PyBool_Type)
    *out = SHMT_BOOL;
  else if (o == (PyObject*)&PyComplex_Type)
    *out = SHMT_COMPLEX128;
  else
    return false;
  return true;
}

/* --- layout and memory format ----------------------------------------------------- */

PyObject* shmt__py_from_layout(shmt_layout layout) {
  if (layout < 0 || layout >= N_LAYOUTS) Py_RETURN_NONE;
  return Py_NewRef((PyObject*)layouts[layout]);
}

PyObject* shmt__py_from_memory_format(shmt_memory_format format) {
  if (format < 0 || format > SHMT_CHANNELS_LAST_3D) Py_RETURN_NONE;
  return Py_NewRef((PyObject*)formats[format]);
}

static PyTypeObject* make_type(PyObject* module, const char* full_name, const char* doc,
                               PyMethodDef* methods, PyGetSetDef* getset) {
  PyType_Slot slots[] = {
      {Py_tp_doc, (void*)doc},
      {Py_tp_repr, constant_repr},
      {Py_tp_methods, methods},
      {getset ? Py_tp_getset : 0, getset},
      {0, NULL},
  };
  PyType_Spec spec = {
      .name = full_name,
      .basicsize = sizeof(shmt__py_constant),
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
      .slots = slots,
  };
  PyTypeObject* type = (PyTypeObject*)PyType_FromSpec(&spec);
  if (type && PyModule_AddObjectRef(module, strrchr(full_name, '.') + 1, (PyObject*)type) < 0)
    return NULL;
  return type;
}

static shmt__py_constant* make_constant(PyObject* module, PyTypeObject* type, int value,
                                        const char* name) {
  shmt__py_constant* c = PyObject_New(shmt__py_constant, type);
  if (c == NULL) return NULL;
  c->value = value;
  c->name = name;
  return PyModule_AddObjectRef(module, name, (PyObject*)c) < 0 ? NULL : c;
}

int shmt__py_dtypes_init(PyObject* module) {
  shmt__py_dtype_type =
      make_type(module, "shmtensor.dtype",
                "The type of a tensor's elements: shmtensor.float32, shmtensor.int64 and so on.",
                dtype_methods, dtype_getset);
  shmt__py_layout_type =
      make_type(module, "shmtensor.layout",
                "How a tensor keeps its elements: shmtensor.strided, shmtensor.sparse_coo, shmtensor.sparse_csr or "
                "shmtensor.sparse_csc.",
                constant_methods, NULL);
  shmt__py_memory_format_type = make_type(
      module, "shmtensor.memory_format",
      "The order of dims in memory: shmtensor.contiguous_format, shmtensor.channels_last, "
      "shmtensor.channels_last_3d; shmtensor.preserve_format keeps the argument's.",
      constant_methods, NULL);
  if (!shmt__py_dtype_type || !shmt__py_layout_type || !shmt__py_memory_format_type) return -1;
  for (int i = 0; i < SHMT_N_DTYPES; i++)
    if ((dtypes[i] = make_constant(module, shmt__py_dtype_type, i, shmt__dtype_name[i])) == NULL)
      return -1;
  /* No tensor has one of the last three layouts; they are names that programs compare with. */
  static const char* const layout_names[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                             "sparse_bsr", "sparse_bsc", "jagged"};
  for (int i = 0; i < N_LAYOUTS; i++)
    if ((layouts[i] = make_constant(module, shmt__py_layout_type, i, layout_names[i])) == NULL)
      return -1;
  static const char* const format_names[] = {"contiguous_format", "preserve_format",
                                             "channels_last", "channels_last_3d"};
  for (int i = 0; i < 4; i++)
    if ((formats[i] = make_constant(module, shmt__py_memory_format_type, i, format_names[i])) ==
        NULL)
      return -1;
  return 0;
}
