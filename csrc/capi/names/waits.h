/* capi/names/waits.h -- operations of rings that may wait, for handles. */
#ifndef SHMT_CAPI_WAITS_H
#define SHMT_CAPI_WAITS_H

#include "capi/handles.h"
#include "capi/format/messages.h"

#include <stddef.h>

/* Put a message. Errors: late, CLOSED, INTERRUPTED, those of the ring. */
shmtensor_status shmt__wait_put(const char* function, const shmt__handle_use* use, shmt__ring* r,
                                const shmt__outgoing_message* m, uint64_t deadline_ns);
/* Take one message. Errors: EMPTY, CLOSED, INTERRUPTED, those of the ring. Ownership: *out is the caller's. */
shmtensor_status shmt__wait_get(const char* function, const shmt__handle_use* use, shmt__ring* r, uint64_t deadline_ns,
                                shmt__received_message* out);
/* Take one message and read it. */
shmtensor_status shmt__wait_get_value(const char* function, const shmt__handle_use* use, shmt__ring* r, int mode,
                                      uint64_t deadline_ns, shmtensor_value** out);
/* The objects of queues, subscriptions and servers begin with their ring, for shmtensor_wait_any. */
#define SHMT_BEGINS_WITH_RING(type) _Static_assert(offsetof(type, ring) == 0, "see shmt__object_ring")
static inline shmt__ring* shmt__object_ring(void* object) { return *(shmt__ring**)object; }
/* The descriptor of a ring. Errors: OS. */
shmtensor_status shmt__ring_public_fileno(shmt__ring* r, int* out);

#endif
