/* python/autograd/saved_fields.c -- what nodes saved, as _saved_<name> and _raw_saved_<name> of their Python objects.
 *
 * The generator gives each node class a table of its fields; the Python class gets a property for each. Tensors have a
 * raw form too, a SavedTensor, whose hooks can be set.
 *
 * Note [Saved integers are unsigned]
 * torch shows a saved dim -1 as 18446744073709551615, and tools that read graphs look for numbers above any dim. So
 * whole numbers are shown modulo 2**64 here, too.
 */
#include "python/autograd/saved_fields.h"

#include "autograd/recording/recording.h"
#include "autograd/recording/saved.h"
#include "autograd/recording/version_cell.h"
#include "python/autograd/graph.h"
#include "python/autograd/hooks.h"
#include "python/call/convert.h"
#include "python/tensor/tensor_type.h"
#include "python/values/types.h"

#include <stdlib.h>

/* --- SavedTensor ------------------------------------------------------------------------ */

typedef struct py_saved {
  PyObject_HEAD shmt_node* n; /* owned; its memory holds s */
  shmt__saved* s;
} py_saved;

static PyTypeObject* saved_type;

PyObject* shmt__py_saved_tensor(shmt_node* n, shmt__saved* s) {
  py_saved* o = (py_saved*)saved_type->tp_alloc(saved_type, 0);
  if (!o) return NULL;
  shmt__node_retain(n);
  o->n = n;
  o->s = s;
  return (PyObject*)o;
}

static void saved_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  shmt__node_release(((py_saved*)self)->n);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* shmt__py_saved_value(shmt_node* n, const shmt__saved* s) {
  shmt_tensor* t = NULL;
  shmt_status status = shmt__saved_unpack_for_user(s, n, &t);
  return status == SHMT_OK ? shmt__py_wrap_opt(t) : shmt__py_raise(status);
}

static PyObject* saved_unpack(PyObject* self, PyObject* unused) {
  (void)unused;
  return shmt__py_saved_value(((py_saved*)self)->n, ((py_saved*)self)->s);
}

