/* python/autograd/switches.c -- context managers that switch recording: what runs in each `with`.
 *
 * The classes of shmtensor/autograd/grad_mode.py derive from these, and add what makes them decorators. A context costs
 * some tens of nanoseconds here, and ten times that in Python.
 */
#include "autograd/meta.h"
#include "python/autograd/tensor_properties.h"
#include "tensor/tensor.h"

#include <string.h>
#include <structmember.h>

typedef struct recording_switch {
  PyObject_HEAD
  bool mode;                               /* what it switches to */
  bool before;                             /* whether there was recording */
  bool inference_before;                   /* whether there was inference mode */
} recording_switch;

/* A new switch; or, given a function, what the switch makes of it as a decorator. */
static PyObject* switch_or_decorated(PyTypeObject* type, bool mode, PyObject* function) {
  recording_switch* o = (recording_switch*)type->tp_alloc(type, 0);
  if (o == NULL) return NULL;
  o->mode = mode;
  if (function == NULL) return (PyObject*)o;
  PyObject* decorated = PyObject_CallOneArg((PyObject*)o, function);
  Py_DECREF(o);
  return decorated;
}

/* The only argument, called key, of a call of a class; NULL when there is none. -1 with an exception. */
static int only_argument(const PyTypeObject* type, const char* key, PyObject* args, PyObject* kwargs, PyObject** out) {
  const char* const keywords[] = {key, NULL};
  char format[64];
  *out = NULL;
  if (PyTuple_GET_SIZE(args) == 0 && kwargs == NULL) return 0;
  (void)PyOS_snprintf(format, sizeof format, "|O:%.50s", type->tp_name);
  return PyArg_ParseTupleAndKeywords(args, kwargs, format, (char**)(uintptr_t)keywords, out) ? 0 : -1;
}

/* --- no_grad, enable_grad ---------------------------------------------------------------------- */

static PyObject* own_mode; /* "_own_mode": what a class says that its contexts switch to */

static PyObject* toggle_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* function;
  if (only_argument(type, "function", args, kwargs, &function) < 0) return NULL;
  PyObject* mode = _PyType_Lookup(type, own_mode); /* borrowed */
  if (mode != Py_True && mode != Py_False)
    return PyErr_Format(PyExc_TypeError, "%s has no mode of its own", type->tp_name);
  return switch_or_decorated(type, mode == Py_True, function == Py_None ? NULL : function);
}

static PyObject* toggle_enter(PyObject* self, PyObject* unused) {
  recording_switch* o = (recording_switch*)self;
  (void)unused;
  o->before = shmt__grad_set_enabled(o->mode);
  Py_RETURN_NONE;
}

static PyObject* toggle_exit(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  (void)args, (void)n;
  (void)shmt__grad_set_enabled(((recording_switch*)self)->before);
  Py_RETURN_NONE;
}

/* --- set_grad_enabled -------------------------------------------------------------------------- */

/* It switches at once. */
static int setter_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  recording_switch* o = (recording_switch*)self;
  static const char* const keywords[] = {"mode", NULL};
  PyObject* mode;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:set_grad_enabled", (char**)(uintptr_t)keywords, &mode)) return -1;
  if (!PyBool_Check(mode)) {
    PyErr_Format(PyExc_TypeError, "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not %s",
                 Py_TYPE(mode)->tp_name);
    return -1;
  }
  o->mode = mode == Py_True;
  o->before = shmt__grad_set_enabled(o->mode);
  return 0;
}

static PyObject* setter_enter(PyObject* self, PyObject* unused) {
  (void)unused;
  (void)shmt__grad_set_enabled(((recording_switch*)self)->mode);
  Py_RETURN_NONE;
}

/* --- inference_mode ---------------------------------------------------------------------------- */

static PyObject* inference_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* mode;
  if (only_argument(type, "mode", args, kwargs, &mode) < 0) return NULL;
  if (mode == NULL || PyBool_Check(mode)) return switch_or_decorated(type, mode != Py_False, NULL);
  return switch_or_decorated(type, true, mode);
}

