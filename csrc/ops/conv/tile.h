/* ops/conv/tile.h -- tiles of a convolution's outputs: the input that they need, and how it is read and written.
 *
 * Note [Tiles of outputs]
 * A kernel reads images in its own layout and dtype. Copies of whole images would be as large as the tensors. So
 * outputs are made in tiles that need no more memory than fits the caches. The channels that a tile needs are gathered
 * from any strides and widened, some at a time, and its outputs are rounded into the result. Neighbouring tiles read a
 * few rows of the input twice.
 */
#ifndef SHMT_OPS_CONV_TILE_H
#define SHMT_OPS_CONV_TILE_H

#include "ops/conv/problem.h"

/* Neighbouring outputs of an image: whole planes, whole rows, or a piece of one row. */
typedef struct shmt__conv_tile {
  shmt__conv_shape shape; /* of the tile alone: its outputs, the input that they read, the padding before that */
  int64_t first[3];       /* where that input begins in the image */
  int64_t at, length;     /* the first output, counted in the image, and how many there are */
} shmt__conv_tile;

/* Set size to the outputs of the largest tile that takes at most `most` bytes, when an element of its input takes
 * per_input bytes and an output per_output. Short pieces of rows are not cut further. Returns the number of tiles of an
 * image. */
int64_t shmt__conv_tile_size(const shmt__conv* c, int64_t per_input, int64_t per_output, int64_t most, int64_t* size);
/* Tile i of those of that size. */
shmt__conv_tile shmt__conv_tile_at(const shmt__conv* c, const int64_t* size, int64_t i);

/* Can kernels read the input where it lies: with dense rows, and in c->dtype? */
bool shmt__conv_reads_in_place(const shmt__conv* c);
/* Channels of a group that are best gathered together; 0 where the input is read in place. */
int64_t shmt__conv_gathered_channels(const shmt__conv* c);
/* Bytes of room that shmt__conv_tile_input() needs for n channels of a tile of that size; 0 where the input is read in
 * place. */
int64_t shmt__conv_tile_input_bytes(const shmt__conv* c, const int64_t* size, int64_t n);
/* The input of a tile, n channels from the first on, in c->dtype with dense rows: where it lies, or copied to room.
 * Sets p->shape.step. */
const char* shmt__conv_tile_input(const shmt__conv* c, shmt__conv_tile* p, const char* images, int64_t image,
                                  int64_t first, int64_t n, char* room);

/* n elements of the weight from the first on, in c->dtype: where they lie, or cast to room. */
const char* shmt__conv_cast_weight(const shmt__conv* c, const char* weight, int64_t first, int64_t n, char* room);

/* Store outputs [at, at + length) of n filters of an image; from: one row for each filter in c->dtype, `pitch` elements
 * apart. Where they are rounded to another dtype, c->bias is added before. */
void shmt__conv_store_outputs(const shmt__conv* c, char* from, int64_t pitch, int64_t image, int64_t filter, int64_t n,
                              int64_t at, int64_t length, char* output);

#endif
