/* tests/shm/faults.c -- the n-th system call or allocation fails, or is where the process is killed.
 *
 * Linked into the tests' own build of the library and the manager with -Wl,--wrap=<function> for
 * every function below, so that the sources know nothing of it. SHMTENSOR_FAULT says
 *
 *   <role>,<kind>,<n>,<path>    role: client or manager
 *
 * fail: the n-th call of the process fails with an error that fits it; fails: so do the 30 after it,
 * as when memory or descriptors run short for a while; eintr: a signal interrupts it; kill: the process is killed before it. The first
 * process that gets there and can remove the file at path is the one. "lack:<function>" as kind: this
 * function fails always, with ENOSYS, in every process of any role.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef FAULTS_IN_MANAGER
#define ROLE "manager"
#else
#define ROLE "client"
#endif

static struct {
  atomic_int state; /* 0 unread, 1 off, 2 armed, 3 `left` more calls fail */
  atomic_long left;
  char kind[32], path[256];
} fault;

/* A test sets it: there is no memory for pages. */
__attribute__((visibility("default"))) atomic_int shmt_fault_no_pages;

static void read_plan(void) {
  char role[16] = "";
  long n = 0;
  const char* text = getenv("SHMTENSOR_FAULT");
  bool good = text != NULL && sscanf(text, "%15[^,],%31[^,],%ld,%255s", role, fault.kind, &n,
                                     fault.path) == 4;
  bool mine = good && (strcmp(role, ROLE) == 0 || strncmp(fault.kind, "lack:", 5) == 0);
  atomic_store(&fault.left, n);
  atomic_store(&fault.state, mine ? 2 : 1);
}

/* Does this call fail? Then errno says why. */
static bool due(const char* name, int error, bool interruptible) {
  if (atomic_load(&shmt_fault_no_pages) && (strcmp(name, "madvise") == 0 || strcmp(name, "fallocate") == 0)) {
    errno = ENOSPC;
    return true;
  }
  if (atomic_load(&fault.state) == 0) read_plan();
  int state = atomic_load(&fault.state);
  if (state == 1) return false;
  if (strncmp(fault.kind, "lack:", 5) == 0) {
    errno = ENOSYS;
    return strcmp(fault.kind + 5, name) == 0;
  }
  errno = error;
  if (state == 3) return atomic_fetch_sub(&fault.left, 1) > 0;
  bool eintr = strcmp(fault.kind, "eintr") == 0;
  if (eintr && !interruptible) return false;
  int saved = errno;
  if (atomic_fetch_sub(&fault.left, 1) != 1) return false;
  if (access(fault.path, F_OK) != 0 || unlink(fault.path) != 0) return false;
  if (strcmp(fault.kind, "kill") == 0) (void)kill(getpid(), SIGKILL);
  if (strcmp(fault.kind, "fails") == 0) {
    atomic_store(&fault.left, 30);
    atomic_store(&fault.state, 3);
  }
  errno = eintr ? EINTR : saved;
  return true;
}

#define WRAP(type, name, parameters, arguments, error, interruptible, failed) \
  type __real_##name parameters;                                            \
  type __wrap_##name parameters;                                            \
  type __wrap_##name parameters {                                           \
    if (due(#name, error, interruptible)) return failed;                    \
    return __real_##name arguments;                                         \
  }

WRAP(int, memfd_create, (const char* name, unsigned flags), (name, flags), EMFILE, false, -1)
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), ENOSPC, true, -1)
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n), ENOSPC, true, -1)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), EPERM, false, -1)
WRAP(int, fstat, (int fd, struct stat* st), (fd, st), ENOMEM, false, -1)
WRAP(int, statx, (int dir, const char* path, int flags, unsigned mask, struct statx* st), (dir, path, flags, mask, st),
     ENOMEM, false, -1)
