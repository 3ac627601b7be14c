/* python/autograd/saved_fields.h -- what nodes saved, as _saved_<name> and _raw_saved_<name> of their Python
 * objects. */
#ifndef SHMT_PYTHON_AUTOGRAD_SAVED_FIELDS_H
#define SHMT_PYTHON_AUTOGRAD_SAVED_FIELDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "autograd/node.h"
#include "autograd/recording/saved.h"

/* Give the Python class of a node class its attributes. 0, or -1 with an exception. */
int shmt__py_add_saved_fields(PyObject* cls, const shmt__node_class* k);
/* The SavedTensor of s, which belongs to node n. New reference. */
PyObject* shmt__py_saved_tensor(shmt_node* n, shmt__saved* s);
/* What s holds, as a tensor or None. New reference. */
PyObject* shmt__py_saved_value(shmt_node* n, const shmt__saved* s);
int shmt__py_saved_fields_init(PyObject* module);

#endif
