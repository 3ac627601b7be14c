/* ops/reduce/reduce.h -- runs a reduction loop into new or preset outputs: result shapes, dtypes, casts. */
#ifndef SHMT_OPS_REDUCE_REDUCE_H
#define SHMT_OPS_REDUCE_REDUCE_H

#include "iter/reduce.h"

typedef struct shmt__reduction {
  const char* name;
  int row;       /* of shmt__loops */
  uint64_t mask; /* bit d: dim d is reduced */
  bool keepdim;
  bool ordered;         /* see shmt__reduce */
  shmt_dtype stored[2]; /* what the loop stores */
  shmt_dtype result;    /* the first output is cast to this at the end; SHMT_DTYPE_NONE: no cast */
  const void* ctx;
} shmt__reduction;

/* Stores the sizes of self without the dims of mask (with keepdim they become 1) and returns their number. sizes has
 * room for SHMT_MAX_DIMS. */
int64_t shmt__reduced_sizes(const shmt_tensor* self, uint64_t mask, bool keepdim, int64_t* sizes);

/* Runs r over self, which has the dtype that the loop reads, into n_outs outputs, which may be preset.
 * Errors: SHMT_E_NOT_IMPLEMENTED (no loop for the dtype), those of shmt__prepare_out. */
shmt_status shmt__reduce_into(const shmt__reduction* r, shmt_tensor* self,
                              shmt_tensor** const* outs, int n_outs);

#endif
