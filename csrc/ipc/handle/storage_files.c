/* ipc/handle/storage_files.c -- shared storages that are memory files of their own (strategy "file_descriptor"). */
#include "ipc/handle/storage_files.h"

#include "ipc/handle/file_cache.h"
#include "ipc/handle/release.h"
#include "ipc/handle/saved_descriptors.h"
#include "os/failpoint.h"
#include "os/files.h"
#include "os/memfd.h"
#include "os/posix_names.h"
#include "os/process.h"
#include "os/socket.h"
#include "shm/block.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static shmt__packet make_packet(const shmt__session* s, shmt__message type) {
  return (shmt__packet){.magic = SHMT_WIRE_MAGIC,
                        .version = SHMT_WIRE_VERSION,
                        .type = (uint16_t)type,
                        .client = s->client,
                        .session = s->id,
                        .incarnation = s->incarnation};
}

/* The manager sets our hold before it answers. */
shmt_status shmt__file_block_register(shmt__session* s, int fd, const shmt__new_file* file, shmt__held_block** out) {
  shmt__packet p = make_packet(s, SHMT_MESSAGE_ADD_FILE), reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  p.nbytes = file->nbytes;
  p.count = file->has_name;
  if (file->posix_name != NULL) {
    size_t n = strlen(file->posix_name);
    SHMT_REQUIRE(n < sizeof p.text, SHMT_E_VALUE, "a name that goes with its last owner has at most %zu bytes, got %zu",
                 sizeof p.text - 1, n);
    p.count |= 2u | (file->is_named_later ? 4u : 0u); /* csrc/spec/wire.yaml, ADD_FILE */
    memcpy(p.text, file->posix_name, n + 1);
  }
  shmt_status status = shmt__session_call(s, &p, &fd, 1, &reply, fds, &n_fds);
  if (status == SHMT_E_OS) status = shmt__session_call(s, &p, &fd, 1, &reply, fds, &n_fds);
  if (status != SHMT_OK) return status;
  SHMT_REQUIRE(reply.block < s->map.fixed.n_blocks, SHMT_E_MANAGER,
               "the manager gave block %" PRIu32 " of %" PRIu32, reply.block,
               s->map.fixed.n_blocks);
  SHMT_FAILPOINT(file_registered);
  return shmt__session_add_held_block(s, reply.block, reply.generation, out);
}

static shmt_status map_file(shmt__held_block* h, int fd, uint64_t nbytes) {
  SHMT_TRY(shmt__os_map_shared(fd, nbytes, &h->map));
  h->map_bytes = nbytes;
  return SHMT_OK;
}

void shmt__file_block_save(shmt__held_block* h, int fd) {
  shmt__unused_files_close(h->session);
  shmt__saved_descriptor_add(h, shmt__descriptor_dup(fd));
}

/* The file, of `size` bytes, is a sealed memory file of this user. */
static shmt_status adopt_checked(shmt__session* s, int fd, uint64_t size, uint64_t nbytes, shmt__held_block** out) {
  shmt__held_block* h = NULL;
  SHMT_TRY(shmt__file_block_register(s, fd, &(shmt__new_file){.nbytes = nbytes}, &h));
  h->nbytes = nbytes;
  shmt_status status = map_file(h, fd, size);
  if (status != SHMT_OK) {
    shmt__session_drop_held_block(h);
    return status;
  }
  shmt__file_block_save(h, fd);
  *out = h;
  return SHMT_OK;
}

shmt_status shmt__file_block_adopt(shmt__session* s, int fd, uint64_t nbytes, shmt__held_block** out) {
  uint64_t size = 0;
  SHMT_REQUIRE(shmt__os_memfd_check(fd, &size) && size >= nbytes, SHMT_E_HANDLE,
               "descriptor %d is no sealed memory file of at least %" PRIu64 " bytes of this user",
               fd, nbytes);
  return adopt_checked(s, fd, size, nbytes, out);
}

