/* base/debug.c -- aids that SHMTENSOR_DEBUG switches on in a running program. */
#include "base/debug.h"

#include "generated/options.h"

bool shmt__debug;

__attribute__((constructor)) static void read_option(void) {
  shmt__debug = shmt__options_get()->debug > 0;
}
