/* ipc/api.c -- implements api/shm.h with the functions of ipc/. */
#include "api/shm.h"
#include "ipc/handle/export.h"
#include "ipc/handle/import.h"

#include "ipc/handle/program_files.h"
#include "ipc/handle/release.h"
#include "ipc/handle/storage_files.h"
#include "ipc/service/service.h"
#include "ipc/session/exported_descriptor.h"
#include "ipc/session/session.h"
#include "ipc/handle/share.h"
#include "os/memfd.h"
#include "os/placement.h"
#include "os/process.h"
#include "os/socket.h"
#include "os/users.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- the session --- */

uint64_t shmt_sharing_configure(const char* manager_path, uint64_t session, uint64_t limit_bytes) {
  return shmt__sessions_configure(manager_path, session, limit_bytes);
}

void shmt_sharing_set_strategy(int strategy) { shmt__sharing_set_strategy(strategy); }
int shmt_sharing_strategy(void) { return shmt__sharing_strategy(); }

int shmt_sharing_join(void) {
  shmt__session* s = NULL;
  shmt__sessions_lock();
  shmt_status status = shmt__session_open_default(&s);
  shmt__sessions_unlock();
  return status;
}

/* Send a request to the manager of the default session. */
static shmt_status request_manager(shmt__message type, uint64_t count, shmt__packet* reply,
                       shmt_sharing_status_info* info) {
  shmt__session* s = NULL;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  shmt__sessions_lock();
  shmt_status status = shmt__session_open_default(&s);
  if (status == SHMT_OK) {
    shmt__packet p = {.magic = SHMT_WIRE_MAGIC,
                      .version = SHMT_WIRE_VERSION,
                      .type = (uint16_t)type,
                      .client = s->client,
                      .session = s->id,
                      .incarnation = s->incarnation,
                      .count = count};
    status = shmt__session_call(s, &p, NULL, 0, reply, fds, &n_fds);
  }
  if (status == SHMT_OK && info != NULL) {
    info->session = s->id;
    info->incarnation = s->incarnation;
    info->n_held = s->n_held_blocks;
  }
  shmt__sessions_unlock();
  return status;
}

int shmt_sharing_status(shmt_sharing_status_info* out) {
  shmt__packet reply;
  SHMT_TRY(request_manager(SHMT_MESSAGE_STATUS, 0, &reply, out));
  out->manager_pid = reply.block;
  out->n_clients = reply.client;
  out->n_leases = reply.leases;
  out->n_slabs = reply.count;
  out->resident_bytes = reply.nbytes;
  out->granted_bytes = reply.generation;
  return SHMT_OK;
}

int shmt_sharing_trim(uint64_t* out_resident_bytes) {
  shmt__packet reply;
  SHMT_TRY(request_manager(SHMT_MESSAGE_SWEEP, 0, &reply, NULL));
  *out_resident_bytes = reply.nbytes;
  return SHMT_OK;
}

int shmt_sharing_gc(uint32_t age_ms, uint64_t* out_n) {
  shmt__packet reply;
  SHMT_TRY(request_manager(SHMT_MESSAGE_DROP_LEASES, age_ms, &reply, NULL));
  *out_n = reply.count;
  return SHMT_OK;
}

/* --- placement --- */

static shmt__placement placement_of(int huge, int numa, uint64_t nodes) {
  return (shmt__placement){.huge = huge != 0, .numa = numa, .nodes = nodes};
}

int shmt_placement_open(int huge, int numa, uint64_t nodes, uint32_t* out) {
  shmt__sessions_lock();
  shmt_status status = shmt__placement_open(placement_of(huge, numa, nodes), out);
  shmt__sessions_unlock();
  return status;
}

uint32_t shmt_placement_use(uint32_t placement) {
  uint32_t before = shmt__tls_placement;
  shmt__tls_placement = placement;
  return before;
}

int shmt_placement_try(int huge, int numa, uint64_t nodes, int* out_huge_errno,
                       int* out_numa_errno) {
  const uint64_t nbytes = UINT64_C(4) << 20;
  const shmt__placement p = placement_of(huge, numa, nodes);
  void* base = NULL;
  int fd = -1;
  SHMT_TRY(shmt__os_memfd_create("shmtensor-placement", nbytes, &fd));
  shmt_status status = shmt__os_map_shared(fd, nbytes, &base);
  shmt__os_close(fd);
  if (status != SHMT_OK) return status;
  shmt__os_place(base, 0, nbytes, &p, out_huge_errno, out_numa_errno);
  shmt__os_unmap(base, nbytes);
  return SHMT_OK;
}

