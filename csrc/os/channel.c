/* os/channel.c -- finds out whether a pipe or Unix socket still has a reader. See os/channel.h. */
#define _GNU_SOURCE
#include "os/channel.h"

#include "os/stat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

/* linux/magic.h of older headers lacks it. */
#ifndef PIPEFS_MAGIC
#define PIPEFS_MAGIC 0x50495045
#endif

/* --- sockets --- */

typedef struct diag_request {
  struct nlmsghdr head;
  struct unix_diag_req body;
} diag_request;

/* Copy the attribute of this type out of the kernel's answer. False: it has none, or a shorter one. */
static bool attribute(const char* reply, size_t nbytes, unsigned type, void* out, size_t n_out) {
  size_t at = NLMSG_ALIGN(NLMSG_HDRLEN + sizeof(struct unix_diag_msg));
  while (at + sizeof(struct nlattr) <= nbytes) {
    struct nlattr a;
    memcpy(&a, reply + at, sizeof a);
    if (a.nla_len < sizeof a || a.nla_len > nbytes - at) break;
    if (a.nla_type == type && a.nla_len >= sizeof a + n_out) {
      memcpy(out, reply + at + NLA_HDRLEN, n_out);
      return true;
    }
    at += NLA_ALIGN(a.nla_len);
  }
  return false;
}

shmt__os_seen shmt__os_unix_socket(uint64_t inode, uint64_t* out_peer, bool* out_is_empty) {
  char reply[1024] __attribute__((aligned(8)));
  diag_request request = {
      .head = {.nlmsg_len = sizeof request,
               .nlmsg_type = SOCK_DIAG_BY_FAMILY,
               .nlmsg_flags = NLM_F_REQUEST},
      .body = {.sdiag_family = AF_UNIX,
               .udiag_states = UINT32_MAX,
               .udiag_ino = (uint32_t)inode,
               .udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN,
               .udiag_cookie = {UINT32_MAX, UINT32_MAX}}};
  if (inode == 0 || inode > UINT32_MAX) return SHMT_SEEN_UNKNOWN;
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) return SHMT_SEEN_UNKNOWN;
  ssize_t n = send(fd, &request, sizeof request, 0);
  if (n == (ssize_t)sizeof request) n = recv(fd, reply, sizeof reply, MSG_DONTWAIT);
  (void)close(fd);
  struct nlmsghdr head;
  if (n < (ssize_t)sizeof head) return SHMT_SEEN_UNKNOWN;
  memcpy(&head, reply, sizeof head);
  if (head.nlmsg_type == NLMSG_ERROR) {
    struct nlmsgerr error;
    if (n < (ssize_t)(NLMSG_HDRLEN + sizeof error)) return SHMT_SEEN_UNKNOWN;
    memcpy(&error, reply + NLMSG_HDRLEN, sizeof error);
    return error.error == -ENOENT ? SHMT_SEEN_NO : SHMT_SEEN_UNKNOWN;
  }
  if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY) return SHMT_SEEN_UNKNOWN;
  uint32_t peer = 0;
  struct unix_diag_rqlen queued = {.udiag_rqueue = 1};
  (void)attribute(reply, (size_t)n, UNIX_DIAG_PEER, &peer, sizeof peer);
  (void)attribute(reply, (size_t)n, UNIX_DIAG_RQLEN, &queued, sizeof queued);
  if (out_peer != NULL) *out_peer = peer;
  if (out_is_empty != NULL) *out_is_empty = queued.udiag_rqueue == 0;
  return SHMT_SEEN_YES;
}

shmt__os_end shmt__os_end_of(int fd, uint64_t* out_inode) {
  struct stat st;
  *out_inode = 0;
  if (fstat(fd, &st) != 0) return SHMT_END_OTHER;
  *out_inode = (uint64_t)st.st_ino;
  if (S_ISFIFO(st.st_mode)) {
    struct statfs fs;
    bool has_no_path = fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
    return has_no_path ? SHMT_END_PIPE : SHMT_END_OTHER;
  }
  int family = 0;
  socklen_t length = sizeof family;
  if (!S_ISSOCK(st.st_mode) || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) != 0)
    return SHMT_END_OTHER;
  return family == AF_UNIX ? SHMT_END_SOCKET : SHMT_END_OTHER;
}

