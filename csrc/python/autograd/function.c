/* python/autograd/function.c -- autograd.Function: contexts, and nodes whose backward is Python.
 *
 *   Function.apply(*args) -> _function_apply(cls, args)
 *     ctx = cls._backward_cls()        a _FunctionBase, what forward and backward get as ctx
 *     outputs = forward(ctx, *args)    with recording off
 *     node -> edges of the tensor arguments, saved tensors; the outputs' history
 *
 * The node owns the ctx; the ctx knows its node weakly (NULL before it is made and after it ended).
 */
#include "python/autograd/function.h"

#include "autograd/meta.h"
#include "python/autograd/graph.h"
#include "python/autograd/saved_fields.h"
#include "python/gil.h"
#include "python/tensor/tensor_type.h"

#include <stdlib.h>
#include <structmember.h>

static PyTypeObject* context_type; /* _FunctionBase */

/* --- the node --------------------------------------------------------------------------- */

static bool all_none_after(PyObject* results, Py_ssize_t from) {
  for (Py_ssize_t i = from; i < PyTuple_GET_SIZE(results); i++)
    if (PyTuple_GET_ITEM(results, i) != Py_None) return false;
  return true;
}

/* results of backward: one per argument of forward -> one per edge (tensor arguments). */
static int give_results(const shmt__py_function_node* n, PyObject* results, shmt_tensor** out) {
  const char* name = n->node.klass->name;
  const Py_ssize_t got = PyTuple_GET_SIZE(results);
  if (got < n->n_args || !all_none_after(results, n->n_args)) {
    PyErr_Format(PyExc_RuntimeError,
                 "function %s returned an incorrect number of gradients (expected %zd, got %zd)",
                 name, n->n_args, got);
    return -1;
  }
  uint32_t edge = 0;
  for (Py_ssize_t i = 0; i < n->n_args; i++) {
    PyObject* o = PyTuple_GET_ITEM(results, i);
    if (!n->is_tensor[i]) {
      if (o == Py_None) continue;
      PyErr_Format(PyExc_RuntimeError,
                   "function %s returned a gradient different than None at position %zd, but the "
                   "corresponding forward "
                   "input was not a Variable",
                   name, i + 1);
      return -1;
    }
    if (o != Py_None) {
      if (!shmt__py_is_tensor(o)) {
        PyErr_Format(PyExc_RuntimeError, "expected Variable or None (got %s)", Py_TYPE(o)->tp_name);
        return -1;
      }
      out[edge] = shmt__tensor_ref(shmt__py_tensor(o)); /* also where it ends here: hooks of the node see it */
    }
    edge++;
  }
  return 0;
}

static PyObject* gradient_args(shmt__py_function_node* n, shmt_tensor* const* grads) {
  const shmt__py_context* ctx = (shmt__py_context*)n->ctx;
  PyObject* args = PyTuple_New(n->node.n_inputs + 1);
  if (!args) return NULL;
  PyTuple_SET_ITEM(args, 0, Py_NewRef(n->ctx));
  for (uint32_t i = 0; i < n->node.n_inputs; i++) {
    shmt_tensor* g = NULL;
    shmt_status status = SHMT_OK;
    if (grads[i])
      g = shmt__tensor_ref(grads[i]);
    else if (ctx->materialize)
      status = shmt__materialize_grad(&n->node, i, NULL, &g);
    PyObject* o = status == SHMT_OK ? shmt__py_wrap_opt(g) : shmt__py_raise(status);
    if (!o) {
      Py_DECREF(args);
      return NULL;
    }
    PyTuple_SET_ITEM(args, i + 1, o);
  }
  return args;
}

/* (ctx, [grads]) instead of (ctx, *grads), so that backward can let go of each. Consumes args. */
static PyObject* boxed(PyObject* args) {
  PyObject* list = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
  if (list) Py_SETREF(list, PySequence_List(list));
  PyObject* two = list ? PyTuple_Pack(2, PyTuple_GET_ITEM(args, 0), list) : NULL;
  Py_XDECREF(list);
  Py_DECREF(args);
  return two;
}

/* The value of a flag of the Function that the context belongs to; -1 with an exception. */
static int function_flag(PyObject* self, const char* name) {
  PyObject* cls = PyObject_GetAttrString((PyObject*)Py_TYPE(self), "_forward_cls");
  PyObject* flag = cls ? PyObject_GetAttrString(cls, name) : NULL;
  const int r = flag ? PyObject_IsTrue(flag) : -1;
  Py_XDECREF(flag);
  Py_XDECREF(cls);
  return r;
}

