/* base/warn.h -- how C code warns the user.
 *
 * Layers below Python never print. They call shmt__warn; the Python layer installs a hook that passes the warning to
 * `warnings.warn`. Without a hook the warning is dropped.
 */
#ifndef SHMT_BASE_WARN_H
#define SHMT_BASE_WARN_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Receives a finished message. Must not fail; may take the interpreter lock. When the user's filter turns
 * the warning into an exception, returns SHMT_E_PYTHON with that exception pending. */
typedef shmt_status (*shmt__warn_hook)(const char* message);

/* Warn the user (a UserWarning in Python).
 * Errors: whatever the hook returns, normally SHMT_OK; callers propagate it with SHMT_TRY. */
SHMT_COLD shmt_status shmt__warn(const char* fmt, ...) SHMT_PRINTF(1, 2);

/* The same once in a process: `warned` says whether it has warned, and is set then. After
 * `shmt__warn_set_always(true)` it warns each time.
 * Errors: as above. */
SHMT_COLD shmt_status shmt__warn_once(_Atomic(bool)* warned, const char* fmt, ...) SHMT_PRINTF(2, 3);

/* Whether shmt__warn_once repeats itself; false at first. */
void shmt__warn_set_always(bool always);

/* Install the hook (NULL removes it); the Python layer calls this once. */
void shmt__warn_set_hook(shmt__warn_hook hook);

#endif
