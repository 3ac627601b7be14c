/* ipc/handle/file_cache.h -- memory files that this process has mapped and does not use at the moment.
 *
 * Note [Cached files]
 * Most of the time that a file costs goes into its pages: they are made and cleared, entered into page tables
 * by faults, and taken away again. So who drops a storage that is a file of its own keeps the map for a moment.
 * The owner, who made the file, makes the next storage of about that size in it, when nobody holds the block any
 * more; whoever received it saves the way to the manager and the faults when the same file comes again.
 * The block's hold is given up all the same: a spare file keeps nobody's storage alive, and when the manager
 * retires its slab, the map is stale, which generation and identity tell. Spare files are bounded in number
 * and bytes, and go after a second. A file whose descriptor was handed out (_share_fd_) is never
 * used anew: strangers may have it mapped.
 */
#ifndef SHMT_IPC_HANDLE_FILE_CACHE_H
#define SHMT_IPC_HANDLE_FILE_CACHE_H

#include "ipc/session/session.h"

/* All under the sessions' lock. */

/* The holding is being dropped: keep its map, if that is worth it. True: it is taken over. */
bool shmt__file_cache_add(const shmt__held_block* h);
/* A spare file of ours for a storage of so many bytes, held again; its holding is new. False: there is none. */
bool shmt__file_cache_reuse(shmt__session* s, uint64_t nbytes, shmt__held_block** out);
/* The map of the file of a block that was received again, of so many bytes at least; false: there is none. */
bool shmt__file_cache_map(shmt__held_block* h, uint64_t nbytes);
/* Unmap those that are old; returns whether others are left. */
bool shmt__file_cache_expire(shmt__session* s);
/* Unmap all. */
void shmt__file_cache_clear(shmt__session* s);

#endif
