/* python/tensor/methods.c -- methods of _TensorBase that are no operators: sizes, flags, items, identity. */
#include "base/dtype.h"
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/ops.h"
#include "ops/pointwise/conj_neg_views.h"
#include "python/call/convert.h"
#include "python/call/sharing.h"
#include "python/tensor/tensor_type.h"
#include "python/values/types.h"
#include "tensor/batched.h"
#include "tensor/sparse.h"

#define FAST(f) ((PyCFunction)(void (*)(void))(f))

/* One optional argument called key, by position or keyword: 0 (maybe NULL in *out) or -1. */
static int one_optional(const char* name, const char* key, PyObject* const* args, Py_ssize_t n,
                        PyObject* kwnames, PyObject** out) {
  Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  *out = n > 0 ? args[0] : NULL;
  if (n + n_keywords > 1) {
    PyErr_Format(PyExc_TypeError, "%s() takes from 0 to 1 arguments but %zd were given", name,
                 n + n_keywords);
    return -1;
  }
  if (n_keywords == 0) return 0;
  if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), key) != 0) {
    PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", name,
                 PyTuple_GET_ITEM(kwnames, 0));
    return -1;
  }
  *out = args[0];
  return 0;
}

/* The wrapped dim in o, or -1 with an exception. */
static int64_t dim_argument(const char* name, PyObject* o, const shmt_tensor* t) {
  int64_t dim;
  int r = shmt__py_as_int(o, &dim);
  if (r == 0)
    PyErr_Format(PyExc_TypeError, "%s(): argument 'dim' (position 1) must be int, not %s", name,
                 Py_TYPE(o)->tp_name);
  if (r != 1) return -1;
  if (t->n_dims == 0) {
    PyErr_Format(PyExc_IndexError, "Dimension specified as %lld but tensor has no dimensions",
                 (long long)dim);
    return -1;
  }
  shmt_status s = shmt__wrap_dim(dim, t->n_dims, &dim);
  if (s == SHMT_OK) return dim;
  shmt__py_raise(s);
  return -1;
}

static PyObject* m_size(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  shmt_tensor* t = shmt__py_tensor(self);
  PyObject* o;
  if (one_optional("size", "dim", args, n, kwnames, &o) < 0) return NULL;
  if (o == NULL || o == Py_None) return shmt__py_size_from(shmt__tensor_sizes(t));
  int64_t dim = dim_argument("size", o, t);
  return dim < 0 ? NULL : PyLong_FromLongLong(t->sizes[dim]);
}

static PyObject* m_stride(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  shmt_tensor* t = shmt__py_tensor(self);
  PyObject* o;
  if (one_optional("stride", "dim", args, n, kwnames, &o) < 0) return NULL;
  if (o == NULL || o == Py_None) return shmt__py_tuple_from(shmt__tensor_strides(t));
  int64_t dim = dim_argument("stride", o, t);
  return dim < 0 ? NULL : PyLong_FromLongLong(t->strides[dim]);
}

static PyObject* m_dim(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromLong(shmt__py_tensor(self)->n_dims);
}
static PyObject* m_numel(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromLongLong(shmt__py_tensor(self)->numel);
}
static PyObject* m_element_size(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromLongLong(shmt__tensor_item_bytes(shmt__py_tensor(self)));
}
static PyObject* m_storage_offset(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromLongLong(shmt__py_tensor(self)->offset);
}
/* A reference to the storage, as its address. One step under the interpreter lock: when a thread reads the address and
 * then takes a reference, another thread may set `data` in between. */
/* The place has an owner already, so an exception that arrives next finds one. */
static PyObject* m_retain_storage(PyObject* self, PyObject* place) {
  shmt_storage** out = PyLong_AsVoidPtr(place);
  if (out == NULL) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "the address of a place is zero");
  *out = shmt__py_tensor(self)->storage;
  shmt__storage_retain(*out);
  Py_RETURN_NONE;
}

