/* ops/conv/relayout.c -- convolution with a layout conversion: tiles are computed as NHWC or NCHW, whatever the tensors
 * are.
 *
 * The NHWC kernels (Note [NHWC convolution] in kernels/conv/nhwc.tmpl.h) are so much faster than the NCHW ones that,
 * with enough channels, they win back the time to transpose the input and the outputs; and 16-bit elements have to be
 * widened anyway. One tile of an image, or of a few images, is in memory at a time, however many there are, and all
 * threads work on it.
 *
 * Where the outputs are to be NHWC and that does not pay, an NCHW algorithm makes tiles, which are then transposed.
 */
#include "ops/conv/relayout.h"

#include "base/sizes.h"
#include "iter/threads.h"
#include "ops/conv/nchw/nchw.h"
#include "ops/conv/nhwc/amx.h"
#include "ops/conv/nhwc/grouped.h"
#include "ops/conv/nhwc/nhwc.h"
#include "ops/conv/tile.h"
#include "ops/dtype_names.h"
#include "storage/allocator.h"

#include <stdatomic.h>

enum {
  TILE_BYTES = 640 << 10, /* of the input and outputs of a tile */
  TILE_BYTES_GROUPED = 224
      << 10, /* plus a tenth of the outputs, for grouped kernels: they pack few weights for each tile */
  TILE_BYTES_AMX = 192 << 10, /* at least, for the AMX kernel */
  TILE_BYTES_NCHW = 96 << 10, /* of NCHW outputs that are transposed */
  FEW_CHANNELS = 8,           /* which are read in short runs and transposed slowly */
  FEW_FILTERS = 16,           /* for which AMX takes as long as for so many */
  WORTH_TRANSPOSING = 100,    /* multiplications that pay for an element that is transposed, */
  WORTH_COPYING = 16,         /* and for one that is only copied or widened */
  WORTH_SHARING = 1 << 14,    /* bytes to transpose that are worth a thread */
};

static int64_t volume(const int64_t* n) { return n[0] * n[1] * n[2]; }

bool shmt__conv_prefers_relayout_nhwc(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  const double filters = (double)c->filters / (double)c->groups, channels = (double)c->channels / (double)c->groups;
  const double in = channels * (double)volume(s->in), out = filters * (double)volume(s->out);
  const bool is_nhwc = c->channel_step == shmt__dtype_size[c->io_dtype];

  if (shmt__conv_has_nhwc_grouped(c)) return is_nhwc;
  return shmt__conv_has_nhwc(c) && !shmt__conv_is_pointwise(c) &&
         (is_nhwc || channels >= FEW_CHANNELS) &&
         out * channels * (double)volume(s->kernel) >= (is_nhwc ? WORTH_COPYING : WORTH_TRANSPOSING) * (in + out);
}

/* The kernel that makes a tile; neither AMX nor grouped: nhwc/nhwc.c. */
typedef struct nhwc_kernel {
  bool is_amx, is_grouped;
  bool reads_in_place; /* the input need not be copied */
  shmt_dtype dtype;    /* of the tile */
} nhwc_kernel;

static nhwc_kernel nhwc_kernel_of(const shmt__conv* c) {
  const bool is_grouped = shmt__conv_has_nhwc_grouped(c), is_amx = !is_grouped && shmt__conv_has_nhwc_amx(c);
  const shmt_dtype dtype = is_amx ? c->io_dtype : c->dtype;

  return (nhwc_kernel){is_amx, is_grouped, c->io_dtype == dtype && c->channel_step == shmt__dtype_size[dtype], dtype};
}

bool shmt__conv_has_relayout_nhwc(const shmt__conv* c) {
  return shmt__conv_has_nhwc_grouped(c) || shmt__conv_has_nhwc(c) ||
         (shmt__conv_has_nhwc_amx(c) && !shmt__conv_is_depthwise(c));
}

bool shmt__conv_prefers_relayout_nhwc_amx(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  const double filters = (double)c->filters / (double)c->groups, channels = (double)c->channels / (double)c->groups;
  const double in = channels * (double)volume(s->in), out = filters * (double)volume(s->out);

  return shmt__conv_has_nhwc_amx(c) && !shmt__conv_is_depthwise(c) && filters >= FEW_FILTERS && volume(s->kernel) > 1 &&
         out * channels * (double)volume(s->kernel) >= WORTH_COPYING * (in + out);
}

