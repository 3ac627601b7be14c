/* ipc/handle/lease_channel.h -- notes in leases which pipe or socket their messages are sent through.
 *
 * Note [Channels]
 * A message that nobody can open any more must not keep its blocks. So a process that writes a message to a pipe or a
 * Unix socket notes the inode of the reading end in the leases of the handles in the message. The manager ends these
 * leases when nobody has that end open any more (ipc/manager/channel_watch.h). A message that went through several
 * ends, or through something else (a file, TCP), keeps its leases until it is opened or collected: nobody can tell who
 * may yet open it.
 *
 * Note [Unsent messages]
 * A sender that is killed after it has noted the channel and before it has written the message would leave a lease that
 * lives as long as the channel. So the note is made in two steps: before the write the lease counts as being sent, and
 * after it the sender confirms it. Leases that a dead sender has not confirmed end when the channel was seen empty and
 * a grace time is over: the message is not in the channel, and who has read it from there has had time to open it. A
 * confirmed message stays as long as the channel, however long its reader waits before opening it.
 */
#ifndef SHMT_IPC_HANDLE_LEASE_CHANNEL_H
#define SHMT_IPC_HANDLE_LEASE_CHANNEL_H

#include "base/error.h"

/* This process has taken a lease: from now on the bytes that it sends are searched for handles. */
void shmt__sent_messages_track(void);
/* Must the bytes that this process sends be searched for handles? */
bool shmt__sent_messages_are_tracked(void);
/* The bytes are about to be written to fd: note the channel in the leases of the handles among them. channel: what fd
 * leads to, if an earlier call has said so, else 0. It is set when fd will always lead there. is_sending: they will be
 * confirmed. Returns whether there are such leases. */
bool shmt__sent_message_bind(int fd, const void* data, size_t nbytes, bool is_sending, uint64_t* channel);
/* The bytes were written: Note [Unsent messages]. */
void shmt__sent_message_confirm(const void* data, size_t nbytes);

#endif
