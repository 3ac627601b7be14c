/* python/tensor/exchange/numpy.c -- tensors over the memory of NumPy arrays and other buffers, by the buffer protocol.
 *
 * The tensor's storage holds the Py_buffer, which keeps the array alive and pinned. buffer.c has the other way round.
 */
#include "api/error.h"
#include "autograd/node.h"
#include "base/overflow.h"
#include "base/warn.h"
#include "python/call/overrides.h"
#include "python/call/convert.h"
#include "ipc/handle/share.h"
#include "python/gil.h"
#include "python/tensor/construct.h"
#include "python/tensor/tensor_type.h"
#include "python/values/types.h"
#include "storage/allocator.h"
#include "tensor/batched.h"

/* --- recognising things ---------------------------------------------------------------- */

static PyObject* array_type; /* numpy.ndarray, once numpy is loaded */

bool shmt__py_is_numpy_array(PyObject* o) {
  if (SHMT_LIKELY(array_type != NULL))
    return (PyObject*)Py_TYPE(o) == array_type || PyObject_TypeCheck(o, (PyTypeObject*)array_type);
  /* The first array may be of a class derived from ndarray, such as a memmap. */
  PyTypeObject* type = Py_TYPE(o);
  while (type != NULL && strcmp(type->tp_name, "numpy.ndarray") != 0) type = type->tp_base;
  if (type == NULL) return false;
  PyObject* numpy = PyImport_ImportModule("numpy");
  array_type = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
  Py_XDECREF(numpy);
  PyErr_Clear();
  return array_type != NULL && PyObject_TypeCheck(o, (PyTypeObject*)array_type);
}

shmt_dtype shmt__py_numpy_scalar_dtype(PyObject* o) {
  const char* name = Py_TYPE(o)->tp_name;
  if (SHMT_LIKELY(strncmp(name, "numpy.", 6) != 0)) return SHMT_DTYPE_NONE;
  name += 6;
  if (strcmp(name, "bool_") == 0) return SHMT_BOOL;
  if (strcmp(name, "longlong") == 0) return SHMT_INT64;
  if (strcmp(name, "ulonglong") == 0) return SHMT_UINT64;
  for (int d = 0; d < SHMT_N_DTYPES; d++)
    if (strcmp(shmt__dtype_numpy[d], name) == 0) return d;
  return SHMT_DTYPE_NONE;
}

/* The dtype of a PEP 3118 format: 1, 0 for another byte order, -1 for one without a dtype. */
static int format_dtype(const char* f, Py_ssize_t item_bytes, shmt_dtype* out) {
  if (f == NULL) f = "B";
  if (*f == '@' || *f == '=' || *f == '<')
    f++;
  else if (*f == '>' || *f == '!')
    return item_bytes > 1 ? 0 : -1;
  const char* wanted = f;
  if (strcmp(f, "l") == 0 || strcmp(f, "n") == 0 || strcmp(f, "q") == 0) wanted = item_bytes == 8 ? "l" : "i";
  if (strcmp(f, "L") == 0 || strcmp(f, "N") == 0 || strcmp(f, "Q") == 0) wanted = item_bytes == 8 ? "L" : "I";
  if (strcmp(f, "c") == 0) wanted = "B";
  for (int d = 0; d < SHMT_N_DTYPES; d++) {
    if (*shmt__dtype_struct[d] && strcmp(shmt__dtype_struct[d], wanted) == 0 &&
        shmt__dtype_size[d] == item_bytes) {
      *out = d;
      return 1;
    }
  }
  return -1;
}

/* --- from arrays ------------------------------------------------------------------------- */

/* A storage's deleter; may run on any thread, and after Python has ended. */
static void buffer_deleter(void* arg, void* data) {
  (void)data;
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyBuffer_Release(arg);
  PyMem_Free(arg);
  PyGILState_Release(gil);
}

/* Has o memory of its own that nobody reaches when nobody has o? */
static bool owns_its_bytes(PyObject* o) { return PyBytes_CheckExact(o) || PyByteArray_CheckExact(o); }

/* Does anybody have the object, or one that it takes its memory from? One reference to it is the caller's. A class
 * derived from ndarray may answer anything when it is asked for its base, so nothing is known of it. */
