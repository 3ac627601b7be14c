/* base/error.h -- status codes, the thread's error record, and ownership macros.
 *
 * A function that can fail returns shmt_status. When that is not SHMT_OK, the function has filled the thread-local
 * record with a message that states the values: what it got and what it expected. Messages of operators begin with
 * "name(): ". C code never logs a failure; Python turns the code into an exception by a generated table.
 *
 * Comments use three words for ownership: "borrows" (the caller keeps it), "new reference" (the receiver releases
 * it), "consumes" (the caller has it no longer).
 */
#ifndef SHMT_BASE_ERROR_H
#define SHMT_BASE_ERROR_H

#include "api/status.h" /* generated: SHMT_OK, SHMT_E_*; typedef int shmt_status */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHMT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define SHMT_COLD __attribute__((cold, noinline))
#define SHMT_LIKELY(x) __builtin_expect(!!(x), 1)
#define SHMT_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Record a failure. Returns code, so that `return shmt__fail(...)` reads well. */
SHMT_COLD shmt_status shmt__fail(shmt_status code, const char* fmt, ...) SHMT_PRINTF(2, 3);

/* The same for a failed system call: appends ": strerror(err) (err)" and keeps
 * err for OSError.errno. Code is SHMT_E_NOMEM for ENOMEM/ENOSPC, else SHMT_E_OS. */
SHMT_COLD shmt_status shmt__fail_errno(int err, const char* fmt, ...) SHMT_PRINTF(2, 3);

/* Return at once when call fails; the record is already filled. */
#define SHMT_TRY(call)                                   \
  do {                                                   \
    shmt_status shmt_try_status_ = (call);               \
    if (SHMT_UNLIKELY(shmt_try_status_ != SHMT_OK))      \
      return shmt_try_status_;                           \
  } while (0)

/* Fail with a message: SHMT_REQUIRE(n >= 0, SHMT_E_VALUE, "narrow(): length must be >= 0, got %" PRId64, n); */
#define SHMT_FAIL(code, ...) return shmt__fail((code), __VA_ARGS__)
#define SHMT_REQUIRE(cond, code, ...)                    \
  do {                                                   \
    if (SHMT_UNLIKELY(!(cond)))                          \
      return shmt__fail((code), __VA_ARGS__);            \
  } while (0)

/* Assertions of our own invariants. assert() is not used, because CPython's flags carry -DNDEBUG. SHMT_DEBUG 0: none;
 * 1: SHMT_ASSERT; 2: also SHMT_ASSERT_FULL. */
#ifndef SHMT_DEBUG
#define SHMT_DEBUG 0
#endif
_Noreturn SHMT_COLD void shmt__assert_failed(const char* what, const char* file, int line);
#if SHMT_DEBUG >= 1
#define SHMT_ASSERT(cond) ((cond) ? (void)0 : shmt__assert_failed(#cond, __FILE__, __LINE__))
#else
#define SHMT_ASSERT(cond) ((void)0)
#endif
#if SHMT_DEBUG >= 2
#define SHMT_ASSERT_FULL(cond) SHMT_ASSERT(cond)
#else
#define SHMT_ASSERT_FULL(cond) ((void)0)
#endif

/* SHMT_AUTO(shmt_tensor) t = NULL; declares a variable that is released at the end of its scope. *out = SHMT_TAKE(t);
 * hands it on instead. A type T takes part by defining static inline void shmt__auto_T(T** p) next to its release
 * function. */
#define SHMT_AUTO(type) __attribute__((cleanup(shmt__auto_##type))) type*
#define SHMT_TAKE(var)                                   \
  ({                                                     \
    __typeof__(var) shmt_taken_ = (var);                 \
    (var) = NULL;                                        \
    shmt_taken_;                                         \
  })

#endif
