/* shm/manager/posix_names.c -- names of POSIX shared memory that are removed with the last process that owns them. */
#include "shm/manager/posix_names.h"

#include "api/error.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/posix_names.h"

#include <stdlib.h>
#include <string.h>

static shmt_status keep_name(shmt__arena_manager* k, uint32_t slab, const char* name) {
  size_t n = strlen(name) + 1;
  char* copy = malloc(n);
  SHMT_REQUIRE(copy != NULL, SHMT_E_NOMEM, "the manager has no memory for its lists");
  memcpy(copy, name, n);
  free(k->slabs[slab].posix_name);
  k->slabs[slab].posix_name = copy;
  return SHMT_OK;
}

shmt_status shmt__arena_manager_write_posix_name(shmt__arena_manager* k, uint32_t slab, const char* name) {
  shmt__posix_name* record = &k->map.posix_names[slab];
  SHMT_TRY(shmt__map_populate(&k->map, k->control_fd, record, sizeof *record));
  SHMT_TRY(keep_name(k, slab, name));
  memset(record->text, 0, sizeof record->text);
  memcpy(record->text, name, strlen(name) + 1);
  return SHMT_OK;
}

shmt_status shmt__arena_manager_adopt_posix_name(shmt__arena_manager* k, uint32_t slab, shmt__slab_view* view) {
  shmt__posix_name record;
  /* Read from the file: a member may have set has_posix_name where no name was ever written. */
  uint64_t from = (uint64_t)((char*)&k->map.posix_names[slab] - (char*)k->map.control);
  bool is_read = shmt__os_read_at(k->control_fd, &record, sizeof record, from);
  record.text[sizeof record.text - 1] = '\0';
  view->has_posix_name = is_read && (k->map.fixed.flags & SHMT_SESSION_GROUP) == 0 &&
                         shmt__os_posix_name_check(record.text) == SHMT_OK;
  if (!view->has_posix_name) {
    shmt_error_clear();
    return SHMT_OK;
  }
  return keep_name(k, slab, record.text);
}

void shmt__arena_manager_repair_posix_name(shmt__arena_manager* k, uint32_t slab) {
  shmt__posix_name* record = &k->map.posix_names[slab];
  const char* right = k->slabs[slab].posix_name;
  size_t n = strlen(right) + 1;
  if (memcmp(record->text, right, n) != 0) memcpy(record->text, right, n);
}

void shmt__arena_manager_forget_posix_name(shmt__arena_manager* k, uint32_t slab) {
  k->slabs[slab].view.has_posix_name = false;
}

static bool has_other_owner(const shmt__arena_manager* k, uint32_t slab) {
  const shmt__slab_view* s = &k->slabs[slab].view;
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    const shmt__slab_view* other = shmt__arena_manager_slab_at(k, i);
    if (i != slab && other != NULL && other->has_posix_name && other->file_identity[0] == s->file_identity[0] &&
        other->file_identity[1] == s->file_identity[1])
      return true;
  }
  return false;
}

void shmt__arena_manager_unlink_posix_name(shmt__arena_manager* k, uint32_t slab) {
  const shmt__arena_manager_slab* s = &k->slabs[slab];
  if (!s->view.has_posix_name || has_other_owner(k, slab)) return;
  (void)shmt__os_posix_name_remove(s->posix_name, s->view.file_identity);
  SHMT_FAILPOINT(posix_name_removed);
}

void shmt__arena_manager_unlink_posix_names(shmt__arena_manager* k) {
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    const shmt__slab_view* s = shmt__arena_manager_slab_at(k, i);
    if (s != NULL && s->has_posix_name) (void)shmt__os_posix_name_remove(k->slabs[i].posix_name, s->file_identity);
  }
}
