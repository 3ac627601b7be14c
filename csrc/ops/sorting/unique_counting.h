/* ops/sorting/unique_counting.h -- unique elements by counting in a table. */
#ifndef SHMT_OPS_SORTING_UNIQUE_COUNTING_H
#define SHMT_OPS_SORTING_UNIQUE_COUNTING_H

#include "tensor/tensor.h"

/* unique2 of a dense vector by counting in a table, if that pays. Otherwise *done is false and there are no results. */
shmt_status shmt__unique_by_table(shmt_tensor* flat, shmt_ints inverse_sizes, bool wants_inverse, bool wants_counts,
                                  bool* done, shmt_tensor** values, shmt_tensor** inverse, shmt_tensor** counts);

#endif