static PyObject* m_data_ptr(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt_tensor* t = shmt__py_tensor(self);
  if (SHMT_UNLIKELY(shmt__tensor_is_answered(t) && !shmt__tensor_has_memory(t))) return PyLong_FromLong(0);
  if (shmt__check_has_memory(t) != SHMT_OK) return shmt__py_raise(SHMT_E_RUNTIME);
  if (t->sparse != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage");
    return NULL;
  }
  return PyLong_FromVoidPtr(t->numel ? shmt__tensor_data(t) : NULL);
}
static PyObject* m_get_device(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return PyLong_FromLong(-1);
}

static PyObject* m_is_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t n,
                                 PyObject* kwnames) {
  shmt_tensor* t = shmt__py_tensor(self);
  PyObject* o;
  if (n > 0) {
    PyErr_Format(PyExc_TypeError, "is_contiguous() takes 0 positional arguments but %zd %s given",
                 n, n == 1 ? "was" : "were");
    return NULL;
  }
  if (one_optional("is_contiguous", "memory_format", args, n, kwnames, &o) < 0) return NULL;
  int format = SHMT_CONTIGUOUS_FORMAT;
  if (o != NULL && !shmt__py_constant_value(o, shmt__py_memory_format_type, &format)) {
    PyErr_Format(PyExc_TypeError,
                 "is_contiguous(): argument 'memory_format' must be torch.memory_format, not %s",
                 Py_TYPE(o)->tp_name);
    return NULL;
  }
  if (format == SHMT_PRESERVE_FORMAT) {
    PyErr_SetString(PyExc_RuntimeError,
                    "preserve memory format is unsupported by the contiguous operator");
    return NULL;
  }
  return PyBool_FromLong(shmt__tensor_is_contiguous_in(t, format));
}

static int kind(PyObject* self) { return shmt__dtype_kind[shmt__py_tensor(self)->dtype]; }

static PyObject* m_is_floating_point(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyBool_FromLong(kind(self) == SHMT_KIND_FLOATING);
}
static PyObject* m_is_complex(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyBool_FromLong(kind(self) == SHMT_KIND_COMPLEX);
}
static PyObject* m_is_signed(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyBool_FromLong(kind(self) != SHMT_KIND_BOOL && kind(self) != SHMT_KIND_UNSIGNED);
}
static PyObject* m_false(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  Py_RETURN_FALSE;
}
static PyObject* m_is_shared(PyObject* self, PyObject* unused) {
  shmt_tensor* t = shmt__py_tensor(self);
  (void)unused;
  if (t->sparse == NULL) return PyBool_FromLong(shmt__storage_has(t->storage, SHMT_STORAGE_SHARED));
  const shmt_tensor* const parts[] = {t->sparse->compressed, t->sparse->indices, t->sparse->values};
  for (int i = 0; i < 3; i++)
    if (parts[i] != NULL && !shmt__storage_has(parts[i]->storage, SHMT_STORAGE_SHARED)) Py_RETURN_FALSE;
  Py_RETURN_TRUE;
}
static PyObject* m_is_inference(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyBool_FromLong(shmt__py_tensor(self)->flags & SHMT_TENSOR_INFERENCE);
}

static PyObject* m_is_same_size(PyObject* self, PyObject* other) {
  if (!shmt__py_is_tensor(other)) {
    PyErr_Format(PyExc_TypeError,
                 "is_same_size(): argument 'other' (position 1) must be Tensor, not %s",
                 Py_TYPE(other)->tp_name);
    return NULL;
  }
  return PyBool_FromLong(shmt__same_sizes(shmt__py_tensor(self), shmt__py_tensor(other)));
}

static PyObject* m_is_set_to(PyObject* self, PyObject* other) {
  if (!shmt__py_is_tensor(other)) {
    PyErr_Format(PyExc_TypeError,
                 "is_set_to(): argument 'tensor' (position 1) must be Tensor, not %s",
                 Py_TYPE(other)->tp_name);
    return NULL;
  }
  shmt_tensor *a = shmt__py_tensor(self), *b = shmt__py_tensor(other);
  bool same = a->storage == b->storage && a->offset == b->offset && shmt__same_sizes(a, b) &&
              shmt__same_strides(a, b);
  return PyBool_FromLong(same);
}

