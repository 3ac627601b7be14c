/* python/autograd/hooks.c -- Python functions as hooks: of tensors, of nodes, of saved tensors; anomaly
 * mode's stack. */
#include "python/autograd/graph.h"

#include "autograd/engine/anomaly.h"
#include "autograd/engine/engine.h"
#include "autograd/hook_list.h"
#include "autograd/hooks.h"
#include "autograd/meta.h"
#include "autograd/recording/saved.h"
#include "base/dtype.h"
#include "python/autograd/saved_fields.h"
#include "python/autograd/tensor_properties.h"
#include "python/gil.h"
#include "python/tensor/tensor_type.h"

#include <stdlib.h>
#include <string.h>

/* --- handles ---------------------------------------------------------------------------- */

/* What register_hook returns. It keeps only the hook, never the tensor or node. */
typedef struct hook_handle {
  PyObject_HEAD shmt__hook* hook; /* owned reference */
} hook_handle;

static PyTypeObject* handle_type;

static void handle_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  shmt__hook_release(((hook_handle*)self)->hook);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject* handle_remove(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt__hook_drop(((hook_handle*)self)->hook); /* under the interpreter lock, as its calls look at the context */
  Py_RETURN_NONE;
}

static PyObject* handle_enter(PyObject* self, PyObject* unused) {
  (void)unused;
  return Py_NewRef(self);
}

static PyObject* handle_exit(PyObject* self, PyObject* args) {
  (void)args;
  return handle_remove(self, NULL);
}

static PyObject* handle_id(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromUnsignedLongLong(((hook_handle*)self)->hook->id);
}

