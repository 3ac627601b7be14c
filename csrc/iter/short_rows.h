/* iter/short_rows.h -- iterators whose innermost dim is short, for loops that take elements in any order. */
#ifndef SHMT_ITER_SHORT_ROWS_H
#define SHMT_ITER_SHORT_ROWS_H

#include "iter/iter.h"

/* Does the loop's start cost more than its elements, and is the next dim long? */
bool shmt__iter_has_short_rows(const shmt_iter* it);
/* As shmt__iter_run, for such an iterator, which has been built: runs go along the second dim, a block at a time. */
shmt_status shmt__iter_run_short_rows(shmt_iter* it, shmt__loop loop, const void* ctx);

#endif
