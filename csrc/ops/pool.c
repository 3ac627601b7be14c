/* ops/pool.c -- maxima and averages of windows, in one to three dimensions. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy.h"
#include "iter/pack.h"
#include "kernels/pool.h"
#include "kernels/shapes.h"
#include "ops/check.h"
#include "ops/pool.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

enum { GRAIN = 16384 };

/* What a pooling operator is given, for its last n dims. */
typedef struct params {
  const char* name;
  int n;
  shmt_ints kernel, stride, padding, dilation;
  bool ceil_mode;
} params;

static int64_t at(shmt_ints v, int d, int64_t missing) {
  return v.len <= 0 ? missing : v.len == 1 ? v.data[0] : v.data[d];
}

static shmt_status check_lengths(const params* p) {
  static const char* const tuples[] = {"one int", "two ints", "three ints"};
  const char* many = tuples[p->n - 1];

  SHMT_REQUIRE(p->kernel.len == 1 || p->kernel.len == p->n, SHMT_E_RUNTIME,
               "%s: kernel_size must either be a single int, or a tuple of %s", p->name, many);
  SHMT_REQUIRE(p->stride.len <= 1 || p->stride.len == p->n, SHMT_E_RUNTIME,
               "%s: stride must either be omitted, a single int, or a tuple of %s", p->name, many);
  SHMT_REQUIRE(p->padding.len <= 1 || p->padding.len == p->n, SHMT_E_RUNTIME,
               "%s: padding must either be a single int, or a tuple of %s", p->name, many);
  SHMT_REQUIRE(p->dilation.len <= 1 || p->dilation.len == p->n, SHMT_E_RUNTIME,
               "%s: dilation must be either a single int, or a tuple of %s", p->name, many);
  return SHMT_OK;
}

static shmt_status check_input(const char* name, int n, const shmt_tensor* t) {
  bool fits = t->n_dims == n + 1 || t->n_dims == n + 2;

  for (int d = 0; fits && d < t->n_dims; d++) fits = t->sizes[d] > 0 || (d == 0 && t->n_dims == n + 2);
  SHMT_REQUIRE(n == 1 || t->n_dims == n + 1 || t->n_dims == n + 2, SHMT_E_RUNTIME,
               "non-empty %dD or %dD (batch mode) tensor expected for input", n + 1, n + 2);
  for (int d = t->n_dims - n - 1; n == 3 && !fits && d < t->n_dims; d++)
    SHMT_REQUIRE(t->sizes[d] > 0, SHMT_E_RUNTIME,
                 "%s(): Expected input's non-batch dimensions to have positive length, but input has a shape of %s",
                 name, SHMT_SHAPE_TEXT(t));
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME,
               "%s(): Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for input, but got:%s", name,
               n + 1, n + 2, SHMT_SHAPE_TEXT(t));
  return SHMT_OK;
}

/* As in torch: what does not fit 32 bits is refused, so that sums and products below fit 64. */
static shmt_status check_range(const params* p, const char* what, int64_t value) {
  SHMT_REQUIRE(value >= INT32_MIN && value <= INT32_MAX, SHMT_E_RUNTIME,
               "%s(): %s %" PRId64 ": value cannot be converted to type int without overflow", p->name, what, value);
  return SHMT_OK;
}

