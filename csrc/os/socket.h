/* os/socket.h -- Unix sockets that carry packets, descriptors and credentials.
 *
 * A name that begins with '/' is a path; any other name is abstract. Abstract names vanish with
 * their owner, so a killed daemon leaves no file behind. They have no mode bits, so both ends check
 * the other's user id. Functions that return an int return -errno on failure. The caller closes the
 * descriptors that they return.
 */
#ifndef SHMT_OS_SOCKET_H
#define SHMT_OS_SOCKET_H

#include "base/error.h"

enum {
  SHMT_SOCKET_MAX_FDS = 4,
  SHMT_SOCKET_FDS_LOST = -1, /* in place of their number: descriptors came, and this process has no room for them */
};

enum { SHMT_SOCKET_PATH_BYTES = 108 }; /* the kernel's limit, with the zero at the end */

typedef struct shmt__peer {
  int32_t pid; /* 0: not visible in this pid namespace */
  uint32_t uid;
} shmt__peer;

/* Bind and listen, with credentials (shmt__os_pass_credentials). Returns the descriptor, or -errno (EADDRINUSE: another
 * process listens, or a killed one left the path behind). A path gets mode 0600. */
int shmt__os_listen(const char* name);
/* Connect. Returns the descriptor, or -errno (ECONNREFUSED: nobody listens, or the path does not exist). */
int shmt__os_connect(const char* name);
/* Let the members of a group connect to the socket at a path. 0 or -errno. */
int shmt__os_open_socket_to(const char* path, uint32_t gid);
/* The same at the path at which this socket listens, if it has one. */
int shmt__os_open_path_of(int listener, uint32_t gid);
/* Is there a socket at the path? */
bool shmt__os_socket_exists(const char* path);
/* Remove the socket that a killed process left at a path. Another kind of file is not removed. */
void shmt__os_remove_socket(const char* path);
/* Remove the path at which this socket listens, if it has one. */
void shmt__os_remove_path_of(int listener);
/* Request credentials with every packet of the connections that are accepted from now on. It is set on the listener,
 * from which they inherit it: setting it after accept() would be too late for a packet that has arrived already. */
bool shmt__os_pass_credentials(int listener);
/* Accept one waiting connection and make it non-blocking. Returns its descriptor, or -errno (EAGAIN: none is
 * waiting). */
int shmt__os_accept(int listener);
/* Two connected ends, which pass credentials as those of a listener above. 0, or -errno. */
int shmt__os_socket_pair(int out[2]);
/* Who is at the other end, as the kernel noted it when the connection was made. False: not known, or a user that cannot
 * be told from others: Note [Unknown users] in os/process.h. */
bool shmt__os_peer(int fd, shmt__peer* out);
/* Is the process at the other end in this group? False also when the group cannot be told from others. */
bool shmt__os_peer_in_group(int fd, uint32_t gid);

/* Send one packet with descriptors, which stay the caller's. Returns 0 or -errno (EAGAIN: the socket is full). Never
 * blocks and never raises SIGPIPE. */
int shmt__os_send(int fd, const void* p, size_t nbytes, const int* fds, int n_fds);
enum {
  SHMT_OS_AGAIN = 11,
  SHMT_OS_REFUSED = 111,
  SHMT_OS_IN_USE = 98,
  SHMT_OS_DENIED = 13,
  SHMT_OS_FULL = 24, /* no descriptor is left */
  SHMT_OS_ABORTED = 103,
}; /* the errno values that callers treat differently */

/* Receive one packet without waiting. Returns its length, 0 at the end of the stream, or -errno (EMSGSIZE: the packet
 * is longer than capacity). fds has room for SHMT_SOCKET_MAX_FDS descriptors, which the caller closes (with
 * shmt__closers_close in a program that has closers); surplus ones are closed here. *n_fds is SHMT_SOCKET_FDS_LOST, and
 * all are closed, when one of them was lost. peer (may be NULL): the sender's credentials if the socket passes them,
 * else pid 0 and uid UINT32_MAX. */
int shmt__os_receive(int fd, void* p, size_t capacity, int* fds, int* n_fds, shmt__peer* peer);
/* Wait until fd is readable, at most timeout_ms (< 0: forever). Returns 1: readable, 0: timeout, or -errno. */
int shmt__os_wait_readable(int fd, int timeout_ms);
/* Wait until the other end is gone, or fd is no socket any more. */
void shmt__os_wait_end(int fd);
typedef struct shmt__os_polled {
  int fd;
  bool is_ready; /* can be read without waiting, or is broken; is written */
} shmt__os_polled;
/* Wait until one of n descriptors is ready, at most timeout_ms. Returns how many are, or -errno: EINTR for a signal,
 * EBADF where one is not open, which is the one that is marked then. */
int shmt__os_wait_any_readable(shmt__os_polled* polled, size_t n, int timeout_ms);
/* The same as shmt__os_wait_readable, but a signal ends the wait too, with 0. */
int shmt__os_wait_readable_once(int fd, int timeout_ms);

#endif
