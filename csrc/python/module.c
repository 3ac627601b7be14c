/* python/module.c -- filling the extension module shmtensor._C. */
#include "api/python.h"
#include "base/debug.h"
#include "base/dtype.h"
#include "base/promote.h"
#include "generated/options.h"
#include "ipc/handle/share.h"
#include "iter/threads.h"
#include "os/cpu.h"
#include "python/autograd/tensor_properties.h"
#include "python/call/call.h"
#include "python/call/convert.h"
#include "python/dispatch/library.h"
#include "python/dispatch/mode.h"
#include "python/overridable/functions.h"
#include "python/call/overrides.h"
#include "python/call/return_types.h"
#include "python/call/site.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/ipc/pipes/dumps.h"
#include "python/ipc/message.h"
#include "python/ipc/share.h"
#include "python/ipc/pipes/task_sender.h"
#include "python/ipc/to_send.h"
#include "python/nn/modules.h"
#include "python/tensor/exchange/arrow.h"
#include "python/tensor/construct.h"
#include "python/tensor/exchange/dlpack.h"
#include "python/tensor/tensor_type.h"
#include "python/values/descriptor.h"
#include "python/values/types.h"

static PyObject* get_default_dtype(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return shmt__py_from_dtype(shmt__default_dtype());
}

static PyObject* set_default_dtype(PyObject* module, PyObject* o) {
  shmt_dtype dtype;
  (void)module;
  if (!shmt__py_as_dtype(o, &dtype)) {
    PyErr_Format(
        PyExc_TypeError,
        "invalid dtype object: only floating-point types are supported as the default type");
    return NULL;
  }
  shmt_status s = shmt__set_default_dtype(dtype);
  if (s != SHMT_OK) return shmt__py_raise(s);
  Py_RETURN_NONE;
}

/* The two dtypes of a call, which may be given by the names in keywords. */
static int two_dtypes(const char* name, const char* const keywords[2], PyObject* const* args,
                      Py_ssize_t n, PyObject* kwnames, shmt_dtype out[2]) {
  PyObject* given[2] = {n > 0 ? args[0] : NULL, n > 1 ? args[1] : NULL};
  bool fits = n <= 2;
  for (Py_ssize_t i = 0; fits && kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
    PyObject* keyword = PyTuple_GET_ITEM(kwnames, i);
    const int at = PyUnicode_CompareWithASCIIString(keyword, keywords[0]) == 0   ? 0
                   : PyUnicode_CompareWithASCIIString(keyword, keywords[1]) == 0 ? 1
                                                                                 : -1;
    fits = at >= 0 && !given[at];
    if (fits) given[at] = args[n + i];
  }
  if (fits && given[0] && given[1] && shmt__py_as_dtype(given[0], &out[0]) &&
      shmt__py_as_dtype(given[1], &out[1]))
    return 0;
  PyErr_Format(PyExc_TypeError, "%s(): expected two arguments of type torch.dtype, %s and %s", name,
               keywords[0], keywords[1]);
  return -1;
}

static PyObject* promote_types(PyObject* module, PyObject* const* args, Py_ssize_t n,
                               PyObject* kwnames) {
  static const char* const keywords[2] = {"type1", "type2"};
  shmt_dtype d[2], r;
  (void)module;
  if (two_dtypes("promote_types", keywords, args, n, kwnames, d) < 0) return NULL;
  shmt_status s = shmt__promote_types(d[0], d[1], &r);
  return s == SHMT_OK ? shmt__py_from_dtype(r) : shmt__py_raise(s);
}

static PyObject* can_cast(PyObject* module, PyObject* const* args, Py_ssize_t n,
                          PyObject* kwnames) {
  static const char* const keywords[2] = {"from_", "to"};
  shmt_dtype d[2];
  (void)module;
  if (two_dtypes("can_cast", keywords, args, n, kwnames, d) < 0) return NULL;
  return PyBool_FromLong(shmt__can_cast(d[0], d[1]));
}

