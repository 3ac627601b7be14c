/* ops/pooling/plane_loops.c -- runs pooling loops over planes (NCHW), or over rows of NHWC images. */
#include "ops/pooling/plane_loops.h"

#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "iter/copy/pack.h"
#include "kernels/pooling/pool.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <stdatomic.h>

enum {
  GRAIN_OPS = 16384, /* elements of windows that are worth a thread */
  N_OPERANDS = SHMT_POOL_OPERANDS,
};

/* --- NCHW: planes ------------------------------------------------------------------------ */

typedef struct nchw_job {
  char* data[N_OPERANDS];
  int64_t step[N_OPERANDS]; /* bytes from plane to plane */
  shmt__loop loop;
  const shmt__pool_args* shape;
} nchw_job;

static void run_nchw_planes(void* ctx, int64_t begin, int64_t end) {
  const nchw_job* p = ctx;
  char* data[N_OPERANDS];

  for (int k = 0; k < N_OPERANDS; k++) data[k] = p->data[k] ? p->data[k] + begin * p->step[k] : NULL;
  p->loop(data, NULL, end - begin, p->shape);
}

/* An input with other strides is copied, a few planes at a time. */
enum { GATHERED_BYTES = 64 << 10 };
typedef struct strided_job {
  const nchw_job* p;
  int image; /* the operand */
  shmt__part part; /* all of it */
  shmt__part_chunks cut;
  int64_t plane; /* elements */
  uint64_t room;
  atomic_bool failed; /* out of memory */
} strided_job;

static void run_strided_pieces(void* ctx, int64_t begin, int64_t end) {
  strided_job* g = ctx;
  void* room = NULL;

  if (shmt__alloc(g->room, &room) != SHMT_OK) {
    atomic_store_explicit(&g->failed, true, memory_order_relaxed); /* read after the pieces are done */
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    shmt__part part;
    char* data[N_OPERANDS];
    const int64_t first = shmt__part_chunk(&g->cut, &g->part, i, &part) / g->plane;
    for (int k = 0; k < N_OPERANDS; k++) data[k] = g->p->data[k] ? g->p->data[k] + first * g->p->step[k] : NULL;
    data[g->image] = shmt__packed(&part, room);
    g->p->loop(data, NULL, shmt__part_numel(&part) / g->plane, g->p->shape);
  }
  shmt__dealloc(room, g->room);
}

static shmt_status run_strided(const nchw_job* p, int image, const shmt_tensor* t, int64_t grain) {
  strided_job g = {.p = p, .image = image, .plane = SHMT_POOL_PLANE(p->shape->in)};
  const int64_t bytes = g.plane * shmt__tensor_item_bytes(t), most = bytes > GATHERED_BYTES ? bytes : GATHERED_BYTES;

  shmt__part_init(&g.part, t, SHMT_CONTIGUOUS_FORMAT);
  shmt__part_chunks_init(&g.cut, &g.part, most);
  g.room = (uint64_t)most;
  shmt__parallel_for(g.cut.n, grain / (most / bytes) + 1, run_strided_pieces, &g);
  SHMT_REQUIRE(!atomic_load_explicit(&g.failed, memory_order_relaxed), SHMT_E_NOMEM, "pooling: a plane of %" PRId64
               " elements", g.plane);
  return SHMT_OK;
}

static shmt_status run_nchw(int row, const shmt__pool_args* s, shmt_tensor* const tensors[N_OPERANDS],
                            const bool is_image[N_OPERANDS]) {
  const int64_t ins = s->in[0] * s->in[1] * s->in[2], outs = s->out[0] * s->out[1] * s->out[2];
  const int64_t n = tensors[0]->numel / (is_image[0] ? ins : outs);
  nchw_job p = {.shape = s};
  int strided = 0; /* the operand that is an image and not dense, if any */

  for (int k = 0; k < N_OPERANDS; k++) {
    if (!tensors[k]) continue;
    p.data[k] = shmt__tensor_data(tensors[k]);
    p.step[k] = tensors[k]->numel / n * shmt__tensor_item_bytes(tensors[k]);
    if (is_image[k] && !shmt__tensor_is_contiguous(tensors[k])) strided = k;
  }
  p.loop = shmt__loops[row][tensors[0]->dtype];
  /* As double: a window may have more elements than int64 counts. */
  double work = (double)outs * (double)s->kernel[0] * (double)s->kernel[1] * (double)s->kernel[2];
  if (work < (double)ins) work = (double)ins; /* adaptive pooling has no kernel size */
  const int64_t grain = work < GRAIN_OPS ? GRAIN_OPS / ((int64_t)work + 1) + 1 : 1;
  if (strided) return run_strided(&p, strided, tensors[strided], grain);
  shmt__parallel_for(n, grain, run_nchw_planes, &p);
  return SHMT_OK;
}

/* --- NHWC: rows of outputs ----------------------------------------------------------------- */

enum { MANY_CHANNELS = 8 };

