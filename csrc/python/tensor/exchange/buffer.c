/* python/tensor/exchange/buffer.c -- buffers and NumPy arrays over the memory of tensors.
 *
 * A buffer of a tensor holds the tensor and one export of its storage, which pins the address until the last array over
 * it is gone. */
#include "api/storage.h"
#include "autograd/node.h"
#include "base/overflow.h"
#include "python/errors.h"
#include "python/tensor/construct.h"
#include "python/tensor/tensor_type.h"
#include "tensor/batched.h"

/* --- buffers ------------------------------------------------------------------------------ */

typedef struct export_info {
  shmt_storage* storage; /* retained and pinned */
  Py_ssize_t dims[];     /* shape, then strides in bytes */
} export_info;

static int refuse_export(const char* why) {
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

int shmt__py_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  shmt_tensor* t = shmt__py_tensor(self);
  static char nothing[16];
  view->obj = NULL;
  if (shmt__tensor_is_meta(t)) return refuse_export("a meta tensor has no data to export");
  if (shmt__check_has_memory(t) != SHMT_OK) {
    shmt__py_raise(SHMT_E_RUNTIME);
    return -1;
  }
  if (t->sparse != NULL) return refuse_export("a sparse tensor exports no buffer; use tensor.to_dense()");
  if (*shmt__dtype_struct[t->dtype] == 0) return refuse_export("this dtype has no buffer format");
  if (shmt__grad_enabled() && (shmt__tensor_keys(t) & SHMT_KEYBIT_Autograd))
    return refuse_export("a tensor that requires grad exports no buffer; use tensor.detach()");
  if (shmt__tensor_is_conj_neg(t))
    return refuse_export("a conj or neg view exports no buffer; use "
                         "tensor.resolve_conj().resolve_neg()");
  bool read_only = shmt__storage_has(t->storage, SHMT_STORAGE_READ_ONLY);
  if (read_only && (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE)
    return refuse_export("the storage is read-only");
  bool contiguous = shmt__tensor_is_contiguous(t);
  if (!contiguous && ((flags & PyBUF_STRIDES) != PyBUF_STRIDES ||
                      (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS))
    return refuse_export("the tensor is not contiguous");
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && t->n_dims > 1)
    return refuse_export("the tensor is not contiguous in Fortran order");
  int64_t nbytes;
  if (!shmt__mul_i64(t->numel, shmt__dtype_size[t->dtype], &nbytes))
    return refuse_export("the tensor has more than 2**63 - 1 bytes");
  export_info* info = PyMem_Malloc(sizeof *info + 2 * (size_t)t->n_dims * sizeof info->dims[0]);
  if (info == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  Py_ssize_t item = shmt__dtype_size[t->dtype];
  for (int i = 0; i < t->n_dims; i++) {
    info->dims[i] = (Py_ssize_t)t->sizes[i];
    info->dims[t->n_dims + i] = shmt__wrap_mul_i64(t->strides[i], item);
  }
  info->storage = t->storage;
  shmt_storage_retain(info->storage);
  shmt_storage_pin(info->storage);
  void* data = shmt__tensor_data(t);
  *view = (Py_buffer){
      .buf = data ? data : nothing,
      .obj = Py_NewRef(self),
      .len = (Py_ssize_t)nbytes,
      .itemsize = item,
      .readonly = read_only,
      .ndim = t->n_dims,
      .format = flags & PyBUF_FORMAT ? (char*)shmt__dtype_struct[t->dtype] : NULL,
      .shape = flags & PyBUF_ND ? info->dims : NULL,
      .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? info->dims + t->n_dims : NULL,
      .internal = info,
  };
  return 0;
}

void shmt__py_releasebuffer(PyObject* self, Py_buffer* view) {
  export_info* info = view->internal;
  (void)self;
  shmt_storage_unpin(info->storage);
  shmt__storage_release(info->storage);
  PyMem_Free(info);
}

static PyObject* py_pinned_view(PyObject* module, PyObject* address) {
  (void)module;
  shmt_storage* s = PyLong_AsVoidPtr(address);
  if (s == NULL) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "_pinned_view(): the address is zero");
  shmt_tensor* t = NULL;
  shmt_storage_pin(s); /* before the size is read: another thread may be resizing */
  int64_t nbytes = (int64_t)s->nbytes, stride = 1;
  shmt_status status =
      shmt__tensor_from_storage(s, (shmt_ints){&nbytes, 1}, (shmt_ints){&stride, 1}, 0, SHMT_UINT8, &t);
  PyObject* tensor = status == SHMT_OK ? shmt__py_wrap(t) : shmt__py_raise(status);
  PyObject* view = tensor != NULL ? PyMemoryView_FromObject(tensor) : NULL;
  Py_XDECREF(tensor);
  shmt_storage_unpin(s);
  return view;
}

/* --- arrays ------------------------------------------------------------------------------- */

/* May an array show the tensor as it is? */
static bool has_simple_array(PyObject* o) {
  if (Py_TYPE(o) != shmt__py_tensor_type) return false;
  const shmt_tensor* t = shmt__py_tensor(o);
  const uint64_t not_simple = SHMT_KEYBIT_Autograd | SHMT_KEYBIT_FuncTorchBatched | SHMT_KEYBIT_NoMemory;
  return !shmt__tensor_is_meta(t) && t->sparse == NULL && *shmt__dtype_struct[t->dtype] != 0 &&
         !shmt__tensor_is_conj_neg(t) && !(shmt__tensor_keys(t) & not_simple);
}

/* _simple_array(o) */
static PyObject* py_simple_array(PyObject* module, PyObject* o) {
  static PyObject* asarray; /* owned */
  (void)module;
  if (!has_simple_array(o)) Py_RETURN_NONE;
  if (SHMT_UNLIKELY(asarray == NULL)) {
    PyObject* numpy = PyImport_ImportModule("numpy");
    asarray = numpy != NULL ? PyObject_GetAttrString(numpy, "asarray") : NULL;
    Py_XDECREF(numpy);
    if (asarray == NULL) return NULL;
  }
  return PyObject_CallOneArg(asarray, o); /* by the tensor's buffer */
}

PyMethodDef shmt__py_buffer_functions[] = {
    {"_pinned_view", py_pinned_view, METH_O,
     "_pinned_view(storage)\n--\n\nThe bytes of the C storage at an address, pinned while the view lives."},
    {"_simple_array", py_simple_array, METH_O,
     "_simple_array(o)\n--\n\nA NumPy array over the memory of a dense tensor that does not require grad; None for "
     "anything else."},
    {NULL, NULL, 0, NULL},
};
