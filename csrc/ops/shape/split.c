/* ops/shape/split.c -- split, chunk, unbind, tensor_split, hsplit, vsplit, dsplit, and their copies. */
#include "base/overflow.h"
#include "base/dtype.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "storage/allocator.h"
#include "tensor/tensor.h"
#include "tensor/batched.h"

#include <inttypes.h>

/* The views that a tensor is cut into along a dim. */
typedef struct pieces {
  shmt_tensor_vec vec;
  shmt_status status;
  bool plain; /* made below dispatch: the caller is an operator with a derivative of its own */
} pieces;

static shmt_status begin(pieces* p, int64_t len, bool plain) {
  void* data = NULL;
  uint64_t nbytes;
  p->status = SHMT_OK;
  p->plain = plain;
  SHMT_REQUIRE(shmt__mul_u64((uint64_t)len, sizeof(shmt_tensor*), &nbytes), SHMT_E_NOMEM,
               "a list of %" PRId64 " tensors is too long", len);
  SHMT_TRY(shmt__alloc_zeroed(nbytes, &data));
  p->vec = (shmt_tensor_vec){data, len};
  return SHMT_OK;
}

static void add_slice(pieces* p, int64_t i, shmt_tensor* self, int64_t dim, int64_t start, int64_t end) {
  shmt_opt_int from = {start, true}, to = {end, true};
  if (p->status != SHMT_OK) return;
  p->status = p->plain ? shmt__impl_slice(self, dim, from, to, 1, &p->vec.data[i])
                       : shmt_op_slice_Tensor(self, dim, from, to, 1, &p->vec.data[i]);
}

static shmt_status end(pieces* p, shmt_tensor_vec* out) {
  if (p->status == SHMT_OK) {
    *out = p->vec;
    return SHMT_OK;
  }
  for (int64_t i = 0; i < p->vec.len; i++) shmt__tensor_release(p->vec.data[i]);
  shmt__dealloc(p->vec.data, (uint64_t)p->vec.len * sizeof(shmt_tensor*));
  return p->status;
}

/* Cuts pieces of `size` elements each, the last one maybe smaller. A dim of 0 gives one empty piece. */
static shmt_status cut_evenly(shmt_tensor* self, int64_t size, int64_t dim, bool plain, shmt_tensor_vec* out) {
  int64_t total = self->sizes[dim];
  int64_t n = size == 0 || total == 0 ? 1 : (total - 1) / size + 1;
  pieces p;
  SHMT_TRY(begin(&p, n, plain));
  for (int64_t i = 0; i < n; i++) add_slice(&p, i, self, dim, i * size, i == n - 1 ? total : (i + 1) * size);
  return end(&p, out);
}

static shmt_status split(shmt_tensor* self, int64_t split_size, int64_t dim, bool plain, shmt_tensor_vec* out) {
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_RUNTIME, "split expects at least a 1-dimensional tensor");
  SHMT_REQUIRE(split_size >= 0, SHMT_E_RUNTIME, "split expects split_size be non-negative, but got split_size=%" PRId64,
               split_size);
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(split_size > 0 || self->sizes[dim] == 0, SHMT_E_RUNTIME,
               "split_size can only be 0 if dimension size is 0, but got dimension size of %" PRId64, self->sizes[dim]);
  return cut_evenly(self, split_size, dim, plain, out);
}

static shmt_status split_with_sizes(shmt_tensor* self, shmt_ints sizes, int64_t dim, bool plain, shmt_tensor_vec* out) {
  int64_t sum = 0;
  bool overflow = false;
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_RUNTIME, "split expects at least a 1-dimensional tensor");
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  for (int64_t i = 0; i < sizes.len; i++) {
    SHMT_REQUIRE(sizes.data[i] >= 0, SHMT_E_RUNTIME,
                 "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=%s",
                 shmt__ints_text(sizes, (char[256]){0}, 256));
    overflow |= __builtin_add_overflow(sum, sizes.data[i], &sum);
  }
  SHMT_REQUIRE(!overflow && sum == self->sizes[dim], SHMT_E_RUNTIME,
               "split_with_sizes expects split_sizes to sum exactly to %" PRId64
               " (input tensor's size at dimension %" PRId64 "), but got split_sizes=%s",
               self->sizes[dim], dim, shmt__ints_text(sizes, (char[256]){0}, 256));
  pieces p;
  SHMT_TRY(begin(&p, sizes.len, plain));
  for (int64_t i = 0, at = 0; i < sizes.len; at += sizes.data[i], i++)
    add_slice(&p, i, self, dim, at, at + sizes.data[i]);
  return end(&p, out);
}

shmt_status shmt__impl_split(shmt_tensor* self, int64_t split_size, int64_t dim, shmt_tensor_vec* out) {
  return split(self, split_size, dim, true, out);
}

