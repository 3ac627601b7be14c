/* python/tensor/indexing.c -- t[key]: views for basic keys, index.Tensor for the rest. */
#include "python/tensor/indexing.h"

#include "generated/ops.h"
#include "python/tensor/construct.h"
#include "python/call/convert.h"
#include "python/call/overrides.h"
#include "tensor/batched.h"

/* Raise and return -1 when status is a failure. */
static int checked(shmt_status s) {
  if (SHMT_LIKELY(s == SHMT_OK)) return 0;
  shmt__py_raise(s);
  return -1;
}

/* --- one dimension --------------------------------------------------------------------- */

static int select_dim(shmt_tensor* t, int64_t dim, int64_t index, int64_t shown_dim,
                      shmt_tensor** out) {
  if (SHMT_UNLIKELY(t->n_dims == 0)) {
    PyErr_SetString(PyExc_IndexError,
                    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                    "`tensor.item<T>()` in C++ to "
                    "convert a 0-dim tensor to a number");
    return -1;
  }
  int64_t size = t->sizes[dim];
  if (SHMT_UNLIKELY(index < -size || index >= size)) {
    PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for dimension %lld with size %lld",
                 (long long)index, (long long)shown_dim, (long long)size);
    return -1;
  }
  return checked(shmt_op_select_int(t, dim, index, out));
}

static int slice_dim(shmt_tensor* t, int64_t dim, PyObject* slice, shmt_tensor** out) {
  Py_ssize_t start, stop, step;
  if (SHMT_UNLIKELY(t->n_dims == 0)) {
    PyErr_SetString(PyExc_IndexError, "slice() cannot be applied to a 0-dim tensor.");
    return -1;
  }
  if (PySlice_Unpack(slice, &start, &stop, &step) < 0) return -1;
  if (step <= 0) {
    PyErr_SetString(PyExc_ValueError, "step must be greater than zero");
    return -1;
  }
  Py_ssize_t size = (Py_ssize_t)t->sizes[dim];
  Py_ssize_t n = PySlice_AdjustIndices(size, &start, &stop, step);
  if (start == 0 && n == size && step == 1) {
    *out = NULL; /* the whole dimension: no view needed */
    return 0;
  }
  if (n == 0) stop = start; /* an empty slice whose ends crossed */
  return checked(shmt_op_slice_Tensor(t, dim, (shmt_opt_int){start, true},
                                      (shmt_opt_int){stop, true}, step, out));
}

/* Replace x->view by next; NULL keeps it. */
static void advance(shmt__py_indexed* x, shmt_tensor* next) {
  if (next == NULL) return;
  shmt__tensor_release(x->view);
  x->view = next;
}

void shmt__py_indexed_fini(shmt__py_indexed* x) {
  shmt__tensor_release(x->view);
  for (int i = 0; i < x->n_indices; i++) shmt__tensor_release(x->indices[i]);
}

/* --- keys ------------------------------------------------------------------------------- */

/* Do index tensors of this dtype mark elements, in place of naming them? */
static bool is_mask(shmt_dtype dtype) { return dtype == SHMT_BOOL || dtype == SHMT_UINT8; }

static int64_t dims_of_index(const shmt_tensor* t) { return is_mask(t->dtype) ? t->n_dims : 1; }

/* Dimensions that a NumPy array uses up: as many as a tensor made of it. */
static int64_t dims_of_array(PyObject* array) {
  PyObject* dtype = PyObject_GetAttrString(array, "dtype");
  PyObject* code = dtype ? PyObject_GetAttrString(dtype, "char") : NULL;
  PyObject* ndim = PyObject_GetAttrString(array, "ndim");
  int64_t n = 1;
  if (code && PyUnicode_Check(code) && ndim && PyLong_Check(ndim) &&
      (PyUnicode_CompareWithASCIIString(code, "?") == 0 ||
       PyUnicode_CompareWithASCIIString(code, "B") == 0))
    n = PyLong_AsLongLong(ndim);
  Py_XDECREF(dtype);
  Py_XDECREF(code);
  Py_XDECREF(ndim);
  PyErr_Clear();
  return n;
}

/* Dimensions of the tensor that an item of the key uses up. */
static int64_t dims_of(PyObject* item) {
  if (shmt__py_is_tensor(item)) return dims_of_index(shmt__py_tensor(item));
  if (item == Py_None || item == Py_Ellipsis || PyBool_Check(item)) return 0;
  if (!PyLong_Check(item) && !PySlice_Check(item) &&
      shmt__py_numpy_scalar_kind(item) == SHMT_NUMPY_NONE &&
      PyObject_HasAttrString(item, "dtype") && PyObject_HasAttrString(item, "ndim"))
    return dims_of_array(item);
  return 1;
}

