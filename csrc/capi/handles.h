/* capi/handles.h -- the handles that programs have in place of pointers.
 *
 * Note [Handles]
 * A handle is a number: where its entry is in a table, and how often that entry was used before. So a handle that is
 * closed, or was never one, is recognised, whatever a program does, and no memory is read by it. The table grows and
 * never shrinks. Each call counts itself in the entry while it uses the object. Closing marks the entry; the last
 * call to leave, or the one that closes, destroys the object. A call that waits looks now and then whether its handle
 * was closed.
 */
#ifndef SHMT_CAPI_HANDLES_H
#define SHMT_CAPI_HANDLES_H

#include "capi/status.h"

typedef enum shmt__handle_kind {
  SHMT_HANDLE_SERVICE = 1,
  SHMT_HANDLE_QUEUE,
  SHMT_HANDLE_DELIVERY,
  SHMT_HANDLE_TOPIC,
  SHMT_HANDLE_LOAN,
  SHMT_HANDLE_SUBSCRIPTION,
  SHMT_HANDLE_CLIENT,
  SHMT_HANDLE_SERVER,
  SHMT_HANDLE_REQUEST,
  SHMT_HANDLE_EVENT,
  SHMT_HANDLE_LOCK,
  SHMT_HANDLE_BARRIER,
  SHMT_HANDLE_CALL,
  SHMT_N_HANDLE_KINDS
} shmt__handle_kind;

typedef struct shmt__handle_entry shmt__handle_entry;

/* Make a handle of an object; destroy(object) is called once, when it is closed and nobody uses it. *out is the
 * handle. Errors: NO_MEMORY (also: there are too many handles); then the object was destroyed. */
shmtensor_status shmt__handle_open(shmt__handle_kind kind, void* object, void (*destroy)(void* object), void** out);

/* What a call uses. */
typedef struct shmt__handle_use {
  void* object; /* NULL: the handle is none, or closed; the error record says so */
  shmt__handle_entry* entry;
  shmtensor_status status; /* why not */
} shmt__handle_use;
shmt__handle_use shmt__handle_begin(shmt__handle_kind kind, const void* handle, const char* function,
                                    const char* argument);
void shmt__handle_end(shmt__handle_use* use);
/* The kind of a handle that is open; 0: it is none. */
shmt__handle_kind shmt__handle_kind_of(const void* handle);
/* Was it closed since? */
bool shmt__handle_is_closed(const shmt__handle_use* use);
/* Close it. Errors: VALUE, CLOSED. */
shmtensor_status shmt__handle_close(shmt__handle_kind kind, const void* handle, const char* function,
                                    const char* argument);

/* Use the object of a handle until the end of the scope. */
#define SHMT_USE(type, name, kind, handle)                                                                   \
  __attribute__((cleanup(shmt__handle_end))) shmt__handle_use name##_use =                                   \
      shmt__handle_begin((kind), (handle), __func__, #handle);                                               \
  if (SHMT_UNLIKELY(name##_use.object == NULL)) return name##_use.status;                                    \
  type* const name = name##_use.object
#define SHMT_CLOSE(kind, handle) shmt__handle_close((kind), (handle), __func__, #handle)

/* An operation of rings that may wait. */
typedef struct shmt__public_wait shmt__public_wait;
struct shmt__public_wait {
  shmt__ring_result (*call)(shmt__public_wait* w, uint64_t deadline_ns);
};
/* Run it until it is done, its deadline has passed (the result says in which way), a signal's handler has run
 * (SHMT_RING_INTERRUPTED), or the handle is closed (SHMT_RING_ALONE and *out_closed). */
shmt__ring_result shmt__public_wait_run(shmt__public_wait* w, const shmt__handle_use* use, uint64_t deadline_ns,
                                        bool* out_closed);
/* Sleep for a moment, and not beyond the deadline, in a wait that looks now and then. False: a signal came. */
bool shmt__public_pause(uint64_t deadline_ns, int ms);
/* After an attempt that ended with `status`: is it to be made again, as there was no memory and there may be soon? Has
 * waited a moment then. Errors: that of the attempt, CLOSED, INTERRUPTED. */
shmtensor_status shmt__public_room(const char* function, const shmt__handle_use* use, shmt_status status,
                                   uint64_t deadline_ns, bool* out_again);
/* The public status of a result that is not DONE, with a text; late: the status for a deadline that has passed. */
shmtensor_status shmt__public_result(const char* function, shmt__ring_result result, bool is_closed,
                                     shmtensor_status late);

#endif
