/* capi/services.h -- the object behind a service's handle. */
#ifndef SHMT_CAPI_SERVICES_H
#define SHMT_CAPI_SERVICES_H

#include "api/service.h"
#include "capi/handles.h"

/* Use the service of a handle until the end of the scope. */
#define SHMT_USE_SERVICE(name, handle) SHMT_USE(shmt_service, name, SHMT_HANDLE_SERVICE, handle)

#endif
