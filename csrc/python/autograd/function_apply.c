/* python/autograd/function_apply.c -- one application of an autograd.Function: forward, then the node. */
#include "python/autograd/function.h"

#include "autograd/forward/tangents.h"
#include "autograd/meta.h"
#include "autograd/recording/connect.h"
#include "autograd/recording/history.h"
#include "autograd/recording/inplace.h"
#include "autograd/recording/saved.h"
#include "autograd/vmap/levels.h"
#include "dispatch/registry.h"
#include "python/autograd/graph.h"
#include "python/tensor/tensor_type.h"

#include <stdlib.h>

typedef struct application {
  PyObject* cls;
  PyObject* inputs; /* tuple */
  PyObject* kwargs; /* dict for forward(ctx, ...), or NULL */
  shmt__py_context* ctx;
  bool executable;  /* recording is on and some input requires grad */
  shmt_edge* edges; /* per tensor argument; taken before forward may change them */
  uint32_t n_edges;
  bool* is_tensor;
} application;

static bool contains(PyObject* tuple, PyObject* o) {
  if (!tuple) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
    if (PyTuple_GET_ITEM(tuple, i) == o) return true;
  return false;
}

/* Edges, needs_input_grad. */
static int inspect_inputs(application* a) {
  const Py_ssize_t n = PyTuple_GET_SIZE(a->inputs);
  PyObject* needs = PyTuple_New(n);
  a->edges = calloc((size_t)n + 1, sizeof *a->edges);
  a->is_tensor = calloc((size_t)n + 1, sizeof *a->is_tensor);
  if (!needs || !a->edges || !a->is_tensor) {
    Py_XDECREF(needs);
    PyErr_NoMemory();
    return -1;
  }
  bool any = false;
  shmt_status status = SHMT_OK;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* o = PyTuple_GET_ITEM(a->inputs, i);
    bool need = false;
    a->is_tensor[i] = shmt__py_is_tensor(o);
    if (a->is_tensor[i]) {
      shmt_tensor* t = shmt__py_tensor(o);
      need = shmt__tensor_requires_grad(t);
      any |= need;
      if (status == SHMT_OK) status = shmt__gradient_edge(t, &a->edges[a->n_edges]);
      a->n_edges++;
    }
    PyTuple_SET_ITEM(needs, i, Py_NewRef(need ? Py_True : Py_False));
  }
  a->executable = any && shmt__grad_enabled();
  Py_XSETREF(a->ctx->needs_input_grad, needs);
  if (status == SHMT_OK) return 0;
  shmt__py_raise(status);
  return -1;
}

/* forward(ctx, *args), or forward(*args) and setup_context(ctx, inputs, output). */
static PyObject* call_forward(application* a) {
  PyObject* outputs = NULL;
  PyObject* forward = PyObject_GetAttrString(a->cls, "forward");
  PyObject* setup = PyObject_GetAttrString(a->cls, "_user_setup_context");
  const bool was = shmt__grad_set_enabled(false);
  SHMT_KEYS_GUARD(keys); /* tangents are followed by jvp */
  shmt__tls_keys.excluded |= SHMT_KEYBIT_ForwardAD;
  SHMT_HIDE_LEVEL(shmt__py_function_first_level(a->inputs)); /* also where forward calls func.jvp */
  if (forward && setup && setup != Py_None) {
    outputs = PyObject_CallObject(forward, a->inputs);
    PyObject* r =
        outputs ? PyObject_CallFunctionObjArgs(setup, a->ctx, a->inputs, outputs, NULL) : NULL;
    if (!r) Py_CLEAR(outputs);
    Py_XDECREF(r);
  } else if (forward && setup) {
    PyObject* first = PyTuple_Pack(1, a->ctx);
    PyObject* all = first ? PySequence_Concat(first, a->inputs) : NULL;
    if (all) outputs = PyObject_Call(forward, all, a->kwargs);
    Py_XDECREF(all);
    Py_XDECREF(first);
  }
  (void)shmt__grad_set_enabled(was);
  Py_XDECREF(setup);
  Py_XDECREF(forward);
  return outputs;
}

