/* capi/names/clients.h -- the objects behind handles of calls, for shmtensor_wait_any. */
#ifndef SHMT_CAPI_CLIENTS_H
#define SHMT_CAPI_CLIENTS_H

#include "capi/names/waits.h"
#include "ipc/call/call.h"
#include "ipc/ring/wait_any.h"

/* Would a wait for the call return at once? */
bool shmt__call_object_is_done(void* object);
/* What to sleep on until it would. */
shmt__wait_item shmt__call_object_wait_item(void* object);

#endif
