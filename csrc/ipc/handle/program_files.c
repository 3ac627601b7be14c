/* ipc/handle/program_files.c -- storages over files that the program has mapped (from_file), when they are sent. */
#include "ipc/handle/program_files.h"

#include "ipc/handle/release.h"
#include "ipc/handle/share.h"
#include "ipc/handle/storage_files.h"
#include "ipc/session/move_locks.h"
#include "os/files.h"
#include "os/memfd.h"
#include "os/posix_names.h"
#include "storage/allocator.h"

#include <errno.h>

static bool is_mapped_file(const shmt_storage* s) {
  /* acquire: whoever sees the other allocator sees its ctx. */
  return __atomic_load_n(&s->allocator, __ATOMIC_ACQUIRE) == &shmt__allocator_mapped_file;
}

bool shmt__storage_is_unknown_file(const shmt_storage* s) {
  return is_mapped_file(s) && shmt__storage_is_shared(s) && s->nbytes > 0 &&
         !shmt__storage_has(s, SHMT_STORAGE_READ_ONLY);
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

/* session NULL: the default session. The manager is asked without the move lock, which a fork takes. */
static shmt_status register_found(shmt__session* session, int fd, const shmt__new_file* file,
                                  shmt__held_block** out) {
  shmt__sessions_lock();
  shmt_status status = session != NULL ? shmt__session_ensure_client(session) : shmt__session_open_default(&session);
  if (status == SHMT_OK) status = shmt__file_block_register(session, fd, file, out);
  shmt__sessions_unlock();
  return status;
}

/* The block becomes the storage's, unless another thread has registered the storage meanwhile. False: it has. */
static bool give_if_first(shmt_storage* s, shmt__held_block* h, int fd) {
  shmt__move_lock(s);
  bool is_first = is_mapped_file(s);
  if (is_first) give_to(s, h, fd);
  shmt__move_unlock(s);
  if (!is_first) give_up(h);
  return is_first;
}

shmt_status shmt__storage_register_file(shmt_storage* s) {
  shmt__held_block* h = NULL;
  int fd = -1;
  SHMT_TRY(find_program_file(s, &fd));
  if (fd < 0) return SHMT_OK;
  shmt_status status =
      register_found(NULL, fd, &(shmt__new_file){.nbytes = s->nbytes, .has_name = true}, &h);
  if (status == SHMT_OK) (void)give_if_first(s, h, fd);
  shmt__os_close(fd);
  return status;
}

shmt_status shmt__storage_own_posix_name(shmt_storage* s, shmt__session* session, int fd, const char* name,
                                         bool is_new) {
  shmt__held_block* h = NULL;
  SHMT_TRY(shmt__os_posix_name_check(name));
  SHMT_REQUIRE(shmt__storage_is_unknown_file(s), SHMT_E_VALUE,
               "an owner of %s has mapped it shared and writable, and has sent it to nobody yet", name);
  int found = shmt__os_file_as_found(fd);
  if (found < 0) return shmt__fail_errno(errno, "descriptor %d of %s cannot be opened anew", fd, name);
  const shmt__new_file file = {
      .nbytes = s->nbytes, .has_name = true, .posix_name = name, .is_named_later = is_new};
  shmt_status status = register_found(session, found, &file, &h);
  bool is_ours = status != SHMT_OK || give_if_first(s, h, found);
  shmt__os_close(found);
  SHMT_REQUIRE(is_ours, SHMT_E_RUNTIME, "another thread has sent the storage of %s meanwhile", name);
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
