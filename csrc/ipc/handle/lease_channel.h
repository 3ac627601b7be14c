/* ipc/handle/lease_channel.h -- telling leases what their messages are sent through.
 *
 * Note [Channels]
 * A message that nobody can open any more must not keep its blocks. So who writes a message to a
 * pipe or a Unix socket notes the inode of the end that is read in the leases of the handles in it,
 * and the manager ends them when nobody has that end open any more (ipc/manager/channel_watch.h). A lease that went
 * through several ends, or through something else (a file, TCP), stays until it is used up or
 * collected: nobody can tell who may yet open it.
 */
#ifndef SHMT_IPC_HANDLE_LEASE_CHANNEL_H
#define SHMT_IPC_HANDLE_LEASE_CHANNEL_H

#include "base/error.h"

/* A lease was taken: from now on this process's messages are looked at. */
void shmt__sent_messages_track(void);
/* Are this process's messages to be looked at? */
bool shmt__sent_messages_are_tracked(void);
/* The bytes are about to be written to fd: bind the leases of the handles among them. channel: what fd
 * leads to, if that is known from a message before; else 0, and it is set when it will stay so. */
void shmt__sent_message_bind(int fd, const void* data, size_t nbytes, uint64_t* channel);

#endif
