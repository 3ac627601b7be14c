/* ops/resample.c -- resizing along the last dims, by linear or cubic interpolation, with or without antialiasing.
 *
 * Images whose channels come last are resized as they lie: a pixel's channels are neighbours that have the same weights.
 * 16-bit floats are widened a block at a time.
 */
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy.h"
#include "iter/iter.h"
#include "kernels/shapes.h"
#include "ops/check.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* MOST_DIMS: that are resized. BLOCK_BYTES: of what lies between two of them; at least so many times the lines that one line
 * of the result is made of. */
enum { GRAIN = 16384, MOST_DIMS = 3, BLOCK_BYTES = 128 << 10, IMAGE_LINES = 16, VOLUME_LINES = 6 };

typedef struct plan {
  bool cubic, align_corners, antialias;
  double scale; /* input elements per output element */
  int64_t* first;
  int64_t* count;
  double* weights;
  int16_t* fixed; /* for bytes only */
} plan;

static void plan_fini(plan* p) {
  free(p->first);
  free(p->count);
  free(p->weights);
  free(p->fixed);
}

/* Cubic convolution at distance x. */
static double cubic(double x, double a) {
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

static double triangle(double x) {
  return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

/* Neighbours beyond the ends count as the outermost element. */
static void find_neighbours(const plan* p, int64_t o, int64_t in, int64_t* first, int64_t* count, double* w) {
  double x = p->align_corners ? p->scale * (double)o : p->scale * ((double)o + 0.5) - 0.5;

  if (!p->cubic && x < 0) x = 0;
  if (x > (double)in) x = (double)in;
  int64_t base = (int64_t)floor(x);
  if (base > in - 1) base = in - 1;
  double t = x - (double)base;
  t = t < 0 ? 0 : t > 1 ? 1 : t;
  if (!p->cubic) {
    *first = base;
    *count = base < in - 1 ? 2 : 1;
    w[0] = *count == 2 ? 1 - t : 1;
    w[1] = t;
    return;
  }
  const int64_t low = base - 1 < 0 ? 0 : base - 1, high = base + 2 > in - 1 ? in - 1 : base + 2;
  *first = low;
  *count = high - low + 1;
  memset(w, 0, 4 * sizeof *w);
  for (int k = 0; k < 4; k++) {
    int64_t at = base - 1 + k;
    at = at < 0 ? 0 : at > in - 1 ? in - 1 : at;
    w[at - low] += cubic(t + 1 - k, -0.75);
  }
}

/* When shrinking, the filter is widened by the scale, so that every input counts. */
static void find_smooth_neighbours(const plan* p, int64_t o, int64_t in, int64_t* first, int64_t* count, double* w) {
  const double widen = p->scale >= 1 ? p->scale : 1;
  const double support = (p->cubic ? 2 : 1) * widen, center = p->scale * ((double)o + 0.5);
  const double from = center - support + 0.5, to = center + support + 0.5;
  int64_t low = from >= (double)in ? in - 1 : from > 0 ? (int64_t)from : 0, high = to < (double)in ? (int64_t)to : in;
  double sum = 0;

  if (low > in - 1) low = in - 1;
  if (high <= low) high = low + 1;
  for (int64_t i = low; i < high; i++) {
    const double x = ((double)i - center + 0.5) / widen;
    w[i - low] = p->cubic ? cubic(x, -0.5) : triangle(x);
    sum += w[i - low];
  }
  for (int64_t i = low; i < high && sum != 0; i++) w[i - low] /= sum;
  *first = low;
  *count = high - low;
}

/* The weights in fixed point, as finely as the largest of them allows in 15 bits. */
static shmt_status fix_weights(plan* p, shmt__resample_shape* s) {
  const int64_t n = s->out * s->taps;
  double largest = 0;

  p->fixed = calloc((size_t)n, sizeof *p->fixed);
  SHMT_REQUIRE(p->fixed, SHMT_E_NOMEM, "_resample(): the weights of %" PRId64 " lines", s->out);
  for (int64_t i = 0; i < n; i++) largest = fmax(largest, p->weights[i]);
  s->precision = 0;
  while (s->precision < 22 && (int)(0.5 + largest * (double)(1 << (s->precision + 1))) < 1 << 15) s->precision++;
  for (int64_t i = 0; i < n; i++) {
    const double scaled = p->weights[i] * (double)(1 << s->precision);
    p->fixed[i] = (int16_t)(scaled + (scaled < 0 ? -0.5 : 0.5));
  }
  s->fixed = p->fixed;
  return SHMT_OK;
}

/* Fill p and s for resizing `in` lines to `out`. */
static shmt_status make_plan(plan* p, int64_t in, int64_t out, const char* mode, double scale,
                             shmt__resample_shape* s) {
  SHMT_REQUIRE(strcmp(mode, "linear") == 0 || strcmp(mode, "cubic") == 0, SHMT_E_RUNTIME,
               "_resample(): mode must be linear or cubic, got %s", mode);
  SHMT_REQUIRE(in > 0 && out > 0, SHMT_E_RUNTIME,
               "Input and output sizes should be greater than 0, but got input size %" PRId64 " and output size %"
               PRId64, in, out);
  p->cubic = mode[0] == 'c';
  if (p->align_corners)
    p->scale = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
  else
    p->scale = scale > 0 ? 1 / scale : (double)in / (double)out;
  const double reach = (p->cubic ? 2 : 1) * (p->antialias && p->scale > 1 ? p->scale : 1);
  s->in = in;
  s->out = out;
  s->taps = p->antialias ? (2 * reach + 3 < (double)in + 4 ? (int64_t)(2 * reach) + 3 : in + 4) : 4;
  p->first = calloc((size_t)out, sizeof *p->first);
  p->count = calloc((size_t)out, sizeof *p->count);
  p->weights = calloc((size_t)out, (size_t)s->taps * sizeof *p->weights);
  SHMT_REQUIRE(p->first && p->count && p->weights, SHMT_E_NOMEM, "_resample(): the weights of %" PRId64 " lines", out);
  for (int64_t o = 0; o < out; o++) {
    double* w = p->weights + o * s->taps;
    if (p->antialias)
      find_smooth_neighbours(p, o, in, &p->first[o], &p->count[o], w);
    else
      find_neighbours(p, o, in, &p->first[o], &p->count[o], w);
  }
  s->first = p->first;
  s->count = p->count;
  s->weights = p->weights;
  return SHMT_OK;
}

/* --- forwards ----------------------------------------------------------------------------------- */

/* A block is some lines of the result along the first of the resized dims. What its lines are made of is resized along the
 * others first, the last one first, so that between the dims there are never more than a few lines. */
typedef struct job {
  char *to, *from;
  int n;                                 /* dims */
  shmt__resample_shape shape[MOST_DIMS]; /* inner: behind each, already resized */
  int64_t lines[MOST_DIMS];              /* slabs of each in one line of the first */
  int64_t rows, blocks;                  /* lines of a block; blocks of an image */
  int64_t item;
  shmt_dtype dtype, work; /* work: what is calculated in */
  uint64_t room[4];       /* bytes between the dims, by turns; of widened lines; of lines to be narrowed */
  shmt__loop loop;
  atomic_bool failed;
} job;

/* Elements in a line along the first dim before any is resized. */
static int64_t line_elements(const job* j) {
  return j->n == 1 ? j->shape[0].inner : j->lines[j->n - 1] * j->shape[j->n - 1].in * j->shape[j->n - 1].inner;
}

/* Lines of `in` that lines [begin, end) of the result are made of. */
static void find_lines(const shmt__resample_shape* s, int64_t begin, int64_t end, int64_t* first, int64_t* last) {
  *first = s->in;
  *last = 0;
  for (int64_t p = begin; p < end; p++) {
    if (s->first[p] < *first) *first = s->first[p];
    if (s->first[p] + s->count[p] > *last) *last = s->first[p] + s->count[p];
  }
}

static void run_block(const job* j, int64_t block, char* const* room) {
  const int64_t wide = shmt__dtype_size[j->work];
  const int64_t image = block / j->blocks, begin = block % j->blocks * j->rows;
  const int64_t end = begin + j->rows < j->shape[0].out ? begin + j->rows : j->shape[0].out;
  shmt__resample_shape s = j->shape[0];
  int64_t first, last;

  find_lines(&s, begin, end, &first, &last);
  char* from = j->from + (image * s.in + first) * line_elements(j) * j->item;
  if (j->work != j->dtype) {
    shmt__cast_loop(j->work, j->dtype)(room[2], wide, from, j->item, (last - first) * line_elements(j));
    from = room[2];
  }
  for (int d = j->n - 1; d > 0; d--) {
    j->loop((char*[]){room[d - 1], from}, NULL, (last - first) * j->lines[d], &j->shape[d]);
    from = room[d - 1];
  }
  s.origin = first;
  s.first += begin;
  s.count += begin;
  s.weights += begin * s.taps;
  if (s.fixed) s.fixed += begin * s.taps;
  char* const to = j->to + (image * s.out + begin) * s.inner * j->item;
  s.out = end - begin;
  j->loop((char*[]){j->work == j->dtype ? to : room[3], from}, NULL, 1, &s);
  if (j->work != j->dtype) shmt__cast_loop(j->dtype, j->work)(to, j->item, room[3], wide, s.out * s.inner);
}

static void run_blocks(void* ctx, int64_t begin, int64_t end) {
  job* j = ctx;
  const uint64_t nbytes = j->room[0] + j->room[1] + j->room[2] + j->room[3];
  void* memory = NULL;
  char* room[4];

  if (shmt__alloc(nbytes, &memory) != SHMT_OK) {
    /* relaxed: read after the pool has joined. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return;
  }
  room[0] = memory;
  for (int i = 1; i < 4; i++) room[i] = room[i - 1] + j->room[i - 1];
  for (; begin < end; begin++) run_block(j, begin, room);
  shmt__dealloc(memory, nbytes);
}

/* Lines of a block, and the room that it needs. */
static void choose_blocks(job* j) {
  const shmt__resample_shape* s = &j->shape[0];
  const int64_t item = shmt__dtype_size[j->work];
  int64_t most = 1, bytes[3] = {0, 0, j->work == j->dtype ? 0 : line_elements(j) * item}, needed = 0;

  for (int d = 1; d < j->n; d++) bytes[d - 1] = j->lines[d] * j->shape[d].out * j->shape[d].inner * item;
  for (int64_t p = 0; p < s->out; p++) most = s->count[p] > most ? s->count[p] : most;
  int64_t lines = most * (j->n == MOST_DIMS ? VOLUME_LINES : IMAGE_LINES);
  if (lines * (bytes[0] + bytes[1] + bytes[2]) < BLOCK_BYTES) lines = BLOCK_BYTES / (bytes[0] + bytes[1] + bytes[2] + 1);
  const double rows = (double)(lines - most) * (double)s->out / (double)s->in;
  j->rows = rows < 1 ? 1 : rows < (double)s->out ? (int64_t)rows : s->out;
  j->blocks = (s->out + j->rows - 1) / j->rows;
  for (int64_t b = 0; b < j->blocks; b++) {
    const int64_t end = (b + 1) * j->rows < s->out ? (b + 1) * j->rows : s->out;
    int64_t first, last;
    find_lines(s, b * j->rows, end, &first, &last);
    needed = last - first > needed ? last - first : needed;
  }
  for (int i = 0; i < 3; i++) j->room[i] = ((uint64_t)(needed * bytes[i]) + 63) / 64 * 64;
  j->room[3] = j->work == j->dtype ? 0 : (uint64_t)(j->rows * s->inner * item);
}

static shmt_status run(job* j, int64_t images) {
  const shmt__resample_shape* s = &j->shape[0];

  choose_blocks(j);
  shmt__parallel_for(images * j->blocks, GRAIN / (j->rows * s->inner + 1) + 1, run_blocks, j);
  SHMT_REQUIRE(!atomic_load_explicit(&j->failed, memory_order_relaxed), SHMT_E_NOMEM, "_resample(): %" PRId64
               " lines between two dims", j->rows);
  return SHMT_OK;
}

/* --- backwards ---------------------------------------------------------------------------------- */

typedef struct walk {
  char *to, *from;
  int64_t to_step, from_step; /* bytes from slab to slab */
  shmt__loop loop;
  const shmt__resample_shape* shape;
} walk;

static void run_slabs(void* ctx, int64_t begin, int64_t end) {
  const walk* w = ctx;
  char* data[2] = {w->to + begin * w->to_step, w->from + begin * w->from_step};

  w->loop(data, NULL, end - begin, w->shape);
}

/* The gradient along one dim, from the output's size to the input's. */
static shmt_status go_back(shmt_tensor* given, int64_t dim, int64_t size, const char* mode, plan* p, double scale,
                           shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  shmt__resample_shape s = {0};
  int64_t sizes[SHMT_MAX_DIMS];
  const int64_t present = given->sizes[dim];

  SHMT_TRY(make_plan(p, size, present, mode, scale, &s));
  memcpy(sizes, given->sizes, (size_t)given->n_dims * sizeof *sizes);
  sizes[dim] = size;
  s.inner = 1;
  for (int d = (int)dim + 1; d < given->n_dims; d++) s.inner *= sizes[d];
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, given->n_dims}, given->dtype, given->device, SHMT_CONTIGUOUS_FORMAT,
                              &result));
  if (!shmt__tensor_is_meta(given)) {
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    if (result->numel > 0) {
      SHMT_TRY(shmt__tensor_contiguous(given, SHMT_CONTIGUOUS_FORMAT, &dense));
      const int64_t item = shmt__tensor_item_bytes(given);
      walk w = {shmt__tensor_data(result), shmt__tensor_data(dense), size * s.inner * item, present * s.inner * item,
                shmt__loops[SHMT_LOOP_resample_backward][given->dtype], &s};
      shmt__parallel_for(result->numel / (size * s.inner), GRAIN / (s.out * s.inner * 4 + 1) + 1, run_slabs, &w);
    }
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- operators ---------------------------------------------------------------------------------- */

static shmt_status check(const shmt_tensor* t, shmt_ints size, shmt_floats scale) {
  SHMT_REQUIRE(size.len == t->n_dims, SHMT_E_RUNTIME, "_resample(): %d sizes of %d dims", (int)size.len, t->n_dims);
  SHMT_REQUIRE(scale.len >= 1 && scale.len <= MOST_DIMS && scale.len <= t->n_dims, SHMT_E_RUNTIME,
               "_resample(): expected scales of 1 to %d of %d dims, got %d", MOST_DIMS, t->n_dims, (int)scale.len);
  for (int64_t d = 0; d < t->n_dims - scale.len; d++)
    SHMT_REQUIRE(size.data[d] == t->sizes[d], SHMT_E_RUNTIME,
                 "_resample(): size %" PRId64 " at dimension %" PRId64 " is not that of the input, %" PRId64, size.data[d], d,
                 t->sizes[d]);
  return SHMT_OK;
}

/* The tables of all dims; `inner` elements behind them go along. */
static shmt_status prepare(job* j, const shmt_tensor* self, shmt_ints size, const char* mode, shmt_floats scale,
                           int64_t inner, plan* plans) {
  const int64_t outer = self->n_dims - scale.len;
  int64_t lines = 1;

  j->n = (int)scale.len;
  for (int d = 0; d < j->n; d++) {
    SHMT_TRY(make_plan(&plans[d], self->sizes[outer + d], size.data[outer + d], mode, scale.data[d], &j->shape[d]));
    if (self->dtype == SHMT_UINT8) SHMT_TRY(fix_weights(&plans[d], &j->shape[d]));
    j->lines[d] = lines;
    if (d > 0) lines *= j->shape[d].in;
  }
  for (int d = j->n - 1; d >= 0; d--) {
    j->shape[d].inner = inner;
    inner *= j->shape[d].out;
  }
  return SHMT_OK;
}

/* The format in which the channels come last, if all other dims are resized. */
static shmt_memory_format format_of(const shmt_tensor* self, shmt_floats scale) {
  return scale.len == self->n_dims - 2 ? shmt__tensor_suggest_format(self) : SHMT_CONTIGUOUS_FORMAT;
}

static shmt_status forwards(shmt_tensor* self, shmt_ints size, const char* mode, shmt_floats scale, plan* plans,
                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  job j = {0};

  j.dtype = self->dtype;
  j.work = shmt__is_half(self->dtype) ? SHMT_FLOAT32 : self->dtype;
  SHMT_REQUIRE_LOOP(SHMT_LOOP_resample, j.work, "interpolate");
  SHMT_TRY(check(self, size, scale));
  const shmt_memory_format format = format_of(self, scale);
  SHMT_TRY(prepare(&j, self, size, mode, scale, format == SHMT_CONTIGUOUS_FORMAT ? 1 : self->sizes[1], plans));
  SHMT_TRY(shmt__tensor_empty(size, self->dtype, self->device, format, &result));
  if (!shmt__tensor_is_meta(self) && result->numel > 0) {
    SHMT_TRY(shmt__tensor_contiguous(self, format, &dense));
    j.to = shmt__tensor_data(result);
    j.from = shmt__tensor_data(dense);
    j.item = shmt__tensor_item_bytes(self);
    j.loop = shmt__loops[SHMT_LOOP_resample][j.work];
    SHMT_TRY(run(&j, result->numel / (j.shape[0].out * j.shape[0].inner)));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

static shmt_status backwards(shmt_tensor* grad, shmt_ints size, const char* mode, shmt_floats scale, plan* plans,
                             shmt_tensor** out) {
  const shmt_dtype work = shmt__is_half(grad->dtype) ? SHMT_FLOAT32 : grad->dtype;
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_REQUIRE_LOOP(SHMT_LOOP_resample_backward, work, "interpolate");
  SHMT_TRY(check(grad, size, scale));
  SHMT_TRY(shmt__tensor_cast(grad, work, &result));
  for (int64_t i = 0; i < scale.len; i++) {
    const int64_t dim = grad->n_dims - scale.len + i;
    shmt_tensor* next = NULL;
    SHMT_TRY(go_back(result, dim, size.data[dim], mode, &plans[i], scale.data[i], &next));
    shmt__tensor_release(result);
    result = next;
  }
  return shmt__tensor_cast(result, grad->dtype, out);
}

shmt_status shmt__resample(shmt_tensor* self, shmt_ints size, const char* mode, bool align_corners, shmt_floats scale,
                           bool antialias, shmt_tensor** out) {
  const plan p = {.align_corners = align_corners, .antialias = antialias};
  plan plans[MOST_DIMS] = {p, p, p};
  const shmt_status status = forwards(self, size, mode, scale, plans, out);

  for (int i = 0; i < MOST_DIMS; i++) plan_fini(&plans[i]);
  return status;
}

shmt_status shmt__resample_backward(shmt_tensor* grad_output, shmt_ints size, const char* mode, bool align_corners,
                                    shmt_floats scale, bool antialias, shmt_tensor** out) {
  const plan p = {.align_corners = align_corners, .antialias = antialias};
  plan plans[MOST_DIMS] = {p, p, p};
  const shmt_status status = backwards(grad_output, size, mode, scale, plans, out);

  for (int i = 0; i < MOST_DIMS; i++) plan_fini(&plans[i]);
  return status;
}
