/* python/tensor/subclasses.c -- tensors as instances of subclasses of Tensor: over memory, and without any. */
#include "base/dtype.h"
#include "generated/ops.h"
#include "python/call/convert.h"
#include "python/tensor/tensor_type.h"
#include "python/values/types.h"

/* cls as a class of tensors; NULL with TypeError. */
static PyTypeObject* tensor_class(const char* name, PyObject* cls) {
  if (PyType_Check(cls) && PyType_IsSubtype((PyTypeObject*)cls, shmt__py_base_type)) return (PyTypeObject*)cls;
  PyErr_Format(PyExc_TypeError, "%s(): cls must be a subclass of Tensor, got %s", name,
               PyType_Check(cls) ? ((PyTypeObject*)cls)->tp_name : Py_TYPE(cls)->tp_name);
  return NULL;
}

/* _make_subclass(cls, data, require_grad=False): data without history, as an instance of cls. */
static PyObject* m_make_subclass(PyObject* unused, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"cls", "data", "require_grad", NULL};
  PyObject *cls, *data;
  int require_grad = 0;
  (void)unused;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|p:_make_subclass", (char**)names,
                                   &PyType_Type, &cls, shmt__py_base_type, &data, &require_grad))
    return NULL;
  PyTypeObject* type = tensor_class("_make_subclass", cls);
  if (type == NULL) return NULL;
  shmt_tensor* t = NULL;
  shmt_status s = shmt_op_detach(shmt__py_tensor(data), &t);
  if (s != SHMT_OK) return shmt__py_raise(s);
  return shmt__py_with_grad(shmt__py_wrap_as(type, t), require_grad);
}

/* as_subclass(cls): the same data and history, as an instance of cls. */
static PyObject* m_as_subclass(PyObject* self, PyObject* cls) {
  if (!PyType_Check(cls) || !PyType_IsSubtype((PyTypeObject*)cls, shmt__py_base_type)) {
    PyErr_SetString(PyExc_TypeError, "as_subclass(): argument 'cls' must be a subclass of Tensor");
    return NULL;
  }
  shmt_tensor* t = NULL;
  shmt_status s = shmt_op_alias(shmt__py_tensor(self), &t);
  return s == SHMT_OK ? shmt__py_wrap_as((PyTypeObject*)cls, t) : shmt__py_raise(s);
}

/* --- without memory ------------------------------------------------------------------------- */

typedef struct wrapper_options {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  int64_t n_dims, n_strides; /* n_strides -1: as the memory format says */
  int64_t offset;
  shmt_memory_format format;
  shmt_dtype dtype;
  shmt_device device;
} wrapper_options;

/* A list of ints into out; its length, or -1 with an exception. */
static int64_t read_ints(const char* what, PyObject* o, int64_t* out) {
  PyObject* list = PySequence_Tuple(o);
  if (list == NULL) return -1;
  const Py_ssize_t n = PyTuple_GET_SIZE(list);
  int r = 1;
  if (n > SHMT_MAX_DIMS) {
    PyErr_Format(PyExc_RuntimeError, "_make_wrapper_subclass(): %s of %zd dims, at most %d are supported", what, n,
                 SHMT_MAX_DIMS);
    r = -1;
  }
  for (Py_ssize_t i = 0; r == 1 && i < n; i++) {
    r = shmt__py_as_int(PyTuple_GET_ITEM(list, i), &out[i]);
    if (r == 0)
      PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): %s must be ints, not %s", what,
                   Py_TYPE(PyTuple_GET_ITEM(list, i))->tp_name);
  }
  Py_DECREF(list);
  return r == 1 ? n : -1;
}

static int wrong_option(const char* name, const char* expected, PyObject* got) {
  PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): argument '%s' must be %s, not %s", name, expected,
               Py_TYPE(got)->tp_name);
  return -1;
}

static int unsupported_option(const char* name) {
  PyErr_Format(PyExc_NotImplementedError, "_make_wrapper_subclass(): %s is not supported", name);
  return -1;
}

/* The sizes, strides and kind of the options; None is as if left out. -1 with an exception. */
static int read_geometry(wrapper_options* w, PyObject* size, PyObject* strides, PyObject* offset, PyObject* format) {
  w->n_strides = -1;
  if ((w->n_dims = read_ints("size", size, w->sizes)) < 0) return -1;
  if (strides != Py_None && (w->n_strides = read_ints("strides", strides, w->strides)) < 0) return -1;
  if (offset != Py_None) {
    const int r = shmt__py_as_int(offset, &w->offset);
    if (r != 1) return r == 0 ? wrong_option("storage_offset", "int", offset) : -1;
  }
  int value = SHMT_CONTIGUOUS_FORMAT;
  if (format != Py_None && !shmt__py_constant_value(format, shmt__py_memory_format_type, &value))
    return wrong_option("memory_format", "torch.memory_format", format);
  w->format = value;
  return 0;
}

static int read_kind(wrapper_options* w, PyObject* dtype, PyObject* layout, PyObject* device) {
  int of = SHMT_STRIDED;
  w->dtype = shmt__default_dtype();
  w->device = SHMT_CPU;
  if (dtype != Py_None && !shmt__py_as_dtype(dtype, &w->dtype)) return wrong_option("dtype", "torch.dtype", dtype);
  if (layout != Py_None && !shmt__py_constant_value(layout, shmt__py_layout_type, &of))
    return wrong_option("layout", "torch.layout", layout);
  if (of != SHMT_STRIDED) return unsupported_option("a layout other than strided");
  if (device == Py_None) return 0;
  const int r = shmt__py_as_device(device, &w->device);
  return r == 1 ? 0 : r == 0 ? wrong_option("device", "torch.device", device) : -1;
}