static bool is_held_by_others(PyObject* o) {
  if (Py_REFCNT(o) > 1) return true;
  if (!shmt__py_is_numpy_array(o)) return !owns_its_bytes(o);
  if ((PyObject*)Py_TYPE(o) != array_type) return true;
  PyObject* base = PyObject_GetAttrString(o, "base");
  if (base == NULL) {
    PyErr_Clear();
    return true;
  }
  Py_DECREF(base); /* o has it */
  return base != Py_None && is_held_by_others(base);
}

bool shmt__py_is_seen_elsewhere(const shmt_storage* s) {
  const shmt__blob* blob = shmt__storage_blob(s);
  const shmt_storage* whole = shmt__storage_whole(s);
  if (blob == NULL || shmt__storage_is_own_part(s)) return false;
  if (whole != NULL)
    return shmt__storage_has(whole, SHMT_STORAGE_SHARED) ||
           atomic_load_explicit(&whole->refs, memory_order_acquire) > 1 ||
           atomic_load_explicit(&whole->exports, memory_order_acquire) > 1 || shmt__py_is_seen_elsewhere(whole);
  if (blob->deleter != buffer_deleter) return true;
  const Py_buffer* view = blob->deleter_arg;
  return view->obj == NULL || is_held_by_others(view->obj);
}

static int unsupported_type(PyObject* array) {
  PyErr_Clear(); /* what the buffer was refused with */
  PyObject* dtype = PyObject_GetAttrString(array, "dtype");
  PyObject* type = dtype ? PyObject_GetAttrString(dtype, "type") : NULL;
  PyErr_Clear();
  PyErr_Format(
      PyExc_TypeError,
      "can't convert np.ndarray of type %s. The only supported types are: float64, float32, "
      "float16, "
      "complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.",
      type && PyType_Check(type) ? ((PyTypeObject*)type)->tp_name : "unknown");
  Py_XDECREF(dtype);
  Py_XDECREF(type);
  return -1;
}

static int wrong_byte_order(void) {
  PyErr_SetString(PyExc_ValueError,
                  "given numpy array has byte order different from the native byte order. "
                  "Conversion between byte "
                  "orders is currently not supported.");
  return -1;
}

/* Has the view what says where its elements are? See Note [What producers say]. */
static int check_view(const Py_buffer* view) {
  bool is_complete = view->ndim >= 0 && view->itemsize > 0 &&
                     (view->ndim == 0 || (view->shape != NULL && view->strides != NULL));
  for (int i = 0; is_complete && i < view->ndim; i++)
    is_complete = view->shape[i] >= 0 && (view->suboffsets == NULL || view->suboffsets[i] < 0);
  if (is_complete) return 0;
  PyErr_Format(PyExc_BufferError,
               "a buffer of %d dimensions with elements of %zd bytes does not say where they are, or has pointers in "
               "between",
               view->ndim, view->itemsize);
  return -1;
}

static int check_bytes(const Py_buffer* view, uint64_t nbytes) {
  if (shmt__bytes_can_lie_at(view->buf, 0, nbytes)) return 0;
  PyErr_Format(PyExc_BufferError, "a buffer of %llu bytes at %p, which lie outside of memory",
               (unsigned long long)nbytes, view->buf);
  return -1;
}

/* The addresses from the first to behind the last byte of a view; both 0 when it has no elements. False: they
 * overflow. */
