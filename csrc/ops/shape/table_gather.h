/* ops/shape/table_gather.h -- the last dims made of picked elements of their own: the nearest ones, mirrored ones, and so on. */
#ifndef SHMT_OPS_SHAPE_TABLE_GATHER_H
#define SHMT_OPS_SHAPE_TABLE_GATHER_H

#include "tensor/tensor.h"

enum { SHMT_TABLE_GATHER_DIMS = 3 }; /* that are picked from, at most */

/* Along one dim: element i of the `out` ones is element at[i] of the `in` ones. */
typedef struct shmt__index_table {
  int64_t in, out;
  int64_t* at;
  int64_t *starts, *list; /* element k is picked by list[starts[k]], ..., list[starts[k + 1] - 1] */
} shmt__index_table;

/* Room for the tables, which the caller fills (`at`). Errors: SHMT_E_NOMEM. The owner calls shmt__index_table_fini(). */
shmt_status shmt__index_table_init(shmt__index_table* p, int64_t in, int64_t out);
void shmt__index_table_fini(shmt__index_table* p);

/* The last n dims of self picked, in self's memory format if all dims but two are, else contiguous. New reference.
 * Errors: SHMT_E_NOMEM. */
shmt_status shmt__table_gather(shmt_tensor* self, const shmt__index_table* tables, int n, shmt_tensor** out);
/* Every element the sum of those that were picked from it; grad has the picked sizes. New reference. Errors: SHMT_E_NOMEM,
 * SHMT_E_NOT_IMPLEMENTED for dtypes that are not added up. */
shmt_status shmt__table_gather_backward(const char* name, shmt_tensor* grad, shmt__index_table* tables, int n,
                                        shmt_tensor** out);

#endif
