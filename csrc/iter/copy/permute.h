/* iter/copy/permute.h -- moving elements of one dtype between any two orders of dims. */
#ifndef SHMT_ITER_COPY_PERMUTE_H
#define SHMT_ITER_COPY_PERMUTE_H

#include "iter/iter.h"

/* Operand 0 = operand 1 of an iterator that has been built, whose dtypes are one of `item` bytes. The iterator's dims are
 * no longer what they were; it has still to be finished. Cannot fail. */
void shmt__permute(shmt_iter* it, int64_t item);

#endif
