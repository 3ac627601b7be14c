/* ops/pooling/plane_loops.h -- how pooling walks over its images, whichever way they lie. */
#ifndef SHMT_OPS_POOLING_PLANE_LOOPS_H
#define SHMT_OPS_POOLING_PLANE_LOOPS_H

#include "base/error.h"
#include "kernels/loop_args.h"
#include "tensor/tensor.h"

enum { SHMT_POOL_OPERANDS = 4 };

/* Windows of one element over planes of one. */
#define SHMT_POOL_IDENTITY                                                                                        \
  ((shmt__pool_args){.in = {1, 1, 1},                                                                         \
                     .out = {1, 1, 1},                                                                         \
                     .kernel = {1, 1, 1},                                                                      \
                     .stride = {1, 1, 1},                                                                      \
                     .dilation = {1, 1, 1},                                                                    \
                     .count_padding = true})

/* The format to work in with loops of this row and dtype, for windows over the last n dims: self's own where it has many
 * channels side by side and there is a loop for them. */
shmt_memory_format shmt__pool_format(const shmt_tensor* self, shmt_dtype dtype, int row, const shmt__pool_args* s, int n);
/* self as shmt__pool_run_loop() takes an image. *out: a new reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__pool_prepare_input(shmt_tensor* self, shmt_memory_format format, shmt_tensor** out);
/* The loop of this row, or its like for channels side by side, over all planes. tensors, in the loop's order, are dense in
 * `format`, or NULL; those that is_image have planes of the input's size, the others equal shares for each plane. An
 * image behind the first operand may lie anyhow in the contiguous format. Errors: SHMT_E_NOMEM. */
shmt_status shmt__pool_run_loop(shmt_memory_format format, int row, const shmt__pool_args* s,
                                shmt_tensor* const tensors[SHMT_POOL_OPERANDS], const bool is_image[SHMT_POOL_OPERANDS]);

#endif