static PyObject* inference_enter(PyObject* self, PyObject* unused) {
  recording_switch* o = (recording_switch*)self;
  (void)unused;
  o->inference_before = shmt__tls_inference_mode;
  o->before = shmt__grad_set_enabled(!o->mode);
  shmt__tls_inference_mode = o->mode;
  Py_RETURN_NONE;
}

static PyObject* inference_exit(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const recording_switch* o = (const recording_switch*)self;
  (void)args, (void)n;
  shmt__tls_inference_mode = o->inference_before;
  (void)shmt__grad_set_enabled(o->before);
  Py_RETURN_NONE;
}

/* --- the types --------------------------------------------------------------------------------- */

static PyMemberDef members[] = {
    {"mode", T_BOOL, offsetof(recording_switch, mode), 0, "What it switches to."},
    {"_before", T_BOOL, offsetof(recording_switch, before), 0, NULL},
    {"_inference_before", T_BOOL, offsetof(recording_switch, inference_before), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

#define METHODS(enter, exit)                                                     \
  {{"__enter__", enter, METH_NOARGS, "__enter__($self)\n--\n\nSwitch."},         \
   {"__exit__", (PyCFunction)(void (*)(void))exit, METH_FASTCALL,                \
    "__exit__($self, *exc)\n--\n\nSwitch back to what it was before."},          \
   {NULL, NULL, 0, NULL}}
static PyMethodDef toggle_methods[] = METHODS(toggle_enter, toggle_exit);
static PyMethodDef setter_methods[] = METHODS(setter_enter, toggle_exit);
static PyMethodDef inference_methods[] = METHODS(inference_enter, inference_exit);

static int add_type(PyObject* module, const char* name, PyType_Slot* slots) {
  PyType_Spec spec = {.name = name,
                      .basicsize = sizeof(recording_switch),
                      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                      .slots = slots};
  PyObject* type = PyType_FromSpec(&spec);
  /* What copies and pickles take along: their members. */
  PyObject* fields = type ? Py_BuildValue("(sss)", "mode", "_before", "_inference_before") : NULL;
  int r = fields ? PyObject_SetAttrString(type, "__slots__", fields) : -1;
  if (r == 0) r = PyModule_AddObjectRef(module, strrchr(name, '.') + 1, type);
  Py_XDECREF(fields);
  Py_XDECREF(type);
  return r;
}

int shmt__py_switches_init(PyObject* module) {
  static PyType_Slot toggle[] = {
      {Py_tp_new, toggle_new},
      {Py_tp_methods, toggle_methods},
      {Py_tp_members, members},
      {Py_tp_doc, (void*)"_GradToggle(function=None)\n--\n\nSwitches recording to what the class says; decorates a "
                         "function."},
      {0, NULL},
  };
  static PyType_Slot setter[] = {
      {Py_tp_init, setter_init},
      {Py_tp_methods, setter_methods},
      {Py_tp_members, members},
      {Py_tp_doc, (void*)"_GradSetter(mode)\n--\n\nSwitches recording at once, and back when its context ends."},
      {0, NULL},
  };
  static PyType_Slot inference[] = {
      {Py_tp_new, inference_new},
      {Py_tp_methods, inference_methods},
      {Py_tp_members, members},
      {Py_tp_doc, (void*)"_InferenceSwitch(mode=True)\n--\n\nSwitches inference mode, and recording the other way; "
                         "decorates a function."},
      {0, NULL},
  };
  own_mode = PyUnicode_InternFromString("_own_mode");
  if (own_mode == NULL || add_type(module, "shmtensor._C._GradToggle", toggle) < 0 ||
      add_type(module, "shmtensor._C._GradSetter", setter) < 0)
    return -1;
  return add_type(module, "shmtensor._C._InferenceSwitch", inference);
}