/* --- reading values ------------------------------------------------------------------------ */

static PyObject* m_item(PyObject* self, PyObject* unused) {
  shmt_tensor* t = shmt__py_tensor(self);
  shmt_scalar s;
  (void)unused;
  if (t->numel != 1) {
    PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar",
                 (long long)t->numel);
    return NULL;
  }
  if (shmt__tensor_is_meta(t) && !shmt__tensor_is_answered(t)) {
    PyErr_SetString(PyExc_RuntimeError, "Tensor.item() cannot be called on meta tensors");
    return NULL;
  }
  shmt_status status = shmt__tensor_item(t, &s);
  return status == SHMT_OK ? shmt__py_from_scalar(s) : shmt__py_raise(status);
}

static PyObject* list_of(const shmt_tensor* t, const char* data, int dim) {
  if (dim == t->n_dims) return shmt__py_from_element(data, t->dtype);
  int64_t n = t->sizes[dim], step = shmt__wrap_mul_i64(t->strides[dim], shmt__tensor_item_bytes(t));
  PyObject* list = PyList_New((Py_ssize_t)n);
  for (int64_t i = 0; list != NULL && i < n; i++) {
    const char* const at = data + i * step;
    PyObject* item = dim + 1 == t->n_dims ? shmt__py_from_element(at, t->dtype) : list_of(t, at, dim + 1);
    if (item == NULL)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, i, item);
  }
  return list;
}

static PyObject* m_tolist(PyObject* self, PyObject* unused) {
  shmt_tensor* t = shmt__shared_value(shmt__py_tensor(self));
  (void)unused;
  if (shmt__tensor_is_answered(t))
    return PyErr_Format(PyExc_RuntimeError, ".tolist() is not supported for tensor subclasses, got %s",
                        Py_TYPE(self)->tp_name);
  if (shmt__tensor_is_meta(t)) {
    PyErr_SetString(PyExc_NotImplementedError, "Cannot copy out of meta tensor; no data!");
    return NULL;
  }
  if (shmt__check_has_memory(t) != SHMT_OK) return shmt__py_raise(SHMT_E_RUNTIME);
  if (t->sparse != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage");
    return NULL;
  }
  SHMT_AUTO(shmt_tensor) resolved = NULL;
  shmt_status s = shmt__resolve_conj_neg(t, &resolved);
  if (s != SHMT_OK) return shmt__py_raise(s);
  return list_of(resolved, shmt__tensor_data(resolved), 0);
}

static PyObject* m_complex(PyObject* self, PyObject* unused) {
  shmt_tensor* t = shmt__py_tensor(self);
  shmt_scalar s;
  double z[2];
  (void)unused;
  if (t->numel != 1) {
    PyErr_SetString(PyExc_ValueError,
                    "only one element tensors can be converted to Python scalars");
    return NULL;
  }
  if (shmt__py_warn_of_history(t) < 0) return NULL;
  shmt_status status = shmt__tensor_item(t, &s);
  if (status != SHMT_OK) return shmt__py_raise(status);
  shmt__scalar_to_complex(s, z);
  return PyComplex_FromDoubles(z[0], z[1]);
}

const char* shmt__py_legacy_type_name(const shmt_tensor* t, char* buf, size_t cap) {
  (void)PyOS_snprintf(buf, cap, "torch.%sTensor", shmt__dtype_title(t->dtype));
  return buf;
}

