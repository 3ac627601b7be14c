/* python/autograd/graph.h -- graph objects in Python: nodes, Function contexts.
 *
 * A Node object owns a reference of its node and is remembered in node.py_object, so that a node
 * has one wrapper at a time. Its class is made per node class, with that name. */
#ifndef SHMT_PYTHON_AUTOGRAD_GRAPH_H
#define SHMT_PYTHON_AUTOGRAD_GRAPH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

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

/* --- Function (function.c) -------------------------------------------------------------- */

int shmt__py_function_init(PyObject* module);
extern PyMethodDef shmt__py_function_functions[];

#endif
