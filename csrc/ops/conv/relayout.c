/* ops/conv/relayout.c -- convolution of images, or to outputs, that are laid out in another way in between.
 *
 * What the kernel of pixels (Note [Pixels] in kernels/conv/nhwc.tmpl.h) gains over that of planes is more than it takes to turn
 * images and outputs around, when there are channels enough; and what is stored in halves has to be widened anyway. A part of
 * an image, or a few images, are at hand at a time, whatever their number: all threads work on one part.
 *
 * Where outputs are to have channels as neighbours and that does not pay, planes of a part are made and turned around.
 */
#include "ops/conv/relayout.h"

#include "iter/threads.h"
#include "ops/conv/depthwise.h"
#include "ops/conv/nhwc/grouped.h"
#include "ops/conv/tile.h"
#include "ops/conv/nhwc/amx.h"
#include "ops/dtype_names.h"
#include "storage/allocator.h"

#include <stdatomic.h>

enum {
  PART_BYTES = 640 << 10, /* of what is laid out */
  GROUP_BYTES = 224 << 10, /* the same, beside a tenth of the outputs, for groups: few weights to lay out for each part */
  PART_BYTES_TILES = 192 << 10, /* the same, at least, for tiles */
  SPREAD_BYTES = 96 << 10, /* of planes that are turned around */
  FEW_CHANNELS = 8,       /* which are read in short runs, and turned around slowly */
  FEW_FILTERS = 16,       /* which tiles take as long for as for so many */
  WORTH_TURNING = 100,    /* multiplications for each element that is turned around */
  WORTH_MOVING = 16,      /* the same, that is only moved or widened */
  WORTH_SHARING = 1 << 14, /* bytes that are turned around */
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t volume(const int64_t* n) { return n[0] * n[1] * n[2]; }

bool shmt__conv_is_laid(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  const double filters = (double)c->filters / (double)c->groups, channels = (double)c->channels / (double)c->groups;
  const double in = channels * (double)volume(s->in), out = filters * (double)volume(s->out);
  const bool are_neighbours = c->channel_step == shmt__dtype_size[c->given];

  if (shmt__conv_has_groups(c)) return are_neighbours;
  return shmt__conv_has_pixels(c) && !shmt__conv_is_pointwise(c) &&
         (are_neighbours || channels >= FEW_CHANNELS) &&
         out * channels * (double)volume(s->kernel) >= (are_neighbours ? WORTH_MOVING : WORTH_TURNING) * (in + out);
}

/* How parts are made. */
typedef struct way {
  bool by_tiles, by_groups; /* neither: by pixels */
  bool reads_images;         /* where they lie */
  shmt_dtype dtype;          /* of what is laid out */
} way;

static way way_of(const shmt__conv* c) {
  const bool by_groups = shmt__conv_has_groups(c), by_tiles = !by_groups && shmt__conv_has_tiles(c);
  const shmt_dtype dtype = by_tiles ? c->given : c->dtype;

  return (way){by_tiles, by_groups, c->given == dtype && c->channel_step == shmt__dtype_size[dtype], dtype};
}

bool shmt__conv_has_laid(const shmt__conv* c) {
  return shmt__conv_has_groups(c) || shmt__conv_has_pixels(c) ||
         (shmt__conv_has_tiles(c) && !shmt__conv_is_depthwise(c));
}

bool shmt__conv_is_turned_for_tiles(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  const double filters = (double)c->filters / (double)c->groups, channels = (double)c->channels / (double)c->groups;
  const double in = channels * (double)volume(s->in), out = filters * (double)volume(s->out);

  return shmt__conv_has_tiles(c) && !shmt__conv_is_depthwise(c) && filters >= FEW_FILTERS && volume(s->kernel) > 1 &&
         out * channels * (double)volume(s->kernel) >= WORTH_MOVING * (in + out);
}

/* Images whose parts are at hand together, when those of one take `each` bytes. */
static int64_t images_at_once(const shmt__conv* c, int64_t n_parts, int64_t each, int64_t most) {
  const int64_t some = n_parts == 1 && each < most ? smaller(most / each, c->n_images) : 1;

  return ceil_div(c->n_images, ceil_div(c->n_images, some));
}

/* n elements whose places are. */
static shmt__planes in_planes(void* data, shmt_dtype dtype, const int64_t* n) {
  const int64_t item = shmt__dtype_size[dtype], row = n[4] * item, plane = n[3] * row, channel = n[2] * plane;

  return (shmt__planes){data, dtype, {n[1] * channel, channel, plane, row, item}};
}

/* Where the outputs of a part of images from the first on are. */
static shmt__planes outputs_of(const shmt__conv* c, const shmt__conv_part* p, int64_t first, const shmt__planes* outputs) {
  const int64_t* whole = c->shape.out;

  return shmt__planes_at(outputs, (int64_t[]){first, 0, p->at / (whole[1] * whole[2]), p->at / whole[2] % whole[1],
                                              p->at % whole[2]});
}

/* The outputs of a part of images [first, first + n). */
static shmt_status run_part(const shmt__conv* c, const way* w, const shmt__conv_part* p, int64_t first, int64_t n,
                            const shmt__planes* images, const shmt__planes* weight, const shmt__planes* outputs, char* image,
                            char* output) {
  const int64_t *in = p->shape.in, *out = p->shape.out;
  const int64_t needed[5] = {n, c->channels, in[0], in[1], in[2]}, made[5] = {n, c->filters, out[0], out[1], out[2]};
  const int64_t from[5] = {first, 0, p->first[0], p->first[1], p->first[2]};
  const shmt__planes results = shmt__planes_of_pixels(output, w->dtype, made), written = outputs_of(c, p, first, outputs);
  shmt__planes pixels = shmt__planes_at(images, from);
  shmt__conv part = *c;

  if (!w->reads_images) {
    const shmt__planes read = pixels;
    pixels = shmt__planes_of_pixels(image, w->dtype, needed);
    if (volume(in) > 0) shmt__planes_copy_shared(&pixels, &read, needed);
  }
  part.shape = p->shape;
  part.n_images = n;
  part.image_step = pixels.stride[0];
  part.channel_step = pixels.stride[1];
  for (int d = 0; d < 3; d++) part.step[d] = pixels.stride[2 + d];
  if (w->by_tiles) {
    SHMT_TRY(shmt__conv_tiles(&part, pixels.data, weight, output));
  } else {
    SHMT_TRY((w->by_groups ? shmt__conv_groups : shmt__conv_pixels)(&part, pixels.data, weight->data, output));
  }
  shmt__planes_copy_shared(&written, &results, made);
  return SHMT_OK;
}

/* Pixels and tiles pack all weights for each part: those that take long to pack are worth larger ones. */
static int64_t part_bytes(const shmt__conv* c, const way* w) {
  const int64_t item = shmt__dtype_size[c->given];
  const int64_t weights = c->filters * (c->channels / c->groups) * volume(c->shape.kernel) * item;
  const int64_t outputs = c->n_images * c->filters * volume(c->shape.out) * item;

  if (w->by_groups) return smaller(GROUP_BYTES + outputs / 10, PART_BYTES);
  if (!w->by_tiles) return PART_BYTES;
  return weights / 2 < PART_BYTES_TILES ? PART_BYTES_TILES : smaller(weights / 2, PART_BYTES);
}

shmt_status shmt__conv_laid(const shmt__conv* c, const shmt__planes* images, const shmt__planes* weight,
                            const shmt__planes* outputs) {
  const way w = way_of(c);
  const int64_t item = shmt__dtype_size[w.dtype], read = w.reads_images ? 0 : c->channels;
  int64_t size[3], needed = read;
  shmt_status status = SHMT_OK;
  void* memory = NULL;

  const int64_t most = part_bytes(c, &w), n_parts = shmt__conv_split(c, read * item, c->filters * item, most, size);
  for (int d = 0; d < 3; d++) needed *= smaller(shmt__conv_reach(&c->shape, d, size[d]), c->shape.in[d]);
  const int64_t made = c->filters * volume(size), each = (needed + made) * item;
  const int64_t some = images_at_once(c, n_parts, each, most);
  const uint64_t nbytes = (uint64_t)(some * each);
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  char* const output = (char*)memory + some * needed * item;
  for (int64_t i = 0; status == SHMT_OK && i < c->n_images; i += some) {
    for (int64_t p = 0; status == SHMT_OK && p < n_parts; p++) {
      const shmt__conv_part part = shmt__conv_part_at(c, size, p);
      status = run_part(c, &w, &part, i, smaller(some, c->n_images - i), images, weight, outputs, memory, output);
    }
  }
  shmt__dealloc(memory, nbytes);
  return status;
}

/* --- outputs ------------------------------------------------------------------------ */

/* Outputs that are spread: parts of images, or of `some` images at a time. */
typedef struct spread {
  const shmt__conv* c;
  const char* images;
  const void* weight;
  const shmt__planes* outputs;
  int64_t size[3], n_parts, some;
  uint64_t nbytes;
  atomic_bool failed; /* out of memory */
} spread;

static shmt_status spread_part(const spread* s, const shmt__conv_part* p, int64_t first, int64_t n, char* planes) {
  const shmt__conv* c = s->c;
  const int64_t* out = p->shape.out;
  const int64_t made[5] = {n, c->filters, out[0], out[1], out[2]};
  const bool is_rounded = shmt__is_half(c->dtype) || c->given != c->dtype; /* then the kernels add the bias */
  const char* images = s->images + first * c->image_step;
  shmt__conv part = *c;

  part.shape = p->shape;
  part.n_images = n;
  if (!is_rounded) part.bias = NULL;
  for (int d = 0; d < 3; d++) images += p->first[d] * c->step[d];
  SHMT_TRY(shmt__conv_forward(&part, images, s->weight, planes));
  if (c->bias && !is_rounded) shmt__conv_add_bias(c->dtype, planes, n, c->filters, p->length, c->bias);
  const shmt__planes from = in_planes(planes, c->given, made), to = outputs_of(c, p, first, s->outputs);
  shmt__planes_copy_shared(&to, &from, made);
  return SHMT_OK;
}

static void spread_parts(void* ctx, int64_t begin, int64_t end) {
  spread* s = ctx;
  void* planes = NULL;
  bool done = shmt__alloc(s->nbytes, &planes) == SHMT_OK;

  for (int64_t i = begin; done && i < end; i++) {
    const int64_t first = i / s->n_parts * s->some;
    const shmt__conv_part part = shmt__conv_part_at(s->c, s->size, i % s->n_parts);
    done = spread_part(s, &part, first, smaller(s->some, s->c->n_images - first), planes) == SHMT_OK;
  }
  if (planes) shmt__dealloc(planes, s->nbytes);
  /* relaxed: read after the pool's own join. */
  if (!done) atomic_store_explicit(&s->failed, true, memory_order_relaxed);
}

shmt_status shmt__conv_spread(const shmt__conv* c, const void* images, const void* weight, const shmt__planes* outputs) {
  const int64_t threads = shmt__num_threads();
  spread s = {.c = c, .images = images, .weight = weight, .outputs = outputs};

  s.n_parts = shmt__conv_split(c, 0, c->filters * shmt__dtype_size[c->given], SPREAD_BYTES, s.size);
  const int64_t each = c->filters * volume(s.size) * shmt__dtype_size[c->given];
  s.some = smaller(images_at_once(c, s.n_parts, each, SPREAD_BYTES), ceil_div(c->n_images, threads));
  s.nbytes = (uint64_t)(s.some * each);
  const int64_t n = ceil_div(c->n_images, s.some) * s.n_parts;
  if (n < threads || (n < 4 * threads && n % threads != 0)) /* then what is inside a part is shared out */
    spread_parts(&s, 0, n);
  else
    shmt__parallel_for(n, WORTH_SHARING / (s.some * each) + 1, spread_parts, &s);
  SHMT_REQUIRE(!atomic_load_explicit(&s.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for %llu bytes of outputs and what is beside them", (unsigned long long)s.nbytes);
  return SHMT_OK;
}
