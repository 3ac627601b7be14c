/* os/socket.h -- Unix sockets that carry packets, descriptors and credentials.
 *
 * A name that begins with '/' is a path, any other an abstract one. Abstract names vanish with
 * their owner, so a killed daemon leaves no file. They have no mode bits: both ends check the
 * other's user id instead.
 */
#ifndef SHMT_OS_SOCKET_H
#define SHMT_OS_SOCKET_H

#include "base/error.h"

enum { SHMT_SOCKET_MAX_FDS = 4 };

enum { SHMT_SOCKET_PATH_BYTES = 108 }; /* the kernel's limit, with the zero at the end */

typedef struct shmt__peer {
  int32_t pid; /* 0: not visible from here */
  uint32_t uid;
} shmt__peer;

/* Bind and listen. Returns the descriptor, or -errno (EADDRINUSE: another listens, or a killed one
 * left the path). A path gets mode 0600. */
int shmt__os_listen(const char* name);
/* Connect. Returns the descriptor, or -errno (ECONNREFUSED: nobody listens; no such path is told
 * as that, too). */
int shmt__os_connect(const char* name);
/* Let the members of a group connect to the socket at a path. 0 or -errno. */
int shmt__os_open_socket_to(const char* path, uint32_t gid);
/* Remove the socket that a killed process left at a path; another kind of file stays. */
void shmt__os_remove_socket(const char* path);
/* Have credentials on every packet of the connections that are accepted from now on. They inherit
 * it: a packet that comes between accept() and a setsockopt() of theirs would have none. */
bool shmt__os_pass_credentials(int listener);
/* Take one waiting connection, non-blocking; -errno when none. */
int shmt__os_accept(int listener);
/* Who is at the other end, as the kernel saw it when the connection was made. */
bool shmt__os_peer(int fd, shmt__peer* out);
/* Is the process at the other end in this group? */
bool shmt__os_peer_in_group(int fd, uint32_t gid);

/* Send one packet with descriptors; 0 or -errno. Never raises SIGPIPE, never blocks on a full
 * socket (-EAGAIN). */
int shmt__os_send(int fd, const void* p, size_t nbytes, const int* fds, int n_fds);
enum {
  SHMT_OS_AGAIN = 11,
  SHMT_OS_REFUSED = 111,
  SHMT_OS_IN_USE = 98,
  SHMT_OS_DENIED = 13,
  SHMT_OS_FULL = 24, /* no descriptor is left */
}; /* errno values that callers tell apart */

/* Take one packet without waiting. Returns its length, 0 at the end of the stream, -errno.
 * fds has room for SHMT_SOCKET_MAX_FDS; surplus descriptors are closed, a longer packet gives
 * -EMSGSIZE. peer (may be NULL) gets the sender's credentials where the socket passes them, else
 * pid 0. */
int shmt__os_receive(int fd, void* p, size_t capacity, int* fds, int* n_fds, shmt__peer* peer);
/* The same, but a signal ends it too, with 0. */
int shmt__os_wait_readable_once(int fd, int timeout_ms);
/* Wait until fd is readable. 1 ready, 0 timed out, -errno. timeout_ms < 0 waits for ever. */
int shmt__os_wait_readable(int fd, int timeout_ms);

#endif
