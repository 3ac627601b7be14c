/* ops/reduce/reduce.h -- what the reducing operators share: dims, result shapes and dtypes. */
#ifndef SHMT_OPS_REDUCE_REDUCE_H
#define SHMT_OPS_REDUCE_REDUCE_H

#include "iter/reduce.h"

typedef struct shmt__reduction {
  const char* name;
  int row;       /* of shmt__loops */
  uint64_t mask; /* dims that go */
  bool keepdim;
  bool ordered;         /* see shmt__reduce */
  shmt_dtype stored[2]; /* what the loop stores */
  shmt_dtype result;    /* of the first output, cast at the end; SHMT_DTYPE_NONE: as stored */
  const void* ctx;
} shmt__reduction;

/* Sizes of self without the dims of mask (size 1 there with keepdim). sizes has room for
 * SHMT_MAX_DIMS; returns how many. */
int64_t shmt__reduced_sizes(const shmt_tensor* self, uint64_t mask, bool keepdim, int64_t* sizes);

/* Run r over self, whose dtype is what the loop reads, into n_outs outputs that are preset or not.
 * Errors: SHMT_E_NOT_IMPLEMENTED (no loop for the dtype), those of shmt__prepare_out. */
shmt_status shmt__reduce_into(const shmt__reduction* r, shmt_tensor* self,
                              shmt_tensor** const* outs, int n_outs);

#endif