void shmt_placement_refused(uint32_t placement, int* out_huge_errno, int* out_numa_errno) {
  shmt__sessions_lock();
  shmt__placement_refused(placement, out_huge_errno, out_numa_errno);
  shmt__sessions_unlock();
}

/* --- storages --- */

int shmt_storage_is_shared(const shmt_storage* s) { return shmt__storage_is_shared(s); }
int shmt_storage_share(shmt_storage* s) { return shmt__storage_share(s); }
int shmt_storage_create_shared(uint64_t nbytes, int strategy, shmt_storage** out) {
  SHMT_TRY(shmt__storage_create_shared(nbytes, strategy, out));
  if (nbytes > 0) memset((*out)->data, 0, nbytes);
  return SHMT_OK;
}

const char* shmt_storage_file_path(const shmt_storage* s) { return shmt__storage_file_path(s); }

/* Make the storage one that another process can open. */
static shmt_status prepare_export(shmt_storage* s, bool as_file) {
  if (shmt__storage_is_unknown_file(s)) return shmt__storage_register_file(s);
  return as_file ? shmt__storage_share_as_file(s) : shmt__storage_share(s);
}

/* "/shmtensor_<pid>_<incarnation><block><generation><check>", all but the pid in hex. */
int shmt_storage_export_name(shmt_storage* s, char* manager, uint64_t manager_capacity,
                             char* handle, uint64_t handle_capacity) {
  shmt__handle h;
  char address[64];
  SHMT_TRY(prepare_export(s, false));
  SHMT_TRY(shmt__storage_export(s, false, &h, NULL));
  shmt__session_address(h.session, address, sizeof address);
  int n = snprintf(manager, manager_capacity, "@%s", address);
  int m = snprintf(handle, handle_capacity,
                   "/shmtensor_%" PRId32 "_%016" PRIx64 "%08" PRIx32 "%012" PRIx64 "%08" PRIx32,
                   shmt__os_pid(), h.incarnation, h.block, h.generation, h.check);
  SHMT_REQUIRE(n >= 0 && m >= 0 && (uint64_t)n < manager_capacity && (uint64_t)m < handle_capacity,
               SHMT_E_RUNTIME, "a name of %d bytes does not fit %" PRIu64, m, handle_capacity);
  return SHMT_OK;
}

int shmt_storage_import_name(const char* manager, const char* handle, uint64_t nbytes,
                             shmt_storage** out) {
  shmt__handle h = {.magic = SHMT_HANDLE_MAGIC, .nbytes = nbytes};
  uint32_t uid = 0;
  int pid = 0, end = 0, manager_end = 0;
  bool good = sscanf(manager, "@shmtensor-%" SCNu32 "-%16" SCNx64 "%n", &uid, &h.session,
                     &manager_end) == 2 &&
              manager[manager_end] == '\0';
  SHMT_REQUIRE(good, SHMT_E_HANDLE,
               "\"%.128s\" names no manager, expected \"@shmtensor-<uid>-<16 hex digits>\"",
               manager);
  good = sscanf(handle, "/shmtensor_%d_%16" SCNx64 "%8" SCNx32 "%12" SCNx64 "%8" SCNx32 "%n", &pid,
                &h.incarnation, &h.block, &h.generation, &h.check, &end) == 5 &&
         handle[end] == '\0';
  SHMT_REQUIRE(good, SHMT_E_HANDLE,
               "\"%.128s\" is not a handle, expected \"/shmtensor_<pid>_<44 hex digits>\"", handle);
  SHMT_REQUIRE(uid == shmt__os_uid(), SHMT_E_HANDLE,
               "manager \"%.128s\" is of user %" PRIu32 ", this is user %" PRIu32, manager, uid,
               shmt__os_uid());
  return shmt__storage_import(&h, NULL, out);
}

/* The descriptor that the program has got before, or a new one. While the manager is asked, another thread may get one
 * too. */
