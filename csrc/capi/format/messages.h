/* capi/format/messages.h -- values as the messages of rings, in the plain format of ipc/message/message_format.h. */
#ifndef SHMT_CAPI_MESSAGES_H
#define SHMT_CAPI_MESSAGES_H

#include "capi/values.h"
#include "ipc/ring/ring.h"

/* A message that is ready to be put. */
typedef struct shmt__packed_value {
  shmt__outgoing_message message;
  shmt_storage** storages; /* owned, each of them too */
  char *records, *plain;   /* malloc'd */
} shmt__packed_value;

/* Write a value for a ring. Errors: VALUE (nested too deep, too many tensors), NO_MEMORY, MANAGER.
 * Ownership: *out is the caller's; shmt__packed_value_fini. */
shmtensor_status shmt__value_pack(const shmtensor_value* v, const shmt__ring* r, shmt__packed_value* out);
void shmt__packed_value_fini(shmt__packed_value* p);

/* The value of a received message, whose tensors are seen in `mode`; the message stays the caller's. Errors: TYPE (a
 * pickle, or something that C has not), HANDLE (it is damaged), NO_MEMORY, MANAGER. */
shmtensor_status shmt__value_unpack(shmt__received_message* m, int mode, shmtensor_value** out);

#endif
