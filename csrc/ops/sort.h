/* ops/sort.h -- sorting for operators that build on it. */
#ifndef SHMT_OPS_SORT_H
#define SHMT_OPS_SORT_H

#include "tensor/tensor.h"

/* A vector sorted ascending and stably, with where its elements were. Two new references, dense. */
shmt_status shmt__sorted_line(shmt_tensor* self, shmt_tensor** values, shmt_tensor** indices);

/* The most frequent element along a dim (the least of them) and where it is last: values and indices are dense, of as
 * many elements as self has lines; there are some. Fails with SHMT_E_NOMEM. */
shmt_status shmt__mode_of_lines(shmt_tensor* self, int64_t dim, shmt_tensor* values, shmt_tensor* indices);

/* unique2 of a vector, dense, by counting, if that is worth it; else *done is false and there are no results. */
shmt_status shmt__unique_by_table(shmt_tensor* flat, shmt_ints inverse_sizes, bool wants_inverse, bool wants_counts,
                                  bool* done, shmt_tensor** values, shmt_tensor** inverse, shmt_tensor** counts);

/* Lines from this length on are worth shmt__sort_long_line. */
enum { SHMT_LONG_LINE = 4096 };

/* Sort the n elements at x into values and indices, stably; all dense, and apart. n < 2^32.
 * Fails with SHMT_E_NOMEM. */
shmt_status shmt__sort_long_line(shmt_dtype dtype, bool descending, int64_t n, const void* x, void* values,
                                 int64_t* indices);

#endif
