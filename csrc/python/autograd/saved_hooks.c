/* python/autograd/saved_hooks.c -- Python functions that pack and unpack what nodes save. */
#include "autograd/recording/saved.h"
#include "python/autograd/hooks.h"
#include "python/gil.h"
#include "python/values/tensor_object.h"

#include <stdatomic.h>
#include <stdlib.h>

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
  shmt__py_drop_object(data);
}

static void saved_retain(void* ctx) {
  atomic_fetch_add_explicit(&((py_saved_hooks*)ctx)->refs, 1, memory_order_relaxed);
}

static void saved_release(void* ctx) {
  py_saved_hooks* s = ctx;
  if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  shmt__py_drop_object(s->pack);
  shmt__py_drop_object(s->unpack);
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

static int check_callable(PyObject* fn) {
  if (PyCallable_Check(fn)) return 0;
  PyErr_Format(PyExc_TypeError, "expected a callable as hook, got %s", Py_TYPE(fn)->tp_name);
  return -1;
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

PyMethodDef shmt__py_saved_hook_functions[] = {
    {"_push_saved_tensors_hooks", (PyCFunction)(void (*)(void))push_saved_hooks, METH_FASTCALL,
     "Pack what nodes save with these functions, on this thread."},
    {"_pop_saved_tensors_hooks", pop_saved_hooks, METH_NOARGS, "Undo the last push on this thread."},
    {NULL, NULL, 0, NULL},
};
