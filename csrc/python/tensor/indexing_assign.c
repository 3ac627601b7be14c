/* python/tensor/indexing_assign.c -- t[key] = value. */
#include "generated/ops.h"
#include "python/call/convert.h"
#include "python/call/overrides.h"
#include "python/tensor/indexing.h"

/* value as a tensor for t: itself, or a 0-d one of t's dtype. New reference; NULL with an
 * exception. */
static shmt_tensor* value_as_tensor(shmt_tensor* t, PyObject* value) {
  if (shmt__py_is_tensor(value)) return shmt__tensor_ref(shmt__py_tensor(value));
  shmt_scalar s;
  int r = shmt__py_as_scalar(value, &s);
  if (r == 0) {
    char name[64];
    PyObject* note = shmt__py_foreign_tensor_note(value);
    if (note != NULL)
      PyErr_Format(PyExc_TypeError, "can't assign a %s to a %s%U", Py_TYPE(value)->tp_name,
                   shmt__py_legacy_type_name(t, name, sizeof name), note);
    Py_XDECREF(note);
  }
  if (r < 0 && PyErr_ExceptionMatches(PyExc_OverflowError)) shmt__py_raise_int_overflow();
  if (r != 1) return NULL;
  shmt_tensor* out = NULL;
  shmt_status status = shmt__tensor_from_scalar(s, t->dtype, false, &out);
  if (status == SHMT_OK) return out;
  shmt__py_raise(status);
  return NULL;
}

/* value without the leading dims of size 1 that `view` does not have, so that (1, 1, 4) fits (4).
 */
static shmt_status drop_leading_ones(shmt_tensor* value, int n_dims, shmt_tensor** out) {
  int skip = 0;
  while (value->n_dims - skip > n_dims && value->sizes[skip] == 1) skip++;
  if (skip == 0) {
    *out = shmt__tensor_ref(value);
    return SHMT_OK;
  }
  shmt_ints sizes = {value->sizes + skip, value->n_dims - skip};
  return shmt_op_view(value, sizes, out);
}

/* The number of dims that indexing view by x would give, or -1 when a mask makes it hard to say. */
static int indexed_dims(const shmt__py_indexed* x) {
  int most = 0, used = 0;
  for (int i = 0; i < x->n_indices; i++) {
    shmt_tensor* t = x->indices[i];
    if (t == NULL) continue;
    bool mask = t->dtype == SHMT_BOOL || t->dtype == SHMT_UINT8;
    int n = mask ? 1 : t->n_dims;
    most = n > most ? n : most;
    used += mask ? t->n_dims : 1;
  }
  return x->view->n_dims - used + most;
}

/* Does value broadcast to view's sizes? */
static bool fits(const shmt_tensor* value, const shmt_tensor* view) {
  int skip = view->n_dims - value->n_dims;
  for (int i = 0; i < value->n_dims && skip >= 0; i++)
    if (value->sizes[i] != 1 && value->sizes[i] != view->sizes[skip + i]) return false;
  return skip >= 0;
}

static shmt_status assign(shmt__py_indexed* x, shmt_tensor* value) {
  SHMT_AUTO(shmt_tensor) fitted = NULL;
  SHMT_AUTO(shmt_tensor) expanded = NULL;
  SHMT_TRY(drop_leading_ones(value, x->n_indices ? indexed_dims(x) : x->view->n_dims, &fitted));
  if (x->n_indices == 0) {
    shmt_tensor* source = fitted;
    /* Expanded for the message; and for the strides, which tell whether a tensor is put into a view of all of it. */
    const bool is_own = fitted->storage == x->view->storage && fitted->n_dims != x->view->n_dims;
    if (SHMT_UNLIKELY(is_own || !fits(fitted, x->view))) {
      SHMT_TRY(shmt_op_expand(fitted, shmt__tensor_sizes(x->view), false, &expanded));
      source = expanded;
    }
    return SHMT_PY_UNLOCKED(x->view->numel, shmt_op_copy_(x->view, source, false));
  }
  shmt_tensors indices = {x->indices, x->n_indices};
  return SHMT_PY_UNLOCKED(x->view->numel, shmt_op_index_put_(x->view, indices, fitted, false));
}

int shmt__py_assign_subscript(PyObject* self, PyObject* key, PyObject* value) {
  if (value == NULL) {
    PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
    return -1;
  }
  if (SHMT_UNLIKELY(shmt__py_operands_answer(self, value) || shmt__py_key_answers(key))) {
    PyObject* answer = shmt__py_answer_subscript(self, key, value);
    Py_XDECREF(answer);
    if (answer != Py_NotImplemented) return answer ? 0 : -1; /* else a tensor of another library, which asks us */
  }
  shmt__py_indexed x;
  shmt_tensor* t = shmt__py_tensor(self);
  if (key == Py_False) return 0;
  if (key == Py_True) key = Py_None; /* a copy into the whole, of any dtype */
  if (shmt__py_index_basic(t, key, &x) < 0) return -1;
  SHMT_AUTO(shmt_tensor) v = value_as_tensor(t, value);
  shmt_status s = SHMT_E_PYTHON;
  if (v != NULL) s = assign(&x, v);
  shmt__py_indexed_fini(&x);
  if (s == SHMT_OK) return 0;
  shmt__py_raise(s);
  return -1;
}
