/* ops/conv_laid.c -- convolution of images that are first laid out with their channels as neighbours.
 *
 * What the kernel of pixels (Note [Pixels] in kernels/pixels.tmpl.h) gains over that of planes is more than it takes to turn
 * images and outputs around, when there are channels enough; and what is stored in halves has to be widened anyway. A part of
 * an image, or a few images, are at hand at a time, whatever their number: all threads work on one part.
 */
#include "ops/conv_laid.h"

#include "iter/threads.h"
#include "ops/conv_part.h"
#include "storage/allocator.h"

enum {
  PART_BYTES = 640 << 10, /* of what is laid out */
  FEW_CHANNELS = 8,       /* which are read in short runs, and turned around slowly */
  WORTH_TURNING = 100,    /* multiplications for each element that is turned around */
  WORTH_MOVING = 16,      /* the same, that is only moved or widened */
  WORTH_SHARING = 1 << 14, /* elements */
};

typedef struct copy {
  shmt__planes to, from;
  const int64_t* n;
} copy;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t volume(const int64_t* n) { return n[0] * n[1] * n[2]; }

bool shmt__conv_is_laid(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  const double filters = (double)c->filters / (double)c->groups, channels = (double)c->channels / (double)c->groups;
  const double in = channels * (double)volume(s->in), out = filters * (double)volume(s->out);
  const bool are_neighbours = c->channel_step == shmt__dtype_size[c->given];

  return shmt__conv_has_pixels(c) && !shmt__conv_is_pointwise(c) &&
         (are_neighbours || channels >= FEW_CHANNELS) &&
         out * channels * (double)volume(s->kernel) >= (are_neighbours ? WORTH_MOVING : WORTH_TURNING) * (in + out);
}

/* Rows, counted through images and planes. */
static void copy_rows(void* ctx, int64_t begin, int64_t end) {
  const copy* k = ctx;

  for (int64_t r = begin, run; r < end; r += run) {
    const int64_t at[5] = {r / (k->n[2] * k->n[3]), 0, r / k->n[3] % k->n[2], r % k->n[3], 0};
    run = smaller(k->n[3] - at[3], end - r);
    const shmt__planes to = shmt__planes_at(&k->to, at), from = shmt__planes_at(&k->from, at);
    shmt__planes_copy(&to, &from, (int64_t[]){1, k->n[1], 1, run, k->n[4]});
  }
}

static void copy_box(shmt__planes to, shmt__planes from, const int64_t* n) {
  copy k = {to, from, n};

  shmt__parallel_for(n[0] * n[2] * n[3], WORTH_SHARING / (n[1] * n[4] + 1) + 1, copy_rows, &k);
}

/* n elements whose channels are neighbours. */
static shmt__planes laid(char* data, shmt_dtype dtype, const int64_t* n) {
  const int64_t item = shmt__dtype_size[dtype], pixel = n[1] * item, row = n[4] * pixel, plane = n[3] * row;

  return (shmt__planes){data, dtype, {n[2] * plane, item, plane, row, pixel}};
}

/* The outputs of a part of images [first, first + n). */
static shmt_status run_part(const shmt__conv* c, const shmt__conv_part* p, int64_t first, int64_t n,
                            const shmt__planes* images, const void* weight, const shmt__planes* outputs, char* image,
                            char* output) {
  const int64_t *in = p->shape.in, *out = p->shape.out, *whole = c->shape.out;
  const int64_t needed[5] = {n, c->channels, in[0], in[1], in[2]}, made[5] = {n, c->filters, out[0], out[1], out[2]};
  const int64_t from[5] = {first, 0, p->first[0], p->first[1], p->first[2]};
  const int64_t to[5] = {first, 0, p->at / (whole[1] * whole[2]), p->at / whole[2] % whole[1], p->at % whole[2]};
  const shmt__planes pixels = laid(image, c->dtype, needed), results = laid(output, c->dtype, made);
  shmt__conv part = *c;

  if (volume(in) > 0) copy_box(pixels, shmt__planes_at(images, from), needed);
  part.shape = p->shape;
  part.n_images = n;
  part.image_step = pixels.stride[0];
  part.channel_step = pixels.stride[1];
  for (int d = 0; d < 3; d++) part.step[d] = pixels.stride[2 + d];
  SHMT_TRY(shmt__conv_pixels(&part, image, weight, output));
  copy_box(shmt__planes_at(outputs, to), results, made);
  return SHMT_OK;
}

shmt_status shmt__conv_laid(const shmt__conv* c, const shmt__planes* images, const void* weight,
                            const shmt__planes* outputs) {
  const int64_t item = shmt__dtype_size[c->dtype];
  int64_t size[3], needed = c->channels, some = 1;
  shmt_status status = SHMT_OK;
  void* memory = NULL;

  const int64_t n_parts = shmt__conv_split(c, c->channels * item, c->filters * item, PART_BYTES, size);
  for (int d = 0; d < 3; d++) needed *= smaller(shmt__conv_reach(&c->shape, d, size[d]), c->shape.in[d]);
  const int64_t made = c->filters * volume(size), each = (needed + made) * item;
  if (n_parts == 1 && each < PART_BYTES) some = smaller(PART_BYTES / each, c->n_images);
  some = ceil_div(c->n_images, ceil_div(c->n_images, some));
  const uint64_t nbytes = (uint64_t)(some * each);
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  char* const output = (char*)memory + some * needed * item;
  for (int64_t i = 0; status == SHMT_OK && i < c->n_images; i += some) {
    for (int64_t p = 0; status == SHMT_OK && p < n_parts; p++) {
      const shmt__conv_part part = shmt__conv_part_at(c, size, p);
      status = run_part(c, &part, i, smaller(some, c->n_images - i), images, weight, outputs, memory, output);
    }
  }
  shmt__dealloc(memory, nbytes);
  return status;
}
