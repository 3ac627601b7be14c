/* ops/shape/padding.c -- pads (or cuts) the last dims: with a constant, or by reflecting, replicating or wrapping
 * around. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "dispatch/operator.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/check.h"
#include "ops/dtype_names.h"
#include "ops/shape/table_gather.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* pad: (before, after) of the last dim, then of the one before it, and so on. */
static shmt_status check_pad(const shmt_tensor* self, shmt_ints pad) {
  SHMT_REQUIRE(pad.len % 2 == 0, SHMT_E_RUNTIME, "Padding length must be divisible by 2, got %" PRId64 " values",
               pad.len);
  SHMT_REQUIRE(pad.len / 2 <= self->n_dims, SHMT_E_RUNTIME, "Padding length should be less than or equal to two times "
               "the input dimension but got padding length %" PRId64 " and input of dimension %d", pad.len,
               self->n_dims);
  for (int64_t i = 0; i < pad.len / 2; i++) {
    const int64_t before = pad.data[2 * i], after = pad.data[2 * i + 1], most = INT64_MAX / 4;
    int64_t sum = (before > 0 && before <= most ? before : 0) + (after > 0 && after <= most ? after : 0);
    SHMT_REQUIRE(before >= -most && before <= most && after >= -most && after <= most &&
                     !__builtin_add_overflow(sum, self->sizes[self->n_dims - 1 - i], &sum),
                 SHMT_E_RUNTIME, "padding (%" PRId64 ", %" PRId64 ") of an input of size %s is too large", before,
                 after, SHMT_SHAPE_TEXT(self));
  }
  return SHMT_OK;
}

/* The part of t, along the padded dims, in which input and result overlap. */
static shmt_status overlap_view(shmt_tensor* t, shmt_ints pad, const int64_t* input_sizes, int sign,
                                shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], offset = t->offset;

  memcpy(sizes, t->sizes, (size_t)t->n_dims * sizeof *sizes);
  for (int64_t i = 0; i < pad.len / 2; i++) {
    const int d = t->n_dims - 1 - (int)i;
    const int64_t before = sign * pad.data[2 * i];
    const int64_t low = pad.data[2 * i] < 0 ? -pad.data[2 * i] : 0,
                  high = pad.data[2 * i + 1] < 0 ? -pad.data[2 * i + 1] : 0;
    if (before > 0) offset += before * t->strides[d];
    sizes[d] = input_sizes[d] - low - high;
    if (sizes[d] < 0) sizes[d] = 0;
  }
  return shmt__tensor_alias(t, (shmt_ints){sizes, t->n_dims}, shmt__tensor_strides(t), offset, out);
}

/* --- parts for threads ---------------------------------------------------------------------------- */

/* How a new tensor is filled with self and its padding. Both may be parts of tensors. */
typedef struct filling {
  shmt_status (*fill)(const struct filling* p, shmt_tensor* self, shmt_tensor* result);
  shmt_ints pad;
  shmt_scalar value; /* of constant padding */
  int mode;          /* of other padding */
  shmt_tensor *self, *result;
  int dim; /* which is divided between threads */
  atomic_int failed; /* a shmt_status */
} filling;

enum { WORTH_SHARING = 1 << 15 /* elements */ };

/* t from begin to end along dim. */
static shmt_status part_of(shmt_tensor* t, int dim, int64_t begin, int64_t end, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS];

  memcpy(sizes, t->sizes, (size_t)t->n_dims * sizeof *sizes);
  sizes[dim] = end - begin;
  return shmt__tensor_alias(t, (shmt_ints){sizes, t->n_dims}, shmt__tensor_strides(t),
                            t->offset + begin * t->strides[dim], out);
}

static shmt_status fill_part(const filling* p, int64_t begin, int64_t end) {
  SHMT_AUTO(shmt_tensor) from = NULL;
  SHMT_AUTO(shmt_tensor) to = NULL;

  SHMT_TRY(part_of(p->self, p->dim, begin, end, &from));
  SHMT_TRY(part_of(p->result, p->dim, begin, end, &to));
  return p->fill(p, from, to);
}

static void fill_parts(void* ctx, int64_t begin, int64_t end) {
  filling* p = ctx;
  const shmt_status status = fill_part(p, begin, end);

  /* relaxed: read after the pool's own join. */
  if (status != SHMT_OK) atomic_store_explicit(&p->failed, (int)status, memory_order_relaxed);
}