/* result_type(tensor_or_number, tensor_or_number) */
static PyObject* result_type(PyObject* module, PyObject* const* args, Py_ssize_t n) {
  shmt__result_type r = SHMT_RESULT_TYPE_INIT;
  shmt_dtype dtype;
  (void)module;
  if (n != 2) {
    PyErr_Format(PyExc_TypeError, "result_type() takes 2 positional arguments but %zd were given",
                 n);
    return NULL;
  }
  if (SHMT_UNLIKELY(!shmt__py_is_plain(args[0]) || !shmt__py_is_plain(args[1]) || shmt__py_n_function_modes) &&
      shmt__py_operands_answer(args[0], args[1]))
    return shmt__py_answer_factory("result_type", PyTuple_Pack(2, args[0], args[1]), NULL);
  for (int i = 0; i < 2; i++) {
    shmt_status s;
    shmt_scalar number;
    if (shmt__py_is_tensor(args[i])) {
      shmt_tensor* t = shmt__py_tensor(args[i]);
      s = shmt__result_type_add(&r, t->dtype, t->n_dims == 0,
                                (t->flags & SHMT_TENSOR_WRAPPED_NUMBER) != 0);
    } else {
      int is_number = shmt__py_as_scalar(args[i], &number);
      if (is_number < 0) return NULL;
      if (is_number == 0) {
        PyErr_Format(PyExc_TypeError, "result_type(): argument %d must be Tensor or Number, not %s",
                     i + 1, Py_TYPE(args[i])->tp_name);
        return NULL;
      }
      s = shmt__result_type_add_scalar(&r, number);
    }
    if (s != SHMT_OK) return shmt__py_raise(s);
  }
  shmt_status s = shmt__result_type_get(&r, &dtype);
  return s == SHMT_OK ? shmt__py_from_dtype(dtype) : shmt__py_raise(s);
}

static PyObject* get_num_threads(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(shmt__num_threads());
}

static PyObject* set_num_threads(PyObject* module, PyObject* o) {
  int64_t n;
  (void)module;
  int r = shmt__py_as_int(o, &n);
  if (r == 0)
    PyErr_Format(PyExc_TypeError, "set_num_threads expects an int, but got %s",
                 Py_TYPE(o)->tp_name);
  if (r != 1) return NULL;
  if (n <= 0) {
    PyErr_SetString(PyExc_RuntimeError, "set_num_threads expects a positive integer");
    return NULL;
  }
  shmt__set_num_threads(n > SHMT_MAX_THREADS ? SHMT_MAX_THREADS : (int)n);
  Py_RETURN_NONE;
}

static PyObject* set_flush_denormal(PyObject* module, PyObject* o) {
  (void)module;
  if (!PyBool_Check(o)) {
    PyErr_Format(PyExc_RuntimeError, "flush_denormal expects a bool, but got %s", Py_TYPE(o)->tp_name);
    return NULL;
  }
  return PyBool_FromLong(shmt__os_flush_denormals(o == Py_True));
}

static PyMethodDef setting_functions[] = {
    {"get_num_threads", get_num_threads, METH_NOARGS,
     "get_num_threads()\n--\n\nThe number of threads that one operator may use."},
    {"set_num_threads", set_num_threads, METH_O,
     "set_num_threads(n, /)\n--\n\nLet one operator use n threads, an int of at least 1.\n\nRaises "
     "RuntimeError for less than 1, TypeError for what is no int."},
    {"set_flush_denormal", set_flush_denormal, METH_O,
     "set_flush_denormal(mode, /)\n--\n\nLet this thread take subnormal numbers for zero, in its operators too; "
     "False where the processor cannot."},
    {"get_default_dtype", get_default_dtype, METH_NOARGS,
     "get_default_dtype()\n--\n\nThe dtype of tensors made of Python floats, float32 unless "
     "set_default_dtype has set another."},
    {"_set_default_dtype", set_default_dtype, METH_O, "Set the dtype of Python floats."},
    {"promote_types", (PyCFunction)(void (*)(void))promote_types, METH_FASTCALL | METH_KEYWORDS,
     "promote_types(type1, type2)\n--\n\nThe smallest dtype that both can be cast to."},
    {"can_cast", (PyCFunction)(void (*)(void))can_cast, METH_FASTCALL | METH_KEYWORDS,
     "can_cast(from_, to)\n--\n\nWhether the rules of promotion allow the cast: not from complex to real, "
     "from floating-point to\nwhole numbers, or from numbers to bool."},
    {"result_type", (PyCFunction)(void (*)(void))result_type, METH_FASTCALL,
     "result_type(tensor1, tensor2)\n--\n\nThe dtype that an operation on both has, tensors or Python "
     "numbers."},
    {NULL, NULL, 0, NULL},
};

