/* ipc/session/wire.h -- the messages between clients and the manager.
 *
 * Each message is one packet of fixed size on a SOCK_SEQPACKET connection, so there is no framing to get wrong. The
 * manager answers requests in order; some messages have no reply. Descriptors travel beside the packet. A packet of
 * another size, magic, version or type ends its connection and nothing else. The packet and the messages are in
 * spec/wire.yaml.
 */
#ifndef SHMT_IPC_SESSION_WIRE_H
#define SHMT_IPC_SESSION_WIRE_H

#include "generated/wire.h"

#endif