/* Images whose tiles are made together, when the tile of one takes `each` bytes. */
static int64_t images_at_once(const shmt__conv* c, int64_t n_tiles, int64_t each, int64_t most) {
  const int64_t n_together = n_tiles == 1 && each < most ? shmt__min_i64(most / each, c->n_images) : 1;

  return shmt__ceil_div(c->n_images, shmt__ceil_div(c->n_images, n_together));
}

/* A view of dense NCHW memory with n elements. */
static shmt__image_view nchw_view(void* data, shmt_dtype dtype, const int64_t* n) {
  const int64_t item = shmt__dtype_size[dtype], row = n[4] * item, plane = n[3] * row, channel = n[2] * plane;

  return (shmt__image_view){data, dtype, {n[1] * channel, channel, plane, row, item}};
}

/* The view of the outputs of a tile, of images from the first on. */
static shmt__image_view tile_outputs(const shmt__conv* c, const shmt__conv_tile* p, int64_t first,
                                     const shmt__image_view* outputs) {
  const int64_t* whole = c->shape.out;

  return shmt__image_view_at(outputs, (int64_t[]){first, 0, p->at / (whole[1] * whole[2]), p->at / whole[2] % whole[1],
                                                  p->at % whole[2]});
}

/* Make the outputs of a tile of images [first, first + n). */
static shmt_status run_tile(const shmt__conv* c, const nhwc_kernel* k, const shmt__conv_tile* p, int64_t first,
                            int64_t n, const shmt__image_view* images, const shmt__image_view* weight,
                            const shmt__image_view* outputs, char* image, char* output) {
  const int64_t *in = p->shape.in, *out = p->shape.out;
  const int64_t needed[5] = {n, c->channels, in[0], in[1], in[2]}, made[5] = {n, c->filters, out[0], out[1], out[2]};
  const int64_t from[5] = {first, 0, p->first[0], p->first[1], p->first[2]};
  const shmt__image_view results = shmt__image_view_nhwc(output, k->dtype, made),
                         written = tile_outputs(c, p, first, outputs);
  shmt__image_view input = shmt__image_view_at(images, from);
  shmt__conv sub = *c;

  if (!k->reads_in_place) {
    const shmt__image_view read = input;
    input = shmt__image_view_nhwc(image, k->dtype, needed);
    if (volume(in) > 0) shmt__image_view_copy_parallel(&input, &read, needed);
  }
  sub.shape = p->shape;
  sub.n_images = n;
  sub.image_step = input.stride[0];
  sub.channel_step = input.stride[1];
  for (int d = 0; d < 3; d++) sub.step[d] = input.stride[2 + d];
  if (k->is_amx) {
    SHMT_TRY(shmt__conv_nhwc_amx(&sub, input.data, weight, output));
  } else {
    SHMT_TRY((k->is_grouped ? shmt__conv_nhwc_grouped : shmt__conv_nhwc)(&sub, input.data, weight->data, output));
  }
  shmt__image_view_copy_parallel(&written, &results, made);
  return SHMT_OK;
}

/* Bytes of a tile. All weights are packed for each tile: weights that take long to pack are worth larger tiles. */
static int64_t tile_bytes(const shmt__conv* c, const nhwc_kernel* k) {
  const int64_t item = shmt__dtype_size[c->io_dtype];
  const int64_t weights = c->filters * (c->channels / c->groups) * volume(c->shape.kernel) * item;
  const int64_t outputs = c->n_images * c->filters * volume(c->shape.out) * item;

  if (k->is_grouped) return shmt__min_i64(TILE_BYTES_GROUPED + outputs / 10, TILE_BYTES);
  if (!k->is_amx) return TILE_BYTES;
  return weights / 2 < TILE_BYTES_AMX ? TILE_BYTES_AMX : shmt__min_i64(weights / 2, TILE_BYTES);
}

shmt_status shmt__conv_relayout_nhwc(const shmt__conv* c, const shmt__image_view* images,
                                     const shmt__image_view* weight, const shmt__image_view* outputs) {
  const nhwc_kernel k = nhwc_kernel_of(c);
  const int64_t item = shmt__dtype_size[k.dtype], read = k.reads_in_place ? 0 : c->channels;
  int64_t size[3], needed = read;
  shmt_status status = SHMT_OK;
  void* memory = NULL;

  const int64_t most = tile_bytes(c, &k), n_tiles = shmt__conv_tile_size(c, read * item, c->filters * item, most, size);
  for (int d = 0; d < 3; d++) needed *= shmt__min_i64(shmt__conv_reach(&c->shape, d, size[d]), c->shape.in[d]);
  const int64_t made = c->filters * volume(size), each = (needed + made) * item;
  const int64_t n_together = images_at_once(c, n_tiles, each, most);
  const uint64_t nbytes = (uint64_t)(n_together * each);
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  char* const output = (char*)memory + n_together * needed * item;
  for (int64_t i = 0; status == SHMT_OK && i < c->n_images; i += n_together) {
    for (int64_t p = 0; status == SHMT_OK && p < n_tiles; p++) {
      const shmt__conv_tile tile = shmt__conv_tile_at(c, size, p);
      status = run_tile(c, &k, &tile, i, shmt__min_i64(n_together, c->n_images - i), images, weight, outputs, memory,
                        output);
    }
  }
  shmt__dealloc(memory, nbytes);
  return status;
}

