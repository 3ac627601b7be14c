/* ops/conv/nhwc/amx.c -- NHWC convolution of bfloat16 images on AMX tiles.
 *
 * Note [im2col strips and weight panels]
 * Strips of im2col patches (ops/conv/nhwc/amx_im2col.h) stay in the near caches while all panels of weights pass by.
 * The bias is added to the sums, which are rounded and stored in the output.
 *
 * Threads share out strips and, where there are few strips, the panels as well. The panels are packed once, as many at
 * a time as fit the second-level cache.
 */
#include "ops/conv/nhwc/amx.h"

#include "base/sizes.h"
#include "generated/loops.h"
#include "iter/threads.h"
#include "ops/conv/nhwc/amx_im2col.h"
#include "ops/matmul/gemm_bfloat16_packing.h"
#include "ops/matmul/gemm_amx.h"
#include "storage/allocator.h"

#include <stdatomic.h>
#include <string.h>

bool shmt__conv_is_nhwc_amx(const shmt__conv* c) {
  return shmt__conv_has_nhwc_amx(c) && c->channel_step == shmt__dtype_size[c->io_dtype];
}

#if defined(__x86_64__)

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,fma,avx512bf16")))

enum {
  ITEM = SHMT_VNNI_ITEM,
  SIDE = SHMT_VNNI_WIDTH, /* rows of a strip, columns of a panel, elements of a step along k */
  LANES = SHMT_VNNI_LANES,
  ROW = SIDE * ITEM,
  STEP = SIDE * ROW, /* bytes of a strip or panel along a step */
  SUMS = SIDE * SIDE,
  DEPTH = 16,         /* steps of a strip and a panel that fit the first-level cache */
  STRIPS_AT_ONCE = 4, /* strips that are copied before they are multiplied, so that stores are not read back at once */
  MOST_STEPS = 256,   /* steps of a filter whose strips and panels fit the second-level cache */
  PANEL_BYTES = 1 << 20,   /* of packed panels */
  FEW_CHANNELS = 8,        /* whose copies take longer than their products */
  WORTH_SHARING = 1 << 18, /* multiplications that are worth a thread */
};

typedef struct amx_job {
  const shmt__conv* c;
  const shmt__image_view* weight;
  const char* images;
  char* output;
  int64_t channels, filters, k, steps; /* of a group; of a filter: elements, and steps of those */
  shmt__amx_im2col im2col;
  int64_t n_outputs;                   /* of all images */
  int64_t together;                    /* strips at a time */
  int64_t depth;                       /* steps at a time */
  int64_t group, first, n_panels;      /* the panels that are packed: their group, first filter and number */
  int64_t n_pieces;                    /* that the threads share the panels out in */
  char* panels;
  atomic_bool failed;                  /* out of memory */
} amx_job;

bool shmt__conv_has_nhwc_amx(const shmt__conv* c) {
  const int64_t *kernel = c->shape.kernel, channels = c->channels / c->groups;
  const double k = (double)channels * (double)kernel[0] * (double)kernel[1] * (double)kernel[2];

  return c->io_dtype == SHMT_BFLOAT16 && (c->groups == 1 || channels >= FEW_CHANNELS) && k <= MOST_STEPS * SIDE &&
         shmt__gemm_has_amx();
}

/* --- panels ------------------------------------------------------------------------- */

/* Flip n filters from `at` on. In a weight that is to be flipped they are the channels. */
static shmt__image_view flip_filters(const amx_job* j, int64_t at, int64_t n, char* room) {
  const int64_t* kernel = j->c->shape.kernel;
  const shmt__image_view* w = j->weight;
  const int64_t size = j->k / j->channels, row = kernel[2] * ITEM, plane = kernel[1] * row, channel = kernel[0] * plane;
  const int64_t place = w->stride[kernel[2] > 1 ? 4 : kernel[1] > 1 ? 3 : 2];
  const shmt__conv_flip_args s = {j->channels, size, w->stride[0] / ITEM, w->stride[1] / ITEM, place / ITEM};
  const char* from = w->data + j->group * j->channels * w->stride[0] + at * w->stride[1];

  shmt__loops[SHMT_LOOP_conv_flip][SHMT_BFLOAT16]((char*[]){room, (char*)(uintptr_t)from}, NULL, n, &s);
  return (shmt__image_view){room, SHMT_BFLOAT16, {j->channels * channel, channel, plane, row, ITEM}};
}

