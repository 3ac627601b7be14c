/* ops/sorting/sort.h -- sorting for operators that build on it. */
#ifndef SHMT_OPS_SORTING_SORT_H
#define SHMT_OPS_SORTING_SORT_H

#include "kernels/loop_args.h"
#include "tensor/tensor.h"

/* A vector sorted ascending and stably, with where its elements were. Two new references, dense. Fails with SHMT_E_NOMEM. */
shmt_status shmt__sort_vector(shmt_tensor* self, shmt_tensor** values, shmt_tensor** indices);

/* What is done with every line along a dim. */
typedef struct shmt__slice_work shmt__slice_work;
struct shmt__slice_work {
  /* The line's elements are `step` bytes apart, and lie together when they are shorter than SHMT_LONG_SLICE. The results
   * are dense. False: no memory. */
  bool (*run)(const shmt__slice_work* work, const char* x, int64_t step, char* values, int64_t* indices, char* scratch);
  shmt_dtype dtype;
  int64_t length;
  shmt__sort_args shape;
  uint64_t scratch_bytes;
  bool is_parallel; /* run itself uses all threads */
};

/* Do work on the lines of self along dim. values (of self's dtype) and indices (int64) are dense, not empty, and of self's
 * sizes but along dim. Fails with SHMT_E_NOMEM. */
shmt_status shmt__for_each_slice(shmt_tensor* self, int64_t dim, const shmt__slice_work* work, shmt_tensor* values,
                                shmt_tensor* indices);

/* Sort a line of work into values and indices. scratch holds length + 16 / item elements. False: no memory. */
bool shmt__sort_slice(const shmt__slice_work* work, const char* x, int64_t step, char* values, int64_t* indices,
                     char* scratch);

/* The most frequent element along a dim (the least of them) and where it is last: values and indices as above. Fails with
 * SHMT_E_NOMEM. */
shmt_status shmt__mode_along_dim(shmt_tensor* self, int64_t dim, shmt_tensor* values, shmt_tensor* indices);

/* unique2 of a vector, dense, by counting, if that is worth it; else *done is false and there are no results. */
shmt_status shmt__unique_by_table(shmt_tensor* flat, shmt_ints inverse_sizes, bool wants_inverse, bool wants_counts,
                                  bool* done, shmt_tensor** values, shmt_tensor** inverse, shmt_tensor** counts);

/* Lines from this length on are worth shmt__sort_long_slice. */
enum { SHMT_LONG_SLICE = 4096 };

/* Sort the n elements at x, `step` bytes apart, into values and indices, stably; the results are dense and lie apart.
 * n < 2^32. Fails with SHMT_E_NOMEM. */
shmt_status shmt__sort_long_slice(shmt_dtype dtype, bool descending, int64_t n, const void* x, int64_t step,
                                 void* values, int64_t* indices);

#endif
