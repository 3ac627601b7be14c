/* python/call/call.h -- the path of every generated function, from a Python call to an operator and back.
 *
 * For each Python name the generator emits a shmt__py_function and a METH_FASTCALL trampoline that calls shmt__py_call.
 * Parsing fills an array of shmt_value. The operator is called with boxed arguments, from the highest key on. Results
 * are wrapped as the schema says.
 *
 * There is nothing to parse in a call with plain tensors alone, as x.detach() and add(x, y) are: see `straight`.
 */
#ifndef SHMT_PYTHON_CALL_CALL_H
#define SHMT_PYTHON_CALL_CALL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/warn.h"
#include "dispatch/operator.h"

enum { SHMT_PY_MOST_STRAIGHT = 3 };

/* What the first call in a process warns about (`warns` of the spec), or each call (tag `warns_always`). */
typedef struct shmt__py_warning {
  const char* text;
  bool always;
  _Atomic(bool) warned;
} shmt__py_warning;

typedef struct shmt__py_signature {
  const shmt_operator* op;
  bool is_factory;           /* takes requires_grad=False and shared=False besides the schema's arguments */
  const char* result_fields; /* "values indices" for a named-tuple result; NULL otherwise */
  shmt__py_warning* warning; /* NULL for most */
  const char* order; /* deprecated: arguments given by position in this order, "beta mat vec"; NULL for most */
} shmt__py_signature;

typedef struct shmt__py_function {
  const char* name;                        /* as Python says it: "add" or "add_" */
  const shmt__py_signature* signatures;    /* tried in this order; out= overloads are merged by the parser */
  int n_signatures;
  bool is_method;                          /* the first Tensor argument is self */
  /* The call with this many tensors alone, as C makes it: all other arguments have their defaults. NULL: it needs more
   * than tensors, or gives something else than one. */
  shmt_status (*straight)(shmt_tensor* const* given, shmt_tensor** out);
  int n_straight;
  const struct shmt__py_prepared* prepared; /* NULL until its first call (prepare.h) */
} shmt__py_function;

/* New reference, or NULL with an exception set. self is NULL for functions. */
PyObject* shmt__py_call(shmt__py_function* f, PyObject* self, PyObject* const* args, Py_ssize_t n_args,
                        PyObject* kwnames);

/* Generated: null-terminated tables. */
extern PyMethodDef shmt__py_functions[];    /* module functions (variants: function) */
extern PyMethodDef shmt__py_nn_functions[]; /* variants: nn */
extern PyMethodDef shmt__py_methods[];      /* methods and in-place methods of _TensorBase */

#endif
