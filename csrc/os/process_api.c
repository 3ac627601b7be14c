/* os/process_api.c -- settings of this process and its threads in the kernel; implements api/process.h. */
#define _GNU_SOURCE
#include "api/process.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "base/utf8.h"
#include "os/users.h"

int shmt_set_parent_death_signal(int signal) {
  SHMT_REQUIRE(prctl(PR_SET_PDEATHSIG, (unsigned long)signal, 0, 0, 0) == 0, SHMT_E_RUNTIME,
               "prctl: %s", strerror(errno));
  return SHMT_OK;
}

int shmt_set_thread_name(const char* name) {
  char cut[SHMT_THREAD_NAME_BYTES];
  size_t n = strlen(name);
  if (n >= sizeof cut) n = shmt__utf8_whole(name, sizeof cut - 1);
  memcpy(cut, name, n);
  cut[n] = 0;
  SHMT_REQUIRE(prctl(PR_SET_NAME, cut, 0, 0, 0) == 0, SHMT_E_RUNTIME, "prctl: %s",
               strerror(errno));
  return SHMT_OK;
}

int shmt_get_thread_name(char* out) {
  memset(out, 0, SHMT_THREAD_NAME_BYTES);
  SHMT_REQUIRE(prctl(PR_GET_NAME, out, 0, 0, 0) == 0, SHMT_E_RUNTIME, "prctl: %s",
               strerror(errno));
  return SHMT_OK;
}

int shmt_user_is_known(uint32_t uid) { return shmt__os_user_is_known(uid); }

void shmt_memory_fence(void) { atomic_thread_fence(memory_order_seq_cst); }