static bool find_buffer_extent(const Py_buffer* view, uint64_t out[2]) {
  int64_t low = 0, high = view->itemsize;
  for (int i = 0; i < view->ndim; i++) {
    int64_t reach;
    if (view->shape[i] == 0) {
      out[0] = out[1] = 0;
      return true;
    }
    if (!shmt__mul_i64(view->shape[i] - 1, view->strides[i], &reach)) return false;
    if (!shmt__add_i64(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) return false;
  }
  out[0] = (uintptr_t)view->buf + (uint64_t)low;
  out[1] = (uintptr_t)view->buf + (uint64_t)high;
  return true;
}

/* The extent of what o exports. -1 with an exception. */
static int extent_of(PyObject* o, uint64_t out[2]) {
  Py_buffer view;
  if (PyObject_GetBuffer(o, &view, PyBUF_FULL_RO) < 0) return -1;
  int r = check_view(&view);
  if (r == 0 && !find_buffer_extent(&view, out)) {
    PyErr_SetString(PyExc_ValueError, "the given buffer spans more than 2^63 bytes");
    r = -1;
  }
  PyBuffer_Release(&view);
  return r;
}

int shmt__py_check_inside_base(PyObject* array) {
  uint64_t whole[2], elements[2];
  PyObject* base = PyObject_GetAttrString(array, "base");
  if (base == NULL) return -1;
  int r = 0;
  if (PyObject_CheckBuffer(base)) {
    r = extent_of(array, elements) < 0 || extent_of(base, whole) < 0 ? -1 : 0;
    bool inside = r == 0 && (elements[0] == elements[1] ||
                             (elements[0] >= whole[0] && elements[0] < elements[1] && elements[1] <= whole[1]));
    if (r == 0 && !inside) {
      PyErr_Format(PyExc_ValueError,
                   "__array_interface__: the elements lie from byte %lld to %lld of a buffer of %llu bytes",
                   (long long)(elements[0] - whole[0]), (long long)(elements[1] - whole[0]),
                   (unsigned long long)(whole[1] - whole[0]));
      r = -1;
    }
  }
  Py_DECREF(base);
  return r;
}

/* Element strides of a view, and the bytes it spans. */
static int element_strides(const Py_buffer* view, int64_t* sizes, int64_t* strides,
                           uint64_t* nbytes) {
  int64_t span = (int64_t)view->itemsize;
  bool empty = false;
  for (int i = 0; i < view->ndim; i++) {
    Py_ssize_t stride = view->strides[i];
    sizes[i] = view->shape[i];
    empty |= sizes[i] == 0;
    if (stride < 0) {
      PyErr_SetString(PyExc_ValueError,
                      "At least one stride in the given numpy array is negative, and tensors with "
                      "negative strides "
                      "are not currently supported. (You can probably work around this by making a "
                      "copy of your array "
                      " with array.copy().) ");
      return -1;
    }
    if (stride % view->itemsize != 0) {
      if (sizes[i] > 1) {
        PyErr_SetString(PyExc_ValueError,
                        "given numpy array strides not a multiple of the element byte size. Copy "
                        "the numpy array to "
                        "reallocate the memory.");
        return -1;
      }
      stride = view->itemsize;
    }
    strides[i] = stride / view->itemsize;
    int64_t reach;
    if (!shmt__mul_i64(sizes[i] > 0 ? sizes[i] - 1 : 0, stride, &reach) ||
        !shmt__add_i64(span, reach, &span)) {
      PyErr_SetString(PyExc_ValueError, "the given buffer spans more than 2^63 bytes");
      return -1;
    }
  }
  *nbytes = empty ? 0 : (uint64_t)span;
  return 0;
}

/* A tensor over what view describes. Takes view's contents over, also on failure. */
static int tensor_over(const Py_buffer* source, shmt_dtype dtype, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  uint64_t nbytes;
  Py_buffer* view = PyMem_Malloc(sizeof *view);
  if (view == NULL) {
    Py_buffer copy = *source;
    PyBuffer_Release(&copy);
    PyErr_NoMemory();
    return -1;
  }
  *view = *source;
  if (view->shape == &source->len)
    view->shape = &view->len; /* simple exporters point into the struct */
  if (view->strides == &source->itemsize) view->strides = &view->itemsize;
  shmt_status s = SHMT_E_PYTHON;
  if (view->ndim > SHMT_MAX_DIMS)
    PyErr_Format(PyExc_ValueError, "array has %d dimensions, at most %d are supported", view->ndim,
                 SHMT_MAX_DIMS);
  else if (check_view(view) == 0 && element_strides(view, sizes, strides, &nbytes) == 0 &&
           check_bytes(view, nbytes) == 0)
    s = SHMT_OK;
  shmt_storage* storage = NULL;
  if (s == SHMT_OK)
    s = shmt__storage_from_blob(view->buf, nbytes, buffer_deleter, view,
                                view->readonly ? SHMT_STORAGE_READ_ONLY : 0, &storage);
  if (storage == NULL) {
    PyBuffer_Release(view);
    PyMem_Free(view);
  } else {
    s = shmt__tensor_from_storage(storage, (shmt_ints){sizes, view->ndim},
                                  (shmt_ints){strides, view->ndim}, 0, dtype, out);
    shmt__storage_release(storage);
  }
  if (s == SHMT_OK) return 0;
  shmt__py_raise(s);
  return -1;
}

static int warn_read_only(_Atomic(bool)* warned, const char* what) {
  shmt_status s = shmt__warn_once(
      warned,
      "The given %s is not writable, and neither is the tensor over it: operators that would write to "
      "it raise RuntimeError. You may want to copy the %s or make it writable before converting it to "
      "a tensor.",
      what, what);
  return s == SHMT_OK ? 0 : (shmt__py_raise(s), -1);
}

int shmt__py_from_numpy(PyObject* array, bool only_read, shmt_tensor** out) {
  Py_buffer view;
  shmt_dtype dtype = SHMT_DTYPE_NONE;
  if (PyObject_GetBuffer(array, &view, PyBUF_FULL_RO) < 0) return unsupported_type(array);
  int known = format_dtype(view.format, view.itemsize, &dtype);
  static _Atomic(bool) warned;
  if (known != 1 || (view.readonly && !only_read && warn_read_only(&warned, "NumPy array") < 0)) {
    PyBuffer_Release(&view);
    if (known == 1) return -1;
    return known == 0 ? wrong_byte_order() : unsupported_type(array);
  }
  return tensor_over(&view, dtype, out);
}

/* --- from arrays that go into messages -------------------------------------------------------- */

/* What an array takes its memory from: not another array, nor a view of one; None: it has it itself, or another array
 * has. New reference; NULL with an exception. */
static PyObject* owner_below(PyObject* array, bool* out_is_view) {
  static PyObject* name;
  if (name == NULL && (name = PyUnicode_InternFromString("base")) == NULL) return NULL;
  PyObject* owner = PyObject_GetAttr(array, name);
  *out_is_view = owner != NULL && (PyObject*)Py_TYPE(owner) == array_type;
  while (owner != NULL && (PyObject*)Py_TYPE(owner) == array_type) Py_SETREF(owner, PyObject_GetAttr(owner, name));
  if (owner != NULL && PyMemoryView_Check(owner)) {
    PyObject* below = PyMemoryView_GET_BUFFER(owner)->obj;
    Py_SETREF(owner, Py_NewRef(below != NULL ? below : Py_None));
  }
  return owner;
}

/* A tensor of an array's geometry over the shared storage of the tensor below it. NULL without an exception: the
 * elements do not lie on its elements. */
static PyObject* tensor_over_shared(const Py_buffer* view, shmt_dtype dtype, const shmt_tensor* below) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  uint64_t nbytes;
  if (below->dtype != dtype || !shmt__storage_is_shared(below->storage)) return NULL;
  if (view->ndim > SHMT_MAX_DIMS || check_view(view) < 0 || element_strides(view, sizes, strides, &nbytes) < 0) {
    PyErr_Clear();
    return NULL;
  }
  const uintptr_t at = (uintptr_t)view->buf, first = (uintptr_t)below->storage->data;
  if (at < first || (at - first) % (uint64_t)view->itemsize != 0) return NULL;
  shmt_tensor* t = NULL;
  shmt_status status = shmt__tensor_from_storage(below->storage, (shmt_ints){sizes, view->ndim},
                                                 (shmt_ints){strides, view->ndim},
                                                 (int64_t)((at - first) / (uint64_t)view->itemsize), dtype, &t);
  if (status == SHMT_OK) return shmt__py_wrap(t);
  shmt_error_clear();
  return NULL;
}

