/* iter/copy/pack.h -- a small part of a tensor of any strides, laid dense: for loops over dense elements, where a copy of
 * the whole tensor would be as large as the result. */
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

enum { SHMT_PACK_BYTES = 32 << 10 }; /* a good size of such a part: two fit a stack and a cache */

/* All of t with its dims in their order, or with dim 1 behind the others where `format` has channels last. */
void shmt__part_init(shmt__part* p, const shmt_tensor* t, shmt_memory_format format);
/* Element `index`, in the order of the first n of p's dims, by its distance from the first in bytes. */
int64_t shmt__part_offset(const shmt__part* p, int n, int64_t index);
/* p without its first n dims, at the first of their places. */
void shmt__part_inner(const shmt__part* p, int n, shmt__part* out);
/* Does it lie as shmt__pack() would lay it? */
bool shmt__part_is_dense(const shmt__part* p);
/* Its elements one after the other at `to`. Cannot fail. */
void shmt__pack(const shmt__part* p, char* to);
/* Where they are when they lie dense, else `room`, where they are laid. */
static inline char* shmt__packed(const shmt__part* p, char* room) {
  if (shmt__part_is_dense(p)) return p->data;
  shmt__pack(p, room);
  return room;
}

/* Parts of a part that follow each other: all of the last dims, some of the one before them, one place of the others. */
typedef struct shmt__part_chunks {
  int dim;            /* the one of which they have some */
  int64_t per, along; /* how many of it; parts along it */
  int64_t n;          /* parts in all */
} shmt__part_chunks;

/* Into parts of so many bytes at most, or one element. */
void shmt__part_chunks_init(shmt__part_chunks* c, const shmt__part* p, int64_t most);
/* Part `index` of p, or of another of the same sizes; returns the number of elements before it. */
int64_t shmt__part_chunk(const shmt__part_chunks* c, const shmt__part* p, int64_t index, shmt__part* out);
int64_t shmt__part_numel(const shmt__part* p);

#endif
