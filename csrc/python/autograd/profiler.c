/* python/autograd/profiler.c -- profiles as Python sees them: starting, stopping, and what was recorded. */
#include "base/utf8.h"
#include "dispatch/profile.h"
#include "python/autograd/tensor_properties.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/values/types.h"
#include "tensor/tensor.h"

#include <string.h>

/* --- stacks ------------------------------------------------------------------------------- */

enum { MAX_FRAMES = 64, MAX_TEXT = 8192 };

/* "file(line): function" of each frame, innermost first; under the interpreter lock. */
static char* stack_text(void) {
  char text[MAX_TEXT] = "";
  size_t at = 0;
  PyFrameObject* frame = (PyFrameObject*)Py_XNewRef((PyObject*)PyEval_GetFrame());
  for (int i = 0; frame && i < MAX_FRAMES && at < MAX_TEXT; i++) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    const char* name = PyUnicode_AsUTF8(code->co_name);
    if (file && name) {
      const int n =
          snprintf(text + at, MAX_TEXT - at, "%s%s(%d): %s", at ? "\n" : "", file, PyFrame_GetLineNumber(frame), name);
      at += n > 0 ? (size_t)n : 0;
    } else {
      PyErr_Clear();
    }
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_SETREF(frame, back);
  }
  Py_XDECREF(frame);
  if (at >= MAX_TEXT) text[shmt__utf8_whole(text, MAX_TEXT - 1)] = '\0';
  return strdup(text); /* only as much as it needs: a profile keeps many */
}

/* Large operators run without the lock, so it is taken. Threads that Python does not know have no stack. */
static char* python_stack(void) {
  if (!Py_IsInitialized() || !PyGILState_GetThisThreadState()) return NULL;
  PyGILState_STATE gil = shmt__py_gil_ensure();
  char* text = stack_text();
  PyGILState_Release(gil);
  return text;
}

/* --- arguments ------------------------------------------------------------------------------ */

static PyObject* ints_of(const uint64_t* words, uint64_t n) {
  PyObject* all = PyTuple_New((Py_ssize_t)n);
  for (uint64_t i = 0; all && i < n; i++) {
    PyObject* o = PyLong_FromLongLong((long long)words[i]);
    if (o)
      PyTuple_SET_ITEM(all, (Py_ssize_t)i, o);
    else
      Py_CLEAR(all);
  }
  return all;
}

/* (dtype, sizes, strides) */
static PyObject* tensor_of(const uint64_t** at) {
  const uint64_t head = *(*at)++;
  if ((head & 0xFF) != SHMT_PROFILE_TENSOR) Py_RETURN_NONE;
  const uint64_t n_dims = head >> 8 & 0xFF;
  PyObject* sizes = ints_of(*at, n_dims);
  PyObject* strides = ints_of(*at + n_dims, n_dims);
  PyObject* dtype = shmt__py_from_dtype((shmt_dtype)(head >> 16));
  *at += 2 * n_dims;
  PyObject* all = sizes && strides && dtype ? PyTuple_Pack(3, dtype, sizes, strides) : NULL;
  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  Py_XDECREF(dtype);
  return all;
}

/* A list of such tuples. */
static PyObject* list_of(const uint64_t** at, uint64_t n) {
  PyObject* all = PyList_New((Py_ssize_t)n);
  for (uint64_t i = 0; all && i < n; i++) {
    PyObject* o = tensor_of(at);
    if (o)
      PyList_SET_ITEM(all, (Py_ssize_t)i, o);
    else
      Py_CLEAR(all);
  }
  return all;
}

static PyObject* argument_of(const uint64_t** at) {
  const uint64_t head = **at, count = head >> 8;
  double d;
  switch ((shmt__profile_tag)(head & 0xFF)) {
    case SHMT_PROFILE_TENSOR:
      return Py_BuildValue("(sN)", "tensor", tensor_of(at));
    case SHMT_PROFILE_LIST:
      ++*at;
      return Py_BuildValue("(sN)", "tensors", list_of(at, count));
    case SHMT_PROFILE_INT:
      *at += 2;
      return Py_BuildValue("(sL)", "value", (long long)(*at)[-1]);
    case SHMT_PROFILE_BOOL:
      *at += 2;
      return Py_BuildValue("(sO)", "value", (*at)[-1] ? Py_True : Py_False);
    case SHMT_PROFILE_FLOAT:
      *at += 2;
      memcpy(&d, *at - 1, sizeof d);
      return Py_BuildValue("(sd)", "value", d);
    case SHMT_PROFILE_INTS:
      *at += 1 + count;
      return Py_BuildValue("(sN)", "value", ints_of(*at - count, count));
    default:
      ++*at;
      return Py_BuildValue("(sO)", "value", Py_None);
  }
}

