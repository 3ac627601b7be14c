/* python/values/override_classes.c -- which classes have a __torch_function__ of their own. */
#include "python/values/override_classes.h"

shmt__py_override_settings shmt__py_overrides;
_Thread_local int shmt__py_n_overrides_off;
_Thread_local int shmt__py_n_function_modes __attribute__((tls_model("initial-exec")));

static bool is_basic_type(PyTypeObject* type) {
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
         type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type || type == &PyType_Type ||
         type == &PySlice_Type || type == &PyEllipsis_Type || type == Py_TYPE(Py_None);
}

/* The module that says what the functions above are is loaded with the first class that has a __torch_function__. */
static bool is_ready(void) {
  static bool loading;
  if (SHMT_LIKELY(shmt__py_overrides.modules != NULL)) return true;
  if (loading) return false;
  loading = true;
  PyObject* module = PyImport_ImportModule("shmtensor.overrides");
  loading = false;
  if (module == NULL) PyErr_WriteUnraisable(shmt__py_overrides.name);
  Py_XDECREF(module);
  return shmt__py_overrides.modules != NULL;
}

/* Does the class have a __torch_function__ of its own? */
bool shmt__py_has_own_torch_function(PyTypeObject* type) {
  if (type == shmt__py_tensor_type || type == shmt__py_base_type || is_basic_type(type)) return false;
  if (!shmt__py_overrides.name && !(shmt__py_overrides.name = PyUnicode_InternFromString("__torch_function__"))) {
    PyErr_Clear();
    return false;
  }
  PyObject* found = _PyType_Lookup(type, shmt__py_overrides.name); /* borrowed */
  if (found == NULL || !is_ready() || found == shmt__py_overrides.disabled_function) return false;
  PyObject* own = NULL;
  if (Py_IS_TYPE(found, &PyClassMethod_Type)) {
    own = PyObject_GetAttrString(found, "__func__");
    if (own == NULL) PyErr_Clear();
    Py_XDECREF(own); /* the class keeps it */
  }
  return own != shmt__py_overrides.default_function;
}

shmt__py_plain_class shmt__py_last_plain;

bool shmt__py_has_torch_function(PyTypeObject* type) {
  const bool has_own = shmt__py_has_own_torch_function(type);
  if (!has_own && type->tp_version_tag != 0 && shmt__py_overrides.modules)
    shmt__py_last_plain = (shmt__py_plain_class){type, type->tp_version_tag};
  return has_own && shmt__py_n_overrides_off == 0;
}

bool shmt__py_answers_for_tensor(PyObject* o) {
  return !shmt__py_is_tensor(o) && shmt__py_has_torch_function(Py_TYPE(o));
}