/* A list that stands for a tuple: one that holds slices, None, ... or further sequences. */
static bool is_index_tuple(PyObject* key) {
  if (shmt__py_is_tensor(key) || !PyList_Check(key)) return false;
  Py_ssize_t n = PyList_GET_SIZE(key);
  if (n >= 32) return false; /* as NumPy: a long list is an index */
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* item = PyList_GET_ITEM(key, i);
    if (shmt__py_is_tensor(item) || PySequence_Check(item) || PySlice_Check(item) ||
        item == Py_Ellipsis || item == Py_None)
      return true;
  }
  return false;
}

/* Remember an index tensor for dimension dim. Consumes index. */
static int record(shmt__py_indexed* x, int64_t dim, shmt_tensor* index) {
  if (dim >= SHMT_MAX_DIMS) {
    shmt__tensor_release(index);
    PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d",
                 (int)x->view->n_dims);
    return -1;
  }
  while (x->n_indices <= dim) x->indices[x->n_indices++] = NULL;
  x->indices[dim] = index;
  return 0;
}

static int index_by_bool(shmt__py_indexed* x, int64_t dim, bool value) {
  shmt_tensor *next = NULL, *index = NULL;
  if (checked(shmt_op_unsqueeze(x->view, dim, &next)) < 0) return -1;
  advance(x, next);
  /* True keeps everything and False nothing: a 1-element mask over the new dimension. */
  int64_t one = 1;
  if (checked(shmt__tensor_empty((shmt_ints){&one, 1}, SHMT_BOOL, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT,
                                 &index)) < 0)
    return -1;
  *(bool*)shmt__tensor_data(index) = value;
  return record(x, dim, index);
}

static int invalid_index(PyObject* item) {
  PyErr_Format(PyExc_IndexError,
               "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
               "valid indices "
               "(got %s)",
               Py_TYPE(item)->tp_name);
  return -1;
}

/* Under vmap a single integer may differ from example to example: no view has them all. */
static SHMT_COLD int apply_batched(shmt__py_indexed* x, shmt_tensor* t, int64_t* dim) {
  if (!is_mask(t->dtype)) return record(x, (*dim)++, shmt__tensor_ref(t));
  PyErr_SetString(PyExc_RuntimeError,
                  "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over "
                  "indexing with a boolean mask.");
  return -1;
}

/* A tensor as an item of a key: a single integer selects, as an int does. */
static int apply_tensor(shmt__py_indexed* x, shmt_tensor* t, int64_t* dim, int64_t used) {
  int kind = shmt__dtype_kind[t->dtype];
  if (t->n_dims > 0 ||
      (kind != SHMT_KIND_SIGNED && kind != SHMT_KIND_UNSIGNED && kind != SHMT_KIND_BOOL)) {
    int64_t at = *dim;
    *dim += dims_of_index(t);
    return record(x, at, shmt__tensor_ref(t));
  }
  shmt_scalar s;
  shmt_tensor* next = NULL;
  if (SHMT_UNLIKELY(shmt__batched_of(shmt__shared_value(t)) != NULL)) return apply_batched(x, t, dim);
  if (checked(shmt__tensor_item(t, &s)) < 0) return -1;
  if (!is_mask(t->dtype)) {
    if (select_dim(x->view, *dim, s.v.i, used, &next) < 0) return -1;
    advance(x, next);
    return 0;
  }
  if (index_by_bool(x, *dim, t->dtype == SHMT_BOOL ? s.v.b : s.v.i != 0) < 0) return -1;
  ++*dim;
  return 0;
}