shmt_status shmt__impl_split_with_sizes(shmt_tensor* self, shmt_ints sizes, int64_t dim, shmt_tensor_vec* out) {
  return split_with_sizes(self, sizes, dim, true, out);
}

shmt_status shmt__impl_split_sizes(shmt_tensor* self, shmt_ints sizes, int64_t dim, shmt_tensor_vec* out) {
  return shmt_op_split_with_sizes(self, sizes, dim, out);
}

/* Each piece is a view of its own, not one of several results, so that autograd allows writes to it. */
shmt_status shmt__impl_unsafe_split(shmt_tensor* self, int64_t split_size, int64_t dim, shmt_tensor_vec* out) {
  return split(self, split_size, dim, false, out);
}

shmt_status shmt__impl_unsafe_split_with_sizes(shmt_tensor* self, shmt_ints sizes, int64_t dim, shmt_tensor_vec* out) {
  return split_with_sizes(self, sizes, dim, false, out);
}

static shmt_status chunk(shmt_tensor* self, int64_t chunks, int64_t dim, bool plain, shmt_tensor_vec* out) {
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_RUNTIME, "chunk expects at least a 1-dimensional tensor");
  SHMT_REQUIRE(chunks > 0, SHMT_E_RUNTIME, "chunk expects `chunks` to be greater than 0, got: %" PRId64, chunks);
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  int64_t total = self->sizes[dim];
  if (total > 0 && plain) return shmt_op_split_Tensor(self, (total - 1) / chunks + 1, dim, out);
  if (total > 0) return cut_evenly(self, (total - 1) / chunks + 1, dim, false, out);
  pieces p;
  SHMT_TRY(begin(&p, chunks, false));
  for (int64_t i = 0; i < chunks; i++) add_slice(&p, i, self, dim, 0, 0);
  return end(&p, out);
}

shmt_status shmt__impl_chunk(shmt_tensor* self, int64_t chunks, int64_t dim, shmt_tensor_vec* out) {
  return chunk(self, chunks, dim, true, out);
}

shmt_status shmt__impl_unsafe_chunk(shmt_tensor* self, int64_t chunks, int64_t dim, shmt_tensor_vec* out) {
  return chunk(self, chunks, dim, false, out);
}

shmt_status shmt__impl_unbind(shmt_tensor* self, int64_t dim, shmt_tensor_vec* out) {
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_INDEX, "Dimension specified as %" PRId64 " but tensor has no dimensions", dim);
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  pieces p;
  SHMT_TRY(begin(&p, self->sizes[dim], false));
  for (int64_t i = 0; i < self->sizes[dim] && p.status == SHMT_OK; i++)
    p.status = shmt__impl_select(self, dim, i, &p.vec.data[i]);
  return end(&p, out);
}

/* --- tensor_split, hsplit, vsplit, dsplit ---------------------------------------------------- */

static shmt_status require_dims(shmt_tensor* self) {
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_RUNTIME,
               "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  return SHMT_OK;
}

shmt_status shmt__impl_tensor_split_sections(shmt_tensor* self, int64_t sections, int64_t dim, shmt_tensor_vec* out) {
  SHMT_TRY(require_dims(self));
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(sections > 0, SHMT_E_RUNTIME, "number of sections must be larger than 0, got %" PRId64, sections);
  int64_t size = self->sizes[dim] / sections, larger = self->sizes[dim] % sections, at = 0;
  pieces p;
  SHMT_TRY(begin(&p, sections, false));
  for (int64_t i = 0; i < sections; i++) {
    int64_t next = at + size + (i < larger);
    add_slice(&p, i, self, dim, at, next);
    at = next;
  }
  return end(&p, out);
}

shmt_status shmt__impl_tensor_split_indices(shmt_tensor* self, shmt_ints indices, int64_t dim, shmt_tensor_vec* out) {
  SHMT_TRY(require_dims(self));
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  pieces p;
  SHMT_TRY(begin(&p, indices.len + 1, false));
  int64_t at = 0;
  for (int64_t i = 0; i <= indices.len; i++) {
    int64_t next = i < indices.len ? indices.data[i] : self->sizes[dim];
    add_slice(&p, i, self, dim, at, next);
    at = next;
  }
  return end(&p, out);
}

shmt_status shmt__impl_tensor_split_tensor(shmt_tensor* self, shmt_tensor* indices, int64_t dim, shmt_tensor_vec* out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  indices = shmt__shared_value(indices);
  SHMT_REQUIRE(indices->dtype == SHMT_INT64, SHMT_E_RUNTIME,
               "tensor_split expected tensor_indices_or_sections to have dtype of long, but got %s",
               shmt__dtype_title(indices->dtype));
  SHMT_REQUIRE(
      indices->n_dims <= 1, SHMT_E_RUNTIME,
      "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but "
      "got a tensor with %d dims",
      indices->n_dims);
  SHMT_REQUIRE(!shmt__tensor_is_meta(indices), SHMT_E_RUNTIME,
               "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on meta");
  SHMT_TRY(shmt__check_has_memory(indices));
  SHMT_TRY(shmt__tensor_contiguous(indices, SHMT_CONTIGUOUS_FORMAT, &dense));
  const int64_t* values = shmt__tensor_data(dense);
  if (indices->n_dims == 0) return shmt_op_tensor_split_sections(self, values[0], dim, out);
  return shmt_op_tensor_split_indices(self, (shmt_ints){values, dense->numel}, dim, out);
}