/* A submodule with the functions of table: shmtensor._C.<name>, to be imported by that name, as
 * pickles of its functions do. */
static int add_submodule(PyObject* module, const char* name, PyMethodDef* table) {
  char full[64];
  (void)PyOS_snprintf(full, sizeof full, "shmtensor._C.%s", name);
  PyObject* sub = PyImport_AddModule(full); /* borrowed */
  if (sub == NULL || PyModule_AddFunctions(sub, table) < 0) return -1;
  return PyModule_AddObjectRef(module, name, sub);
}

static int fill_module(PyObject* module) {
  static PyMethodDef* const tables[] = {
      setting_functions,
      shmt__py_size_functions,
      shmt__py_error_functions,
      shmt__py_construct_functions,
      shmt__py_device_functions,
      shmt__py_construct_legacy_functions,
      shmt__py_numpy_functions,
      shmt__py_buffer_functions,
      shmt__py_foreach_functions,
      shmt__py_dlpack_functions,
      shmt__py_arrow_functions,
      shmt__py_functions,
      shmt__py_library_functions,
      shmt__py_mode_functions,
      shmt__py_override_functions,
      shmt__py_nn_module_functions,
      shmt__py_autocast_functions,
      shmt__py_forward_functions,
      shmt__py_vmap_functions,
      shmt__py_profiler_functions,
      shmt__py_autograd_functions,
      shmt__py_share_functions,
      shmt__py_to_send_functions,
      shmt__py_message_functions,
      shmt__py_dumps_functions,
      shmt__py_return_type_functions,
  };
  shmt__py_errors_init();
  if (shmt__py_dtypes_init(module) < 0 || shmt__py_device_init(module) < 0 ||
      shmt__py_size_init(module) < 0 || shmt__py_generator_init(module) < 0 ||
      shmt__py_tensor_type_init(module) < 0 || shmt__py_autograd_init(module) < 0 ||
      shmt__py_add_operator_methods(shmt__py_methods) < 0 || shmt__py_mode_init() < 0 ||
      shmt__py_message_init(module) < 0 || shmt__py_ring_init(module) < 0 || shmt__py_topic_init(module) < 0 ||
      shmt__py_call_init(module) < 0 || shmt__py_overridable_init(module) < 0 ||
      shmt__py_event_init(module) < 0 ||
      shmt__py_named_lock_init(module) < 0 || shmt__py_descriptor_init(module) < 0 ||
      shmt__py_task_sender_init(module) < 0)
    return -1;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    if (PyModule_AddFunctions(module, tables[i]) < 0) return -1;
  if (shmt__py_share_init(module) < 0 || shmt__py_return_types_init(module) < 0) return -1;
  if (add_submodule(module, "_functorch", shmt__py_functorch_functions) < 0) return -1;
  return add_submodule(module, "_nn", shmt__py_nn_functions);
}

int shmt_python_install(void) {
  static bool done;
  PyGILState_STATE gil = shmt__py_gil_ensure(); /* cffi calls without the lock */
  int r = 0;
  if (!done) {
    shmt__debug = shmt__options_get()->debug > 0;
    if (shmt__options_get()->trace_alloc) shmt__allocation_site = shmt__py_append_call_site;
    PyObject* module = PyImport_ImportModule("shmtensor._C");
    r = module ? fill_module(module) : -1;
    Py_XDECREF(module);
    done = r == 0;
    /* The caller sees only an int, so the exception is printed here. */
    if (r < 0 && PyErr_Occurred()) PyErr_Print();
  }
  PyGILState_Release(gil);
  return r;
}