/* --- outputs ---------------------------------------------------------------------------- */

/* An input that is returned as it is: another tensor over the same memory, so that each has its own
 * history. */
static PyObject* alias_of_input(shmt_tensor* t) {
  SHMT_AUTO(shmt_tensor) alias = NULL;
  shmt_status status = shmt__tensor_detached(t, &alias);
  if (status != SHMT_OK) return shmt__py_raise(status);
  shmt__tensor_set_base(alias, t, true);
  return shmt__py_wrap(SHMT_TAKE(alias));
}

static shmt_status check_dirty(const shmt_tensor* t) {
  SHMT_REQUIRE(!t->autograd || !t->autograd->requires_grad || t->autograd->grad_fn, SHMT_E_RUNTIME,
               "a leaf Variable that requires grad has been used in an in-place operation.");
  return SHMT_OK;
}

static void mark_custom_view(shmt_tensor* t, bool several) {
  if (!(t->flags & SHMT_TENSOR_VIEW)) return;
  t->flags &=
      ~(uint32_t)(SHMT_TENSOR_VIEW_NO_GRAD | SHMT_TENSOR_VIEW_INFERENCE | SHMT_TENSOR_VIEW_MULTI);
  t->flags |= several ? SHMT_TENSOR_VIEW_MULTI : SHMT_TENSOR_VIEW_CUSTOM;
}

static PyObject* first_tensor(const application* a) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a->inputs); i++)
    if (shmt__py_is_tensor(PyTuple_GET_ITEM(a->inputs, i))) return PyTuple_GET_ITEM(a->inputs, i);
  return NULL;
}

static int warn_dirty_not_input(void) {
  return PyErr_WarnEx(PyExc_UserWarning,
                      "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been "
                      "mutated should be passed to ctx.mark_dirty().",
                      1);
}

/* Does output o, a tensor, get a gradient? */
static bool is_differentiable(const application* a, PyObject* o) {
  return a->executable && !contains(a->ctx->non_differentiable, o) &&
         shmt__dtype_differentiable(shmt__py_tensor(o)->dtype);
}

static uint32_t count_differentiable(const application* a, PyObject* const* outputs, uint32_t n) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++) count += shmt__py_is_tensor(outputs[i]) && is_differentiable(a, outputs[i]);
  return count;
}

/* Give output i its history; *o may be replaced. n outputs in all; several: more than one gets a gradient. */
static int finish_output(application* a, shmt_node* node, PyObject** o, uint32_t i, uint32_t n, bool several) {
  if (!shmt__py_is_tensor(*o)) return 0;
  shmt_tensor* t = shmt__py_tensor(*o);
  const bool dirty = contains(a->ctx->dirty, *o), is_input = contains(a->inputs, *o);
  shmt_status status = SHMT_OK;
  if (dirty && !is_input && warn_dirty_not_input() < 0) return -1;
  if (dirty) shmt__tensor_bump_version(t);
  if (!is_differentiable(a, *o)) {
    if (is_input && !dirty) { /* another tensor here too, whose changes in place autograd can refuse */
      PyObject* alias = alias_of_input(t);
      if (!alias) return -1;
      Py_SETREF(*o, alias);
      t = shmt__py_tensor(alias);
      t->flags |= SHMT_TENSOR_VIEW_CUSTOM;
    } else if (node && !dirty && !(t->flags & SHMT_TENSOR_VIEW)) {
      status = shmt__tensor_detach_inplace(t);
    }
    if (node && status == SHMT_OK) status = shmt__node_describe_input(node, i, t);
    if (status == SHMT_OK) return 0;
  } else if (dirty) {
    status = check_dirty(t);
    if (status == SHMT_OK && (t->flags & SHMT_TENSOR_VIEW) && (n != 1 || first_tensor(a) != *o))
      status = shmt__fail(SHMT_E_RUNTIME,
                          "mark_dirty(): a view that is changed in place must be the Function's "
                          "first tensor argument "
                          "and its only output");
    if (status == SHMT_OK)
      status = t->flags & SHMT_TENSOR_VIEW ? shmt__rebase_history(t, node)
                                           : shmt__set_history(t, node, i);
  } else {
    if (is_input) {
      PyObject* alias = alias_of_input(t);
      if (!alias) return -1;
      Py_SETREF(*o, alias);
      t = shmt__py_tensor(alias);
    }
    status = shmt__set_history(t, node, i);
    if (status == SHMT_OK) mark_custom_view(t, several);
  }
  if (status == SHMT_OK) return 0;
  shmt__py_raise(status);
  return -1;
}

