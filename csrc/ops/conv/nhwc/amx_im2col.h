/* ops/conv/nhwc/amx_im2col.h -- windows of bfloat16 images whose channels are neighbours, side by side.
 *
 * Note [Windows in strips]
 * Where channels are neighbours, a window is a few runs of memory: of a row of the kernel, or of each of its places. Those of
 * some outputs are copied side by side, which makes strips of them (Note [Tiles] in ops/matmul/gemm_amx.c). A window of one pixel is
 * read where it lies.
 */
#ifndef SHMT_OPS_CONV_NHWC_AMX_IM2COL_H
#define SHMT_OPS_CONV_NHWC_AMX_IM2COL_H

#include "ops/conv/algorithm.h"
#include "ops/matmul/gemm_bfloat16_packing.h"
#include "ops/matmul/gemm_amx.h"

#if defined(__x86_64__)

typedef struct shmt__amx_im2col {
  const shmt__conv* c;
  int64_t pixel;    /* bytes of a pixel's channels of a group */
  int64_t k, width; /* elements of a window; bytes from one to the next, of whole steps of 32 elements */
  int64_t row, run; /* bytes of a kernel's row: all together, and those that lie together in an image */
  int64_t run_step; /* from such a run to the next in the images */
  int64_t vectors;    /* of a run: whole ones of 64 bytes, */
  uint32_t mask;    /* and what is left */
  int64_t last;     /* position along a row that a window inside begins at */
  bool has_even_positions;     /* windows are pixels evenly apart */
} shmt__amx_im2col;

/* Of c, which is borrowed. */
void shmt__amx_im2col_init(shmt__amx_im2col* w, const shmt__conv* c);
/* The windows of `rows` outputs (at most 32), counted through the images, from the first on: where they lie, or copied to room.
 * images: the first element of a group. Room is 0 behind each window, and stays so. */
shmt__amx_strip shmt__amx_im2col_strip(const shmt__amx_im2col* w, const char* images, int64_t first, int64_t rows,
                                       char* room);

#endif

#endif