static shmt_status find_or_open_descriptor(shmt__held_block* h, int* out_fd) {
  int fd = shmt__exported_descriptor(h);
  if (fd < 0) {
    SHMT_TRY(shmt__block_descriptor(h, &fd));
    if (shmt__exported_descriptor(h) < 0)
      SHMT_TRY(shmt__exported_descriptor_set(h, fd));
    else
      shmt__os_close(fd);
  }
  *out_fd = shmt__exported_descriptor(h);
  return SHMT_OK;
}

int shmt_storage_export_fd(shmt_storage* s, int* out_fd) {
  SHMT_REQUIRE(s->nbytes > 0, SHMT_E_RUNTIME, "_share_fd_: a storage of 0 bytes has no descriptor");
  SHMT_TRY(prepare_export(s, true));
  SHMT_TRY(shmt__storage_check_sendable(s));
  shmt__sessions_lock();
  shmt__held_block* h = s->ctx;
  if (h->map != NULL && h->generation != 0) shmt__slab_set_exported(&h->session->map, h->block);
  shmt_status status = find_or_open_descriptor(h, out_fd);
  shmt__sessions_unlock();
  return status;
}

/* Find the block behind fd and make a handle for it, or register a file that no session knows yet. */
static shmt_status resolve_fd(int fd, uint64_t nbytes, shmt__handle* handle,
                              shmt__held_block** new_held_block) {
  shmt__session* s = NULL;
  uint32_t block = 0;
  SHMT_TRY(shmt__session_open_default(&s));
  if (!shmt__block_by_descriptor(fd, nbytes, &s, &block))
    return shmt__file_block_adopt(s, fd, nbytes, new_held_block);
  const shmt__block* b = &s->map.blocks[block];
  *handle = (shmt__handle){.magic = SHMT_HANDLE_MAGIC,
                           .session = s->id,
                           .incarnation = s->incarnation,
                           .nbytes = nbytes,
                           .block = block};
  handle->generation = shmt__head_generation(atomic_load_explicit(&b->head, memory_order_acquire));
  handle->check = shmt__handle_checksum(s->map.fixed.secret, &handle->session,
                                        sizeof *handle - offsetof(shmt__handle, session));
  return SHMT_OK;
}

int shmt_storage_import_fd(int fd, uint64_t nbytes, shmt_storage** out) {
  shmt__handle handle = {0};
  shmt__held_block* h = NULL;
  SHMT_REQUIRE(nbytes > 0, SHMT_E_HANDLE, "_new_shared_fd: descriptor %d of 0 bytes", fd);
  shmt__sessions_lock();
  shmt_status status = resolve_fd(fd, nbytes, &handle, &h);
  if (status == SHMT_OK && h != NULL) {
    shmt__held_block_own(h);
    status =
        shmt__storage_adopt(&shmt__allocator_managed, h->map, h, nbytes, SHMT_STORAGE_SHARED, out);
    if (status == SHMT_OK)
      h->storage = *out;
    else
      shmt__session_drop_held_block(h);
  }
  shmt__sessions_unlock();
  if (status != SHMT_OK || h != NULL) return status;
  return shmt__storage_import(&handle, NULL, out);
}

int shmt_storage_in_mode(shmt_storage* s, int mode, shmt_storage** out) {
  SHMT_REQUIRE(mode == SHMT_ATTACH_READING || mode == SHMT_ATTACH_PRIVATE, SHMT_E_VALUE,
               "no mode %d, expected 1 (read-only) or 2 (copy-on-write)", mode);
  SHMT_REQUIRE(s->allocator == &shmt__allocator_managed, SHMT_E_RUNTIME,
               "a storage of %" PRIu64 " bytes from allocator \"%s\" has no other mode", s->nbytes,
               s->allocator->name);
  return shmt__storage_in_mode(s, mode, out);
}

int shmt_storage_shared_incref(shmt_storage* s) {
  SHMT_REQUIRE(shmt__storage_is_shared(s), SHMT_E_RUNTIME,
               "_shared_incref: the storage of %" PRIu64 " bytes is not shared", s->nbytes);
  return shmt__storage_add_plain_lease(s);
}

int shmt_storage_shared_decref(shmt_storage* s) {
  SHMT_REQUIRE(shmt__storage_is_shared(s), SHMT_E_RUNTIME,
               "_shared_decref: the storage of %" PRIu64 " bytes is not shared", s->nbytes);
  return shmt__storage_end_plain_lease(s);
}
