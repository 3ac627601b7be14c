/* shm/manager/ranges.h -- a list of free ranges, from which the manager allocates parts of the arena and block records.
 *
 * Allocation is first fit, and neighbouring free ranges are merged. The list is private memory of the manager. After a
 * restart it is built again from the slabs that exist. */
#ifndef SHMT_SHM_MANAGER_RANGES_H
#define SHMT_SHM_MANAGER_RANGES_H

#include "base/error.h"

typedef struct shmt__range {
  uint64_t begin, end;
} shmt__range;

typedef struct shmt__ranges {
  shmt__range* at; /* the free ranges: sorted, and with something in use between any two */
  uint32_t len, cap;
} shmt__ranges;

/* Everything from 0 to end is free. */
bool shmt__ranges_init(shmt__ranges* r, uint64_t end);
void shmt__ranges_fini(shmt__ranges* r);
/* Allocate n in a row, the lowest that are free. False: there are none. */
bool shmt__ranges_take(shmt__ranges* r, uint64_t n, uint64_t* out_begin);
/* Allocate exactly this range. False: part of it is in use. */
bool shmt__ranges_take_at(shmt__ranges* r, uint64_t begin, uint64_t n);
/* Free a range. When memory is out, the range is forgotten and stays unused. */
void shmt__ranges_give(shmt__ranges* r, uint64_t begin, uint64_t n);

#endif
