/* ops/shape/table_gather.h -- the last dims made of picked elements of their own: the nearest ones, mirrored ones, and so on. */
#ifndef SHMT_OPS_SHAPE_TABLE_GATHER_H
#define SHMT_OPS_SHAPE_TABLE_GATHER_H

#include "tensor/tensor.h"

enum { SHMT_PICK_DIMS = 3 }; /* that are picked from, at most */

/* Along one dim: element i of the `out` ones is element at[i] of the `in` ones. */
typedef struct shmt__picks {
  int64_t in, out;
  int64_t* at;
  int64_t *starts, *list; /* element k is picked by list[starts[k]], ..., list[starts[k + 1] - 1] */
} shmt__picks;

/* Room for the tables, which the caller fills (`at`). Errors: SHMT_E_NOMEM. The owner calls shmt__picks_fini(). */
shmt_status shmt__picks_init(shmt__picks* p, int64_t in, int64_t out);
void shmt__picks_fini(shmt__picks* p);

/* The last n dims of self picked, in self's memory format if all dims but two are, else contiguous. New reference.
 * Errors: SHMT_E_NOMEM. */
shmt_status shmt__pick(shmt_tensor* self, const shmt__picks* picks, int n, shmt_tensor** out);
/* Every element the sum of those that were picked from it; grad has the picked sizes. New reference. Errors: SHMT_E_NOMEM,
 * SHMT_E_NOT_IMPLEMENTED for dtypes that are not added up. */
shmt_status shmt__pick_backward(const char* name, shmt_tensor* grad, shmt__picks* picks, int n, shmt_tensor** out);

#endif