static int save(application* a, shmt__py_function_node* n) {
  PyObject* list = a->ctx->to_save;
  if (!list) return 0;
  const Py_ssize_t count = PyTuple_GET_SIZE(list);
  n->saved = calloc((size_t)count + 1, sizeof *n->saved);
  if (!n->saved) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject* o = PyTuple_GET_ITEM(list, i);
    shmt_tensor* t = NULL;
    if (shmt__py_is_tensor(o)) {
      t = shmt__py_tensor(o);
    } else if (o != Py_None) {
      PyErr_Format(PyExc_TypeError,
                   "save_for_backward can only save variables, but argument %zd is of type %s", i,
                   Py_TYPE(o)->tp_name);
      return -1;
    }
    const bool own = t && t->autograd && t->autograd->grad_fn == &n->node;
    shmt_status status = shmt__saved_init(&n->saved[i], t, own);
    n->n_saved = (uint32_t)i + 1;
    if (status != SHMT_OK) {
      shmt__py_raise(status);
      return -1;
    }
  }
  Py_CLEAR(a->ctx->to_save);
  return 0;
}

static shmt_node* make_node(application* a, uint32_t n_outputs) {
  const shmt__node_class* k = shmt__py_function_class(Py_TYPE(a->ctx));
  if (!k) return NULL;
  shmt__py_function_node* n = (shmt__py_function_node*)shmt__node_create(k, a->n_edges, n_outputs);
  if (!n) {
    shmt__py_raise(SHMT_E_NOMEM);
    return NULL;
  }
  for (uint32_t i = 0; i < a->n_edges; i++) shmt__node_set_edge(&n->node, i, a->edges[i]);
  for (uint32_t i = 0; i < a->n_edges; i++) a->edges[i].node = NULL; /* the node's now */
  n->is_tensor = SHMT_TAKE(a->is_tensor);
  n->n_args = PyTuple_GET_SIZE(a->inputs);
  n->ctx = Py_NewRef((PyObject*)a->ctx);
  a->ctx->node = &n->node;
  a->ctx->had_node = true;
  return &n->node;
}

/* What forward marked as dirty must be among its outputs: its history is set there. */
static int check_dirty_returned(const application* a, PyObject* outputs) {
  PyObject* dirty = a->ctx->dirty;
  for (Py_ssize_t i = 0; dirty && i < PyTuple_GET_SIZE(dirty); i++) {
    PyObject* o = PyTuple_GET_ITEM(dirty, i);
    if (o == outputs || (PyTuple_Check(outputs) && contains(outputs, o))) continue;
    PyErr_SetString(PyExc_RuntimeError,
                    "Some elements marked as dirty during the forward method were not returned as "
                    "output. The inputs that are modified inplace must all be outputs of the "
                    "Function.");
    return -1;
  }
  return 0;
}

