/* capi/published.c -- values that are published and attached by name. */
#include "capi/format/json_text.h"
#include "capi/services.h"
#include "ipc/service/service_internal.h"
#include "os/futex.h"

#include <inttypes.h>
#include <stdlib.h>

enum { SLICE_MS = 100 };

/* --- publishing --- */

static shmt_status publish_once(shmt_service* v, const char* name, const shmtensor_value* value, bool persists,
                                uint64_t* out_version) {
  __attribute__((cleanup(shmt__json_writer_fini))) shmt__json_writer w = {.session = NULL};
  SHMT_AUTO(shmt__pinned_session) s = NULL;
  SHMT_TRY(shmt__service_pinned(v, true, &s));
  w.session = s;
  SHMT_TRY(shmt__json_write(&w, value));
  return shmt_service_publish(v, name, w.storages, w.n_storages, w.text.at, w.text.n,
                              persists ? (uint32_t)SHMT_PUBLISH_PERSISTS : 0, out_version);
}

shmtensor_status shmtensor_publish(shmtensor_service* service, const char* name, const shmtensor_value* value,
                                   const shmtensor_publish_options* options, uint64_t* out_version) {
  SHMT_OPTIONS(shmtensor_publish_options, how, options);
  uint64_t deadline_ns = 0, version = 0;
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_PASS(shmt__value_check(__func__, "value", value));
  SHMT_PASS(shmt__deadline_of_timeout(__func__, how.timeout, &deadline_ns));
  bool again = true;
  while (again) {
    const shmt_status status = publish_once(v, name, value, how.persist != 0, &version);
    SHMT_PASS(shmt__public_room(__func__, &v_use, status, deadline_ns, &again));
  }
  if (out_version != NULL) *out_version = version;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_unpublish(shmtensor_service* service, const char* name) {
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_PUBLIC_TRY(shmt_service_unpublish(v, name));
  return SHMTENSOR_OK;
}

/* --- attaching --- */

static void auto_snapshot(shmt_snapshot** place) { shmt_snapshot_clear(place); }

/* The storages of a snapshot: *out is malloc'd, with references that are the snapshot's. */
static shmt_status storages_of(const shmt_snapshot* snapshot, shmt_storage*** out) {
  const uint64_t n = shmt_snapshot_n_storages(snapshot);
  shmt_storage** storages = malloc((n + 1) * sizeof(shmt_storage*));
  SHMT_REQUIRE(storages != NULL, SHMT_E_NOMEM, "attach(): %" PRIu64 " storages", n);
  for (uint64_t i = 0; i < n; i++) {
    storages[i] = shmt_snapshot_storage(snapshot, i);
    shmt__storage_release(storages[i]); /* the snapshot keeps it */
  }
  *out = storages;
  return SHMT_OK;
}

static shmt_status read_snapshot(const shmt_snapshot* snapshot, shmtensor_value** out) {
  shmt_storage** storages = NULL;
  uint64_t n_text = 0;
  const char* text = shmt_snapshot_text(snapshot, &n_text);
  SHMT_TRY(storages_of(snapshot, &storages));
  shmt_status status = shmt__json_read(text, n_text, storages, shmt_snapshot_n_storages(snapshot), out);
  free(storages);
  return status;
}

shmtensor_status shmtensor_attach(shmtensor_service* service, const char* name, int mode, shmtensor_value** out,
                                  uint64_t* out_version) {
  __attribute__((cleanup(auto_snapshot))) shmt_snapshot* snapshot = NULL;
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_PASS(shmt__check_mode(__func__, mode));
  SHMT_NEED(out);
  SHMT_PUBLIC_TRY(shmt_snapshot_open(v, name, mode, &snapshot));
  const shmt_service_entry* entry = shmt_snapshot_entry(snapshot);
  SHMT_NEED_THAT(entry->kind == SHMT_NAME_VALUE, "%s(): '%s' is %s, not a value", __func__, name,
                 shmt__name_kind_title((shmt__name_kind)entry->kind));
  const uint64_t version = entry->version;
  SHMT_PUBLIC_TRY(read_snapshot(snapshot, out));
  if (out_version != NULL) *out_version = version;
  return SHMTENSOR_OK;
}

/* --- versions --- */

shmtensor_status shmtensor_version_of(shmtensor_service* service, const char* name, uint64_t* out) {
  shmt_service_entry entry;
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_NEED(out);
  SHMT_PUBLIC_TRY(shmt_service_find(v, name, &entry));
  *out = entry.version;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_wait_newer(shmtensor_service* service, const char* name, uint64_t version, double timeout,
                                      uint64_t* out_version) {
  uint64_t deadline_ns = 0;
  shmt_service_entry entry;
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  const uint32_t n_signals = shmt__os_n_interrupted();
  for (;;) {
    const int slice = shmt__slice_ms(deadline_ns, SLICE_MS);
    shmt_status status = shmt_service_wait(v, name, version, slice);
    if (status == SHMT_OK) status = shmt_service_find(v, name, &entry);
    if (status == SHMT_OK && entry.version > version) break;
    /* It may have been unpublished at this moment. */
    if (status != SHMT_OK && status != SHMT_E_TIMEOUT && status != SHMT_E_KEY) return shmt__public_status(status);
    if (slice == 0)
      return shmt__public_fail(SHMTENSOR_E_TIMEOUT, "%s(): no version of '%s' above %" PRIu64 " came in time", __func__,
                               name, version);
    if (shmt__os_n_interrupted() != n_signals)
      return shmt__public_fail(SHMTENSOR_E_INTERRUPTED, "%s(): a signal came", __func__);
    if (shmt__handle_is_closed(&v_use))
      return shmt__public_fail(SHMTENSOR_E_CLOSED, "%s(): service was closed meanwhile", __func__);
  }
  if (out_version != NULL) *out_version = entry.version;
  return SHMTENSOR_OK;
}
