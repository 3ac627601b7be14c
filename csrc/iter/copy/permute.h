/* iter/copy/permute.h -- moving elements of one dtype between any two orders of dims. */
#ifndef SHMT_ITER_COPY_PERMUTE_H
#define SHMT_ITER_COPY_PERMUTE_H

#include "iter/iter.h"

/* Operand 0 = operand 1, for a built iterator whose operands have dtypes of `item` bytes. It changes the dims of the
 * iterator. Cannot fail. */
void shmt__permute(shmt_iter* it, int64_t item);

#endif
