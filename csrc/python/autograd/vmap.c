/* python/autograd/vmap.c -- levels of function transforms, and tensors that stand for a batch, from Python. */
#include "python/autograd/tensor_properties.h"

#include "autograd/engine/engine.h"
#include "autograd/forward/tangents.h"
#include "autograd/meta.h"
#include "autograd/vmap/parts.h"
#include "generated/ops.h"
#include "python/tensor/tensor_type.h"

#include <string.h>

static PyObject* level_or_error(shmt_status status, int level) {
  return status == SHMT_OK ? PyLong_FromLong(level) : shmt__py_raise(status);
}

/* _vmap_increment_nesting(batch_size, randomness) */
static PyObject* enter_vmap(PyObject* module, PyObject* args) {
  static const char* const words[] = {"error", "same", "different"};
  long long batch_size;
  const char* randomness;
  int level = 0, how = 0;
  (void)module;
  if (!PyArg_ParseTuple(args, "Ls", &batch_size, &randomness)) return NULL;
  while (how < 3 && strcmp(words[how], randomness) != 0) how++;
  if (how == 3)
    return PyErr_Format(PyExc_RuntimeError, "randomness argument must be error, different, or same; got %s",
                        randomness);
  shmt_status status = shmt__vmap_install();
  if (status == SHMT_OK) status = shmt__level_push(SHMT_LEVEL_VMAP, batch_size, (shmt__randomness)how, &level);
  return level_or_error(status, level);
}

static PyObject* enter_grad(PyObject* module, PyObject* unused) {
  int level = 0;
  (void)module, (void)unused;
  shmt_status status = shmt__vmap_install();
  if (status == SHMT_OK) status = shmt__level_push(SHMT_LEVEL_GRAD, 0, SHMT_RANDOM_ERROR, &level);
  return level_or_error(status, level);
}

static PyObject* enter_jvp(PyObject* module, PyObject* unused) {
  int level = 0;
  (void)module, (void)unused;
  shmt_status status = shmt__vmap_install();
  if (status == SHMT_OK) status = shmt__level_push(SHMT_LEVEL_JVP, 0, SHMT_RANDOM_ERROR, &level);
  return level_or_error(status, level);
}

static PyObject* leave(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  const int level = shmt__level_count();
  shmt_status status = shmt__level_pop();
  return level_or_error(status, level);
}

static PyObject* level_count(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(shmt__level_count());
}

static PyObject* vmap_level(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(shmt__level_of_vmap());
}

/* The tensor of an argument, or NULL with a TypeError. */
static shmt_tensor* tensor_argument(const char* name, PyObject* o) {
  if (shmt__py_is_tensor(o)) return shmt__py_tensor(o);
  PyErr_Format(PyExc_TypeError, "%s(): expected a Tensor, not %s", name, Py_TYPE(o)->tp_name);
  return NULL;
}

static bool is_vmap_level(int level) {
  if (level > 0 && level <= shmt__level_count() && shmt__level_at(level)->kind == SHMT_LEVEL_VMAP) return true;
  PyErr_Format(PyExc_RuntimeError, "no vmap has the level %d on this thread", level);
  return false;
}

/* _add_batch_dim(tensor, batch_dim, level) */
static PyObject* add_batch_dim(PyObject* module, PyObject* args) {
  PyObject* o;
  long long dim;
  int level;
  int64_t wrapped;
  shmt_tensor* out = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "OLi", &o, &dim, &level)) return NULL;
  shmt_tensor* t = tensor_argument("_add_batch_dim", o);
  if (!t || !is_vmap_level(level)) return NULL;
  shmt_status status = shmt__wrap_dim(dim, t->n_dims, &wrapped);
  if (status == SHMT_OK) status = shmt__vmap_wrap(t, (int)wrapped, level, &out);
  return status == SHMT_OK ? shmt__py_wrap(out) : shmt__py_raise(status);
}