/* Fill s and the result's sizes. */
static shmt_status find_shape(const params* p, const shmt_tensor* self, shmt__pool_shape* s, int64_t* sizes) {
  SHMT_TRY(check_lengths(p));
  *s = (shmt__pool_shape){{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, true, 0};
  for (int d = 0; d < p->n; d++) {
    const int k = 3 - p->n + d;
    s->kernel[k] = at(p->kernel, d, 1);
    s->stride[k] = at(p->stride, d, s->kernel[k]);
    s->padding[k] = at(p->padding, d, 0);
    s->dilation[k] = at(p->dilation, d, 1);
    SHMT_TRY(check_range(p, "kernel_size", s->kernel[k]));
    SHMT_TRY(check_range(p, "stride", s->stride[k]));
    SHMT_TRY(check_range(p, "padding", s->padding[k]));
    SHMT_TRY(check_range(p, "dilation", s->dilation[k]));
    SHMT_REQUIRE(s->stride[k] != 0, SHMT_E_RUNTIME, "stride should not be zero");
    SHMT_REQUIRE(s->kernel[k] > 0 && s->stride[k] > 0, SHMT_E_RUNTIME,
                 "kernel size and stride should be greater than zero, but got kernel %" PRId64 " and stride %" PRId64,
                 s->kernel[k], s->stride[k]);
    SHMT_REQUIRE(s->dilation[k] > 0, SHMT_E_RUNTIME, "dilation should be greater than zero, but got dilation %" PRId64,
                 s->dilation[k]);
    SHMT_REQUIRE(s->padding[k] >= 0, SHMT_E_RUNTIME, "pad must be non-negative, but got pad: %" PRId64, s->padding[k]);
    SHMT_REQUIRE(s->padding[k] <= ((s->kernel[k] - 1) * s->dilation[k] + 1) / 2, SHMT_E_RUNTIME,
                 "pad should be at most half of effective kernel size, but got pad=%" PRId64 ", kernel_size=%" PRId64
                 " and dilation=%" PRId64, s->padding[k], s->kernel[k], s->dilation[k]);
  }
  SHMT_TRY(check_input(p->name, p->n, self));
  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  for (int d = 0; d < p->n; d++) {
    const int k = 3 - p->n + d, at_dim = self->n_dims - p->n + d;
    const int64_t in = self->sizes[at_dim];
    SHMT_REQUIRE(in <= INT64_MAX / 4, SHMT_E_RUNTIME, "%s(): input size %" PRId64 " is too large", p->name, in);
    const int64_t reach = s->dilation[k] * (s->kernel[k] - 1) + 1;
    const int64_t room = in + 2 * s->padding[k] - reach + (p->ceil_mode ? s->stride[k] - 1 : 0);
    int64_t out = (room >= 0 ? room / s->stride[k] : -1) + 1;
    /* The last window must begin inside the image or its near padding. */
    if (p->ceil_mode && (out - 1) * s->stride[k] >= in + s->padding[k]) out--;
    s->in[k] = in;
    s->out[k] = out;
    sizes[at_dim] = out;
  }
  for (int d = 0; d < 3; d++)
    SHMT_REQUIRE(s->out[d] >= 1, SHMT_E_RUNTIME,
                 "Given input size: (%" PRId64 "x%" PRId64 "x%" PRId64 "). Calculated output size: (%" PRId64 "x%" PRId64
                 "x%" PRId64 "). Output size is too small",
                 p->n == 3 ? s->in[0] : self->sizes[self->n_dims - p->n - 1], s->in[1], s->in[2],
                 p->n == 3 ? s->out[0] : self->sizes[self->n_dims - p->n - 1], s->out[1] < 1 ? 0 : s->out[1],
                 s->out[2] < 1 ? 0 : s->out[2]);
  return SHMT_OK;
}

/* --- the walk over planes ---------------------------------------------------------------- */

typedef struct planes {
  char* data[3];
  int64_t step[3]; /* bytes from plane to plane */
  shmt__loop loop;
  const shmt__pool_shape* shape;
} planes;

static void run_planes(void* ctx, int64_t begin, int64_t end) {
  const planes* p = ctx;
  char* data[3];

  for (int k = 0; k < 3; k++) data[k] = p->data[k] ? p->data[k] + begin * p->step[k] : NULL;
  p->loop(data, NULL, end - begin, p->shape);
}

/* Images that lie otherwise: laid dense, as many planes at a time as are not much. */
enum { GATHERED_BYTES = 64 << 10 };
typedef struct gathered {
  const planes* p;
  int image; /* the operand */
  shmt__part part; /* all of it */
  shmt__cut cut;
  int64_t plane; /* elements */
  uint64_t room;
  atomic_bool failed; /* out of memory */
} gathered;

static void run_gathered(void* ctx, int64_t begin, int64_t end) {
  gathered* g = ctx;
  void* room = NULL;

  if (shmt__alloc(g->room, &room) != SHMT_OK) {
    atomic_store_explicit(&g->failed, true, memory_order_relaxed); /* read after the pieces are done */
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    shmt__part part;
    char* data[3];
    const int64_t first = shmt__cut_take(&g->cut, &g->part, i, &part) / g->plane;
    for (int k = 0; k < 3; k++) data[k] = g->p->data[k] ? g->p->data[k] + first * g->p->step[k] : NULL;
    data[g->image] = shmt__packed(&part, room);
    g->p->loop(data, NULL, shmt__part_numel(&part) / g->plane, g->p->shape);
  }
  shmt__dealloc(room, g->room);
}

static shmt_status gather_planes(const planes* p, int image, const shmt_tensor* t, int64_t grain) {
  gathered g = {.p = p, .image = image, .plane = SHMT_POOL_PLANE(p->shape->in)};
  const int64_t bytes = g.plane * shmt__tensor_item_bytes(t), most = bytes > GATHERED_BYTES ? bytes : GATHERED_BYTES;

  shmt__part_init(&g.part, t, SHMT_CONTIGUOUS_FORMAT);
  shmt__cut_init(&g.cut, &g.part, most);
  g.room = (uint64_t)most;
  shmt__parallel_for(g.cut.n, grain / (most / bytes) + 1, run_gathered, &g);
  SHMT_REQUIRE(!atomic_load_explicit(&g.failed, memory_order_relaxed), SHMT_E_NOMEM, "pooling: a plane of %" PRId64
               " elements", g.plane);
  return SHMT_OK;
}

static shmt_status walk_planes(int row, const shmt__pool_shape* s, shmt_tensor* const tensors[3], const bool is_image[3]) {
  const int64_t ins = s->in[0] * s->in[1] * s->in[2], outs = s->out[0] * s->out[1] * s->out[2];
  planes p = {.shape = s};
  int64_t n = 0;
  int odd = 0; /* the image, if it does not lie dense */

  for (int k = 0; k < 3; k++) {
    if (!tensors[k]) continue;
    p.data[k] = shmt__tensor_data(tensors[k]);
    p.step[k] = (is_image[k] ? ins : outs) * shmt__tensor_item_bytes(tensors[k]);
    n = tensors[k]->numel / (is_image[k] ? ins : outs);
    if (is_image[k] && !shmt__tensor_is_contiguous(tensors[k])) odd = k;
  }
  p.loop = shmt__loops[row][tensors[0]->dtype];
  /* A window may be larger than any image. */
  double work = (double)outs * (double)s->kernel[0] * (double)s->kernel[1] * (double)s->kernel[2];
  if (work < (double)ins) work = (double)ins; /* of adaptive ones, whose windows have no size of their own */
  const int64_t grain = work < GRAIN ? GRAIN / ((int64_t)work + 1) + 1 : 1;
  if (odd) return gather_planes(&p, odd, tensors[odd], grain);
  shmt__parallel_for(n, grain, run_planes, &p);
  return SHMT_OK;
}

/* --- images whose channels lie side by side ------------------------------------------------ */

enum { MANY_CHANNELS = 8 };

typedef struct rows {
  char* data[3]; /* outputs, indices (which may be missing) and the image, in the loop's order */
  int64_t row[3], image[3]; /* bytes from row of outputs to row, and from image to image */
  shmt__loop loop;
  const shmt__pool_shape* shape;
  int64_t channels;
  bool is_adaptive;
} rows;

static void run_rows(void* ctx, int64_t begin, int64_t end) {
  const rows* p = ctx;
  const int64_t* out = p->shape->out;

  for (int64_t i = begin; i < end; i++) {
    const int64_t at = i % (out[0] * out[1]), image = i / (out[0] * out[1]);
    const shmt__pool_row row = {p->shape, p->is_adaptive, p->channels, at / out[1], at % out[1]};
    char* data[3];
    for (int k = 0; k < 3; k++)
      data[k] = p->data[k] ? p->data[k] + image * p->image[k] + at * p->row[k] : NULL;
    p->loop(data, NULL, out[2], &row);
  }
}

/* Windows of neighbouring rows overlap: what adds to the image takes all of its rows. */
static void run_images(void* ctx, int64_t begin, int64_t end) {
  const int64_t* out = ((const rows*)ctx)->shape->out;

  run_rows(ctx, begin * out[0] * out[1], end * out[0] * out[1]);
}

static bool is_adaptive(int row) {
  return row == SHMT_LOOP_adaptive_max_pool || row == SHMT_LOOP_adaptive_avg_pool ||
         row == SHMT_LOOP_adaptive_avg_pool_backward;
}

/* The loop that does the same for channels side by side. */
static int channels_last_of(int row) {
  switch (row) {
    case SHMT_LOOP_max_pool:
    case SHMT_LOOP_adaptive_max_pool: return SHMT_LOOP_max_pool_channels_last;
    case SHMT_LOOP_max_pool_backward: return SHMT_LOOP_max_pool_backward_channels_last;
    case SHMT_LOOP_avg_pool:
    case SHMT_LOOP_adaptive_avg_pool: return SHMT_LOOP_avg_pool_channels_last;
    default: return SHMT_LOOP_avg_pool_backward_channels_last;
  }
}

/* The format to work in: the tensor's own where it has many channels side by side and there is a loop for them. */
static shmt_memory_format format_for(const shmt_tensor* self, int row, const shmt__pool_shape* s, int n) {
  const bool as_it_lies = self->n_dims == n + 2 && self->sizes[1] >= MANY_CHANNELS &&
                          shmt__loops[channels_last_of(row)][self->dtype] != NULL &&
                          s->in[0] * s->in[1] * s->in[2] <= INT32_MAX;

  return as_it_lies ? shmt__tensor_suggest_format(self) : SHMT_CONTIGUOUS_FORMAT;
}

static shmt_status walk_rows(int row, const shmt__pool_shape* s, shmt_tensor* const tensors[3], const bool is_image[3]) {
  rows p = {.shape = s, .is_adaptive = is_adaptive(row), .channels = tensors[0]->sizes[1]};
  const int64_t ins = s->in[0] * s->in[1] * s->in[2], outs = s->out[0] * s->out[1] * s->out[2];

  for (int k = 0; k < 3; k++) {
    if (!tensors[k]) continue;
    const int64_t bytes = p.channels * shmt__tensor_item_bytes(tensors[k]);
    p.data[k] = shmt__tensor_data(tensors[k]);
    p.image[k] = (is_image[k] ? ins : outs) * bytes;
    p.row[k] = is_image[k] ? 0 : s->out[2] * bytes;
  }
  p.loop = shmt__loops[channels_last_of(row)][tensors[0]->dtype];
  const bool adds = is_image[0];
  const int64_t rows_of = s->out[0] * s->out[1];
  const double work = (double)s->out[2] * (double)s->kernel[0] * (double)s->kernel[1] * (double)s->kernel[2] *
                      (double)p.channels * (adds ? (double)rows_of : 1.0);
  shmt__parallel_for(tensors[0]->sizes[0] * (adds ? 1 : rows_of), work < GRAIN ? GRAIN / ((int64_t)work + 1) + 1 : 1,
                     adds ? run_images : run_rows, &p);
  return SHMT_OK;
}

/* tensors: dense in `format`, in the loop's order; those that is_image have planes of the input's size. An image behind the
 * first operand may lie anyhow in the contiguous format. */
static shmt_status walk(shmt_memory_format format, int row, const shmt__pool_shape* s, shmt_tensor* const tensors[3],
                        const bool is_image[3]) {
  return (format == SHMT_CONTIGUOUS_FORMAT ? walk_planes : walk_rows)(row, s, tensors, is_image);
}

/* An image for walk(). New reference. */
static shmt_status find_image(shmt_tensor* self, shmt_memory_format format, shmt_tensor** out) {
  if (format != SHMT_CONTIGUOUS_FORMAT) return shmt__tensor_contiguous(self, format, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

/* Results take the input's memory format. */
static shmt_status in_format_of(const shmt_tensor* self, shmt_tensor** t) {
  SHMT_AUTO(shmt_tensor) dense = SHMT_TAKE(*t);

  return shmt__tensor_contiguous(dense, shmt__tensor_suggest_format(self), t);
}

/* --- maxima --------------------------------------------------------------------------------- */

/* Which operands are images: of out, indices and the image. */
static const bool MAX_IMAGES[3] = {false, false, true};
/* Of the image's gradient, the outputs' and indices. */
static const bool GRAD_IMAGES[3] = {true, false, false};

static shmt_status max_pool(const params* p, int row, const shmt__pool_shape* s, const int64_t* sizes,
                            shmt_tensor* self, shmt_tensor** out, shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;
  const shmt_ints shape = {sizes, self->n_dims};
  const shmt_memory_format format = format_for(self, row, s, p->n);

  SHMT_REQUIRE_LOOP(row, self->dtype, p->name);
  SHMT_TRY(shmt__tensor_empty(shape, self->dtype, self->device, format, &values));
  SHMT_TRY(shmt__tensor_empty(shape, SHMT_INT64, self->device, format, &where));
  if (!shmt__tensor_is_meta(self) && values->numel > 0) {
    SHMT_TRY(find_image(self, format, &dense));
    SHMT_TRY(walk(format, row, s, (shmt_tensor* const[]){values, where, dense}, MAX_IMAGES));
  }
  SHMT_TRY(in_format_of(self, &values));
  SHMT_TRY(in_format_of(self, &where));
  *out = SHMT_TAKE(values);
  *indices = SHMT_TAKE(where);
  return SHMT_OK;
}

shmt_status shmt__max_pool_alone(const char* name, int n, shmt_tensor* self, shmt_ints kernel_size, shmt_ints stride,
                                 shmt_ints padding, shmt_ints dilation, bool ceil_mode, shmt_tensor** out) {
  const params p = {name, n, kernel_size, stride, padding, dilation, ceil_mode};
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  shmt__pool_shape s;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_TRY(find_shape(&p, self, &s, sizes));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_max_pool, self->dtype, p.name);
  const shmt_memory_format format = format_for(self, SHMT_LOOP_max_pool, &s, n);
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, self->n_dims}, self->dtype, self->device, format, &values));
  if (values->numel > 0) {
    SHMT_TRY(find_image(self, format, &dense));
    SHMT_TRY(walk(format, SHMT_LOOP_max_pool, &s, (shmt_tensor* const[]){values, NULL, dense}, MAX_IMAGES));
  }
  SHMT_TRY(in_format_of(self, &values));
  *out = SHMT_TAKE(values);
  return SHMT_OK;
}

