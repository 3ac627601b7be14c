/* python/autograd/function.h -- autograd.Function: what its context, node and application share. */
#ifndef SHMT_PYTHON_AUTOGRAD_FUNCTION_H
#define SHMT_PYTHON_AUTOGRAD_FUNCTION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "autograd/forward/tangents.h"
#include "autograd/node.h"
#include "autograd/recording/saved.h"

/* ctx */
typedef struct shmt__py_context {
  PyObject_HEAD PyObject* dict;
  PyObject* weakrefs;
  PyObject* to_save; /* tuple, until the node has it */
  PyObject* for_forward; /* tuple, what jvp gets as saved_tensors; until forward is done */
  PyObject* dirty;
  PyObject* non_differentiable;
  PyObject* needs_input_grad;
  shmt_node* node; /* borrowed; NULL before it is made and once it ended */
  char materialize;
  bool had_node;
  bool cleared; /* clear_saved_tensors_on_access: they were asked for */
} shmt__py_context;

typedef struct shmt__py_function_node {
  shmt_node node;
  PyObject* ctx;   /* owned */
  bool* is_tensor; /* per argument of forward; malloc'ed */
  Py_ssize_t n_args;
  shmt__saved* saved; /* malloc'ed */
  uint32_t n_saved;
} shmt__py_function_node;

/* The ctx of a node of a Python Function (borrowed); NULL for other nodes. */
static inline PyObject* shmt__py_function_context(const shmt_node* n) {
  return n->klass->is_python ? ((const shmt__py_function_node*)n)->ctx : NULL;
}

const shmt__node_class* shmt__py_function_class(PyTypeObject* backward_cls);
bool shmt__py_is_context(PyObject* o);
/* The lowest level of forward mode that belongs to a call with these inputs, see Note [Levels of forward mode] in
 * autograd/forward/tangents.h; they may have no tangent of it. */
shmt__forward_number shmt__py_function_first_level(PyObject* inputs);
/* When an input has a tangent: call cls.jvp, and give the outputs (a tuple) what it returns. -1 and an exception when
 * it raises or returns what does not fit. */
int shmt__py_function_jvp(PyObject* cls, shmt__py_context* ctx, PyObject* inputs, PyObject* outputs);

#endif
