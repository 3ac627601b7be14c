/* python/call/site.h -- where in a Python program something happens. */
#ifndef SHMT_PYTHON_CALL_SITE_H
#define SHMT_PYTHON_CALL_SITE_H

#include <stddef.h>

/* The end of "path:line" of the innermost Python frame of this thread that is not the package's own;
 * "" when there is none. Takes the interpreter lock; the caller holds no other. */
void shmt__py_append_call_site(char* out, size_t capacity);

#endif