static PyObject* arguments_of(const shmt__profile_record* r, const uint64_t* payload) {
  if (r->n_words == 0) Py_RETURN_NONE;
  PyObject* all = PyTuple_New(r->op->schema->n_args);
  for (Py_ssize_t i = 0; all && i < r->op->schema->n_args; i++) {
    PyObject* o = argument_of(&payload);
    if (o)
      PyTuple_SET_ITEM(all, i, o);
    else
      Py_CLEAR(all);
  }
  return all;
}

/* --- records ------------------------------------------------------------------------------ */

static PyObject* text_of(const char* text) {
  if (text == NULL) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject* name_of(const shmt__profile_record* r) {
  switch ((shmt__profile_kind)r->kind) {
    case SHMT_PROFILE_OPERATOR:
      return PyUnicode_FromFormat(strchr(r->op->schema->name, ':') ? "%s" : "aten::%s", r->op->schema->name);
    case SHMT_PROFILE_NODE:
    case SHMT_PROFILE_ENGINE: {
      const bool own = strcmp(r->name, "AccumulateGrad") == 0 || strcmp(r->name, "CopySlices") == 0;
      return PyUnicode_FromFormat("%s%s%s",
                                  r->kind == SHMT_PROFILE_ENGINE ? "autograd::engine::evaluate_function: " : "",
                                  own ? "torch::autograd::" : "", r->name);
    }
    case SHMT_PROFILE_RANGE:
      return text_of(r->name);
    default:
      Py_RETURN_NONE;
  }
}

static bool add_record(void* ctx, int64_t thread, const shmt__profile_record* r, const uint64_t* payload) {
  const bool is_delta = r->kind == SHMT_PROFILE_DELTA;
  PyObject* name = name_of(r);
  PyObject* args = r->kind == SHMT_PROFILE_OPERATOR ? arguments_of(r, payload) : Py_NewRef(Py_None);
  PyObject* stack = text_of(r->stack);
  PyObject* row = NULL;
  if (name && args && stack)
    row = Py_BuildValue("(LiLOKLOO)", (long long)thread, (int)r->kind, (long long)r->t_ns, name,
                        (unsigned long long)r->number, is_delta ? (long long)r->delta : 0LL, stack, args);
  Py_XDECREF(stack);
  Py_XDECREF(name);
  Py_XDECREF(args);
  const int status = row ? PyList_Append(ctx, row) : -1;
  Py_XDECREF(row);
  return status == 0;
}

static PyObject* profiler_records(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  PyObject* all = PyList_New(0);
  if (all && !shmt__profile_visit(add_record, all)) Py_CLEAR(all);
  return all;
}

static PyObject* profiler_start(PyObject* module, PyObject* flags) {
  (void)module;
  const unsigned long f = PyLong_AsUnsignedLong(flags);
  if (PyErr_Occurred()) return NULL;
  shmt__profile_stack = python_stack;
  shmt__profile_start((unsigned)f);
  Py_RETURN_NONE;
}

static PyObject* profiler_stop(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  shmt__profile_stop();
  Py_RETURN_NONE;
}

static PyObject* profiler_clear(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  shmt__profile_clear();
  Py_RETURN_NONE;
}

static PyObject* profiler_runs(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyBool_FromLong(shmt__profile_runs());
}

static PyObject* profiler_lost(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromLongLong(shmt__profile_lost());
}

static PyObject* range_begin(PyObject* module, PyObject* name) {
  (void)module;
  if (!shmt__profile_runs()) Py_RETURN_FALSE;
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return NULL;
  shmt__profile_enter_range(text);
  Py_RETURN_TRUE;
}

static PyObject* range_end(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  shmt__profile_leave();
  Py_RETURN_NONE;
}

PyMethodDef shmt__py_profiler_functions[] = {
    {"_profiler_start", profiler_start, METH_O,
     "Begin a profile on all threads; flags: 1 arguments, 2 memory, 4 stacks."},
    {"_profiler_stop", profiler_stop, METH_NOARGS, "Record nothing more."},
    {"_profiler_clear", profiler_clear, METH_NOARGS, "Forget what was recorded."},
    {"_profiler_runs", profiler_runs, METH_NOARGS, "Whether a profile runs."},
    {"_profiler_lost", profiler_lost, METH_NOARGS, "How many begins found no room."},
    {"_profiler_records", profiler_records, METH_NOARGS,
     "All records in order, thread by thread: (thread, kind, ns, name, number, delta, stack, arguments)."},
    {"_profiler_range_begin", range_begin, METH_O, "Begin a named range on this thread; False: no profile runs."},
    {"_profiler_range_end", range_end, METH_NOARGS, "End what this thread began last."},
    {NULL, NULL, 0, NULL},
};
