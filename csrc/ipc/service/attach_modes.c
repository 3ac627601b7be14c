/* ipc/service/attach_modes.c -- attaching storages read-only, writable or copy-on-write: the maps behind these
 * modes. */
#include "ipc/service/service.h"

#include "ipc/handle/storage_files.h"
#include "os/memfd.h"
#include "os/socket.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- maps of the whole arena --- */

shmt_status shmt__session_map_arena(shmt__session* s, bool writing) {
  void* base = NULL;
  int fd = -1;
  if (SHMT_LIKELY((writing ? s->base : s->reading_base) != NULL)) return SHMT_OK;
  SHMT_TRY(shmt__session_get_arena(s, writing, &fd));
  if ((writing ? s->base : s->reading_base) != NULL) { /* another thread has mapped it meanwhile */
    shmt__os_close(fd);
    return SHMT_OK;
  }
  shmt_status status = writing ? shmt__os_map_shared(fd, s->map.fixed.arena_bytes, &base)
                               : shmt__os_map_read_only(fd, s->map.fixed.arena_bytes, &base);
  if (status == SHMT_OK && writing) {
    s->base = s->arena.base = base;
    shmt__descriptor_replace(&s->arena_file, shmt__descriptor_own(fd));
    s->key.is_reader = false;
    fd = -1;
  } else if (status == SHMT_OK) {
    s->reading_base = base;
  }
  shmt__os_close(fd);
  return status;
}

/* --- storages that see a block through another map --- */

typedef struct view {
  shmt_storage* original; /* owned */
  void* map;              /* of this storage alone, or NULL */
  uint64_t map_bytes;
} view;

static void free_view(void* data, void* ctx, uint64_t nbytes) {
  view* v = ctx;
  (void)data;
  (void)nbytes;
  if (v->map != NULL) shmt__os_unmap(v->map, v->map_bytes);
  shmt__storage_release(v->original);
  free(v);
}

static const shmt__allocator allocator_view = {.name = "service", .free = free_view};

/* Map the file of a FILE block once more, in another mode. */
static shmt_status map_again(shmt__held_block* h, uint64_t nbytes, int mode, view* v,
                             void** out_data) {
  int fd = -1;
  SHMT_TRY(shmt__block_descriptor(h, &fd));
  shmt_status status =
      mode == SHMT_ATTACH_PRIVATE
          ? shmt__os_map_private(fd, 0, nbytes, out_data, &v->map, &v->map_bytes)
          : shmt__os_map_read_only(fd, nbytes, out_data);
  shmt__os_close(fd);
  if (status == SHMT_OK && mode != SHMT_ATTACH_PRIVATE) {
    v->map = *out_data;
    v->map_bytes = nbytes;
  }
  return status;
}

static shmt_status find_bytes(const shmt_storage* original, int mode, view* v, void** out_data) {
  shmt__held_block* h = original->ctx;
  shmt__session* s = h->session;
  if (h->map != NULL) return map_again(h, original->nbytes, mode, v, out_data);
  uint64_t offset = h->offset;
  if (mode == SHMT_ATTACH_PRIVATE) {
    int fd = -1;
    SHMT_TRY(shmt__session_arena_number(s, &fd));
    return shmt__os_map_private(fd, offset, original->nbytes, out_data, &v->map, &v->map_bytes);
  }
  SHMT_TRY(shmt__session_map_arena(s, mode == SHMT_ATTACH_WRITING));
  *out_data = (mode == SHMT_ATTACH_WRITING ? s->base : s->reading_base) + offset;
  return SHMT_OK;
}

shmt_status shmt__storage_in_mode(shmt_storage* original, int mode, shmt_storage** out) {
  bool is_reading = shmt__storage_has(original, SHMT_STORAGE_READ_ONLY);
  const shmt__held_block* h = original->ctx;
  if (h == NULL || (mode != SHMT_ATTACH_PRIVATE && is_reading == (mode == SHMT_ATTACH_READING))) {
    shmt__storage_retain(original);
    *out = original;
    return SHMT_OK;
  }
  view* v = calloc(1, sizeof *v);
  SHMT_REQUIRE(v != NULL, SHMT_E_NOMEM, "storage: tried to allocate %zu bytes", sizeof *v);
  uint32_t flags = mode == SHMT_ATTACH_WRITING   ? (uint32_t)SHMT_STORAGE_SHARED
                   : mode == SHMT_ATTACH_READING ? SHMT_STORAGE_SHARED | SHMT_STORAGE_READ_ONLY
                                                 : 0u;
  void* data = NULL;
  shmt__sessions_lock();
  shmt_status status = find_bytes(original, mode, v, &data);
  shmt__sessions_unlock();
  if (status == SHMT_OK)
    status = shmt__storage_adopt(&allocator_view, data, v, original->nbytes, flags, out);
  if (status != SHMT_OK) {
    if (v->map != NULL) shmt__os_unmap(v->map, v->map_bytes);
    free(v);
    return status;
  }
  v->original = original;
  shmt__storage_retain(original);
  return SHMT_OK;
}