static PyObject* saved_register_hooks(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyCallable_Check(args[0]) || !PyCallable_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "register_hooks(): expected two callables, a pack hook and an unpack hook");
    return NULL;
  }
  if (shmt__py_saved_repack(((py_saved*)self)->s, ((py_saved*)self)->n, args[0], args[1]) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject* saved_data(PyObject* self, void* closure) {
  (void)closure;
  PyObject* unpack;
  PyObject* packed = shmt__py_saved_packed(((py_saved*)self)->s, &unpack);
  return packed ? Py_NewRef(packed) : saved_unpack(self, NULL);
}

static PyObject* saved_unpack_hook(PyObject* self, void* closure) {
  (void)closure;
  PyObject* unpack = NULL;
  (void)shmt__py_saved_packed(((py_saved*)self)->s, &unpack);
  return Py_NewRef(unpack ? unpack : Py_None);
}

static PyMethodDef saved_methods[] = {
    {"register_hooks", (PyCFunction)(void (*)(void))saved_register_hooks, METH_FASTCALL,
     "register_hooks($self, pack_hook, unpack_hook, /)\n--\n\nKeep what pack_hook makes of the tensor instead; "
     "unpack_hook gives "
     "the tensor back for backward."},
    {"unpack", saved_unpack, METH_NOARGS, "unpack($self)\n--\n\nThe tensor, or None."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef saved_getset[] = {
    {"data", saved_data, NULL, "What the pack hook returned; without hooks the tensor.", NULL},
    {"unpack_hook", saved_unpack_hook, NULL, "The hook that unpacks; None without hooks.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot saved_slots[] = {
    {Py_tp_dealloc, saved_dealloc},
    {Py_tp_methods, saved_methods},
    {Py_tp_getset, saved_getset},
    {Py_tp_doc, (void*)"A tensor that a node keeps for backward."},
    {0, NULL},
};
static PyType_Spec saved_spec = {.name = "shmtensor._C.SavedTensor",
                                 .basicsize = sizeof(py_saved),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = saved_slots};

/* --- results kept apart from a graph ------------------------------------------------------- */

/* A result without its history, which notices in-place changes and does not own the result: who keeps it may be reached
 * from the result's graph. */
typedef struct kept_result {
  PyObject_HEAD shmt__saved s;
} kept_result;

static PyTypeObject* kept_type;

static void kept_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  shmt__saved_fini(&((kept_result*)self)->s);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject* keep_result(PyObject* module, PyObject* o) {
  (void)module;
  if (!shmt__py_is_tensor(o)) return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(o)->tp_name);
  kept_result* k = (kept_result*)kept_type->tp_alloc(kept_type, 0);
  if (!k) return NULL;
  const shmt__saved_hooks* active = SHMT_TAKE(shmt__tls_saved_hooks); /* it is kept as it is */
  shmt_status status = shmt__saved_init(&k->s, shmt__py_tensor(o), true);
  shmt__tls_saved_hooks = active;
  if (status == SHMT_OK) return (PyObject*)k;
  Py_DECREF(k);
  return shmt__py_raise(status);
}

static PyObject* kept_tensor(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt_tensor* alias = NULL;
  shmt_status status = shmt__tensor_detached(((kept_result*)self)->s.tensor, &alias);
  return status == SHMT_OK ? shmt__py_wrap(alias) : shmt__py_raise(status);
}

static PyObject* kept_is_changed(PyObject* self, void* closure) {
  (void)closure;
  const shmt__saved* s = &((kept_result*)self)->s;
  return PyBool_FromLong(shmt__version_cell_read(s->hook_data) != s->version);
}

static PyMethodDef kept_methods[] = {
    {"tensor", kept_tensor, METH_NOARGS, "tensor()\n--\n\nThe result without history, over the same memory."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef kept_getset[] = {
    {"is_changed", kept_is_changed, NULL, "Whether it was changed in place since.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot kept_slots[] = {
    {Py_tp_dealloc, kept_dealloc},
    {Py_tp_methods, kept_methods},
    {Py_tp_getset, kept_getset},
    {Py_tp_doc, (void*)"A result that is kept without owning it."},
    {0, NULL},
};
static PyType_Spec kept_spec = {.name = "shmtensor._C._KeptResult",
                                .basicsize = sizeof(kept_result),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .slots = kept_slots};

static PyMethodDef saved_functions[] = {
    {"_keep_result", keep_result, METH_O, "Keep a tensor's values, and notice changes, without owning it."},
    {NULL, NULL, 0, NULL},
};

/* --- values ----------------------------------------------------------------------------- */

static PyObject* unsigned_int(int64_t v) { return PyLong_FromUnsignedLongLong((unsigned long long)v); }

static PyObject* none_or(bool has, PyObject* (*make)(const void*), const void* p) {
  return has ? make(p) : Py_NewRef(Py_None);
}
static PyObject* int_at(const void* p) { return unsigned_int(*(const int64_t*)p); }
static PyObject* float_at(const void* p) { return PyFloat_FromDouble(*(const double*)p); }
static PyObject* bool_at(const void* p) { return PyBool_FromLong(*(const bool*)p); }

static PyObject* tuple_of(const void* data, int64_t len, size_t size, PyObject* (*make)(const void*)) {
  if (len < 0) Py_RETURN_NONE;
  PyObject* all = PyTuple_New(len);
  for (int64_t i = 0; all && i < len; i++) {
    PyObject* o = make((const char*)data + (size_t)i * size);
    if (o)
      PyTuple_SET_ITEM(all, i, o);
    else
      Py_CLEAR(all);
  }
  return all;
}

static PyObject* saved_list(shmt_node* n, const shmt__saved_list* list, bool raw) {
  PyObject* all = PyTuple_New(list->len);
  for (int64_t i = 0; all && i < list->len; i++) {
    PyObject* o = raw ? shmt__py_saved_tensor(n, &list->items[i]) : shmt__py_saved_value(n, &list->items[i]);
    if (o)
      PyTuple_SET_ITEM(all, i, o);
    else
      Py_CLEAR(all);
  }
  return all;
}

static PyObject* field_value(shmt_node* n, const shmt__saved_field* f) {
  const void* p = (const char*)n + f->offset;
  switch (f->kind) {
    case SHMT_SAVED_TENSOR:
      return shmt__py_saved_value(n, p);
    case SHMT_SAVED_TENSORS:
      return saved_list(n, p, false);
    case SHMT_SAVED_SHAPE: {
      const shmt_ints sizes = shmt__saved_shape_sizes(p);
      return tuple_of(sizes.data, sizes.len, sizeof *sizes.data, int_at);
    }
    case SHMT_SAVED_INT:
      return int_at(p);
    case SHMT_SAVED_OPT_INT:
      return none_or(((const shmt_opt_int*)p)->has, int_at, &((const shmt_opt_int*)p)->value);
    case SHMT_SAVED_INTS: {
      const shmt_ints v = ((const shmt__saved_ints*)p)->value;
      return tuple_of(v.data, v.len, sizeof *v.data, int_at);
    }
    case SHMT_SAVED_FLOAT:
      return float_at(p);
    case SHMT_SAVED_OPT_FLOAT:
      return none_or(((const shmt_opt_float*)p)->has, float_at, &((const shmt_opt_float*)p)->value);
    case SHMT_SAVED_FLOATS: {
      const shmt_floats v = ((const shmt__saved_floats*)p)->value;
      return tuple_of(v.data, v.len, sizeof *v.data, float_at);
    }
    case SHMT_SAVED_BOOL:
      return bool_at(p);
    case SHMT_SAVED_OPT_BOOL:
      return none_or(((const shmt_opt_bool*)p)->has, bool_at, &((const shmt_opt_bool*)p)->value);
    case SHMT_SAVED_SCALAR:
      return shmt__py_from_scalar(*(const shmt_scalar*)p);
    case SHMT_SAVED_STR: {
      const char* text = *(char* const*)p;
      return text ? PyUnicode_FromString(text) : Py_NewRef(Py_None);
    }
    case SHMT_SAVED_DTYPE:
      return shmt__py_from_dtype(*(const shmt_dtype*)p);
    case SHMT_SAVED_LAYOUT:
      return shmt__py_from_layout(*(const shmt_layout*)p);
    case SHMT_SAVED_DEVICE:
      return shmt__py_from_device(*(const shmt_device*)p);
    case SHMT_SAVED_MEMORY_FORMAT:
      return shmt__py_from_memory_format(*(const shmt_memory_format*)p);
  }
  Py_RETURN_NONE;
}

static PyObject* get_value(PyObject* self, void* field) { return field_value(((shmt__py_node*)self)->n, field); }

static PyObject* get_raw(PyObject* self, void* field) {
  const shmt__saved_field* f = field;
  shmt_node* n = ((shmt__py_node*)self)->n;
  void* p = (char*)n + f->offset;
  return f->kind == SHMT_SAVED_TENSORS ? saved_list(n, p, true) : shmt__py_saved_tensor(n, p);
}

/* --- properties of the classes ------------------------------------------------------------ */

static int add_property(PyObject* cls, const char* prefix, const char* name, const char* suffix, getter get,
                        const shmt__saved_field* field) {
  char full[128];
  (void)snprintf(full, sizeof full, "%s%s%s", prefix, name, suffix);
  PyGetSetDef* def = calloc(1, sizeof *def); /* for the life of the process, as the class */
  char* kept = strdup(full);
  PyObject* property = NULL;
  if (def && kept) {
    *def = (PyGetSetDef){kept, get, NULL, "What the node keeps for backward.", (void*)(uintptr_t)field};
    property = PyDescr_NewGetSet((PyTypeObject*)cls, def);
  } else {
    PyErr_NoMemory();
  }
  const int r = property ? PyObject_SetAttrString(cls, kept, property) : -1;
  Py_XDECREF(property);
  if (!property) {
    free(kept);
    free(def);
  }
  return r;
}

int shmt__py_add_saved_fields(PyObject* cls, const shmt__node_class* k) {
  for (uint32_t i = 0; i < k->n_fields; i++) {
    const shmt__saved_field* f = &k->fields[i];
    const bool raw = f->kind == SHMT_SAVED_TENSOR || f->kind == SHMT_SAVED_TENSORS;
    if (add_property(cls, "_saved_", f->name, f->kind == SHMT_SAVED_SHAPE ? "_sym_sizes" : "", get_value, f) < 0)
      return -1;
    if (raw && add_property(cls, "_raw_saved_", f->name, "", get_raw, f) < 0) return -1;
  }
  return 0;
}

int shmt__py_saved_fields_init(PyObject* module) {
  saved_type = (PyTypeObject*)PyType_FromSpec(&saved_spec);
  kept_type = (PyTypeObject*)PyType_FromSpec(&kept_spec);
  if (!kept_type || PyModule_AddFunctions(module, saved_functions) < 0 ||
      PyModule_AddObjectRef(module, "_KeptResult", (PyObject*)kept_type) < 0)
    return -1;
  return saved_type ? PyModule_AddObjectRef(module, "SavedTensor", (PyObject*)saved_type) : -1;
}
