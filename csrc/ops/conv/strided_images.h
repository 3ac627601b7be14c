/* ops/conv/strided_images.h -- what a convolution reads and writes: images of any strides and dtype, and boxes of them.
 *
 * Five numbers say where something is, and how large: images, channels, depth, height, width.
 */
#ifndef SHMT_OPS_CONV_STRIDED_IMAGES_H
#define SHMT_OPS_CONV_STRIDED_IMAGES_H

#include "ops/matmul/blas.h"
#include "tensor/tensor.h"

typedef struct shmt__image_view {
  char* data;
  shmt_dtype dtype;
  int64_t stride[5]; /* bytes; of a buffer, or 0, where there is only one element */
} shmt__image_view;

/* A tensor of (images, channels, up to three dims); data is borrowed. */
shmt__image_view shmt__image_view_of(const shmt_tensor* t);
/* The same from an element on. */
shmt__image_view shmt__image_view_at(const shmt__image_view* p, const int64_t* begin);
/* Memory of n elements, where channels lie apart and all images of one together. */
shmt__image_view shmt__image_view_cnhw(void* data, shmt_dtype dtype, const int64_t* n);
/* The same where channels are neighbours. */
shmt__image_view shmt__image_view_nhwc(void* data, shmt_dtype dtype, const int64_t* n);

/* to = from, n elements, each cast; strides of `from` may be 0. */
void shmt__image_view_copy(const shmt__image_view* to, const shmt__image_view* from, const int64_t* n);
/* The same, of which the threads share out the rows. */
void shmt__image_view_copy_parallel(const shmt__image_view* to, const shmt__image_view* from, const int64_t* n);

/* Are n elements a matrix of (channels, images and places) that a BLAS reads as it is? */
bool shmt__image_view_is_matrix(const shmt__image_view* p, const int64_t* n, shmt_dtype dtype, shmt__matrix* out);
/* n elements as such a matrix: where they are, or copied to room. NULL: they are known to be one. */
shmt__matrix shmt__image_view_as_matrix(const shmt__image_view* p, const int64_t* n, shmt_dtype dtype, void* room);

#endif