static int apply_with_lock(shmt__py_function_node* n, shmt_tensor* const* grads,
                           shmt_tensor** out) {
  PyObject* cls = PyObject_GetAttrString((PyObject*)Py_TYPE(n->ctx), "_forward_cls");
  PyObject* fn = cls ? PyObject_GetAttrString(cls, "_user_backward") : NULL;
  PyObject* args = fn ? gradient_args(n, grads) : NULL;
  const int boxes = args ? function_flag(n->ctx, "boxed_grads_call") : 0;
  if (boxes < 0) Py_CLEAR(args);
  if (boxes > 0) args = boxed(args);
  PyObject* result = args ? PyObject_CallObject(fn, args) : NULL;
  Py_XDECREF(args);
  Py_XDECREF(fn);
  Py_XDECREF(cls);
  if (result && !PyTuple_Check(result)) Py_SETREF(result, PyTuple_Pack(1, result));
  int r = result ? give_results(n, result, out) : -1;
  Py_XDECREF(result);
  return r;
}

static shmt_status function_apply(shmt_node* node, shmt_tensor* const* grads, shmt_tensor** out) {
  PyGILState_STATE gil = shmt__py_gil_ensure();
  int r = apply_with_lock((shmt__py_function_node*)node, grads, out);
  PyGILState_Release(gil);
  return r < 0 ? SHMT_E_PYTHON : SHMT_OK;
}

static void function_release_saved(shmt_node* node) {
  shmt__py_function_node* n = (shmt__py_function_node*)node;
  for (uint32_t i = 0; i < n->n_saved; i++) shmt__saved_fini(&n->saved[i]);
}

static void function_destroy(shmt_node* node) {
  shmt__py_function_node* n = (shmt__py_function_node*)node;
  free(n->saved);
  free(n->is_tensor);
  if (!n->ctx || !Py_IsInitialized()) return;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  ((shmt__py_context*)n->ctx)->node = NULL;
  Py_CLEAR(n->ctx);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
}

/* A node class for every name of a Function: nodes are asked for it as long as they live, which may
 * be longer than the Function does, so it is kept, and classes of one name share it. */
typedef struct kept_class {
  shmt__node_class klass;
  struct kept_class* next;
} kept_class;
static kept_class* kept_classes; /* under the lock */

static const shmt__node_class* class_named(const char* name) {
  for (kept_class* k = kept_classes; k; k = k->next)
    if (strcmp(k->klass.name, name) == 0) return &k->klass;
  kept_class* k = calloc(1, sizeof *k);
  char* copy = strdup(name);
  if (!k || !copy) {
    free(k);
    free(copy);
    PyErr_NoMemory();
    return NULL;
  }
  k->klass = (shmt__node_class){.name = copy,
                                .size = sizeof(shmt__py_function_node),
                                .apply = function_apply,
                                .release_saved = function_release_saved,
                                .destroy = function_destroy,
                                .is_python = true,
                                .takes_undefined = true};
  k->next = kept_classes;
  kept_classes = k;
  return &k->klass;
}

const shmt__node_class* shmt__py_function_class(PyTypeObject* backward_cls) {
  PyObject* capsule = PyDict_GetItemString(backward_cls->tp_dict, "_node_class");
  if (capsule) return PyCapsule_GetPointer(capsule, NULL);
  const shmt__node_class* k = class_named(backward_cls->tp_name);
  if (!k) return NULL;
  capsule = PyCapsule_New((void*)(uintptr_t)k, NULL, NULL);
  if (!capsule || PyObject_SetAttrString((PyObject*)backward_cls, "_node_class", capsule) < 0)
    k = NULL;
  Py_XDECREF(capsule);
  return k;
}

/* --- the context -------------------------------------------------------------------------- */

static PyObject* context_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  (void)args, (void)kwargs;
  shmt__py_context* c = (shmt__py_context*)type->tp_alloc(type, 0);
  if (c) c->materialize = true;
  return (PyObject*)c;
}

static int context_traverse(PyObject* self, visitproc visit, void* arg) {
  shmt__py_context* c = (shmt__py_context*)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(c->dict);
  Py_VISIT(c->to_save);
  Py_VISIT(c->for_forward);
  Py_VISIT(c->dirty);
  Py_VISIT(c->non_differentiable);
  Py_VISIT(c->needs_input_grad);
  return 0;
}

static int context_clear(PyObject* self) {
  shmt__py_context* c = (shmt__py_context*)self;
  Py_CLEAR(c->dict);
  Py_CLEAR(c->to_save);
  Py_CLEAR(c->for_forward);
  Py_CLEAR(c->dirty);
  Py_CLEAR(c->non_differentiable);
  Py_CLEAR(c->needs_input_grad);
  return 0;
}