typedef struct axis_rule {
  const char* name;
  int least_dims;
  int64_t dim;
} axis_rule;

static const axis_rule rule_h = {"hsplit", 1, 1}, rule_v = {"vsplit", 2, 0}, rule_d = {"dsplit", 3, 2};

static shmt_status find_axis(const axis_rule* rule, shmt_tensor* self, int64_t* dim) {
  SHMT_REQUIRE(self->n_dims >= rule->least_dims, SHMT_E_RUNTIME,
               "torch.%s requires a tensor with at least %d dimension, but got a tensor with %d dimensions!",
               rule->name, rule->least_dims, self->n_dims);
  *dim = self->n_dims == 1 ? 0 : rule->dim;
  return SHMT_OK;
}

static shmt_status split_axis(const axis_rule* rule, shmt_tensor* self, int64_t sections, shmt_tensor_vec* out) {
  int64_t dim = 0;
  SHMT_TRY(find_axis(rule, self, &dim));
  SHMT_REQUIRE(sections != 0 && self->sizes[dim] % sections == 0, SHMT_E_RUNTIME,
               "torch.%s attempted to split along dimension %" PRId64 ", but the size of the dimension %" PRId64
               " is not divisible by the split_size %" PRId64 "!",
               rule->name, dim, self->sizes[dim], sections);
  return shmt_op_tensor_split_sections(self, sections, dim, out);
}

static shmt_status split_axis_at(const axis_rule* rule, shmt_tensor* self, shmt_ints indices, shmt_tensor_vec* out) {
  int64_t dim = 0;
  SHMT_TRY(find_axis(rule, self, &dim));
  return shmt_op_tensor_split_indices(self, indices, dim, out);
}

shmt_status shmt__impl_hsplit(shmt_tensor* self, int64_t sections, shmt_tensor_vec* out) {
  return split_axis(&rule_h, self, sections, out);
}
shmt_status shmt__impl_hsplit_array(shmt_tensor* self, shmt_ints indices, shmt_tensor_vec* out) {
  return split_axis_at(&rule_h, self, indices, out);
}
shmt_status shmt__impl_vsplit(shmt_tensor* self, int64_t sections, shmt_tensor_vec* out) {
  return split_axis(&rule_v, self, sections, out);
}
shmt_status shmt__impl_vsplit_array(shmt_tensor* self, shmt_ints indices, shmt_tensor_vec* out) {
  return split_axis_at(&rule_v, self, indices, out);
}
shmt_status shmt__impl_dsplit(shmt_tensor* self, int64_t sections, shmt_tensor_vec* out) {
  return split_axis(&rule_d, self, sections, out);
}
shmt_status shmt__impl_dsplit_array(shmt_tensor* self, shmt_ints indices, shmt_tensor_vec* out) {
  return split_axis_at(&rule_d, self, indices, out);
}

/* --- copies of the pieces ------------------------------------------------------------------------ */

static shmt_status copy_pieces(shmt_status made, shmt_tensor_vec* vec, shmt_tensor_vec* out) {
  pieces p = {.vec = *vec, .status = made};
  if (made != SHMT_OK) return made;
  for (int64_t i = 0; i < vec->len && p.status == SHMT_OK; i++) {
    shmt_tensor* view = vec->data[i];
    vec->data[i] = NULL;
    p.status = shmt_op_clone(view, SHMT_CONTIGUOUS_FORMAT, &vec->data[i]);
    shmt__tensor_release(view);
  }
  return end(&p, out);
}

shmt_status shmt__impl_split_copy(shmt_tensor* self, int64_t split_size, int64_t dim, shmt_tensor_vec* out) {
  shmt_tensor_vec vec = {0, 0};
  shmt_status made = shmt_op_split_Tensor(self, split_size, dim, &vec);
  return copy_pieces(made, &vec, out);
}

shmt_status shmt__impl_split_with_sizes_copy(shmt_tensor* self, shmt_ints sizes, int64_t dim, shmt_tensor_vec* out) {
  shmt_tensor_vec vec = {0, 0};
  shmt_status made = shmt_op_split_with_sizes(self, sizes, dim, &vec);
  return copy_pieces(made, &vec, out);
}

shmt_status shmt__impl_unbind_copy(shmt_tensor* self, int64_t dim, shmt_tensor_vec* out) {
  shmt_tensor_vec vec = {0, 0};
  shmt_status made = shmt_op_unbind_int(self, dim, &vec);
  return copy_pieces(made, &vec, out);
}
