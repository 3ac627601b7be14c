/* os/process.c -- randomness, user ids, and watching and starting other processes. */
#define _GNU_SOURCE
#include "os/process.h"

#include "os/descriptor.h"
#include "os/memfd.h"
#include "os/stat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

extern char** environ;

int64_t shmt__os_thread_id(void) { return (int64_t)syscall(SYS_gettid); }

uint64_t shmt__os_random(void) {
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) == (ssize_t)sizeof bits) return bits;
  struct timespec t;
  (void)clock_gettime(CLOCK_REALTIME, &t);
  return ((uint64_t)t.tv_nsec << 32) ^ ((uint64_t)t.tv_sec * 0x9E3779B97F4A7C15u) ^
         (uint64_t)getpid();
}

void shmt__os_sleep_ms(unsigned ms) {
  struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {
  }
}

int32_t shmt__os_pid(void) { return (int32_t)getpid(); }

static uint64_t namespace_of(const char* path) {
  struct stat st;
  return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

uint64_t shmt__os_pid_namespace(void) { return namespace_of("/proc/self/ns/pid"); }
uint64_t shmt__os_net_namespace(void) { return namespace_of("/proc/self/ns/net"); }

/* --- other processes --- */

uint64_t shmt__os_process_start(int32_t pid) {
  char path[32], text[1024];
  if (pid <= 0) return 0;
  (void)snprintf(path, sizeof path, "/proc/%" PRId32 "/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = read(fd, text, sizeof text - 1);
  (void)close(fd);
  if (n <= 0) return 0;
  text[n] = '\0';
  /* The command's name may contain any character; the last ')' ends it. Field 22 is the start time. */
  const char* at = strrchr(text, ')');
  uint64_t start = 0;
  if (at == NULL) return 0;
  if (sscanf(
          at + 1,
          " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
          &start) != 1)
    return 0;
  return start;
}

bool shmt__os_process_runs(int32_t pid, uint64_t start) {
  if (pid <= 0 || (kill((pid_t)pid, 0) != 0 && errno == ESRCH)) return false;
  uint64_t now = shmt__os_process_start(pid);
  if (start != 0 && now != 0) return now == start;
  return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
}

int shmt__os_pidfd(int32_t pid) {
  if (pid <= 0) return -EINVAL;
  int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0u);
  return fd < 0 ? -errno : fd; /* the kernel sets close-on-exec */
}

bool shmt__os_process_maps(int32_t pid, const uint64_t file_identity[2], bool unreadable) {
  char path[32], line[512], wanted[64];
  (void)snprintf(path, sizeof path, "/proc/%" PRId32 "/maps", pid);
  (void)snprintf(wanted, sizeof wanted, " %02x:%02x %" PRIu64 " ", major((dev_t)file_identity[0]),
                 minor((dev_t)file_identity[0]), file_identity[1]);
  FILE* f = fopen(path, "re");
  if (f == NULL) return unreadable && errno != ENOENT && errno != ESRCH;
  bool found = false;
  while (!found && fgets(line, sizeof line, f) != NULL) found = strstr(line, wanted) != NULL;
  bool failed = ferror(f) != 0 && errno != ESRCH;
  (void)fclose(f);
  return found || (failed && unreadable); /* the file of a process that is ending is empty, which is no failure */
}

static bool is_file(const struct stat* st, const uint64_t identity[2]) {
  return S_ISREG(st->st_mode) && (identity == NULL || ((uint64_t)st->st_dev == identity[0] &&
                                                       (uint64_t)st->st_ino == identity[1]));
}

/* Open what another process has open, and nothing else. See Note [What was checked is what is opened]. identity: NULL
 * for any regular file. Returns a descriptor, which the caller closes; -1: it is another file, or cannot be opened. */
static int open_checked(int dir, const char* name, const uint64_t identity[2], bool only_found) {
  struct stat st;
  int found = openat(dir, name, O_PATH | O_CLOEXEC);
  if (found < 0) return -1;
  bool is_wanted = shmt__os_known_stat(found, &st) && is_file(&st, identity);
  if (is_wanted && only_found) return found;
  int fd = is_wanted ? shmt__os_reopen(found) : -1;
  (void)close(found);
  return fd;
}

int shmt__os_open_from_process(int32_t pid, const uint64_t file_identity[2], bool only_found) {
  char path[32];
  struct stat st;
  int fd = -1;
  (void)snprintf(path, sizeof path, "/proc/%" PRId32 "/fd", pid);
  DIR* dir = opendir(path);
  if (dir == NULL) return -1;
  struct dirent* entry;
  while (fd < 0 && (entry = readdir(dir)) != NULL) {
    if (entry->d_name[0] == '.' || !shmt__os_known_stat_at(dirfd(dir), entry->d_name, &st)) continue;
    if (is_file(&st, file_identity))
      fd = open_checked(dirfd(dir), entry->d_name, file_identity, only_found);
  }
  (void)closedir(dir);
  return fd;
}

int shmt__os_open_from_any_process(const uint64_t file_identity[2], bool only_found) {
  DIR* dir = opendir("/proc");
  if (dir == NULL) return -1;
  int fd = -1;
  struct dirent* entry;
  while (fd < 0 && (entry = readdir(dir)) != NULL) {
    char path[288];
    struct stat st;
    int32_t pid = (int32_t)strtol(entry->d_name, NULL, 10);
    if (pid <= 0 || pid == shmt__os_pid()) continue;
    (void)snprintf(path, sizeof path, "/proc/%" PRId32, pid);
    if (stat(path, &st) == 0 && st.st_uid == geteuid())
      fd = shmt__os_open_from_process(pid, file_identity, only_found);
  }
  (void)closedir(dir);
  return fd;
}

/* Is the link of a descriptor that of a memory file with this name? Without memfd_create, memory files are unnamed
 * files in /dev/shm, and any may be meant. */
static bool is_called(const char* target, const char* link) {
  return strncmp(target, link, strlen(link)) == 0 || strncmp(target, "/dev/shm/#", 10) == 0;
}

/* Visit the matching descriptors of one process. False: visit said to stop. */
static bool visit_process(const char* pid, const char* link, bool (*visit)(int fd, void* arg),
                          void* arg) {
  char path[288], target[128];
  struct stat st;
  bool go_on = true;
  (void)snprintf(path, sizeof path, "/proc/%s/fd", pid);
  if (stat(path, &st) != 0 || st.st_uid != geteuid()) return true;
  DIR* dir = opendir(path);
  if (dir == NULL) return true;
  struct dirent* entry;
  while (go_on && (entry = readdir(dir)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
    if (n < 0 && errno == EACCES) break; /* we may not inspect this process */
    if (n <= 0) continue;
    target[n] = '\0';
    if (!is_called(target, link)) continue;
    int fd = open_checked(dirfd(dir), entry->d_name, NULL, false);
    if (fd >= 0) go_on = visit(fd, arg);
  }
  (void)closedir(dir);
  return go_on;
}

int shmt__os_find_memfd(const char* name, uint64_t since, bool (*visit)(int fd, void* arg),
                        void* arg) {
  enum { DESCRIPTORS = 3 }; /* of the search of one process, and of visit */
  char link[96];
  /* The kernel writes "/memfd:name (deleted)". */
  (void)snprintf(link, sizeof link, "/memfd:%s ", name);
  DIR* dir = opendir("/proc");
  if (dir == NULL) return shmt__os_is_out_of_descriptors(errno) ? -errno : 0;
  /* Without descriptors every process would look as if it had no such file. */
  int err = shmt__os_try_descriptors(dirfd(dir), DESCRIPTORS);
  if (err != 0) {
    (void)closedir(dir);
    return err;
  }
  struct dirent* entry;
  while ((entry = readdir(dir)) != NULL) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    /* Reading the start time is much cheaper than reading all descriptors. */
    if (since != 0 && shmt__os_process_start((int32_t)strtol(entry->d_name, NULL, 10)) < since)
      continue;
    if (!visit_process(entry->d_name, link, visit, arg)) break;
  }
  (void)closedir(dir);
  return 0;
}

shmt_status shmt__os_spawn_daemon(const char* path, char* const argv[], const int* fds, int n_fds,
                                  int32_t* out_pid) {
  enum { MAX_FDS = 8, PARKED = 16 };
  int parked[MAX_FDS];
  int n_parked = 0, err = 0;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attr;
  sigset_t none, defaults;
  pid_t pid = 0;

  SHMT_ASSERT(n_fds <= MAX_FDS);
  (void)posix_spawn_file_actions_init(&actions);
  (void)posix_spawnattr_init(&attr);
  /* Copy the descriptors above their target numbers, so that moving one into place never overwrites another. */
  for (; n_parked < n_fds && err == 0; n_parked++) {
    parked[n_parked] = fcntl(fds[n_parked], F_DUPFD_CLOEXEC, PARKED);
    if (parked[n_parked] < 0) {
      err = errno;
      break;
    }
  }
  if (err == 0) err = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  if (err == 0) err = posix_spawn_file_actions_adddup2(&actions, 0, 1);
  if (err == 0) err = posix_spawn_file_actions_adddup2(&actions, 0, 2);
  for (int i = 0; i < n_fds && err == 0; i++)
    err = posix_spawn_file_actions_adddup2(&actions, parked[i], 3 + i);
  (void)sigemptyset(&none);
  (void)sigfillset(&defaults);
  (void)posix_spawnattr_setsigmask(&attr, &none);
  (void)posix_spawnattr_setsigdefault(&attr, &defaults);
  (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (err == 0) err = posix_spawn(&pid, path, &actions, &attr, argv, environ);
  (void)posix_spawn_file_actions_destroy(&actions);
  (void)posix_spawnattr_destroy(&attr);
  for (int i = 0; i < n_parked; i++) (void)close(parked[i]);
  if (shmt__os_is_out_of_descriptors(err)) return shmt__fail_errno(err, "cannot start the manager %s", path);
  SHMT_REQUIRE(err == 0, SHMT_E_MANAGER, "cannot start the manager %s: %s (%d)", path,
               strerror(err), err);
  *out_pid = (int32_t)pid;
  return SHMT_OK;
}

bool shmt__os_child_ended(int32_t pid, int* out_exit) {
  int how = 0;
  pid_t got = waitpid((pid_t)pid, &how, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  if (got < 0) *out_exit = SHMT_OS_EXIT_UNKNOWN; /* a signal handler of the program has waited for it, which is fine */
  else if (WIFEXITED(how)) *out_exit = WEXITSTATUS(how);
  else *out_exit = WTERMSIG(how) == SIGKILL ? SHMT_OS_EXIT_KILLED : SHMT_OS_EXIT_SIGNAL;
  return true;
}

void shmt__os_kill_child(int32_t pid) {
  enum { MOST_MS = 1000 }; /* a process that the kernel keeps waiting, for a disk for instance, ends later */
  int how;
  (void)kill((pid_t)pid, SIGKILL);
  for (int i = 0; i < MOST_MS && !shmt__os_child_ended(pid, &how); i++) shmt__os_sleep_ms(1);
}

bool shmt__os_detach(void) {
  pid_t pid = fork();
  if (pid < 0) return false;
  if (pid > 0) _exit(0);
  (void)setsid();
  return chdir("/") == 0;
}

void shmt__os_daemon_init(int first_fd) {
  static const int ignored[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE,
                                SIGXFSZ, SIGTSTP, SIGUSR1, SIGUSR2};
  struct rlimit files;
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) (void)signal(ignored[i], SIG_IGN);
  if (syscall(SYS_close_range, (unsigned)first_fd, ~0u, 0u) != 0) {
    long max = sysconf(_SC_OPEN_MAX);
    for (int fd = first_fd; fd < max; fd++) (void)close(fd);
  }
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
  }
}
