/* python/autograd/tensor_properties.c -- what autograd adds to tensors and to the module. */
#include "python/autograd/tensor_properties.h"

#include "autograd/hook_list.h"
#include "autograd/meta.h"
#include "autograd/vmap/levels.h"
#include "python/autograd/anomaly.h"
#include "python/autograd/backward.h"
#include "python/autograd/graph.h"
#include "python/autograd/hooks.h"
#include "python/call/convert.h"
#include "python/tensor/tensor_type.h"

/* --- properties ------------------------------------------------------------------------- */

static PyObject* get_grad(PyObject* self, void* closure) {
  (void)closure;
  shmt_tensor* t = shmt__py_tensor(self);
  shmt_tensor* grad = shmt__tensor_grad(t);
  if (!grad && t->autograd && t->autograd->grad_fn && !t->autograd->retains_grad &&
      PyErr_WarnEx(PyExc_UserWarning,
                   "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. "
                   "Its .grad attribute "
                   "won't be populated during autograd.backward(). If you indeed want the .grad "
                   "field to be populated "
                   "for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
                   "access the non-leaf Tensor "
                   "by mistake, make sure you access the leaf Tensor instead.",
                   1) < 0)
    return NULL;
  return shmt__py_wrap_opt(grad);
}

static int set_grad(PyObject* self, PyObject* value, void* closure) {
  (void)closure;
  shmt_tensor* grad = NULL;
  if (value && value != Py_None) {
    if (!shmt__py_is_tensor(value)) {
      PyErr_Format(PyExc_TypeError,
                   "assigned grad expected to be a Tensor or None but got grad of type %s",
                   Py_TYPE(value)->tp_name);
      return -1;
    }
    grad = shmt__py_tensor(value);
  }
  shmt_status status = shmt__tensor_set_grad(shmt__py_tensor(self), grad);
  if (status == SHMT_OK) return 0;
  shmt__py_raise(status);
  return -1;
}

static PyObject* get_grad_fn(PyObject* self, void* closure) {
  (void)closure;
  shmt_node* fn = NULL;
  shmt_status status = shmt__tensor_grad_fn(shmt__py_tensor(self), &fn);
  if (status != SHMT_OK) return shmt__py_raise(status);
  /* What a hook unpacked for a leaf has the leaf's accumulator, and is a leaf to the program. */
  return shmt__py_from_node(fn && fn->klass->is_accumulate ? NULL : fn);
}

static int set__grad_fn(PyObject* self, PyObject* value, void* closure) {
  (void)closure;
  if (value && value != Py_None) {
    PyErr_SetString(PyExc_RuntimeError, "_grad_fn can be only set to None");
    return -1;
  }
  shmt_status status = shmt__tensor_detach_inplace(shmt__py_tensor(self));
  if (status == SHMT_OK) return 0;
  shmt__py_raise(status);
  return -1;
}

static PyObject* get_is_leaf(PyObject* self, void* closure) {
  (void)closure;
  shmt_node* fn = NULL;
  shmt_status status = shmt__tensor_grad_fn(shmt__py_tensor(self), &fn);
  if (status != SHMT_OK) return shmt__py_raise(status);
  return PyBool_FromLong(fn == NULL || fn->klass->is_accumulate);
}

static PyObject* get_requires_grad(PyObject* self, void* closure) {
  (void)closure;
  return PyBool_FromLong(shmt__tensor_requires_grad(shmt__py_tensor(self)));
}

