/* ipc/launch.c -- starting the manager of a session. */
#include "ipc/launch.h"

#include "os/daemon.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/pages.h"
#include "os/process.h"
#include "os/socket.h"

#include <inttypes.h>
#include <stdio.h>

enum { PATH_BYTES = 4096 };

typedef struct found_files {
  uint64_t id;
  int control_fd, arena_fd;
  shmt__map map;
} found_files;

static bool visit_control(int fd, void* arg) {
  found_files* f = arg;
  if (shmt__map_open(fd, &f->map) != SHMT_OK || f->map.control->session != f->id ||
      atomic_load_explicit(&f->map.control->ended, memory_order_acquire) != 0) {
    shmt__map_close(&f->map);
    shmt__os_close(fd);
    return true;
  }
  f->control_fd = fd;
  return false;
}

static bool visit_arena(int fd, void* arg) {
  found_files* f = arg;
  if (!shmt__arena_matches(&f->map, fd)) {
    shmt__os_close(fd);
    return true;
  }
  f->arena_fd = fd;
  return false;
}

/* A process that is no member yet finds the files of a session whose manager was killed at its
 * members. */
static bool find_files(uint64_t id, found_files* f) {
  char name[64];
  *f = (found_files){.id = id, .control_fd = -1, .arena_fd = -1};
  (void)snprintf(name, sizeof name, "shmtensor-control-%016" PRIx64, id);
  shmt__os_find_memfd(name, visit_control, f);
  if (f->control_fd < 0) return false;
  (void)snprintf(name, sizeof name, "shmtensor-arena-%016" PRIx64, id);
  shmt__os_find_memfd(name, visit_arena, f);
  shmt__map_close(&f->map);
  if (f->arena_fd >= 0) return true;
  shmt__os_close(f->control_fd);
  return false;
}

/* Addresses for the arena: what can never be full before the memory is; sparse, so they cost
 * nothing. */
static uint64_t choose_arena_bytes(void) {
  uint64_t want = UINT64_C(64) << 30, limit = shmt__os_address_limit();
  while (want < 8 * shmt__os_memory_bytes() && want < UINT64_C(4) << 40) want *= 2;
  while (limit != UINT64_MAX && want > limit / 4 && want > 1 << 20) want /= 2;
  return want;
}

/* The socket's name, which only one process can have. *out_lock: the lock that a path needs, as a
 * killed manager leaves the path behind; else -1. -errno. */
static int bind_socket(const shmt__session_key* key, int* out_lock) {
  char address[SHMT_SOCKET_PATH_BYTES], lock_path[SHMT_SOCKET_PATH_BYTES + 8];
  shmt__session_write_address(key, address, sizeof address);
  *out_lock = -1;
  if (key->path[0] != '\0') {
    (void)snprintf(lock_path, sizeof lock_path, "%s.lock", address);
    *out_lock = shmt__os_lock_file(lock_path);
    if (*out_lock < 0) return *out_lock == -SHMT_OS_AGAIN ? -SHMT_OS_IN_USE : *out_lock;
    shmt__os_remove_socket(address);
  }
  int fd = shmt__os_listen(address);
  if (fd < 0) shmt__os_close(*out_lock);
  return fd;
}

/* The files to go on with: ours, or those of other members. Closed by the caller when they are
 * `found`. */
static bool choose_files(const shmt__session_key* key, const shmt__session* member,
                         found_files* found, int* out_control, int* out_arena) {
  if (member == NULL || member->base == NULL) {
    if (find_files(key->id, found)) {
      *out_control = found->control_fd;
      *out_arena = found->arena_fd;
      return true;
    }
    if (member == NULL) return false;
    /* We can only read the arena: open it anew. */
    found->arena_fd = shmt__os_reopen(member->arena_fd);
    *out_control = member->control_fd;
    *out_arena = found->arena_fd;
    return found->arena_fd >= 0;
  }
  *out_control = member->control_fd;
  *out_arena = member->arena_fd;
  return true;
}

shmt_status shmt__manager_launch(const shmt__session_key* key, const shmt__session* member,
                                 const shmt__launch* how) {
  char session_arg[40], arena_arg[40], limit_arg[40], client_limit_arg[48], gid_arg[24];
  found_files found = {.control_fd = -1, .arena_fd = -1};
  int lock = -1, fds[4] = {how->listener, -1, -1, -1}, n_fds = 1;
  if (fds[0] < 0) fds[0] = bind_socket(key, &lock);
  SHMT_FAILPOINT(socket_bound);
  if (fds[0] == -SHMT_OS_IN_USE) return SHMT_E_BUFFER;
  if (fds[0] < 0) {
    char address[SHMT_SOCKET_PATH_BYTES];
    shmt__session_write_address(key, address, sizeof address);
    return shmt__fail_errno(-fds[0], "cannot bind the manager's socket %s%s",
                            key->path[0] == '\0' ? "@" : "", address);
  }
  if (how->has_gid && lock >= 0) {
    int err = shmt__os_open_socket_to(key->path, how->gid);
    if (err != 0) {
      shmt__os_close(fds[0]);
      shmt__os_close(lock);
      return shmt__fail_errno(-err, "cannot open the socket %s to group %" PRIu32, key->path,
                              how->gid);
    }
  }
  bool adopts = choose_files(key, member, &found, &fds[1], &fds[2]);
  if (adopts) n_fds = 3;
  if (lock >= 0) fds[n_fds++] = lock;
  (void)snprintf(session_arg, sizeof session_arg, "--session=%" PRIx64, key->id);
  (void)snprintf(arena_arg, sizeof arena_arg, "--arena-bytes=%" PRIu64, choose_arena_bytes());
  (void)snprintf(limit_arg, sizeof limit_arg, "--limit-bytes=%" PRIu64, how->limit_bytes);
  (void)snprintf(client_limit_arg, sizeof client_limit_arg, "--client-limit-bytes=%" PRIu64,
                 how->client_limit_bytes);
  (void)snprintf(gid_arg, sizeof gid_arg, "--gid=%" PRIu32, how->gid);
  char program[PATH_BYTES];
  (void)snprintf(program, sizeof program, "%s", shmt__sessions_manager_path());
  char* argv[12] = {program, session_arg, arena_arg, limit_arg, client_limit_arg};
  char adopt_arg[] = "--adopt", service_arg[] = "--service", lock_arg[] = "--lock",
       stay_arg[] = "--stay";
  int n = 5;
  if (adopts) argv[n++] = adopt_arg;
  if (key->is_service) argv[n++] = service_arg;
  if (lock >= 0) argv[n++] = lock_arg;
  if (how->has_gid) argv[n++] = gid_arg;
  if (how->stays) argv[n++] = stay_arg;
  shmt_status status =
      !adopts && !how->may_create
          ? shmt__fail(SHMT_E_HANDLE,
                       "session %016" PRIx64
                       " is gone: no manager listens for it, and nobody has its memory",
                       key->id)
      : how->stays ? shmt__os_become(program, argv, fds, n_fds)
                   : shmt__os_spawn_daemon(program, argv, fds, n_fds);
  SHMT_FAILPOINT(manager_started);
  if (how->listener < 0) shmt__os_close(fds[0]);
  shmt__os_close(lock);
  shmt__os_close(found.control_fd);
  shmt__os_close(found.arena_fd);
  return status;
}
