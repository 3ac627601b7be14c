/* base/error.c -- the thread's error record.
 *
 * Each thread has a fixed buffer, which is allocated at its first failure. It is not thread-local itself: a library
 * that is loaded late has little static thread-local space, and the hot variables need it. When no memory is left,
 * threads share one emergency buffer. Longer messages are cut at the end of a whole UTF-8 character.
 */
#include "base/error.h"

#include "base/utf8.h"

#include "api/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 4096 };

typedef struct error_record {
  shmt_status code;
  int os_errno;
  char message[MESSAGE_BYTES];
} error_record;

static _Thread_local error_record* own; /* NULL until the first failure */
static error_record emergency;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* frees `own` when its thread ends */
static int have_key;

static void create_key(void) { have_key = pthread_key_create(&key, free) == 0; }

/* The record to write to; never NULL. */
static error_record* obtain(void) {
  if (own != NULL) return own;
  (void)pthread_once(&once, create_key);
  error_record* r = have_key ? calloc(1, sizeof *r) : NULL;
  if (r == NULL) return &emergency;
  if (pthread_setspecific(key, r) != 0) {
    free(r);
    return &emergency;
  }
  own = r;
  return r;
}

/* The text is formatted into a local buffer first, since an argument may be the message recorded before. */
static void record_message(shmt_status code, int os_errno, const char* fmt, va_list args) {
  char text[MESSAGE_BYTES];
  error_record* r = obtain();
  int n = vsnprintf(text, sizeof text, fmt, args);
  if (n < 0) text[0] = '\0';
  size_t len = strlen(text);
  if (len + 1 == MESSAGE_BYTES) len = shmt__utf8_whole(text, len);
  memcpy(r->message, text, len);
  r->message[len] = '\0';
  r->code = code;
  r->os_errno = os_errno;
}

shmt_status shmt__fail(shmt_status code, const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  record_message(code, 0, fmt, args);
  va_end(args);
  return code;
}

shmt_status shmt__fail_errno(int err, const char* fmt, ...) {
  shmt_status code = err == ENOMEM || err == ENOSPC ? SHMT_E_NOMEM : SHMT_E_OS;
  char reason[128];
  va_list args;
  va_start(args, fmt);
  record_message(code, err, fmt, args);
  va_end(args);
  error_record* r = obtain();
  size_t len = strlen(r->message);
  /* -std=gnu11 without _GNU_SOURCE selects the XSI form, which fills the buffer. */
  const char* why = strerror_r(err, reason, sizeof reason) == 0 ? reason : "unknown error";
  (void)snprintf(r->message + len, sizeof r->message - len, ": %s (%d)", why, err);
  return code;
}

_Noreturn void shmt__assert_failed(const char* what, const char* file, int line) {
  (void)fprintf(stderr, "shmtensor: %s:%d: invariant broken: %s\n", file, line, what);
  (void)fflush(stderr);
  abort();
}

/* The record to read; NULL when this thread has recorded nothing. */
static error_record* existing(void) { return own != NULL ? own : emergency.code != SHMT_OK ? &emergency : NULL; }

const char* shmt_error_message(void) { return existing() ? existing()->message : ""; }

int shmt_error_code(void) { return existing() ? existing()->code : SHMT_OK; }

int shmt_error_errno(void) { return existing() ? existing()->os_errno : 0; }

void shmt_error_clear(void) {
  error_record* r = existing();
  if (r == NULL) return;
  r->code = SHMT_OK;
  r->os_errno = 0;
  r->message[0] = '\0';
}
