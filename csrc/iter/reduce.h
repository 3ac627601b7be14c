/* iter/reduce.h -- the driver of reductions: many elements into few.
 *
 * A reduction keeps a state for each result (a sum, or the best value and its index). Its loop, one function per dtype,
 * has five phases. The driver chooses the order of the loops, the tiles, and how threads share the work:
 *
 *   per tile of results:   INIT -> ACCUMULATE, ACCUMULATE, ... -> STORE
 *   split over threads:    INIT -> ACCUMULATE ... per part, then MERGE the parts in order -> STORE
 *
 * The parts depend on the number of threads that is set and not on how many take part, so that a result is the same
 * each time.
 */
#ifndef SHMT_ITER_REDUCE_H
#define SHMT_ITER_REDUCE_H

#include "tensor/tensor.h"

enum {
  SHMT_REDUCE_TILE = 256,       /* results in one run, at most */
  SHMT_REDUCE_STATE_BYTES = 32, /* of one state, at most */
};

typedef enum shmt__reduce_phase {
  SHMT_REDUCE_SIZE,       /* returns the bytes of one state; run is NULL */
  SHMT_REDUCE_INIT,       /* states of n_keep results */
  SHMT_REDUCE_ACCUMULATE, /* n_keep x n_reduce elements of in into the states */
  SHMT_REDUCE_MERGE,      /* states in `other`, which come after, into the states */
  SHMT_REDUCE_STORE,      /* states to out */
  SHMT_REDUCE_WHOLE,      /* INIT, ACCUMULATE, STORE in one call; a loop that returns 0 wants the three calls */
} shmt__reduce_phase;

typedef struct shmt__reduce_run {
  char* state;
  const char* other;
  const char* in;
  int64_t n_keep, n_reduce;
  int64_t keep_stride, reduce_stride; /* bytes, of in */
  int64_t index, index_stride; /* the index (row-major) of the first element among those of its result; and the step
                                  along n_reduce */
  char* out[2];
  int64_t out_stride[2]; /* bytes */
  int64_t count;         /* elements of each result */
  const void* ctx;
} shmt__reduce_run;

/* The mask of all n_dims dims. */
static inline uint64_t shmt__all_dims_mask(int n_dims) {
  return n_dims == 64 ? UINT64_MAX : ((uint64_t)1 << n_dims) - 1;
}

/* Returns the size in the phase SIZE, whether it is done in WHOLE, else 0. */
typedef int64_t (*shmt__reduce_loop)(shmt__reduce_phase phase, const shmt__reduce_run* run);

/* Reduce the dims of mask. outs: one or two tensors of the shape of `in` without those dims, or
 * with size 1 there (either is understood), whose dtypes are what the loop stores. ordered:
 * elements come in row-major order within a result, with their index (argmax). Errors:
 * SHMT_E_NOMEM. Ownership: borrows all. */
shmt_status shmt__reduce(shmt_tensor* in, uint64_t mask, shmt_tensor* const* outs, int n_outs,
                         bool ordered, shmt__reduce_loop loop, const void* ctx);

#endif