PyMethodDef shmt__py_plain_methods[] = {
    {"size", FAST(m_size), METH_FASTCALL | METH_KEYWORDS,
     "size($self, dim=None)\n--\n\nThe sizes as a Size, or as an int the size of dimension dim, which may "
     "be negative.\n\nRaises IndexError when there is no such dimension."},
    {"stride", FAST(m_stride), METH_FASTCALL | METH_KEYWORDS,
     "stride($self, dim=None)\n--\n\nThe strides as a tuple, or as an int that of dimension dim; in "
     "elements, not bytes.\n\nRaises IndexError when there is no such dimension."},
    {"dim", m_dim, METH_NOARGS,
     "dim($self)\n--\n\nNumber of dimensions; ndim as a method."},
    {"ndimension", m_dim, METH_NOARGS,
     "ndimension($self)\n--\n\nNumber of dimensions; another name of dim."},
    {"numel", m_numel, METH_NOARGS,
     "numel($self)\n--\n\nNumber of elements: the product of the sizes, 1 without dimensions."},
    {"nelement", m_numel, METH_NOARGS,
     "nelement($self)\n--\n\nNumber of elements; another name of numel."},
    {"element_size", m_element_size, METH_NOARGS,
     "element_size($self)\n--\n\nBytes of one element."},
    {"storage_offset", m_storage_offset, METH_NOARGS,
     "storage_offset($self)\n--\n\nPosition of the first element in the storage, in elements."},
    {"_retain_storage", m_retain_storage, METH_O,
     "_retain_storage($self, place)\n--\n\nStore a reference to the C storage at an address."},
    {"data_ptr", m_data_ptr, METH_NOARGS,
     "data_ptr($self)\n--\n\nAddress of the first element in this process, as an int; 0 when there is "
     "none."},
    {"get_device", m_get_device, METH_NOARGS,
     "get_device($self)\n--\n\n-1: tensors live on the CPU."},
    {"is_contiguous", FAST(m_is_contiguous), METH_FASTCALL | METH_KEYWORDS,
     "is_contiguous($self, *, memory_format=...)\n--\n\nTrue when elements lie without gaps in the order of "
     "memory_format; by default the last dimension\nvaries fastest (contiguous_format)."},
    {"is_floating_point", m_is_floating_point, METH_NOARGS,
     "is_floating_point($self)\n--\n\nTrue for float16, bfloat16, float32 and float64."},
    {"is_complex", m_is_complex, METH_NOARGS,
     "is_complex($self)\n--\n\nTrue for complex32, complex64 and complex128."},
    {"is_signed", m_is_signed, METH_NOARGS,
     "is_signed($self)\n--\n\nTrue when the dtype has negative values."},
    {"is_pinned", m_false, METH_NOARGS,
     "is_pinned($self)\n--\n\nFalse: there is no device to pin memory for."},
    {"is_shared", m_is_shared, METH_NOARGS,
     "is_shared($self)\n--\n\nTrue when other processes can map the storage."},
    {"share_memory_", shmt__py_share_memory, METH_NOARGS,
     "share_memory_($self)\n--\n\nMove the whole storage into shared memory and return this tensor; every "
     "view of it follows.\n\nNothing happens when it is there already. Raises BufferError when NumPy "
     "arrays or other buffers\nshow the private memory."},
    {"is_inference", m_is_inference, METH_NOARGS,
     "is_inference($self)\n--\n\nTrue when it was made in inference mode."},
    {"is_same_size", m_is_same_size, METH_O,
     "is_same_size($self, other, /)\n--\n\nTrue when both tensors have the same sizes."},
    {"is_set_to", m_is_set_to, METH_O,
     "is_set_to($self, tensor, /)\n--\n\nTrue when both show the same memory with the same sizes and "
     "strides."},
    {"item", m_item, METH_NOARGS,
     "item($self)\n--\n\nThe only element as a Python number: bool, int, float or complex.\n\nRaises "
     "RuntimeError when there is not exactly one element."},
    {"tolist", m_tolist, METH_NOARGS,
     "tolist($self)\n--\n\nThe elements as nested lists of Python numbers; a number for a tensor without "
     "dimensions."},
    {"__complex__", m_complex, METH_NOARGS,
     "__complex__($self)\n--\n\nThe only element as a complex number."},
    {NULL, NULL, 0, NULL},
};
