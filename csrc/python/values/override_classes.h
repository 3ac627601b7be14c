/* python/values/override_classes.h -- which classes have a __torch_function__ of their own. */
#ifndef SHMT_PYTHON_VALUES_OVERRIDE_CLASSES_H
#define SHMT_PYTHON_VALUES_OVERRIDE_CLASSES_H

#include "python/values/tensor_object.h"

/* What shmtensor/overrides.py says when it is loaded; NULL before. Borrowed from this file. */
typedef struct shmt__py_override_settings {
  PyObject* name;                  /* "__torch_function__" */
  PyObject* default_function;      /* the function of Tensor.__torch_function__ */
  PyObject* disabled_function;     /* _disabled_torch_function_impl */
  PyObject *operators, *methods;   /* what asks about an operator, and about a method */
  PyObject* modules;               /* where functions are looked up: a tuple */
  PyObject* rules;                 /* a dict: function -> what makes of (args, kwargs) what is handed over */
} shmt__py_override_settings;
extern shmt__py_override_settings shmt__py_overrides;

/* Regions of this thread that treat subclasses as plain. */
extern _Thread_local int shmt__py_n_overrides_off;

/* Modes that are active on this thread: they are asked before the arguments, and about every call. */
extern _Thread_local int shmt__py_n_function_modes __attribute__((tls_model("initial-exec")));
/* Does the class answer calls itself, here and now? */
SHMT_COLD bool shmt__py_has_torch_function(PyTypeObject* type);

/* The last class that was found not to, and its version, which changes with the class. */
typedef struct shmt__py_plain_class {
  PyTypeObject* type; /* borrowed: a class that is gone has no version that comes back */
  unsigned int version;
} shmt__py_plain_class;
extern shmt__py_plain_class shmt__py_last_plain;

/* Does nobody answer for an object, as far as can be seen at once? The usual arguments, and parameters. */
static inline bool shmt__py_is_plain(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  return SHMT_LIKELY(type == shmt__py_tensor_type) || type == &PyLong_Type || type == &PyFloat_Type ||
         type == &PyBool_Type || o == Py_None ||
         (type == shmt__py_last_plain.type && type->tp_version_tag == shmt__py_last_plain.version);
}

/* The same wherever it is. */
bool shmt__py_has_own_torch_function(PyTypeObject* type);

/* Is it no tensor, but an object that answers calls? Such an object may stand for any argument. */
SHMT_COLD bool shmt__py_answers_for_tensor(PyObject* o);

#endif