/* The longest dim that is not padded and is outside of those that are; -1: none. */
static int find_shared(const shmt_tensor* t, int n_padded) {
  const int n_dims = t->n_dims - n_padded;
  int64_t inside = 0;
  int dim = -1;

  for (int d = n_dims; d < t->n_dims; d++)
    if (t->strides[d] > inside) inside = t->strides[d];
  for (int d = 0; d < n_dims; d++)
    if (t->strides[d] > inside && (dim < 0 || t->sizes[d] > t->sizes[dim])) dim = d;
  return dim;
}

/* Fills p->result. A thread fills its part as a whole, because borders are copied from where the middle has just been
 * written. */
static shmt_status fill_result(filling* p) {
  const shmt_tensor* t = p->result;

  p->dim = find_shared(t, (int)p->pad.len / 2);
  if (p->dim < 0 || t->numel <= WORTH_SHARING) return p->fill(p, p->self, p->result);
  atomic_init(&p->failed, SHMT_OK);
  shmt__parallel_for(t->sizes[p->dim], WORTH_SHARING / (t->numel / t->sizes[p->dim]) + 1, fill_parts, p);
  const int failed = atomic_load_explicit(&p->failed, memory_order_relaxed);
  SHMT_REQUIRE(failed == SHMT_OK, (shmt_status)failed, "pad(): no memory for a part of %s", SHMT_SHAPE_TEXT(t));
  return SHMT_OK;
}

/* --- constant padding ----------------------------------------------------------------------------- */

static shmt_status fill_constant(const filling* p, shmt_tensor* self, shmt_tensor* result) {
  SHMT_AUTO(shmt_tensor) to = NULL;
  SHMT_AUTO(shmt_tensor) from = NULL;

  SHMT_TRY(shmt__tensor_fill(result, p->value));
  SHMT_TRY(overlap_view(result, p->pad, self->sizes, 1, &to));
  SHMT_TRY(overlap_view(self, p->pad, self->sizes, -1, &from));
  return to->numel > 0 ? shmt__tensor_copy(to, from) : SHMT_OK;
}

/* A copy of what is left when no pad is positive. Its strides are in the order of self's. */
static shmt_status copy_cut(shmt_tensor* self, shmt_ints pad, const int64_t* sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) part = shmt__tensor_ref(self);

  for (int64_t i = 0; i < pad.len / 2; i++) {
    SHMT_AUTO(shmt_tensor) whole = SHMT_TAKE(part);
    const int d = self->n_dims - 1 - (int)i;
    SHMT_TRY(shmt_op_narrow(whole, d, -pad.data[2 * i], sizes[d], &part));
  }
  return shmt_op_clone(part, SHMT_MEMORY_FORMAT_NONE, out);
}