PyObject* shmt__py_tensor_of_simple_array(PyObject* array, bool may_be_view) {
  Py_buffer view;
  bool is_view = false;
  shmt_dtype dtype = SHMT_DTYPE_NONE;
  if (!shmt__py_is_numpy_array(array) || (PyObject*)Py_TYPE(array) != array_type) return NULL;
  if (PyObject_GetBuffer(array, &view, PyBUF_FULL_RO) < 0) {
    PyErr_Clear(); /* of a dtype without a format */
    return NULL;
  }
  PyObject *tensor = NULL, *owner = NULL;
  if (format_dtype(view.format, view.itemsize, &dtype) == 1) owner = owner_below(array, &is_view);
  if (owner == Py_None && !view.readonly && (may_be_view || !is_view)) {
    shmt_tensor* t = NULL;
    tensor = tensor_over(&view, dtype, &t) == 0 ? shmt__py_wrap(t) : NULL; /* has view's contents */
    if (tensor == NULL) PyErr_Clear();
    Py_DECREF(owner);
    return tensor;
  }
  if (owner != NULL && Py_TYPE(owner) == shmt__py_tensor_type)
    tensor = tensor_over_shared(&view, dtype, shmt__py_tensor(owner));
  Py_XDECREF(owner);
  PyErr_Clear();
  PyBuffer_Release(&view);
  return tensor;
}

