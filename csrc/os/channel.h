/* os/channel.h -- finds out whether a pipe or Unix socket, given by its inode, still has a reader.
 *
 * It asks /proc and the kernel's socket diagnosis (sock_diag). The answer can be "unknown". A caller that frees what
 * nobody can read any more must then keep it.
 */
#ifndef SHMT_OS_CHANNEL_H
#define SHMT_OS_CHANNEL_H

#include "base/error.h"

typedef enum shmt__os_end {
  SHMT_END_OTHER,  /* a file, a socket of another family, or a FIFO with a path, which anybody may open */
  SHMT_END_PIPE,
  SHMT_END_SOCKET,
} shmt__os_end;

/* Which kind of channel fd is an end of. *out_inode: the inode of the pipe, or of the socket itself; 0 when fd is
 * invalid. */
shmt__os_end shmt__os_end_of(int fd, uint64_t* out_inode);

typedef enum shmt__os_seen { SHMT_SEEN_NO, SHMT_SEEN_YES, SHMT_SEEN_UNKNOWN } shmt__os_seen;

/* Does a Unix socket with this inode exist in this network namespace? One that is in flight in a message exists, too.
 * YES: *out_peer (may be NULL) is the inode of its other end, 0 when it has none or was not accepted yet; *out_is_empty
 * (may be NULL) says that nothing waits there to be read. */
shmt__os_seen shmt__os_unix_socket(uint64_t inode, uint64_t* out_peer, bool* out_is_empty);
/* Does the pipe have readers? The process pid must have an end of it open as fd. Readers in flight in messages count.
 * UNKNOWN: pid has no such end, or this process may not inspect it. Else *out_is_empty says that nothing waits there to
 * be read. */
shmt__os_seen shmt__os_pipe_has_readers(int32_t pid, int fd, uint64_t inode, bool* out_is_empty);
/* Call visit for each end of a pipe that a process has open. Returns false when there may be others that this process
 * cannot see: of processes that it may not look at, outside of its pid namespace, or hidden by /proc. Processes that
 * have no user id of ours count for that answer only with all_users, or when we are root. */
bool shmt__os_visit_pipe_ends(bool all_users,
                              void (*visit)(int32_t pid, int fd, uint64_t inode, void* arg),
                              void* arg);
/* Does a socket of any process hold descriptors in flight? In doubt yes: where processes or their sockets cannot be
 * inspected, for lack of descriptors or rights. Kernels before 5.17 do not tell; then the answer is false. */
bool shmt__os_descriptors_in_flight(void);

#endif
