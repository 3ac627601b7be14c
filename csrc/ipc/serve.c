/* ipc/serve.c -- becoming the manager of a service (`shmtensor serve`). */
#include "ipc/launch.h"
#include "ipc/service_handle.h"
#include "os/daemon.h"
#include "os/memfd.h"
#include "os/process.h"

#include <inttypes.h>

int shmt_service_serve(const shmt_service* v, const shmt_service_serving* how) {
  shmt__launch launch = {.listener = shmt__os_activation_fd(),
                         .limit_bytes = how->limit_bytes,
                         .client_limit_bytes = how->client_limit_bytes,
                         .gid = how->gid >= 0 ? (uint32_t)how->gid : 0,
                         .has_gid = how->gid >= 0,
                         .may_create = true,
                         .stays = true};
  SHMT_REQUIRE(
      launch.listener >= -1, SHMT_E_MANAGER,
      "serve: the supervisor passed something other than one socket of type SOCK_SEQPACKET "
      "(systemd: ListenSequentialPacket=)");
  SHMT_REQUIRE(v->key.owner == shmt__os_uid(), SHMT_E_MANAGER,
               "serve: a service of user %" PRIu32 " cannot be run by user %" PRIu32, v->key.owner,
               shmt__os_uid());
  if (launch.listener < 0) {
    /* Another process may have the name without a lock of ours. */
    int fd = shmt__session_connect(&v->key);
    shmt__os_close(fd);
    SHMT_REQUIRE(fd < 0, SHMT_E_MANAGER, "serve: service \"%s\" runs already", v->name);
  }
  shmt_status status = shmt__manager_launch(&v->key, NULL, &launch);
  if (status == SHMT_E_BUFFER)
    SHMT_FAIL(SHMT_E_MANAGER, "serve: service \"%s\" runs already", v->name);
  return status;
}
