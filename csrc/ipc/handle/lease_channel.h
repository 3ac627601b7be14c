/* ipc/handle/lease_channel.h -- notes in leases which pipe or socket their messages are sent through.
 *
 * Note [Channels]
 * A message that nobody can open any more must not keep its blocks. So a process that writes a message to a pipe or a
 * Unix socket notes the inode of the reading end in the leases of the handles in the message. The manager ends these
 * leases when nobody has that end open any more (ipc/manager/channel_watch.h). A message that went through several
 * ends, or through something else (a file, TCP), keeps its leases until it is opened or collected: nobody can tell who
 * may yet open it.
 */
#ifndef SHMT_IPC_HANDLE_LEASE_CHANNEL_H
#define SHMT_IPC_HANDLE_LEASE_CHANNEL_H

#include "base/error.h"

/* This process has taken a lease: from now on the bytes that it sends are searched for handles. */
void shmt__sent_messages_track(void);
/* Must the bytes that this process sends be searched for handles? */
bool shmt__sent_messages_are_tracked(void);
/* The bytes are about to be written to fd: note the channel in the leases of the handles among them. channel: what fd
 * leads to, if an earlier call has said so, else 0. It is set when fd will always lead there. */
void shmt__sent_message_bind(int fd, const void* data, size_t nbytes, uint64_t* channel);

#endif
