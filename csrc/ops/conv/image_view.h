/* ops/conv/image_view.h -- views of images, outputs and weights with any strides and dtype.
 *
 * Sizes, strides and places in a view have five numbers: images, channels, depth, height, width. For a weight these are
 * filters, channels of a group, and the kernel.
 */
#ifndef SHMT_OPS_CONV_IMAGE_VIEW_H
#define SHMT_OPS_CONV_IMAGE_VIEW_H

#include "ops/matmul/gemm.h"
#include "tensor/tensor.h"

typedef struct shmt__image_view {
  char* data;
  shmt_dtype dtype;
  int64_t stride[5]; /* bytes; 0 for dims that the tensor does not have */
} shmt__image_view;

/* The view of a tensor (images, channels, one to three spatial dims); data is borrowed. */
shmt__image_view shmt__image_view_of(const shmt_tensor* t);
/* The same view from the element `begin` on. */
shmt__image_view shmt__image_view_at(const shmt__image_view* p, const int64_t* begin);
/* A view of dense memory with n elements, in the order channels, images, positions (CNHW). */
shmt__image_view shmt__image_view_cnhw(void* data, shmt_dtype dtype, const int64_t* n);
/* The same in NHWC order. */
shmt__image_view shmt__image_view_nhwc(void* data, shmt_dtype dtype, const int64_t* n);

/* Copy n elements and cast each; strides of `from` may be 0. */
void shmt__image_view_copy(const shmt__image_view* to, const shmt__image_view* from, const int64_t* n);
/* The same; the threads share out the rows. */
void shmt__image_view_copy_parallel(const shmt__image_view* to, const shmt__image_view* from, const int64_t* n);

/* Are n elements a matrix of (channels, images and positions) that a BLAS reads where it lies? Sets *out if so. */
bool shmt__image_view_is_matrix(const shmt__image_view* p, const int64_t* n, shmt_dtype dtype, shmt__matrix* out);
/* n elements as such a matrix: where they lie, or copied to room. room may be NULL where they are known to be a
 * matrix. */
shmt__matrix shmt__image_view_as_matrix(const shmt__image_view* p, const int64_t* n, shmt_dtype dtype, void* room);
/* Does the view have this dtype and dense rows, as im2col and col2im need them? Sets step to the steps between
 * channels, planes and rows in elements if so. */
bool shmt__image_view_has_dense_rows(const shmt__image_view* p, shmt_dtype dtype, int64_t* step);

#endif
