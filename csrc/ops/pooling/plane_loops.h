/* ops/pooling/plane_loops.h -- runs pooling loops over planes (NCHW), or over rows of NHWC images. */
#ifndef SHMT_OPS_POOLING_PLANE_LOOPS_H
#define SHMT_OPS_POOLING_PLANE_LOOPS_H

#include "base/error.h"
#include "kernels/loop_args.h"
#include "tensor/tensor.h"

enum { SHMT_POOL_OPERANDS = 4 };

/* Pooling windows of one element, on planes of one element. */
#define SHMT_POOL_IDENTITY                  \
  ((shmt__pool_args){.in = {1, 1, 1},       \
                     .out = {1, 1, 1},      \
                     .kernel = {1, 1, 1},   \
                     .stride = {1, 1, 1},   \
                     .dilation = {1, 1, 1}, \
                     .count_padding = true})

/* The memory format to work in, with the loop in this row of shmt__loops and pooling windows over the last n dims:
 * channels_last where self has it, has several channels, and there is such a loop. */
shmt_memory_format shmt__pool_format(const shmt_tensor* self, shmt_dtype dtype, int row, const shmt__pool_args* s,
                                     int n);
/* self as shmt__pool_run_loop() takes an input. New reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__pool_prepare_input(shmt_tensor* self, shmt_memory_format format, shmt_tensor** out);
/* Run the loop in this row of shmt__loops, or its NHWC variant, over all planes. Tensors, in the order of the loop, are
 * dense in `format`, or NULL. Those that is_image have planes of the input's size; others have equally many elements
 * for each plane. In the contiguous format, an image other than the first operand may have any strides. Errors:
 * SHMT_E_NOMEM. */
shmt_status shmt__pool_run_loop(shmt_memory_format format, int row, const shmt__pool_args* s,
                                shmt_tensor* const tensors[SHMT_POOL_OPERANDS],
                                const bool is_image[SHMT_POOL_OPERANDS]);

#endif
