/* os/channel.h -- finds out whether a pipe or Unix socket, given by its inode, still has a reader.
 *
 * It asks /proc and the kernel's socket diagnosis (sock_diag). "Not known" is an answer of its own: callers that free what
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

/* What fd is an end of. out_inode: of the pipe, or of the socket itself. */
shmt__os_end shmt__os_end_of(int fd, uint64_t* out_inode);

typedef enum shmt__os_seen { SHMT_SEEN_NO, SHMT_SEEN_YES, SHMT_SEEN_UNKNOWN } shmt__os_seen;

/* Is there a Unix socket with this inode in this network namespace, perhaps in flight in a message?
 * out_peer (may be NULL): the inode at its other end, 0 when that has none or was not accepted yet. */
shmt__os_seen shmt__os_unix_socket(uint64_t inode, uint64_t* out_peer);
/* Does the pipe have readers? pid has an end of it open as fd. Ends in flight in messages count. UNKNOWN: pid has no such
 * end, or may not be inspected. */
shmt__os_seen shmt__os_pipe_has_readers(int32_t pid, int fd, uint64_t inode);
/* Visit all ends of pipes that processes have open. False: there may be others that we have no right to see. all_users:
 * processes of other users count, too. */
bool shmt__os_visit_pipe_ends(bool all_users,
                              void (*visit)(int32_t pid, int fd, uint64_t inode, void* arg),
                              void* arg);
/* Does a socket of a process that we can inspect hold descriptors in flight? Kernels before 5.17 do not tell; then the
 * answer is no. */
bool shmt__os_descriptors_in_flight(void);

#endif
