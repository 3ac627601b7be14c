/* iter/copy/transpose.h -- transposing planes of large tensors, with streaming stores. */
#ifndef SHMT_ITER_COPY_TRANSPOSE_H
#define SHMT_ITER_COPY_TRANSPOSE_H

#include "iter/iter.h"

/* Operand 0 = operand 1, for a built iterator whose operands have dtypes of `item` bytes; one operand is dense along
 * dim `row`, the other along dim `column`. False, and nothing is done, when the result is too small or one of the
 * dims too short for it to pay. */
bool shmt__transpose(const shmt_iter* it, int64_t item, int row, int column);

#endif
