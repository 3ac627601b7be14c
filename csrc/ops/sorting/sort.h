/* ops/sorting/sort.h -- sorting of slices along a dim, for all operators of this folder.
 *
 * A slice is what one gets by fixing the indices of all dims but one: a vector, in general strided.
 */
#ifndef SHMT_OPS_SORTING_SORT_H
#define SHMT_OPS_SORTING_SORT_H

#include "kernels/loop_args.h"
#include "tensor/tensor.h"

/* Sorts a vector ascending and stably, and returns the indices its elements had. Two new references, dense. Fails with
 * SHMT_E_NOMEM. */
shmt_status shmt__sort_vector(shmt_tensor* self, shmt_tensor** values, shmt_tensor** indices);

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

/* The most frequent element along a dim (the least of them) and its last index. values and indices: as above. Fails
 * with SHMT_E_NOMEM. */
shmt_status shmt__mode_along_dim(shmt_tensor* self, int64_t dim, shmt_tensor* values, shmt_tensor* indices);

/* unique2 of a dense vector by counting in a table, if that pays. Otherwise *done is false and there are no results. */
shmt_status shmt__unique_by_table(shmt_tensor* flat, shmt_ints inverse_sizes, bool wants_inverse, bool wants_counts,
                                  bool* done, shmt_tensor** values, shmt_tensor** inverse, shmt_tensor** counts);

/* Slices from this length on are worth shmt__sort_long_slice. */
enum { SHMT_LONG_SLICE = 4096 };

/* Sorts the n elements at x, `step` bytes apart, into values and indices, stably, with all threads. The results are
 * dense and do not overlap. n < 2^32. Fails with SHMT_E_NOMEM. */
shmt_status shmt__sort_long_slice(shmt_dtype dtype, bool descending, int64_t n, const void* x, int64_t step,
                                  void* values, int64_t* indices);

#endif
