/* ipc/session/other_version.h -- packets of programs of another version.
 *
 * Note [Two versions]
 * Two versions of the package may meet at one socket. Packets of all versions begin with the same fields, up to the
 * status, and are told apart by their version, whatever their size. Who gets one of another version says so with both
 * numbers: the manager in a reply, before it hangs up; a client in its error. The layout of the memory has a number of
 * its own, which shmt__map_open compares.
 */
#ifndef SHMT_IPC_SESSION_OTHER_VERSION_H
#define SHMT_IPC_SESSION_OTHER_VERSION_H

#include "ipc/session/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

enum { SHMT_WIRE_COMMON_BYTES = 16 };
_Static_assert(offsetof(shmt__packet, magic) == 0 && offsetof(shmt__packet, version) == 4 &&
                   offsetof(shmt__packet, type) == 6 && offsetof(shmt__packet, serial) == 8 &&
                   offsetof(shmt__packet, status) == 12,
               "the fields that packets of all versions have in common");

/* Is what shmt__os_receive returned `got` for a packet of another version? */
static inline bool shmt__packet_is_of_other_version(const shmt__packet* p, int got) {
  const bool has_fields = got >= SHMT_WIRE_COMMON_BYTES || got == -EMSGSIZE; /* -EMSGSIZE: a longer one, cut */
  return has_fields && p->magic == SHMT_WIRE_MAGIC && p->version != SHMT_WIRE_VERSION;
}

#endif