#define MAX_POOL(N)                                                                                              \
  shmt_status shmt__max_pool##N##d(shmt_tensor* self, shmt_ints kernel_size, shmt_ints stride, shmt_ints padding, \
                                   shmt_ints dilation, bool ceil_mode, shmt_tensor** out, shmt_tensor** indices) { \
    const params p = {"max_pool" #N "d", N, kernel_size, stride, padding, dilation, ceil_mode};                  \
    shmt__pool_shape s;                                                                                          \
    int64_t sizes[SHMT_MAX_DIMS];                                                                                \
    SHMT_TRY(find_shape(&p, self, &s, sizes));                                                                   \
    return max_pool(&p, SHMT_LOOP_max_pool, &s, sizes, self, out, indices);                                      \
  }
MAX_POOL(1)
MAX_POOL(2)
MAX_POOL(3)
#undef MAX_POOL

/* Do the indices, dense and as many as the gradient's elements, lie in their planes? */
static shmt_status check_where(const shmt_tensor* where, int64_t plane) {
  const int64_t* v = shmt__tensor_data(where);

  for (int64_t i = 0; i < where->numel; i++)
    SHMT_REQUIRE(v[i] >= 0 && v[i] < plane, SHMT_E_RUNTIME,
                 "max_pool_backward(): index %" PRId64 " is outside a plane of %" PRId64 " elements", v[i], plane);
  return SHMT_OK;
}

shmt_status shmt__max_pool_backward(shmt_tensor* grad, shmt_ints sizes, shmt_tensor* indices, int64_t n,
                                    shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  shmt__pool_shape s = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, true, 0};

  SHMT_REQUIRE_LOOP(SHMT_LOOP_max_pool_backward, grad->dtype, "max_pool_backward");
  SHMT_REQUIRE(n >= 1 && n <= 3 && sizes.len >= n && grad->n_dims == sizes.len, SHMT_E_RUNTIME,
               "max_pool_backward(): the gradient has shape %s, the input %" PRId64 " dimensions",
               SHMT_SHAPE_TEXT(grad), sizes.len);
  SHMT_REQUIRE(indices->dtype == SHMT_INT64 && shmt__sizes_are(indices, shmt__tensor_sizes(grad)), SHMT_E_RUNTIME,
               "max_pool_backward(): %s indices of size %s do not fit a gradient of size %s",
               shmt__dtype_title(indices->dtype), SHMT_SHAPE_TEXT(indices), SHMT_SHAPE_TEXT(grad));
  for (int64_t d = 0; d < sizes.len - n; d++)
    SHMT_REQUIRE(sizes.data[d] == grad->sizes[d], SHMT_E_RUNTIME,
                 "max_pool_backward(): a gradient of size %s does not fit an input with %" PRId64 " at dimension %" PRId64,
                 SHMT_SHAPE_TEXT(grad), sizes.data[d], d);
  for (int d = 0; d < n; d++) {
    s.in[3 - n + d] = sizes.data[sizes.len - n + d];
    s.out[3 - n + d] = grad->sizes[sizes.len - n + d];
  }
  const shmt_memory_format format = format_for(grad, SHMT_LOOP_max_pool_backward, &s, (int)n);
  SHMT_TRY(shmt__tensor_empty(sizes, grad->dtype, grad->device, format, &result));
  if (!shmt__tensor_is_meta(grad)) {
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    if (grad->numel > 0) {
      SHMT_TRY(shmt__tensor_contiguous(grad, format, &dense));
      SHMT_TRY(shmt__tensor_contiguous(indices, format, &where));
      SHMT_TRY(check_where(where, s.in[0] * s.in[1] * s.in[2]));
      SHMT_TRY(walk(format, SHMT_LOOP_max_pool_backward, &s, (shmt_tensor* const[]){result, dense, where}, GRAD_IMAGES));
    }
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- averages ---------------------------------------------------------------------------------- */

static const bool AVG_IMAGES[3] = {false, true, false};

static shmt_status average(const char* name, int n, int row, const shmt__pool_shape* s, const int64_t* sizes,
                           shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;

  SHMT_REQUIRE_LOOP(row, self->dtype, name);
  const shmt_memory_format format = format_for(self, row, s, n);
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, self->n_dims}, self->dtype, self->device, format, &values));
  if (!shmt__tensor_is_meta(self) && values->numel > 0) {
    SHMT_TRY(find_image(self, format, &dense));
    SHMT_TRY(walk(format, row, s, (shmt_tensor* const[]){values, dense, NULL}, AVG_IMAGES));
  }
  SHMT_TRY(in_format_of(self, &values));
  *out = SHMT_TAKE(values);
  return SHMT_OK;
}

