/* ipc/handle/saved_descriptors.h -- descriptors of storages that are a file of their own, kept for a next manager.
 *
 * Note [Saved descriptors]
 * The manager has a descriptor of each such file. If it is killed, its successor gets the files from
 * the members. So a member keeps the descriptor of a file that it has mapped while the file is in a message
 * that nobody has opened yet, also when it drops the storage meanwhile, and beside these the
 * descriptors of the last few files that it uses. Once others hold what was sent there is nothing to do for a
 * program that has sent it, so a thread closes what is not needed any more, and ends when nothing is left
 * to wait for.
 */
#ifndef SHMT_IPC_HANDLE_SAVED_DESCRIPTORS_H
#define SHMT_IPC_HANDLE_SAVED_DESCRIPTORS_H

#include "ipc/session/session.h"

/* All under the sessions' lock. */

/* Keep a descriptor of the holding's file, if there is room for one more; borrows fd. */
void shmt__saved_descriptor_add(const shmt__held_block* h, int fd);
/* The descriptor that is kept of the holding's file; borrowed, -1: none. */
int shmt__saved_descriptor(const shmt__held_block* h);
/* Call f for each descriptor that is kept. */
void shmt__saved_descriptors_each(shmt__session* s,
                           void (*f)(shmt__session* s, uint32_t block, uint64_t generation, int fd));
/* Close the descriptors that are not needed any more. Returns whether others may become unneeded later. */
bool shmt__saved_descriptors_close_unneeded(shmt__session* s);
/* In a forked child: messages under way are the parent's. */
void shmt__saved_descriptors_in_child(shmt__session* s);
/* Close and forget all. */
void shmt__saved_descriptors_fini(shmt__session* s);

#endif
