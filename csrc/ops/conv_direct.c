/* ops/conv_direct.c -- convolution without columns: layouts, work for the threads. */
#include "ops/conv_direct.h"

#include "generated/loops.h"
#include "iter/threads.h"
#include "kernels/direct.h"
#include "ops/conv_panel.h"
#include "storage/allocator.h"

#include <stdatomic.h>

/* A product with so many rows and columns is the library's when the kernel has one element. */
enum { FEW_CHANNELS = 32, WORTH_SHARING = 1 << 18, LANES = 16, PLANES = 8 };
/* Channels whose weights are turned around together: of a filter they are neighbours. Weights that are worth a thread. */
enum { FLIPPED = 16, MANY_WEIGHTS = 1 << 15 };

typedef struct job {
  const shmt__conv* c;
  shmt__direct_shape shape;
  const char* images;
  const char* weight;
  char* output;
  char* padded; /* of the image at hand, when its filters are shared out */
  int64_t item, channels, in_plane, out_plane, at;
  atomic_bool failed; /* out of memory */
} job;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

/* Outputs along padded rows, those between two rows' ends included. */
static int64_t run_length(const shmt__direct_shape* s) {
  return (s->conv->out[1] - 1) * s->row + s->conv->out[2];
}

static void shape_init(const shmt__conv* c, shmt__direct_shape* s) {
  const shmt__conv_shape* v = &c->shape;
  int64_t size[3];

  for (int d = 0; d < 3; d++) size[d] = ceil_div(v->in[d] + 2 * v->padding[d], v->stride[d]);
  *s = (shmt__direct_shape){.conv = v, .filters = c->filters / c->groups};
  s->k = c->channels / c->groups * v->kernel[0] * v->kernel[1] * v->kernel[2];
  s->row = size[2];
  s->rows = size[1];
  s->volume = size[0] * size[1] * size[2];
  s->channel = v->stride[0] * v->stride[1] * v->stride[2] * s->volume;
}

bool shmt__conv_is_direct(const shmt__conv* c) {
  const shmt__conv_shape* v = &c->shape;
  const int64_t kernel = v->kernel[0] * v->kernel[1] * v->kernel[2];
  shmt__direct_shape s;

  if (shmt__loops[SHMT_LOOP_direct][c->dtype] == NULL || c->filters == 0 || c->channels == 0) return false;
  if (kernel == 1 && c->channels / c->groups > FEW_CHANNELS) return false;
  if (v->out[0] <= 0 || v->out[1] <= 0 || v->out[2] <= 0) return false;
  shape_init(c, &s);
  const double wanted = (double)(v->out[1] * v->out[2] * s.filters);
  const double made = (double)round_up(run_length(&s), LANES) *
                      (double)round_up(s.filters, SHMT_DIRECT_FILTERS / 2);
  return wanted >= 0.6 * made;
}

static bool is_panel(const shmt__conv* c, const shmt__direct_shape* s) {
  return shmt__conv_is_panel(c, s, c->shape.out[0] * round_up(run_length(s), LANES));
}

bool shmt__conv_direct_has_blocks(const shmt__conv* c) {
  shmt__direct_shape s;

  shape_init(c, &s);
  return shmt__conv_is_direct(c) && !is_panel(c, &s);
}

static void fill_offsets(const shmt__direct_shape* s, int64_t channels, int64_t* offset) {
  const shmt__conv_shape* v = s->conv;

  for (int64_t p = 0; p < s->k; p++) {
    const int64_t w = p % v->kernel[2] * v->dilation[2], h = p / v->kernel[2] % v->kernel[1] * v->dilation[1];
    const int64_t d = p / (v->kernel[2] * v->kernel[1]) % v->kernel[0] * v->dilation[0];
    const int64_t channel = p / (s->k / channels);
    const int64_t part = (d % v->stride[0] * v->stride[1] + h % v->stride[1]) * v->stride[2] + w % v->stride[2];
    offset[p] = channel * s->channel + part * s->volume +
                (d / v->stride[0] * s->rows + h / v->stride[1]) * s->row + w / v->stride[2];
  }
}

static int64_t padded_elements(const job* j) { return j->channels * j->shape.channel + SHMT_DIRECT_SLACK; }

/* And some planes that are to be padded. */
static uint64_t padded_bytes(const job* j) {
  return (uint64_t)((padded_elements(j) + (j->c->by_blocks ? PLANES * j->in_plane : 0)) * j->item);
}

