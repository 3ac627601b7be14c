/* os/posix_names.c -- names of POSIX shared memory and semaphores, which are files of /dev/shm. */
#define _GNU_SOURCE
#include "os/posix_names.h"

#include <errno.h>
#include <limits.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

shmt_status shmt__os_posix_name_check(const char* name) {
  size_t n = strlen(name);
  SHMT_REQUIRE(n >= 2 && n <= NAME_MAX && name[0] == '/' && strchr(name + 1, '/') == NULL && strcmp(name, "/.") != 0 &&
                   strcmp(name, "/..") != 0,
               SHMT_E_VALUE,
               "a POSIX name is a slash and 1 to %d bytes without another slash, got \"%.80s\" of %zu bytes",
               NAME_MAX - 1, name, n);
  return SHMT_OK;
}

bool shmt__os_posix_names_have(const uint64_t identity[2]) {
  struct stat st;
  return stat(SHMT_POSIX_NAMES, &st) == 0 && (uint64_t)st.st_dev == identity[0];
}

static bool make_path(const char* name, char out[PATH_MAX]) {
  int n = snprintf(out, PATH_MAX, "%s%s", SHMT_POSIX_NAMES, name);
  return n > 0 && n < PATH_MAX;
}

static bool leads_to(const char* path, const uint64_t identity[2]) {
  struct stat st;
  return lstat(path, &st) == 0 && (uint64_t)st.st_dev == identity[0] && (uint64_t)st.st_ino == identity[1];
}

bool shmt__os_posix_name_is(const char* name, const uint64_t identity[2]) {
  char path[PATH_MAX];
  return make_path(name, path) && leads_to(path, identity);
}

bool shmt__os_posix_name_remove(const char* name, const uint64_t identity[2]) {
  char path[PATH_MAX];
  return make_path(name, path) && leads_to(path, identity) && unlink(path) == 0;
}

uint64_t shmt__os_semaphore_bytes(void) { return sizeof(sem_t); }

int shmt__os_semaphore_init(void* at, uint32_t value) { return sem_init(at, 1, value) == 0 ? 0 : -errno; }
