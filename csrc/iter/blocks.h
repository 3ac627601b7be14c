/* iter/blocks.h -- the elements of a tensor in row-major order, a block at a time, in one dtype.
 *
 * Operators whose result depends on the order of the elements use it: masks, counts, random draws. A contiguous tensor
 * of the right dtype is read in place. Otherwise each block is copied into a buffer of the caller, so that no operand
 * is copied as a whole.
 *
 *   shmt__blocks_init(&b, t, dtype);
 *   for (int64_t begin = 0; begin < t->numel; begin += n) {
 *     n = t->numel - begin < MOST ? t->numel - begin : MOST;
 *     use(shmt__blocks_read(&b, begin, n, buffer), n);
 *   }
 */
#ifndef SHMT_ITER_BLOCKS_H
#define SHMT_ITER_BLOCKS_H

#include "iter/copy/copy.h"
#include "iter/cursor.h"
#include "tensor/tensor.h"

enum { SHMT_BLOCK_BYTES = 128 << 10 }; /* the largest buffer for a block */

typedef struct shmt__blocks {
  char* data;
  int64_t item, wide;      /* bytes of an element: in the tensor, and as it is read */
  bool is_dense;           /* contiguous and of the dtype */
  shmt__cast_loop_fn load; /* NULL: the dtype is the tensor's */
  shmt__cast_loop_fn store;
  shmt__loop_nest dims;         /* merged where they can be, steps in bytes; at least two */
} shmt__blocks;

/* The tensor must outlive b. Cannot fail. */
void shmt__blocks_init(shmt__blocks* b, const shmt_tensor* t, shmt_dtype dtype);
/* Bytes from the tensor's first element to element i. */
static inline int64_t shmt__blocks_offset(const shmt__blocks* b, int64_t i) {
  const shmt__loop_nest* const w = &b->dims;
  int64_t offset = 0;
  int d = 0;

  for (; d < w->n_dims - 1; i /= w->sizes[d++]) offset += i % w->sizes[d] * w->from[d];
  return offset + i * w->from[d];
}
/* Elements [begin, begin + n). The pointer leads into the tensor itself, or to buffer, which must have room for
 * them. */
const void* shmt__blocks_read(const shmt__blocks* b, int64_t begin, int64_t n, void* buffer);
/* Where the caller writes elements [begin, begin + n) before it calls _write: in the tensor itself, or in buffer. */
static inline void* shmt__blocks_target(const shmt__blocks* b, int64_t begin, void* buffer) {
  return b->is_dense ? b->data + begin * b->item : buffer;
}
/* Elements [begin, begin + n) = those at `from`, which _target returned. */
void shmt__blocks_write(const shmt__blocks* b, int64_t begin, int64_t n, const void* from);

#endif
