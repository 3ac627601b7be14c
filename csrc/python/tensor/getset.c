/* python/tensor/getset.c -- properties of _TensorBase; those of autograd are in python/autograd/tensor_properties.c. */
#include "api/storage.h"
#include "base/overflow.h"
#include "autograd/meta.h"
#include "autograd/vmap/levels.h"
#include "base/warn.h"
#include "generated/ops.h"
#include "python/tensor/tensor_type.h"
#include "python/call/convert.h"
#include "python/values/types.h"
#include "tensor/batched.h"
#include "tensor/sparse.h"

#define TENSOR                            \
  shmt_tensor* t = shmt__py_tensor(self); \
  (void)c

static PyObject* g_shape(PyObject* self, void* c) {
  TENSOR;
  return shmt__py_size_from(shmt__tensor_sizes(t));
}
static PyObject* g_dtype(PyObject* self, void* c) {
  TENSOR;
  return shmt__py_from_dtype(t->dtype);
}
static PyObject* g_device(PyObject* self, void* c) {
  TENSOR;
  return shmt__py_from_device(t->device);
}
static PyObject* g_layout(PyObject* self, void* c) {
  TENSOR;
  return shmt__py_from_layout(shmt__tensor_layout(t));
}
static PyObject* g_ndim(PyObject* self, void* c) {
  TENSOR;
  return PyLong_FromLong(t->n_dims);
}
static PyObject* g_itemsize(PyObject* self, void* c) {
  TENSOR;
  return PyLong_FromLongLong(shmt__tensor_item_bytes(t));
}
static PyObject* g_nbytes(PyObject* self, void* c) {
  TENSOR;
  int64_t nbytes;
  if (t->sparse != NULL) {
    PyErr_SetString(
        PyExc_RuntimeError,
        "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the "
        "nbytes of the indices and values.  If you want the size of the  equivalent dense tensor, multiply "
        "numel() by element_size()");
    return NULL;
  }
  if (!shmt__mul_i64(t->numel, shmt__tensor_item_bytes(t), &nbytes)) {
    PyErr_SetString(PyExc_OverflowError, "nbytes: more than 2**63 - 1 bytes");
    return NULL;
  }
  return PyLong_FromLongLong(nbytes);
}
static PyObject* g_is_cpu(PyObject* self, void* c) {
  TENSOR;
  return PyBool_FromLong(t->device == SHMT_CPU);
}
static PyObject* g_is_meta(PyObject* self, void* c) {
  TENSOR;
  return PyBool_FromLong(t->device == SHMT_META);
}
static PyObject* g_is_sparse(PyObject* self, void* c) {
  TENSOR;
  return PyBool_FromLong(shmt__tensor_layout(t) == SHMT_SPARSE_COO);
}
static PyObject* g_is_sparse_csr(PyObject* self, void* c) {
  TENSOR;
  return PyBool_FromLong(shmt__tensor_layout(t) == SHMT_SPARSE_CSR);
}
static PyObject* g_false(PyObject* self, void* c) {
  (void)self, (void)c;
  Py_RETURN_FALSE;
}
static PyObject* g_cdata(PyObject* self, void* c) {
  TENSOR;
  return PyLong_FromVoidPtr(t);
}

/* Borrowed: shmt_storage_retain it to keep it. Of a sparse tensor: that of its values, to compare with. */
static PyObject* g_storage_cdata(PyObject* self, void* c) {
  TENSOR;
  if (SHMT_UNLIKELY(shmt__batched_of(t) != NULL))
    return PyErr_Format(PyExc_NotImplementedError, "Cannot access storage of BatchedTensorImpl");
  return PyLong_FromVoidPtr(t->sparse ? t->sparse->values->storage : t->storage);
}

static PyObject* g_names(PyObject* self, void* c) {
  TENSOR;
  PyObject* r = PyTuple_New(t->n_dims);
  for (int i = 0; r != NULL && i < t->n_dims; i++) PyTuple_SET_ITEM(r, i, Py_NewRef(Py_None));
  return r;
}

static PyObject* g_volatile(PyObject* self, void* c) {
  (void)self, (void)c;
  if (PyErr_WarnEx(PyExc_UserWarning, "volatile was removed (Variable.volatile is always False)",
                   1) < 0)
    return NULL;
  Py_RETURN_FALSE;
}
static int s_volatile(PyObject* self, PyObject* value, void* c) {
  (void)self, (void)value, (void)c;
  return PyErr_WarnEx(
      PyExc_UserWarning,
      "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", 1);
}

/* data: the same memory without history and with a version of its own. */
/* Raise when t stands for one example of a batch that the innermost transform goes over. */
static int refuse_under_vmap(const shmt_tensor* t, const char* what) {
  const int level = shmt__level_count();
  if (SHMT_LIKELY(level == 0 || !shmt__batched_of(t)) || shmt__level_at(level)->kind != SHMT_LEVEL_VMAP) return 0;
  PyErr_Format(PyExc_RuntimeError, "%s under vmap transform is not allowed", what);
  return -1;
}

