/* ops/conv/nchw/im2col_panels.c -- direct convolution on im2col panels.
 *
 * Note [im2col panels]
 * The outputs along padded rows (Note [Direct convolution] in kernels/conv/direct.tmpl.h) include those between the
 * ends of two rows: in small planes, a quarter of the work is wasted. There im2col copies the elements under each
 * filter element side by side for a block of outputs, which may belong to several images. This panel of (elements of a
 * filter, outputs) fits the second-level cache, where all filters read it. The kernel is the same; the panel is its
 * image. Weights of another dtype are widened for some filters at a time. Unless these are all filters, they are
 * widened again for each panel, and panels are wider.
 */
#include "ops/conv/nchw/im2col_panels.h"

#include "generated/loops.h"
#include "iter/threads.h"
#include "ops/conv/nchw/padded_image.h"
#include "storage/allocator.h"

#include <stdatomic.h>
#include <string.h>

enum {
  OUTPUT_LANES = 16,          /* panels begin at a multiple of so many outputs */
  FEW_OUTPUTS = 32,           /* outputs of a panel where filters are long */
  MOST_BYTES = 640 << 10,     /* of a panel */
  MOST_BYTES_FEW = 832 << 10, /* the same, of few outputs */
  MANY_FILTERS = 64,          /* for so many a panel is worth its copies */
  CHUNK = 32,                 /* bytes that are copied at once */
  WIDE_BYTES = 192 << 10,     /* of weights that are widened together */
};

typedef struct panels_job {
  const shmt__conv* c;
  const shmt__conv_direct_args* s;
  const char* images;
  const char* weight;
  char* output;
  int64_t item, channels, out_plane;
  int64_t block;              /* outputs of a panel */
  int64_t n_outputs, vectors; /* of one filter in all images; the same in OUTPUT_LANES */
  int64_t filters;            /* whose weights are taken together: all of a group where they are not widened */
  atomic_bool failed;         /* out of memory */
} panels_job;

/* What a thread works in. */
typedef struct room {
  char *padded, *view, *panel, *made, *scratch, *weights;
  int64_t* offset;        /* of the panel's rows */
  int64_t image;          /* that is padded; -1: none yet */
  int64_t first;          /* of the filters whose weights are widened; -1: none yet */
} room;

/* Outputs of a panel, or 0 where it would be too large. */
static int64_t find_block(const shmt__conv* c, const shmt__conv_direct_args* s) {
  const int64_t column = s->k * shmt__dtype_size[c->dtype];

  if (column * SHMT_DIRECT_BLOCK <= MOST_BYTES) return SHMT_DIRECT_BLOCK;
  return column * FEW_OUTPUTS <= MOST_BYTES_FEW ? FEW_OUTPUTS : 0;
}

bool shmt__conv_prefers_im2col_panels(const shmt__conv* c, const shmt__conv_direct_args* s, int64_t made) {
  const int64_t wanted = c->shape.out[0] * c->shape.out[1] * c->shape.out[2];

  if (s->k == c->channels / c->groups) return false; /* 1 x 1 kernel: the copies cost more than they save */
  return s->filters >= MANY_FILTERS && find_block(c, s) > 0 && c->n_images * wanted >= 4 * SHMT_DIRECT_BLOCK &&
         (double)wanted < 0.84 * (double)made;
}

