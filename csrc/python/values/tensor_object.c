/* python/values/tensor_object.c -- the Python object of a tensor: making it, keeping it, ending it. */
#include "python/values/tensor_object.h"

#include "python/gil.h"
#include "tensor/sparse.h"

#include "autograd/meta.h"

PyTypeObject* shmt__py_base_type;
PyTypeObject* shmt__py_tensor_type;

#if defined(__SANITIZE_ADDRESS__)
enum { MAX_FREE = 0 }; /* a sanitizer sees a use after free only when objects are really freed */
#else
enum { MAX_FREE = 128 };
#endif
static shmt__py_object*
    free_list[MAX_FREE + 1]; /* wrappers of exactly shmt__py_tensor_type, under the lock */
static int n_free;

/* An empty wrapper of the plain class, count 1, untracked. */
static shmt__py_object* wrapper_create(void) {
  if (SHMT_LIKELY(n_free > 0)) {
    shmt__py_object* o = free_list[--n_free];
    _Py_NewReference((PyObject*)o);
    return o;
  }
  shmt__py_object* o = PyObject_GC_New(shmt__py_object, shmt__py_tensor_type);
  if (SHMT_UNLIKELY(o == NULL)) return NULL;
  o->dict = NULL;
  o->weakrefs = NULL;
  o->is_kept = false;
  return o;
}

/* New reference to the wrapper that t has. Consumes t. */
static PyObject* wrapper_of(shmt_tensor* t) {
  shmt__py_object* o = t->py_object;
  if (o->is_kept) { /* the two references are exchanged */
    o->is_kept = false;
    return (PyObject*)o;
  }
  Py_INCREF(o);
  shmt__tensor_release(t);
  return (PyObject*)o;
}

/* Preserve o, owned by its tensor, instead of freeing it, when something would be lost. False: o is to be freed. */
static bool give_to_tensor(shmt__py_object* o) {
  shmt_tensor* t = o->t;
  bool is_bare = Py_TYPE(o) == shmt__py_tensor_type && o->dict == NULL && o->weakrefs == NULL;
  if (SHMT_LIKELY(is_bare) || t == NULL || t->py_object != o ||
      shmt__is_last_reference(&t->refs))
    return false;
  _Py_NewReference((PyObject*)o);
  o->is_kept = true;
  shmt__tensor_release(t); /* another thread may have released the tensor meanwhile: then both end here */
  return true;
}

/* shmt__tensor_back_to_wrapper */
static bool back_to_wrapper(shmt_tensor* t) {
  if (!Py_IsInitialized()) return false;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback); /* an exception that is being raised must not be lost */
  shmt__py_object* o = t->py_object;
  atomic_store_explicit(&t->refs, 1, memory_order_relaxed); /* nobody else has any */
  o->is_kept = false;
  Py_DECREF(o);
  PyErr_Restore(type, value, traceback);
  PyGILState_Release(gil);
  return true;
}

PyObject* shmt__py_wrap(shmt_tensor* t) {
  PyObject* live = t->py_object;
  if (SHMT_UNLIKELY(live != NULL) && Py_REFCNT(live) > 0) return wrapper_of(t);
  shmt__py_object* o = wrapper_create();
  if (SHMT_UNLIKELY(o == NULL)) {
    shmt__tensor_release(t);
    return NULL;
  }
  o->t = t;
  t->py_object = o;
  return (PyObject*)o;
}

PyObject* shmt__py_torch_dispatch_name;
PyObject* shmt__py_disabled_torch_dispatch;
int (*shmt__py_watch_operators)(void);

bool shmt__py_class_answers_operators(PyTypeObject* type) {
  if (type == shmt__py_tensor_type || type == shmt__py_base_type) return false;
  PyObject* found = _PyType_Lookup(type, shmt__py_torch_dispatch_name); /* borrowed */
  return found != NULL && found != shmt__py_disabled_torch_dispatch;
}