static PyObject* g_data(PyObject* self, void* c) {
  TENSOR;
  shmt_tensor* out = NULL;
  if (refuse_under_vmap(t, "accessing `data`") < 0) return NULL;
  shmt_status s = shmt__tensor_detached(t, &out);
  return s == SHMT_OK ? shmt__py_wrap_like(self, out) : shmt__py_raise(s);
}

static int s_data(PyObject* self, PyObject* value, void* c) {
  TENSOR;
  if (value == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "Deleting tensor data is not allowed. Delete tensor instead!");
    return -1;
  }
  if (!shmt__py_is_tensor(value)) {
    PyErr_Format(PyExc_TypeError, "Variable data has to be a tensor, but got %s",
                 Py_TYPE(value)->tp_name);
    return -1;
  }
  shmt_tensor* src = shmt__py_tensor(value);
  if (refuse_under_vmap(t, "mutating directly with `.data`") < 0) return -1;
  bool floating = shmt__dtype_kind[src->dtype] >= SHMT_KIND_FLOATING;
  if (src->device != t->device) {
    PyErr_SetString(PyExc_RuntimeError,
                    "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` "
                    "have incompatible tensor type.");
    return -1;
  }
  if ((shmt__tensor_own_keys(t) & SHMT_KEYBIT_Autograd) && !floating) {
    PyErr_SetString(PyExc_RuntimeError,
                    "data set to a tensor that requires gradients must be floating point or complex dtype");
    return -1;
  }
  shmt_status s = shmt__tensor_set_data(t, src);
  if (s == SHMT_OK)
    t->flags = (t->flags & ~(uint32_t)SHMT_TENSOR_INFERENCE) | (src->flags & SHMT_TENSOR_INFERENCE);
  if (s == SHMT_OK) return 0;
  shmt__py_raise(s);
  return -1;
}

/* --- views -------------------------------------------------------------------------------- */

static PyObject* wrapped(PyObject* self, shmt_status s, shmt_tensor* out) {
  return s == SHMT_OK ? shmt__py_wrap_like(self, out) : shmt__py_raise(s);
}

/* All dims in reverse order. */
static shmt_status reverse_dims(shmt_tensor* t, shmt_tensor** out) {
  int64_t dims[SHMT_MAX_DIMS];
  for (int i = 0; i < t->n_dims; i++) dims[i] = t->n_dims - 1 - i;
  return shmt_op_permute(t, (shmt_ints){dims, t->n_dims}, out);
}

enum { ATTRIBUTE_T, ATTRIBUTE_H, ATTRIBUTE_mT, ATTRIBUTE_mH, N_ATTRIBUTES };
static const char* const attribute_names[] = {"T", "H", "mT", "mH"};

/* A tensor without dims has none to exchange. */
static shmt_status warn_of_number(const shmt_tensor* t, int attribute) {
  static _Atomic(bool) warned[N_ATTRIBUTES];
  if (t->n_dims != 0) return SHMT_OK;
  return shmt__warn_once(&warned[attribute], "Tensor.%s is deprecated on 0-D tensors. %s",
                         attribute_names[attribute],
                         attribute == ATTRIBUTE_H || attribute == ATTRIBUTE_mH
                             ? "Consider using x.conj()."
                             : "This function is the identity in these cases.");
}

static PyObject* g_T(PyObject* self, void* c) {
  TENSOR;
  static _Atomic(bool) warned;
  shmt_tensor* out = NULL;
  shmt_status s = warn_of_number(t, ATTRIBUTE_T);
  if (s == SHMT_OK && t->n_dims != 2 && t->n_dims != 0)
    s = shmt__warn_once(
        &warned,
        "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
        "deprecated and it will throw an error in a future release. Consider `x.mT` to transpose "
        "batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the "
        "dimensions of a tensor.");
  if (s == SHMT_OK) s = reverse_dims(t, &out);
  return wrapped(self, s, out);
}

static PyObject* conjugated(PyObject* self, shmt_tensor* t) {
  if (shmt__dtype_kind[t->dtype] != SHMT_KIND_COMPLEX) return shmt__py_wrap_like(self, t);
  shmt_tensor* out = NULL;
  shmt_status s = shmt_op_conj(t, &out);
  shmt__tensor_release(t);
  return wrapped(self, s, out);
}

static PyObject* g_mT(PyObject* self, void* c) {
  TENSOR;
  shmt_tensor* out = NULL;
  shmt_status s = warn_of_number(t, ATTRIBUTE_mT);
  if (s == SHMT_OK) s = shmt_op_mT(t, &out);
  return wrapped(self, s, out);
}

static PyObject* g_mH(PyObject* self, void* c) {
  TENSOR;
  shmt_tensor* out = NULL;
  shmt_status s = warn_of_number(t, ATTRIBUTE_mH);
  if (s == SHMT_OK) s = shmt_op_mH(t, &out);
  return wrapped(self, s, out);
}

