/* capi/status.h -- public statuses, arguments, timeouts and waits, for the files of capi/. */
#ifndef SHMT_CAPI_STATUS_H
#define SHMT_CAPI_STATUS_H

#include "base/error.h"
#include "capi/shmtensor.h"
#include "ipc/ring/ring.h"

enum { SHMT_PUBLIC_TEXT_BYTES = 4096 }; /* of shmtensor_message(), with the zero at its end */

/* Record a failure for shmtensor_message(). Returns status. */
SHMT_COLD shmtensor_status shmt__public_fail(shmtensor_status status, const char* fmt, ...) SHMT_PRINTF(2, 3);
/* The public status of one of the layers below, whose record is filled. */
shmtensor_status shmt__public_status(shmt_status status);

/* Return at once when a call of a layer below fails, or one of this layer. */
#define SHMT_PUBLIC_TRY(call)                                              \
  do {                                                                     \
    const shmt_status shmt_try_status_ = (call);                           \
    if (SHMT_UNLIKELY(shmt_try_status_ != SHMT_OK))                        \
      return shmt__public_status(shmt_try_status_);                        \
  } while (0)
#define SHMT_PASS(call)                                                    \
  do {                                                                     \
    const shmtensor_status shmt_pass_status_ = (call);                     \
    if (SHMT_UNLIKELY(shmt_pass_status_ != SHMTENSOR_OK))                  \
      return shmt_pass_status_;                                            \
  } while (0)

/* The function that is called from outside says which argument is wrong. */
#define SHMT_NEED(pointer)                                                                         \
  do {                                                                                             \
    if (SHMT_UNLIKELY((pointer) == NULL))                                                          \
      return shmt__public_fail(SHMTENSOR_E_VALUE, "%s(): %s is NULL", __func__, #pointer);         \
  } while (0)
#define SHMT_NEED_THAT(condition, ...)                                                             \
  do {                                                                                             \
    if (SHMT_UNLIKELY(!(condition))) return shmt__public_fail(SHMTENSOR_E_VALUE, __VA_ARGS__);     \
  } while (0)

/* Copy options of a caller who may have been compiled with an older or a newer header: `known` bytes of ours, the
 * caller's say how many they are. NULL leaves the zeros. Errors: VALUE (no size, or fields that we do not know are
 * set). */
shmtensor_status shmt__read_options(const char* function, const void* given, void* out, size_t known);
#define SHMT_OPTIONS(type, name, given)                                                            \
  type name = {.size = sizeof name};                                                               \
  SHMT_PASS(shmt__read_options(__func__, (given), &name, sizeof name))

/* The deadline of a timeout, on the clock of shmt__os_now_ns(): 0 is now, UINT64_MAX never. Errors: VALUE (not a
 * number). */
shmtensor_status shmt__deadline_of_timeout(const char* function, double timeout, uint64_t* out_ns);
/* Milliseconds to wait next, at most `most`; 0: the deadline has passed. */
int shmt__slice_ms(uint64_t deadline_ns, int most);

/* Check the code of a mode of received tensors. */
shmtensor_status shmt__check_mode(const char* function, int mode);

#endif
