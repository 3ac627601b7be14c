/* ipc/manager_main.c -- the manager program.
 *
 *   shmtensor-manager --session=HEX --arena-bytes=N --limit-bytes=N [--adopt]
 *
 * Started by the first process that shares a tensor. Descriptor 3 is the listening socket; with
 * --adopt, 4 and 5 are the control and arena files of a session whose manager was killed. Exit
 * status of the first process: 0 runs, 2 wrong use, 3 out of memory, 4 anything else.
 */
#include "api/error.h"
#include "ipc/manager.h"
#include "os/process.h"
#include "os/socket.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FD_LISTENER = 3, FD_CONTROL, FD_ARENA };

typedef struct arguments {
  uint64_t session, arena_bytes, limit_bytes;
  bool adopt;
} arguments;

static bool parse(int argc, char** argv, arguments* a) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--adopt") == 0)
      a->adopt = true;
    else if (sscanf(argv[i], "--session=%" SCNx64, &a->session) != 1 &&
             sscanf(argv[i], "--arena-bytes=%" SCNu64, &a->arena_bytes) != 1 &&
             sscanf(argv[i], "--limit-bytes=%" SCNu64, &a->limit_bytes) != 1)
      return false;
  }
  return a->session != 0 && a->arena_bytes != 0;
}

int main(int argc, char** argv) {
  static shmt__manager manager; /* zero pages until used */
  arguments a = {0};
  shmt__peer peer;
  if (!parse(argc, argv, &a) || !shmt__os_peer(FD_LISTENER, &peer)) {
    (void)fprintf(stderr,
                  "shmtensor-manager: keeps the shared memory of one session. It is started by the "
                  "first process that "
                  "shares a tensor, with the session's socket as descriptor %d.\n",
                  FD_LISTENER);
    return 2;
  }
  shmt__os_daemon_settle(a.adopt ? FD_ARENA + 1 : FD_CONTROL);
  shmt_status status =
      a.adopt ? shmt__keeper_adopt(a.session, FD_CONTROL, FD_ARENA, &manager.keeper)
              : shmt__keeper_create(a.session, a.arena_bytes, a.limit_bytes, &manager.keeper);
  if (status != SHMT_OK) {
    (void)fprintf(stderr, "shmtensor-manager: %s\n", shmt_error_message());
    return status == SHMT_E_NOMEM ? 3 : 4;
  }
  if (!shmt__os_detach() || shmt__manager_init(&manager, a.session, FD_LISTENER) != SHMT_OK)
    return 4;
  shmt__manager_run(&manager);
  return 0;
}