/* _lift(tensor): as one of the innermost vmap, the same for all examples; tensors of it stay as they are. */
static PyObject* lift(PyObject* module, PyObject* o) {
  (void)module;
  shmt_tensor* out = NULL;
  shmt_tensor* t = tensor_argument("_lift", o);
  const int level = shmt__level_of_vmap();
  if (!t) return NULL;
  const shmt__batched* b = shmt__batched_of(t);
  if (level == 0 || (b && b->level == level)) return Py_NewRef(o);
  shmt_status status = shmt__vmap_wrap(t, SHMT_NOT_BATCHED, level, &out);
  return status == SHMT_OK ? shmt__py_wrap(out) : shmt__py_raise(status);
}

/* The value of t without its level, the batch at dim. */
static shmt_status unbatch(shmt_tensor* t, int level, int64_t batch_size, int64_t dim, shmt_tensor** out) {
  const shmt__batched* b = shmt__batched_of(t);
  SHMT_AUTO(shmt_tensor) value = NULL;
  const int n_dims = t->n_dims + 1;
  int64_t to;
  SHMT_TRY(shmt__wrap_dim(dim, n_dims, &to));
  if (b && b->level == level && b->dim != SHMT_NOT_BATCHED) {
    value = shmt__tensor_ref(b->value);
    SHMT_TRY(shmt__move_dim(&value, b->dim, to));
    *out = SHMT_TAKE(value);
    return SHMT_OK;
  }
  int64_t sizes[SHMT_MAX_DIMS + 1];
  SHMT_TRY(shmt_op_unsqueeze(b && b->level == level ? b->value : t, to, &value));
  memcpy(sizes, value->sizes, (size_t)value->n_dims * sizeof *sizes);
  sizes[to] = batch_size;
  return shmt_op_expand(value, (shmt_ints){sizes, value->n_dims}, false, out);
}

/* _remove_batch_dim(tensor, level, batch_size, out_dim) */
static PyObject* remove_batch_dim(PyObject* module, PyObject* args) {
  PyObject* o;
  long long dim, batch_size;
  int level;
  shmt_tensor* out = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "OiLL", &o, &level, &batch_size, &dim)) return NULL;
  shmt_tensor* t = tensor_argument("_remove_batch_dim", o);
  if (!t || !is_vmap_level(level)) return NULL;
  shmt_status status;
  {
    SHMT_BELOW_LEVEL(level);
    status = unbatch(t, level, batch_size, dim, &out);
  }
  return status == SHMT_OK ? shmt__py_wrap(out) : shmt__py_raise(status);
}

/* _without_history(tensor): the same elements and tangents; a batched tensor keeps the history of its value. */
static PyObject* without_history(PyObject* module, PyObject* o) {
  (void)module;
  shmt_tensor* out = NULL;
  shmt_tensor* t = tensor_argument("_without_history", o);
  if (!t) return NULL;
  const shmt__batched* b = shmt__batched_of(t);
  shmt_status status =
      b ? shmt__batched_create(b->value, b->dim, b->level, b->level_id, &out) : shmt_op_detach(t, &out);
  if (status == SHMT_OK) status = shmt__tangents_copy(out, t);
  if (status != SHMT_OK) shmt__tensor_release(SHMT_TAKE(out));
  return status == SHMT_OK ? shmt__py_wrap(out) : shmt__py_raise(status);
}

/* (value, batch dim or None, level) of a batched tensor; None of others. */
static PyObject* batched_parts(PyObject* module, PyObject* o) {
  (void)module;
  shmt_tensor* t = tensor_argument("_batched_parts", o);
  if (!t) return NULL;
  const shmt__batched* b = shmt__batched_of(t);
  if (!b) Py_RETURN_NONE;
  PyObject* value = shmt__py_wrap(shmt__tensor_ref(b->value));
  if (!value) return NULL;
  if (b->dim == SHMT_NOT_BATCHED) return Py_BuildValue("(NOi)", value, Py_None, b->level);
  return Py_BuildValue("(Nii)", value, b->dim, b->level);
}

/* The tensors of a list; NULL with a TypeError. */
static shmt_tensor** tensors_of_list(PyObject* list) {
  const Py_ssize_t n = PyList_GET_SIZE(list);
  shmt_tensor** tensors = PyMem_Calloc((size_t)n + 1, sizeof *tensors);
  if (!tensors) return (shmt_tensor**)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++) {
    tensors[i] = tensor_argument("_graph_reaches_others", PyList_GET_ITEM(list, i));
    if (tensors[i]) continue;
    PyMem_Free(tensors);
    return NULL;
  }
  return tensors;
}

