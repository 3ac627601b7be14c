/* iter/build.h -- building an iterator in general; iter.c has the short cuts for common operands. */
#ifndef SHMT_ITER_BUILD_H
#define SHMT_ITER_BUILD_H

#include "iter/iter.h"

/* Broadcast, promote, check overlaps, cast, order the dims by memory, allocate, coalesce.
 * Errors: torch's; the caller finishes the iterator. */
shmt_status shmt__iter_build_general(shmt_iter* it);

#endif
