/* ipc/session/launch.c -- starts the manager of a session. */
#include "ipc/session/launch.h"

#include "api/error.h"
#include "ipc/manager/manager.h"
#include "ipc/session/request.h"
#include "os/clock.h"
#include "os/daemon.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/pages.h"
#include "os/process.h"
#include "os/socket.h"

#include <inttypes.h>
#include <stdio.h>

enum {
  PATH_BYTES = 4096,
  QUICK_MS = 50,    /* so long nobody else has the lock while a manager starts */
  START_MS = 30000, /* how long to wait for a stopped one */
};

typedef struct found_files {
  uint64_t id;
  int control_fd, arena_fd;
  shmt__map map;
} found_files;

static bool visit_control(int fd, void* arg) {
  found_files* f = arg;
  if (shmt__map_open(fd, &f->map) != SHMT_OK || f->map.fixed.session != f->id ||
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

/* Find the files of a session whose manager was killed: its members still have them open. For a process that is no
 * member yet, or has lost its own descriptors. Both are -1 when nobody has them. Errors: SHMT_E_OS (no descriptor is
 * left to search with). */
static shmt_status find_files(uint64_t id, found_files* f) {
  char name[64];
  /* A process that is older than the one that made the name could be a member only through a handle that it received.
   * That is not worth a search of all processes of the user. */
  uint64_t since = shmt__session_was_named_here(id) ? shmt__os_process_start(shmt__os_pid()) : 0;
  *f = (found_files){.id = id, .control_fd = -1, .arena_fd = -1};
  (void)snprintf(name, sizeof name, "shmtensor-control-%016" PRIx64, id);
  int err = shmt__os_find_memfd(name, since, visit_control, f);
  if (err == 0 && f->control_fd < 0) return SHMT_OK;
  (void)snprintf(name, sizeof name, "shmtensor-arena-%016" PRIx64, id);
  if (err == 0) err = shmt__os_find_memfd(name, since, visit_arena, f);
  shmt__map_close(&f->map);
  if (f->arena_fd >= 0) return SHMT_OK;
  shmt__os_close(f->control_fd);
  f->control_fd = -1;
  if (err == 0) return SHMT_OK;
  return shmt__fail_errno(-err, "cannot search for the files of session %016" PRIx64, id);
}

/* The size of the arena: so large that memory runs out before it is full. It is sparse, so this costs nothing. */
static uint64_t default_arena_bytes(void) {
  uint64_t want = UINT64_C(64) << 30, limit = shmt__os_address_limit();
  while (want < 8 * shmt__os_memory_bytes() && want < UINT64_C(4) << 40) want *= 2;
  while (limit != UINT64_MAX && want > limit / 4 && want > 1 << 20) want /= 2;
  return want;
}

/* Bind the socket's name, which only one process can have. A killed manager leaves a path behind, so a path also needs
 * a lock: *out_lock; else -1. Returns the socket, or -errno. */
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
  if (fd < 0) {
    shmt__os_close(*out_lock);
    *out_lock = -1;
  }
  return fd;
}

/* Choose the files to continue with: ours, or those of another member. The caller closes those in `found`. *out_found:
 * whether there are any. Errors: SHMT_E_OS. */
static shmt_status find_session_files(const shmt__session_key* key, const shmt__session* member,
                                      found_files* found, int* out_control, int* out_arena,
                                      bool* out_found) {
  int control = member == NULL ? -1 : shmt__descriptor_number(&member->control);
  int arena = member == NULL ? -1 : shmt__descriptor_number(&member->arena_file);
  bool has_both = control >= 0 && arena >= 0;
  if (!has_both || member->base == NULL) {
    SHMT_TRY(find_files(key->id, found));
    if (found->control_fd >= 0) {
      control = found->control_fd;
      arena = found->arena_fd;
    } else if (has_both) {
      /* We can only read the arena: open it anew. */
      arena = found->arena_fd = shmt__os_reopen(arena);
    }
  }
  *out_control = control;
  *out_arena = arena;
  *out_found = control >= 0 && arena >= 0;
  return SHMT_OK;
}

typedef struct launch_files {
  int fds[4]; /* listener, control and arena if any, lock if any */
  int n_fds, lock;
  bool adopts;
  found_files found;
} launch_files;

static launch_files no_files(void) {
  return (launch_files){
      .fds = {-1, -1, -1, -1}, .lock = -1, .found = {.control_fd = -1, .arena_fd = -1}};
}

static void close_files(launch_files* f, const shmt__launch* how) {
  if (how->listener < 0) shmt__os_close(f->fds[0]);
  shmt__os_close(f->lock);
  shmt__os_close(f->found.control_fd);
  shmt__os_close(f->found.arena_fd);
  *f = no_files();
}

/* Bind the socket, and open it to the group. Errors: SHMT_E_BUFFER, without a record (another process has it),
 * SHMT_E_OS. */
static shmt_status open_socket(const shmt__session_key* key, const shmt__launch* how, launch_files* f) {
  f->fds[0] = how->listener >= 0 ? how->listener : bind_socket(key, &f->lock);
  SHMT_FAILPOINT(socket_bound);
  if (f->fds[0] == -SHMT_OS_IN_USE) return SHMT_E_BUFFER;
  if (f->fds[0] < 0) {
    char address[SHMT_SOCKET_PATH_BYTES];
    shmt__session_write_address(key, address, sizeof address);
    return shmt__fail_errno(-f->fds[0], "cannot bind the manager's socket %s%s",
                            key->path[0] == '\0' ? "@" : "", address);
  }
  if (how->has_gid && f->lock >= 0) {
    int err = shmt__os_open_socket_to(key->path, how->gid);
    if (err != 0)
      return shmt__fail_errno(-err, "cannot open the socket %s to group %" PRIu32, key->path,
                              how->gid);
  }
  return SHMT_OK;
}

/* Bind the socket, then find the memory to continue with. When nothing may be created, find the memory first, so that
 * nobody who asks for a service that does not exist binds its name for a moment. */
static shmt_status open_files(const shmt__session_key* key, const shmt__session* member,
                              const shmt__launch* how, launch_files* f) {
  if (!how->may_create) {
    SHMT_TRY(find_session_files(key, member, &f->found, &f->fds[1], &f->fds[2], &f->adopts));
    SHMT_REQUIRE(f->adopts, SHMT_E_HANDLE,
                 "session %016" PRIx64
                 " is gone: no manager listens for it, and nobody has its "
                 "memory",
                 key->id);
  }
  SHMT_TRY(open_socket(key, how, f));
  if (how->may_create)
    SHMT_TRY(find_session_files(key, member, &f->found, &f->fds[1], &f->fds[2], &f->adopts));
  f->n_fds = f->adopts ? 3 : 1;
  if (f->lock >= 0) f->fds[f->n_fds++] = f->lock;
  return SHMT_OK;
}

/* Wait until the first process of a manager has ended: the manager runs then. That takes milliseconds. One that takes
 * longer, being stopped, holds up nobody else: Note [Waiting for a manager] in ipc/session/request.h. */
static shmt_status wait_for_start(const char* program, int32_t pid, int* out_exit) {
  const uint64_t begun_ms = shmt__os_now_ms(), deadline_ms = shmt__request_deadline(START_MS);
  const uint32_t n_forks = shmt__fork_count();
  int pidfd = shmt__os_pidfd(pid);
  if (pidfd >= 0) (void)shmt__os_wait_readable(pidfd, QUICK_MS);
  shmt__os_close(pidfd);
  while (!shmt__os_child_ended(pid, out_exit)) {
    shmt_status status = shmt__request_pause();
    if (n_forks != shmt__fork_count()) return status; /* it is no child of this process */
    if (status == SHMT_OK && shmt__os_now_ms() >= deadline_ms)
      status = shmt__fail(SHMT_E_MANAGER, "the manager %s did not start within %d ms (is it stopped?)", program,
                          (int)(deadline_ms - begun_ms));
    if (status != SHMT_OK) {
      shmt__os_kill_child(pid);
      return status;
    }
  }
  SHMT_REQUIRE(*out_exit == 0 || *out_exit == SHMT_OS_EXIT_UNKNOWN, SHMT_E_MANAGER,
               "the manager %s did not start (exit status %d)", program, *out_exit);
  return SHMT_OK;
}

/* Start a manager with the files, which are closed here as soon as it has them: another thread may fork while we wait,
 * and its child must not keep the socket. */
static shmt_status start(const shmt__session_key* key, const shmt__launch* how, launch_files* f, int* out_exit) {
  enum { N_TEXTS = 5, TEXT_BYTES = 48 };
  char program[PATH_BYTES], texts[N_TEXTS][TEXT_BYTES], name[SHMT_NAME_BYTES + sizeof "--name="];
  char adopt[] = "--adopt", service[] = "--service", lock[] = "--lock", stay[] = "--stay";
  char* argv[N_TEXTS + 7] = {program};
  int n = 1;
  (void)snprintf(program, sizeof program, "%s", shmt__sessions_manager_path());
  (void)snprintf(texts[0], TEXT_BYTES, "--session=%" PRIx64, key->id);
  (void)snprintf(texts[1], TEXT_BYTES, "--arena-bytes=%" PRIu64, default_arena_bytes());
  (void)snprintf(texts[2], TEXT_BYTES, "--limit-bytes=%" PRIu64, how->limit_bytes);
  (void)snprintf(texts[3], TEXT_BYTES, "--client-limit-bytes=%" PRIu64, how->client_limit_bytes);
  (void)snprintf(texts[4], TEXT_BYTES, "--gid=%" PRIu32, how->gid);
  for (int i = 0; i < (how->has_gid ? N_TEXTS : N_TEXTS - 1); i++) argv[n++] = texts[i];
  if (f->adopts) argv[n++] = adopt;
  if (key->is_service) argv[n++] = service;
  (void)snprintf(name, sizeof name, "--name=%s", key->path[0] != '\0' ? key->path : key->name);
  if (key->is_service) argv[n++] = name;
  if (f->lock >= 0) argv[n++] = lock;
  if (how->stays) argv[n++] = stay;
  if (how->stays) return shmt__os_exec(program, argv, f->fds, f->n_fds);
  int32_t pid = 0;
  SHMT_TRY(shmt__os_spawn_daemon(program, argv, f->fds, f->n_fds, &pid));
  close_files(f, how);
  return wait_for_start(program, pid, out_exit);
}

/* The manager refused the files: a member has written over the tables of the session. The files are marked as ended by
 * now, so nobody else tries. Begin a new session, where that is allowed. */
static shmt_status start_fresh_session(const shmt__session_key* key, const shmt__launch* how,
                              launch_files* f) {
  int ignored = 0;
  SHMT_REQUIRE(how->may_create, SHMT_E_HANDLE,
               "session %016" PRIx64 " is damaged: a process has written over its tables", key->id);
  SHMT_TRY(open_socket(key, how, f));
  f->n_fds = f->lock >= 0 ? 2 : 1;
  f->fds[1] = f->lock;
  SHMT_TRY(start(key, how, f, &ignored));
  (void)fprintf(stderr,
                "shmtensor: session %016" PRIx64
                " was damaged: a process had written over its tables. A new one has begun; tensors "
                "shared before stay where they are, but cannot be sent any more.\n",
                key->id);
  return SHMT_OK;
}

shmt_status shmt__manager_launch(const shmt__session_key* key, const shmt__session* member,
                                 const shmt__launch* how) {
  launch_files f = no_files();
  shmt_status status = SHMT_OK;
  if (how->takes_over)
    f = (launch_files){.fds = {how->listener, how->control_fd, how->arena_fd, how->lock_fd},
                       .n_fds = how->lock_fd >= 0 ? 4 : 3,
                       .lock = shmt__os_dup(how->lock_fd),
                       .adopts = true,
                       .found = f.found};
  else
    status = open_files(key, member, how, &f);
  if (status == SHMT_OK) {
    const bool adopts = f.adopts;
    int code = SHMT_OS_EXIT_UNKNOWN;
    status = start(key, how, &f, &code);
    if (status != SHMT_OK && adopts && code == SHMT_MANAGER_DAMAGED)
      status = start_fresh_session(key, how, &f);
    else if (status != SHMT_OK && code == SHMT_OS_EXIT_KILLED)
      status = SHMT_E_BUFFER;
    else if (status != SHMT_OK && adopts && code == SHMT_MANAGER_ELSEWHERE)
      status = shmt__fail(SHMT_E_MANAGER,
                          "the manager of session %016" PRIx64
                          " runs where this process cannot reach it, in another network namespace",
                          key->id);
    if (status == SHMT_E_BUFFER) shmt_error_clear();
    SHMT_FAILPOINT(manager_started);
  }
  close_files(&f, how);
  return status;
}
