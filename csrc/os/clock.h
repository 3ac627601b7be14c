/* os/clock.h -- clocks that are cheap to read. */
#ifndef SHMT_OS_CLOCK_H
#define SHMT_OS_CLOCK_H

#include <stdint.h>

/* Milliseconds of the monotonic clock, which is never set. It is coarse (a few ms) and takes some nanoseconds to
 * read. Processes in different time namespaces read different times. */
uint64_t shmt__os_now_ms(void);
/* Milliseconds of the time of day, as coarse and as cheap. All processes of the machine read the same, in whatever time
 * namespace; but it may be set, so nothing is decided by it. */
uint64_t shmt__os_wall_ms(void);
/* Processor time of this thread in milliseconds. It takes some hundred nanoseconds to read. */
uint64_t shmt__os_thread_cpu_ms(void);

#endif
