/* python/autograd/tensor_hooks.c -- the hooks of one tensor: their dict, and what the garbage collector visits. */
#include "autograd/hook_list.h"
#include "autograd/hooks.h"
#include "autograd/meta.h"
#include "autograd/node.h"
#include "python/autograd/hooks.h"
#include "python/tensor/tensor_type.h"

/* The list that holds t's hooks; NULL: there is none. *nr: which output of its node t is. */
static shmt__hook* const* hooks_of(const shmt_tensor* t, uint32_t* nr) {
  const shmt_autograd_meta* m = t->autograd;
  *nr = m && m->grad_fn ? m->output_nr : 0;
  if (!m) return NULL;
  if (!m->grad_fn) return &m->hooks;
  return m->grad_fn->extras ? &m->grad_fn->extras->hooks : NULL;
}

/* The hook that has the dict of t's hooks; NULL: there is none. */
static shmt__hook* find_dict(const shmt_tensor* t) {
  uint32_t nr;
  shmt__hook* const* list = hooks_of(t, &nr);
  for (shmt__hook* h = list ? *list : NULL; h; h = h->next)
    if (h->call == shmt__py_call_hook_dict && h->input_nr == nr && !h->removed && h->ctx) return h;
  return NULL;
}

PyObject* shmt__py_tensor_hooks(const shmt_tensor* t) {
  const shmt__hook* h = find_dict(t);
  return Py_NewRef(h ? (PyObject*)h->ctx : Py_None);
}

/* The end of adding a hook that has a reference to hooks. */
static int added(shmt_status status, shmt__hook* h, PyObject* hooks) {
  if (status == SHMT_OK) {
    shmt__hook_release(h);
    return 0;
  }
  Py_DECREF(hooks);
  shmt__py_raise(status);
  return -1;
}

/* Append the hook that calls the functions of a dict. list: of a leaf that does not (yet) require a gradient, NULL for
 * other tensors. */
static int add_dict(shmt_tensor* t, shmt__hook** list, PyObject* hooks) {
  shmt__hook* h = NULL;
  shmt_status status = list ? shmt__hooks_add(list, SHMT_HOOK_TENSOR, 0, shmt__py_call_hook_dict, Py_NewRef(hooks),
                                              shmt__py_drop_object, &h)
                            : shmt__tensor_add_hook(t, SHMT_HOOK_TENSOR, shmt__py_call_hook_dict, Py_NewRef(hooks),
                                                    shmt__py_drop_object, &h);
  return added(status, h, hooks);
}

int shmt__py_add_hook_dict(shmt_node* n, PyObject* hooks) {
  shmt__hook* h = NULL;
  shmt_status status = shmt__node_add_hook(n, SHMT_HOOK_TENSOR, 0, shmt__py_call_hook_dict, Py_NewRef(hooks),
                                           shmt__py_drop_object, &h);
  return added(status, h, hooks);
}

/* The dict of t's hooks, made when there is none. New reference. */
static PyObject* dict_of(shmt_tensor* t, PyObject* helpers) {
  shmt_status status = shmt__tensor_requires_grad(t) ? shmt__meta_refresh(t) : SHMT_OK;
  if (status != SHMT_OK) return shmt__py_raise(status);
  const shmt__hook* h = find_dict(t);
  if (h) return Py_NewRef((PyObject*)h->ctx);
  PyObject* fresh = PyObject_CallMethod(helpers, "OrderedDict", NULL);
  if (fresh && add_dict(t, NULL, fresh) < 0) Py_CLEAR(fresh);
  return fresh;
}

PyObject* shmt__py_add_tensor_hook(shmt_tensor* t, PyObject* fn) {
  PyObject* helpers = PyImport_ImportModule("shmtensor.utils.hooks");
  PyObject* hooks = helpers ? dict_of(t, helpers) : NULL;
  PyObject* handle = hooks ? PyObject_CallMethod(helpers, "add_hook", "OO", hooks, fn) : NULL;
  Py_XDECREF(hooks);
  Py_XDECREF(helpers);
  return handle;
}

int shmt__py_set_tensor_hooks(shmt_tensor* t, PyObject* hooks) {
  shmt__hook* old = find_dict(t);
  if (hooks != Py_None && !PyDict_Check(hooks)) {
    PyErr_Format(PyExc_TypeError, "_backward_hooks must be a dict or None, not %s", Py_TYPE(hooks)->tp_name);
    return -1;
  }
  if (old) shmt__hook_drop(old);
  if (hooks == Py_None) return 0;
  if (shmt__tensor_requires_grad(t)) return add_dict(t, NULL, hooks);
  shmt_autograd_meta* m = shmt__meta_of(t);
  if (m) return add_dict(t, &m->hooks, hooks);
  shmt__py_raise(SHMT_E_NOMEM);
  return -1;
}

PyObject* shmt__py_post_accumulate_hooks(const shmt_tensor* t) {
  const shmt_autograd_meta* m = t->autograd;
  bool any = false;
  PyObject* all = PyDict_New();
  for (const shmt__hook* h = m && !m->grad_fn ? m->hooks : NULL; all && h; h = h->next) {
    if (h->kind != SHMT_HOOK_POST_ACCUMULATE || h->call != shmt__py_call_hook) continue;
    any = true;
    if (h->removed || !h->ctx) continue;
    PyObject* id = PyLong_FromUnsignedLongLong(h->id);
    if (!id || PyDict_SetItem(all, id, h->ctx) < 0) Py_CLEAR(all);
    Py_XDECREF(id);
  }
  if (all && !any) Py_SETREF(all, Py_NewRef(Py_None));
  return all;
}

/* --- the collector ---------------------------------------------------------------------------- */

/* The hooks of a leaf that only its wrapper holds; nobody can be running or changing them. */
static shmt__hook* own_hooks(shmt_tensor* t) {
  if (!t || !t->autograd || t->autograd->grad_fn) return NULL;
  if (!shmt__is_last_reference(&t->refs)) return NULL;
  return t->autograd->hooks;
}

static int visit_hooks(shmt_tensor* t, visitproc visit, void* arg) {
  for (shmt__hook* h = own_hooks(t); h; h = h->next)
    /* With one reference, its list's, the hook is the only holder of its function. */
    if (atomic_load_explicit(&h->refs, memory_order_acquire) == 1) Py_VISIT((PyObject*)h->ctx);
  return 0;
}

static void clear_hooks(shmt_tensor* t) {
  for (shmt__hook* h = own_hooks(t); h; h = h->next) {
    PyObject* fn = h->ctx;
    shmt__hook_remove(h);
    h->ctx = NULL;
    Py_XDECREF(fn);
  }
}

void shmt__py_tensor_hooks_init(void) { shmt__py_tensor_hooks_gc = (shmt__py_hooks_gc){visit_hooks, clear_hooks}; }