/* --- other processes' descriptors --- */

/* The number in a directory entry's name; -1: it is none. */
static int32_t number_of(const char* name) {
  char* end = NULL;
  long n = strtol(name, &end, 10);
  return end != name && *end == '\0' && n >= 0 && n <= INT32_MAX ? (int32_t)n : -1;
}

/* The inode behind a descriptor's link when it has the prefix "pipe:[" or "socket:["; else 0. */
static uint64_t inode_of(int dir, const char* name, const char* prefix) {
  char target[64];
  size_t n_prefix = strlen(prefix);
  ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
  if (n <= (ssize_t)n_prefix || memcmp(target, prefix, n_prefix) != 0) return 0;
  target[n] = '\0';
  return strtoull(target + n_prefix, NULL, 10);
}

/* Open an end of the pipe for writing, through a descriptor that another process has. It may be of another file a
 * moment later, whose opening waits or does something: Note [What was checked is what is opened] in os/process.h.
 * Returns a descriptor, which the caller closes, or -1. */
static int open_pipe(const char* path, uint64_t inode) {
  char link[32];
  struct stat st;
  if (inode_of(AT_FDCWD, path, "pipe:[") != inode) return -1;
  int found = open(path, O_PATH | O_CLOEXEC);
  if (found < 0) return -1;
  bool is_it = shmt__os_known_stat(found, &st) && S_ISFIFO(st.st_mode) && (uint64_t)st.st_ino == inode;
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", found);
  int end = is_it ? open(link, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
  (void)close(found);
  return end;
}

shmt__os_seen shmt__os_pipe_has_readers(int32_t pid, int fd, uint64_t inode, bool* out_is_empty) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%" PRId32 "/fd/%d", pid, fd);
  int end = open_pipe(path, inode);
  if (end < 0) return SHMT_SEEN_UNKNOWN;
  struct pollfd p = {.fd = end, .events = POLLOUT};
  shmt__os_seen seen = SHMT_SEEN_UNKNOWN;
  if (poll(&p, 1, 0) >= 0) seen = (p.revents & POLLERR) != 0 ? SHMT_SEEN_NO : SHMT_SEEN_YES;
  int queued = 1;
  if (seen != SHMT_SEEN_UNKNOWN) *out_is_empty = ioctl(end, FIONREAD, &queued) == 0 && queued == 0;
  (void)close(end);
  return seen;
}

/* Does one of the process's user ids let it use what is ours? A process that may not be looked at has several: its real
 * one may be that of who started it, its effective or saved one ours, or the other way round. In doubt yes. */
static bool may_be_ours(int32_t pid) {
  char path[64], line[256];
  const unsigned ours = (unsigned)geteuid();
  bool is_ours = true;
  /* The directory of a process that may not be looked at is root's, but its `status` tells. */
  (void)snprintf(path, sizeof path, "/proc/%" PRId32 "/status", pid);
  FILE* file = fopen(path, "re");
  if (file == NULL) return errno != ENOENT && errno != ESRCH;
  while (fgets(line, sizeof line, file) != NULL) {
    unsigned uid[4]; /* real, effective, saved, of the file system */
    if (sscanf(line, "Uid: %u %u %u %u", &uid[0], &uid[1], &uid[2], &uid[3]) != 4) continue;
    is_ours = uid[0] == ours || uid[1] == ours || uid[2] == ours || uid[3] == ours;
    break;
  }
  (void)fclose(file);
  return is_ours;
}

typedef bool descriptor_visitor(int dir, int32_t pid, const char* name, void* arg);

/* Are we in the first pid namespace, so that no process is hidden from us? Its inode is a constant of the kernel. */
static bool sees_all_namespaces(void) {
  const uint64_t first = 0xEFFFFFFC; /* PROC_PID_INIT_INO */
  struct stat st;
  return stat("/proc/self/ns/pid", &st) == 0 && (uint64_t)st.st_ino == first;
}

/* Does the error of a call say that we may not look at the process? */
static bool is_refusal(int err) { return err == EACCES || err == EPERM; }

