/* ipc/handle/file_cache.h -- a cache of memory files that this process has mapped and does not use at the moment.
 *
 * Note [Cached files]
 * A file costs most of its time in its pages: they are allocated and cleared, entered into page tables by faults, and
 * freed again. So a process that drops a storage that is a file of its own keeps the map for a moment. The owner, who
 * made the file, makes its next storage of about that size in it, once nobody holds the block any more. A receiver
 * saves the request to the manager and the faults when the same file comes again. The hold on the block is given up all
 * the same: a cached file keeps no storage alive. When the manager retires its slab, the map is stale; generation and
 * identity tell. Cached files are bounded in number and bytes, and are unmapped after a second. A file whose descriptor
 * was given to another program (_share_fd_) is never reused: programs outside the session may have it mapped.
 */
#ifndef SHMT_IPC_HANDLE_FILE_CACHE_H
#define SHMT_IPC_HANDLE_FILE_CACHE_H

#include "ipc/session/session.h"

/* All under the sessions' lock. */

/* The held block is being dropped: keep its map, if that is worth it. True: the cache owns the map now. */
bool shmt__file_cache_add(const shmt__held_block* h);
/* Reuse a cached file of our own for a storage of so many bytes. It is held again, by a new record. False: none
 * fits. */
bool shmt__file_cache_reuse(shmt__session* s, uint64_t nbytes, shmt__held_block** out);
/* A block was received: take the map of its file, of at least so many bytes, from the cache. False: it is not there. */
bool shmt__file_cache_map(shmt__held_block* h, uint64_t nbytes);
/* Unmap the files that are old. Returns whether others are left. */
bool shmt__file_cache_expire(shmt__session* s);
/* Unmap all files. */
void shmt__file_cache_clear(shmt__session* s);

#endif
