/* ops/conv/nhwc/amx_im2col.h -- im2col of bfloat16 NHWC images, into the strips that AMX products read.
 *
 * Note [im2col strips]
 * The patch of an output is the part of the input under the kernel. In NHWC it is a few runs of memory: one for each
 * row of the kernel, or one for each position of a dilated kernel. The patches of some outputs are copied below each
 * other, which makes strips of them (Note [AMX tiles] in ops/matmul/gemm_amx.c). The patches of a 1 x 1 kernel are read
 * where they lie.
 */
#ifndef SHMT_OPS_CONV_NHWC_AMX_IM2COL_H
#define SHMT_OPS_CONV_NHWC_AMX_IM2COL_H

#include "ops/conv/problem.h"
#include "ops/matmul/gemm_bfloat16_packing.h"
#include "ops/matmul/gemm_amx.h"

#if defined(__x86_64__)

typedef struct shmt__amx_im2col {
  const shmt__conv* c;
  int64_t pixel;    /* bytes of the channels of a group at one position */
  int64_t k, width; /* elements of a patch; bytes from one patch to the next, whole steps of 32 elements */
  int64_t row, run; /* bytes of a row of the kernel: in a patch, and as many as lie together in an image */
  int64_t run_step; /* bytes from such a run to the next in the image */
  int64_t vectors;  /* of a run: whole vectors of 64 bytes, */
  uint32_t mask;    /* and the elements behind them */
  int64_t last;     /* the last position along a row where a patch can begin without reaching into the padding */
  bool has_even_positions; /* patches are single positions, evenly apart */
} shmt__amx_im2col;

/* For the convolution c, which is borrowed. */
void shmt__amx_im2col_init(shmt__amx_im2col* w, const shmt__conv* c);
/* The patches of `rows` outputs (at most 32) from the first on, counted through the images: where they lie, or copied
 * to room. images: the first element of a group. room is 0 behind each patch, and stays so. */
shmt__amx_strip shmt__amx_im2col_strip(const shmt__amx_im2col* w, const char* images, int64_t first, int64_t rows,
                                       char* room);

#endif

#endif