static void context_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (((shmt__py_context*)self)->weakrefs) PyObject_ClearWeakRefs(self);
  (void)context_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

#define KEEP_TUPLE(function, field)                                \
  static PyObject* function(PyObject* self, PyObject* args) {      \
    Py_XSETREF(((shmt__py_context*)self)->field, Py_NewRef(args)); \
    Py_RETURN_NONE;                                                \
  }
KEEP_TUPLE(save_for_backward, to_save)
KEEP_TUPLE(keep_for_forward, for_forward)
KEEP_TUPLE(keep_dirty, dirty)
KEEP_TUPLE(keep_non_differentiable, non_differentiable)

static bool all_tensors(const char* name, PyObject* args) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    if (shmt__py_is_tensor(o)) continue;
    PyErr_Format(PyExc_RuntimeError, "%s only accepts tensors, but argument %zd is of type %s", name, i,
                 Py_TYPE(o)->tp_name);
    return false;
  }
  return true;
}

static PyObject* save_for_forward(PyObject* self, PyObject* args) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    if (o == Py_None || shmt__py_is_tensor(o)) continue;
    PyErr_SetString(
        PyExc_AssertionError,
        "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on "
        "ctx.");
    return NULL;
  }
  return keep_for_forward(self, args);
}

static PyObject* mark_shared_storage(PyObject* self, PyObject* args) {
  (void)self, (void)args;
  if (PyErr_WarnEx(PyExc_FutureWarning,
                   "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. Note "
                   "that calls to `set_()` are not tracked",
                   1) < 0)
    return NULL;
  Py_RETURN_NONE;
}

static PyObject* mark_dirty(PyObject* self, PyObject* args) {
  return all_tensors("mark_dirty", args) ? keep_dirty(self, args) : NULL;
}

static PyObject* mark_non_differentiable(PyObject* self, PyObject* args) {
  return all_tensors("mark_non_differentiable", args) ? keep_non_differentiable(self, args) : NULL;
}

static PyObject* set_materialize_grads(PyObject* self, PyObject* on) {
  int want = PyObject_IsTrue(on);
  if (want < 0) return NULL;
  ((shmt__py_context*)self)->materialize = want;
  Py_RETURN_NONE;
}

/* saved_tensors of Functions that let go of them at the first look. */
static PyObject* take_saved_tensors(shmt__py_context* c, PyObject* all) {
  const int clears = all ? function_flag((PyObject*)c, "clear_saved_tensors_on_access") : 0;
  shmt__py_function_node* n = (shmt__py_function_node*)c->node;
  if (clears < 0) Py_CLEAR(all);
  if (clears <= 0) return all;
  c->cleared = true;
  for (uint32_t i = 0; i < n->n_saved; i++) shmt__saved_fini(&n->saved[i]);
  return all;
}

static PyObject* get_saved_tensors(PyObject* self, void* closure) {
  (void)closure;
  shmt__py_context* c = (shmt__py_context*)self;
  const shmt__py_function_node* n = (shmt__py_function_node*)c->node;
  if (c->for_forward) return Py_NewRef(c->for_forward);
  if (!n) {
    if (c->had_node) return shmt__py_raise(shmt__saved_freed());
    return c->to_save ? Py_NewRef(c->to_save) : PyTuple_New(0);
  }
  if (c->cleared) {
    PyErr_SetString(PyExc_RuntimeError,
                    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the "
                    "autograd.Function. Either access saved_tensors only once, or set "
                    "clear_saved_tensors_on_access=False.");
    return NULL;
  }
  PyObject* all = PyTuple_New(n->n_saved);
  for (uint32_t i = 0; all && i < n->n_saved; i++) {
    shmt_tensor* t = NULL;
    shmt_status status = shmt__saved_unpack_for_user(&n->saved[i], c->node, &t);
    PyObject* o = status == SHMT_OK ? shmt__py_wrap_opt(t) : shmt__py_raise(status);
    if (o)
      PyTuple_SET_ITEM(all, i, o);
    else
      Py_CLEAR(all);
  }
  return take_saved_tensors(c, all);
}

static PyObject* get_needs_input_grad(PyObject* self, void* closure) {
  (void)closure;
  PyObject* needs = ((shmt__py_context*)self)->needs_input_grad;
  return needs ? Py_NewRef(needs) : PyTuple_New(0);
}

static int set_needs_input_grad(PyObject* self, PyObject* value, void* closure) {
  (void)closure;
  Py_XSETREF(((shmt__py_context*)self)->needs_input_grad, Py_XNewRef(value));
  return 0;
}

static PyObject* get_field(PyObject* self, void* closure) {
  PyObject* o = *(PyObject**)((char*)self + (size_t)closure);
  return Py_NewRef(o ? o : Py_None);
}