/* Pack panels [begin, end). */
static void pack_panels(void* ctx, int64_t begin, int64_t end) {
  amx_job* j = ctx;
  const int64_t *kernel = j->c->shape.kernel, each = SIDE * j->k * ITEM;
  const uint64_t nbytes = (uint64_t)(j->c->flips_weight ? 2 * each : each);
  void* room = NULL;

  if (shmt__alloc(nbytes, &room) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t p = begin; p < end; p++) {
    const int64_t at = j->first + p * SIDE, n = shmt__min_i64(SIDE, j->filters - at);
    uint32_t* const panel = (uint32_t*)(void*)(j->panels + p * j->steps * STEP);
    if (j->c->flips_weight && j->k == j->channels) { /* a 1 x 1 kernel lies as a panel needs it */
      const int64_t row = j->weight->stride[0], column = j->weight->stride[1];
      char* const first = j->weight->data + j->group * j->channels * row + at * column;
      shmt__amx_pack_panel((shmt__matrix){first, j->k, n, row / ITEM, column / ITEM}, panel);
      continue;
    }
    const int64_t size[5] = {n, j->channels, kernel[0], kernel[1], kernel[2]};
    const shmt__image_view from = j->c->flips_weight
                                  ? flip_filters(j, at, n, (char*)room + each)
                                  : shmt__image_view_at(j->weight, (int64_t[]){j->group * j->filters + at, 0, 0, 0, 0});
    const shmt__image_view to = shmt__image_view_nhwc(room, SHMT_BFLOAT16, size);
    shmt__image_view_copy(&to, &from, size);
    shmt__amx_pack_panel((shmt__matrix){room, j->k, n, 1, j->k}, panel);
  }
  shmt__dealloc(room, nbytes);
}

/* --- products ----------------------------------------------------------------------- */

/* Store the sums of a strip with a panel in the outputs of n filters. The processor's own rounding takes subnormal
 * numbers for 0, as AMX does. */
static AVX512 void store_outputs(const amx_job* j, const float* sums, int64_t first, int64_t rows, int64_t filter,
                                 int64_t n) {
  const __mmask32 mask = shmt__vnni_mask(n);
  const __mmask16 low = (__mmask16)mask, high = (__mmask16)(mask >> LANES);
  const int64_t pitch = j->c->filters * ITEM;
  const float* bias = j->c->bias ? (const float*)j->c->bias + filter : NULL;
  const __m512 left = bias ? _mm512_maskz_loadu_ps(low, bias) : _mm512_setzero_ps();
  const __m512 right = bias ? _mm512_maskz_loadu_ps(high, bias + LANES) : _mm512_setzero_ps();
  char* to = j->output + first * pitch + filter * ITEM;

  for (int64_t i = 0; i < rows; i++, to += pitch, sums += SIDE) {
    const __m512 x = _mm512_add_ps(_mm512_load_ps(sums), left), y = _mm512_add_ps(_mm512_load_ps(sums + LANES), right);
    _mm512_mask_storeu_epi16(to, mask, (__m512i)_mm512_cvtne2ps_pbh(y, x));
  }
}

/* Multiply the strips of `rows` outputs from the first on by panels [begin, end). */
static void multiply_strips(const amx_job* j, const shmt__amx_strip* strips, int64_t first, int64_t rows, int64_t begin,
                            int64_t end, float* sums) {
  const int64_t n_strips = shmt__ceil_div(rows, SIDE);

  for (int64_t d = 0; d < j->steps; d += j->depth) {
    const int64_t n = shmt__min_i64(j->depth, j->steps - d);
    for (int64_t p = begin; p < end; p++) {
      const char* panel = j->panels + (p * j->steps + d) * STEP;
      float* const to = sums + (j->depth < j->steps ? (p - begin) * n_strips * SUMS : 0);
      for (int64_t i = 0; i < n_strips; i++) {
        const shmt__amx_strip part = {strips[i].data + d * ROW, strips[i].row, ROW, strips[i].rows};
        shmt__amx_multiply(&part, (const uint32_t*)(const void*)panel, n, to + i * SUMS, d > 0);
      }
      const int64_t at = j->first + p * SIDE;
      for (int64_t i = 0; i < n_strips && d + n == j->steps; i++)
        store_outputs(j, to + i * SUMS, first + i * SIDE, strips[i].rows, j->group * j->filters + at,
                      shmt__min_i64(SIDE, j->filters - at));
    }
  }
}

