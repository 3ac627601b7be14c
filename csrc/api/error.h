/* api/error.h -- reading the calling thread's error record from Python. */
#ifndef SHMT_API_ERROR_H
#define SHMT_API_ERROR_H

/* The message recorded last on this thread; "" when there is none.
 * Ownership: borrowed, valid until the next failure on this thread. */
const char* shmt_error_message(void);

/* The code recorded last on this thread; SHMT_OK when there is none. */
int shmt_error_code(void);

/* errno of the failed system call, or 0 when the failure was none. */
int shmt_error_errno(void);

/* Forget the record of this thread. */
void shmt_error_clear(void);

#endif
