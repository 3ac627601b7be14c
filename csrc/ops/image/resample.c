/* ops/image/resample.c -- resizing along the last dims (interpolate): nearest, linear or cubic.
 *
 * A slice is what an image has at one index along a resized dim. Each slice of the result is a weighted sum of a few
 * neighbouring slices of the input. channels_last images are resized as they lie: the channels of a position have the
 * same weights. Images with other strides are copied, and 16-bit floats are widened, a block at a time. The gradient is
 * the same with other tables of neighbours and weights.
 */
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "iter/copy/pack.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/dtype_names.h"
#include "ops/shape/table_gather.h"
#include "ops/image/resample_plan.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
  GRAIN_ELEMENTS = 16384,  /* elements that are worth a thread */
  MOST_DIMS = 3,           /* resized dims */
  BLOCK_BYTES = 192 << 10, /* of the slices that a block of the result is made of along the first dim, */
  BLOCK_SLICES = 3,        /* at least so many times those that one slice of the result needs */
  STEP_BYTES = 16 << 10,   /* that are widened, rounded or copied at a time */
};

typedef shmt__resample_plan plan;

/* Kinds of memory: results between two dims; widened slices; slices to be rounded; dense copies of slices. */
enum { BETWEEN, WIDENED = MOST_DIMS - 1, NARROWED, DENSE, ROOMS };

/* A block is some slices of the result along the first resized dim. Its input is resized along the other dims first,
 * beginning with the last, so that only a few slices are in memory between two dims. */
typedef struct resample_job {
  char* to;
  shmt__part from; /* the input: outer dims, resized dims, and perhaps channels */
  int n_outer, n;  /* how many outer and resized dims */
  shmt__resample_args shape[MOST_DIMS]; /* inner: elements behind the dim, which is resized before */
  int64_t slabs[MOST_DIMS];              /* how often each dim is resized for one slice along the first */
  int64_t rows, blocks;                  /* slices of a block; blocks of an image */
  int64_t steps, narrow;                 /* slices at a time: of the input, of the result that is rounded */
  int64_t item;
  shmt_dtype dtype, work; /* work: the dtype of the sums */
  uint64_t room[ROOMS];
  shmt__loop loop;
  atomic_bool failed;
} resample_job;

/* Elements of a slice along the first dim before any dim is resized. */
static int64_t slice_elements(const resample_job* j) {
  return j->n == 1 ? j->shape[0].inner : j->slabs[j->n - 1] * j->shape[j->n - 1].in * j->shape[j->n - 1].inner;
}

/* The input slices that slices [begin, end) of the result are made of. */
static void input_range(const shmt__resample_args* s, int64_t begin, int64_t end, int64_t* first, int64_t* last) {
  *first = s->in;
  *last = 0;
  for (int64_t p = begin; p < end; p++) {
    if (s->count[p] == 0) continue;
    if (s->first[p] < *first) *first = s->first[p];
    if (s->first[p] + s->count[p] > *last) *last = s->first[p] + s->count[p];
  }
  if (*last < *first) *last = *first; /* none */
}

/* Input slices [first, last) of an image, dense. */
static char* find_source(const resample_job* j, int64_t image, int64_t first, int64_t last, char* room) {
  shmt__part slices;

  shmt__part_inner(&j->from, j->n_outer, &slices);
  slices.data += shmt__part_offset(&j->from, j->n_outer, image) + first * slices.strides[0];
  slices.sizes[0] = last - first;
  return last == first ? room : shmt__packed(&slices, room);
}

/* Which slices are in memory, widened and resized along all dims but the first; image -1: none. */
typedef struct held {
  int64_t image, first, last;
} held;

/* Move the slices that a block has in common with the one before to the front; returns how many. */
static int64_t keep_slices(const held* h, int64_t image, int64_t first, int64_t last, int64_t nbytes, char* slices) {
  if (h->image != image || first < h->first || first >= h->last || last < h->last) return 0;
  memmove(slices, slices + (first - h->first) * nbytes, (size_t)((h->last - first) * nbytes));
  return h->last - first;
}