/* --- NCHW kernels to other layouts -------------------------------------------------- */

/* Tiles of images, or of `n_together` images at a time. */
typedef struct nchw_job {
  const shmt__conv* c;
  const char* images;
  const void* weight;
  const shmt__image_view* outputs;
  int64_t size[3], n_tiles, n_together;
  uint64_t nbytes;
  atomic_bool failed; /* out of memory */
} nchw_job;

static shmt_status run_nchw_tile(const nchw_job* s, const shmt__conv_tile* p, int64_t first, int64_t n, char* planes) {
  const shmt__conv* c = s->c;
  const int64_t* out = p->shape.out;
  const int64_t made[5] = {n, c->filters, out[0], out[1], out[2]};
  const bool is_rounded = shmt__is_half(c->dtype) || c->io_dtype != c->dtype; /* then the kernels add the bias */
  const char* images = s->images + first * c->image_step;
  shmt__conv sub = *c;

  sub.shape = p->shape;
  sub.n_images = n;
  if (!is_rounded) sub.bias = NULL;
  for (int d = 0; d < 3; d++) images += p->first[d] * c->step[d];
  SHMT_TRY(shmt__conv_nchw(&sub, images, s->weight, planes));
  if (c->bias && !is_rounded) shmt__conv_add_bias(c->dtype, planes, n, c->filters, p->length, c->bias);
  const shmt__image_view from = nchw_view(planes, c->io_dtype, made), to = tile_outputs(c, p, first, s->outputs);
  shmt__image_view_copy_parallel(&to, &from, made);
  return SHMT_OK;
}

static void run_nchw_tiles(void* ctx, int64_t begin, int64_t end) {
  nchw_job* s = ctx;
  void* planes = NULL;
  bool done = shmt__alloc(s->nbytes, &planes) == SHMT_OK;

  for (int64_t i = begin; done && i < end; i++) {
    const int64_t first = i / s->n_tiles * s->n_together;
    const shmt__conv_tile tile = shmt__conv_tile_at(s->c, s->size, i % s->n_tiles);
    done = run_nchw_tile(s, &tile, first, shmt__min_i64(s->n_together, s->c->n_images - first), planes) == SHMT_OK;
  }
  if (planes) shmt__dealloc(planes, s->nbytes);
  /* relaxed: read after the pool's own join. */
  if (!done) atomic_store_explicit(&s->failed, true, memory_order_relaxed);
}

shmt_status shmt__conv_relayout_nchw(const shmt__conv* c, const void* images, const void* weight,
                                     const shmt__image_view* outputs) {
  const int64_t threads = shmt__num_threads();
  nchw_job s = {.c = c, .images = images, .weight = weight, .outputs = outputs};

  s.n_tiles = shmt__conv_tile_size(c, 0, c->filters * shmt__dtype_size[c->io_dtype], TILE_BYTES_NCHW, s.size);
  const int64_t each = c->filters * volume(s.size) * shmt__dtype_size[c->io_dtype];
  s.n_together =
      shmt__min_i64(images_at_once(c, s.n_tiles, each, TILE_BYTES_NCHW), shmt__ceil_div(c->n_images, threads));
  s.nbytes = (uint64_t)(s.n_together * each);
  const int64_t n = shmt__ceil_div(c->n_images, s.n_together) * s.n_tiles;
  if (n < threads || (n < 4 * threads && n % threads != 0)) /* then the threads share out the work inside a tile */
    run_nchw_tiles(&s, 0, n);
  else
    shmt__parallel_for(n, WORTH_SHARING / (s.n_together * each) + 1, run_nchw_tiles, &s);
  SHMT_REQUIRE(!atomic_load_explicit(&s.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for %llu bytes of outputs and what is beside them",
               (unsigned long long)s.nbytes);
  return SHMT_OK;
}
