/* A program that knows nothing of this package: it has POSIX names and C's types.
 *
 *   make NAME N       make memory of N doubles 0, 1, ..., say "ready", wait for a line, print their sum, unlink
 *   begin NAME        make memory without a size, say "ready", wait for a line, unlink
 *   sum NAME          print the sum of all doubles that are there
 *   add NAME TIMES    add 1 to the first double, TIMES times, each time under the semaphore NAME
 *   echo NAME         send the next message of queue NAME back to NAME-back
 *   offer NAME VALUE  make a semaphore, say "ready", wait for a line, print its value, unlink
 */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void wait_for_line(void) {
  (void)printf("ready\n");
  (void)fflush(stdout);
  while (getchar() != '\n') {
  }
}

static double* map(int fd, size_t n, int prot) {
  double* p = mmap(NULL, n * sizeof(double), prot, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) fail("mmap");
  return p;
}

static double* open_all(const char* name, int writing, size_t* n) {
  struct stat st;
  int fd = shm_open(name, writing ? O_RDWR : O_RDONLY, 0);
  if (fd < 0 || fstat(fd, &st) != 0) fail("shm_open");
  *n = (size_t)st.st_size / sizeof(double);
  return map(fd, *n, PROT_READ | (writing ? PROT_WRITE : 0));
}

static void print_sum(const double* p, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += p[i];
  (void)printf("%g\n", sum);
}

static void make(const char* name, size_t n) {
  int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)(n * sizeof(double))) != 0) fail("shm_open");
  double* p = map(fd, n, PROT_READ | PROT_WRITE);
  for (size_t i = 0; i < n; i++) p[i] = (double)i;
  wait_for_line();
  print_sum(p, n);
  if (shm_unlink(name) != 0 && errno != ENOENT) fail("shm_unlink");
}

static void add(const char* name, int times) {
  size_t n;
  volatile double* p = open_all(name, 1, &n);
  sem_t* lock = sem_open(name, 0);
  if (lock == SEM_FAILED) fail("sem_open");
  for (int i = 0; i < times; i++) {
    if (sem_wait(lock) != 0) fail("sem_wait");
    p[0] = p[0] + 1;
    if (sem_post(lock) != 0) fail("sem_post");
  }
}

static void echo(const char* name) {
  char bytes[8192], back[300];
  unsigned priority;
  mqd_t from = mq_open(name, O_RDONLY);
  (void)snprintf(back, sizeof back, "%s-back", name);
  mqd_t to = mq_open(back, O_WRONLY);
  if (from == (mqd_t)-1 || to == (mqd_t)-1) fail("mq_open");
  ssize_t n = mq_receive(from, bytes, sizeof bytes, &priority);
  if (n < 0 || mq_send(to, bytes, (size_t)n, priority + 1) != 0) fail("mq_send");
}

static void offer(const char* name, unsigned value) {
  int now = 0;
  sem_t* s = sem_open(name, O_CREAT | O_EXCL, 0600, value);
  if (s == SEM_FAILED) fail("sem_open");
  wait_for_line();
  if (sem_getvalue(s, &now) != 0) fail("sem_getvalue");
  (void)printf("%d\n", now);
  if (sem_unlink(name) != 0 && errno != ENOENT) fail("sem_unlink");
}

int main(int argc, char** argv) {
  const char *what = argc > 2 ? argv[1] : "", *name = argc > 2 ? argv[2] : "";
  int n = argc > 3 ? atoi(argv[3]) : 0;
  if (strcmp(what, "make") == 0) {
    make(name, (size_t)n);
  } else if (strcmp(what, "begin") == 0) {
    if (shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600) < 0) fail("shm_open");
    wait_for_line();
    (void)shm_unlink(name);
  } else if (strcmp(what, "sum") == 0) {
    size_t all;
    const double* p = open_all(name, 0, &all);
    print_sum(p, all);
  } else if (strcmp(what, "add") == 0) {
    add(name, n);
  } else if (strcmp(what, "echo") == 0) {
    echo(name);
  } else if (strcmp(what, "offer") == 0) {
    offer(name, (unsigned)n);
  } else {
    return 2;
  }
  return 0;
}
