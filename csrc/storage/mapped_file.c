/* storage/mapped_file.c -- storages over files that the program names. */
#include "os/files.h"
#include "storage/allocator.h"

#include <stdlib.h>

static shmt_status mapped_file_malloc(void* arg, uint64_t nbytes, void** data, void** ctx) {
  const int sent = SHMT_FILE_SHARED | SHMT_FILE_WRITABLE; /* other processes may come to map it */
  const shmt__mapped_file* file = arg;
  shmt__file_origin* origin = NULL;
  bool is_sent = (file->flags & sent) == sent;
  SHMT_TRY(shmt__os_file_map(file->path, nbytes, file->flags, file->same_fd, data, is_sent ? &origin : NULL));
  *ctx = origin;
  return SHMT_OK;
}

static void mapped_file_free(void* data, void* ctx, uint64_t nbytes) {
  free(ctx);
  if (data != NULL) shmt__os_file_unmap(data, nbytes);
}

const shmt__allocator shmt__allocator_mapped_file = {
    .name = "mapped_file",
    .malloc = mapped_file_malloc,
    .free = mapped_file_free,
};