/* One item of a key; *dim moves to the dimension after it, *used counts those of the original. */
static int apply_item(shmt__py_indexed* x, PyObject* item, int64_t* dim, int64_t specified,
                      int64_t used) {
  shmt_tensor* next = NULL;
  if (PyLong_CheckExact(item) && *dim < x->view->n_dims) {
    int64_t i;
    if (shmt__py_as_int(item, &i) < 0) return -1;
    if (select_dim(x->view, *dim, i, used, &next) < 0) return -1;
    advance(x, next);
    return 0;
  }
  if (PySlice_Check(item)) {
    if (slice_dim(x->view, *dim, item, &next) < 0) return -1;
    advance(x, next);
    ++*dim;
    return 0;
  }
  if (item == Py_Ellipsis) {
    *dim += specified;
    return 0;
  }
  if (item == Py_None) {
    if (checked(shmt_op_unsqueeze(x->view, *dim, &next)) < 0) return -1;
    advance(x, next);
    ++*dim;
    return 0;
  }
  if (PyBool_Check(item)) {
    if (index_by_bool(x, *dim, item == Py_True) < 0) return -1;
    ++*dim;
    return 0;
  }
  if (shmt__py_is_tensor(item)) return apply_tensor(x, shmt__py_tensor(item), dim, used);
  if (PySequence_Check(item) && !PyUnicode_Check(item) && !PyBytes_Check(item)) {
    shmt_tensor* index = NULL;
    if (shmt__py_index_sequence(item, &index) < 0) return -1;
    int r = apply_tensor(x, index, dim, used);
    shmt__tensor_release(index);
    return r;
  }
  if (PyUnicode_Check(item)) {
    PyErr_SetString(PyExc_TypeError, "new(): invalid data type 'str'");
    return -1;
  }
  if (!PyLong_CheckExact(item)) {
    /* A tensor of another library: one of a single element would do as an int. */
    PyObject* note = shmt__py_foreign_tensor_note(item);
    bool foreign = note != NULL && PyUnicode_GET_LENGTH(note) > 0;
    if (foreign)
      PyErr_Format(PyExc_TypeError, "an index must be Tensor, not %s%U", Py_TYPE(item)->tp_name,
                   note);
    Py_XDECREF(note);
    if (note == NULL || foreign) return -1;
  }
  int64_t i;
  int r = shmt__py_as_int(item, &i);
  if (r == 0) return invalid_index(item);
  if (r < 0 || select_dim(x->view, *dim, i, used, &next) < 0) return -1;
  advance(x, next);
  return 0;
}

int shmt__py_index_basic(shmt_tensor* t, PyObject* key, shmt__py_indexed* x) {
  x->view = shmt__tensor_ref(t);
  x->n_indices = 0;
  Py_ssize_t n = 1;
  PyObject** items = &key;
  PyObject* held = NULL; /* a copy of a list, which conversions could change under us */
  if (PyTuple_Check(key)) {
    items = shmt__py_items(key, &n);
  } else if (is_index_tuple(key)) {
    if (PyErr_WarnEx(PyExc_UserWarning,
                     "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
                     "x[tuple(seq)] instead of x[seq], which will be taken as the tensor index "
                     "x[torch.tensor(seq)]",
                     1) < 0)
      goto fail;
    if ((held = PyList_AsTuple(key)) == NULL) goto fail;
    items = shmt__py_items(held, &n);
  }
  int64_t specified = 0;
  for (Py_ssize_t i = 0; i < n; i++) specified += dims_of(items[i]);
  if (specified > t->n_dims) {
    if (n == 1 && t->n_dims == 0 && (PyLong_Check(items[0]) || PySlice_Check(items[0]))) {
      int64_t dim = 0;
      (void)apply_item(x, items[0], &dim, 0, 0); /* its own words for 0-d */
      if (!PyErr_Occurred()) select_dim(x->view, 0, 0, 0, NULL);
    } else {
      PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", (int)t->n_dims);
    }
    goto fail;
  }
  int64_t dim = 0, used = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    if (apply_item(x, items[i], &dim, t->n_dims - specified, used) < 0) goto fail;
    used += items[i] == Py_Ellipsis ? t->n_dims - specified : dims_of(items[i]);
  }
  Py_XDECREF(held);
  return 0;
fail:
  Py_XDECREF(held);
  shmt__py_indexed_fini(x);
  return -1;
}

/* --- t[key] ------------------------------------------------------------------------------- */

/* Do modes or the class answer for the tensor? */
static inline bool is_answered(PyObject* self) {
  return SHMT_UNLIKELY(!shmt__py_is_plain(self) || shmt__py_n_function_modes) &&
         shmt__py_operands_answer(self, self);
}

