/* python/autograd/graph.h -- graph objects in Python: nodes, hooks, Function contexts.
 *
 * A Node object owns a reference of its node and is remembered in node.py_object, so that a node
 * has one wrapper at a time. Its class is made per node class, with that name. */
#ifndef SHMT_PYTHON_AUTOGRAD_GRAPH_H
#define SHMT_PYTHON_AUTOGRAD_GRAPH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "autograd/hook_list.h"
#include "autograd/node.h"

typedef struct shmt__py_node {
  PyObject_HEAD shmt_node* n; /* owned */
  PyObject* weakrefs;
} shmt__py_node;

extern PyTypeObject* shmt__py_node_type; /* Node */

/* The wrapper of n (borrowed), or None for NULL. */
PyObject* shmt__py_from_node(shmt_node* n);

/* Is o a GradientEdge, that is a tuple of a Node and a number? */
bool shmt__py_is_edge(PyObject* o);
/* A tensor that stands for a GradientEdge as root or input of a backward. New reference. */
PyObject* shmt__py_edge_stand_in(PyObject* edge);

int shmt__py_node_init(PyObject* module);

/* --- hooks (hooks.c) ------------------------------------------------------------------ */

/* Register a Python callable; returns a handle with remove(). */
PyObject* shmt__py_add_tensor_hook(shmt_tensor* t, shmt__hook_kind kind, PyObject* fn);
PyObject* shmt__py_add_node_hook(shmt_node* n, shmt__hook_kind kind, PyObject* fn);
/* t's own hooks as a new dict of their numbers and functions; None when it never had one. */
PyObject* shmt__py_tensor_hooks(const shmt_tensor* t);
/* The same for the hooks that run after .grad was updated. */
PyObject* shmt__py_post_accumulate_hooks(const shmt_tensor* t);
/* Replace the hooks of t by the values of a mapping (None: by none). 0, or -1 with an exception. */
int shmt__py_set_tensor_hooks(shmt_tensor* t, PyObject* hooks);
/* values -> tuple of tensors and None. Borrows. */
PyObject* shmt__py_tuple_of(shmt_tensor* const* values, Py_ssize_t n);
int shmt__py_hooks_init(PyObject* module);
extern PyMethodDef shmt__py_hook_functions[];

/* --- Function (function.c) -------------------------------------------------------------- */

int shmt__py_function_init(PyObject* module);
extern PyMethodDef shmt__py_function_functions[];

#endif
