/* ops/conv/backward/boxes.h -- input and weight gradients by matrix products, one box of positions at a time.
 *
 * Note [Boxes]
 * The im2col matrix of whole images is many times as large as the images. Here only a box of positions (of several
 * images, where planes are small) and some channels are in memory at a time; what the box needs is gathered from where
 * it lies, and widened on the way. input gradient   A box of the input. The outputs that read from it are multiplied by
 * the weight; col2im sums the product. weight gradient  A box of the output. im2col of what it reads is multiplied by
 * it and added to the weight's gradient. Boxes of the input have no element in common, so threads share them out. Of a
 * weight, threads share out the channels.
 *
 * Where AMX multiplies bfloat16, the factors keep that dtype; the products and their sums have c->dtype, as everywhere.
 */
#ifndef SHMT_OPS_CONV_BACKWARD_BOXES_H
#define SHMT_OPS_CONV_BACKWARD_BOXES_H

#include "ops/conv/image_view.h"
#include "ops/conv/problem.h"

#include <stdatomic.h>
#include <string.h>

enum {
  SHMT_CONV_BOX_BYTES = 192 << 10,        /* of each kind of a thread's memory, about */
  SHMT_CONV_BOX_ENOUGH = 64,              /* positions of a plane that is a matrix wide enough by itself */
  SHMT_CONV_BOX_WORTH_SHARING = 1 << 18,  /* multiplications that are worth a thread */
};

/* A box of a tensor: image, channel, depth, height, width. */
typedef struct shmt__conv_box {
  int64_t begin[5], n[5];
} shmt__conv_box;

/* How a gradient is cut into boxes. */
typedef struct shmt__conv_boxes {
  const shmt__conv* c;
  shmt__image_view images, outputs;
  char* weight; /* read, or written */
  const char* bias;
  int64_t item, size, k; /* size: elements of a kernel; k: of a filter */
  shmt_dtype gemm_dtype; /* of the factors: c->dtype, or bfloat16 for AMX */
  int64_t gemm_item;
  int64_t channels, filters; /* of a group */
  int64_t whole[5], step[5]; /* sizes of what is cut, and of a box */
  int64_t n_boxes, n_blocks; /* n_blocks: of the channels of a group */
  int64_t block;             /* channels at a time */
  int64_t width, positions;  /* at most: outputs of a box; elements of a channel of its input */
  bool is_pointwise;         /* an image is its own im2col matrix, */
  bool is_gemm;              /* and the product can read or write it where it lies */
  bool reads_outputs;        /* boxes of the output are matrices where they lie */
  bool is_staged;            /* boxes of the input gradient are made in memory of their own and then copied */
  atomic_bool failed;        /* out of memory */
} shmt__conv_boxes;

/* A thread's memory. */
typedef struct shmt__conv_box_memory {
  char *memory, *outputs, *columns, *images, *weight;
  uint64_t nbytes;
} shmt__conv_box_memory;

void shmt__conv_boxes_init(shmt__conv_boxes* j, const shmt__conv* c, const shmt__image_view* images,
                           const shmt__image_view* outputs);
/* Cut planes of this size (c->shape.in for the input gradient, c->shape.out for the weight gradient) into boxes of at
 * most `most` positions, and see what can be read and written where it lies. */
void shmt__conv_boxes_plan(shmt__conv_boxes* j, const int64_t* size, int64_t most);
/* Set the channels at a time: as many as fit in `most` bytes, at least one, when one takes nbytes. */
void shmt__conv_boxes_set_block(shmt__conv_boxes* j, int64_t most, int64_t nbytes);
/* SHMT_E_NOMEM where a thread had no memory. */
shmt_status shmt__conv_boxes_status(const shmt__conv_boxes* j);

shmt__conv_box shmt__conv_box_at(const shmt__conv_boxes* j, int64_t i);
/* The box with other channels. */
shmt__conv_box shmt__conv_box_channels(shmt__conv_box b, int64_t begin, int64_t n);
/* The outputs that read from a box of the input. */
shmt__conv_box shmt__conv_box_outputs(const shmt__conv_shape* s, shmt__conv_box b);
/* The box of the input that a box of outputs reads. */
shmt__conv_box shmt__conv_box_inputs(const shmt__conv_shape* s, shmt__conv_box b);
/* The convolution from that box of the input to this box of outputs. */
shmt__conv_shape shmt__conv_box_shape(const shmt__conv_shape* s, const shmt__conv_box* images,
                                      const shmt__conv_box* outputs);

/* Allocate so many bytes of each kind. False: no memory; j->failed is set. The caller frees r->memory. */
bool shmt__conv_box_memory_init(shmt__conv_boxes* j, shmt__conv_box_memory* r, int64_t outputs, int64_t columns,
                                int64_t images, int64_t weight);
/* c = a @ b, or c += a @ b, for factors of j->gemm_dtype. */
void shmt__conv_box_multiply(const shmt__conv_boxes* j, shmt__matrix a, shmt__matrix b, bool adds, shmt__matrix c);

static inline int64_t shmt__conv_volume(const int64_t* size) { return size[0] * size[1] * size[2]; }
/* Positions of a channel of one image of a box. */
static inline int64_t shmt__conv_box_positions(const shmt__conv_box* b) { return shmt__conv_volume(b->n + 2); }

/* A matrix with dense rows. */
static inline shmt__matrix shmt__conv_box_matrix(const void* data, int64_t rows, int64_t columns, int64_t row_stride) {
  return (shmt__matrix){(char*)(uintptr_t)data, rows, columns, row_stride, 1};
}

#endif