shmt_status shmt__constant_pad_nd(shmt_tensor* self, shmt_ints pad, shmt_scalar value, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  bool grows = false;

  SHMT_TRY(check_pad(self, pad));
  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  for (int64_t i = 0; i < pad.len / 2; i++) {
    const int d = self->n_dims - 1 - (int)i;
    const int64_t before = pad.data[2 * i], after = pad.data[2 * i + 1];
    sizes[d] += before + after;
    grows = grows || before > 0 || after > 0;
    SHMT_REQUIRE(sizes[d] >= 0, SHMT_E_RUNTIME,
                 "The input size %" PRId64 ", plus negative padding %" PRId64 " and %" PRId64
                 " resulted in a negative output size, which is invalid. Check dimension %d of your input.",
                 self->sizes[d], before, after, d);
  }
  if (!grows) return copy_cut(self, pad, sizes, out);
  const shmt_memory_format format = shmt__tensor_suggest_format(self);
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, self->n_dims}, self->dtype, self->device, format, &result));
  if (!shmt__tensor_is_meta(self) && result->numel > 0) {
    filling p = {.fill = fill_constant, .pad = pad, .value = value, .self = self, .result = result};
    SHMT_TRY(fill_result(&p));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__constant_pad_backward(shmt_tensor* grad, shmt_ints pad, shmt_tensor** out) {
  int64_t less[2 * SHMT_MAX_DIMS];

  SHMT_TRY(check_pad(grad, pad));
  for (int64_t i = 0; i < pad.len; i++) less[i] = -pad.data[i];
  return shmt_op_constant_pad_nd(grad, (shmt_ints){less, pad.len}, shmt__scalar_int(0), out);
}

/* --- reflect, replicate, circular ----------------------------------------------------------------- */

typedef enum pad_mode { REFLECT, REPLICATE, CIRCULAR } pad_mode;

static int64_t clamp_to(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

static shmt_status check_mode(pad_mode mode, shmt_ints sizes, int64_t d, int64_t before, int64_t after) {
  const int64_t n = sizes.data[d], most = before > after ? before : after;
  char text[256];

  SHMT_REQUIRE(mode != REFLECT || most < n, SHMT_E_RUNTIME, "Argument #4: Padding size should be less than the "
               "corresponding input dimension, but got: padding (%" PRId64 ", %" PRId64 ") at dimension %" PRId64
               " of input %s", before, after, d, shmt__ints_text(sizes, text, sizeof text));
  SHMT_REQUIRE(mode != CIRCULAR || most <= n, SHMT_E_RUNTIME, "Padding value causes wrapping around more than once.");
  const int64_t kept = n + (before < 0 ? before : 0) + (after < 0 ? after : 0);
  SHMT_REQUIRE(n + before + after >= (mode == CIRCULAR ? 0 : 1) && (most <= 0 || kept >= 1 || mode != CIRCULAR) &&
                   (n > 0 || n + before + after == 0),
               SHMT_E_RUNTIME, "padding (%" PRId64 ", %" PRId64 ") of dimension %" PRId64 " of input %s leaves nothing",
               before, after, d, shmt__ints_text(sizes, text, sizeof text));
  return SHMT_OK;
}

/* The index, along a dim of n elements, of the source for the element `from` behind the first one. */
static int64_t position_of(pad_mode mode, int64_t n, int64_t from) {
  if (mode == REPLICATE) return clamp_to(from, n);
  if (mode == CIRCULAR) return from < 0 ? from + n : from >= n ? from - n : from;
  return from < 0 ? -from : from >= n ? 2 * (n - 1) - from : from;
}

/* The same for all elements of a padded dim. In circular mode, elements that are cut off do not take part. */
static void fill_positions(pad_mode mode, int64_t n, int64_t before, int64_t after, int64_t* at) {
  const int64_t start = before < 0 ? -before : 0, length = n - start - (after < 0 ? -after : 0);

  for (int64_t i = 0; i < n + before + after; i++)
    at[i] = mode == CIRCULAR ? start + ((i - before - start) % length + length) % length
                             : position_of(mode, n, i - before);
}

/* Copies slice `from` of the view of result along d to slice `to`. */
static shmt_status copy_slice(shmt_tensor* result, shmt_ints view, int64_t offset, int d, int64_t to, int64_t from) {
  SHMT_AUTO(shmt_tensor) target = NULL;
  SHMT_AUTO(shmt_tensor) source = NULL;
  const shmt_ints strides = shmt__tensor_strides(result);
  const int64_t step = result->strides[d];

  SHMT_TRY(shmt__tensor_alias(result, view, strides, offset + to * step, &target));
  SHMT_TRY(shmt__tensor_alias(result, view, strides, offset + from * step, &source));
  return shmt__tensor_copy(target, source);
}

/* Copies everything, then copies borders within the result, those of the inner dims first. */
static shmt_status fill_borders(const filling* p, shmt_tensor* self, shmt_tensor* result) {
  SHMT_AUTO(shmt_tensor) middle = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_TRY(overlap_view(result, p->pad, self->sizes, 1, &middle));
  SHMT_TRY(shmt__tensor_copy(middle, self));
  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  int64_t offset = middle->offset;
  for (int64_t i = 0; i < p->pad.len / 2; i++) {
    const int d = self->n_dims - 1 - (int)i;
    const int64_t before = p->pad.data[2 * i], n = self->sizes[d];
    offset -= before * result->strides[d];
    sizes[d] = 1;
    for (int64_t to = 0; to < result->sizes[d]; to++) {
      if (to == before) to += n;
      if (to >= result->sizes[d]) break;
      SHMT_TRY(copy_slice(result, (shmt_ints){sizes, self->n_dims}, offset, d, to,
                          before + position_of((pad_mode)p->mode, n, to - before)));
    }
    sizes[d] = result->sizes[d];
  }
  return SHMT_OK;
}

static shmt_status pad_borders(pad_mode mode, shmt_tensor* self, shmt_ints pad, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  for (int64_t i = 0; i < pad.len / 2; i++) sizes[self->n_dims - 1 - i] += pad.data[2 * i] + pad.data[2 * i + 1];
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, self->n_dims}, self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT,
                              &result));
  if (self->numel > 0) {
    filling p = {.fill = fill_borders, .pad = pad, .mode = (int)mode, .self = self, .result = result};
    SHMT_TRY(fill_result(&p));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Copying a slice costs as much as copying this many elements by index: wide borders of few elements are done by
 * index. */
enum { SLICE_COST = 100 };

/* Is nothing cut off, and is each border a few slices only? In NHWC tensors whole positions are gathered instead. */
static bool are_few(const shmt_tensor* self, shmt_ints pad) {
  int64_t slices = 0;

  if (pad.len / 2 == self->n_dims - 2 && shmt__tensor_suggest_format(self) != SHMT_CONTIGUOUS_FORMAT) return false;
  for (int64_t i = 0; i < pad.len; i++) {
    if (pad.data[i] < 0 || !shmt__add_i64(slices, pad.data[i], &slices)) return false;
  }
  return slices <= self->numel / SLICE_COST;
}

/* Makes the index tables of the last dims of `sizes`, padded. */
static shmt_status make_tables(pad_mode mode, shmt_ints sizes, shmt_ints pad, shmt__index_table* tables) {
  const int64_t n = pad.len / 2;

  for (int64_t i = 0; i < n; i++) {
    const int64_t d = sizes.len - 1 - i, size = sizes.data[d], before = pad.data[2 * i], after = pad.data[2 * i + 1];
    SHMT_TRY(check_mode(mode, sizes, d, before, after));
    SHMT_TRY(shmt__index_table_init(&tables[n - 1 - i], size, size + before + after));
    fill_positions(mode, size, before, after, tables[n - 1 - i].at);
  }
  return SHMT_OK;
}

static const char* const mode_names[] = {"reflect", "replicate", "circular"};

static shmt_status find_mode(const char* name, pad_mode* mode) {
  for (int m = REFLECT; m <= CIRCULAR; m++)
    if (strcmp(name, mode_names[m]) == 0) {
      *mode = (pad_mode)m;
      return SHMT_OK;
    }
  SHMT_FAIL(SHMT_E_NOT_IMPLEMENTED, "Unrecognised padding mode %s", name);
}

shmt_status shmt__pad_nonconstant(shmt_tensor* self, shmt_ints pad, const char* mode, shmt_tensor** out) {
  shmt__index_table tables[SHMT_TABLE_GATHER_DIMS] = {0};
  pad_mode m = REFLECT;

  SHMT_TRY(find_mode(mode, &m));
  SHMT_TRY(check_pad(self, pad));
  SHMT_REQUIRE(pad.len <= 2 * SHMT_TABLE_GATHER_DIMS, SHMT_E_RUNTIME, "_pad_nonconstant(): more than %d dims",
               SHMT_TABLE_GATHER_DIMS);
  if (pad.len == 0) return shmt_op_clone(self, SHMT_MEMORY_FORMAT_NONE, out);
  for (int d = self->n_dims == pad.len / 2 + 2 ? 1 : 0; m != CIRCULAR && d < self->n_dims; d++)
    SHMT_REQUIRE(self->sizes[d] > 0, SHMT_E_RUNTIME, "Expected a tensor with possibly 0 batch size and other non-zero "
                 "dimensions for input, but got: %s", SHMT_SHAPE_TEXT(self));
  shmt_status status = make_tables(m, shmt__tensor_sizes(self), pad, tables);
  if (status == SHMT_OK && are_few(self, pad) && !shmt__tensor_is_meta(self))
    status = pad_borders(m, self, pad, out);
  else if (status == SHMT_OK)
    status = shmt__table_gather(self, tables, (int)pad.len / 2, out);
  for (int d = 0; d < SHMT_TABLE_GATHER_DIMS; d++) shmt__index_table_fini(&tables[d]);
  return status;
}

shmt_status shmt__pad_nonconstant_backward(shmt_tensor* grad, shmt_ints size, shmt_ints pad, const char* mode,
                                           shmt_tensor** out) {
  shmt__index_table tables[SHMT_TABLE_GATHER_DIMS] = {0};
  pad_mode m = REFLECT;

  SHMT_TRY(find_mode(mode, &m));
  bool fits = size.len == grad->n_dims && pad.len % 2 == 0 && pad.len <= 2 * size.len &&
              pad.len <= 2 * SHMT_TABLE_GATHER_DIMS;
  for (int64_t d = 0; fits && d < size.len; d++) {
    const int64_t at = 2 * (size.len - 1 - d);
    int64_t padded = size.data[d];
    if (at < pad.len)
      fits = shmt__add_i64(padded, pad.data[at], &padded) && shmt__add_i64(padded, pad.data[at + 1], &padded);
    fits = fits && size.data[d] >= 0 && grad->sizes[d] == padded && (size.data[d] > 0 || grad->sizes[d] == 0);
  }
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME, "_pad_nonconstant_backward(): a gradient of size %s does not fit the input's",
               SHMT_SHAPE_TEXT(grad));
  if (pad.len == 0) return shmt_op_clone(grad, SHMT_MEMORY_FORMAT_NONE, out);
  shmt_status status = make_tables(m, size, pad, tables);
  if (status == SHMT_OK)
    status = shmt__table_gather_backward("_pad_nonconstant_backward", grad, tables, (int)pad.len / 2, out);
  for (int d = 0; d < SHMT_TABLE_GATHER_DIMS; d++) shmt__index_table_fini(&tables[d]);
  return status;
}

