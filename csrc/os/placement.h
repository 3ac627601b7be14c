/* os/placement.h -- asks the kernel for huge pages, and for pages on chosen NUMA nodes, for a range of a mapping. */
#ifndef SHMT_OS_PLACEMENT_H
#define SHMT_OS_PLACEMENT_H

#include "base/error.h"

typedef enum shmt__numa_mode {
  SHMT_NUMA_ANY = 0,        /* on the node of the thread that touches the page first */
  SHMT_NUMA_BIND = 1,       /* only on the given nodes */
  SHMT_NUMA_PREFERRED = 2,  /* on the given node; on others when it is full */
  SHMT_NUMA_INTERLEAVE = 3, /* on the given nodes in turn */
} shmt__numa_mode;

typedef struct shmt__placement {
  bool huge;      /* pages of 2 MiB where a range covers them */
  int numa;       /* shmt__numa_mode */
  uint64_t nodes; /* bit n: node n */
} shmt__placement;

/* Apply a placement to a range of a shared mapping of a memory file, before its pages are touched. It belongs to the
 * file: it holds in all processes that map the file, until another placement is applied. *out_huge_errno and
 * *out_numa_errno: why the kernel refused that part; 0: it did not. */
void shmt__os_place(char* base, uint64_t offset, uint64_t nbytes, const shmt__placement* p,
                    int* out_huge_errno, int* out_numa_errno);

#endif
