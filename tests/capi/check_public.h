/* tests/capi/check_public.h -- what the tests of the C interface are made of; it knows nothing but shmtensor.h.
 *
 * `program NAME` runs one TEST. The first check that does not hold says where, and what it saw, and ends the program
 * with status 1. */
#ifndef SHMT_TESTS_CHECK_PUBLIC_H
#define SHMT_TESTS_CHECK_PUBLIC_H

#include "shmtensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct check_test {
  const char* name;
  void (*run)(void);
  struct check_test* next;
} check_test;

static check_test *check_first, **check_end = &check_first;

#define TEST(test)                                              \
  static void test(void);                                       \
  __attribute__((constructor)) static void enter_##test(void) { \
    static check_test entry = {#test, test, NULL};              \
    *check_end = &entry;                                        \
    check_end = &entry.next;                                    \
  }                                                             \
  static void test(void)

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))
#define CHECK_EQ(seen, expected)                                               \
  do {                                                                         \
    int64_t seen_ = (int64_t)(seen), wanted_ = (int64_t)(expected);            \
    if (seen_ != wanted_) {                                                    \
      (void)fprintf(stderr, "%" PRId64 ", not %" PRId64 ": ", seen_, wanted_); \
      check_failed(__FILE__, __LINE__, #seen);                                 \
    }                                                                          \
  } while (0)
#define CHECK_OK(call) CHECK_EQ(call, SHMTENSOR_OK)
/* The call fails with this status, and its text has this in it. */
#define CHECK_FAILS(call, status, text)               \
  do {                                                \
    CHECK_EQ(call, status);                           \
    CHECK(strstr(shmtensor_message(), text) != NULL); \
  } while (0)

_Noreturn static void check_failed(const char* file, int line, const char* what) {
  (void)fprintf(stderr, "%s:%d: %s; the last error was: %s\n", file, line, what, shmtensor_message());
  exit(1);
}

int main(int argc, char** argv) {
  int n = 0;
  for (const check_test* t = check_first; t != NULL; t = t->next) {
    if (argc > 1 && strcmp(argv[1], t->name) != 0) continue;
    t->run();
    n++;
  }
  if (n == 0) (void)fprintf(stderr, "no such test\n");
  return n == 0;
}

/* A service of this program's own, which ends with it. */
static inline shmtensor_service* own_service(void) {
  const shmtensor_service_options options = {
      .size = sizeof options, .name = getenv("TEST_SERVICE"), .start = 1};
  shmtensor_service* service = NULL;
  CHECK_OK(shmtensor_service_open(&options, &service));
  return service;
}

static inline shmtensor_value* integer(int64_t number) {
  shmtensor_value* value = NULL;
  CHECK_OK(shmtensor_int(number, &value));
  return value;
}

static inline int64_t integer_of(const shmtensor_value* value) {
  int64_t number = 0;
  CHECK_OK(shmtensor_value_get_int(value, &number));
  return number;
}

/* The number of a value that is freed. */
static inline int64_t taken_integer(shmtensor_value* value) {
  const int64_t number = integer_of(value);
  shmtensor_value_free(value);
  return number;
}

#endif