static PyObject* get_raw_saved_tensors(PyObject* self, void* closure) {
  (void)closure;
  const shmt__py_context* c = (shmt__py_context*)self;
  shmt__py_function_node* n = (shmt__py_function_node*)c->node;
  if (!n) return c->had_node ? shmt__py_raise(shmt__saved_freed()) : PyTuple_New(0);
  PyObject* all = PyTuple_New(n->n_saved);
  for (uint32_t i = 0; all && i < n->n_saved; i++) {
    PyObject* o = shmt__py_saved_tensor(c->node, &n->saved[i]);
    if (o)
      PyTuple_SET_ITEM(all, i, o);
    else
      Py_CLEAR(all);
  }
  return all;
}

/* What a context does not have itself is looked up in its node: name(), next_functions, hooks, metadata. */
static PyObject* context_getattro(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  shmt_node* n = ((shmt__py_context*)self)->node;
  if (found || !n || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* node = shmt__py_from_node(n);
  found = node ? PyObject_GenericGetAttr(node, name) : NULL; /* not its own lookup, which would come back here */
  Py_XDECREF(node);
  if (found) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  } else {
    PyErr_Restore(type, value, trace);
  }
  return found;
}

static PyMethodDef context_methods[] = {
    {"save_for_backward", save_for_backward, METH_VARARGS,
     "save_for_backward($self, *tensors)\n--\n\nKeep tensors for backward, where they are "
     "ctx.saved_tensors. Other values may be attributes of ctx."},
    {"save_for_forward", save_for_forward, METH_VARARGS,
     "save_for_forward($self, *tensors)\n--\n\nKeep tensors for jvp, where they are ctx.saved_tensors."},
    {"mark_shared_storage", mark_shared_storage, METH_VARARGS,
     "mark_shared_storage($self, *pairs)\n--\n\nWithout effect; warns."},
    {"mark_dirty", mark_dirty, METH_VARARGS,
     "mark_dirty($self, *tensors)\n--\n\nSay in forward which inputs it has changed in place."},
    {"mark_non_differentiable", mark_non_differentiable, METH_VARARGS,
     "mark_non_differentiable($self, *tensors)\n--\n\nSay in forward which outputs have no gradient."},
    {"set_materialize_grads", set_materialize_grads, METH_O,
     "set_materialize_grads($self, value, /)\n--\n\nWhether gradients that nobody has given reach "
     "backward as zeros (the default) or as None."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef context_getset[] = {
    {"saved_tensors", get_saved_tensors, NULL, "What save_for_backward kept.", NULL},
    {"_raw_saved_tensors", get_raw_saved_tensors, NULL, "The same, with hooks that can be set.", NULL},
    {"saved_variables", get_saved_tensors, NULL, "The old name of saved_tensors.", NULL},
    {"needs_input_grad", get_needs_input_grad, set_needs_input_grad, "One bool per argument of forward.", NULL},
    {"saved_for_forward", get_field, NULL, "What save_for_forward kept.",
     (void*)offsetof(shmt__py_context, for_forward)},
    {"to_save", get_field, NULL, "What save_for_backward was given.", (void*)offsetof(shmt__py_context, to_save)},
    {"dirty_tensors", get_field, NULL, "What mark_dirty was given.", (void*)offsetof(shmt__py_context, dirty)},
    {"non_differentiable", get_field, NULL, "What mark_non_differentiable was given.",
     (void*)offsetof(shmt__py_context, non_differentiable)},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef context_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(shmt__py_context, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(shmt__py_context, weakrefs), READONLY, NULL},
    {"materialize_grads", T_BOOL, offsetof(shmt__py_context, materialize), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot context_slots[] = {
    {Py_tp_new, context_new},
    {Py_tp_dealloc, context_dealloc},
    {Py_tp_traverse, context_traverse},
    {Py_tp_clear, context_clear},
    {Py_tp_methods, context_methods},
    {Py_tp_getset, context_getset},
    {Py_tp_getattro, context_getattro},
    {Py_tp_members, context_members},
    {Py_tp_doc, (void*)"What forward and backward of a Function get as ctx."},
    {0, NULL},
};

static PyType_Spec context_spec = {
    .name = "shmtensor._C._FunctionBase",
    .basicsize = sizeof(shmt__py_context),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = context_slots};

int shmt__py_function_init(PyObject* module) {
  context_type = (PyTypeObject*)PyType_FromSpec(&context_spec);
  return context_type ? PyModule_AddObjectRef(module, "_FunctionBase", (PyObject*)context_type)
                      : -1;
}

bool shmt__py_is_context(PyObject* o) { return PyObject_TypeCheck(o, context_type); }
