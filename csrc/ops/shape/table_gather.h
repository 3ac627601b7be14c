/* ops/shape/table_gather.h -- gathers the last dims by tables of indices: for nearest-neighbour resampling, reflection
 * padding, and so on. */
#ifndef SHMT_OPS_SHAPE_TABLE_GATHER_H
#define SHMT_OPS_SHAPE_TABLE_GATHER_H

#include "tensor/tensor.h"

enum { SHMT_TABLE_GATHER_DIMS = 3 }; /* gathered dims, at most */

/* The table of one dim: element i of `out` is element at[i] of `in`. */
typedef struct shmt__index_table {
  int64_t in, out;
  int64_t* at;
  int64_t *starts, *list; /* element k is gathered by list[starts[k]], ..., list[starts[k + 1] - 1] */
} shmt__index_table;

/* Allocates the tables. The caller fills `at`, and calls shmt__index_table_fini() in the end. Errors: SHMT_E_NOMEM. */
shmt_status shmt__index_table_init(shmt__index_table* p, int64_t in, int64_t out);
void shmt__index_table_fini(shmt__index_table* p);

/* Gathers the last n dims of self. The result has self's memory format if n is all dims but two, else it is contiguous.
 * New reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__table_gather(shmt_tensor* self, const shmt__index_table* tables, int n, shmt_tensor** out);
/* Sums for every element of the input the gradients of those gathered from it. grad has the gathered sizes. New
 * reference. Errors: SHMT_E_NOMEM, SHMT_E_NOT_IMPLEMENTED for dtypes that have no sums. */
shmt_status shmt__table_gather_backward(const char* name, shmt_tensor* grad, shmt__index_table* tables, int n,
                                        shmt_tensor** out);

#endif
