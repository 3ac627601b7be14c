/* ipc/handle/saved_descriptors.h -- saves the descriptors of storages that are files of their own, for a next manager.
 *
 * Note [Saved descriptors]
 * The manager has a descriptor of each such file. If it is killed, the next manager gets the files from the members. So
 * a member keeps the descriptor of a file that it has mapped as long as the file is in a message that nobody has opened
 * yet, even when it drops the storage meanwhile. It also keeps the descriptors of the last few files that it uses.
 * Others may come to hold a sent file while the sending program does nothing, so a thread closes what is not needed any
 * more, and ends when nothing is left to wait for (release.c).
 */
#ifndef SHMT_IPC_HANDLE_SAVED_DESCRIPTORS_H
#define SHMT_IPC_HANDLE_SAVED_DESCRIPTORS_H

#include "ipc/session/session.h"

/* All under the sessions' lock. */

/* Save a descriptor of the held block's file, if there is room for one more. Consumes file, which may be none. */
void shmt__saved_descriptor_add(const shmt__held_block* h, shmt__descriptor file);
/* The descriptor that is saved of the held block's file, or none; borrowed. */
const shmt__descriptor* shmt__saved_descriptor(const shmt__held_block* h);
/* The same to keep, for a block that is being dropped: it is saved no more, unless the file is in a message. */
shmt__descriptor shmt__saved_descriptor_take(const shmt__held_block* h);
/* Call f for each saved descriptor that the program has not closed. */
void shmt__saved_descriptors_each(shmt__session* s,
                           void (*f)(shmt__session* s, uint32_t block, uint64_t generation, int fd));
/* Close the descriptors that are not needed any more. Returns whether others may become unneeded later. */
bool shmt__saved_descriptors_close_unneeded(shmt__session* s);
/* In a forked child: unopened messages are the parent's, so files in messages are not needed. */
void shmt__saved_descriptors_in_child(shmt__session* s);
/* Close and forget all. */
void shmt__saved_descriptors_fini(shmt__session* s);

#endif
