/* python/overridable/methods.h -- methods and properties of tensors that let classes and modes answer. */
#ifndef SHMT_PYTHON_OVERRIDABLE_METHODS_H
#define SHMT_PYTHON_OVERRIDABLE_METHODS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* A descriptor of the method, or of the property, that asks before it does what def says. Methods that go through
 * shmt__py_call() ask there; their descriptors are plain. NULL with an exception. */
PyObject* shmt__py_overridable_method(PyTypeObject* type, PyMethodDef* def);
PyObject* shmt__py_overridable_property(PyTypeObject* type, PyGetSetDef* def);

#endif