/* im2col of outputs [begin, end) of the padded image, to the panel's columns from `column` on. */
static void fill_columns(const panels_job* j, const room* r, int64_t begin, int64_t end, int64_t column) {
  const int64_t* out = j->c->shape.out;
  const int64_t row_bytes = j->block * j->item;

  for (int64_t q = begin, run; q < end; q += run) {
    const int64_t w = q % out[2], h = q / out[2] % out[1], d = q / (out[2] * out[1]);
    run = out[2] - w < end - q ? out[2] - w : end - q;
    const int64_t at = (column + q - begin) * j->item, nbytes = run * j->item;
    const char* const from = r->padded + ((d * j->s->rows + h) * j->s->row + w) * j->item;
    char* to = r->panel + at;
    const int64_t chunks = (nbytes + CHUNK - 1) / CHUNK;
    /* Copies whole chunks, also beyond the run: later runs overwrite what is wrong there, or no output uses it. */
    if (at + chunks * CHUNK <= row_bytes) {
      for (int64_t p = 0; p < j->s->k; p++, to += row_bytes)
        for (int64_t i = 0; i < chunks; i++)
          memcpy(to + i * CHUNK, from + j->s->offset[p] * j->item + i * CHUNK, CHUNK);
    } else {
      for (int64_t p = 0; p < j->s->k; p++, to += row_bytes)
        memcpy(to, from + j->s->offset[p] * j->item, (size_t)nbytes);
    }
  }
}

/* The panel of outputs [begin, end) of a group, counted through the images. */
static void fill_panel(const panels_job* j, room* r, int64_t group, int64_t begin, int64_t end) {
  for (int64_t q = begin, next; q < end; q = next) {
    const int64_t image = q / j->out_plane * j->c->groups + group, first = q / j->out_plane * j->out_plane;
    next = first + j->out_plane < end ? first + j->out_plane : end;
    if (r->image != image) {
      shmt__conv_tile whole = shmt__conv_tile_at(j->c, j->c->shape.out, 0);
      shmt__conv_pad_image(j->c, j->s, &whole, j->images, image, r->padded, r->view);
      r->image = image;
    }
    fill_columns(j, r, q - first, next - first, q - begin);
  }
}

/* Store `width` outputs of n filters in their images. */
static void put_outputs(const panels_job* j, const room* r, int64_t filter, int64_t n, int64_t begin, int64_t width) {
  for (int64_t q = begin, next; q < begin + width; q = next) {
    const int64_t image = q / j->out_plane, first = image * j->out_plane;
    next = first + j->out_plane < begin + width ? first + j->out_plane : begin + width;
    shmt__conv_store_outputs(j->c, r->made + (q - begin) * j->item, width, image, filter, n, q - first, next - q,
                             j->output);
  }
}

/* Outputs [begin, end) of a group. */
static void run_panel(const panels_job* j, room* r, int64_t group, int64_t begin, int64_t end) {
  const shmt__conv_shape shape = {.out = {1, 1, end - begin}};
  shmt__conv_direct_args s = *j->s;

  fill_panel(j, r, group, begin, end);
  s.conv = &shape;
  s.offset = r->offset;
  s.row = s.pitch = end - begin;
  s.rows = 1;
  for (int64_t f = 0; f < s.filters; f += j->filters) {
    const int64_t first = group * s.filters + f, n = s.filters - f < j->filters ? s.filters - f : j->filters;
    const char* weight =
        r->first == first ? r->weights : shmt__conv_cast_weight(j->c, j->weight, first * s.k, n * s.k, r->weights);
    char* data[4] = {r->made, r->panel, (char*)(uintptr_t)weight, r->scratch};
    shmt__loops[SHMT_LOOP_conv_direct][j->c->dtype](data, NULL, n, &s);
    put_outputs(j, r, first, n, begin, end - begin);
    if (r->weights) r->first = first;
  }
}

static uint64_t round_to_cache_line(int64_t elements, int64_t item) {
  return ((uint64_t)(elements * item) + 63) / 64 * 64;
}

