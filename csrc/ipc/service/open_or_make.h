/* ipc/service/open_or_make.h -- queues, topics, events and servers by name: whoever comes first makes them.
 *
 * A name of these kinds lives while any process holds its storages (shm/names.h). So who opens one holds the storages
 * and then looks whether the name still stands for them; who finds none makes storages and gives them the name, unless
 * somebody was faster, and opens it again.
 */
#ifndef SHMT_IPC_SERVICE_OPEN_OR_MAKE_H
#define SHMT_IPC_SERVICE_OPEN_OR_MAKE_H

#include "api/service.h"
#include "ipc/ring/ring.h"
#include "ipc/topic/topic.h"

/* All of these join the service, and may start it. Errors: SHMT_E_VALUE (the name; it stands for another kind, or for
 * one that was made with other numbers), SHMT_E_HANDLE (the storages are damaged, or the name comes and goes all the
 * time), SHMT_E_NOMEM, SHMT_E_MANAGER. Ownership: *out is the caller's; shmt__ring_close, shmt__topic_close. */

/* What an opener leaves open is a default until somebody says it, which settles it for everybody; another value is an
 * error from then on. The same is true of `persists`, which nobody takes back. */

/* max_messages, max_deliveries: 0 leaves it open; there is no bound so far. */
shmt_status shmt__named_queue_open(shmt_service* v, const char* name, uint32_t max_messages, uint32_t max_deliveries,
                                   bool persists, shmt__ring** out);
/* The ring of a server's requests. */
shmt_status shmt__named_server_open(shmt_service* v, const char* name, uint32_t max_messages, bool persists,
                                    shmt__ring** out);
shmt_status shmt__named_event_open(shmt_service* v, const char* name, bool persists, shmt__ring** out);

shmt_status shmt__named_topic_open(shmt_service* v, const char* name, const shmt__topic_wish* wish, bool persists,
                                   shmt__topic** out);

#endif
