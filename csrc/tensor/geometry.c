/* tensor/geometry.c -- strides: contiguity flags, memory formats, and the strides of views. */
#include "tensor/tensor.h"

#include "base/overflow.h"

#include <inttypes.h>

/* Dims from the innermost outwards. */
static const uint8_t order_2d[4] = {1, 3, 2, 0};
static const uint8_t order_3d[5] = {1, 4, 3, 2, 0};

static bool is_contiguous(const int64_t* sizes, const int64_t* strides, int n_dims) {
  uint64_t expected = 1; /* unsigned: empty tensors may have sizes whose product wraps */
  for (int d = n_dims - 1; d >= 0; d--) {
    if (sizes[d] == 1) continue;
    if ((uint64_t)strides[d] != expected) return false;
    expected *= (uint64_t)sizes[d];
  }
  return true;
}

static bool is_contiguous_in_order(const int64_t* sizes, const int64_t* strides, const uint8_t* order, int n_dims) {
  uint64_t expected = 1;
  for (int i = 0; i < n_dims; i++) {
    int d = order[i];
    if (sizes[d] == 1) continue;
    if ((uint64_t)strides[d] != expected) return false;
    expected *= (uint64_t)sizes[d];
  }
  return true;
}

/* Ordered by stride, each dim of size 2 or more begins where the dims inside it end. */
static bool is_dense(const int64_t* sizes, const int64_t* strides, int n_dims) {
  uint8_t order[SHMT_MAX_DIMS];
  int n = 0;
  for (int d = 0; d < n_dims; d++) {
    if (sizes[d] < 2) continue;
    int at = n++;
    while (at > 0 && strides[order[at - 1]] > strides[d]) {
      order[at] = order[at - 1];
      at--;
    }
    order[at] = (uint8_t)d;
  }
  uint64_t expected = 1;
  for (int i = 0; i < n; i++) {
    if ((uint64_t)strides[order[i]] != expected) return false;
    expected *= (uint64_t)sizes[order[i]];
  }
  return true;
}

uint32_t shmt__geometry_flags(const int64_t* sizes, const int64_t* strides, int n_dims, int64_t numel) {
  uint32_t flags = 0;
  if (numel == 0 || is_contiguous(sizes, strides, n_dims)) flags |= SHMT_TENSOR_CONTIGUOUS | SHMT_TENSOR_DENSE;
  if (n_dims == 4 && is_contiguous_in_order(sizes, strides, order_2d, 4))
    flags |= SHMT_TENSOR_CHANNELS_LAST | SHMT_TENSOR_DENSE;
  if (n_dims == 5 && is_contiguous_in_order(sizes, strides, order_3d, 5))
    flags |= SHMT_TENSOR_CHANNELS_LAST_3D | SHMT_TENSOR_DENSE;
  if (!(flags & SHMT_TENSOR_DENSE) && is_dense(sizes, strides, n_dims)) flags |= SHMT_TENSOR_DENSE;
  return flags;
}

bool shmt__tensor_is_contiguous_in(const shmt_tensor* t, shmt_memory_format format) {
  switch (format) {
    case SHMT_CHANNELS_LAST: return (t->flags & SHMT_TENSOR_CHANNELS_LAST) != 0;
    case SHMT_CHANNELS_LAST_3D: return (t->flags & SHMT_TENSOR_CHANNELS_LAST_3D) != 0;
    default: return shmt__tensor_is_contiguous(t);
  }
}

/* Strides that grow in the given order. Where size-1 dims make several formats fit, row-major wins. */
static bool is_ordered(const shmt_tensor* t, const uint8_t* order, int n_dims) {
  int64_t least = 0;
  if (t->strides[1] == 0) return false;
  for (int i = 0; i < n_dims; i++) {
    int d = order[i];
    if (t->sizes[d] == 0 || t->strides[d] < least) return false;
    /* N,1,1,1: all strides equal says nothing about the format. */
    if (d == 0 && least == t->strides[1]) return false;
    /* The size is compared too, so that N,1,H,1 and a transposed 1,C,1,W differ. */
    least = t->strides[d];
    if (t->sizes[d] > 1) least *= t->sizes[d];
  }
  return true;
}

shmt_memory_format shmt__tensor_suggest_format(const shmt_tensor* t) {
  if (t->n_dims == 4 && is_ordered(t, order_2d, 4)) return SHMT_CHANNELS_LAST;
  if (t->n_dims == 5 && is_ordered(t, order_3d, 5)) return SHMT_CHANNELS_LAST_3D;
  return SHMT_CONTIGUOUS_FORMAT;
}

void shmt__contiguous_strides(shmt_ints sizes, shmt_memory_format format, int64_t* strides_out) {
  uint64_t stride = 1; /* wraps only for empty tensors */
  for (int64_t i = 0; i < sizes.len; i++) {
    int64_t d = sizes.len - 1 - i;
    if (format == SHMT_CHANNELS_LAST && sizes.len == 4) d = order_2d[i];
    if (format == SHMT_CHANNELS_LAST_3D && sizes.len == 5) d = order_3d[i];
    strides_out[d] = (int64_t)stride;
    stride *= sizes.data[d] > 1 ? (uint64_t)sizes.data[d] : 1;
  }
}