/* Lay out image j->at / groups, group j->at % groups. */
static void pad(const job* j, int64_t at, char* padded) {
  char* const planes = padded + padded_elements(j) * j->item;

  for (int64_t i = 0; j->c->by_blocks && i < j->channels; i += PLANES) {
    const int64_t n = j->channels - i < PLANES ? j->channels - i : PLANES;
    char* data[2] = {padded + i * j->shape.channel * j->item, planes};
    shmt__conv_get_planes(j->c, j->images, at / j->c->groups, at % j->c->groups * j->channels + i, n, planes);
    shmt__loops[SHMT_LOOP_direct_image][j->c->dtype](data, NULL, n, &j->shape);
  }
  if (j->c->by_blocks) return;
  char* data[2] = {padded, (char*)(uintptr_t)j->images + at * j->channels * j->in_plane * j->item};
  shmt__loops[SHMT_LOOP_direct_image][j->c->dtype](data, NULL, j->channels, &j->shape);
}

/* Filters [begin, end) of that group. */
static bool filter(const job* j, int64_t at, char* padded, int64_t begin, int64_t end) {
  const int64_t filters = j->shape.filters, group = at % j->c->groups;
  const int64_t pitch = round_up(run_length(&j->shape), SHMT_DIRECT_BLOCK);
  const int64_t own = pitch * SHMT_DIRECT_FILTERS + SHMT_DIRECT_SLACK;
  const int64_t more = j->c->by_blocks ? SHMT_DIRECT_FILTERS * (j->out_plane + j->shape.k) : 0;
  const uint64_t nbytes = (uint64_t)((own + more) * j->item);
  void* scratch = NULL;

  if (shmt__alloc(nbytes, &scratch) != SHMT_OK) return false;
  char* const block = (char*)scratch + own * j->item;
  for (int64_t f = begin; j->c->by_blocks && f < end; f += SHMT_DIRECT_FILTERS) {
    const int64_t n = end - f < SHMT_DIRECT_FILTERS ? end - f : SHMT_DIRECT_FILTERS;
    char* const weight = block + SHMT_DIRECT_FILTERS * j->out_plane * j->item;
    char* some[4] = {block, padded, weight, scratch};
    shmt__conv_get_weight(j->c, j->weight, (group * filters + f) * j->shape.k, n * j->shape.k, weight);
    shmt__loops[SHMT_LOOP_direct][j->c->dtype](some, NULL, n, &j->shape);
    shmt__conv_put_planes(j->c, block, at * filters + f, n, j->output);
  }
  char* data[4] = {j->output + (at * filters + begin) * j->out_plane * j->item, padded,
                   (char*)(uintptr_t)j->weight + (group * filters + begin) * j->shape.k * j->item, scratch};
  if (!j->c->by_blocks) shmt__loops[SHMT_LOOP_direct][j->c->dtype](data, NULL, end - begin, &j->shape);
  shmt__dealloc(scratch, nbytes);
  return true;
}

static void run_images(void* ctx, int64_t begin, int64_t end) {
  job* j = ctx;
  void* padded = NULL;
  bool done = shmt__alloc(padded_bytes(j), &padded) == SHMT_OK;

  for (int64_t at = begin; done && at < end; at++) {
    pad(j, at, padded);
    done = filter(j, at, padded, 0, j->shape.filters);
  }
  if (padded) shmt__dealloc(padded, padded_bytes(j));
  /* relaxed: read after the pool's own join. */
  if (!done) atomic_store_explicit(&j->failed, true, memory_order_relaxed);
}

/* Blocks of filters. */
static void run_filters(void* ctx, int64_t begin, int64_t end) {
  job* j = ctx;
  const int64_t last = end * SHMT_DIRECT_FILTERS;

  if (!filter(j, j->at, j->padded, begin * SHMT_DIRECT_FILTERS, last < j->shape.filters ? last : j->shape.filters))
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
}

static shmt_status run_each_image(job* j, int64_t n) {
  const int64_t blocks = ceil_div(j->shape.filters, SHMT_DIRECT_FILTERS);
  void* padded = NULL;

  SHMT_TRY(shmt__alloc(padded_bytes(j), &padded));
  j->padded = padded;
  for (j->at = 0; j->at < n; j->at++) {
    pad(j, j->at, padded);
    shmt__parallel_for(blocks, ceil_div(blocks, shmt__num_threads()), run_filters, j);
  }
  shmt__dealloc(padded, padded_bytes(j));
  return SHMT_OK;
}

