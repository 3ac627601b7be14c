/* os/placement.c -- asks the kernel for huge pages, and for pages on chosen NUMA nodes. */
#define _GNU_SOURCE
#include "os/placement.h"

#include "os/memfd.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of the kernel's mempolicy.h, which is not installed everywhere. */
enum { POLICY_DEFAULT = 0, POLICY_PREFERRED = 1, POLICY_BIND = 2, POLICY_INTERLEAVE = 3 };

static int policy_of(int numa) {
  switch (numa) {
    case SHMT_NUMA_BIND:
      return POLICY_BIND;
    case SHMT_NUMA_PREFERRED:
      return POLICY_PREFERRED;
    case SHMT_NUMA_INTERLEAVE:
      return POLICY_INTERLEAVE;
    default:
      return POLICY_DEFAULT;
  }
}

void shmt__os_place(char* base, uint64_t offset, uint64_t nbytes, const shmt__placement* p,
                    int* out_huge_errno, int* out_numa_errno) {
  uint64_t page = shmt__os_page_bytes();
  uint64_t begin = offset & ~(page - 1), end = (offset + nbytes + page - 1) & ~(page - 1);
  *out_huge_errno = *out_numa_errno = 0;
  if (p->huge && madvise(base + begin, end - begin, MADV_HUGEPAGE) != 0) *out_huge_errno = errno;
#ifdef SYS_mbind
  bool any = p->numa == SHMT_NUMA_ANY;
  unsigned long nodes = (unsigned long)p->nodes;
  long done = syscall(SYS_mbind, base + begin, end - begin, (long)policy_of(p->numa),
                      any ? NULL : &nodes, any ? 0UL : 8 * sizeof nodes + 1, 0UL);
  if (done != 0 && !(any && errno == ENOSYS)) *out_numa_errno = errno;
#else
  if (p->numa != SHMT_NUMA_ANY) *out_numa_errno = ENOSYS;
#endif
}