/* Units [begin, end): some strips and, of each, pieces of the panels. */
static void run_strips(void* ctx, int64_t begin, int64_t end) {
  amx_job* j = ctx;
  const int64_t kept = j->depth < j->steps ? shmt__ceil_div(j->n_panels, j->n_pieces) : 1;
  const int64_t sums = kept * j->together * SUMS * (int64_t)sizeof(float), strip_bytes = j->steps * STEP;
  const uint64_t nbytes = (uint64_t)(sums + j->together * strip_bytes);
  void* room = NULL;
  shmt__amx_strip strips[STRIPS_AT_ONCE];

  if (shmt__alloc(nbytes, &room) != SHMT_OK) {
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return;
  }
  char* const copied = (char*)room + sums;
  const char* const images = j->images + j->group * j->im2col.pixel;
  memset(copied, 0, (size_t)(j->together * strip_bytes));
  shmt__amx_begin();
  for (int64_t u = begin; u < end; u++) {
    const int64_t first = u / j->n_pieces * j->together * SIDE, piece = u % j->n_pieces;
    const int64_t rows = shmt__min_i64(j->together * SIDE, j->n_outputs - first);
    for (int64_t i = 0; i * SIDE < rows && (u == begin || piece == 0); i++)
      strips[i] = shmt__amx_im2col_strip(&j->im2col, images, first + i * SIDE, shmt__min_i64(SIDE, rows - i * SIDE),
                                         copied + i * strip_bytes);
    multiply_strips(j, strips, first, rows, j->n_panels * piece / j->n_pieces, j->n_panels * (piece + 1) / j->n_pieces,
                    room);
  }
  shmt__amx_end();
  shmt__dealloc(room, nbytes);
}

/* --- all ---------------------------------------------------------------------------- */

shmt_status shmt__conv_nhwc_amx(const shmt__conv* c, const void* images, const shmt__image_view* weight, void* output) {
  const shmt__conv_shape* s = &c->shape;
  const int64_t threads = shmt__num_threads();
  amx_job j = {.c = c, .images = images, .weight = weight, .output = output};
  void* panels = NULL;

  j.channels = c->channels / c->groups;
  j.filters = c->filters / c->groups;
  j.k = j.channels * s->kernel[0] * s->kernel[1] * s->kernel[2];
  j.steps = shmt__ceil_div(j.k, SIDE);
  j.depth = shmt__ceil_div(j.steps, shmt__ceil_div(j.steps, DEPTH));
  shmt__amx_im2col_init(&j.im2col, c);
  j.n_outputs = c->n_images * s->out[0] * s->out[1] * s->out[2];
  j.together = j.depth < j.steps ? STRIPS_AT_ONCE / 2 : STRIPS_AT_ONCE;
  const int64_t all = shmt__ceil_div(j.filters, SIDE), fit = shmt__max_i64(PANEL_BYTES / (j.steps * STEP), 1);
  const int64_t some = shmt__ceil_div(all, shmt__ceil_div(all, fit)),
                units = shmt__ceil_div(j.n_outputs, j.together * SIDE);
  const int64_t work = j.together * SIDE * SIDE * j.k;
  const uint64_t nbytes = (uint64_t)(some * j.steps * STEP);
  SHMT_TRY(shmt__alloc(nbytes, &panels));
  j.panels = panels;
  for (j.group = 0; j.group < c->groups; j.group++) {
    for (j.first = 0; j.first < j.filters; j.first += some * SIDE) {
      j.n_panels = shmt__min_i64(some, all - j.first / SIDE);
      j.n_pieces = units < 4 * threads ? shmt__min_i64(j.n_panels, threads) : 1;
      shmt__parallel_for(j.n_panels, WORTH_SHARING / 8 / (SIDE * j.k) + 1, pack_panels, &j);
      const int64_t grain = WORTH_SHARING * 8 / (work * shmt__ceil_div(j.n_panels, j.n_pieces)) + 1;
      shmt__parallel_for(units * j.n_pieces, grain, run_strips, &j);
    }
  }
  shmt__dealloc(panels, nbytes);
  SHMT_REQUIRE(!atomic_load_explicit(&j.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for patches of %lld elements", (long long)j.k);
  return SHMT_OK;
}

#else

bool shmt__conv_has_nhwc_amx(const shmt__conv* c) {
  (void)c;
  return false;
}

shmt_status shmt__conv_nhwc_amx(const shmt__conv* c, const void* images, const shmt__image_view* weight, void* output) {
  (void)c, (void)images, (void)weight, (void)output;
  return SHMT_OK;
}

#endif
