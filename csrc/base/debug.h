/* base/debug.h -- aids that SHMTENSOR_DEBUG switches on in a running program; see docs/tools.md. */
#ifndef SHMT_BASE_DEBUG_H
#define SHMT_BASE_DEBUG_H

#include <stdbool.h>

/* Set once, when the extension is loaded and before anything is allocated. */
extern bool shmt__debug;

/* What freed memory is filled with. */
enum { SHMT_DEBUG_POISON = 0xdb };

#endif
