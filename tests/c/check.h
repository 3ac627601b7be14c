/* tests/c/check.h -- what the C tests are made of. A program includes it once. Tests of the public interface define
 * CHECK_MESSAGE first, which gives the text of the last error; others take that of the inside.
 *
 *   TEST(a_new_ring_is_empty) { CHECK_EQ(shmt__ring_n_messages(ring), 0); }
 *
 * `program NAME` runs one test, `program` all of them. The first check that does not hold says where, and what it saw,
 * and ends the program with status 1.
 */
#ifndef SHMT_TESTS_CHECK_H
#define SHMT_TESTS_CHECK_H

#ifndef CHECK_MESSAGE
#include "api/error.h"
#include "base/error.h"
#define CHECK_MESSAGE() shmt_error_message()
#endif

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

#define TEST(test)                                            \
  static void test(void);                                     \
  __attribute__((constructor)) static void enter_##test(void) { \
    static check_test entry = {#test, test, NULL};            \
    *check_end = &entry;                                      \
    check_end = &entry.next;                                  \
  }                                                           \
  static void test(void)

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))
#define CHECK_EQ(seen, expected)                              \
  do {                                                        \
    int64_t seen_ = (int64_t)(seen), wanted_ = (int64_t)(expected); \
    if (seen_ != wanted_) {                                   \
      (void)fprintf(stderr, "%" PRId64 ", not %" PRId64 ": ", seen_, wanted_); \
      check_failed(__FILE__, __LINE__, #seen);                \
    }                                                         \
  } while (0)
#define CHECK_OK(call) CHECK_EQ(call, 0)
/* The call fails with this status, and its message has the text in it. */
#define CHECK_FAILS(call, status, text)                       \
  do {                                                        \
    CHECK_EQ(call, status);                                   \
    CHECK(strstr(CHECK_MESSAGE(), text) != NULL);        \
  } while (0)

_Noreturn static void check_failed(const char* file, int line, const char* what) {
  (void)fprintf(stderr, "%s:%d: %s; the last error was: %s\n", file, line, what, CHECK_MESSAGE());
  exit(1);
}

int main(int argc, char** argv) {
  int n = 0;
  for (const check_test* t = check_first; t != NULL; t = t->next) {
    if (argc > 1 && strcmp(argv[1], t->name) != 0) continue;
    t->run();
    n++;
  }
  return n > 0 ? 0 : 2;
}

#endif
