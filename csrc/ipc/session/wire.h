/* ipc/session/wire.h -- what clients and the manager say to each other.
 *
 * One packet of fixed size each way on a SOCK_SEQPACKET connection, so there is no framing to get
 * wrong. The manager answers every request except those without a reply, in order. Descriptors
 * travel beside the packet. A packet of another size, magic, version or type ends the connection it
 * came on, nothing else. The packet and the messages are in spec/wire.yaml.
 */
#ifndef SHMT_IPC_SESSION_WIRE_H
#define SHMT_IPC_SESSION_WIRE_H

#include "generated/wire.h"

#endif