/* False: the process may have descriptors that we cannot see. visit says whether to go on. */
static bool visit_process(int32_t pid, bool all_users, descriptor_visitor* visit, void* arg) {
  enum { INIT = 1 }; /* it lets nobody look, and opens no messages */
  char path[32], any;
  if (pid == INIT && sees_all_namespaces()) return true;
  (void)snprintf(path, sizeof path, "/proc/%" PRId32 "/fd", pid);
  DIR* dir = opendir(path);
  if (dir == NULL && !is_refusal(errno)) return errno == ENOENT || errno == ESRCH;
  bool refused = dir == NULL;
  const struct dirent* entry;
  while (!refused && (entry = readdir(dir)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    /* We may list the descriptors of some processes whose links we may not read. */
    refused = readlinkat(dirfd(dir), entry->d_name, &any, 1) < 0 && is_refusal(errno);
    if (!refused && !visit(dirfd(dir), pid, entry->d_name, arg)) break;
  }
  if (dir != NULL) (void)closedir(dir);
  /* A process of root becomes another user's, and keeps what it has. */
  return !refused || (!all_users && geteuid() != 0 && !may_be_ours(pid));
}

/* Does /proc hide processes: is it of another pid namespace, or mounted with hidepid? */
static bool hides_processes(void) {
  char self[32], line[1024];
  ssize_t n = readlink("/proc/self", self, sizeof self - 1);
  if (n <= 0) return true;
  self[n] = '\0';
  if (number_of(self) != (int32_t)getpid()) return true;
  FILE* mounts = fopen("/proc/self/mountinfo", "re");
  if (mounts == NULL) return true;
  bool hides = false;
  while (fgets(line, sizeof line, mounts) != NULL) {
    if (strstr(line, " /proc ") == NULL || strstr(line, " - proc ") == NULL) continue;
    const char* option = strstr(line, "hidepid=");
    hides = option != NULL && strncmp(option, "hidepid=0", 9) != 0 && strncmp(option, "hidepid=off", 11) != 0;
  }
  (void)fclose(mounts);
  return hides;
}

static bool visit_descriptors(bool all_users, descriptor_visitor* visit, void* arg) {
  DIR* dir = opendir("/proc");
  if (dir == NULL) return false;
  bool all = sees_all_namespaces() && !hides_processes();
  const struct dirent* entry;
  while ((entry = readdir(dir)) != NULL) {
    int32_t pid = number_of(entry->d_name);
    if (pid > 0) all = visit_process(pid, all_users, visit, arg) && all;
  }
  (void)closedir(dir);
  return all;
}

typedef struct pipe_visit {
  void (*visit)(int32_t pid, int fd, uint64_t inode, void* arg);
  void* arg;
} pipe_visit;

static bool visit_if_pipe(int dir, int32_t pid, const char* name, void* arg) {
  const pipe_visit* v = arg;
  uint64_t inode = inode_of(dir, name, "pipe:[");
  if (inode != 0) v->visit(pid, number_of(name), inode, v->arg);
  return true;
}

bool shmt__os_visit_pipe_ends(bool all_users,
                              void (*visit)(int32_t pid, int fd, uint64_t inode, void* arg),
                              void* arg) {
  pipe_visit v = {visit, arg};
  return visit_descriptors(all_users, visit_if_pipe, &v);
}

/* Does the socket hold descriptors? Their number stands in fdinfo, since Linux 5.17 (`scm_fds`). When fdinfo cannot be
 * read, in doubt yes, unless the socket was closed meanwhile. */
static bool inspect_socket(int dir, int32_t pid, const char* name, void* arg) {
  bool* any = arg;
  char path[64], text[512];
  if (inode_of(dir, name, "socket:[") == 0) return true;
  (void)snprintf(path, sizeof path, "/proc/%" PRId32 "/fdinfo/%s", pid, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (n < 0 && errno != ENOENT && errno != ESRCH) *any = true;
  if (fd >= 0) (void)close(fd);
  text[n > 0 ? n : 0] = '\0';
  const char* at = strstr(text, "scm_fds:");
  if (at != NULL && strtoul(at + 8, NULL, 10) > 0) *any = true;
  return !*any;
}

bool shmt__os_descriptors_in_flight(void) {
  bool any = false;
  const bool all = visit_descriptors(false, inspect_socket, &any);
  return any || !all;
}
