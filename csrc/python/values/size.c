/* python/values/size.c -- Size: the tuple of a shape, with numel(). */
#include "python/values/types.h"

#include "base/overflow.h"
#include "python/values/tensor_object.h"

#include <string.h>

PyTypeObject* shmt__py_size_type;

/* Sizes that are free, by their length. Most live for one expression, and the lists that Python keeps are for plain
 * tuples alone. */
#if defined(__SANITIZE_ADDRESS__)
enum { MOST_FREE = 0 }; /* a sanitizer sees a use after free only when objects are really freed */
#else
enum { MOST_FREE = 32 };
#endif
enum { MOST_DIMS = SHMT_INLINE_DIMS };
static PyTupleObject* free_sizes[MOST_DIMS + 1][MOST_FREE + 1];
static int n_free[MOST_DIMS + 1];

/* Its items are the caller's to set. What holds ints alone is in no cycle, so the collector need not know it. */
static PyObject* size_create(Py_ssize_t n) {
  PyTupleObject* o;
  if (SHMT_LIKELY(n <= MOST_DIMS && n_free[n] > 0)) {
    o = free_sizes[n][--n_free[n]];
    _Py_NewReference((PyObject*)o);
  } else {
    o = PyObject_GC_NewVar(PyTupleObject, shmt__py_size_type, n);
    if (SHMT_UNLIKELY(o == NULL)) return NULL;
    memset(o->ob_item, 0, sizeof *o->ob_item * (size_t)n);
  }
#if PY_VERSION_HEX >= 0x030E0000
  o->ob_hash = -1; /* it is not known yet */
#endif
  return (PyObject*)o;
}

static void size_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  const Py_ssize_t n = PyTuple_GET_SIZE(self);
  PyObject_GC_UnTrack(self);
  for (Py_ssize_t i = 0; i < n; i++) Py_CLEAR(((PyTupleObject*)self)->ob_item[i]);
  if (SHMT_LIKELY(type == shmt__py_size_type && n <= MOST_DIMS && n_free[n] < MOST_FREE)) {
    free_sizes[n][n_free[n]++] = (PyTupleObject*)self; /* keeps its reference of the type */
    return;
  }
  type->tp_free(self);
  Py_DECREF(type);
}

static int fill_tuple(PyObject* tuple, shmt_ints v) {
  for (int64_t i = 0; i < v.len; i++) {
    PyObject* x = PyLong_FromLongLong(v.data[i]);
    if (x == NULL) return -1;
    PyTuple_SET_ITEM(tuple, i, x);
  }
  return 0;
}

PyObject* shmt__py_tuple_from(shmt_ints v) {
  PyObject* r = PyTuple_New((Py_ssize_t)v.len);
  if (r != NULL && fill_tuple(r, v) < 0) Py_CLEAR(r);
  return r;
}

PyObject* shmt__py_size_from(shmt_ints v) {
  PyObject* r = size_create((Py_ssize_t)v.len);
  if (r != NULL && fill_tuple(r, v) < 0) Py_CLEAR(r);
  return r;
}

/* A Size from what tuple() makes of the arguments; elements must be integers. */
static PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* r = PyTuple_Type.tp_new(type, args, kwargs);
  if (r == NULL) return NULL;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(r); i++) {
    PyObject* item = PyTuple_GET_ITEM(r, i);
    if (PyLong_Check(item)) continue;
    PyObject* n = PyNumber_Index(item);
    if (n == NULL) {
      PyErr_Format(PyExc_TypeError, "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i,
                   Py_TYPE(item)->tp_name);
      Py_DECREF(r);
      return NULL;
    }
    PyTuple_SET_ITEM(r, i, n);
    Py_DECREF(item);
  }
  return r;
}

static PyObject* size_repr(PyObject* self) {
  PyObject* list = PySequence_List(self);
  if (list == NULL) return NULL;
  PyObject* r = PyUnicode_FromFormat("torch.Size(%R)", list);
  Py_DECREF(list);
  return r;
}

static PyObject* size_numel(PyObject* self, PyObject* unused) {
  (void)unused;
  int64_t n = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); i++) {
    long long x = PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
    if (x == -1 && PyErr_Occurred()) return NULL;
    if (!shmt__mul_i64(n, x, &n)) {
      PyErr_SetString(PyExc_OverflowError, "numel(): the number of elements overflows 64 bits");
      return NULL;
    }
  }
  return PyLong_FromLongLong(n);
}

