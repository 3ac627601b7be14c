/* ipc/service/serve.c -- turns this process into the manager of a service (`shmtensor serve`). */
#include "ipc/session/request.h"
#include "ipc/session/launch.h"
#include "ipc/service/service_internal.h"
#include "os/daemon.h"
#include "os/memfd.h"
#include "os/process.h"
#include "os/users.h"

#include <inttypes.h>

enum { TAKE_OVER_MS = 10000, TRIES = 100, SLEEP_MS = 10, MEMBERS_MS = 10 * SHMT_CHECK_MS };

/* Get the files of the manager that is running, to take its place. False: it runs in the foreground too, or belongs to
 * another user. *lost: it has just ended. */
static bool take_over(const shmt_service* v, const shmt__descriptor* socket, shmt__launch* launch, bool* lost) {
  const shmt__packet request = {.magic = SHMT_WIRE_MAGIC,
                                .version = SHMT_WIRE_VERSION,
                                .type = SHMT_MESSAGE_TAKE_OVER,
                                .serial = 1,
                                .session = v->key.id};
  shmt__packet reply;
  int fds[SHMT_SOCKET_MAX_FDS] = {-1, -1, -1, -1}, n_fds = 0;
  if (shmt__request(NULL, socket, &request, NULL, 0, &reply, fds, &n_fds, TAKE_OVER_MS, lost) !=
      SHMT_OK)
    return false;
  launch->takes_over = true;
  launch->listener = fds[0];
  launch->control_fd = fds[1];
  launch->arena_fd = fds[2];
  launch->lock_fd = n_fds > 3 ? fds[3] : -1;
  return n_fds >= 3;
}

/* Connect to the manager that runs. A killed one leaves its path behind, and the members of other containers, whom we
 * cannot see, may be about to start the next: give them time to look. Negative: none runs. */
static int connect_or_wait(const shmt_service* v) {
  int socket = shmt__session_connect(&v->key);
  bool was_killed = socket < 0 && v->key.path[0] != '\0' && shmt__os_socket_exists(v->key.path);
  for (int ms = 0; was_killed && socket < 0 && ms < MEMBERS_MS; ms += SLEEP_MS) {
    shmt__os_sleep_ms(SLEEP_MS);
    socket = shmt__session_connect(&v->key);
  }
  return socket;
}

/* Get the service's name. A manager that has it gives us its place. *out_taken false: it keeps the name. Errors:
 * SHMT_E_OS (its files would be lost, as there is no room for them). */
static shmt_status take_name(const shmt_service* v, shmt__launch* launch, bool* out_taken) {
  for (int i = 0; i < TRIES; i++) {
    bool lost = false;
    int fd = connect_or_wait(v);
    int err = fd < 0 ? fd : shmt__os_try_descriptors(fd, SHMT_SOCKET_MAX_FDS);
    shmt__descriptor socket = shmt__descriptor_own(fd);
    if (shmt__os_is_out_of_descriptors(-err)) {
      shmt__descriptor_close(&socket);
      return shmt__fail_errno(-err, "serve: cannot ask for the place of service \"%s\"", shmt__service_label(v));
    }
    *out_taken = err < 0 || take_over(v, &socket, launch, &lost);
    shmt__descriptor_close(&socket);
    if (*out_taken || !lost) return SHMT_OK;
    shmt__os_sleep_ms(SLEEP_MS);
  }
  return SHMT_OK;
}

int shmt_service_serve(const shmt_service* v, const shmt_service_options* how) {
  shmt__launch launch = {.listener = shmt__os_activation_fd(),
                         .limit_bytes = how->limit_bytes,
                         .client_limit_bytes = how->client_limit_bytes,
                         .gid = how->gid >= 0 ? (uint32_t)how->gid : 0,
                         .has_gid = how->gid >= 0,
                         .may_create = true,
                         .stays = true};
  SHMT_REQUIRE(how->gid < UINT32_MAX, SHMT_E_VALUE, "serve: no group has the number %" PRId64, (int64_t)how->gid);
  SHMT_REQUIRE(
      launch.listener >= -1, SHMT_E_MANAGER,
      "serve: the supervisor passed something other than one socket of type SOCK_SEQPACKET "
      "(systemd: ListenSequentialPacket=)");
  SHMT_TRY(shmt__os_check_own_user());
  SHMT_REQUIRE(how->gid < 0 || shmt__os_group_is_known((uint32_t)how->gid), SHMT_E_MANAGER,
               "serve: the kernel shows strangers as group %" PRId64 " in this user namespace; map another group id",
               (int64_t)how->gid);
  SHMT_REQUIRE(v->key.owner == shmt__os_uid(), SHMT_E_MANAGER,
               "serve: a service of user %" PRIu32 " cannot be run by user %" PRIu32, v->key.owner,
               shmt__os_uid());
  bool has_name = launch.listener >= 0;
  shmt_status status = SHMT_E_BUFFER;
  /* A member may be starting a manager at this moment: it has the name, and does not answer yet. */
  for (int i = 0; i < TRIES && status == SHMT_E_BUFFER; i++) {
    if (i > 0) shmt__os_sleep_ms(SLEEP_MS);
    bool is_ours = has_name;
    if (!has_name) SHMT_TRY(take_name(v, &launch, &is_ours));
    if (!is_ours) break;
    status = shmt__manager_launch(&v->key, NULL, &launch);
  }
  if (status == SHMT_E_BUFFER)
    SHMT_FAIL(SHMT_E_MANAGER, "serve: service \"%s\" runs already", shmt__service_label(v));
  return status;
}
