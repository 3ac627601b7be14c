/* os/descriptor.h -- descriptors that the library keeps in the midst of a program.
 *
 * Note [Kept descriptors]
 * Descriptors belong to the program. It may close numbers that it did not open (os.closerange, a daemon that begins
 * anew), and its next file gets such a number. So a number that is kept longer than one call is kept together with the
 * device, inode and kind of what it led to, and is used or closed only after that was compared. A number that leads
 * elsewhere by now is forgotten: the file is the program's. What the library cannot do without it gets anew, or says
 * that it is gone. Ours are never 0, 1 or 2, where a program without standard streams would write messages into them,
 * and lie high where the limit allows, out of reach of loops over low numbers. Only numbers that are handed to the
 * program are low, for the sake of select(). Event descriptors all share one inode, so nothing that is kept is one.
 */
#ifndef SHMT_OS_DESCRIPTOR_H
#define SHMT_OS_DESCRIPTOR_H

#include "base/error.h"

#include <stdatomic.h>

typedef struct shmt__descriptor {
  atomic_int number; /* -1: none. relaxed: whoever sees an old number finds that it leads elsewhere */
  uint32_t kind;     /* of file, from its mode */
  uint64_t device, inode;
} shmt__descriptor;

#define SHMT_NO_DESCRIPTOR ((shmt__descriptor){.number = -1})

/* Keep fd: move it to a high number if there is one. Consumes fd; negative is fine. Nothing can fail: what cannot be
 * moved keeps its number. */
shmt__descriptor shmt__descriptor_own(int fd);
/* The same without moving it, to hand out the number. */
shmt__descriptor shmt__descriptor_of(int fd);
/* Keep a duplicate of fd, which stays the caller's. Number -1: no descriptor is left. */
shmt__descriptor shmt__descriptor_dup(int fd);
/* Keep a duplicate of the descriptor, which stays the caller's. Number -1: it is gone, or no descriptor is left. */
shmt__descriptor shmt__descriptor_copy(const shmt__descriptor* d);
/* Is there a number, without asking whether it is still ours? */
static inline bool shmt__descriptor_is_kept(const shmt__descriptor* d) {
  return atomic_load_explicit(&d->number, memory_order_relaxed) >= 0;
}
/* The number, to use at once; -1: none, or it leads elsewhere by now. */
int shmt__descriptor_number(const shmt__descriptor* d);
/* Close it if it is still ours, and forget it. */
void shmt__descriptor_close(shmt__descriptor* d);
/* Close the descriptor and put `next` in its place. Other threads may use it meanwhile when both are of one file. */
void shmt__descriptor_replace(shmt__descriptor* d, shmt__descriptor next);

/* Move a new descriptor above the standard streams. Consumes fd. Returns the number, or -1 with errno; a negative fd
 * comes back as it is, with errno untouched. */
int shmt__os_above_streams(int fd);
/* The highest number that the function above has given, and any duplicate had, ever: of all sockets, memory files and
 * reopened files, and of what came in messages. */
int shmt__os_highest_descriptor(void);
/* How many descriptors this process may have open. */
int shmt__os_descriptor_limit(void);
/* The same, of at most 100 ms ago: for what asks with each tensor, and needs no exact answer. */
int shmt__os_recent_descriptor_limit(void);
/* Could n descriptors more be opened now? Tries it with copies of fd. Returns 0 or -errno. */
int shmt__os_try_descriptors(int fd, int n);
/* Does the errno say that no descriptor is left, in this process or in the system? */
bool shmt__os_is_out_of_descriptors(int err);
/* Open /dev/null in the place of each standard stream that is closed, for a program of our own. */
void shmt__os_open_streams(void);

#endif
