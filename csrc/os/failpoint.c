/* os/failpoint.c -- places where crash tests kill or stop the process. */
#define _GNU_SOURCE
#include "os/failpoint.h"

#ifdef SHMT_FAILPOINTS
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void shmt__failpoint(const char* name) {
  const char* wanted = getenv("SHMTENSOR_FAILPOINT");
  size_t len = strlen(name);
  if (wanted == NULL || strncmp(wanted, name, len) != 0 || wanted[len] != ':') return;
  const char* stop = getenv("SHMTENSOR_FAILPOINT_STOPS");
  if (unlink(wanted + len + 1) == 0) (void)kill(getpid(), stop != NULL ? SIGSTOP : SIGKILL);
}
#else
typedef int shmt__failpoints_are_off; /* a translation unit must not be empty */
#endif
