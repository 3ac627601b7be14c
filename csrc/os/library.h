/* os/library.h -- where the library lies whose code runs. */
#ifndef SHMT_OS_LIBRARY_H
#define SHMT_OS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

enum { SHMT_PATH_BYTES = 4096 };

/* The path of the file that this function was loaded from, without symbolic links. False: it is not known, or too
 * long. */
bool shmt__os_library_path(char* out, size_t capacity);

#endif