static int set_requires_grad(PyObject* self, PyObject* value, void* closure) {
  (void)closure;
  shmt_tensor* t = shmt__py_tensor(self);
  if (!value || !PyBool_Check(value)) {
    PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool");
    return -1;
  }
  shmt_node* fn = NULL;
  shmt_status status = shmt__tensor_grad_fn(t, &fn);
  if (status != SHMT_OK) {
    shmt__py_raise(status);
    return -1;
  }
  if (fn != NULL) {
    PyErr_Format(PyExc_RuntimeError, "you can only change requires_grad flags of leaf variables.%s",
                 value == Py_False
                     ? " If you want to use a computed variable in a subgraph that doesn't require "
                       "differentiation use var_no_grad = var.detach()."
                     : "");
    return -1;
  }
  if (value == Py_True && !shmt__dtype_differentiable(t->dtype)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "only Tensors of floating point and complex dtype can require gradients");
    return -1;
  }
  status = shmt__tensor_set_requires_grad(t, value == Py_True);
  if (status == SHMT_OK) return 0;
  shmt__py_raise(status);
  return -1;
}

static PyObject* get_output_nr(PyObject* self, void* closure) {
  (void)closure;
  shmt_node* fn = NULL;
  shmt_tensor* t = shmt__py_tensor(self);
  shmt_status status =
      shmt__tensor_grad_fn(t, &fn); /* a stale view's number changes with its history */
  if (status != SHMT_OK) return shmt__py_raise(status);
  return PyLong_FromUnsignedLong(t->autograd ? t->autograd->output_nr : 0);
}

static PyObject* get_retains_grad(PyObject* self, void* closure) {
  (void)closure;
  const shmt_tensor* t = shmt__py_tensor(self);
  return PyBool_FromLong(t->autograd && t->autograd->grad_fn && t->autograd->retains_grad);
}

static PyObject* get_version(PyObject* self, void* closure) {
  const shmt_tensor* t = shmt__py_tensor(self);
  (void)closure;
  if (!(t->flags & SHMT_TENSOR_INFERENCE))
    return PyLong_FromUnsignedLong(shmt__tensor_version(t));
  PyErr_SetString(PyExc_RuntimeError, "Inference tensors do not track version counter.");
  return NULL;
}

static PyObject* get_base(PyObject* self, void* closure) {
  (void)closure;
  const shmt_tensor* t = shmt__py_tensor(self);
  if (!(t->flags & SHMT_TENSOR_VIEW)) Py_RETURN_NONE;
  return shmt__py_wrap(shmt__tensor_ref(t->base));
}

static PyObject* get_post_hooks(PyObject* self, void* closure) {
  (void)closure;
  return shmt__py_post_accumulate_hooks(shmt__py_tensor(self));
}

static PyObject* get_backward_hooks(PyObject* self, void* closure) {
  (void)closure;
  return shmt__py_tensor_hooks(shmt__py_tensor(self));
}

static int set_backward_hooks(PyObject* self, PyObject* value, void* closure) {
  (void)closure;
  if (value) {
    if (!PyObject_GC_IsTracked(self)) PyObject_GC_Track(self); /* see tracked() */
    return shmt__py_set_tensor_hooks(shmt__py_tensor(self), value);
  }
  PyErr_SetString(PyExc_RuntimeError, "Deletion of _backwards_hooks not allowed!");
  return -1;
}

