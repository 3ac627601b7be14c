/* python/call/prepare.h -- what a Python call needs to know about an operator, computed at its first call.
 *
 * shmt__py_function comes from the generator; here its names are interned, its defaults parsed, its out= arguments
 * found. It keeps what is prepared until the process ends.
 */
#ifndef SHMT_PYTHON_CALL_PREPARE_H
#define SHMT_PYTHON_CALL_PREPARE_H

#include "python/call/call.h"

enum { SHMT_PY_MAX_ALIASES = 4 };

typedef struct shmt__py_arg {
  PyObject* name;                         /* interned */
  PyObject* aliases[SHMT_PY_MAX_ALIASES]; /* other accepted keywords, interned; NULL after the last */
  const shmt_arg* arg;
  uint8_t slot; /* its index in the schema */
  bool required;
  bool optional;  /* None is a value */
  bool none_is_default; /* ints that are [] when left out: None leaves them out */
  bool number_ok; /* a Tensor argument that takes a Python number */
  bool is_reduction; /* an int argument that takes 'none', 'mean' and 'sum' too */
} shmt__py_arg;

typedef struct shmt__py_prepared_signature {
  const shmt__py_signature* from;
  const shmt_schema* schema;
  int n_args; /* in args; without a method's self and without out= */
  int n_positional;
  int n_required;
  int self_slot; /* of methods; -1 for functions */
  int n_out;
  uint8_t out_slots[SHMT_SCHEMA_MAX_RETURNS];
  int8_t returned_slot[SHMT_SCHEMA_MAX_RETURNS]; /* per return: the argument that comes back, or -1 */
  int varargs; /* f(2, 3) means f((2, 3)), from so many ints on; 0: never */
  bool hidden;               /* repeats an earlier signature in messages (its out= form) */
  PyTypeObject* return_type; /* of a named-tuple result; NULL otherwise */
  shmt__py_arg* args;   /* as many as the schema has, of which n_args are used */
  shmt_value* defaults; /* by schema slot */
} shmt__py_prepared_signature;

typedef struct shmt__py_prepared {
  const shmt__py_function* from;
  bool mixes_devices; /* takes tensors of several devices */
  int n_signatures;
  int n_without_out; /* of them */
  shmt__py_prepared_signature signatures[];
} shmt__py_prepared;

/* NULL with an exception when a signature cannot be represented (an error in the spec). */
SHMT_COLD const shmt__py_prepared* shmt__py_prepare_new(shmt__py_function* f);
static inline const shmt__py_prepared* shmt__py_prepare(shmt__py_function* f) {
  return SHMT_LIKELY(f->prepared != NULL) ? f->prepared : shmt__py_prepare_new(f);
}

/* Is it the argument's name, or one of its aliases? */
bool shmt__py_is_argument_name(const shmt__py_arg* a, PyObject* name);

/* "Tensor", "tuple of ints": the type as messages call it. */
const char* shmt__py_type_name(shmt_type type);

extern PyObject* shmt__py_str_out; /* interned keyword names */
extern PyObject* shmt__py_str_requires_grad;
extern PyObject* shmt__py_str_pin_memory;
extern PyObject* shmt__py_str_shared;
extern PyObject* shmt__py_str_reductions[3]; /* the names of the codes 0, 1, 2 */

/* Does a function take Python numbers for its Tensor arguments, in place of Scalar overloads where there are some, as
 * in torch? */
bool shmt__py_takes_scalar_as_tensor(const char* name);

#endif
