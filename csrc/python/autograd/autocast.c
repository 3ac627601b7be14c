/* python/autograd/autocast.c -- autocast from Python. */
#include "python/autograd/tensor_properties.h"

#include "autograd/autocast.h"
#include "python/call/convert.h"
#include "python/values/types.h"
#include "python/tensor/tensor_type.h"

/* _set_autocast(enabled, dtype, keeps casts of weights) */
static PyObject* set_autocast(PyObject* module, PyObject* args) {
  (void)module;
  int enabled, caches;
  PyObject* dtype;
  if (!PyArg_ParseTuple(args, "pOp", &enabled, &dtype, &caches)) return NULL;
  shmt_dtype lower;
  if (!shmt__py_as_dtype(dtype, &lower))
    return PyErr_Format(PyExc_TypeError, "_set_autocast(): not a dtype: %R", dtype);
  shmt_status status = shmt__autocast_set(enabled, lower, caches);
  if (status != SHMT_OK) return shmt__py_raise(status);
  Py_RETURN_NONE;
}

static PyObject* clear_cache(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  shmt__autocast_clear_cache();
  Py_RETURN_NONE;
}

PyMethodDef shmt__py_autocast_functions[] = {
    {"_set_autocast", set_autocast, METH_VARARGS,
     "Let operators of this thread cast their arguments, or not: enabled, dtype, keep weights."},
    {"_clear_autocast_cache", clear_cache, METH_NOARGS, "Drop this thread's casts of weights."},
    {NULL, NULL, 0, NULL},
};