shmt_status shmt__conv_direct(const shmt__conv* c, const void* images, const void* weight, void* output) {
  const shmt__conv_shape* v = &c->shape;
  job j = {.c = c, .images = images, .weight = weight, .output = output, .item = shmt__dtype_size[c->dtype]};
  const int64_t n = c->n_images * c->groups;
  void* offsets = NULL;

  if (n == 0) return SHMT_OK;
  shape_init(c, &j.shape);
  j.channels = c->channels / c->groups;
  j.in_plane = v->in[0] * v->in[1] * v->in[2];
  j.out_plane = v->out[0] * v->out[1] * v->out[2];
  const uint64_t nbytes = (uint64_t)j.shape.k * sizeof(int64_t);
  SHMT_TRY(shmt__alloc(nbytes, &offsets));
  fill_offsets(&j.shape, j.channels, offsets);
  j.shape.offset = offsets;
  const int64_t work = j.out_plane * j.shape.k * j.shape.filters;
  shmt_status status = SHMT_OK;
  if (is_panel(c, &j.shape))
    status = shmt__conv_panel(c, &j.shape, images, weight, output);
  else if (n < shmt__num_threads() && work > WORTH_SHARING)
    status = run_each_image(&j, n);
  else
    shmt__parallel_for(n, WORTH_SHARING / (work + 1) + 1, run_images, &j);
  shmt__dealloc(offsets, nbytes);
  SHMT_TRY(status);
  SHMT_REQUIRE(!atomic_load_explicit(&j.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for a padded image of %llu bytes", (unsigned long long)padded_bytes(&j));
  return SHMT_OK;
}

/* --- the way back ------------------------------------------------------------------------------------------------ */

/* The convolution from outputs to images; false when there is none of stride 1 and padding >= 0. */
static bool turned(const shmt__conv* c, shmt__conv* back) {
  *back = *c;
  back->channels = c->filters;
  back->filters = c->channels;
  for (int d = 0; d < 3; d++) {
    const int64_t reach = c->shape.dilation[d] * (c->shape.kernel[d] - 1);
    back->shape.in[d] = c->shape.out[d];
    back->shape.out[d] = c->shape.in[d];
    back->shape.padding[d] = reach - c->shape.padding[d];
    if (c->shape.stride[d] != 1 || back->shape.padding[d] < 0) return false;
    if (back->shape.in[d] + 2 * back->shape.padding[d] - reach != back->shape.out[d]) return false;
  }
  return true;
}

bool shmt__conv_is_direct_back(const shmt__conv* c) {
  shmt__conv back;

  return c->shape.out[0] > 0 && c->shape.out[1] > 0 && c->shape.out[2] > 0 && turned(c, &back) &&
         (shmt__conv_is_direct(&back) || shmt__conv_is_depthwise(&back));
}

typedef struct flip {
  const shmt__direct_shape* there;
  const char* from;
  char* to;
  shmt_dtype dtype;
  int64_t channels; /* of a group */
} flip;

/* Channels, counted through the groups. */
static void run_flip(void* ctx, int64_t begin, int64_t end) {
  const flip* f = ctx;
  const int64_t item = shmt__dtype_size[f->dtype], size = f->there->k / f->channels, filters = f->there->filters;

  for (int64_t at = begin, n; at < end; at += n) {
    const int64_t group = at / f->channels, channel = at % f->channels;
    n = f->channels - channel < FLIPPED ? f->channels - channel : FLIPPED;
    n = end - at < n ? end - at : n;
    char* data[2] = {f->to + at * filters * size * item,
                     (char*)(uintptr_t)f->from + (group * filters * f->channels + channel) * size * item};
    shmt__loops[SHMT_LOOP_direct_flip][f->dtype](data, NULL, n, f->there);
  }
}

shmt_status shmt__conv_direct_back(const shmt__conv* c, const void* output, const void* weight, void* images) {
  shmt__conv back;
  shmt__direct_shape there;
  void* flipped = NULL;

  (void)turned(c, &back);
  shape_init(c, &there);
  const uint64_t nbytes = (uint64_t)(c->filters * there.k * shmt__dtype_size[c->dtype]);
  SHMT_TRY(shmt__alloc(nbytes, &flipped));
  flip f = {.there = &there, .from = weight, .to = flipped, .dtype = c->dtype, .channels = c->channels / c->groups};
  const int64_t each = there.filters * there.k / f.channels;
  shmt__parallel_for(c->channels, MANY_WEIGHTS / (each + 1) + 1, run_flip, &f);
  const shmt_status status = shmt__conv_forward(&back, output, flipped, images);
  shmt__dealloc(flipped, nbytes);
  return status;
}
