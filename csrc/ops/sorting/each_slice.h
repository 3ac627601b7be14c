/* ops/sorting/each_slice.h -- work on every slice of a tensor along a dim. */
#ifndef SHMT_OPS_SORTING_EACH_SLICE_H
#define SHMT_OPS_SORTING_EACH_SLICE_H

#include "kernels/loop_args.h"
#include "tensor/tensor.h"

/* What is done with every slice along a dim. */
typedef struct shmt__slice_work shmt__slice_work;
struct shmt__slice_work {
  /* Does one slice. Its elements are `step` bytes apart; they are dense when there are fewer than SHMT_LONG_SLICE. The
   * results are dense. Returns false when there is no memory. */
  bool (*run)(const shmt__slice_work* work, const char* x, int64_t step, char* values, int64_t* indices, char* scratch);
  shmt_dtype dtype;
  int64_t length;
  shmt__sort_args shape;
  uint64_t scratch_bytes;
  bool is_parallel; /* run itself uses all threads */
};

/* Runs work on the slices of self along dim. values (of self's dtype) and indices (int64) are dense, not empty, and
 * have self's sizes except along dim. Fails with SHMT_E_NOMEM. */
shmt_status shmt__for_each_slice(shmt_tensor* self, int64_t dim, const shmt__slice_work* work, shmt_tensor* values,
                                 shmt_tensor* indices);

/* Sorts one slice into values and indices. scratch holds length + 16 / item elements. Returns false when there is no
 * memory. */
bool shmt__sort_slice(const shmt__slice_work* work, const char* x, int64_t step, char* values, int64_t* indices,
                     char* scratch);

#endif
