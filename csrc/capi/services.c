/* capi/services.c -- joining a service, its memory, its names. */
#include "capi/services.h"

#include "capi/values.h"
#include "ipc/service/service_internal.h"
#include "os/library.h"
#include "os/users.h"
#include "shm/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the manager's program --- */

/* The program beside this library: lib/libshmtensor.so.0 and bin/shmtensor-manager have one folder above them. */
static bool find_manager(char* out, size_t capacity) {
  char own[SHMT_PATH_BYTES];
  if (!shmt__os_library_path(own, sizeof own)) return false;
  for (int up = 0; up < 2; up++) {
    char* slash = strrchr(own, '/');
    if (slash == NULL) return false;
    *slash = '\0';
  }
  return snprintf(out, capacity, "%s/bin/shmtensor-manager", own) < (int)capacity;
}

/* Say where the manager's program is, unless Python has, or this was called before. */
static shmtensor_status configure(const char* function, const char* manager) {
  char found[SHMT_PATH_BYTES];
  if (manager == NULL && shmt__sessions_manager_path()[0] != '\0') return SHMTENSOR_OK;
  if (manager == NULL && find_manager(found, sizeof found)) manager = found;
  SHMT_NEED_THAT(manager != NULL && manager[0] == '/' && strlen(manager) < SHMT_PATH_BYTES,
                 "%s(): options.manager must be an absolute path of at most %d bytes", function, SHMT_PATH_BYTES - 1);
  const char* limit = getenv("SHMTENSOR_MAX_SHARED_BYTES");
  (void)shmt__sessions_configure(manager, shmt__sessions_default_id(), limit != NULL ? strtoull(limit, NULL, 10) : 0);
  return SHMTENSOR_OK;
}

/* --- life --- */

static const char* default_name(void) {
  const char* name = getenv("SHMTENSOR_SERVICE");
  return name != NULL && name[0] != '\0' ? name : "default";
}

static void free_service(void* object) { shmt_service_free(object); }

shmtensor_status shmtensor_service_open(const shmtensor_service_options* options, shmtensor_service** out) {
  SHMT_OPTIONS(shmtensor_service_options, how, options);
  void* handle = NULL;
  shmt_service* v = NULL;
  SHMT_NEED(out);
  const char* name = how.name != NULL ? how.name : default_name();
  const bool is_own = how.socket == NULL && (!how.is_of_owner || how.owner == shmt__os_uid());
  SHMT_NEED_THAT(is_own || !how.start,
                 "%s(): options.start starts your own service by its name; leave out socket and owner", __func__);
  SHMT_NEED_THAT(strlen(name) > 0 && strlen(name) < SHMT_NAME_BYTES, "%s(): options.name must have 1 to %d bytes",
                 __func__, SHMT_NAME_BYTES - 1);
  SHMT_PASS(configure(__func__, how.manager));
  const int may_start = is_own && (how.start || strcmp(name, default_name()) == 0);
  SHMT_PUBLIC_TRY(
      shmt_service_create(name, how.socket, how.is_of_owner ? how.owner : SHMT_OWN_SERVICE, may_start, &v));
  const shmt_status status = shmt_service_join(v, 0);
  if (status != SHMT_OK) {
    shmt_service_free(v);
    return shmt__public_status(status);
  }
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_SERVICE, v, free_service, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_service_close(shmtensor_service* service) {
  return SHMT_CLOSE(SHMT_HANDLE_SERVICE, service);
}

/* --- memory --- */

static shmtensor_status empty(const char* function, const shmt__handle_use* use, DLDataType dtype, int ndim,
                              const int64_t* shape, double timeout, DLManagedTensorVersioned** out) {
  shmt__geometry g;
  uint64_t nbytes = 0, deadline_ns = 0;
  bool again = true;
  SHMT_AUTO(shmt_storage) s = NULL;
  SHMT_NEED_THAT(out != NULL, "%s(): out is NULL", function);
  SHMT_PASS(shmt__geometry_of(function, dtype, ndim, shape, &g, &nbytes));
  SHMT_PASS(shmt__deadline_of_timeout(function, timeout, &deadline_ns));
  while (again) {
    const shmt_status status = shmt_service_new_storage(use->object, nbytes, &s);
    SHMT_PASS(shmt__public_room(function, use, status, deadline_ns, &again));
  }
  return shmt__tensor_export(s, &g, out);
}

shmtensor_status shmtensor_empty(shmtensor_service* service, DLDataType dtype, int ndim, const int64_t* shape,
                                 DLManagedTensorVersioned** out) {
  SHMT_USE_SERVICE(v, service);
  (void)v;
  return empty(__func__, &v_use, dtype, ndim, shape, 0, out);
}

shmtensor_status shmtensor_empty_within(shmtensor_service* service, DLDataType dtype, int ndim, const int64_t* shape,
                                        double timeout, DLManagedTensorVersioned** out) {
  SHMT_USE_SERVICE(v, service);
  (void)v;
  return empty(__func__, &v_use, dtype, ndim, shape, timeout, out);
}

/* --- names --- */

shmtensor_status shmt__check_name(const char* function, const char* name) {
  SHMT_NEED_THAT(name != NULL, "%s(): name is NULL", function);
  const size_t n = strlen(name);
  SHMT_NEED_THAT(n > 0 && n < SHMT_NAME_BYTES, "%s(): name must have 1 to %d bytes, has %zu", function,
                 SHMT_NAME_BYTES - 1, n);
  SHMT_NEED_THAT(shmt__is_utf8(name, n), "%s(): name of %zu bytes is not UTF-8", function, n);
  return SHMTENSOR_OK;
}

static const char* kind_text(uint32_t kind) {
  static const char* const texts[SHMT_N_NAME_KINDS] = {"value", "queue", "topic", "event", "server"};
  return kind < SHMT_N_NAME_KINDS ? texts[kind] : "unknown";
}

shmtensor_status shmtensor_next_name(shmtensor_service* service, uint32_t* position, shmtensor_name* out) {
  shmtensor_name found = {.size = sizeof found};
  shmt_service_entry entry;
  SHMT_USE_SERVICE(v, service);
  SHMT_NEED(position);
  SHMT_NEED(out);
  SHMT_NEED_THAT(out->size >= sizeof found, "%s(): out->size is %zu, expected %zu", __func__, out->size, sizeof found);
  while (*position != UINT32_MAX) {
    uint32_t next = 0;
    SHMT_PUBLIC_TRY(shmt_service_entry_at(v, *position, &entry, found.name, &next));
    *position = next == 0 ? UINT32_MAX : next;
    if (found.name[0] == '\0') continue;
    (void)snprintf(found.kind, sizeof found.kind, "%s", kind_text(entry.kind));
    found.version = entry.version;
    found.nbytes = entry.nbytes;
    found.pid = entry.pid;
    found.uid = entry.uid;
    found.persists = entry.persists;
    found.size = out->size;
    memcpy(out, &found, sizeof found);
    return SHMTENSOR_OK;
  }
  return shmt__public_fail(SHMTENSOR_E_KEY, "%s(): there are no more names", __func__);
}