static PyObject* g_H(PyObject* self, void* c) {
  TENSOR;
  shmt_tensor* out = NULL;
  if (t->n_dims != 2 && t->n_dims != 0) {
    PyErr_Format(PyExc_RuntimeError,
                 "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.%s",
                 (int)t->n_dims,
                 t->n_dims > 2 ? " For batches of matrices, consider using tensor.mH" : "");
    return NULL;
  }
  shmt_status s = warn_of_number(t, ATTRIBUTE_H);
  if (s == SHMT_OK) s = reverse_dims(t, &out);
  return s == SHMT_OK ? conjugated(self, out) : shmt__py_raise(s);
}

static PyObject* g_real(PyObject* self, void* c) {
  (void)c;
  shmt_tensor* t = shmt__py_tensor(self);
  shmt_tensor* out = NULL;
  if (shmt__dtype_kind[t->dtype] != SHMT_KIND_COMPLEX) return Py_NewRef(self);
  shmt_status s = shmt_op_real(t, &out);
  return wrapped(self, s, out);
}

static PyObject* g_imag(PyObject* self, void* c) {
  (void)c;
  shmt_tensor* out = NULL;
  shmt_status s = shmt_op_imag(shmt__py_tensor(self), &out);
  return wrapped(self, s, out);
}

/* t.real = value and t.imag = value copy into the view. */
static int assign_part(PyObject* view, PyObject* value) {
  if (view == NULL) return -1;
  int r = value == NULL ? (PyErr_SetString(PyExc_TypeError, "cannot delete real or imag"), -1)
                        : PyObject_SetItem(view, Py_Ellipsis, value);
  Py_DECREF(view);
  return r;
}
static int s_real(PyObject* self, PyObject* value, void* c) {
  return assign_part(g_real(self, c), value);
}
static int s_imag(PyObject* self, PyObject* value, void* c) {
  return assign_part(g_imag(self, c), value);
}

PyGetSetDef shmt__py_plain_getset[] = {
    {"shape", g_shape, NULL, "The size of each dimension, as a Size (a tuple of ints).", NULL},
    {"dtype", g_dtype, NULL, "The type of the elements, such as shmtensor.float32.", NULL},
    {"device", g_device, NULL, "Where the data lives: cpu or meta.", NULL},
    {"layout", g_layout, NULL, "How the elements are kept: strided, or a sparse layout.", NULL},
    {"ndim", g_ndim, NULL, "Number of dimensions; dim() as a property.", NULL},
    {"itemsize", g_itemsize, NULL, "Bytes of one element.", NULL},
    {"nbytes", g_nbytes, NULL, "Bytes of all elements.", NULL},
    {"names", g_names, NULL, "A None for each dimension: dimensions have no names.", NULL},
    {"is_cpu", g_is_cpu, NULL, "True unless it is on meta, where tensors have shapes and no elements.", NULL},
    {"is_meta", g_is_meta, NULL, "True when it is on meta: it has a shape and no elements.", NULL},
    {"is_cuda", g_false, NULL, "False: there are no CUDA devices here.", NULL},
    {"is_xpu", g_false, NULL, "False: there are no such devices here.", NULL},
    {"is_mps", g_false, NULL, "False: there are no such devices here.", NULL},
    {"is_ipu", g_false, NULL, "False: there are no such devices here.", NULL},
    {"is_maia", g_false, NULL, "False: there are no such devices here.", NULL},
    {"is_mtia", g_false, NULL, "False: there are no such devices here.", NULL},
    {"is_vulkan", g_false, NULL, "False: there are no such devices here.", NULL},
    {"is_xla", g_false, NULL, "False: there are no such devices here.", NULL},
    {"is_sparse", g_is_sparse, NULL, "True when the layout is sparse_coo.", NULL},
    {"is_sparse_csr", g_is_sparse_csr, NULL, "True when the layout is sparse_csr.", NULL},
    {"is_mkldnn", g_false, NULL, "False: there is no such layout here.", NULL},
    {"is_quantized", g_false, NULL, "False: there are no quantised tensors here.", NULL},
    {"is_nested", g_false, NULL, "False: there are no nested tensors here.", NULL},
    {"data", g_data, s_data,
     "The same memory without history; assigning takes over another tensor's memory.", NULL},
    {"volatile", g_volatile, s_volatile, "False; kept for old programs.", NULL},
    {"_cdata", g_cdata, NULL, "Address of the C tensor; borrowed.", NULL},
    {"_storage_cdata", g_storage_cdata, NULL, "Address of the C storage; borrowed.", NULL},
    {"T", g_T, NULL, "All dimensions reversed; a view.", NULL},
    {"mT", g_mT, NULL, "The last two dimensions exchanged; a view.", NULL},
    {"H", g_H, NULL, "The matrix transposed and conjugated.", NULL},
    {"mH", g_mH, NULL, "The last two dimensions exchanged, conjugated.", NULL},
    {"real", g_real, s_real, "The real parts; a view.", NULL},
    {"imag", g_imag, s_imag, "The imaginary parts; a view.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
