/* iter/copy/pack.h -- copying a small part of a strided tensor into a dense buffer, for loops over dense elements,
 * where a copy of the whole tensor would be as large as the result. */
#ifndef SHMT_ITER_COPY_PACK_H
#define SHMT_ITER_COPY_PACK_H

#include "tensor/tensor.h"

/* Elements of item bytes along some dims, the last one running fastest. */
typedef struct shmt__part {
  char* data;
  int64_t item;
  int n_dims;
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS]; /* bytes */
} shmt__part;

enum { SHMT_PACK_BYTES = 32 << 10 }; /* a good size of a part: two fit on the stack and in the cache */

/* All of t, with its dims in their order; `format` channels-last moves dim 1 behind the others. */
void shmt__part_init(shmt__part* p, const shmt_tensor* t, shmt_memory_format format);
/* The byte distance of element `index` of the first n dims, counted in row-major order, from the first. */
int64_t shmt__part_offset(const shmt__part* p, int n, int64_t index);
/* p without its first n dims, at their index 0. */
void shmt__part_inner(const shmt__part* p, int n, shmt__part* out);
/* Is it dense already, as shmt__pack() would make it? */
bool shmt__part_is_dense(const shmt__part* p);
/* Copy its elements to `to`, one after the other. Cannot fail. */
void shmt__pack(const shmt__part* p, char* to);
/* The elements where they are when they are dense, else a dense copy in `room`. */
static inline char* shmt__packed(const shmt__part* p, char* room) {
  if (shmt__part_is_dense(p)) return p->data;
  shmt__pack(p, room);
  return room;
}

/* Consecutive chunks of a part: all of the last dims, some indices of the dim before them, one index of the others. */
typedef struct shmt__part_chunks {
  int dim;            /* the dim of which a chunk has some indices */
  int64_t per, along; /* how many indices; chunks along that dim */
  int64_t n;          /* chunks in all */
} shmt__part_chunks;

/* Chunks of at most so many bytes, or of one element. */
void shmt__part_chunks_init(shmt__part_chunks* c, const shmt__part* p, int64_t most);
/* Chunk `index` of p, or of another part with the same sizes; returns the number of elements before it. */
int64_t shmt__part_chunk(const shmt__part_chunks* c, const shmt__part* p, int64_t index, shmt__part* out);
int64_t shmt__part_numel(const shmt__part* p);

#endif
