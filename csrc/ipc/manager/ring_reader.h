/* ipc/manager/ring_reader.h -- reads the messages of a ring through the descriptor of the arena.
 *
 * The manager must not touch a page of the messages' area in a map: where a page is missing (Note [Pages of rings] in
 * ipc/ring/message_layout.h), and any member can write positions that lie there, the page would be allocated, or the
 * manager killed when there is no memory. In a file, such a page reads as zeros.
 */
#ifndef SHMT_IPC_MANAGER_RING_READER_H
#define SHMT_IPC_MANAGER_RING_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct shmt__ring_reader {
  int fd;
  uint64_t at;       /* where the messages' area begins in the file */
  uint32_t capacity; /* of the area */
  uint32_t begin, n_bytes; /* what of the area `bytes` has */
  char bytes[16 << 10];
} shmt__ring_reader;

/* Read the area from now on that begins there. The descriptor stays the caller's. */
void shmt__ring_reader_begin(shmt__ring_reader* r, int fd, uint64_t at, uint32_t capacity);
/* Copy nbytes from an offset below the capacity, round the end of the area if need be. *offset moves behind them.
 * Returns false when the file cannot be read. */
bool shmt__ring_reader_copy(shmt__ring_reader* r, uint32_t* offset, void* out, size_t nbytes);

#endif
