/* python/autograd/node.c -- Node: grad_fn objects. */
#include "python/autograd/graph.h"

#include "autograd/accumulate.h"
#include "autograd/engine/needed_nodes.h"
#include "autograd/hook_list.h"
#include "autograd/meta.h"
#include "autograd/recording/history.h"
#include "python/autograd/function.h"
#include "python/autograd/hooks.h"
#include "python/autograd/saved_fields.h"
#include "python/gil.h"
#include "python/tensor/tensor_type.h"
#include "python/values/types.h"

#include <structmember.h>

PyTypeObject* shmt__py_node_type;

/* node class -> Python class, by address; classes live until the process ends. */
static PyObject* classes;

static void node_dealloc(PyObject* self) {
  shmt__py_node* o = (shmt__py_node*)self;
  PyTypeObject* type = Py_TYPE(self);
  shmt_node* n = o->n;
  /* Done first: a callback of a weak reference may read the node again, which then gets another wrapper. */
  if (n && n->py_object == self) n->py_object = NULL;
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  shmt__node_release(n);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject* class_for(const shmt__node_class* k) {
  PyObject* key = PyLong_FromVoidPtr((void*)(uintptr_t)k);
  if (!key) return NULL;
  PyObject* cls = PyDict_GetItemWithError(classes, key);
  if (cls) {
    Py_DECREF(key);
    return Py_NewRef(cls);
  }
  if (!PyErr_Occurred())
    cls = PyObject_CallFunction((PyObject*)&PyType_Type, "s(O){s:(),s:s}", k->name,
                                shmt__py_node_type, "__slots__", "__module__",
                                "shmtensor.autograd.graph");
  if (cls && (shmt__py_add_saved_fields(cls, k) < 0 || PyDict_SetItem(classes, key, cls) < 0)) Py_CLEAR(cls);
  Py_DECREF(key);
  return cls;
}

PyObject* shmt__py_from_node(shmt_node* n) {
  if (!n) Py_RETURN_NONE;
  if (n->py_object) return Py_NewRef((PyObject*)n->py_object);
  PyObject* cls = class_for(n->klass);
  if (!cls) return NULL;
  shmt__py_node* o = (shmt__py_node*)((PyTypeObject*)cls)->tp_alloc((PyTypeObject*)cls, 0);
  Py_DECREF(cls);
  if (!o) return NULL;
  shmt__node_retain(n);
  o->n = n;
  n->py_object = o;
  return (PyObject*)o;
}

static shmt_node* node_of(PyObject* self) { return ((shmt__py_node*)self)->n; }

static PyObject* node_repr(PyObject* self) {
  return PyUnicode_FromFormat("<%s object at %p>", node_of(self)->klass->name, self);
}

static PyObject* node_name(PyObject* self, PyObject* unused) {
  (void)unused;
  const shmt_node* n = node_of(self);
  /* torch qualifies its own nodes, not the derivatives of operators. */
  const bool own = n->klass->is_accumulate || strcmp(n->klass->name, "CopySlices") == 0;
  return PyUnicode_FromFormat(own ? "torch::autograd::%s" : "%s", n->klass->name);
}

static PyObject* node_sequence_nr(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(node_of(self)->sequence_nr);
}

static PyObject* node_register_hook(PyObject* self, PyObject* fn) {
  return shmt__py_add_node_hook(node_of(self), SHMT_HOOK_POST, fn);
}

static PyObject* node_register_prehook(PyObject* self, PyObject* fn) {
  return shmt__py_add_node_hook(node_of(self), SHMT_HOOK_PRE, fn);
}

/* Hooks of a tensor are kept by its node, so that there is nothing to do for the tensor's own. */
static PyObject* node_register_hook_dict(PyObject* self, PyObject* o) {
  shmt_node* n = node_of(self);
  if (!shmt__py_is_tensor(o)) {
    PyErr_SetString(PyExc_TypeError, "_register_hook_dict expected a variable");
    return NULL;
  }
  shmt_tensor* t = shmt__py_tensor(o);
  if (t->autograd && t->autograd->grad_fn == n) Py_RETURN_NONE;
  PyObject* hooks = shmt__py_tensor_hooks(t);
  const int r = hooks != Py_None ? shmt__py_add_hook_dict(n, hooks) : 0;
  Py_DECREF(hooks);
  return r == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject* node_next_functions(PyObject* self, void* closure) {
  (void)closure;
  const shmt_node* n = node_of(self);
  PyObject* all = PyTuple_New(n->n_edges);
  if (!all) return NULL;
  for (uint32_t i = 0; i < n->n_edges; i++) {
    PyObject* node = shmt__py_from_node(n->edges[i].node);
    PyObject* pair = node ? Py_BuildValue("(NI)", node, n->edges[i].input_nr) : NULL;
    if (!pair) {
      Py_DECREF(all);
      return NULL;
    }
    PyTuple_SET_ITEM(all, i, pair);
  }
  return all;
}

static void free_metadata(void* dict) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  Py_DECREF((PyObject*)dict);
  PyGILState_Release(gil);
}

static PyObject* node_metadata(PyObject* self, void* closure) {
  (void)closure;
  shmt__node_extras* x = shmt__node_extras_of(node_of(self));
  if (!x) return shmt__py_raise(SHMT_E_NOMEM);
  if (!x->metadata) {
    x->metadata = PyDict_New();
    x->metadata_free = free_metadata;
  }
  return Py_XNewRef((PyObject*)x->metadata);
}

/* --- what is known of the forward outputs ------------------------------------------------ */

static PyTypeObject* input_metadata_type;
static PyStructSequence_Field input_metadata_fields[] = {
    {"dtype", "of the forward output; None where it takes no gradient"},
    {"device", "of the forward output"},
    {"shape", "of the forward output"},
    {"is_nested_tensor", "always false"},
    {"is_cpp_nested_tensor", "always false"},
    {NULL, NULL},
};
static PyStructSequence_Desc input_metadata_desc = {
    "shmtensor._C._InputMetadata", "What a node knows of one of its inputs.", input_metadata_fields, 5};

static PyObject* sizes_of(const int64_t* sizes, int64_t n) {
  PyObject* list = PyTuple_New(n);
  for (int64_t i = 0; list && i < n; i++) {
    PyObject* o = PyLong_FromLongLong(sizes[i]);
    if (o)
      PyTuple_SET_ITEM(list, i, o);
    else
      Py_CLEAR(list);
  }
  return list;
}

static PyObject* input_metadata(shmt_node* n, uint32_t i) {
  PyObject* o = PyStructSequence_New(input_metadata_type);
  if (!o) return NULL;
  PyObject *dtype, *device, *shape;
  if (n->klass->is_accumulate) {
    const shmt_tensor* v = shmt__accumulator_variable(n);
    dtype = shmt__py_from_dtype(v->dtype);
    device = shmt__py_from_device(v->device);
    shape = sizes_of(shmt__tensor_sizes(v).data, v->n_dims);
  } else {
    const shmt__input_meta* m = shmt__node_input_meta(n, i);
    const bool known = m->dtype != SHMT_DTYPE_NONE;
    dtype = known ? shmt__py_from_dtype(m->dtype) : Py_NewRef(Py_None);
    device = known ? shmt__py_from_device(m->device) : Py_NewRef(Py_None);
    shape = known ? sizes_of(shmt__input_meta_sizes(m), m->n_dims) : PyTuple_New(0);
  }
  PyStructSequence_SET_ITEM(o, 0, dtype);
  PyStructSequence_SET_ITEM(o, 1, device);
  PyStructSequence_SET_ITEM(o, 2, shape);
  PyStructSequence_SET_ITEM(o, 3, Py_NewRef(Py_False));
  PyStructSequence_SET_ITEM(o, 4, Py_NewRef(Py_False));
  if (dtype && device && shape) return o;
  Py_DECREF(o);
  return NULL;
}

static PyObject* node_input_metadata(PyObject* self, void* closure) {
  (void)closure;
  shmt_node* n = node_of(self);
  const uint32_t count = shmt__node_n_gradients(n);
  PyObject* all = PyTuple_New(count);
  for (uint32_t i = 0; all && i < count; i++) {
    PyObject* one = input_metadata(n, i);
    if (one)
      PyTuple_SET_ITEM(all, i, one);
    else
      Py_CLEAR(all);
  }
  return all;
}

static PyObject* node_requires_grad(PyObject* self, void* closure) {
  (void)self, (void)closure;
  Py_RETURN_TRUE; /* a node exists only where something requires grad */
}

static PyObject* node_variable(PyObject* self, void* closure) {
  (void)closure;
  const shmt_node* n = node_of(self);
  if (!n->klass->is_accumulate) {
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'", n->klass->name);
    return NULL;
  }
  return shmt__py_wrap(shmt__tensor_ref(shmt__accumulator_variable(n)));
}

/* What the class does not have is looked up in the ctx of a Function's node. */
static PyObject* node_getattro(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyObject* ctx = shmt__py_function_context(node_of(self));
  if (!ctx) return NULL;
  PyErr_Clear();
  return PyObject_GetAttr(ctx, name);
}

static int node_setattro(PyObject* self, PyObject* name, PyObject* value) {
  PyObject* ctx = shmt__py_function_context(node_of(self));
  return ctx ? PyObject_SetAttr(ctx, name, value) : PyObject_GenericSetAttr(self, name, value);
}

/* Apply the node to gradients, as the engine would. */
static PyObject* node_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  shmt_node* n = node_of(self);
  const Py_ssize_t given = PyTuple_GET_SIZE(args);
  if (kwargs && PyDict_GET_SIZE(kwargs)) {
    PyErr_SetString(PyExc_TypeError, "keyword arguments are not supported");
    return NULL;
  }
  const uint32_t expected = shmt__node_n_gradients(n);
  if (given != expected) {
    PyErr_Format(PyExc_TypeError, "expected %u arguments, got %zd instead", expected, given);
    return NULL;
  }
  shmt_tensor** grads = PyMem_Calloc((size_t)n->n_inputs + n->n_edges + 1, sizeof *grads);
  if (!grads) return PyErr_NoMemory();
  shmt_tensor** out = grads + n->n_inputs;
  PyObject* result = NULL;
  for (Py_ssize_t i = 0; i < given; i++) {
    PyObject* g = PyTuple_GET_ITEM(args, i);
    if (g == Py_None) continue;
    if (!shmt__py_is_tensor(g)) {
      PyErr_Format(PyExc_TypeError, "argument %zd is not a Variable", i);
      goto done;
    }
    grads[i] = shmt__py_tensor(g);
  }
  const struct shmt__needed_nodes* scan = SHMT_TAKE(shmt__tls_needed_nodes); /* all gradients are wanted here */
  shmt_status status = n->klass->apply(n, grads, out);
  shmt__tls_needed_nodes = scan;
  if (status != SHMT_OK)
    shmt__py_raise(status);
  else
    result = shmt__py_tuple_of(out, n->n_edges);
  if (result && n->n_edges == 1) Py_SETREF(result, Py_NewRef(PyTuple_GET_ITEM(result, 0)));
done:
  for (uint32_t i = 0; i < n->n_edges; i++) shmt__tensor_release(out[i]);
  PyMem_Free(grads);
  return result;
}