/* Input slices [first, last) of an image, widened and resized along all dims but the first, a few at a time. */
static char* resize_inner_dims(const resample_job* j, int64_t image, int64_t first, int64_t last, held* h,
                               char* const* room) {
  const int64_t wide = shmt__dtype_size[j->work];
  const int64_t made = j->n > 1 ? j->shape[1].out * j->shape[1].inner * wide : 0; /* bytes of one */
  const int64_t step = j->n > 1 ? j->steps : last - first;
  const int64_t kept = j->n > 1 ? keep_slices(h, image, first, last, made, room[BETWEEN]) : 0;
  char* from = room[BETWEEN];

  *h = (held){image, first, last};
  for (int64_t slice = first + kept, some; slice < last; slice += some) {
    some = last - slice < step ? last - slice : step;
    from = find_source(j, image, slice, slice + some, room[DENSE]);
    if (j->work != j->dtype) {
      shmt__cast_loop(j->work, j->dtype)(room[WIDENED], wide, from, j->item, some * slice_elements(j));
      from = room[WIDENED];
    }
    for (int d = j->n - 1; d > 0; d--) {
      char* const to = room[BETWEEN + d - 1] + (d == 1 ? (slice - first) * made : 0);
      j->loop((char*[]){to, from}, NULL, some * j->slabs[d], &j->shape[d]);
      from = to;
    }
  }
  return j->n > 1 ? room[BETWEEN] : from;
}

/* The input slices of block `block` of an image. */
typedef struct span {
  int64_t block, first, last;
} span;

/* found: the input slices of the block before, which is often the same block of another image. h: its slices in
 * memory. */
static void run_block(const resample_job* j, int64_t block, span* found, held* h, char* const* room) {
  const int64_t wide = shmt__dtype_size[j->work];
  const int64_t image = block / j->blocks, begin = block % j->blocks * j->rows;
  const int64_t end = begin + j->rows < j->shape[0].out ? begin + j->rows : j->shape[0].out;
  shmt__resample_args s = j->shape[0];

  if (found->block != block % j->blocks) {
    found->block = block % j->blocks;
    input_range(&s, begin, end, &found->first, &found->last);
  }
  char* const from = resize_inner_dims(j, image, found->first, found->last, h, room);
  s.origin = found->first;
  char* to = j->to + (image * s.out + begin) * s.inner * j->item;
  const int64_t step = j->work == j->dtype ? end - begin : j->narrow;
  for (int64_t p = begin; p < end; p += step, to += step * s.inner * j->item) {
    s.first = j->shape[0].first + p;
    s.count = j->shape[0].count + p;
    s.weights = (const char*)j->shape[0].weights + p * s.taps * wide;
    if (s.fixed) s.fixed = j->shape[0].fixed + p * s.taps;
    s.out = end - p < step ? end - p : step;
    j->loop((char*[]){j->work == j->dtype ? to : room[NARROWED], from}, NULL, 1, &s);
    if (j->work != j->dtype) shmt__cast_loop(j->dtype, j->work)(to, j->item, room[NARROWED], wide, s.out * s.inner);
  }
}

