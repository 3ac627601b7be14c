/* ipc/wire.h -- what clients and the manager say to each other.
 *
 * One packet of fixed size each way on a SOCK_SEQPACKET connection, so there is no framing to get
 * wrong. The manager answers every request except those marked "no reply", in order. Descriptors
 * travel beside the packet. A packet of another size, magic, version or type ends the connection it
 * came on, nothing else.
 *
 *   message       says                                      reply, + [descriptors]
 *   HELLO         session (join)                            client, nonce, world + [control, arena]
 *   HELLO         session, client, nonce, world (rejoin)    client, nonce, world
 *   FORK          client, nonce, on a new connection        client, nonce of the child
 *   ADOPT         the child is there; the kernel knows pid  none
 *   GRANT         nbytes of a block, count of blocks        block (index of the slab)
 *   GIVE_BACK     block (index of the slab)                 none
 *   ADD_FILE      nbytes + [file]                           block, generation
 *   RESTORE_FILE  block, generation + [file]                none
 *   GET_FILE      block, generation                         nbytes + [file]
 *   LOOK          give idle memory back now                 nbytes resident in the arena
 *   DROP_LEASES   count (age in ms)                         count of leases ended
 *   STATUS                                                  see shmt__packet
 */
#ifndef SHMT_IPC_WIRE_H
#define SHMT_IPC_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define SHMT_WIRE_MAGIC UINT32_C(0x57544853) /* "SHTW" */

enum { SHMT_WIRE_VERSION = 1, SHMT_WIRE_TEXT = 176 };

typedef enum shmt__message {
  SHMT_MESSAGE_HELLO = 1,
  SHMT_MESSAGE_FORK,
  SHMT_MESSAGE_ADOPT,
  SHMT_MESSAGE_GRANT,
  SHMT_MESSAGE_GIVE_BACK,
  SHMT_MESSAGE_ADD_FILE,
  SHMT_MESSAGE_RESTORE_FILE,
  SHMT_MESSAGE_GET_FILE,
  SHMT_MESSAGE_LOOK,
  SHMT_MESSAGE_DROP_LEASES,
  SHMT_MESSAGE_STATUS,
  SHMT_MESSAGE_REPLY = 0x80,
} shmt__message;

typedef struct shmt__packet {
  uint32_t magic;
  uint16_t version;
  uint16_t type;   /* shmt__message */
  uint32_t serial; /* the reply repeats it */
  int32_t status;  /* of a reply: shmt_status */
  uint32_t client; /* STATUS: clients */
  uint32_t block;  /* STATUS: pid of the manager */
  uint64_t session;
  uint64_t nonce; /* STATUS: leases outstanding */
  uint64_t world;
  uint64_t nbytes;     /* STATUS: resident bytes of the arena */
  uint64_t generation; /* STATUS: bytes in slabs */
  uint64_t count;
  uint64_t reserved;
  char text[SHMT_WIRE_TEXT]; /* of a failed reply; zero-terminated */
} shmt__packet;
_Static_assert(sizeof(shmt__packet) == 256, "packet");
_Static_assert(offsetof(shmt__packet, session) == 24 && offsetof(shmt__packet, text) == 80,
               "packet has no holes");

#endif