PyObject* shmt__py_wrap_as(PyTypeObject* type, shmt_tensor* t) {
  PyObject* live = t->py_object;
  if (live != NULL && Py_REFCNT(live) > 0) {
    if (Py_TYPE(live) == type) return wrapper_of(t);
    PyErr_Format(
        PyExc_RuntimeError,
        "Creating a new Tensor subclass %s but the raw Tensor object is already associated to a "
        "python object of type %s",
        type->tp_name, Py_TYPE(live)->tp_name);
    shmt__tensor_release(t);
    return NULL;
  }
  if (type == shmt__py_tensor_type) return shmt__py_wrap(t);
  const bool answers = shmt__py_class_answers_operators(type);
  if (SHMT_UNLIKELY(answers) && shmt__py_watch_operators() < 0) {
    shmt__tensor_release(t);
    return NULL;
  }
  shmt__py_object* o = (shmt__py_object*)type->tp_alloc(type, 0);
  if (o == NULL) {
    shmt__tensor_release(t);
    return NULL;
  }
  PyObject_GC_UnTrack(o);
  if (SHMT_UNLIKELY(answers)) shmt__tensor_set_own_keys(t, shmt__tensor_own_keys(t) | SHMT_KEYBIT_PythonBelowAutograd);
  o->t = t;
  t->py_object = o;
  return (PyObject*)o;
}

PyObject* shmt__py_wrap_result_slow(PyTypeObject* type, shmt_tensor* t) {
  PyObject* live = t->py_object;
  return live != NULL && Py_REFCNT(live) > 0 ? shmt__py_wrap(t) : shmt__py_wrap_as(type, t);
}

PyObject* shmt__py_with_grad(PyObject* o, bool on) {
  if (o == NULL || !on) return o;
  if (!shmt__dtype_differentiable(shmt__py_tensor(o)->dtype)) {
    Py_DECREF(o);
    return PyErr_Format(PyExc_RuntimeError,
                        "Only Tensors of floating point and complex dtype can require gradients");
  }
  shmt_status s = shmt__tensor_set_requires_grad(shmt__py_tensor(o), true);
  if (SHMT_LIKELY(s == SHMT_OK)) return o;
  Py_DECREF(o);
  return shmt__py_raise(s);
}

void shmt__py_tensor_dealloc(PyObject* self) {
  shmt__py_object* o = (shmt__py_object*)self;
  PyTypeObject* type = Py_TYPE(self);
  if (give_to_tensor(o)) return;
  if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
  if (SHMT_UNLIKELY(o->weakrefs != NULL)) PyObject_ClearWeakRefs(self);
  shmt_tensor* t = o->t;
  o->t = NULL;
  if (SHMT_LIKELY(t != NULL)) {
    if (t->py_object == self) t->py_object = NULL;
    shmt__tensor_release(t);
  }
  Py_CLEAR(o->dict);
  if (SHMT_LIKELY(type == shmt__py_tensor_type && n_free < MAX_FREE)) {
    free_list[n_free++] = o; /* keeps its reference of the type */
    return;
  }
  type->tp_free(self);
  Py_DECREF(type);
}

void shmt__py_set_tensor_type(PyTypeObject* type) {
  while (n_free > 0) { /* cached wrappers belong to the class before */
    shmt__py_object* o = free_list[--n_free];
    PyTypeObject* before = Py_TYPE(o);
    PyObject_GC_Del(o);
    Py_DECREF(before);
  }
  /* The class adds no slots, no __del__ and no dict of its own, so the base's dealloc does all that
   * the generic one of Python classes would, at a third of its cost. */
  type->tp_dealloc = shmt__py_tensor_dealloc;
  Py_INCREF(type);
  Py_XSETREF(shmt__py_tensor_type, type);
}

void shmt__py_set_base_type(PyTypeObject* type) {
  shmt__py_base_type = type;
  shmt__tensor_back_to_wrapper = back_to_wrapper;
  shmt__py_set_tensor_type(type);
}

int shmt__py_refuse_sparse(const shmt_tensor* t) {
  if (SHMT_LIKELY(t->sparse == NULL)) return 0;
  PyErr_SetString(PyExc_NotImplementedError, t->sparse->layout == SHMT_SPARSE_COO
                                                 ? "Cannot access storage of SparseTensorImpl"
                                                 : "Cannot access storage of SparseCsrTensorImpl");
  return -1;
}