static PyMethodDef node_methods[] = {
    {"name", node_name, METH_NOARGS,
     "name($self)\n--\n\nThe name of the function, such as MulBackward0."},
    {"_sequence_nr", node_sequence_nr, METH_NOARGS,
     "_sequence_nr($self)\n--\n\nThe position in the order in which nodes were made."},
    {"register_hook", node_register_hook, METH_O,
     "register_hook($self, fn, /)\n--\n\nCall fn(grad_inputs, grad_outputs) after the node has run; a "
     "result replaces grad_inputs.\n\nReturns a handle; its remove() removes the hook."},
    {"register_prehook", node_register_prehook, METH_O,
     "register_prehook($self, fn, /)\n--\n\nCall fn(grad_outputs) before the node runs; a result replaces "
     "grad_outputs.\n\nReturns a handle; its remove() removes the hook."},
    {"_register_hook_dict", node_register_hook_dict, METH_O,
     "_register_hook_dict($self, tensor, /)\n--\n\nLet the hooks of a tensor run with this node, too, "
     "unless it is the tensor's own."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef node_getset[] = {
    {"next_functions", node_next_functions, NULL,
     "Pairs (node, number of its input) that gradients go to.", NULL},
    {"metadata", node_metadata, NULL, "A dict for the user.", NULL},
    {"requires_grad", node_requires_grad, NULL, "True: nodes are made for what requires grad.", NULL},
    {"_input_metadata", node_input_metadata, NULL, "dtype, device and shape of each forward output.", NULL},
    {"variable", node_variable, NULL, "The leaf of an AccumulateGrad node.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef node_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(shmt__py_node, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot node_slots[] = {
    {Py_tp_dealloc, node_dealloc},
    {Py_tp_repr, node_repr},
    {Py_tp_methods, node_methods},
    {Py_tp_getset, node_getset},
    {Py_tp_members, node_members},
    {Py_tp_getattro, node_getattro},
    {Py_tp_setattro, node_setattro},
    {Py_tp_call, node_call},
    {Py_tp_doc, (void*)"A function in the graph that backward() runs through."},
    {0, NULL},
};

static PyType_Spec node_spec = {
    .name = "shmtensor.autograd.graph.Node",
    .basicsize = sizeof(shmt__py_node),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = node_slots};

static PyObject* node_address(PyObject* module, PyObject* o) {
  (void)module;
  if (PyObject_TypeCheck(o, shmt__py_node_type)) return PyLong_FromVoidPtr(((shmt__py_node*)o)->n);
  PyErr_Format(PyExc_TypeError, "expected Node, not %s", Py_TYPE(o)->tp_name);
  return NULL;
}

/* A tensor without memory of its own that stands for an edge: its gradient goes where the edge leads. */
static shmt_status stand_in(shmt_node* n, uint32_t nr, shmt_tensor** out) {
  SHMT_REQUIRE(nr < n->n_inputs, SHMT_E_RUNTIME, "GradientEdge: %s has %u inputs, there is no input %u", n->klass->name,
               n->n_inputs, nr);
  if (n->klass->is_accumulate) {
    *out = shmt__tensor_ref(shmt__accumulator_variable(n));
    return SHMT_OK;
  }
  const shmt__input_meta* m = shmt__node_input_meta(n, nr);
  SHMT_REQUIRE(m->dtype != SHMT_DTYPE_NONE, SHMT_E_RUNTIME, "GradientEdge: input %u of %s takes no gradient", nr,
               n->klass->name);
  static const int64_t zeros[SHMT_MAX_DIMS];
  const int64_t one = 1;
  SHMT_AUTO(shmt_tensor) cell = NULL;
  SHMT_TRY(shmt__tensor_empty((shmt_ints){&one, 1}, m->dtype, m->device, SHMT_CONTIGUOUS_FORMAT, &cell));
  SHMT_AUTO(shmt_tensor) t = NULL;
  SHMT_TRY(shmt__tensor_alias(cell, (shmt_ints){shmt__input_meta_sizes(m), m->n_dims}, (shmt_ints){zeros, m->n_dims}, 0,
                              &t));
  SHMT_TRY(shmt__set_history(t, n, nr));
  *out = SHMT_TAKE(t);
  return SHMT_OK;
}

bool shmt__py_is_edge(PyObject* o) {
  return PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2 && PyObject_TypeCheck(PyTuple_GET_ITEM(o, 0), shmt__py_node_type);
}

PyObject* shmt__py_edge_stand_in(PyObject* edge) {
  const unsigned long nr = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(edge, 1));
  if (PyErr_Occurred()) return NULL;
  shmt_tensor* t = NULL;
  shmt_status status = stand_in(node_of(PyTuple_GET_ITEM(edge, 0)), (uint32_t)nr, &t);
  return status == SHMT_OK ? shmt__py_wrap(t) : shmt__py_raise(status);
}

static PyMethodDef node_functions[] = {
    {"_node_address", node_address, METH_O, "Where a node lies, for _backward_reaches."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_node_init(PyObject* module) {
  if (shmt__py_saved_fields_init(module) < 0) return -1;
  input_metadata_type = PyStructSequence_NewType(&input_metadata_desc);
  if (!input_metadata_type) return -1;
  classes = PyDict_New();
  shmt__py_node_type = (PyTypeObject*)PyType_FromSpec(&node_spec);
  if (!classes || !shmt__py_node_type) return -1;
  if (PyModule_AddFunctions(module, node_functions) < 0) return -1;
  return PyModule_AddObjectRef(module, "Node", (PyObject*)shmt__py_node_type);
}
