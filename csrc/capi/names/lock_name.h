/* capi/names/lock_name.h -- the name behind a handle of a lock or a barrier. */
#ifndef SHMT_CAPI_LOCK_NAME_H
#define SHMT_CAPI_LOCK_NAME_H

#include "capi/services.h"
#include "ipc/service/named_locks.h"
#include "os/mutex.h"
#include "shm/names.h"

typedef struct shmt__lock_name {
  shmt_service* service; /* owned */
  uint32_t kind, n;      /* SHMT_NAMED_LOCK_SEMAPHORE and its permits, or SHMT_NAMED_LOCK_BARRIER and its parties */
  shmt__mutex mutex;     /* guards `opened`, and what the owner of this has */
  shmt__opened_lock opened;
  char name[SHMT_NAME_BYTES];
} shmt__lock_name;

/* Open a name that was checked, or make it; most: of n. Errors: VALUE, OTHER, MANAGER; then nothing is to be ended.
 * Ownership: *out needs shmt__lock_name_fini. */
shmtensor_status shmt__lock_name_init(const char* function, shmt_service* v, const char* name, uint32_t kind,
                                      uint32_t n, uint32_t most, shmt__lock_name* out);
void shmt__lock_name_fini(shmt__lock_name* l);
/* Open it anew where this process is another client by now. *out: as it is opened now. */
shmt_status shmt__lock_name_refresh(shmt__lock_name* l, shmt__opened_lock* out);

#endif
