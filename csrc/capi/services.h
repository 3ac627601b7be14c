/* capi/services.h -- the object behind a service's handle. */
#ifndef SHMT_CAPI_SERVICES_H
#define SHMT_CAPI_SERVICES_H

#include "api/service.h"
#include "capi/handles.h"

/* Use the service of a handle until the end of the scope. */
#define SHMT_USE_SERVICE(name, handle) SHMT_USE(shmt_service, name, SHMT_HANDLE_SERVICE, handle)

/* Check a name that is given: 1 to 127 bytes of UTF-8, so that programs in Python can say it too. */
shmtensor_status shmt__check_name(const char* function, const char* name);

#endif