static shmt_status check_rank(const char* name, const shmt_tensor* self, shmt_ints pad, int n) {
  bool fits = self->n_dims == n + 1 || self->n_dims == n + 2;

  SHMT_REQUIRE(pad.len == 2 * n, SHMT_E_RUNTIME, "%s: padding size is expected to be %d, but got %" PRId64, name, 2 * n,
               pad.len);
  SHMT_REFUSE_DTYPE(self->dtype == SHMT_BOOL, self->dtype, name);
  for (int d = self->n_dims == n + 2 ? 1 : 0; fits && d < self->n_dims; d++) fits = self->sizes[d] > 0;
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME, "Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other "
               "non-zero dimensions for input, but got: %s", n + 1, n + 2, SHMT_SHAPE_TEXT(self));
  return SHMT_OK;
}

#define NONCONSTANT_PAD(N)                                                                           \
  shmt_status shmt__reflection_pad##N##d(shmt_tensor* self, shmt_ints padding, shmt_tensor** out) {  \
    SHMT_TRY(check_rank("reflection_pad" #N "d", self, padding, N));                                 \
    return shmt_op__pad_nonconstant(self, padding, "reflect", out);                                  \
  }                                                                                                  \
  shmt_status shmt__replication_pad##N##d(shmt_tensor* self, shmt_ints padding, shmt_tensor** out) { \
    SHMT_TRY(check_rank("replication_pad" #N "d", self, padding, N));                                \
    return shmt_op__pad_nonconstant(self, padding, "replicate", out);                                \
  }
NONCONSTANT_PAD(1)
NONCONSTANT_PAD(2)
NONCONSTANT_PAD(3)

/* Modes other than constant pad only the spatial dims of (C, ...) or (N, C, ...). */
static shmt_status check_spatial(const char* mode, const shmt_tensor* self, shmt_ints pad) {
  const int64_t n = pad.len / 2;

  SHMT_REQUIRE(
      n >= 1 && n <= 3 && (self->n_dims == n + 1 || self->n_dims == n + 2), SHMT_E_NOT_IMPLEMENTED,
      "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now, but got mode '%s', an input "
      "of %d dimensions and %" PRId64 " values of padding",
      mode, self->n_dims, pad.len);
  return SHMT_OK;
}

shmt_status shmt__pad(shmt_tensor* self, shmt_ints pad, const char* mode, shmt_opt_float value, shmt_tensor** out) {
  SHMT_TRY(check_pad(self, pad));
  if (strcmp(mode, "constant") == 0)
    return shmt_op_constant_pad_nd(self, pad, shmt__scalar_float(value.has ? value.value : 0), out);
  SHMT_REQUIRE(!value.has || value.value == 0, SHMT_E_RUNTIME, "Padding mode \"%s\" doesn't take in value argument",
               mode);
  pad_mode known = REFLECT;
  SHMT_TRY(find_mode(mode, &known));
  SHMT_TRY(check_spatial(mode, self, pad));
  SHMT_REFUSE_DTYPE(self->dtype == SHMT_BOOL && known != CIRCULAR, self->dtype,
                    known == REFLECT ? "reflection_pad" : "replication_pad");
  return shmt_op__pad_nonconstant(self, pad, mode, out);
}
