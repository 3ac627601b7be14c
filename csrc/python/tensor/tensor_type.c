/* python/tensor/tensor_type.c -- life of the tensor's Python object. */
#include "python/tensor/tensor_type.h"

#include "autograd/meta.h"
#include "python/autograd/tensor_properties.h"
#include "python/call/call.h"
#include "python/tensor/dlpack.h"
#include <structmember.h>

PyTypeObject* shmt__py_base_type;
PyTypeObject* shmt__py_tensor_type;

#if defined(__SANITIZE_ADDRESS__)
enum { MAX_FREE = 0 }; /* uses after the end are seen only when objects really end */
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
  if (o->is_kept) { /* the two references change places */
    o->is_kept = false;
    return (PyObject*)o;
  }
  Py_INCREF(o);
  shmt__tensor_release(t);
  return (PyObject*)o;
}

/* Instead of ending, leave o to its tensor when something would be lost. False: it is to end. */
static bool give_to_tensor(shmt__py_object* o) {
  shmt_tensor* t = o->t;
  bool is_bare = Py_TYPE(o) == shmt__py_tensor_type && o->dict == NULL && o->weakrefs == NULL;
  if (SHMT_LIKELY(is_bare) || t == NULL || t->py_object != o ||
      shmt__is_last_reference(&t->refs))
    return false;
  _Py_NewReference((PyObject*)o);
  o->is_kept = true;
  shmt__tensor_release(t); /* another thread may have let go meanwhile: then both end here */
  return true;
}

/* shmt__tensor_back_to_wrapper */
static bool back_to_wrapper(shmt_tensor* t) {
  if (!Py_IsInitialized()) return false;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback); /* what is being raised is not ours to lose */
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
  shmt__py_object* o = (shmt__py_object*)type->tp_alloc(type, 0);
  if (o == NULL) {
    shmt__tensor_release(t);
    return NULL;
  }
  PyObject_GC_UnTrack(o);
  o->t = t;
  t->py_object = o;
  return (PyObject*)o;
}

/* A function that is called for a __torch_function__, on the stack of its thread. */
typedef struct disabled_call {
  PyObject *func, *args, *kwargs; /* borrowed; kwargs may be NULL */
  const struct disabled_call* outer;
} disabled_call;

static _Thread_local const disabled_call* innermost;

static bool same_keywords(PyObject* a, PyObject* b) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  if ((a ? PyDict_GET_SIZE(a) : 0) != (b ? PyDict_GET_SIZE(b) : 0)) return false;
  while (a && PyDict_Next(a, &at, &key, &value))
    if (PyDict_GetItem(b, key) != value) return false;
  return true;
}

/* Does the function that is being called ask once more, for the same arguments? Ours never do: it is
 * of another library, which takes the tensor for one of its own. */
static bool is_foreign_library(const disabled_call* here) {
  const disabled_call* before = here->outer;
  if (before == NULL || before->func != here->func) return false;
  Py_ssize_t n = PyTuple_GET_SIZE(here->args);
  if (n != PyTuple_GET_SIZE(before->args)) return false;
  for (Py_ssize_t i = 0; i < n; i++)
    if (PyTuple_GET_ITEM(here->args, i) != PyTuple_GET_ITEM(before->args, i)) return false;
  return same_keywords(here->kwargs, before->kwargs);
}

static PyObject* raise_foreign_library(PyObject* func) {
  PyObject* name = PyObject_GetAttrString(func, "__name__");
  if (name == NULL) PyErr_Clear();
  PyErr_Format(PyExc_TypeError,
               "%S() of another library got a tensor of shmtensor: give it what its from_dlpack() "
               "makes of the tensor, which shares the memory",
               name ? name : func);
  Py_XDECREF(name);
  return NULL;
}

/* _disabled_torch_function_impl(func, types, args, kwargs): call func as if its arguments were
 * plain. */
static PyObject* disabled_impl(PyObject* module, PyObject* args) {
  PyObject *func, *types, *call_args = NULL, *kwargs = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO|OO:_disabled_torch_function_impl", &func, &types, &call_args,
                        &kwargs))
    return NULL;
  if (kwargs == Py_None) kwargs = NULL;
  if (kwargs != NULL && !PyDict_Check(kwargs))
    return PyErr_Format(PyExc_TypeError, "kwargs must be dict, not %s", Py_TYPE(kwargs)->tp_name);
  PyObject* positional = call_args ? PySequence_Tuple(call_args) : PyTuple_New(0);
  if (positional == NULL) return NULL;
  disabled_call here = {func, positional, kwargs, innermost};
  PyObject* r;
  if (is_foreign_library(&here)) {
    r = raise_foreign_library(func);
  } else {
    innermost = &here;
    shmt__py_set_torch_function_disabled(1);
    r = PyObject_Call(func, positional, here.kwargs);
    shmt__py_set_torch_function_disabled(-1);
    innermost = here.outer;
  }
  Py_DECREF(positional);
  return r;
}

