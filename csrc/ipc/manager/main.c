/* ipc/manager/main.c -- the manager program.
 *
 *   shmtensor-manager --session=HEX --arena-bytes=N --limit-bytes=N [--client-limit-bytes=N]
 *                     [--service] [--name=TEXT] [--gid=N] [--stay] [--adopt] [--lock]
 *
 * The first process that shares a tensor starts it. `shmtensor serve` starts it with --stay: it then runs in the
 * foreground until SIGTERM, without clients too, and says on standard output when it is ready.
 *
 * Descriptor 3 is the listening socket. With --adopt, the next two are the control and arena files of a session whose
 * manager was killed. With --lock, the last one is the lock of the socket's path, which lives as long as this process.
 *
 * Exit status of the first process: 0 the manager runs, 2 wrong usage, 3 out of memory, 4 any other error, 5 the files
 * to adopt make no sense (a member wrote where it should not), 6 another manager has them. The name of a socket keeps
 * two managers apart within a network namespace; a lock of the control file does so everywhere.
 */
#include "api/error.h"
#include "ipc/manager/manager.h"
#include "os/closer.h"
#include "os/daemon.h"
#include "os/descriptor.h"
#include "os/memfd.h"
#include "os/process.h"
#include "os/socket.h"
#include "shm/client.h"
#include "shm/manager/posix_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FD_LISTENER = 3, FD_CONTROL, FD_ARENA };

typedef struct arguments {
  shmt__arena_manager_options session;
  bool adopt, stay, lock;
} arguments;

static const char NAME[] = "--name=";

static bool parse_flag(const char* text, arguments* a) {
  if (strcmp(text, "--adopt") == 0)
    a->adopt = true;
  else if (strcmp(text, "--stay") == 0)
    a->stay = true;
  else if (strcmp(text, "--lock") == 0)
    a->lock = true;
  else if (strcmp(text, "--service") == 0)
    a->session.flags |= SHMT_SESSION_SERVICE;
  else if (strncmp(text, NAME, sizeof NAME - 1) == 0)
    a->session.name = text + sizeof NAME - 1;
  else if (sscanf(text, "--gid=%" SCNu32, &a->session.gid) == 1)
    a->session.flags |= SHMT_SESSION_GROUP;
  else
    return false;
  return true;
}

static bool parse(int argc, char** argv, arguments* a) {
  shmt__arena_manager_options* o = &a->session;
  for (int i = 1; i < argc; i++) {
    if (!parse_flag(argv[i], a) && sscanf(argv[i], "--session=%" SCNx64, &o->session) != 1 &&
        sscanf(argv[i], "--arena-bytes=%" SCNu64, &o->arena_bytes) != 1 &&
        sscanf(argv[i], "--limit-bytes=%" SCNu64, &o->limit_bytes) != 1 &&
        sscanf(argv[i], "--client-limit-bytes=%" SCNu64, &o->client_limit_bytes) != 1)
      return false;
  }
  return o->session != 0 && o->arena_bytes != 0;
}

/* Print one line that a terminal can show, whatever characters the name has. */
static void say_ready(const shmt__control* control) {
  char name[SHMT_NAME_BYTES];
  memcpy(name, control->name, sizeof name);
  name[sizeof name - 1] = '\0';
  for (char* c = name; *c != '\0'; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
  (void)printf("shmtensor: service \"%s\" is ready, process %" PRId32 "\n", name, shmt__os_pid());
  (void)fflush(stdout);
}

/* Whoever starts a manager where another was killed makes the socket anew, for this user alone, and need not know that
 * the session is open to a group. */
static void open_to_group(const shmt__fixed* session) {
  if ((session->flags & SHMT_SESSION_GROUP) == 0) return;
  const int err = shmt__os_open_path_of(FD_LISTENER, session->gid);
  if (err != 0)
    (void)fprintf(stderr, "shmtensor-manager: cannot open the socket to group %" PRIu32 ": %s\n", session->gid,
                  strerror(-err));
}

/* Let go of what the next manager needs. A closer that never gets done keeps the files of its process open for good. */
static void let_go(const shmt__manager* m, int claim) {
  shmt__closers_hurry(true);
  shmt__os_close(m->spare);
  shmt__os_close(m->listener);
  shmt__os_close(m->lock_fd);
  shmt__os_close(claim);
  shmt__closers_hurry(false);
}

/* Run until a signal tells it to end, and mark the session as ended for those who have the memory. */
static void run_in_foreground(shmt__manager* m) {
  m->stays = true;
  shmt__os_notify("READY=1");
  say_ready(m->arena_manager.map.control);
  shmt__manager_run(m);
  shmt__os_notify("STOPPING=1");
  /* release: nobody who sees it continues with the session. */
  atomic_store_explicit(&m->arena_manager.map.control->ended, 1, memory_order_release);
}

int main(int argc, char** argv) {
  static shmt__manager manager; /* zero pages until used */
  arguments a = {0};
  shmt__peer peer;
  shmt__os_open_streams(); /* whoever started us may have closed them */
  if (!parse(argc, argv, &a) || !shmt__os_peer(FD_LISTENER, &peer)) {
    (void)fprintf(stderr,
                  "shmtensor-manager: keeps the shared memory of one session. It is started by the "
                  "first process that "
                  "shares a tensor, with the session's socket as descriptor %d.\n",
                  FD_LISTENER);
    return 2;
  }
  shmt__os_daemon_init((a.adopt ? FD_ARENA + 1 : FD_CONTROL) + (a.lock ? 1 : 0));
  if (a.stay) shmt__os_watch_termination();
  int claim = a.adopt ? shmt__management_claim(FD_CONTROL, SHMT_MANAGER_ENDS_MS) : 0;
  if (claim < 0) {
    (void)fprintf(stderr, "shmtensor-manager: %s\n",
                  claim == -1 ? "another manager has the session" : "the session's files cannot be reopened");
    return claim == -1 ? SHMT_MANAGER_ELSEWHERE : 4;
  }
  shmt_status status =
      a.adopt ? shmt__arena_manager_adopt(a.session.session, FD_CONTROL, FD_ARENA, &manager.arena_manager)
              : shmt__arena_manager_create(&a.session, &manager.arena_manager);
  if (status != SHMT_OK) {
    (void)fprintf(stderr, "shmtensor-manager: %s\n", shmt_error_message());
    if (status == SHMT_E_NOMEM) return 3;
    return a.adopt && status == SHMT_E_MANAGER ? SHMT_MANAGER_DAMAGED : 4;
  }
  if (!a.adopt) claim = shmt__management_claim(manager.arena_manager.control_fd, 0);
  if (claim < 0) return 4;
  if (a.lock) open_to_group(&manager.arena_manager.map.fixed); /* the path is ours */
  if ((!a.stay && !shmt__os_detach()) ||
      shmt__manager_init(&manager, a.session.session, FD_LISTENER) != SHMT_OK)
    return 4;
  if (a.lock) manager.lock_fd = a.adopt ? FD_ARENA + 1 : FD_CONTROL;
  shmt__closers_start(); /* after the fork */
  if (a.stay)
    run_in_foreground(&manager);
  else
    shmt__manager_run(&manager);
  /* Nobody else knows them. A manager that takes over has them from the control file. */
  if (!manager.is_over) shmt__arena_manager_unlink_posix_names(&manager.arena_manager);
  /* A path that is left behind says that a manager was killed: Note [A manager that was killed] in
   * ipc/service/service_internal.h. We still have the lock of the path. */
  if (manager.lock_fd >= 0 && !manager.is_over) shmt__os_remove_path_of(manager.listener);
  let_go(&manager, claim);
  return 0;
}
