/* ops/conv/backward/weight_grad_nhwc_amx.c -- weight gradient of bfloat16 NHWC images on AMX tiles.
 *
 * im2col copies the patches of some outputs (ops/conv/nhwc/amx_im2col.h): a matrix of (outputs, elements of a filter).
 * The matrix of (filters, outputs) is read where it lies. Their product is added to the sums of some filters in
 * float32, whose elements are in the order of a patch: that of an NHWC weight.
 */
#include "ops/conv/backward/weight_grad_nhwc_amx.h"

#include "base/sizes.h"
#include "iter/threads.h"
#include "ops/conv/nhwc/grouped.h"
#include "ops/conv/nhwc/amx.h"
#include "ops/conv/nhwc/amx_im2col.h"
#include "storage/allocator.h"

#include <string.h>

#if defined(__x86_64__)

enum {
  ITEM = SHMT_VNNI_ITEM,
  SIDE = SHMT_VNNI_WIDTH,
  IM2COL_BYTES = 448 << 10, /* of patches that are copied together */
  MOST_OUTPUTS = 320,       /* the same: strips of so many fit the first-level cache */
  SUM_BYTES = 2 << 20,      /* of the sums in memory */
  WORTH_SHARING = 1 << 15,  /* bytes that are copied */
};

typedef struct patches_job {
  shmt__amx_im2col im2col;
  const char* images;       /* of a group */
  int64_t first, n;         /* the outputs whose patches are copied */
  char* room;
} patches_job;

bool shmt__conv_has_weight_grad_nhwc_amx(const shmt__conv* c, const shmt__image_view* images,
                                         const shmt__image_view* outputs) {
  const int64_t *kernel = c->shape.kernel, *out = c->shape.out,
                n[5] = {c->n_images, c->filters, out[0], out[1], out[2]};
  shmt__matrix m;

  return shmt__conv_has_nhwc_amx(c) && !shmt__conv_is_depthwise(c) && !shmt__conv_has_nhwc_grouped(c) &&
         kernel[0] * kernel[1] * kernel[2] > 1 && images->stride[1] == ITEM && outputs->stride[1] == ITEM &&
         shmt__image_view_is_matrix(outputs, n, c->io_dtype, &m);
}

/* Copy strips [begin, end) of the patches of j->n outputs. */
static void im2col_strips(void* ctx, int64_t begin, int64_t end) {
  const patches_job* j = ctx;

  for (int64_t i = begin; i < end; i++)
    (void)shmt__amx_im2col_strip(&j->im2col, j->images, j->first + i * SIDE, shmt__min_i64(SIDE, j->n - i * SIDE),
                                 j->room + i * SIDE * j->im2col.width);
}

/* Store the sums of n filters from the first on in the weight; transposed: in `sums`, filters are neighbours. */
static void store_weight_grad(const shmt__conv* c, float* sums, bool transposed, int64_t first, int64_t n, bool is_nhwc,
                              char* weight) {
  const int64_t* kernel = c->shape.kernel;
  const int64_t size[5] = {n, c->channels / c->groups, kernel[0], kernel[1], kernel[2]};
  const int64_t row = kernel[2] * ITEM, plane = kernel[1] * row, channel = kernel[0] * plane,
                filter = size[1] * channel;
  shmt__image_view from = shmt__image_view_nhwc(sums, SHMT_FLOAT32, size);
  shmt__image_view to = {weight + first * filter, c->io_dtype, {filter, channel, plane, row, ITEM}};

  for (int d = 0; d < 5 && transposed; d++) from.stride[d] = d == 0 ? (int64_t)sizeof *sums : from.stride[d] * n;
  if (is_nhwc) to = shmt__image_view_nhwc(weight + first * filter, c->io_dtype, size);
  shmt__image_view_copy_parallel(&to, &from, size);
}

shmt_status shmt__conv_weight_grad_nhwc_amx(const shmt__conv* c, const shmt__image_view* images,
                                            const shmt__image_view* outputs, bool is_nhwc, void* weight) {
  const int64_t *out = c->shape.out, n_outputs = c->n_images * out[0] * out[1] * out[2],
                filters = c->filters / c->groups;
  const int64_t size[5] = {c->n_images, c->filters, out[0], out[1], out[2]};
  shmt__conv strided = *c;
  shmt__matrix all;
  void* memory = NULL;
  patches_job j = {.images = NULL};

  (void)shmt__image_view_is_matrix(outputs, size, c->io_dtype, &all);
  strided.image_step = images->stride[0];
  strided.channel_step = images->stride[1];
  for (int d = 0; d < 3; d++) strided.step[d] = images->stride[2 + d];
  shmt__amx_im2col_init(&j.im2col, &strided);
  const int64_t width = j.im2col.width, k = j.im2col.k;
  const int64_t fit = shmt__min_i64(shmt__max_i64(IM2COL_BYTES / width / SIDE, 2) * SIDE, MOST_OUTPUTS);
  const int64_t most = shmt__ceil_div(shmt__ceil_div(n_outputs, shmt__ceil_div(n_outputs, fit)), SIDE) * SIDE;
  const int64_t room = most * width, kept = shmt__max_i64(SUM_BYTES / (k * (int64_t)sizeof(float)) / SIDE, 1) * SIDE;
  const int64_t some = shmt__min_i64(filters, kept);
  const uint64_t nbytes = (uint64_t)(room + some * k * (int64_t)sizeof(float));
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  float* const sums = (float*)(void*)((char*)memory + room);
  memset(memory, 0, (size_t)room);
  j.room = memory;
  for (int64_t f = 0, n; f < c->filters; f += n) {
    n = shmt__min_i64(some, filters - f % filters);
    j.images = images->data + f / filters * j.im2col.pixel;
    for (j.first = 0; j.first < n_outputs; j.first += most) {
      j.n = shmt__min_i64(most, n_outputs - j.first);
      shmt__parallel_for(shmt__ceil_div(j.n, SIDE), WORTH_SHARING / (SIDE * width) + 1, im2col_strips, &j);
      const shmt__matrix a = {all.data + (f + j.first * all.column_stride) * ITEM, n, j.n, 1, all.column_stride};
      const shmt__matrix b = {j.room, j.n, k, width / ITEM, 1}, to = {(char*)sums, n, k, k, 1};
      const shmt__matrix transposed = {(char*)sums, k, n, n, 1};
      /* The rows of the first factor are transposed for AMX: the fewer, the better. */
      if (k < n)
        shmt__gemm_bfloat16_float32(shmt__matrix_transposed(b), shmt__matrix_transposed(a), j.first > 0, transposed);
      else
        shmt__gemm_bfloat16_float32(a, b, j.first > 0, to);
    }
    store_weight_grad(c, sums, k < n, f, n, is_nhwc, weight);
  }
  shmt__dealloc(memory, nbytes);
  return SHMT_OK;
}

#else

bool shmt__conv_has_weight_grad_nhwc_amx(const shmt__conv* c, const shmt__image_view* images,
                                         const shmt__image_view* outputs) {
  (void)c, (void)images, (void)outputs;
  return false;
}

shmt_status shmt__conv_weight_grad_nhwc_amx(const shmt__conv* c, const shmt__image_view* images,
                                            const shmt__image_view* outputs, bool is_nhwc, void* weight) {
  (void)c, (void)images, (void)outputs, (void)is_nhwc, (void)weight;
  return SHMT_OK;
}

#endif
