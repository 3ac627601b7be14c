/* ops/sorting/sort.h -- sorting of slices along a dim, for all operators of this folder.
 *
 * A slice is what one gets by fixing the indices of all dims but one: a vector, in general strided (each_slice.h).
 */
#ifndef SHMT_OPS_SORTING_SORT_H
#define SHMT_OPS_SORTING_SORT_H

#include "tensor/tensor.h"

/* Sorts a vector ascending and stably, and returns the indices its elements had. Two new references, dense. Fails with
 * SHMT_E_NOMEM. */
shmt_status shmt__sort_vector(shmt_tensor* self, shmt_tensor** values, shmt_tensor** indices);

/* Slices from this length on are worth shmt__sort_long_slice. */
enum { SHMT_LONG_SLICE = 4096 };

/* Sorts the n elements at x, `step` bytes apart, into values and indices, stably, with all threads. The results are
 * dense and do not overlap. n < 2^32. Fails with SHMT_E_NOMEM. */
shmt_status shmt__sort_long_slice(shmt_dtype dtype, bool descending, int64_t n, const void* x, int64_t step,
                                  void* values, int64_t* indices);

#endif