static PyGetSetDef tensor_getset[] = {
    {"grad", get_grad, set_grad, "The gradient that backward() has added up, or None.", NULL},
    {"_grad", get_grad, set_grad, "grad, also where a subclass has a grad of its own.", NULL},
    {"grad_fn", get_grad_fn, NULL, "The node that made this tensor; None for leaves.", NULL},
    {"_grad_fn", get_grad_fn, set__grad_fn, "grad_fn; None cuts the tensor from its history.",
     NULL},
    {"is_leaf", get_is_leaf, NULL, "True when no recorded operation made this tensor.", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad,
     "True when operations on this tensor are recorded.", NULL},
    {"output_nr", get_output_nr, NULL, "Which output of grad_fn this is.", NULL},
    {"retains_grad", get_retains_grad, NULL, "True when a non-leaf keeps its .grad.", NULL},
    {"_version", get_version, NULL, "Counts in-place changes; shared by views.", NULL},
    {"_base", get_base, NULL, "The tensor this one is a view of, or None.", NULL},
    {"_post_accumulate_grad_hooks", get_post_hooks, NULL,
     "The hooks that run after .grad was updated; None without any.", NULL},
    {"_backward_hooks", get_backward_hooks, set_backward_hooks,
     "The dict of the hooks registered on this tensor, which may be changed; None without one.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* --- methods -------------------------------------------------------------------------------- */

static SHMT_COLD PyObject* refuse_inside_of_transforms(const char* what, const char* method) {
  return PyErr_Format(PyExc_RuntimeError,
                      "You are attempting to call %s inside of a function being transformed by a functorch transform. "
                      "This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, "
                      "jacfwd, hessian) or call %s outside of a function being transformed instead.",
                      what, method);
}

static PyObject* requires_grad_(PyObject* self, PyObject* const* args, Py_ssize_t n,
                                PyObject* kwnames) {
  const Py_ssize_t n_kw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  bool on = true;
  PyObject* key = n_kw ? PyTuple_GET_ITEM(kwnames, 0) : NULL;
  if (key && PyUnicode_CompareWithASCIIString(key, "requires_grad") != 0)
    return PyErr_Format(PyExc_TypeError, "requires_grad_() got an unexpected keyword argument '%U'",
                        key);
  if (n + n_kw > 1)
    return PyErr_Format(PyExc_TypeError, "requires_grad_() takes 1 positional argument but %zd were given",
                        n + n_kw);
  const int is_bool = n + n_kw ? shmt__py_as_bool(args[0], &on) : 1;
  if (is_bool < 0) return NULL;
  if (is_bool == 0)
    return PyErr_Format(PyExc_TypeError,
                        "requires_grad_(): argument 'requires_grad'%s must be bool, not %s",
                        n ? " (position 1)" : "", Py_TYPE(args[0])->tp_name);
  if (SHMT_UNLIKELY(shmt__level_count() > 0))
    return refuse_inside_of_transforms(
        "Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs)", "requires_grad_()");
  shmt_status status = shmt__tensor_set_requires_grad(shmt__py_tensor(self), on);
  return status == SHMT_OK ? Py_NewRef(self) : shmt__py_raise(status);
}

static PyObject* retain_grad(PyObject* self, PyObject* unused) {
  (void)unused;
  if (SHMT_UNLIKELY(shmt__level_count() > 0) && shmt__tensor_requires_grad(shmt__py_tensor(self)))
    return refuse_inside_of_transforms("Tensor.retain_grad()", "retain_grad()");
  shmt_status status = shmt__tensor_retain_grad(shmt__py_tensor(self));
  if (status != SHMT_OK) return shmt__py_raise(status);
  Py_RETURN_NONE;
}

static PyObject* detach_(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt_status status = shmt__tensor_detach_inplace(shmt__py_tensor(self));
  return status == SHMT_OK ? Py_NewRef(self) : shmt__py_raise(status);
}

/* From now on the wrapper may be part of a cycle, through the hook. */
static PyObject* tracked(PyObject* self, PyObject* handle) {
  if (handle && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return handle;
}

static PyObject* register_hook(PyObject* self, PyObject* fn) {
  return tracked(self, shmt__py_add_tensor_hook(shmt__py_tensor(self), fn));
}

static PyObject* register_post_hook(PyObject* self, PyObject* fn) {
  return tracked(self, shmt__py_add_post_accumulate_hook(shmt__py_tensor(self), fn));
}

static PyObject* increment_version(PyObject* module, PyObject* o) {
  (void)module;
  if (!shmt__py_is_tensor(o))
    return PyErr_Format(PyExc_TypeError, "increment_version expects a Tensor, got %s",
                        Py_TYPE(o)->tp_name);
  shmt_tensor* t = shmt__py_tensor(o);
  shmt__tensor_bump_version(t);
  Py_RETURN_NONE;
}

static PyMethodDef tensor_methods[] = {
    {"backward", (PyCFunction)(void (*)(void))shmt__py_backward, METH_FASTCALL | METH_KEYWORDS,
     "backward($self, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\nAdd the "
     "gradient of this tensor to the .grad of the leaves of its graph.\n\nArgs:\n    gradient: What the "
     "gradient of this tensor is, of its shape; may be left out for one element, where it is 1.\n    "
     "retain_graph: Keep what the nodes have saved, for another backward; default: create_graph.\n    "
     "create_graph: Record the calculation, for second derivatives.\n    inputs: The tensors whose .grad "
     "is wanted; default: all leaves.\n\nRaises RuntimeError when no graph was recorded, its saved "
     "tensors are gone, or gradient is needed."},
    {"requires_grad_", (PyCFunction)(void (*)(void))requires_grad_, METH_FASTCALL | METH_KEYWORDS,
     "requires_grad_($self, requires_grad=True)\n--\n\nLet operations on this tensor be recorded, or no "
     "longer; returns it.\n\nRaises RuntimeError for integers, and for a tensor with history that would "
     "be cut off."},
    {"retain_grad", retain_grad, METH_NOARGS,
     "retain_grad($self)\n--\n\nLet a tensor with history keep its .grad; nothing happens for a "
     "leaf.\n\nRaises RuntimeError when it does not require grad."},
    {"detach_", detach_, METH_NOARGS,
     "detach_($self)\n--\n\nCut this tensor from its history and return it.\n\nRaises RuntimeError for a "
     "view, which cannot be cut off in place."},
    {"register_hook", register_hook, METH_O,
     "register_hook($self, hook, /)\n--\n\nCall hook(grad) when the gradient of this tensor is known; a "
     "result other than None replaces it.\n\nReturns a handle; its remove() removes the hook."},
    {"register_post_accumulate_grad_hook", register_post_hook, METH_O,
     "register_post_accumulate_grad_hook($self, hook, /)\n--\n\nCall hook(tensor) after the .grad of this "
     "leaf was updated.\n\nReturns a handle; its remove() removes the hook. Raises RuntimeError for "
     "a tensor with history."},
    {NULL, NULL, 0, NULL},
};

/* --- the module ------------------------------------------------------------------------------ */

static PyObject* set_grad_enabled(PyObject* module, PyObject* on) {
  (void)module;
  int want = PyObject_IsTrue(on);
  if (want < 0) return NULL;
  return PyBool_FromLong(shmt__grad_set_enabled(want));
}

static PyObject* is_grad_enabled(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyBool_FromLong(shmt__grad_enabled());
}

static PyObject* is_inference(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyBool_FromLong(shmt__tls_inference_mode);
}

PyMethodDef shmt__py_autograd_functions[] = {
    {"_increment_version", increment_version, METH_O,
     "Note that a tensor was changed in place behind the dispatcher's back."},
    {"_set_grad_enabled", set_grad_enabled, METH_O,
     "Switch recording on this thread; returns what it was."},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
     "is_grad_enabled()\n--\n\nTrue while operations are recorded."},
    {"is_inference_mode_enabled", is_inference, METH_NOARGS,
     "is_inference_mode_enabled()\n--\n\nTrue inside inference_mode()."},
    {NULL, NULL, 0, NULL},
};

int shmt__py_autograd_init(PyObject* module) {
  PyMethodDef* const tables[] = {shmt__py_backward_functions, shmt__py_saved_hook_functions,
                                 shmt__py_anomaly_functions, shmt__py_function_functions};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    if (PyModule_AddFunctions(module, tables[i]) < 0) return -1;
  shmt__py_anomaly_init();
  shmt__py_tensor_hooks_init();
  if (shmt__py_node_init(module) < 0 || shmt__py_hooks_init(module) < 0 ||
      shmt__py_function_init(module) < 0 || shmt__py_switches_init(module) < 0)
    return -1;
  return shmt__py_add_tensor_methods(tensor_methods, tensor_getset);
}