static PyMethodDef handle_methods[] = {
    {"remove", handle_remove, METH_NOARGS,
     "remove($self)\n--\n\nTake the hook back; again is fine."},
    {"__enter__", handle_enter, METH_NOARGS, NULL},
    {"__exit__", handle_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef handle_getset[] = {
    {"id", handle_id, NULL, "A number of its own.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot handle_slots[] = {
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_methods, handle_methods},
    {Py_tp_getset, handle_getset},
    {Py_tp_doc, (void*)"A registered hook; remove() takes it back."},
    {0, NULL},
};
static PyType_Spec handle_spec = {.name = "shmtensor.autograd.graph.RemovableHandle",
                                  .basicsize = sizeof(hook_handle),
                                  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  .slots = handle_slots};

/* --- calling ------------------------------------------------------------------------------ */

static void drop_object(void* o) {
  if (!o || !Py_IsInitialized()) return;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace); /* may run while an exception passes */
  Py_DECREF((PyObject*)o);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
}

PyObject* shmt__py_tuple_of(shmt_tensor* const* values, Py_ssize_t n) {
  PyObject* all = PyTuple_New(n);
  if (!all) return NULL;
  for (Py_ssize_t i = 0; i < n; i++) {
    if (values[i]) shmt_tensor_retain(values[i]);
    PyObject* o = shmt__py_wrap_opt(values[i]);
    if (!o) {
      Py_DECREF(all);
      return NULL;
    }
    PyTuple_SET_ITEM(all, i, o);
  }
  return all;
}

static PyObject* name_of(PyObject* fn) {
  PyObject* name = PyObject_GetAttrString(fn, "__name__");
  if (name) return name;
  PyErr_Clear();
  return PyObject_Repr(fn);
}

/* The replacement of a gradient must look like it. */
static int check_like(PyObject* fn, const shmt_tensor* was, const shmt_tensor* got) {
  const bool same = shmt__same_sizes(was, got);
  if (same && was->dtype == got->dtype) return 0;
  PyObject* name = name_of(fn);
  if (!name) return -1;
  if (was->dtype != got->dtype)
    PyErr_Format(PyExc_RuntimeError,
                 "hook '%U' has changed the type of value (was torch.%sTensor got torch.%sTensor)",
                 name, shmt__dtype_title(was->dtype), shmt__dtype_title(got->dtype));
  else
    PyErr_Format(PyExc_RuntimeError, "hook '%U' has changed the size of value", name);
  Py_DECREF(name);
  return -1;
}

/* Store o (Tensor or None) in *place. */
static int replace_value(PyObject* fn, PyObject* o, shmt_tensor** place) {
  shmt_tensor* t = NULL;
  if (o != Py_None) {
    if (!*place) {
      PyErr_SetString(PyExc_RuntimeError, "can't replace a None gradient with a non-None value");
      return -1;
    }
    if (!shmt__py_is_tensor(o)) {
      PyErr_Format(PyExc_TypeError, "expected Variable, but hook returned '%s'",
                   Py_TYPE(o)->tp_name);
      return -1;
    }
    t = shmt__py_tensor(o);
    if (check_like(fn, *place, t) < 0) return -1;
    shmt_tensor_retain(t);
  }
  shmt__tensor_release(*place);
  *place = t;
  return 0;
}

static int replace_all(PyObject* fn, PyObject* result, shmt_tensor** values, uint32_t n) {
  if (result == Py_None) return 0;
  if (!PyTuple_Check(result)) {
    if (n == 1) return replace_value(fn, result, values);
    PyErr_Format(PyExc_TypeError, "expected tuple, but hook returned '%s'",
                 Py_TYPE(result)->tp_name);
    return -1;
  }
  if (PyTuple_GET_SIZE(result) != (Py_ssize_t)n) {
    PyObject* name = name_of(fn);
    if (name)
      PyErr_Format(
          PyExc_RuntimeError,
          "hook '%U' has returned an incorrect number of values (got %zd, but expected %u)", name,
          PyTuple_GET_SIZE(result), n);
    Py_XDECREF(name);
    return -1;
  }
  for (uint32_t i = 0; i < n; i++)
    if (replace_value(fn, PyTuple_GET_ITEM(result, i), &values[i]) < 0) return -1;
  return 0;
}

/* A hook after accumulation changes nothing by what it returns; the tensor that an in-place method
 * returns is fine, since a lambda has no other way. */
static int returned_nothing(PyObject* result) {
  if (result == Py_None || shmt__py_is_tensor(result)) return 0;
  PyErr_Format(PyExc_TypeError, "expected Variable, but hook returned '%s'",
               Py_TYPE(result)->tp_name);
  return -1;
}

static int run_hook(const shmt__hook* h, PyObject* fn, shmt_tensor** values, uint32_t n_values,
                    shmt_tensor* const* grads, uint32_t n_grads) {
  PyObject *first = NULL, *second = NULL, *result = NULL;
  int r = -1;
  switch (h->kind) {
    case SHMT_HOOK_TENSOR:
      if (values[0]) shmt_tensor_retain(values[0]);
      first = shmt__py_wrap_opt(values[0]);
      break;
    case SHMT_HOOK_POST_ACCUMULATE:
      first = shmt__py_wrap(shmt__tensor_ref(grads[0]));
      break;
    case SHMT_HOOK_PRE:
      first = shmt__py_tuple_of(values, n_values);
      break;
    case SHMT_HOOK_POST:
      first = shmt__py_tuple_of(values, n_values);
      second = shmt__py_tuple_of(grads, n_grads);
      break;
  }
  if (first && (h->kind != SHMT_HOOK_POST || second))
    result = PyObject_CallFunctionObjArgs(fn, first, second, NULL);
  if (result) {
    if (h->kind == SHMT_HOOK_POST_ACCUMULATE)
      r = returned_nothing(result);
    else if (h->kind == SHMT_HOOK_TENSOR)
      r = result == Py_None ? 0 : replace_value(fn, result, values);
    else
      r = replace_all(fn, result, values, n_values);
  }
  Py_XDECREF(first);
  Py_XDECREF(second);
  Py_XDECREF(result);
  return r;
}

static shmt_status call_hook(shmt__hook* h, shmt_tensor** values, uint32_t n_values,
                             shmt_tensor* const* grads, uint32_t n_grads) {
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject* fn = Py_XNewRef((PyObject*)h->ctx);
  int r = fn ? run_hook(h, fn, values, n_values, grads, n_grads) : 0; /* else removed just now */
  Py_XDECREF(fn);
  PyGILState_Release(gil);
  return r < 0 ? SHMT_E_PYTHON : SHMT_OK;
}

static PyObject* handle_for(shmt__hook* h) {
  hook_handle* o = (hook_handle*)handle_type->tp_alloc(handle_type, 0);
  if (!o) {
    shmt__hook_remove(h);
    shmt__hook_release(h);
    return NULL;
  }
  o->hook = h;
  return (PyObject*)o;
}

static PyObject* added(shmt_status status, PyObject* fn, shmt__hook* h) {
  if (status == SHMT_OK) return handle_for(h);
  Py_DECREF(fn);
  return shmt__py_raise(status);
}

static int check_callable(PyObject* fn) {
  if (PyCallable_Check(fn)) return 0;
  PyErr_Format(PyExc_TypeError, "expected a callable as hook, got %s", Py_TYPE(fn)->tp_name);
  return -1;
}

PyObject* shmt__py_add_tensor_hook(shmt_tensor* t, shmt__hook_kind kind, PyObject* fn) {
  shmt__hook* h = NULL;
  shmt_status status = shmt__tensor_add_hook(t, kind, call_hook, Py_NewRef(fn), drop_object, &h);
  return added(status, fn, h);
}

PyObject* shmt__py_add_node_hook(shmt_node* n, shmt__hook_kind kind, PyObject* fn) {
  shmt__hook* h = NULL;
  shmt_status status = shmt__node_add_hook(n, kind, 0, call_hook, Py_NewRef(fn), drop_object, &h);
  return added(status, fn, h);
}

/* The list that holds t's hooks; NULL: there is none. *nr: which output of its node t is. */
static shmt__hook* const* hooks_of(const shmt_tensor* t, uint32_t* nr) {
  const shmt_autograd_meta* m = t->autograd;
  *nr = m && m->grad_fn ? m->output_nr : 0;
  if (!m) return NULL;
  if (!m->grad_fn) return &m->hooks;
  return m->grad_fn->extras ? &m->grad_fn->extras->hooks : NULL;
}

static bool is_python_hook(const shmt__hook* h, uint32_t nr) {
  return h->kind == SHMT_HOOK_TENSOR && h->call == call_hook && h->input_nr == nr;
}

PyObject* shmt__py_post_accumulate_hooks(const shmt_tensor* t) {
  const shmt_autograd_meta* m = t->autograd;
  bool any = false;
  PyObject* all = PyDict_New();
  for (const shmt__hook* h = m && !m->grad_fn ? m->hooks : NULL; all && h; h = h->next) {
    if (h->kind != SHMT_HOOK_POST_ACCUMULATE || h->call != call_hook) continue;
    any = true;
    if (h->removed || !h->ctx) continue;
    PyObject* id = PyLong_FromUnsignedLongLong(h->id);
    if (!id || PyDict_SetItem(all, id, h->ctx) < 0) Py_CLEAR(all);
    Py_XDECREF(id);
  }
  if (all && !any) Py_SETREF(all, Py_NewRef(Py_None));
  return all;
}

PyObject* shmt__py_tensor_hooks(const shmt_tensor* t) {
  uint32_t nr;
  bool any = false;
  shmt__hook* const* list = hooks_of(t, &nr);
  PyObject* all = PyDict_New();
  for (const shmt__hook* h = list ? *list : NULL; all && h; h = h->next) {
    if (!is_python_hook(h, nr)) continue;
    any = true;
    if (h->removed || !h->ctx) continue;
    PyObject* id = PyLong_FromUnsignedLongLong(h->id);
    if (!id || PyDict_SetItem(all, id, h->ctx) < 0) Py_CLEAR(all);
    Py_XDECREF(id);
  }
  if (all && !any) Py_SETREF(all, Py_NewRef(Py_None));
  return all;
}

int shmt__py_set_tensor_hooks(shmt_tensor* t, PyObject* hooks) {
  uint32_t nr;
  int r = 0;
  PyObject* functions = hooks == Py_None ? PyList_New(0) : PyMapping_Values(hooks);
  PyObject* gone = functions ? PyList_New(0) : NULL; /* released after the loop over the list */
  shmt__hook* const* list = hooks_of(t, &nr);
  for (shmt__hook* h = gone && list ? *list : NULL; h && r == 0; h = h->next) {
    if (!is_python_hook(h, nr) || !h->ctx) continue;
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

/* --- saved tensors -------------------------------------------------------------------------- */

/* One saved_tensors_hooks context; kept alive by what it packed. */
typedef struct py_saved_hooks {
  shmt__saved_hooks hooks;
  atomic_int_least32_t refs;
  PyObject* pack;
  PyObject* unpack;
  struct py_saved_hooks* outer; /* on the stack of its thread, owned */
} py_saved_hooks;

static _Thread_local py_saved_hooks* saved_stack;

static shmt_status pack(void* ctx, shmt_tensor* t, void** data) {
  const py_saved_hooks* s = ctx;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject* o = shmt__py_wrap(shmt__tensor_ref(t));
  const shmt__saved_hooks* active = shmt__tls_saved_hooks;
  shmt__tls_saved_hooks = NULL; /* what pack itself computes is saved plainly */
  *data = o ? PyObject_CallOneArg(s->pack, o) : NULL;
  shmt__tls_saved_hooks = active;
  Py_XDECREF(o);
  PyGILState_Release(gil);
  return *data ? SHMT_OK : SHMT_E_PYTHON;
}

static shmt_status unpack(void* ctx, void* data, shmt_tensor** out) {
  const py_saved_hooks* s = ctx;
  shmt_status status = SHMT_E_PYTHON;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject* o = PyObject_CallOneArg(s->unpack, (PyObject*)data);
  if (o && shmt__py_is_tensor(o)) {
    *out = shmt__tensor_ref(shmt__py_tensor(o));
    status = SHMT_OK;
  } else if (o) {
    PyErr_Format(
        PyExc_TypeError,
        "Output of saved tensor unpack_hook expected to be a Tensor but got result of type %s",
        Py_TYPE(o)->tp_name);
  }
  Py_XDECREF(o);
  PyGILState_Release(gil);
  return status;
}

static void drop_packed(void* ctx, void* data) {
  (void)ctx;
  drop_object(data);
}

static void saved_retain(void* ctx) {
  atomic_fetch_add_explicit(&((py_saved_hooks*)ctx)->refs, 1, memory_order_relaxed);
}

static void saved_release(void* ctx) {
  py_saved_hooks* s = ctx;
  if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  drop_object(s->pack);
  drop_object(s->unpack);
  free(s);
}

static py_saved_hooks* saved_hooks_create(PyObject* pack_hook, PyObject* unpack_hook) {
  py_saved_hooks* s = calloc(1, sizeof *s);
  if (!s) {
    PyErr_NoMemory();
    return NULL;
  }
  s->hooks = (shmt__saved_hooks){pack, unpack, drop_packed, saved_retain, saved_release, s};
  atomic_init(&s->refs, 1);
  s->pack = Py_NewRef(pack_hook);
  s->unpack = Py_NewRef(unpack_hook);
  return s;
}

int shmt__py_saved_repack(shmt__saved* s, shmt_node* n, PyObject* pack_hook, PyObject* unpack_hook) {
  py_saved_hooks* hooks = saved_hooks_create(pack_hook, unpack_hook);
  if (!hooks) return -1;
  shmt_status status = shmt__saved_repack(s, n, &hooks->hooks);
  saved_release(hooks);
  if (status == SHMT_OK) return 0;
  shmt__py_raise(status);
  return -1;
}

PyObject* shmt__py_saved_packed(const shmt__saved* s, PyObject** unpack_hook) {
  const shmt__saved_hooks* hooks = NULL;
  void* data = shmt__saved_packed_data(s, &hooks);
  *unpack_hook = data && hooks->pack == pack ? ((const py_saved_hooks*)hooks->ctx)->unpack : NULL;
  return *unpack_hook ? data : NULL;
}

static PyObject* push_saved_hooks(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  if (n != 2 || check_callable(args[0]) < 0 || check_callable(args[1]) < 0) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError, "expected a pack hook and an unpack hook");
    return NULL;
  }
  py_saved_hooks* s = saved_hooks_create(args[0], args[1]);
  if (!s) return NULL;
  s->outer = saved_stack;
  saved_stack = s;
  shmt__tls_saved_hooks = &s->hooks;
  Py_RETURN_NONE;
}

static PyObject* pop_saved_hooks(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  py_saved_hooks* s = saved_stack;
  if (!s) {
    PyErr_SetString(PyExc_RuntimeError, "no saved tensor hooks are active on this thread");
    return NULL;
  }
  saved_stack = s->outer;
  shmt__tls_saved_hooks = saved_stack ? &saved_stack->hooks : NULL;
  saved_release(s);
  Py_RETURN_NONE;
}

/* --- anomaly mode --------------------------------------------------------------------------- */

/* "".join(traceback.format_stack()) as a malloc'ed text. */
static char* python_stack(void) {
  char* text = NULL;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* traceback = PyImport_ImportModule("traceback");
  PyObject* frames = traceback ? PyObject_CallMethod(traceback, "format_stack", NULL) : NULL;
  PyObject* empty = PyUnicode_FromString("");
  PyObject* joined = frames && empty ? PyUnicode_Join(empty, frames) : NULL;
  const char* utf8 = joined ? PyUnicode_AsUTF8(joined) : NULL;
  if (utf8) text = strdup(utf8);
  Py_XDECREF(joined);
  Py_XDECREF(empty);
  Py_XDECREF(frames);
  Py_XDECREF(traceback);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
  return text;
}

static void report_anomaly(const char* node_name, const char* trace) {
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject *type, *value, *tb;
  PyErr_Fetch(&type, &value, &tb);
  int r = PyErr_WarnFormat(
      PyExc_UserWarning, 1,
      trace ? "Error detected in %s. Traceback of forward call that caused the error:\n%s"
            : "Error detected in %s. No forward pass information available. Enable detect anomaly "
              "during forward pass for more information.%s",
      node_name, trace ? trace : "");
  if (r < 0) PyErr_WriteUnraisable(NULL);
  PyErr_Restore(type, value, tb);
  PyGILState_Release(gil);
}

static PyObject* set_anomaly(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  int on = n == 2 ? PyObject_IsTrue(args[0]) : -1;
  int nan = n == 2 && on >= 0 ? PyObject_IsTrue(args[1]) : -1;
  if (on < 0 || nan < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected (enabled, check_nan)");
    return NULL;
  }
  shmt__anomaly_on = on;
  shmt__anomaly_check_nan = nan;
  Py_RETURN_NONE;
}

static PyObject* get_anomaly(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return Py_BuildValue("(OO)", shmt__anomaly_on ? Py_True : Py_False,
                       shmt__anomaly_check_nan ? Py_True : Py_False);
}

static PyObject* run_number(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromUnsignedLongLong(shmt__engine_run_number());
}

static PyObject* run_has_inputs(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyBool_FromLong(shmt__engine_has_inputs());
}

static PyObject* nodes_reached(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  PyObject* list = NULL;
  (void)module;
  const void** nodes = PyMem_Calloc((size_t)n + 1, sizeof *nodes);
  bool* reached = PyMem_Calloc((size_t)n + 1, sizeof *reached);
  if (nodes && reached) {
    for (Py_ssize_t i = 0; i < n; i++) nodes[i] = PyLong_AsVoidPtr(args[i]);
    if (!PyErr_Occurred()) {
      shmt_status s = shmt__engine_reaches(nodes, (uint32_t)n, reached);
      list = s == SHMT_OK ? PyList_New(n) : shmt__py_raise(s);
    }
    for (Py_ssize_t i = 0; list && i < n; i++) PyList_SET_ITEM(list, i, PyBool_FromLong(reached[i]));
  } else {
    PyErr_NoMemory();
  }
  PyMem_Free(nodes);
  PyMem_Free(reached);
  return list;
}

PyMethodDef shmt__py_hook_functions[] = {
    {"_backward_number", run_number, METH_NOARGS,
     "What this thread's run of the engine has and no other; 0 outside of one."},
    {"_backward_has_inputs", run_has_inputs, METH_NOARGS,
     "Whether this thread's run of the engine ends at given inputs."},
    {"_backward_reaches", (PyCFunction)(void (*)(void))nodes_reached, METH_FASTCALL,
     "For each address of a node, whether this thread's run of the engine comes by it."},
    {"_push_saved_tensors_hooks", (PyCFunction)(void (*)(void))push_saved_hooks, METH_FASTCALL,
     "Pack what nodes save with these functions, on this thread."},
    {"_pop_saved_tensors_hooks", pop_saved_hooks, METH_NOARGS, "Undo the last push on this thread."},
    {"_set_anomaly", (PyCFunction)(void (*)(void))set_anomaly, METH_FASTCALL,
     "Switch anomaly mode: enabled, check_nan."},
    {"_get_anomaly", get_anomaly, METH_NOARGS, "Anomaly mode as (enabled, check_nan)."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_hooks_init(PyObject* module) {
  shmt__anomaly_stack = python_stack;
  shmt__py_tensor_hooks_gc = (shmt__py_hooks_gc){visit_hooks, clear_hooks};
  shmt__anomaly_report = report_anomaly;
  handle_type = (PyTypeObject*)PyType_FromSpec(&handle_spec);
  return handle_type ? PyModule_AddObjectRef(module, "_HookHandle", (PyObject*)handle_type) : -1;
}
