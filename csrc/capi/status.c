/* capi/status.c -- public statuses, arguments and timeouts. */
#include "capi/status.h"

#include "api/error.h"
#include "ipc/service/service.h"
#include "generated/version.h"
#include "os/futex.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t shmtensor_abi_version(void) { return SHMTENSOR_ABI_VERSION; }

const char* shmtensor_version(void) { return SHMT_PACKAGE_VERSION; }

const char* shmtensor_message(void) { return shmt_error_message(); }

const char* shmtensor_status_name(shmtensor_status status) {
#define NAME(status) [status] = #status
  static const char* const names[] = {
      NAME(SHMTENSOR_OK),         NAME(SHMTENSOR_E_VALUE),  NAME(SHMTENSOR_E_TYPE),        NAME(SHMTENSOR_E_KEY),
      NAME(SHMTENSOR_E_TIMEOUT),  NAME(SHMTENSOR_E_EMPTY),  NAME(SHMTENSOR_E_FULL),        NAME(SHMTENSOR_E_CLOSED),
      NAME(SHMTENSOR_E_NO_MEMORY), NAME(SHMTENSOR_E_OS),    NAME(SHMTENSOR_E_MANAGER),     NAME(SHMTENSOR_E_HANDLE),
      NAME(SHMTENSOR_E_LOST),     NAME(SHMTENSOR_E_REMOTE), NAME(SHMTENSOR_E_INTERRUPTED), NAME(SHMTENSOR_E_STATE),
      NAME(SHMTENSOR_E_OTHER),
  };
#undef NAME
  const bool is_known = status >= 0 && (size_t)status < sizeof names / sizeof names[0];
  return is_known ? names[status] : "unknown";
}

shmtensor_status shmt__public_fail(shmtensor_status status, const char* fmt, ...) {
  char text[SHMT_PUBLIC_TEXT_BYTES]; /* an argument may be the message recorded before */
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  (void)shmt__fail(SHMT_E_RUNTIME, "%s", text);
  return status;
}

shmtensor_status shmt__public_status(shmt_status status) {
  switch (status) {
    case SHMT_OK: return SHMTENSOR_OK;
    case SHMT_E_VALUE:
    case SHMT_E_INDEX:
    case SHMT_E_OVERFLOW: return SHMTENSOR_E_VALUE;
    case SHMT_E_TYPE:
    case SHMT_E_NOT_IMPLEMENTED: return SHMTENSOR_E_TYPE;
    case SHMT_E_KEY: return SHMTENSOR_E_KEY;
    case SHMT_E_NOMEM: return SHMTENSOR_E_NO_MEMORY;
    case SHMT_E_OS: return SHMTENSOR_E_OS;
    case SHMT_E_TIMEOUT: return SHMTENSOR_E_TIMEOUT;
    case SHMT_E_HANDLE: return SHMTENSOR_E_HANDLE;
    case SHMT_E_MANAGER: return SHMTENSOR_E_MANAGER;
    case SHMT_E_PYTHON: return SHMTENSOR_E_INTERRUPTED; /* a handler of Python has raised, where there is one */
    default: return SHMTENSOR_E_OTHER;
  }
}

shmtensor_status shmt__read_options(const char* function, const void* given, void* out, size_t known) {
  size_t size = 0;
  if (given == NULL) return SHMTENSOR_OK;
  memcpy(&size, given, sizeof size);
  SHMT_NEED_THAT(size >= sizeof size && size <= 4096, "%s(): options.size is %zu, expected sizeof options (%zu)",
                 function, size, known);
  for (size_t i = known; i < size; i++)
    SHMT_NEED_THAT(((const char*)given)[i] == 0,
                   "%s(): options.size is %zu, and byte %zu, which this version of the library does not know, is set",
                   function, size, i);
  memcpy(out, given, size < known ? size : known);
  return SHMTENSOR_OK;
}

shmtensor_status shmt__deadline_of_timeout(const char* function, double timeout, uint64_t* out_ns) {
  SHMT_NEED_THAT(!isnan(timeout), "%s(): timeout must be a number of seconds, got nan", function);
  *out_ns = 0;
  if (timeout < 0 || timeout >= 1e9)
    *out_ns = UINT64_MAX;
  else if (timeout > 0)
    *out_ns = shmt__os_now_ns() + (uint64_t)(timeout * 1e9);
  return SHMTENSOR_OK;
}

int shmt__slice_ms(uint64_t deadline_ns, int most) {
  const uint64_t now = deadline_ns == 0 ? 0 : shmt__os_now_ns();
  if (now >= deadline_ns) return 0;
  const uint64_t left_ms = (deadline_ns - now) / 1000000 + 1;
  return left_ms < (uint64_t)most ? (int)left_ms : most;
}

shmtensor_status shmt__check_mode(const char* function, int mode) {
  _Static_assert((int)SHMTENSOR_READ_WRITE == (int)SHMT_ATTACH_WRITING &&
                     (int)SHMTENSOR_READ_ONLY == (int)SHMT_ATTACH_READING &&
                     (int)SHMTENSOR_COPY_ON_WRITE == (int)SHMT_ATTACH_PRIVATE,
                 "the codes of modes");
  SHMT_NEED_THAT(mode >= SHMTENSOR_READ_WRITE && mode <= SHMTENSOR_COPY_ON_WRITE, "%s(): mode must be 0 to 2, got %d",
                 function, mode);
  return SHMTENSOR_OK;
}