/* _graph_reaches_others(outputs, inputs) */
static PyObject* graph_reaches_others(PyObject* module, PyObject* args) {
  PyObject *outputs, *inputs;
  bool found = false;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &outputs, &PyList_Type, &inputs)) return NULL;
  shmt_tensor** from = tensors_of_list(outputs);
  shmt_tensor** to = from ? tensors_of_list(inputs) : NULL;
  shmt_status status = SHMT_OK;
  if (to)
    status = shmt__graph_reaches_others((shmt_tensors){from, PyList_GET_SIZE(outputs)},
                                        (shmt_tensors){to, PyList_GET_SIZE(inputs)}, &found);
  const bool failed = to == NULL;
  PyMem_Free(from);
  PyMem_Free(to);
  if (failed) return NULL;
  return status == SHMT_OK ? PyBool_FromLong(found) : shmt__py_raise(status);
}

/* _end_transform_inputs(inputs): nobody differentiates with respect to them any more, but the transform itself. */
static PyObject* end_transform_inputs(PyObject* module, PyObject* list) {
  (void)module;
  if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "_end_transform_inputs(): expected a list");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    shmt_tensor* t = tensor_argument("_end_transform_inputs", PyList_GET_ITEM(list, i));
    if (!t) return NULL;
    if (t->autograd && !t->autograd->grad_fn) t->autograd->of_transform = true;
  }
  Py_RETURN_NONE;
}

typedef struct python_call {
  PyObject* function;
  PyObject* result;
} python_call;

static shmt_status run_python(void* arg) {
  python_call* c = arg;
  c->result = PyObject_CallNoArgs(c->function);
  return c->result ? SHMT_OK : SHMT_E_PYTHON;
}

/* _call_below_level(level, function) */
static PyObject* call_below_level(PyObject* module, PyObject* args) {
  python_call c = {NULL, NULL};
  int level;
  (void)module;
  if (!PyArg_ParseTuple(args, "iO", &level, &c.function) || !is_vmap_level(level)) return NULL;
  shmt_status status = shmt__level_call_below(level, run_python, &c);
  return status == SHMT_OK ? c.result : shmt__py_raise(status);
}

/* _call_outside_levels(function) */
static PyObject* call_outside_levels(PyObject* module, PyObject* function) {
  python_call c = {function, NULL};
  (void)module;
  if (shmt__level_count() == 0) return PyObject_CallNoArgs(function);
  shmt_status status = shmt__level_call_below(1, run_python, &c);
  return status == SHMT_OK ? c.result : shmt__py_raise(status);
}

/* _vmap_facts(level): batch size and randomness */
static PyObject* vmap_facts(PyObject* module, PyObject* number) {
  static const char* const words[] = {"error", "same", "different"};
  const long level = PyLong_AsLong(number);
  (void)module;
  if ((level == -1 && PyErr_Occurred()) || !is_vmap_level((int)level)) return NULL;
  const shmt__level* l = shmt__level_at((int)level);
  return Py_BuildValue("(Ls)", (long long)l->batch_size, words[l->randomness]);
}