/* Vectors of outputs [begin, end), counted through the groups. */
static void run_vectors(void* ctx, int64_t begin, int64_t end) {
  panels_job* j = ctx;
  const shmt__conv_direct_args* s = j->s;
  const uint64_t padded = round_to_cache_line(j->channels * s->channel + SHMT_DIRECT_SLACK, j->item);
  const uint64_t panel = round_to_cache_line(s->k * j->block + SHMT_DIRECT_SLACK, j->item);
  const uint64_t made = round_to_cache_line(j->filters * j->block + SHMT_DIRECT_SLACK, j->item);
  const int64_t pitch = (j->block + SHMT_DIRECT_BLOCK - 1) / SHMT_DIRECT_BLOCK * SHMT_DIRECT_BLOCK;
  const uint64_t scratch = round_to_cache_line(SHMT_DIRECT_FILTERS * pitch + SHMT_DIRECT_SLACK, j->item);
  const uint64_t view =
      round_to_cache_line(shmt__conv_tile_input_bytes(j->c, j->c->shape.out, shmt__conv_gathered_channels(j->c)), 1);
  const uint64_t weights = j->c->io_dtype == j->c->dtype ? 0 : round_to_cache_line(j->filters * s->k, j->item);
  const uint64_t nbytes = padded + panel + made + scratch + view + weights + (uint64_t)s->k * sizeof(int64_t);
  void* memory = NULL;

  if (shmt__alloc(nbytes, &memory) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return;
  }
  room r = {.padded = memory, .image = -1, .first = -1};
  r.panel = r.padded + padded;
  r.made = r.panel + panel;
  r.scratch = r.made + made;
  r.view = r.scratch + scratch;
  r.weights = weights ? r.view + view : NULL;
  r.offset = (int64_t*)(void*)(r.view + view + weights);
  for (int64_t p = 0; p < s->k; p++) r.offset[p] = p * j->block;
  memset(r.panel, 0, panel);
  for (int64_t v = begin, next; v < end; v = next) {
    const int64_t group = v / j->vectors, at = v % j->vectors;
    int64_t n = j->block / OUTPUT_LANES;
    if (n > j->vectors - at) n = j->vectors - at;
    if (n > end - v) n = end - v;
    next = v + n;
    const int64_t last = (at + n) * OUTPUT_LANES;
    run_panel(j, &r, group, at * OUTPUT_LANES, last < j->n_outputs ? last : j->n_outputs);
  }
  shmt__dealloc(memory, nbytes);
}

/* Set the panel and the filters at a time where weights are widened; vectors: of outputs, that one thread makes. */
static void set_filters_at_once(panels_job* j, int64_t vectors) {
  const int64_t fit = WIDE_BYTES / (j->s->k * j->item) / SHMT_DIRECT_FILTERS * SHMT_DIRECT_FILTERS;
  const int64_t most = (j->block == FEW_OUTPUTS ? 1 : 2) * SHMT_DIRECT_BLOCK / OUTPUT_LANES;
  const int64_t panels = (vectors - 1) / most + 1;

  if (fit < j->filters) j->filters = fit > 0 ? fit : SHMT_DIRECT_FILTERS;
  if (j->filters == j->s->filters) return;
  /* Panels are about as wide as each other; a single vector behind others is slow. */
  j->block = ((vectors - 1) / panels + 1) * OUTPUT_LANES;
  if (j->block % SHMT_DIRECT_BLOCK == OUTPUT_LANES) j->block += OUTPUT_LANES;
}

shmt_status shmt__conv_im2col_panels(const shmt__conv* c, const shmt__conv_direct_args* s, const void* images,
                                     const void* weight, void* output) {
  const shmt__conv_shape* v = &c->shape;
  panels_job j = {.c = c,
                  .s = s,
                  .images = images,
                  .weight = weight,
                  .output = output,
                  .item = shmt__dtype_size[c->dtype],
                  .channels = c->channels / c->groups,
                  .out_plane = v->out[0] * v->out[1] * v->out[2]};

  j.n_outputs = c->n_images * j.out_plane;
  j.vectors = (j.n_outputs + OUTPUT_LANES - 1) / OUTPUT_LANES;
  const int64_t n = j.vectors * c->groups, threads = shmt__num_threads(), share = (n + threads - 1) / threads;
  j.block = find_block(c, s);
  j.filters = s->filters;
  if (c->io_dtype != c->dtype) set_filters_at_once(&j, share < j.vectors ? share : j.vectors);
  /* One piece for each thread: all of its panels but the last are full. */
  shmt__parallel_for(n, share, run_vectors, &j);
  SHMT_REQUIRE(!atomic_load_explicit(&j.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for columns of %lld elements", (long long)s->k);
  return SHMT_OK;
}