static shmt_status average_backward(const char* name, int n, int row, const shmt__pool_shape* s, shmt_ints sizes,
                                    shmt_tensor* grad, shmt_ints grad_sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_REQUIRE_LOOP(row, grad->dtype, name);
  SHMT_REQUIRE(shmt__sizes_are(grad, grad_sizes), SHMT_E_RUNTIME, "%s_backward(): expected a gradient of size %s, got %s",
               name, shmt__ints_text(grad_sizes, (char[256]){0}, 256), SHMT_SHAPE_TEXT(grad));
  const shmt_memory_format format = format_for(grad, row, s, n);
  SHMT_TRY(shmt__tensor_empty(sizes, grad->dtype, grad->device, format, &result));
  if (!shmt__tensor_is_meta(grad)) {
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    if (grad->numel > 0) {
      SHMT_TRY(shmt__tensor_contiguous(grad, format, &dense));
      SHMT_TRY(walk(format, row, s, (shmt_tensor* const[]){result, dense, NULL}, GRAD_IMAGES));
    }
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

static shmt_status set_divisor(shmt__pool_shape* s, bool count_include_pad, shmt_opt_int divisor_override) {
  s->count_padding = count_include_pad;
  SHMT_REQUIRE(!divisor_override.has || divisor_override.value != 0, SHMT_E_RUNTIME, "divisor must be not zero");
  s->divisor = divisor_override.has ? divisor_override.value : 0;
  return SHMT_OK;
}

#define AVG_POOL(N)                                                                                                \
  shmt_status shmt__avg_pool##N##d(shmt_tensor* self, shmt_ints kernel_size, shmt_ints stride, shmt_ints padding,  \
                                   bool ceil_mode, bool count_include_pad, shmt_opt_int divisor_override,          \
                                   shmt_tensor** out) {                                                            \
    const params p = {"avg_pool" #N "d", N, kernel_size, stride, padding, SHMT_INTS_EMPTY, ceil_mode};             \
    shmt__pool_shape s;                                                                                            \
    int64_t sizes[SHMT_MAX_DIMS];                                                                                  \
    SHMT_TRY(find_shape(&p, self, &s, sizes));                                                                     \
    SHMT_TRY(set_divisor(&s, count_include_pad, divisor_override));                                                \
    return average(p.name, N, SHMT_LOOP_avg_pool, &s, sizes, self, out);                                              \
  }                                                                                                                \
  shmt_status shmt__avg_pool##N##d_backward(shmt_tensor* grad, shmt_ints sizes, shmt_ints kernel_size,             \
                                            shmt_ints stride, shmt_ints padding, bool ceil_mode,                   \
                                            bool count_include_pad, shmt_opt_int divisor_override,                 \
                                            shmt_tensor** out) {                                                   \
    const params p = {"avg_pool" #N "d", N, kernel_size, stride, padding, SHMT_INTS_EMPTY, ceil_mode};             \
    SHMT_AUTO(shmt_tensor) like = NULL;                                                                            \
    shmt__pool_shape s;                                                                                            \
    int64_t out_sizes[SHMT_MAX_DIMS];                                                                              \
    SHMT_TRY(shmt__tensor_empty(sizes, grad->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT, &like));                    \
    SHMT_TRY(find_shape(&p, like, &s, out_sizes));                                                                 \
    SHMT_TRY(set_divisor(&s, count_include_pad, divisor_override));                                                \
    return average_backward(p.name, N, SHMT_LOOP_avg_pool_backward, &s, sizes, grad,                               \
                            (shmt_ints){out_sizes, sizes.len}, out);                                               \
  }
AVG_POOL(1)
AVG_POOL(2)
AVG_POOL(3)
#undef AVG_POOL

/* --- adaptive -------------------------------------------------------------------------------------- */

/* One average of each whole plane. */
static bool is_mean(const shmt_tensor* self, const shmt__pool_shape* s) {
  bool is_one = shmt__is_floating(self->dtype);

  for (int d = 0; d < 3; d++) is_one = is_one && s->out[d] == 1 && s->in[d] > 0;
  return is_one;
}

static shmt_status mean_of_planes(shmt_tensor* self, int n, shmt_tensor** out) {
  static const int64_t last[] = {-1, -2, -3};
  SHMT_AUTO(shmt_tensor) values = NULL;

  SHMT_TRY(shmt__mean_dims(self, (shmt_ints){last, n}, true, SHMT_DTYPE_NONE, &values));
  SHMT_TRY(in_format_of(self, &values));
  *out = SHMT_TAKE(values);
  return SHMT_OK;
}

static shmt_status adaptive_shape(const char* name, int n, shmt_ints input, shmt_ints output_size, shmt__pool_shape* s,
                                  int64_t* sizes) {
  *s = (shmt__pool_shape){{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, true, 0};
  SHMT_REQUIRE(output_size.len == 1 || n > 1, SHMT_E_RUNTIME,
               "%s() argument 'output_size' should contain one int (got %" PRId64 ")", name, output_size.len);
  SHMT_REQUIRE(output_size.len == 1 || output_size.len == n, SHMT_E_RUNTIME,
               "%s(): internal error: output_size must be %d", name, n);
  SHMT_REQUIRE(input.len == n + 1 || input.len == n + 2, SHMT_E_RUNTIME,
               "%s(): Expected %dD or %dD tensor, but got %s", name, n + 1, n + 2,
               shmt__ints_text(input, (char[256]){0}, 256));
  memcpy(sizes, input.data, (size_t)input.len * sizeof *sizes);
  for (int d = 0; d < n; d++) {
    const int k = 3 - n + d;
    const int64_t want = at(output_size, d, 1);
    SHMT_REQUIRE(want >= 0, SHMT_E_RUNTIME, "%s: elements of output_size must be greater than or equal to 0 but "
                 "received %s", name, shmt__ints_text(output_size, (char[256]){0}, 256));
    s->in[k] = input.data[input.len - n + d];
    SHMT_REQUIRE(s->in[k] > 0, SHMT_E_RUNTIME, "%s(): Expected input to have non-zero size for non-batch dimensions, "
                 "but input has sizes %s", name, shmt__ints_text(input, (char[256]){0}, 256));
    SHMT_REQUIRE(want < INT64_MAX / 4 && s->in[k] < INT64_MAX / 4, SHMT_E_RUNTIME, "%s(): size %" PRId64 " is too large",
                 name, want > s->in[k] ? want : s->in[k]);
    s->out[k] = sizes[input.len - n + d] = want;
    s->kernel[k] = want > 0 ? s->in[k] / want + 1 : 1;
  }
  return SHMT_OK;
}

#define ADAPTIVE(N)                                                                                                \
  shmt_status shmt__adaptive_avg_pool##N##d(shmt_tensor* self, shmt_ints output_size, shmt_tensor** out) {         \
    shmt__pool_shape s;                                                                                            \
    int64_t sizes[SHMT_MAX_DIMS];                                                                                  \
    SHMT_TRY(adaptive_shape("adaptive_avg_pool" #N "d", N, shmt__tensor_sizes(self), output_size, &s, sizes));     \
    if (is_mean(self, &s)) return mean_of_planes(self, N, out);                                                    \
    return average("adaptive_avg_pool" #N "d", N, SHMT_LOOP_adaptive_avg_pool, &s, sizes, self, out);              \
  }                                                                                                                \
  shmt_status shmt__adaptive_avg_pool##N##d_backward(shmt_tensor* grad, shmt_ints sizes, shmt_tensor** out) {      \
    shmt__pool_shape s;                                                                                            \
    int64_t out_sizes[SHMT_MAX_DIMS];                                                                              \
    SHMT_REQUIRE(grad->n_dims > N, SHMT_E_RUNTIME, "adaptive_avg_pool" #N                                          \
                 "d_backward(): a gradient of size %s has too few dimensions", SHMT_SHAPE_TEXT(grad));             \
    const shmt_ints output = {grad->sizes + (grad->n_dims - N), N};                                                \
    SHMT_TRY(adaptive_shape("adaptive_avg_pool" #N "d", N, sizes, output, &s, out_sizes));                         \
    return average_backward("adaptive_avg_pool" #N "d", N, SHMT_LOOP_adaptive_avg_pool_backward, &s, sizes, grad,  \
                            (shmt_ints){out_sizes, sizes.len}, out);                                               \
  }                                                                                                                \
  shmt_status shmt__adaptive_max_pool##N##d(shmt_tensor* self, shmt_ints output_size, shmt_tensor** out,           \
                                            shmt_tensor** indices) {                                               \
    const params p = {"adaptive_max_pool" #N "d", N, SHMT_INTS_EMPTY, SHMT_INTS_EMPTY, SHMT_INTS_EMPTY,            \
                      SHMT_INTS_EMPTY, false};                                                                     \
    shmt__pool_shape s;                                                                                            \
    int64_t sizes[SHMT_MAX_DIMS];                                                                                  \
    SHMT_TRY(adaptive_shape(p.name, N, shmt__tensor_sizes(self), output_size, &s, sizes));                         \
    return max_pool(&p, SHMT_LOOP_adaptive_max_pool, &s, sizes, self, out, indices);                               \
  }
ADAPTIVE(1)
ADAPTIVE(2)
ADAPTIVE(3)
#undef ADAPTIVE