/* --- from any buffer ------------------------------------------------------------------------ */

/* Elements to take from a buffer of len bytes; -1 with an exception. */
static Py_ssize_t frombuffer_count(Py_ssize_t len, Py_ssize_t item, Py_ssize_t count,
                                   Py_ssize_t offset) {
  if (len <= 0 || count == 0) {
    PyErr_Format(PyExc_ValueError, "both buffer length (%zd) and count (%zd) must not be 0", len,
                 count);
    return -1;
  }
  if (offset < 0 || offset >= len) {
    PyErr_Format(PyExc_ValueError,
                 "offset (%zd bytes) must be non-negative and no greater than buffer length (%zd "
                 "bytes) minus 1",
                 offset, len);
    return -1;
  }
  if (count < 0) {
    if ((len - offset) % item != 0) {
      PyErr_Format(PyExc_ValueError,
                   "buffer length (%zd bytes) after offset (%zd bytes) must be a multiple of "
                   "element size (%zd)",
                   len - offset, offset, item);
      return -1;
    }
    return (len - offset) / item;
  }
  if (count > (len - offset) / item) {
    PyErr_Format(PyExc_ValueError,
                 "requested buffer length (%zd * %zd bytes) after offset (%zd bytes) must not be "
                 "greater than actual buffer "
                 "length (%zd bytes)",
                 count, item, offset, len);
    return -1;
  }
  return count;
}

static PyObject* py_frombuffer(PyObject* module, PyObject* args, PyObject* kwargs) {
  if (SHMT_UNLIKELY(shmt__py_n_function_modes))
    return shmt__py_answer_factory("frombuffer", Py_NewRef(args), kwargs);
  static const char* const names[] = {"buffer", "dtype", "count", "offset", "requires_grad", NULL};
  PyObject *buffer, *dtype_object = NULL;
  Py_ssize_t count = -1, offset = 0;
  int requires_grad = 0;
  shmt_dtype dtype;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$Onnp:frombuffer", (char**)names, &buffer,
                                   &dtype_object, &count, &offset, &requires_grad))
    return NULL;
  if (dtype_object == NULL) {
    PyErr_SetString(PyExc_TypeError, "frombuffer() missing 1 required keyword argument: 'dtype'");
    return NULL;
  }
  if (!shmt__py_as_dtype(dtype_object, &dtype)) {
    PyErr_Format(PyExc_TypeError, "frombuffer(): argument 'dtype' must be torch.dtype, not %s",
                 Py_TYPE(dtype_object)->tp_name);
    return NULL;
  }
  if (!PyObject_CheckBuffer(buffer)) {
    PyErr_SetString(PyExc_ValueError, "object does not implement Python buffer protocol.");
    return NULL;
  }
  Py_buffer view;
  if (PyObject_GetBuffer(buffer, &view, PyBUF_CONTIG_RO) < 0) return NULL;
  Py_ssize_t item = shmt__dtype_size[dtype];
  Py_ssize_t n = frombuffer_count(view.len, item, count, offset);
  static _Atomic(bool) warned;
  if (n < 0 || (view.readonly && warn_read_only(&warned, "buffer") < 0)) {
    PyBuffer_Release(&view);
    return NULL;
  }
  Py_ssize_t shape[1] = {n}, strides[1] = {item};
  view.buf = (char*)view.buf + offset;
  view.itemsize = item;
  view.ndim = 1;
  view.shape = shape;
  view.strides = strides;
  shmt_tensor* t = NULL;
  if (tensor_over(&view, dtype, &t) < 0) return NULL;
  return shmt__py_with_grad(shmt__py_wrap(t), requires_grad);
}

PyMethodDef shmt__py_numpy_functions[] = {
    {"frombuffer", (PyCFunction)(void (*)(void))py_frombuffer, METH_VARARGS | METH_KEYWORDS,
     "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n--\n\nA 1-d tensor "
     "over a buffer's memory, read-only as the buffer is."},
    {NULL, NULL, 0, NULL},
};