void shmt__dense_strides_like(shmt_ints sizes, shmt_ints strides, int64_t* strides_out) {
  uint8_t order[SHMT_MAX_DIMS]; /* innermost first */
  int n = (int)sizes.len;
  for (int i = 0; i < n; i++) order[i] = (uint8_t)(n - 1 - i);
  /* An insertion sort. A stride of 0 compares equal to every other and is skipped. */
  for (int i = 1; i < n; i++) {
    int at = i;
    for (int j = i - 1; j >= 0; j--) {
      int64_t a = strides.data[order[j]], b = strides.data[order[at]];
      if (a == 0 || b == 0) continue;
      if (a < b) break;
      if (a > b || sizes.data[order[j]] > sizes.data[order[at]]) {
        uint8_t swap = order[j];
        order[j] = order[at];
        order[at] = swap;
        at = j;
      }
    }
  }
  uint64_t stride = 1; /* wraps only for empty tensors */
  for (int i = 0; i < n; i++) {
    int64_t size = sizes.data[order[i]];
    strides_out[order[i]] = (int64_t)stride;
    stride *= size > 1 ? (uint64_t)size : 1;
  }
}

shmt_status shmt__checked_numel(shmt_ints sizes, int64_t* out) {
  int64_t numel = 1, product = 1;
  bool overflow = false, numel_overflow = false;
  for (int64_t d = 0; d < sizes.len; d++) {
    int64_t size = sizes.data[d];
    SHMT_REQUIRE(size >= 0, SHMT_E_RUNTIME, "Trying to create tensor with negative dimension %" PRId64 ": %s", size,
                 shmt__ints_text(sizes, (char[256]){0}, 256));
    overflow |= !shmt__mul_i64(product, size > 1 ? size : 1, &product);
    numel_overflow |= !shmt__mul_i64(numel, size, &numel);
  }
  SHMT_REQUIRE(!numel_overflow, SHMT_E_RUNTIME, "numel: integer multiplication overflow with sizes=%s",
               shmt__ints_text(sizes, (char[256]){0}, 256));
  SHMT_REQUIRE(!overflow, SHMT_E_RUNTIME, "Stride calculation overflowed with sizes=%s",
               shmt__ints_text(sizes, (char[256]){0}, 256));
  *out = numel;
  return SHMT_OK;
}

shmt_status shmt__storage_bytes_for(shmt_ints sizes, shmt_ints strides, int64_t offset, int64_t item_bytes,
                                    uint64_t* out) {
  int64_t numel, last = offset, span, bytes = 0;
  bool ok = true, empty = false;
  for (int64_t d = 0; d < sizes.len; d++) {
    empty |= sizes.data[d] == 0;
    ok &= sizes.data[d] >= 0;
  }
  if (empty || !ok) {
    *out = 0;
    return shmt__checked_numel(sizes, &numel);
  }
  for (int64_t d = 0; d < sizes.len; d++) {
    ok = ok && strides.data[d] >= 0 && shmt__mul_i64(sizes.data[d] - 1, strides.data[d], &span) &&
         shmt__add_i64(last, span, &last);
  }
  ok = ok && shmt__add_i64(last, 1, &last) && shmt__mul_i64(last, item_bytes, &bytes);
  SHMT_REQUIRE(ok, SHMT_E_RUNTIME, "Storage size calculation overflowed with sizes=%s and strides=%s",
               shmt__ints_text(sizes, (char[256]){0}, 256), shmt__ints_text(strides, (char[256]){0}, 256));
  *out = (uint64_t)bytes;
  return shmt__checked_numel(sizes, &numel);
}

/* Old dims are grouped into runs that are contiguous among themselves; each run must be an exact product
 * of new dims. */
bool shmt__view_strides(const shmt_tensor* t, shmt_ints sizes, int64_t* strides_out) {
  if (t->numel == 0) {
    bool same = t->n_dims == sizes.len;
    for (int64_t d = 0; same && d < sizes.len; d++) same = t->sizes[d] == sizes.data[d];
    if (same)
      for (int64_t d = 0; d < sizes.len; d++) strides_out[d] = t->strides[d];
    else
      shmt__contiguous_strides(sizes, SHMT_CONTIGUOUS_FORMAT, strides_out);
    return true;
  }
  if (t->n_dims == 0) {
    for (int64_t d = 0; d < sizes.len; d++) strides_out[d] = 1;
    return true;
  }

  int64_t new_d = sizes.len - 1;
  int64_t run_stride = t->strides[t->n_dims - 1]; /* of the run's innermost dim */
  int64_t run_numel = 1, taken = 1;
  for (int d = t->n_dims - 1; d >= 0; d--) {
    run_numel *= t->sizes[d];
    bool ends = d == 0 || (t->sizes[d - 1] != 1 && t->strides[d - 1] != run_numel * run_stride);
    if (!ends) continue;
    while (new_d >= 0 && (taken < run_numel || sizes.data[new_d] == 1)) {
      strides_out[new_d] = taken * run_stride;
      taken *= sizes.data[new_d];
      new_d--;
    }
    if (taken != run_numel) return false;
    if (d > 0) {
      run_stride = t->strides[d - 1];
      run_numel = taken = 1;
    }
  }
  return new_d == -1;
}