typedef struct nhwc_job {
  char* data[N_OPERANDS];                     /* outputs, indices (or NULL) and the image, in the order of the loop */
  int64_t row[N_OPERANDS], image[N_OPERANDS]; /* bytes between rows of outputs, and between images */
  shmt__loop loop;
  const shmt__pool_args* shape;
  int64_t channels;
  bool is_adaptive;
} nhwc_job;

static void run_nhwc_rows(void* ctx, int64_t begin, int64_t end) {
  const nhwc_job* p = ctx;
  const int64_t* out = p->shape->out;

  for (int64_t i = begin; i < end; i++) {
    const int64_t at = i % (out[0] * out[1]), image = i / (out[0] * out[1]);
    const shmt__pool_row_args row = {p->shape, p->is_adaptive, p->channels, at / out[1], at % out[1]};
    char* data[N_OPERANDS];
    for (int k = 0; k < N_OPERANDS; k++)
      data[k] = p->data[k] ? p->data[k] + image * p->image[k] + at * p->row[k] : NULL;
    p->loop(data, NULL, out[2], &row);
  }
}

/* Windows of neighbouring rows overlap, so a loop that adds to an image gets all rows of it. */
static void run_nhwc_images(void* ctx, int64_t begin, int64_t end) {
  const int64_t* out = ((const nhwc_job*)ctx)->shape->out;

  run_nhwc_rows(ctx, begin * out[0] * out[1], end * out[0] * out[1]);
}

static bool is_adaptive(int row) {
  return row == SHMT_LOOP_adaptive_max_pool || row == SHMT_LOOP_adaptive_avg_pool ||
         row == SHMT_LOOP_adaptive_avg_pool_backward;
}

/* The NHWC variant of a loop. */
static int channels_last_loop(int row) {
  switch (row) {
    case SHMT_LOOP_max_pool:
    case SHMT_LOOP_adaptive_max_pool: return SHMT_LOOP_max_pool_channels_last;
    case SHMT_LOOP_max_pool_backward: return SHMT_LOOP_max_pool_backward_channels_last;
    case SHMT_LOOP_avg_pool:
    case SHMT_LOOP_adaptive_avg_pool: return SHMT_LOOP_avg_pool_channels_last;
    default: return SHMT_LOOP_avg_pool_backward_channels_last;
  }
}

shmt_memory_format shmt__pool_format(const shmt_tensor* self, shmt_dtype dtype, int row, const shmt__pool_args* s,
                                     int n) {
  const bool is_channels_last = self->n_dims == n + 2 && self->sizes[1] >= MANY_CHANNELS &&
                          shmt__loops[channels_last_loop(row)][dtype] != NULL &&
                          s->in[0] * s->in[1] * s->in[2] <= INT32_MAX;

  return is_channels_last ? shmt__tensor_suggest_format(self) : SHMT_CONTIGUOUS_FORMAT;
}

static shmt_status run_nhwc(int row, const shmt__pool_args* s, shmt_tensor* const tensors[N_OPERANDS],
                            const bool is_image[N_OPERANDS]) {
  nhwc_job p = {.shape = s, .is_adaptive = is_adaptive(row), .channels = tensors[0]->sizes[1]};
  const int64_t ins = s->in[0] * s->in[1] * s->in[2], outs = s->out[0] * s->out[1] * s->out[2];

  for (int k = 0; k < N_OPERANDS; k++) {
    if (!tensors[k]) continue;
    const int64_t bytes = p.channels * shmt__tensor_item_bytes(tensors[k]);
    p.data[k] = shmt__tensor_data(tensors[k]);
    p.image[k] = (is_image[k] ? ins : outs) * bytes;
    p.row[k] = is_image[k] ? 0 : s->out[2] * bytes;
  }
  p.loop = shmt__loops[channels_last_loop(row)][tensors[0]->dtype];
  const bool adds = is_image[0];
  const int64_t rows_of = s->out[0] * s->out[1];
  const double work = (double)s->out[2] * (double)s->kernel[0] * (double)s->kernel[1] * (double)s->kernel[2] *
                      (double)p.channels * (adds ? (double)rows_of : 1.0);
  shmt__parallel_for(tensors[0]->sizes[0] * (adds ? 1 : rows_of),
                     work < GRAIN_OPS ? GRAIN_OPS / ((int64_t)work + 1) + 1 : 1, adds ? run_nhwc_images : run_nhwc_rows,
                     &p);
  return SHMT_OK;
}

shmt_status shmt__pool_run_loop(shmt_memory_format format, int row, const shmt__pool_args* s,
                                shmt_tensor* const tensors[N_OPERANDS], const bool is_image[N_OPERANDS]) {
  return (format == SHMT_CONTIGUOUS_FORMAT ? run_nchw : run_nhwc)(row, s, tensors, is_image);
}

shmt_status shmt__pool_prepare_input(shmt_tensor* self, shmt_memory_format format, shmt_tensor** out) {
  if (format != SHMT_CONTIGUOUS_FORMAT) return shmt__tensor_contiguous(self, format, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}
