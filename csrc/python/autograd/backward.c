/* python/autograd/backward.c -- runs of the engine: Tensor.backward, autograd.backward and grad, and what a hook may
 * ask about the run it is in. */
#include "python/autograd/backward.h"

#include "autograd/engine/engine.h"
#include "autograd/vmap/levels.h"
#include "base/warn.h"
#include "python/autograd/graph.h"
#include "python/gil.h"
#include "python/values/tensor_object.h"

/* The gradients in .grad would lead to the graph, and that to the leaves. */
static shmt_status warn_of_cycle(const shmt__backward_args* a) {
  static _Atomic(bool) warned;
  if (SHMT_LIKELY(!a->create_graph) || a->captured != NULL) return SHMT_OK;
  return shmt__warn_once(
      &warned,
      "Using backward() with create_graph=True will create a reference cycle between the "
      "parameter and its gradient which can cause a memory leak. We recommend using autograd.grad "
      "when creating the graph to avoid this. If you have to use this function, make sure to reset "
      "the .grad fields of your parameters to None after use to break the cycle and avoid the "
      "leak.");
}

static shmt_status run_unlocked(const shmt__backward_args* a) {
  SHMT_TRY(warn_of_cycle(a));
  shmt_status status;
  PyThreadState* saved = PyEval_SaveThread();
  status = shmt__backward_run(a);
  shmt__py_gil_restore(saved);
  return status;
}

/* Put stand-ins in the place of the edges in *items, a tuple that others may see: it is replaced. */
static int replace_edges(PyObject** items) {
  const Py_ssize_t n = PyTuple_GET_SIZE(*items);
  Py_ssize_t first = 0;
  while (first < n && !shmt__py_is_edge(PyTuple_GET_ITEM(*items, first))) first++;
  if (first == n) return 0;
  PyObject* all = PyTuple_New(n);
  for (Py_ssize_t i = 0; all && i < n; i++) {
    PyObject* o = PyTuple_GET_ITEM(*items, i);
    PyObject* item = shmt__py_is_edge(o) ? shmt__py_edge_stand_in(o) : Py_NewRef(o);
    if (item)
      PyTuple_SET_ITEM(all, i, item);
    else
      Py_CLEAR(all);
  }
  if (!all) return -1;
  Py_SETREF(*items, all);
  return 0;
}

/* A sequence of tensors and, without allow_none, edges (or one) as borrowed pointers; keep holds the items. allow_none:
 * None becomes NULL. */
static int tensors_from(PyObject* o, const char* what, bool allow_none, PyObject** keep,
                        shmt_tensor*** out) {
  *keep = shmt__py_is_tensor(o) || shmt__py_is_edge(o) ? PyTuple_Pack(1, o) : PySequence_Tuple(o);
  if (!*keep || (!allow_none && replace_edges(keep) < 0)) return -1;
  const Py_ssize_t n = PyTuple_GET_SIZE(*keep);
  *out = PyMem_Calloc((size_t)n + 1, sizeof **out);
  if (!*out) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* item = PyTuple_GET_ITEM(*keep, i);
    if (allow_none && item == Py_None) continue;
    if (!shmt__py_is_tensor(item)) {
      if (allow_none)
        PyErr_Format(PyExc_TypeError, "gradients can be either Tensors or None, but got %s", Py_TYPE(item)->tp_name);
      else
        PyErr_Format(PyExc_RuntimeError, "all %s have to be Tensors or GradientEdges, but got %s", what,
                     Py_TYPE(item)->tp_name);
      return -1;
    }
    (*out)[i] = shmt__py_tensor(item);
  }
  return 0;
}

typedef struct collected {
  PyObject* keep[3];
  shmt_tensor** tensors;
  shmt_tensor** grads;
  shmt_tensor** inputs;
  shmt_tensor** captured;
} collected;

static void collected_fini(collected* c) {
  for (int i = 0; i < 3; i++) Py_XDECREF(c->keep[i]);
  PyMem_Free(c->tensors);
  PyMem_Free(c->grads);
  PyMem_Free(c->inputs);
  PyMem_Free(c->captured);
}