static PyObject* disabled_object; /* the function of that name in the module */

PyTypeObject* shmt__py_result_type(PyTypeObject* operand) {
  static PyTypeObject* plain_before; /* the last class with plain results; owned */
  if (operand == plain_before || operand == shmt__py_tensor_type || operand == shmt__py_base_type)
    return shmt__py_tensor_type;
  if (shmt__py_torch_function_disabled()) return shmt__py_tensor_type;
  PyObject* impl = PyObject_GetAttrString((PyObject*)operand, "__torch_function__");
  if (impl == NULL) PyErr_Clear();
  Py_XDECREF(impl);
  if (impl == NULL || impl != disabled_object) return operand;
  Py_INCREF(operand);
  Py_XSETREF(plain_before, operand);
  return shmt__py_tensor_type;
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

static void tensor_dealloc(PyObject* self) {
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

/* Does C hold the tensor too? */
static bool has_other_holders(const shmt__py_object* o) {
  return o->t != NULL && (o->is_kept || !shmt__is_last_reference(&o->t->refs));
}

static int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  const shmt__py_object* o = (const shmt__py_object*)self;
  Py_VISIT(Py_TYPE(self));
  if (has_other_holders(o)) return 0;
  Py_VISIT(o->dict);
  return shmt__py_visit_hooks(o->t, visit, arg);
}

static int tensor_clear(PyObject* self) {
  shmt__py_object* o = (shmt__py_object*)self;
  if (has_other_holders(o)) return 0;
  Py_CLEAR(o->dict);
  shmt__py_clear_hooks(o->t);
  return 0;
}

static int tensor_setattro(PyObject* self, PyObject* name, PyObject* value) {
  int r = PyObject_GenericSetAttr(self, name, value);
  if (((shmt__py_object*)self)->dict != NULL && !PyObject_GC_IsTracked(self))
    PyObject_GC_Track(self);
  return r;
}

static PyObject* get_dict(PyObject* self, void* closure) {
  PyObject* d = PyObject_GenericGetDict(self, closure);
  if (d != NULL && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return d;
}

static int set_dict(PyObject* self, PyObject* value, void* closure) {
  int r = PyObject_GenericSetDict(self, value, closure);
  if (r == 0 && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return r;
}

static Py_hash_t tensor_hash(PyObject* self) { return (Py_hash_t)(uintptr_t)self; }

static PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return shmt__py_legacy_new(type, args, kwargs);
}

/* Accept what tensor_new took, so that object.__init__ does not refuse arguments. */
static int tensor_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  (void)self, (void)args, (void)kwargs;
  return 0;
}

static PyGetSetDef own_getset[] = {
    {"__dict__", get_dict, set_dict, "Attributes set from Python.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef own_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(shmt__py_object, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(shmt__py_object, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* Add method and property tables to a finished type; entries that exist already stay. */
static int add_methods(PyTypeObject* type, PyMethodDef* defs) {
  for (PyMethodDef* d = defs; d != NULL && d->ml_name != NULL; d++) {
    if (PyDict_GetItemString(type->tp_dict, d->ml_name) != NULL) continue;
    PyObject* descr;
    if (d->ml_flags & METH_STATIC) {
      PyObject* f = PyCFunction_New(d, NULL);
      descr = f ? PyStaticMethod_New(f) : NULL;
      Py_XDECREF(f);
    } else if (d->ml_flags & METH_CLASS) {
      descr = PyDescr_NewClassMethod(type, d);
    } else {
      descr = PyDescr_NewMethod(type, d);
    }
    if (descr == NULL || PyDict_SetItemString(type->tp_dict, d->ml_name, descr) < 0) {
      Py_XDECREF(descr);
      return -1;
    }
    Py_DECREF(descr);
  }
  PyType_Modified(type);
  return 0;
}

static int add_getset(PyTypeObject* type, PyGetSetDef* defs) {
  for (PyGetSetDef* d = defs; d != NULL && d->name != NULL; d++) {
    if (PyDict_GetItemString(type->tp_dict, d->name) != NULL) continue;
    PyObject* descr = PyDescr_NewGetSet(type, d);
    if (descr == NULL || PyDict_SetItemString(type->tp_dict, d->name, descr) < 0) {
      Py_XDECREF(descr);
      return -1;
    }
    Py_DECREF(descr);
  }
  PyType_Modified(type);
  return 0;
}

/* _set_tensor_class(cls): new tensors are made as cls from now on. */
static PyObject* set_tensor_class(PyObject* module, PyObject* cls) {
  (void)module;
  if (!PyType_Check(cls) || !PyType_IsSubtype((PyTypeObject*)cls, shmt__py_base_type) ||
      ((PyTypeObject*)cls)->tp_basicsize != shmt__py_base_type->tp_basicsize) {
    PyErr_SetString(PyExc_TypeError,
                    "_set_tensor_class(): expected a subclass of _TensorBase without slots");
    return NULL;
  }
  PyTypeObject* type = (PyTypeObject*)cls;
  while (n_free > 0) { /* cached wrappers belong to the class before */
    shmt__py_object* o = free_list[--n_free];
    PyTypeObject* before = Py_TYPE(o);
    PyObject_GC_Del(o);
    Py_DECREF(before);
  }
  /* The class adds no slots, no __del__ and no dict of its own, so the base's dealloc does all that
   * the generic one of Python classes would, at a third of its cost. */
  type->tp_dealloc = tensor_dealloc;
  Py_INCREF(type);
  Py_SETREF(shmt__py_tensor_type, type);
  Py_RETURN_NONE;
}

static PyObject* tensor_from_cdata(PyObject* module, PyObject* address) {
  (void)module;
  void* p = PyLong_AsVoidPtr(address);
  if (p == NULL) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_ValueError, "_tensor_from_cdata(): the address is zero");
    return NULL;
  }
  return shmt__py_wrap(p);
}

static PyMethodDef module_methods[] = {
    {"_disabled_torch_function_impl", disabled_impl, METH_VARARGS,
     "As a class's __torch_function__: results of operators on it are plain tensors."},
    {"_set_tensor_class", set_tensor_class, METH_O, "Name the class that new tensors are made of."},
    {"_tensor_from_cdata", tensor_from_cdata, METH_O,
     "Take over a new reference from C, given by its address."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_tensor_type_init(PyObject* module) {
  static PyType_Slot slots[64];
  int n = 0;
  slots[n++] = (PyType_Slot){Py_tp_dealloc, tensor_dealloc};
  slots[n++] = (PyType_Slot){Py_tp_traverse, tensor_traverse};
  slots[n++] = (PyType_Slot){Py_tp_clear, tensor_clear};
  slots[n++] = (PyType_Slot){Py_tp_setattro, tensor_setattro};
  slots[n++] = (PyType_Slot){Py_tp_getattro, PyObject_GenericGetAttr};
  slots[n++] = (PyType_Slot){Py_tp_hash, tensor_hash};
  slots[n++] = (PyType_Slot){Py_tp_richcompare, shmt__py_richcompare};
  slots[n++] = (PyType_Slot){Py_tp_new, tensor_new};
  slots[n++] = (PyType_Slot){Py_tp_init, tensor_init};
  slots[n++] = (PyType_Slot){Py_tp_iter, shmt__py_iter};
  slots[n++] = (PyType_Slot){Py_tp_getset, own_getset};
  slots[n++] = (PyType_Slot){Py_tp_members, own_members};
  slots[n++] = (PyType_Slot){Py_mp_subscript, shmt__py_subscript};
  slots[n++] = (PyType_Slot){Py_mp_ass_subscript, shmt__py_assign_subscript};
  slots[n++] = (PyType_Slot){Py_mp_length, shmt__py_length};
  slots[n++] = (PyType_Slot){Py_sq_length, shmt__py_length};
  slots[n++] = (PyType_Slot){Py_sq_contains, shmt__py_contains};
  slots[n++] = (PyType_Slot){Py_bf_getbuffer, shmt__py_getbuffer};
  slots[n++] = (PyType_Slot){Py_bf_releasebuffer, shmt__py_releasebuffer};
  slots[n++] =
      (PyType_Slot){Py_tp_doc, (void*)"The tensor without its Python-level methods; see Tensor."};
  for (PyType_Slot* s = shmt__py_number_slots; s->slot != 0; s++) slots[n++] = *s;
  slots[n] = (PyType_Slot){0, NULL};
  static PyType_Spec spec = {
      .name = "shmtensor._C._TensorBase",
      .basicsize = sizeof(shmt__py_object),
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
      .slots = slots,
  };
  PyTypeObject* type = (PyTypeObject*)PyType_FromSpec(&spec);
  if (type == NULL) return -1;
  shmt__py_base_type = type;
  shmt__tensor_back_to_wrapper = back_to_wrapper;
  Py_INCREF(type);
  shmt__py_tensor_type = type;
  if (add_methods(type, shmt__py_plain_methods) < 0 || add_methods(type, shmt__py_to_methods) < 0 ||
      add_methods(type, shmt__py_dlpack_methods) < 0 ||
      add_getset(type, shmt__py_plain_getset) < 0 ||
      add_methods(type, shmt__py_autograd_methods) < 0 ||
      add_getset(type, shmt__py_autograd_getset) < 0 || add_methods(type, shmt__py_methods) < 0)
    return -1;
  if (PyModule_AddFunctions(module, module_methods) < 0) return -1;
  disabled_object = PyObject_GetAttrString(module, "_disabled_torch_function_impl");
  if (disabled_object == NULL) return -1;
  return PyModule_AddObjectRef(module, "_TensorBase", (PyObject*)type);
}