static void run_resample_blocks(void* ctx, int64_t begin, int64_t end) {
  resample_job* j = ctx;
  uint64_t nbytes = 0;
  void* memory = NULL;
  char* room[ROOMS];
  span found = {.block = -1};
  held slices = {.image = -1};

  for (int i = 0; i < ROOMS; i++) nbytes += j->room[i];
  if (shmt__alloc(nbytes, &memory) != SHMT_OK) {
    /* relaxed: read after the pool has joined. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return;
  }
  room[0] = memory;
  for (int i = 1; i < ROOMS; i++) room[i] = room[i - 1] + j->room[i - 1];
  for (; begin < end; begin++) run_block(j, begin, &found, &slices, room);
  shmt__dealloc(memory, nbytes);
}

/* Choose the slices of a block, and the memory that it needs. */
static void plan_blocks(resample_job* j) {
  const shmt__resample_args* s = &j->shape[0];
  const int64_t item = shmt__dtype_size[j->work];
  int64_t most = 1, bytes[ROOMS] = {0}, needed = 0;

  if (j->work != j->dtype) bytes[WIDENED] = slice_elements(j) * item;
  if (!shmt__part_is_dense(&j->from)) bytes[DENSE] = slice_elements(j) * j->item;
  for (int d = 1; d < j->n; d++) bytes[BETWEEN + d - 1] = j->slabs[d] * j->shape[d].out * j->shape[d].inner * item;
  for (int64_t p = 0; p < s->out; p++) most = s->count[p] > most ? s->count[p] : most;
  int64_t slices = most * BLOCK_SLICES, taken = 0;
  for (int i = 1; i < ROOMS; i++) taken += bytes[i];
  const int64_t slice = 1 + (j->n > 1 ? bytes[BETWEEN] : taken);
  if (slices * slice < BLOCK_BYTES) slices = BLOCK_BYTES / slice;
  const double rows = (double)(slices - most) * (double)s->out / (double)s->in;
  j->rows = rows < 1 ? 1 : rows < (double)s->out ? (int64_t)rows : s->out;
  j->blocks = (s->out + j->rows - 1) / j->rows;
  for (int64_t b = 0; b < j->blocks; b++) {
    const int64_t end = (b + 1) * j->rows < s->out ? (b + 1) * j->rows : s->out;
    int64_t first, last;
    input_range(s, b * j->rows, end, &first, &last);
    needed = last - first > needed ? last - first : needed;
  }
  j->steps = j->n == 1 || taken == 0 ? needed : STEP_BYTES / taken + 1 < needed ? STEP_BYTES / taken + 1 : needed;
  j->narrow = STEP_BYTES / (s->inner * item + 1) + 1 < j->rows ? STEP_BYTES / (s->inner * item + 1) + 1 : j->rows;
  if (j->work != j->dtype) bytes[NARROWED] = s->inner * item;
  for (int i = 0; i < ROOMS; i++) {
    const int64_t n = i == NARROWED ? j->narrow : i == BETWEEN ? needed : j->steps;
    j->room[i] = ((uint64_t)(n * bytes[i]) + 63) / 64 * 64;
  }
}

static shmt_status run_resample(resample_job* j, int64_t images) {
  const shmt__resample_args* s = &j->shape[0];

  plan_blocks(j);
  shmt__parallel_for(images * j->blocks, GRAIN_ELEMENTS / (j->rows * s->inner + 1) + 1, run_resample_blocks, j);
  SHMT_REQUIRE(!atomic_load_explicit(&j->failed, memory_order_relaxed), SHMT_E_NOMEM, "_resample(): %" PRId64
               " lines between two dims", j->rows);
  return SHMT_OK;
}

/* --- operators ---------------------------------------------------------------------------------- */

static shmt_status check_resample(const shmt_tensor* t, shmt_ints size, shmt_floats scale) {
  SHMT_REQUIRE(size.len == t->n_dims, SHMT_E_RUNTIME, "_resample(): %d sizes of %d dims", (int)size.len, t->n_dims);
  SHMT_REQUIRE(scale.len >= 1 && scale.len <= MOST_DIMS && scale.len <= t->n_dims, SHMT_E_RUNTIME,
               "_resample(): expected scales of 1 to %d of %d dims, got %d", MOST_DIMS, t->n_dims, (int)scale.len);
  for (int64_t d = 0; d < t->n_dims - scale.len; d++)
    SHMT_REQUIRE(size.data[d] == t->sizes[d], SHMT_E_RUNTIME,
                 "_resample(): size %" PRId64 " at dimension %" PRId64 " is not that of the input, %" PRId64,
                 size.data[d], d, t->sizes[d]);
  return SHMT_OK;
}

/* Fill what does not depend on the layout of the tensors; inner: elements behind the resized dims. */
static shmt_status prepare_resample(resample_job* j, const shmt_tensor* self, shmt_ints size, const char* mode,
                                    shmt_floats scale, bool is_backward, int64_t inner, plan* plans) {
  const int64_t outer = self->n_dims - scale.len;
  const bool bytes = self->dtype == SHMT_UINT8, is_cubic = strcmp(mode, "cubic") == 0;
  int64_t slices = 1;

  j->n = (int)scale.len;
  for (int d = 0; d < j->n; d++) {
    const int64_t in = self->sizes[outer + d], out = size.data[outer + d];
    /* As in torch, a size that stays is copied whatever the scale was. */
    const double by = in == out && (!is_cubic || plans[d].antialias) ? 0 : scale.data[d];
    SHMT_TRY(is_backward ? shmt__resample_plan_backward(&plans[d], out, in, mode, by, &j->shape[d])
                     : shmt__resample_plan_make(&plans[d], in, out, mode, by, bytes, &j->shape[d]));
    if (j->work == SHMT_FLOAT32) shmt__resample_plan_to_float(&plans[d], &j->shape[d]);
    j->slabs[d] = slices;
    if (d > 0) slices *= j->shape[d].in;
  }
  for (int d = j->n - 1; d >= 0; d--) {
    j->shape[d].inner = inner;
    inner *= j->shape[d].out;
  }
  return SHMT_OK;
}

/* The memory format to work in: channels_last where the input has it and all spatial dims are resized. */
static shmt_memory_format format_of(const shmt_tensor* self, shmt_floats scale) {
  return scale.len == self->n_dims - 2 ? shmt__tensor_suggest_format(self) : SHMT_CONTIGUOUS_FORMAT;
}

static shmt_status interpolate(shmt_tensor* self, shmt_ints size, const char* mode, shmt_floats scale, bool is_backward,
                               plan* plans, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  resample_job j = {0};

  j.dtype = self->dtype;
  j.work = shmt__is_half(self->dtype) ? SHMT_FLOAT32 : self->dtype;
  SHMT_REQUIRE_LOOP(is_backward && self->dtype == SHMT_UINT8 ? SHMT_LOOP_table_gather_sum : SHMT_LOOP_resample, j.work,
                    "interpolate");
  const shmt_memory_format format = format_of(self, scale);
  const bool last = format != SHMT_CONTIGUOUS_FORMAT;
  SHMT_TRY(prepare_resample(&j, self, size, mode, scale, is_backward, last ? self->sizes[1] : 1, plans));
  SHMT_TRY(shmt__tensor_empty(size, self->dtype, self->device, format, &result));
  if (!shmt__tensor_is_meta(self) && result->numel > 0) {
    shmt__part_init(&j.from, self, format);
    j.n_outer = last ? 1 : (int)(self->n_dims - scale.len);
    j.to = shmt__tensor_data(result);
    j.item = shmt__tensor_item_bytes(self);
    j.loop = shmt__loops[SHMT_LOOP_resample][j.work];
    SHMT_TRY(run_resample(&j, result->numel / (j.shape[0].out * j.shape[0].inner)));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* nearest: output i takes the input element at floor(i * step); nearest-exact (is_exact): the one at the center of
 * output i. Indices are calculated in float32. */
static shmt_status fill_nearest(shmt__index_table* p, int64_t in, int64_t out, double scale, bool is_exact) {
  const float step = scale > 0 ? (float)(1 / scale) : (float)((double)in / (double)out), shift = is_exact ? 0.5F : 0;

  SHMT_REQUIRE(in > 0 && out > 0, SHMT_E_RUNTIME, SHMT_RESAMPLE_SIZES, in, out);
  SHMT_TRY(shmt__index_table_init(p, in, out));
  for (int64_t i = 0; i < out; i++) {
    const float at = floorf(((float)i + shift) * step);
    p->at[i] = at < (float)(in - 1) ? (int64_t)at : in - 1;
  }
  return SHMT_OK;
}

static shmt_status nearest(shmt_tensor* self, shmt_ints size, bool is_exact, shmt_floats scale, bool is_backward,
                           shmt_tensor** out) {
  const int n = (int)scale.len;
  shmt__index_table tables[SHMT_TABLE_GATHER_DIMS] = {0};
  shmt_status status = SHMT_OK;

  for (int d = 0; status == SHMT_OK && d < n; d++) {
    const int64_t from = self->sizes[self->n_dims - n + d], to = size.data[size.len - n + d];
    status = fill_nearest(&tables[d], is_backward ? to : from, is_backward ? from : to, scale.data[d], is_exact);
  }
  if (status == SHMT_OK)
    status = is_backward ? shmt__table_gather_backward("interpolate", self, tables, n, out)
                         : shmt__table_gather(self, tables, n, out);
  for (int d = 0; d < SHMT_TABLE_GATHER_DIMS; d++) shmt__index_table_fini(&tables[d]);
  return status;
}

/* Resize self to `size`; is_backward: self is a gradient of the resized size, and `size` that of the input. */
static shmt_status resize(shmt_tensor* self, shmt_ints size, const char* mode, bool align_corners, shmt_floats scale,
                          bool antialias, bool is_backward, shmt_tensor** out) {
  const plan p = {.align_corners = align_corners, .antialias = antialias};
  plan plans[MOST_DIMS] = {p, p, p};

  SHMT_TRY(check_resample(self, size, scale));
  const bool is_exact = strcmp(mode, "nearest-exact") == 0;
  if (is_exact || strcmp(mode, "nearest") == 0) return nearest(self, size, is_exact, scale, is_backward, out);
  const shmt_status status = interpolate(self, size, mode, scale, is_backward, plans, out);
  for (int i = 0; i < MOST_DIMS; i++) shmt__resample_plan_fini(&plans[i]);
  return status;
}

/* As in torch, uint8 is the only integer dtype, and only in some modes. */
static shmt_status check_dtype(shmt_dtype dtype, const char* mode, shmt_floats scale, bool antialias) {
  const bool are_bytes = dtype == SHMT_UINT8 && (strncmp(mode, "nearest", 7) == 0 || scale.len == 2);

  SHMT_REFUSE_DTYPE(!shmt__is_floating(dtype) && !are_bytes, dtype, "compute_indices_weights");
  SHMT_REFUSE_DTYPE(antialias && shmt__is_half(dtype), dtype, "compute_index_ranges_weights");
  return SHMT_OK;
}

shmt_status shmt__resample(shmt_tensor* self, shmt_ints size, const char* mode, bool align_corners, shmt_floats scale,
                           bool antialias, shmt_tensor** out) {
  SHMT_TRY(check_dtype(self->dtype, mode, scale, antialias));
  return resize(self, size, mode, align_corners, scale, antialias, false, out);
}

shmt_status shmt__resample_backward(shmt_tensor* grad_output, shmt_ints size, const char* mode, bool align_corners,
                                    shmt_floats scale, bool antialias, shmt_tensor** out) {
  return resize(grad_output, size, mode, align_corners, scale, antialias, true, out);
}