static PyObject* captured_tuple(shmt_tensor** captured, uint32_t n) {
  PyObject* all = PyTuple_New(n);
  for (uint32_t i = 0; i < n; i++) {
    PyObject* o = shmt__py_wrap_opt(SHMT_TAKE(captured[i]));
    if (all && o)
      PyTuple_SET_ITEM(all, i, o);
    else
      Py_CLEAR(all);
  }
  return all;
}

/* _run_backward(tensors, grads or None, keep_graph, create_graph, inputs or None, allow_unused,
 * accumulate) */
static PyObject* run_backward(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  if (n != 7) {
    PyErr_Format(PyExc_TypeError, "_run_backward expected 7 arguments, got %zd", n);
    return NULL;
  }
  collected c = {0};
  PyObject* result = NULL;
  const bool with_grads = args[1] != Py_None, with_inputs = args[4] != Py_None,
             accumulate = args[6] == Py_True;
  if (tensors_from(args[0], "tensors", false, &c.keep[0], &c.tensors) < 0) goto done;
  if (with_grads && tensors_from(args[1], "grad_tensors", true, &c.keep[1], &c.grads) < 0)
    goto done;
  if (with_inputs && tensors_from(args[4], "inputs", false, &c.keep[2], &c.inputs) < 0) goto done;
  const Py_ssize_t n_tensors = PyTuple_GET_SIZE(c.keep[0]);
  const Py_ssize_t n_inputs = with_inputs ? PyTuple_GET_SIZE(c.keep[2]) : 0;
  if (with_grads && PyTuple_GET_SIZE(c.keep[1]) != n_tensors) {
    PyErr_Format(PyExc_RuntimeError, "got %zd tensors and %zd gradients", n_tensors,
                 PyTuple_GET_SIZE(c.keep[1]));
    goto done;
  }
  if (!accumulate && !(c.captured = PyMem_Calloc((size_t)n_inputs + 1, sizeof *c.captured))) {
    PyErr_NoMemory();
    goto done;
  }
  const shmt__backward_args a = {.tensors = c.tensors,
                                 .grads = c.grads,
                                 .n_tensors = (uint32_t)n_tensors,
                                 .inputs = c.inputs,
                                 .n_inputs = (uint32_t)n_inputs,
                                 .captured = c.captured,
                                 .keep_graph = args[2] == Py_True,
                                 .create_graph = args[3] == Py_True,
                                 .allow_unused = args[5] == Py_True};
  shmt_status status = run_unlocked(&a);
  if (status != SHMT_OK)
    shmt__py_raise(status);
  else
    result = accumulate ? Py_NewRef(Py_None) : captured_tuple(c.captured, a.n_inputs);
done:
  collected_fini(&c);
  return result;
}

/* What `inputs` names, as a tuple: one tensor or edge, several, or the values of a dict. */
static PyObject* inputs_tuple(PyObject* o) {
  if (shmt__py_is_tensor(o) || shmt__py_is_edge(o)) return PyTuple_Pack(1, o);
  if (PyDict_CheckExact(o)) {
    PyObject* values = PyDict_Values(o);
    PyObject* all = values ? PyList_AsTuple(values) : NULL;
    Py_XDECREF(values);
    return all;
  }
  if (PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_MAPPING)) {
    PyErr_Format(PyExc_TypeError,
                 "`inputs` argument to `backward()` must be a dict, not %s. Other Mapping types are not supported.",
                 Py_TYPE(o)->tp_name);
    return NULL;
  }
  return PySequence_Tuple(o);
}

