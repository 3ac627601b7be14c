/* base/debug.c -- aids that SHMTENSOR_DEBUG switches on in a running program. */
#include "base/debug.h"

bool shmt__debug;
