/* tests/c/os.c -- what a program must not wait for: whoever is behind a descriptor. And what counts as a yes in doubt. */
#define _GNU_SOURCE
#include "check.h"

#include "os/channel.h"
#include "os/closer.h"
#include "os/descriptor.h"
#include "os/memfd.h"
#include "os/process.h"
#include "os/stat.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HANG_S = 100 };

static int listen_on(struct sockaddr_in* out) {
  socklen_t len = sizeof *out;
  const int small = 1 << 12;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  CHECK_EQ(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
  *out = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  CHECK_EQ(bind(listener, (struct sockaddr*)out, len), 0);
  CHECK_EQ(listen(listener, 128), 0);
  CHECK_EQ(getsockname(listener, (struct sockaddr*)out, &len), 0);
  return listener;
}

/* A connection whose last close waits: nobody reads what it sent, and there is no room for the rest. */
static int make_lingering(const struct sockaddr_in* to) {
  static const char bytes[1 << 16];
  const struct linger linger = {1, 10 * HANG_S};
  const int small = 1 << 12;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  CHECK_EQ(connect(fd, (const struct sockaddr*)to, sizeof *to), 0);
  CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
  struct pollfd room = {.fd = fd, .events = POLLOUT};
  while (poll(&room, 1, 50) > 0) CHECK(send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0 || errno == EAGAIN);
  return fd;
}

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

static void wait_until_closed(int fd) {
  for (int ms = 0; is_open(fd); ms++) {
    CHECK(ms < HANG_S * 1000);
    shmt__os_sleep_ms(1);
  }
}

TEST(without_closers_a_descriptor_is_closed_at_once) {
  int fd = shmt__os_dup(0);
  CHECK(is_open(fd));
  shmt__closers_close(fd);
  CHECK(!is_open(fd));
  shmt__closers_close(-1);
  shmt__closers_check();
}

TEST(closers_are_not_kept_by_sockets_that_linger) {
  enum { N = 20 };
  struct sockaddr_in address;
  int fds[N];
  (void)listen_on(&address);
  for (int i = 0; i < N; i++) fds[i] = make_lingering(&address);
  shmt__closers_start();
  for (int i = 0; i < N; i++) shmt__closers_close(fds[i]);
  for (int i = 0; i < N; i++) wait_until_closed(fds[i]);
}

TEST(who_gives_hurries_as_well) {
  struct sockaddr_in address;
  (void)listen_on(&address);
  shmt__closers_start();
  int fd = make_lingering(&address);
  shmt__closers_hurry(true);
  (void)close(fd); /* not a quarter of an hour */
  errno = 7;
  shmt__closers_hurry(false);
  CHECK_EQ(errno, 7);
}

static bool hurries_to_receive(int most, int limit) {
  struct rlimit files;
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = (rlim_t)limit;
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  while (shmt__os_recent_descriptor_limit() != limit) shmt__os_sleep_ms(1); /* it is not read each time */
  const bool hurries = shmt__closers_hurry_to_receive(most);
  if (hurries) shmt__closers_hurry(false);
  return hurries;
}

TEST(who_receives_hurries_where_numbers_may_run_out) {
  enum { MOST = 253, NOT_NOTED = 8192, FEW = 100 };
  char label;
  const int attribute = open("/proc/thread-self/attr/current", O_RDONLY);
  const bool has_module = attribute >= 0 && read(attribute, &label, 1) > 0; /* which may refuse descriptors */
  CHECK(!shmt__closers_hurry_to_receive(MOST)); /* there are no closers */
  shmt__closers_start();
  const int highest = shmt__os_above_streams(fcntl(0, F_DUPFD, FEW)), last = highest + NOT_NOTED + MOST;
  CHECK(highest >= FEW);
  CHECK(!hurries_to_receive(MOST, last) || has_module);
  CHECK(hurries_to_receive(MOST, last - 1));
  CHECK(!hurries_to_receive(MOST - 1, last - 1) || has_module);
  CHECK(hurries_to_receive(MOST, FEW));
  CHECK_EQ(close(highest), 0);
  CHECK(hurries_to_receive(MOST, last - 1)); /* others may have come meanwhile */
}

TEST(what_the_kernel_knows_is_what_fstat_says) {
  struct stat wanted, known;
  int memory = -1;
  CHECK_OK(shmt__os_memfd_create("test", 12345, &memory));
  const int fds[] = {memory, open("/", O_PATH), open("/dev/null", O_RDWR), socket(AF_UNIX, SOCK_STREAM, 0)};
  for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
    CHECK_EQ(fstat(fds[i], &wanted), 0);
    CHECK(shmt__os_known_stat(fds[i], &known));
    CHECK(known.st_dev == wanted.st_dev && known.st_ino == wanted.st_ino);
    CHECK(known.st_mode == wanted.st_mode && known.st_uid == wanted.st_uid);
    CHECK_EQ(known.st_size, wanted.st_size);
  }
  CHECK_EQ(fstatat(fds[1], "dev", &wanted, 0), 0);
  CHECK(shmt__os_known_stat_at(fds[1], "dev", &known));
  CHECK(known.st_dev == wanted.st_dev && known.st_ino == wanted.st_ino);
  CHECK(!shmt__os_known_stat(99, &known));
}

TEST(only_memory_files_pass_for_memory_files) {
  uint64_t nbytes = 0;
  int memory = -1, ends[2];
  CHECK_OK(shmt__os_memfd_create("test", 12345, &memory));
  CHECK_EQ(pipe(ends), 0);
  CHECK(shmt__os_memfd_check(memory, &nbytes));
  CHECK_EQ(nbytes, 12345);
  const int others[] = {open("/etc/passwd", O_RDONLY), open("/", O_PATH), ends[0], socket(AF_UNIX, SOCK_STREAM, 0), -1};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) CHECK(!shmt__os_memfd_check(others[i], &nbytes));
}

/* Without a descriptor for fdinfo nobody can tell what the socket holds. */
TEST(in_doubt_descriptors_are_in_flight) {
  int ends[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const rlim_t folders = 2; /* that of the processes, and that of a process's descriptors */
  const struct rlimit limit = {(rlim_t)ends[1] + 1 + folders, (rlim_t)ends[1] + 1 + folders};
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  CHECK(shmt__os_descriptors_in_flight());
}