PyMethodDef shmt__py_vmap_functions[] = {
    {"_vmap_increment_nesting", enter_vmap, METH_VARARGS, "Enter a vmap of this batch size and randomness; its level."},
    {"_grad_increment_nesting", enter_grad, METH_NOARGS, "Enter a transform that differentiates; its level."},
    {"_jvp_increment_nesting", enter_jvp, METH_NOARGS, "Enter a transform of forward mode; its level."},
    {"_level_decrement_nesting", leave, METH_NOARGS, "Leave the innermost transform; its level."},
    {"_level_count", level_count, METH_NOARGS, "How many function transforms this thread is inside of."},
    {"_vmap_level", vmap_level, METH_NOARGS, "The level of the innermost vmap, 0 when there is none."},
    {"_add_batch_dim", add_batch_dim, METH_VARARGS, "The tensor as one example along a dimension, at a vmap level."},
    {"_lift", lift, METH_O, "The tensor as one of the innermost vmap, the same for all examples."},
    {"_remove_batch_dim", remove_batch_dim, METH_VARARGS, "All examples of a tensor, along a dimension."},
    {"_graph_reaches_others", graph_reaches_others, METH_VARARGS,
     "Do outputs depend on leaves that are none of the inputs?"},
    {"_end_transform_inputs", end_transform_inputs, METH_O, "The inputs are those of a transform that has ended."},
    {"_call_below_level", call_below_level, METH_VARARGS,
     "Call a function with a vmap level, and those above, off the stack."},
    {"_call_outside_levels", call_outside_levels, METH_O,
     "Call a function as if this thread were inside of no transform."},
    {"_vmap_facts", vmap_facts, METH_O, "Batch size and randomness of a vmap level."},
    {"_without_history", without_history, METH_O, "The tensor without the history that was recorded on itself."},
    {"_batched_parts", batched_parts, METH_O, "Value, batch dimension and level of a batched tensor, or None."},
    {NULL, NULL, 0, NULL},
};

/* --- torch._C._functorch, as far as libraries look at batched tensors ------------------------------------ */

static PyObject* is_batched(PyObject* module, PyObject* o) {
  (void)module;
  shmt_tensor* t = tensor_argument("is_batchedtensor", o);
  if (!t) return NULL;
  const shmt__batched* b = shmt__batched_of(t);
  return PyBool_FromLong(b != NULL && b->dim != SHMT_NOT_BATCHED);
}

static PyObject* unwrapped(PyObject* module, PyObject* o) {
  (void)module;
  shmt_tensor* t = tensor_argument("get_unwrapped", o);
  if (!t) return NULL;
  const shmt__batched* b = shmt__batched_of(t);
  return b ? shmt__py_wrap(shmt__tensor_ref(b->value)) : Py_NewRef(o);
}

static PyObject* batch_dim(PyObject* module, PyObject* o) {
  (void)module;
  shmt_tensor* t = tensor_argument("maybe_get_bdim", o);
  if (!t) return NULL;
  const shmt__batched* b = shmt__batched_of(t);
  return PyLong_FromLong(b ? b->dim : -1);
}

static PyObject* level_of(PyObject* module, PyObject* o) {
  (void)module;
  shmt_tensor* t = tensor_argument("maybe_get_level", o);
  if (!t) return NULL;
  const shmt__batched* b = shmt__batched_of(t);
  return PyLong_FromLong(b ? b->level : -1);
}

static PyObject* current_level(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  if (shmt__level_count() == 0) Py_RETURN_NONE;
  return PyLong_FromLong(shmt__level_count());
}

PyMethodDef shmt__py_functorch_functions[] = {
    {"_add_batch_dim", add_batch_dim, METH_VARARGS, "The tensor as one example along a dimension, at a vmap level."},
    {"_remove_batch_dim", remove_batch_dim, METH_VARARGS, "All examples of a tensor, along a dimension."},
    {"_vmap_increment_nesting", enter_vmap, METH_VARARGS, "Enter a vmap of this batch size and randomness; its level."},
    {"_vmap_decrement_nesting", leave, METH_NOARGS, "Leave the innermost transform; its level."},
    {"_grad_increment_nesting", enter_grad, METH_NOARGS, "Enter a transform that differentiates; its level."},
    {"_grad_decrement_nesting", leave, METH_NOARGS, "Leave the innermost transform; its level."},
    {"_jvp_increment_nesting", enter_jvp, METH_NOARGS, "Enter a transform of forward mode; its level."},
    {"_jvp_decrement_nesting", leave, METH_NOARGS, "Leave the innermost transform; its level."},
    {"get_unwrapped", unwrapped, METH_O, "What a tensor of a level stands for; other tensors as they are."},
    {"is_batchedtensor", is_batched, METH_O, "Whether a tensor stands for one example of a batch."},
    {"maybe_current_level", current_level, METH_NOARGS, "The innermost level, or None."},
    {"maybe_get_bdim", batch_dim, METH_O, "Where the batch of a tensor is; -1 when it has none."},
    {"maybe_get_level", level_of, METH_O, "The level of a tensor; -1 when it has none."},
    {NULL, NULL, 0, NULL},
};