static shmt_status make_wrapper(wrapper_options* w, shmt_tensor** out) {
  const shmt_ints sizes = {w->sizes, w->n_dims};
  int64_t numel;
  if (w->n_strides < 0) {
    SHMT_TRY(shmt__checked_numel(sizes, &numel));
    shmt__contiguous_strides(sizes, w->format, w->strides);
    w->n_strides = w->n_dims;
  }
  return shmt__tensor_without_memory(sizes, (shmt_ints){w->strides, w->n_strides}, w->offset, w->dtype, w->device, out);
}

/* _make_wrapper_subclass(cls, size, ...): a tensor of that shape without memory, as an instance of cls, whose
 * __torch_dispatch__ knows what it stands for. */
static PyObject* m_make_wrapper(PyObject* unused, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"cls", "size", "strides", "storage_offset", "memory_format", "dtype", "layout",
                                      "device", "pin_memory", "requires_grad", "dispatch_sizes_strides_policy",
                                      "dispatch_device", "dispatch_layout", "_extra_dispatch_keys", "storage_size",
                                      NULL};
  PyObject *cls, *size, *strides = Py_None, *offset = Py_None, *format = Py_None, *dtype = Py_None, *layout = Py_None;
  PyObject *device = Py_None, *policy = Py_None, *extra_keys = Py_None, *storage_size = Py_None;
  int pin_memory = 0, requires_grad = 0, dispatch_device = 0, dispatch_layout = 0;
  wrapper_options w = {0};
  (void)unused;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OOO$OOOppOppOO:_make_wrapper_subclass", (char**)names, &cls, &size,
                                   &strides, &offset, &format, &dtype, &layout, &device, &pin_memory, &requires_grad,
                                   &policy, &dispatch_device, &dispatch_layout, &extra_keys, &storage_size))
    return NULL;
  PyTypeObject* type = tensor_class("_make_wrapper_subclass", cls);
  if (type == NULL) return NULL;
  if (!shmt__py_class_answers_operators(type))
    return PyErr_Format(PyExc_TypeError, "%s must define __torch_dispatch__", type->tp_name);
  const char* const unsupported = policy != Py_None       ? "dispatch_sizes_strides_policy"
                                  : dispatch_device       ? "dispatch_device"
                                  : dispatch_layout       ? "dispatch_layout"
                                  : extra_keys != Py_None ? "_extra_dispatch_keys"
                                  : storage_size != Py_None ? "storage_size"
                                  : pin_memory            ? "pin_memory"
                                                          : NULL;
  if (unsupported != NULL) return unsupported_option(unsupported), NULL;
  if (read_geometry(&w, size, strides, offset, format) < 0 || read_kind(&w, dtype, layout, device) < 0) return NULL;
  shmt_tensor* t = NULL;
  shmt_status s = make_wrapper(&w, &t);
  if (s != SHMT_OK) return shmt__py_raise(s);
  return shmt__py_with_grad(shmt__py_wrap_as(type, t), requires_grad);
}

/* _share_storage(of): show the storage of another tensor, whose geometry stays apart. */
static PyObject* m_share_storage(PyObject* self, PyObject* of) {
  if (!shmt__py_is_tensor(of))
    return PyErr_Format(PyExc_TypeError, "_share_storage(): expected Tensor, got %s", Py_TYPE(of)->tp_name);
  shmt_tensor *t = shmt__py_tensor(self), *source = shmt__py_tensor(of);
  const shmt_keyset differing = shmt__tensor_own_keys(t) ^ shmt__tensor_own_keys(source);
  if ((differing & SHMT_KEYBIT_NoMemory) || t->device != source->device || t->sparse || source->sparse) {
    PyErr_SetString(PyExc_RuntimeError, "_share_storage(): both tensors must be wrappers without memory, or neither");
    return NULL;
  }
  shmt_status s = shmt__tensor_set_storage(t, source->storage);
  if (s != SHMT_OK) return shmt__py_raise(s);
  Py_RETURN_NONE;
}

PyMethodDef shmt__py_subclass_methods[] = {
    {"_make_subclass", (PyCFunction)(void (*)(void))m_make_subclass, METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "_make_subclass(cls, data, require_grad=False)\n--\n\nAn instance of cls over the memory of data."},
    {"_make_wrapper_subclass", (PyCFunction)(void (*)(void))m_make_wrapper, METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "_make_wrapper_subclass(cls, size, strides=None, storage_offset=None, memory_format=None, *, dtype=None, "
     "layout=strided, device=None, requires_grad=False)\n--\n\nAn instance of cls without memory, which says that it "
     "has this shape, dtype and device. The class answers for it\nin __torch_dispatch__.\n\nRaises TypeError when the "
     "class has none, NotImplementedError for other options of torch."},
    {"as_subclass", m_as_subclass, METH_O,
     "as_subclass($self, cls, /)\n--\n\nThe same data and history as an instance of cls, a subclass of "
     "Tensor.\n\nRaises TypeError when cls is no subclass of Tensor."},
    {"_share_storage", m_share_storage, METH_O,
     "_share_storage($self, of, /)\n--\n\nShow the storage of another tensor, with sizes and strides as they are."},
    {NULL, NULL, 0, NULL},
};
