/* python/tensor/tensor_type.c -- the type _TensorBase, put together from the tables of this folder. */
#include "python/tensor/tensor_type.h"

#include "python/call/call.h"
#include "python/tensor/exchange/arrow.h"
#include "python/overridable/methods.h"
#include "python/tensor/exchange/dlpack.h"
#include <structmember.h>

shmt__py_hooks_gc shmt__py_tensor_hooks_gc;

/* Does C hold the tensor too? */
static bool has_other_holders(const shmt__py_object* o) {
  return o->t != NULL && (o->is_kept || !shmt__is_last_reference(&o->t->refs));
}

static int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  const shmt__py_object* o = (const shmt__py_object*)self;
  Py_VISIT(Py_TYPE(self));
  if (has_other_holders(o)) return 0;
  Py_VISIT(o->dict);
  return shmt__py_tensor_hooks_gc.visit ? shmt__py_tensor_hooks_gc.visit(o->t, visit, arg) : 0;
}

static int tensor_clear(PyObject* self) {
  shmt__py_object* o = (shmt__py_object*)self;
  if (has_other_holders(o)) return 0;
  Py_CLEAR(o->dict);
  if (shmt__py_tensor_hooks_gc.clear) shmt__py_tensor_hooks_gc.clear(o->t);
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

/* These look at the class itself, ask by themselves, or are for this package alone. */
static bool asks_nobody(const char* name) {
  static const char* const names[] = {"as_subclass", "to", "names", "_retain_storage", "_storage_cdata",
                                      "_share_storage",
                                      "__arrow_c_array__", "__arrow_c_schema__"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

/* by_hand: the methods do not go through shmt__py_call(). */
static int add_methods(PyTypeObject* type, PyMethodDef* defs, bool by_hand) {
  for (PyMethodDef* d = defs; d != NULL && d->ml_name != NULL; d++) {
    if (PyDict_GetItemString(type->tp_dict, d->ml_name) != NULL) continue;
    PyObject* descr;
    if (d->ml_flags & METH_STATIC) {
      PyObject* f = PyCFunction_New(d, NULL);
      descr = f ? PyStaticMethod_New(f) : NULL;
      Py_XDECREF(f);
    } else if (d->ml_flags & METH_CLASS) {
      descr = PyDescr_NewClassMethod(type, d);
    } else if (by_hand && !asks_nobody(d->ml_name)) {
      descr = shmt__py_overridable_method(type, d);
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
    PyObject* descr = asks_nobody(d->name) ? PyDescr_NewGetSet(type, d) : shmt__py_overridable_property(type, d);
    if (descr == NULL || PyDict_SetItemString(type->tp_dict, d->name, descr) < 0) {
      Py_XDECREF(descr);
      return -1;
    }
    Py_DECREF(descr);
  }
  PyType_Modified(type);
  return 0;
}

int shmt__py_add_tensor_methods(PyMethodDef* methods, PyGetSetDef* getset) {
  if (add_methods(shmt__py_base_type, methods, true) < 0) return -1;
  return add_getset(shmt__py_base_type, getset);
}

int shmt__py_add_operator_methods(PyMethodDef* methods) {
  return add_methods(shmt__py_base_type, methods, false);
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
  shmt__py_set_tensor_type(type);
  Py_RETURN_NONE;
}

static PyObject* tensor_from_place(PyObject* module, PyObject* address) {
  (void)module;
  shmt_tensor** place = PyLong_AsVoidPtr(address);
  if (place == NULL || *place == NULL) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_ValueError, "_tensor_from_place(): %s", place == NULL ? "the address is zero" : "it is empty");
    return NULL;
  }
  shmt_tensor* t = *place;
  *place = NULL;
  return shmt__py_wrap(t);
}

static PyMethodDef module_methods[] = {
    {"_set_tensor_class", set_tensor_class, METH_O, "Name the class that new tensors are made of."},
    {"_tensor_from_place", tensor_from_place, METH_O,
     "_tensor_from_place(place)\n--\n\nTake a new reference out of the place at an address."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_tensor_type_init(PyObject* module) {
  static PyType_Slot slots[64];
  int n = 0;
  slots[n++] = (PyType_Slot){Py_tp_dealloc, shmt__py_tensor_dealloc};
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
  shmt__py_set_base_type(type);
  if (shmt__py_add_tensor_methods(shmt__py_plain_methods, shmt__py_plain_getset) < 0 ||
      shmt__py_add_tensor_methods(shmt__py_to_methods, NULL) < 0 ||
      shmt__py_add_tensor_methods(shmt__py_subclass_methods, NULL) < 0 ||
      shmt__py_add_tensor_methods(shmt__py_dlpack_methods, NULL) < 0 ||
      shmt__py_add_tensor_methods(shmt__py_arrow_methods, NULL) < 0)
    return -1;
  PyObject* exchange = shmt__dl_exchange_api();
  int r = exchange ? PyObject_SetAttrString((PyObject*)type, "__dlpack_c_exchange_api__", exchange) : -1;
  Py_XDECREF(exchange);
  if (r < 0) return -1;
  if (PyModule_AddFunctions(module, module_methods) < 0) return -1;
  return PyModule_AddObjectRef(module, "_TensorBase", (PyObject*)type);
}
