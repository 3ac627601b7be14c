/* shm/ranges.h -- which parts of a line of addresses are free; first fit, neighbours join.
 *
 * Private memory of the manager. After a restart it is made anew from the slabs that exist. */
#ifndef SHMT_SHM_RANGES_H
#define SHMT_SHM_RANGES_H

#include "base/error.h"

typedef struct shmt__range {
  uint64_t begin, end;
} shmt__range;

typedef struct shmt__ranges {
  shmt__range* at; /* sorted, disjoint, never touching */
  uint32_t len, cap;
} shmt__ranges;

/* Everything from 0 to end is free. */
bool shmt__ranges_init(shmt__ranges* r, uint64_t end);
void shmt__ranges_fini(shmt__ranges* r);
/* The lowest free n in a row. */
bool shmt__ranges_take(shmt__ranges* r, uint64_t n, uint64_t* out_begin);
/* Exactly this range; false when part of it is taken. */
bool shmt__ranges_take_at(shmt__ranges* r, uint64_t begin, uint64_t n);
/* The range becomes free. When out of memory it is forgotten, and stays unused. */
void shmt__ranges_give(shmt__ranges* r, uint64_t begin, uint64_t n);

#endif
