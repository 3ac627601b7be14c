/* ops/conv/tile.h -- convolution a part at a time: which elements of an image some outputs need, how images and outputs of
 * any strides and of other dtypes are read and written. */
#ifndef SHMT_OPS_CONV_TILE_H
#define SHMT_OPS_CONV_TILE_H

#include "ops/conv/algorithm.h"

/* Outputs of an image that are made together: neighbours in their plane. Whole planes, whole rows or a piece of one. */
typedef struct shmt__conv_tile {
  shmt__conv_shape shape; /* of the part alone: its outputs, the elements that they need, the padding before those */
  int64_t first[3];       /* of those elements, in the image */
  int64_t at, length;     /* the first output in its plane, how many there are */
} shmt__conv_tile;

/* Set size, of the largest part that takes no more than `most` bytes, when an element of what it needs takes per_input
 * bytes and an output per_output. Very short ones are not cut further. Returns how many parts an image has. */
int64_t shmt__conv_tile_size(const shmt__conv* c, int64_t per_input, int64_t per_output, int64_t most, int64_t* size);
/* Part i of those of that size. */
shmt__conv_tile shmt__conv_tile_at(const shmt__conv* c, const int64_t* size, int64_t i);

/* Can images be read where they lie? */
bool shmt__conv_reads_in_place(const shmt__conv* c);
/* Channels of a group that are best gathered together, 0 where images are read in place. */
int64_t shmt__conv_gathered_channels(const shmt__conv* c);
/* Bytes of room that shmt__conv_tile_input wants for n channels of a part of that size, 0 where images are read in place. */
int64_t shmt__conv_tile_input_bytes(const shmt__conv* c, const int64_t* size, int64_t n);
/* What a part needs of n channels from the first on, in c->dtype with rows dense: where it lies, or copied to room. Sets
 * p->shape.step. */
const char* shmt__conv_tile_input(const shmt__conv* c, shmt__conv_tile* p, const char* images, int64_t image, int64_t first,
                                  int64_t n, char* room);

/* n elements of the weight from the first on in c->dtype: where they lie, or converted to room. */
const char* shmt__conv_cast_weight(const shmt__conv* c, const char* weight, int64_t first, int64_t n, char* room);

/* Outputs [at, at + length) of n filters of an image; from: rows in c->dtype, `pitch` elements apart. What is narrowed gets
 * the bias before. */
void shmt__conv_store_outputs(const shmt__conv* c, char* from, int64_t pitch, int64_t image, int64_t filter, int64_t n,
                              int64_t at, int64_t length, char* output);

#endif
