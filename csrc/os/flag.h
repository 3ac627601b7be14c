/* os/flag.h -- descriptors that are readable while a flag is up, for select() and event loops.
 *
 * Each is a Unix socket that is connected to itself, and has a byte to read while the flag is up. An eventfd would do
 * the same, but all of them share one inode: Note [Kept descriptors] in os/descriptor.h.
 */
#ifndef SHMT_OS_FLAG_H
#define SHMT_OS_FLAG_H

/* Make one with its flag down, close-on-exec and non-blocking. Returns it (the caller closes it), or -errno. */
int shmt__os_flag_open(void);
/* Put the flag up, when it is down, or down. */
void shmt__os_flag_raise(int fd);
void shmt__os_flag_lower(int fd);

#endif