shmt_status shmt__file_block_create(shmt__session* s, uint64_t nbytes, bool is_filled_next,
                                    shmt__held_block** out) {
  int fd = -1;
  uint64_t page = shmt__os_page_bytes();
  if (shmt__file_cache_reuse(s, nbytes, out)) {
    shmt__unused_files_close(s);
    return SHMT_OK;
  }
  SHMT_REQUIRE(nbytes <= UINT64_MAX - page, SHMT_E_NOMEM,
               "unable to allocate shared memory: tried %" PRIu64 " bytes", nbytes);
  uint64_t size = (nbytes + page - 1) & ~(page - 1);
  SHMT_TRY(shmt__os_memfd_create("shmtensor-storage", size, &fd));
  shmt__held_block* h = NULL;
  shmt_status status = is_filled_next ? SHMT_OK : shmt__os_populate(fd, NULL, 0, nbytes);
  if (status == SHMT_OK) status = adopt_checked(s, fd, size, nbytes, &h);
  if (status == SHMT_OK && is_filled_next && !shmt__descriptor_is_kept(shmt__saved_descriptor(h))) {
    /* No descriptor was saved, so the bytes cannot be written through one: populate the pages now. */
    status = shmt__os_populate(fd, NULL, 0, nbytes);
    if (status != SHMT_OK) shmt__session_drop_held_block(h);
  }
  shmt__os_close(fd);
  if (status == SHMT_OK) *out = h;
  return status;
}

/* out_name: receives the name in /dev/shm that goes with the block, or an empty text; NULL: the caller does not ask. */
static shmt_status get_file(const shmt__held_block* h, int* out_fd, char out_name[SHMT_POSIX_NAME_BYTES]) {
  shmt__session* s = h->session;
  shmt__packet p = make_packet(s, SHMT_MESSAGE_GET_FILE), reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  p.block = h->block;
  p.generation = h->generation;
  SHMT_TRY(shmt__session_call(s, &p, NULL, 0, &reply, fds, &n_fds));
  for (int i = 1; i < n_fds; i++) shmt__os_close(fds[i]);
  SHMT_REQUIRE(n_fds > 0, SHMT_E_MANAGER, "the manager sent no descriptor for block %" PRIu32,
               h->block);
  *out_fd = fds[0];
  if (out_name != NULL) memcpy(out_name, reply.text, SHMT_POSIX_NAME_BYTES);
  if (out_name != NULL) out_name[SHMT_POSIX_NAME_BYTES - 1] = '\0';
  return SHMT_OK;
}

/* Map the memory file that the manager sent. */
static shmt_status map_memory_file(shmt__held_block* h, const shmt__slab_view* slab, int fd, uint64_t nbytes) {
  uint64_t size = 0, identity[2] = {0, 0};
  SHMT_REQUIRE(shmt__os_memfd_check(fd, &size) && size >= nbytes && shmt__os_file_identity(fd, identity) &&
                   memcmp(identity, slab->file_identity, sizeof identity) == 0,
               SHMT_E_HANDLE,
               "the file of block %" PRIu32 " has %" PRIu64 " bytes and inode %" PRIu64 ", expected %" PRIu64
               " bytes and inode %" PRIu64,
               h->block, size, identity[1], nbytes, slab->file_identity[1]);
  return map_file(h, fd, size);
}

/* posix_name: as get_file() says it. The kernel has no path for a file that was made without a name. */
static shmt_status map_program_file(shmt__held_block* h, const shmt__slab_view* slab, int fd, const char* posix_name,
                                    uint64_t nbytes) {
  char path[sizeof SHMT_POSIX_NAMES + SHMT_POSIX_NAME_BYTES] = "";
  if (posix_name[0] != '\0') (void)snprintf(path, sizeof path, "%s%s", SHMT_POSIX_NAMES, posix_name);
  const char* found_at = path[0] != '\0' ? path : NULL;
  SHMT_TRY(shmt__os_file_map_found(fd, slab->file_identity, nbytes, found_at, &h->map, &h->origin));
  h->map_bytes = nbytes;
  return SHMT_OK;
}

