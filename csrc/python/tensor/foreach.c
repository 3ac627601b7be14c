/* python/tensor/foreach.c -- functions on lists of tensors: their table, and one loop for all tensors. */
#include "ops/foreach.h"

#include "generated/foreach.h"
#include "python/call/overrides.h"
#include "python/errors.h"
#include "python/tensor/tensor_type.h"

/* _foreach_rows() -> [(name, takes, alpha, (operators, in place after the others; None: none), loop)] */
static PyObject* foreach_rows(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  PyObject* list = PyList_New(0);
  for (const shmt__foreach_row* r = shmt__foreach_rows; list && r->name; r++) {
    const char* const* o = r->operators;
    PyObject* row = Py_BuildValue("(sss(zzzzzzzz)i)", r->name, r->takes, r->alpha, o[0], o[1], o[2], o[3], o[4], o[5],
                                  o[6], o[7], r->loop);
    if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

static bool borrow_list(PyObject* o, shmt_tensor** room, shmt_tensors* out) {
  if (!PyTuple_CheckExact(o)) return false;
  const Py_ssize_t n = PyTuple_GET_SIZE(o);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* item = PyTuple_GET_ITEM(o, i);
    /* Results of other classes are wrapped as such, and modes see calls: operators do both. */
    if (!shmt__py_is_tensor(item) || shmt__py_result_type_of(shmt__py_tensor_type, item) != shmt__py_tensor_type)
      return false;
    room[i] = shmt__py_tensor(item);
  }
  *out = (shmt_tensors){room, n};
  return true;
}

static PyObject* wrapped(shmt_tensor_vec* list) {
  PyObject* all = PyTuple_New(list->len);
  for (int64_t i = 0; i < list->len; i++) {
    PyObject* o = shmt__py_wrap(SHMT_TAKE(list->data[i]));
    if (all && o)
      PyTuple_SET_ITEM(all, i, o);
    else
      Py_CLEAR(all);
  }
  shmt__tensor_vec_fini(list);
  return all;
}

/* _foreach_flat(loop, in place, tensors, [others]) -> the results, an empty tuple in place, None when they do not
 * suit */
static PyObject* foreach_flat(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  (void)module;
  const long loop = n >= 3 && n <= 4 ? PyLong_AsLong(args[0]) : -1;
  if (loop < 0 || loop >= SHMT_N_LOOPS || !PyTuple_CheckExact(args[2])) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError, "_foreach_flat expected a loop, a bool and one or two tuples");
    return NULL;
  }
  const bool in_place = args[1] == Py_True;
  const int n_lists = (int)(n - 2);
  const Py_ssize_t len = PyTuple_GET_SIZE(args[2]);
  shmt_tensor** room = PyMem_Calloc((size_t)(2 * len + 1), sizeof *room);
  if (!room) return PyErr_NoMemory();
  shmt_tensors lists[2] = {{0, 0}, {0, 0}};
  bool done = false, known = true;
  for (int k = 0; k < n_lists; k++)
    known = known && PyTuple_CheckExact(args[2 + k]) && PyTuple_GET_SIZE(args[2 + k]) == len &&
            borrow_list(args[2 + k], room + k * len, &lists[k]);
  shmt_tensor_vec out = {0, 0};
  shmt_status status = SHMT_OK;
  if (known && shmt__py_n_function_modes == 0)
    status = shmt__foreach_flat((int)loop, lists, n_lists, in_place, &out, &done);
  PyMem_Free(room);
  if (status != SHMT_OK) {
    shmt__tensor_vec_fini(&out);
    return shmt__py_raise(status);
  }
  return done ? wrapped(&out) : Py_NewRef(Py_None);
}

PyMethodDef shmt__py_foreach_functions[] = {
    {"_foreach_rows", foreach_rows, METH_NOARGS, "The table of functions on lists of tensors."},
    {"_foreach_flat", (PyCFunction)(void (*)(void))foreach_flat, METH_FASTCALL, "One loop for all tensors of lists."},
    {NULL, NULL, 0, NULL},
};
