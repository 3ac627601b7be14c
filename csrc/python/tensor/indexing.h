/* python/tensor/indexing.h -- t[key] and t[key] = value, as torch indexes. */
#ifndef SHMT_PYTHON_TENSOR_INDEXING_H
#define SHMT_PYTHON_TENSOR_INDEXING_H

#include "python/tensor/tensor_type.h"

/* The basic part of a key applied (a view), and what is left for index.Tensor or index_put_. */
typedef struct shmt__py_indexed {
  shmt_tensor* view;                   /* owned */
  int n_indices;                       /* 0: the key was basic */
  shmt_tensor* indices[SHMT_MAX_DIMS]; /* owned; NULL for a dim without one */
} shmt__py_indexed;

/* Apply key to t. 0, or -1 with an exception and nothing to release.
 * for_assignment: 0-d integral tensors select, as they do when reading. */
int shmt__py_index_basic(shmt_tensor* t, PyObject* key, shmt__py_indexed* out);
void shmt__py_indexed_fini(shmt__py_indexed* x);

/* A sequence, scalar, array or tensor as a new tensor of its own inferred dtype (construct.h). */
#endif