/* Turn a plain tuple into a Size; consumes it. */
static PyObject* as_size(PyObject* tuple) {
  if (tuple == NULL || !PyTuple_CheckExact(tuple)) return tuple;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
    if (!PyLong_Check(PyTuple_GET_ITEM(tuple, i))) return tuple;
  PyObject* args = PyTuple_Pack(1, tuple);
  Py_DECREF(tuple);
  if (args == NULL) return NULL;
  PyObject* r = size_new(shmt__py_size_type, args, NULL);
  Py_DECREF(args);
  return r;
}

static PyObject* size_concat(PyObject* a, PyObject* b) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
static PyObject* size_add(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
  return size_concat(a, b);
}
static PyObject* size_repeat(PyObject* a, Py_ssize_t n) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(a, n));
}
static PyObject* size_subscript(PyObject* a, PyObject* key) {
  PyObject* r = PyTuple_Type.tp_as_mapping->mp_subscript(a, key);
  return PySlice_Check(key) ? as_size(r) : r;
}

static PyObject* size_reduce(PyObject* self, PyObject* unused) {
  (void)unused;
  PyObject* plain = PySequence_Tuple(self);
  PyObject* copy = plain && PyTuple_CheckExact(plain)
                       ? Py_NewRef(plain)
                       : PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self));
  Py_XDECREF(plain);
  if (copy == NULL) return NULL;
  return Py_BuildValue("O(N)", (PyObject*)shmt__py_size_type, copy);
}

/* _infer_size(a, b): the Size that both are broadcast to. */
static PyObject* infer_size(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  int64_t given[2][SHMT_MAX_DIMS], sizes[SHMT_MAX_DIMS], n_dims;
  shmt_ints both[2];
  (void)module;
  for (int k = 0; k < 2; k++) {
    if (n != 2 || !PyObject_TypeCheck(args[k], shmt__py_size_type))
      return PyErr_Format(PyExc_RuntimeError, "expected a torch.Size as argument %d", k + 1);
    both[k] = (shmt_ints){given[k], PyTuple_GET_SIZE(args[k])};
    if (both[k].len > SHMT_MAX_DIMS)
      return PyErr_Format(PyExc_ValueError, "_infer_size(): at most %d dimensions are supported", SHMT_MAX_DIMS);
    for (int64_t i = 0; i < both[k].len; i++) {
      given[k][i] = PyLong_AsLongLong(PyTuple_GET_ITEM(args[k], i));
      if (given[k][i] == -1 && PyErr_Occurred()) return NULL;
    }
  }
  shmt_status s = shmt__broadcast_sizes(both[0], both[1], sizes, &n_dims);
  return s == SHMT_OK ? shmt__py_size_from((shmt_ints){sizes, n_dims}) : shmt__py_raise(s);
}

PyMethodDef shmt__py_size_functions[] = {
    {"_infer_size", (PyCFunction)(void (*)(void))infer_size, METH_FASTCALL,
     "_infer_size(a, b)\n--\n\nThe Size that tensors of these two are broadcast to."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS,
     "numel($self)\n--\n\nNumber of elements of a tensor of this size."},
    {"__reduce__", size_reduce, METH_NOARGS, "Pickle as a tuple."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_size_init(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_new, size_new},
      {Py_tp_dealloc, size_dealloc},
      {Py_tp_repr, size_repr},
      {Py_tp_methods, size_methods},
      {Py_sq_concat, size_concat},
      {Py_sq_repeat, size_repeat},
      {Py_mp_subscript, size_subscript},
      {Py_nb_add, size_add},
      {Py_tp_doc, (void*)"The size of a tensor in each dimension."},
      {0, NULL},
  };
  static PyType_Spec spec = {.name = "shmtensor.Size",
                             .basicsize = 0,
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                             .slots = slots};
  PyObject* bases = PyTuple_Pack(1, (PyObject*)&PyTuple_Type);
  if (bases == NULL) return -1;
  shmt__py_size_type = (PyTypeObject*)PyType_FromSpecWithBases(&spec, bases);
  Py_DECREF(bases);
  if (shmt__py_size_type == NULL) return -1;
  return PyModule_AddObjectRef(module, "Size", (PyObject*)shmt__py_size_type);
}
