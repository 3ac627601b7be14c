/* os/placement.h -- where the kernel is asked to put the pages of a map: page size and NUMA node. */
#ifndef SHMT_OS_PLACEMENT_H
#define SHMT_OS_PLACEMENT_H

#include "base/error.h"

typedef enum shmt__numa_mode {
  SHMT_NUMA_ANY = 0,        /* the node of the thread that touches a page first */
  SHMT_NUMA_BIND = 1,       /* the nodes named, no others */
  SHMT_NUMA_PREFERRED = 2,  /* the node named, others when it is full */
  SHMT_NUMA_INTERLEAVE = 3, /* the nodes named in turn */
} shmt__numa_mode;

typedef struct shmt__placement {
  bool huge;      /* pages of 2 MiB where a range covers them */
  int numa;       /* shmt__numa_mode */
  uint64_t nodes; /* bit n: node n */
} shmt__placement;

/* Apply to a range of a shared map of a memory file, before its pages are touched. For the file it
 * stays, whoever maps it, until applied anew. Gives 0 or the first errno of each part. */
void shmt__os_place(char* base, uint64_t offset, uint64_t nbytes, const shmt__placement* p,
                    int* out_huge_errno, int* out_numa_errno);

#endif
