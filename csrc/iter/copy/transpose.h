/* iter/copy/transpose.h -- planes of large results, transposed. */
#ifndef SHMT_ITER_COPY_TRANSPOSE_H
#define SHMT_ITER_COPY_TRANSPOSE_H

#include "iter/iter.h"

/* Operand 0 = operand 1 of an iterator that has been built, whose dtypes are one of `item` bytes, where the one lies dense
 * along dim `row` and the other along `column`, another one; false, and nothing is done, when the result is too small or
 * either dim too short for it to pay. */
bool shmt__transpose(const shmt_iter* it, int64_t item, int row, int column);

#endif