WRAP(void*, mmap, (void* p, size_t n, int prot, int flags, int fd, off_t at),
     (p, n, prot, flags, fd, at), ENOMEM, false, MAP_FAILED)
WRAP(int, madvise, (void* p, size_t n, int advice), (p, n, advice), ENOMEM, true, -1)
WRAP(ssize_t, read, (int fd, void* p, size_t n), (fd, p, n), EIO, false, -1)
WRAP(int, socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE, false, -1)
WRAP(int, bind, (int fd, const struct sockaddr* a, socklen_t n), (fd, a, n), ENOMEM, false, -1)
WRAP(int, listen, (int fd, int n), (fd, n), ENOMEM, false, -1)
WRAP(int, connect, (int fd, const struct sockaddr* a, socklen_t n), (fd, a, n), ECONNREFUSED, true,
     -1)
WRAP(int, accept4, (int fd, struct sockaddr* a, socklen_t* n, int flags), (fd, a, n, flags), EMFILE,
     true, -1)
WRAP(int, setsockopt, (int fd, int level, int name, const void* p, socklen_t n),
     (fd, level, name, p, n), ENOMEM, false, -1)
WRAP(int, getsockopt, (int fd, int level, int name, void* p, socklen_t* n),
     (fd, level, name, p, n), ENOMEM, false, -1)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr* m, int flags), (fd, m, flags), EPIPE, true, -1)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr* m, int flags), (fd, m, flags), ECONNRESET, true, -1)
WRAP(int, poll, (struct pollfd * p, nfds_t n, int timeout), (p, n, timeout), ENOMEM, true, -1)
WRAP(int, epoll_create1, (int flags), (flags), EMFILE, false, -1)
WRAP(int, epoll_ctl, (int fd, int op, int of, struct epoll_event* e), (fd, op, of, e), ENOMEM,
     false, -1)
WRAP(int, epoll_wait, (int fd, struct epoll_event* e, int n, int timeout), (fd, e, n, timeout),
     EINTR, true, -1)
WRAP(DIR*, opendir, (const char* path), (path), EMFILE, false, NULL)
WRAP(FILE*, fopen, (const char* path, const char* mode), (path, mode), EMFILE, false, NULL)
WRAP(void*, malloc, (size_t n), (n), ENOMEM, false, NULL)
WRAP(void*, calloc, (size_t n, size_t m), (n, m), ENOMEM, false, NULL)
WRAP(void*, realloc, (void* p, size_t n), (p, n), ENOMEM, false, NULL)
WRAP(pid_t, waitpid, (pid_t pid, int* how, int options), (pid, how, options), EINTR, true, -1)
WRAP(pid_t, fork, (void), (), EAGAIN, false, -1)

int __real_posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attr, char* const argv[], char* const env[]);
int __wrap_posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attr, char* const argv[], char* const env[]);
int __wrap_posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attr, char* const argv[], char* const env[]) {
  if (due("posix_spawn", ENOMEM, false)) return errno;
  return __real_posix_spawn(pid, path, actions, attr, argv, env);
}

/* Variadic functions: what we pass is one word. */
int __real_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  unsigned mode = va_arg(more, unsigned);
  va_end(more);
  return due("open", EMFILE, true) ? -1 : __real_open(path, flags, mode);
}

int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...) {
  va_list more;
  va_start(more, what);
  long argument = va_arg(more, long);
  va_end(more);
  return due("fcntl", EMFILE, false) ? -1 : __real_fcntl(fd, what, argument);
}

long __real_syscall(long number, ...);
/* Callers give fewer arguments; the C library's function reads all six, too. */
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
  va_list more;
  va_start(more, number);
  long a = va_arg(more, long), b = va_arg(more, long), c = va_arg(more, long);
  long d = va_arg(more, long), e = va_arg(more, long), f = va_arg(more, long);
  va_end(more);
  return due("syscall", EMFILE, false) ? -1 : __real_syscall(number, a, b, c, d, e, f);
}
