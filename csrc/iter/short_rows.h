/* iter/short_rows.h -- iterators whose innermost dim is short, for loops that may take elements in any order. */
#ifndef SHMT_ITER_SHORT_ROWS_H
#define SHMT_ITER_SHORT_ROWS_H

#include "iter/iter.h"

/* Is the innermost dim so short that a call costs more than its elements, and the next dim long? */
bool shmt__iter_has_short_rows(const shmt_iter* it);
/* shmt__iter_run for such an iterator, after it was built: the loop is called along the second dim, a block at a
 * time. */
shmt_status shmt__iter_run_short_rows(shmt_iter* it, shmt__loop loop, const void* ctx);

#endif
