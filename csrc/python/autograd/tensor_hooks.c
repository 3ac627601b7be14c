/* python/autograd/tensor_hooks.c -- the hooks of one tensor: as a dict, replaced, visited by the garbage collector. */
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

/* nr: TENSOR only. */
static bool is_python_hook(const shmt__hook* h, shmt__hook_kind kind, uint32_t nr) {
  return h->kind == kind && h->call == shmt__py_call_hook && (kind != SHMT_HOOK_TENSOR || h->input_nr == nr);
}

/* The numbers and functions of Python's hooks of one kind in a list, as a new dict; None when there never was one. */
static PyObject* dict_of(const shmt__hook* list, shmt__hook_kind kind, uint32_t nr) {
  bool any = false;
  PyObject* all = PyDict_New();
  for (const shmt__hook* h = list; all && h; h = h->next) {
    if (!is_python_hook(h, kind, nr)) continue;
    any = true;
    if (h->removed || !h->ctx) continue;
    PyObject* id = PyLong_FromUnsignedLongLong(h->id);
    if (!id || PyDict_SetItem(all, id, h->ctx) < 0) Py_CLEAR(all);
    Py_XDECREF(id);
  }
  if (all && !any) Py_SETREF(all, Py_NewRef(Py_None));
  return all;
}

PyObject* shmt__py_post_accumulate_hooks(const shmt_tensor* t) {
  const shmt_autograd_meta* m = t->autograd;
  return dict_of(m && !m->grad_fn ? m->hooks : NULL, SHMT_HOOK_POST_ACCUMULATE, 0);
}

PyObject* shmt__py_tensor_hooks(const shmt_tensor* t) {
  uint32_t nr;
  shmt__hook* const* list = hooks_of(t, &nr);
  return dict_of(list ? *list : NULL, SHMT_HOOK_TENSOR, nr);
}

int shmt__py_set_tensor_hooks(shmt_tensor* t, PyObject* hooks) {
  uint32_t nr;
  int r = 0;
  PyObject* functions = hooks == Py_None ? PyList_New(0) : PyMapping_Values(hooks);
  PyObject* gone = functions ? PyList_New(0) : NULL; /* released after the loop over the list */
  shmt__hook* const* list = hooks_of(t, &nr);
  for (shmt__hook* h = gone && list ? *list : NULL; h && r == 0; h = h->next) {
    if (!is_python_hook(h, SHMT_HOOK_TENSOR, nr) || !h->ctx) continue;
    r = PyList_Append(gone, h->ctx);
    if (r < 0) break;
    shmt__hook_drop(h);
  }
  for (Py_ssize_t i = 0; gone && r == 0 && i < PyList_GET_SIZE(functions); i++) {
    PyObject* handle =
        shmt__py_add_tensor_hook(t, SHMT_HOOK_TENSOR, PyList_GET_ITEM(functions, i));
    if (!handle) r = -1;
    Py_XDECREF(handle);
  }
  if (!gone) r = -1;
  Py_XDECREF(functions);
  Py_XDECREF(gone);
  return r;
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