/* backward(gradient=None, retain_graph=None, create_graph=False, inputs=None) */
PyObject* shmt__py_backward(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  static const char* const names[] = {"gradient", "retain_graph", "create_graph", "inputs"};
  PyObject* v[4] = {Py_None, Py_None, Py_False, Py_None};
  const Py_ssize_t n_kw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  if (SHMT_UNLIKELY(shmt__level_count() > 0)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "backward() called inside a functorch transform. This is not supported, please use functorch.grad "
                    "or functorch.vjp instead or call backward() outside of functorch transforms.");
    return NULL;
  }
  if (SHMT_UNLIKELY(n + n_kw != 0)) {
    if (n > 4) {
      PyErr_Format(PyExc_TypeError,
                   "backward() takes from 1 to 5 positional arguments but %zd were given", n + 1);
      return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) v[i] = args[i];
    for (Py_ssize_t i = 0; i < n_kw; i++) {
      PyObject* name = PyTuple_GET_ITEM(kwnames, i);
      int k = 0;
      while (k < 4 && PyUnicode_CompareWithASCIIString(name, names[k]) != 0) k++;
      if (k == 4 || k < n) {
        PyErr_Format(PyExc_TypeError,
                     k == 4 ? "backward() got an unexpected keyword argument '%U'"
                            : "backward() got multiple values for argument '%U'",
                     name);
        return NULL;
      }
      v[k] = args[n + i];
    }
  }
  int create = PyObject_IsTrue(v[2]);
  int keep = v[1] == Py_None ? create : PyObject_IsTrue(v[1]);
  if (create < 0 || keep < 0) return NULL;
  if (SHMT_UNLIKELY(v[3] != Py_None)) {
    PyObject* inputs = inputs_tuple(v[3]);
    PyObject* result = NULL;
    if (!inputs) return NULL;
    if (PyTuple_GET_SIZE(inputs) == 0) {
      PyErr_SetString(PyExc_RuntimeError, "`inputs` argument to `backward()` cannot be empty.");
    } else {
      PyObject* all[7] = {
          self, v[0], keep ? Py_True : Py_False, create ? Py_True : Py_False, inputs, Py_True, Py_True};
      result = run_backward(NULL, all, 7);
    }
    Py_DECREF(inputs);
    return result;
  }
  shmt_tensor* gradient = NULL;
  if (v[0] != Py_None) {
    if (!shmt__py_is_tensor(v[0])) {
      PyErr_Format(PyExc_TypeError, "gradients can be either Tensors or None, but got %s",
                   Py_TYPE(v[0])->tp_name);
      return NULL;
    }
    gradient = shmt__py_tensor(v[0]);
  }
  shmt_tensor* root = shmt__py_tensor(self);
  const shmt__backward_args a = {.tensors = &root,
                                 .grads = &gradient,
                                 .n_tensors = 1,
                                 .keep_graph = keep,
                                 .create_graph = create};
  shmt_status status = run_unlocked(&a);
  if (SHMT_UNLIKELY(status != SHMT_OK)) return shmt__py_raise(status);
  Py_RETURN_NONE;
}

/* --- the run of this thread ------------------------------------------------------------------ */

static PyObject* run_number(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromUnsignedLongLong(shmt__engine_run_number());
}

static PyObject* outermost_number(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromUnsignedLongLong(shmt__engine_outermost_number());
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

PyMethodDef shmt__py_backward_functions[] = {
    {"_run_backward", (PyCFunction)(void (*)(void))run_backward, METH_FASTCALL,
     "Run the engine: tensors, grads, keep_graph, create_graph, inputs, allow_unused, accumulate."},
    {"_backward_number", run_number, METH_NOARGS,
     "What this thread's run of the engine has and no other; 0 outside of one."},
    {"_backward_outermost_number", outermost_number, METH_NOARGS,
     "The same of the run that this one goes on in, which is this one when there is none around it."},
    {"_backward_has_inputs", run_has_inputs, METH_NOARGS,
     "Whether this thread's run of the engine ends at given inputs."},
    {"_backward_reaches", (PyCFunction)(void (*)(void))nodes_reached, METH_FASTCALL,
     "For each address of a node, whether this thread's run of the engine comes by it."},
    {NULL, NULL, 0, NULL},
};