shmt_status shmt__file_block_open(shmt__held_block* h, uint64_t nbytes) {
  int fd = -1;
  shmt__slab_view slab;
  if (shmt__file_cache_map(h, nbytes)) return SHMT_OK;
  char posix_name[SHMT_POSIX_NAME_BYTES];
  SHMT_TRY(get_file(h, &fd, posix_name));
  shmt_status status = SHMT_OK;
  /* The table says which file it must be: the block is held, so its slab stays. */
  if (!shmt__slab_of_block(&h->session->map, h->block, &slab))
    status = shmt__fail(SHMT_E_HANDLE, "the session is damaged: block %" PRIu32 " has no file", h->block);
  if (status == SHMT_OK)
    status = slab.state == SHMT_SLAB_PROGRAM_FILE ? map_program_file(h, &slab, fd, posix_name, nbytes)
                                                  : map_memory_file(h, &slab, fd, nbytes);
  if (status == SHMT_OK) shmt__file_block_save(h, fd);
  shmt__os_close(fd);
  return status;
}

/* A descriptor of the file behind the block, for reading and writing. */
static shmt_status file_descriptor(const shmt__held_block* h, int* out_fd) {
  int kept = shmt__descriptor_number(shmt__saved_descriptor(h)), fd = kept < 0 ? -1 : shmt__os_dup(kept);
  if (fd < 0) SHMT_TRY(get_file(h, &fd, NULL));
  if (h->origin != NULL) {
    int found = fd;
    fd = shmt__os_reopen(found);
    shmt__os_close(found);
    SHMT_REQUIRE(fd >= 0, SHMT_E_OS, "the file <%s> cannot be opened for writing", h->origin->path);
  }
  *out_fd = fd;
  return SHMT_OK;
}

shmt_status shmt__block_descriptor(shmt__held_block* h, int* out_fd) {
  if (h->map != NULL) return file_descriptor(h, out_fd);
  int kept = -1;
  SHMT_TRY(shmt__session_arena_number(h->session, &kept));
  /* Reopen the arena: a duplicate would share its file position with our descriptor. */
  int fd = shmt__os_reopen(kept);
  if (fd >= 0 && !shmt__os_seek(fd, h->offset)) {
    shmt__os_close(fd);
    fd = -1;
  }
  if (fd < 0) return shmt__fail_errno(errno, "no descriptor for block %" PRIu32, h->block);
  *out_fd = fd;
  return SHMT_OK;
}

/* Find the block that begins at this offset of the arena. */
static bool find_offset(const shmt__session* s, uint64_t offset, uint32_t* out_block) {
  uint32_t end = shmt__map_slabs_end(&s->map);
  for (uint32_t i = 0; i < end; i++) {
    shmt__slab_view slab;
    if (!shmt__slab_read(&s->map, i, &slab) || slab.state != SHMT_SLAB_ARENA) continue;
    if (offset < slab.offset || offset - slab.offset >= slab.nbytes) continue;
    uint64_t into = offset - slab.offset;
    if (into % slab.block_bytes != 0 || into / slab.block_bytes >= slab.n_blocks) return false;
    *out_block = slab.first_block + (uint32_t)(into / slab.block_bytes);
    return true;
  }
  return false;
}

static bool find_file(const shmt__session* s, const uint64_t identity[2], uint64_t nbytes, uint32_t* out_block) {
  uint32_t end = shmt__map_slabs_end(&s->map);
  for (uint32_t i = 0; i < end; i++) {
    shmt__slab_view slab;
    if (!shmt__slab_read(&s->map, i, &slab) || !shmt__slab_state_is_file(slab.state)) continue;
    if (slab.state == SHMT_SLAB_PROGRAM_FILE && slab.nbytes != nbytes) continue;
    if (slab.file_identity[0] != identity[0] || slab.file_identity[1] != identity[1]) continue;
    *out_block = slab.first_block;
    return true;
  }
  return false;
}

bool shmt__block_by_descriptor(int fd, uint64_t nbytes, shmt__session** out_session, uint32_t* out_block) {
  uint64_t identity[2], position = 0;
  if (!shmt__os_file_identity(fd, identity)) return false;
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    if (s->is_lost || s->client == 0) continue;
    bool is_arena = identity[0] == s->map.fixed.arena_identity[0] &&
                    identity[1] == s->map.fixed.arena_identity[1];
    bool found = is_arena ? shmt__os_tell(fd, &position) && find_offset(s, position, out_block)
                          : find_file(s, identity, nbytes, out_block);
    if (found) *out_session = s;
    if (found || is_arena) return found;
  }
  return false;
}
