/* os/library.c -- where the library lies whose code runs. */
#define _GNU_SOURCE
#include "os/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

bool shmt__os_library_path(char* out, size_t capacity) {
  static const char own = 0; /* any address of this library */
  Dl_info info;
  if (dladdr(&own, &info) == 0 || info.dli_fname == NULL) return false;
  char* path = realpath(info.dli_fname, NULL);
  const bool fits = path != NULL && strlen(path) < capacity;
  if (fits) memcpy(out, path, strlen(path) + 1);
  free(path);
  return fits;
}