/* outputs as forward returned them -> outputs with their history. Consumes outputs. */
static PyObject* finish_application(application* a, PyObject* outputs) {
  const bool single = !PyTuple_Check(outputs);
  const uint32_t n = single ? 1 : (uint32_t)PyTuple_GET_SIZE(outputs);
  PyObject* all = PyTuple_New(n);
  shmt_node* node = NULL;
  int r = all ? check_dirty_returned(a, outputs) : -1;
  if (r == 0 && a->executable && !(node = make_node(a, n))) r = -1;
  PyObject* const* given = single ? &outputs : ((PyTupleObject*)outputs)->ob_item;
  const bool several = count_differentiable(a, given, n) > 1;
  for (uint32_t i = 0; r == 0 && i < n; i++) {
    PyObject* o = Py_NewRef(given[i]);
    r = finish_output(a, node, &o, i, n, several);
    PyTuple_SET_ITEM(all, i, o);
  }
  if (r == 0) r = shmt__py_function_jvp(a->cls, a->ctx, a->inputs, all);
  if (r == 0 && node) r = save(a, (shmt__py_function_node*)node);
  /* They hold outputs, which own the node, which owns the context. */
  Py_CLEAR(a->ctx->dirty);
  Py_CLEAR(a->ctx->non_differentiable);
  Py_CLEAR(a->ctx->to_save);
  Py_CLEAR(a->ctx->for_forward); /* jvp runs inside apply */
  shmt__node_release(node); /* the outputs own it */
  Py_DECREF(outputs);
  if (r < 0) {
    Py_XDECREF(all);
    return NULL;
  }
  if (!single) return all;
  PyObject* one = Py_NewRef(PyTuple_GET_ITEM(all, 0));
  Py_DECREF(all);
  return one;
}

/* Is a tensor of the innermost vmap among the arguments? */
static bool is_batched_call(PyObject* args) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    const shmt__batched* b = shmt__py_is_tensor(o) ? shmt__batched_of(shmt__py_tensor(o)) : NULL;
    if (SHMT_UNLIKELY(b != NULL) && b->level == shmt__level_of_vmap()) return true;
  }
  return false;
}

/* Under vmap a Function is applied to what the tensors stand for. */
static SHMT_COLD PyObject* apply_under_vmap(PyObject* cls, PyObject* args) {
  PyObject* module = PyImport_ImportModule("shmtensor._functorch.autograd_function");
  PyObject* result = module ? PyObject_CallMethod(module, "apply_under_vmap", "OO", cls, args) : NULL;
  Py_XDECREF(module);
  return result;
}

/* _function_apply(cls, args) */
static PyObject* function_apply(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  if (n < 2 || n > 3 || !PyTuple_Check(args[1]) || (n == 3 && !PyDict_Check(args[2]))) {
    PyErr_SetString(PyExc_TypeError,
                    "_function_apply expected a Function class, a tuple of arguments and a dict");
    return NULL;
  }
  if (SHMT_UNLIKELY(is_batched_call(args[1])) && !PyObject_HasAttrString(args[0], "_is_batched"))
    return apply_under_vmap(args[0], args[1]);
  application a = {.cls = args[0], .inputs = args[1], .kwargs = n == 3 ? args[2] : NULL};
  PyObject* result = NULL;
  PyObject* backward_cls = PyObject_GetAttrString(a.cls, "_backward_cls");
  PyObject* ctx = backward_cls ? PyObject_CallNoArgs(backward_cls) : NULL;
  Py_XDECREF(backward_cls);
  if (ctx && !shmt__py_is_context(ctx)) {
    PyErr_Format(PyExc_TypeError, "_backward_cls made a %s, which is not a function context",
                 Py_TYPE(ctx)->tp_name);
    Py_CLEAR(ctx);
  }
  a.ctx = (shmt__py_context*)ctx;
  if (ctx && inspect_inputs(&a) == 0) {
    PyObject* outputs = call_forward(&a);
    if (outputs) result = finish_application(&a, outputs);
  }
  for (uint32_t i = 0; a.edges && i < a.n_edges; i++) shmt__node_release(a.edges[i].node);
  free(a.edges);
  free(a.is_tensor);
  Py_XDECREF(ctx);
  return result;
}

PyMethodDef shmt__py_function_functions[] = {
    {"_function_apply", (PyCFunction)(void (*)(void))function_apply, METH_FASTCALL,
     "Run a Function's forward and record it: cls, args, keyword arguments of forward(ctx, ...)."},
    {NULL, NULL, 0, NULL},
};
