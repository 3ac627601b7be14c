/* python/tensor/exchange/arrow.h -- the Arrow C data interface, for arrays of numbers in one dimension.
 *
 * Two structures travel in capsules: a schema (the type) and an array (the buffers). Whoever has a structure whose
 * `release` is not NULL owns it, and calls that once. To take a structure over is to copy it and to set `release` of
 * the original to NULL; the capsule then frees the structure alone. `release` may be called on any thread.
 *
 * Source: the Arrow C data interface and its PyCapsule interface. */
#ifndef SHMT_PYTHON_TENSOR_ARROW_H
#define SHMT_PYTHON_TENSOR_ARROW_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>

typedef struct shmt__arrow_schema {
  const char* format; /* the type: "f" is float32 */
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct shmt__arrow_schema** children;
  struct shmt__arrow_schema* dictionary;
  void (*release)(struct shmt__arrow_schema*);
  void* context;
} shmt__arrow_schema;

typedef struct shmt__arrow_array {
  int64_t length;
  int64_t null_count; /* -1: not counted */
  int64_t offset;     /* elements before the first one */
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers; /* [0]: a bit for each element that is not null, or NULL; [1]: the elements */
  struct shmt__arrow_array** children;
  struct shmt__arrow_array* dictionary;
  void (*release)(struct shmt__arrow_array*);
  void* context;
} shmt__arrow_array;

_Static_assert(sizeof(shmt__arrow_schema) == 72 && offsetof(shmt__arrow_schema, release) == 56, "as specified");
_Static_assert(sizeof(shmt__arrow_array) == 80 && offsetof(shmt__arrow_array, release) == 64, "as specified");

extern PyMethodDef shmt__py_arrow_methods[];   /* of _TensorBase */
extern PyMethodDef shmt__py_arrow_functions[]; /* of the module */

#endif
