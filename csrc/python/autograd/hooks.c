/* python/autograd/hooks.c -- Python functions as hooks of tensors and nodes: registering, calling, taking back. */
#include "python/autograd/hooks.h"

#include "autograd/hook_list.h"
#include "autograd/hooks.h"
#include "base/dtype.h"
#include "python/gil.h"
#include "python/tensor/tensor_type.h"

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

void shmt__py_drop_object(void* o) {
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

shmt_status shmt__py_call_hook(shmt__hook* h, shmt_tensor** values, uint32_t n_values, shmt_tensor* const* grads,
                               uint32_t n_grads) {
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject* fn = Py_XNewRef((PyObject*)h->ctx);
  int r = fn ? run_hook(h, fn, values, n_values, grads, n_grads) : 0; /* else removed just now */
  Py_XDECREF(fn);
  PyGILState_Release(gil);
  return r < 0 ? SHMT_E_PYTHON : SHMT_OK;
}

/* Call the functions of a dict as it is now, one after the other, as hooks of a tensor. */
static int run_hooks_of_dict(const shmt__hook* h, PyObject* hooks, shmt_tensor** values, uint32_t n_values) {
  int r = 0;
  PyObject* functions = PyDict_Values(hooks);
  for (Py_ssize_t i = 0; functions && r == 0 && i < PyList_GET_SIZE(functions); i++)
    r = run_hook(h, PyList_GET_ITEM(functions, i), values, n_values, NULL, 0);
  if (!functions) r = -1;
  Py_XDECREF(functions);
  return r;
}

shmt_status shmt__py_call_hook_dict(shmt__hook* h, shmt_tensor** values, uint32_t n_values, shmt_tensor* const* grads,
                                    uint32_t n_grads) {
  (void)grads, (void)n_grads;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  PyObject* hooks = Py_XNewRef((PyObject*)h->ctx);
  int r = hooks ? run_hooks_of_dict(h, hooks, values, n_values) : 0; /* else removed just now */
  Py_XDECREF(hooks);
  PyGILState_Release(gil);
  return r < 0 ? SHMT_E_PYTHON : SHMT_OK;
}

/* --- registering -------------------------------------------------------------------------- */

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

PyObject* shmt__py_add_post_accumulate_hook(shmt_tensor* t, PyObject* fn) {
  shmt__hook* h = NULL;
  shmt_status status = shmt__tensor_add_hook(t, SHMT_HOOK_POST_ACCUMULATE, shmt__py_call_hook, Py_NewRef(fn),
                                             shmt__py_drop_object, &h);
  return added(status, fn, h);
}

PyObject* shmt__py_add_node_hook(shmt_node* n, shmt__hook_kind kind, PyObject* fn) {
  shmt__hook* h = NULL;
  shmt_status status = shmt__node_add_hook(n, kind, 0, shmt__py_call_hook, Py_NewRef(fn), shmt__py_drop_object, &h);
  return added(status, fn, h);
}

int shmt__py_hooks_init(PyObject* module) {
  handle_type = (PyTypeObject*)PyType_FromSpec(&handle_spec);
  return handle_type ? PyModule_AddObjectRef(module, "_HookHandle", (PyObject*)handle_type) : -1;
}