PyObject* shmt__py_subscript(PyObject* self, PyObject* key) {
  shmt_tensor* t = shmt__py_tensor(self);
  shmt_tensor* out = NULL;
  if (is_answered(self)) return shmt__py_answer_subscript(self, key, NULL);
  if (PyLong_CheckExact(key)) {
    int overflow;
    int64_t i = PyLong_AsLongLongAndOverflow(key, &overflow);
    if (SHMT_UNLIKELY(overflow != 0)) {
      shmt__py_raise_int_overflow();
      return NULL;
    }
    if (select_dim(t, 0, i, 0, &out) < 0) return NULL;
    return shmt__py_wrap_like(self, out);
  }
  if (PySlice_Check(key)) {
    if (slice_dim(t, 0, key, &out) < 0) return NULL;
    if (out == NULL && checked(shmt_op_alias(t, &out)) < 0) return NULL;
    return shmt__py_wrap_like(self, out);
  }
  if (!shmt__py_is_plain(key) && SHMT_UNLIKELY(shmt__py_key_answers(key))) {
    PyObject* answer = shmt__py_answer_subscript(self, key, NULL);
    if (answer != Py_NotImplemented) return answer; /* else a tensor of another library, which asks us */
    Py_DECREF(answer);
  }
  shmt__py_indexed x;
  if (shmt__py_index_basic(t, key, &x) < 0) return NULL;
  shmt_status s;
  if (x.n_indices > 0) {
    shmt_tensors indices = {x.indices, x.n_indices};
    s = SHMT_PY_UNLOCKED(x.view->numel, shmt_op_index_Tensor(x.view, indices, &out));
  } else if (x.view == t) {
    s = shmt_op_alias(t, &out);
  } else {
    out = SHMT_TAKE(x.view);
    s = SHMT_OK;
  }
  shmt__py_indexed_fini(&x);
  if (s != SHMT_OK) return shmt__py_raise(s);
  return shmt__py_wrap_like(self, out);
}

/* --- length and iteration ------------------------------------------------------------------- */

static SHMT_COLD Py_ssize_t length_of_answer(PyObject* self) {
  PyObject* r = shmt__py_answer_operator("__len__", NULL, self, NULL);
  Py_ssize_t n = r ? PyNumber_AsSsize_t(r, PyExc_OverflowError) : -1;
  Py_XDECREF(r);
  if (n < 0 && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "__len__() should return >= 0");
  return n;
}

Py_ssize_t shmt__py_length(PyObject* self) {
  if (is_answered(self)) return length_of_answer(self);
  shmt_tensor* t = shmt__py_tensor(self);
  if (t->n_dims == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return (Py_ssize_t)t->sizes[0];
}

static PyObject* raise_no_rows(void) {
  PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
  return NULL;
}

/* Iterate over what unbind() answers. */
static SHMT_COLD PyObject* iterate_answer(PyObject* self) {
  PyObject* n_dims = PyObject_CallMethod(self, "dim", NULL);
  const int has_rows = n_dims ? PyObject_IsTrue(n_dims) : -1;
  Py_XDECREF(n_dims);
  if (has_rows < 1) return has_rows < 0 ? NULL : raise_no_rows();
  PyObject* rows = PyObject_CallMethod(self, "unbind", "i", 0);
  PyObject* it = rows ? PyObject_GetIter(rows) : NULL;
  Py_XDECREF(rows);
  return it;
}

PyObject* shmt__py_iter(PyObject* self) {
  if (is_answered(self)) return iterate_answer(self);
  shmt_tensor* t = shmt__py_tensor(self);
  if (t->n_dims == 0) return raise_no_rows();
  shmt_tensor_vec rows = {NULL, 0};
  if (checked(shmt_op_unbind_int(t, 0, &rows)) < 0) return NULL;
  shmt_value list = {.v.tensors = {rows.data, rows.len}, .tag = SHMT_VALUE_TENSORS};
  PyTypeObject* type = shmt__py_result_type_of(shmt__py_tensor_type, self);
  PyObject* tuple = shmt__py_from_value_as(type, &list, NULL, false);
  shmt__value_fini(&list);
  PyObject* it = tuple ? PyObject_GetIter(tuple) : NULL;
  Py_XDECREF(tuple);
  return it;
}

static SHMT_COLD int contains_by_answer(PyObject* self, PyObject* value) {
  PyObject* r = shmt__py_answer_operator("__contains__", "__contains__", self, value);
  int is_true = r ? PyObject_IsTrue(r) : -1;
  Py_XDECREF(r);
  return is_true;
}

int shmt__py_contains(PyObject* self, PyObject* value) {
  shmt_scalar s;
  if (is_answered(self)) return contains_by_answer(self, value);
  int is_number = shmt__py_is_tensor(value) ? 1 : shmt__py_as_scalar(value, &s);
  if (is_number < 0) return -1;
  if (is_number == 0) {
    PyErr_Format(PyExc_RuntimeError,
                 "Tensor.__contains__ only supports Tensor or scalar, but you passed in a %R.",
                 (PyObject*)Py_TYPE(value));
    return -1;
  }
  PyObject* equal = PyObject_RichCompare(self, value, Py_EQ);
  PyObject* any = equal ? PyObject_CallMethod(equal, "any", NULL) : NULL;
  int r = any ? PyObject_IsTrue(any) : -1;
  Py_XDECREF(equal);
  Py_XDECREF(any);
  return r;
}
