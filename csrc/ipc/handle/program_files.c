/* ipc/handle/program_files.c -- storages over files that the program has mapped (from_file), when they are sent. */
#include "ipc/handle/program_files.h"

#include "ipc/handle/release.h"
#include "ipc/handle/share.h"
#include "ipc/handle/storage_files.h"
#include "ipc/session/move_locks.h"
#include "os/files.h"
#include "os/memfd.h"
#include "storage/allocator.h"

static bool is_mapped_file(const shmt_storage* s) {
  /* acquire: whoever sees the other allocator sees its ctx. */
  return __atomic_load_n(&s->allocator, __ATOMIC_ACQUIRE) == &shmt__allocator_mapped_file;
}

bool shmt__storage_is_unknown_file(const shmt_storage* s) {
  return is_mapped_file(s) && shmt__storage_is_shared(s) && s->nbytes > 0 && !(s->flags & SHMT_STORAGE_READ_ONLY);
}

/* The storage shows the file through the same mapping, which h frees. Under the move lock. */
static void give_to(shmt_storage* s, shmt__held_block* h, int fd) {
  shmt__sessions_lock();
  h->origin = s->ctx;
  h->map = s->data;
  h->map_bytes = h->nbytes = s->nbytes;
  h->storage = s;
  shmt__file_block_save(h, fd);
  shmt__sessions_unlock();
  s->ctx = h;
  __atomic_store_n(&s->allocator, &shmt__allocator_managed, __ATOMIC_RELEASE);
}

static void give_up(shmt__held_block* h) {
  shmt__sessions_lock();
  shmt__session_drop_held_block(h);
  shmt__sessions_unlock();
}

/* Open the file anew, if it can still be found. *out_fd -1: another thread has registered it meanwhile. */
static shmt_status find_program_file(const shmt_storage* s, int* out_fd) {
  shmt_status status = SHMT_OK;
  *out_fd = -1;
  shmt__move_lock(s);
  if (is_mapped_file(s)) status = shmt__os_file_find(s->ctx, s->nbytes, out_fd);
  shmt__move_unlock(s);
  return status;
}

/* The manager is asked without the move lock, which a fork takes. */
static shmt_status register_found(const shmt_storage* s, int fd, shmt__held_block** out) {
  shmt__session* session = NULL;
  shmt__sessions_lock();
  shmt_status status = shmt__session_open_default(&session);
  if (status == SHMT_OK) status = shmt__file_block_register(session, fd, s->nbytes, true, out);
  shmt__sessions_unlock();
  return status;
}

shmt_status shmt__storage_register_file(shmt_storage* s) {
  shmt__held_block* h = NULL;
  int fd = -1;
  SHMT_TRY(find_program_file(s, &fd));
  if (fd < 0) return SHMT_OK;
  shmt_status status = register_found(s, fd, &h);
  if (status == SHMT_OK) {
    shmt__move_lock(s);
    bool is_first = is_mapped_file(s);
    if (is_first) give_to(s, h, fd);
    shmt__move_unlock(s);
    if (!is_first) give_up(h);
  }
  shmt__os_close(fd);
  return status;
}

const char* shmt__storage_file_path(const shmt_storage* s) {
  const shmt__file_origin* origin = NULL;
  if (!shmt__storage_is_shared(s) || s->ctx == NULL) return NULL;
  if (is_mapped_file(s))
    origin = s->ctx;
  else if (s->allocator == &shmt__allocator_managed)
    origin = ((const shmt__held_block*)s->ctx)->origin;
  return origin == NULL ? NULL : origin->path;
}
