/* tensor/dims.c -- dimension arguments: wrapping, masks, inferred and broadcast sizes. */
#include "tensor/tensor.h"

#include "base/overflow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char* shmt__ints_text(shmt_ints v, char* buf, size_t cap) {
  size_t at = 0;
  if (cap < 8) {
    if (cap > 0) buf[0] = '\0';
    return buf;
  }
  buf[at++] = '[';
  for (int64_t i = 0; i < v.len; i++) {
    int n = snprintf(buf + at, cap - at, i == 0 ? "%" PRId64 : ", %" PRId64, v.data[i]);
    if (n < 0 || at + (size_t)n + 6 > cap) { /* keep room for ", ...]" */
      at += (size_t)snprintf(buf + at, cap - at, i == 0 ? "..." : "...");
      if (at > cap - 2) at = cap - 2;
      break;
    }
    at += (size_t)n;
  }
  buf[at++] = ']';
  buf[at] = '\0';
  return buf;
}

static SHMT_COLD shmt_status fail_dim(int64_t dim, int64_t n_dims) {
  int64_t n = n_dims > 0 ? n_dims : 1;
  SHMT_FAIL(SHMT_E_INDEX,
            "Dimension out of range (expected to be in range of [%" PRId64 ", %" PRId64 "], but got %" PRId64 ")", -n,
            n - 1, dim);
}

shmt_status shmt__wrap_dim(int64_t dim, int64_t n_dims, int64_t* out) {
  int64_t n = n_dims > 0 ? n_dims : 1;
  if (SHMT_UNLIKELY(dim < -n || dim >= n)) return fail_dim(dim, n_dims);
  *out = dim < 0 ? dim + n : dim;
  return SHMT_OK;
}

shmt_status shmt__dims_mask(shmt_ints dims, int64_t n_dims, uint64_t* out) {
  uint64_t mask = 0;
  SHMT_REQUIRE(n_dims <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "only tensors with up to %d dims are supported", SHMT_MAX_DIMS);
  if (dims.len <= 0) {
    *out = n_dims == 64 ? UINT64_MAX : ((uint64_t)1 << n_dims) - 1;
    return SHMT_OK;
  }
  for (int64_t i = 0; i < dims.len; i++) {
    int64_t d = 0;
    SHMT_TRY(shmt__wrap_dim(dims.data[i], n_dims, &d));
    SHMT_REQUIRE(!(mask >> d & 1), SHMT_E_RUNTIME, "dim %" PRId64 " appears multiple times in the list of dims", d);
    mask |= (uint64_t)1 << d;
  }
  *out = n_dims == 0 ? 0 : mask;
  return SHMT_OK;
}

static SHMT_COLD shmt_status fail_view_sizes(shmt_ints sizes, int64_t numel) {
  SHMT_FAIL(SHMT_E_RUNTIME, "shape '%s' is invalid for input of size %" PRId64,
            shmt__ints_text(sizes, (char[256]){0}, 256), numel);
}

shmt_status shmt__infer_sizes(shmt_ints sizes, int64_t numel, int64_t* out) {
  int64_t inferred = -1, product = 1;
  bool overflow = false;
  for (int64_t d = 0; d < sizes.len; d++) {
    int64_t size = sizes.data[d];
    out[d] = size;
    if (size == -1) {
      SHMT_REQUIRE(inferred < 0, SHMT_E_RUNTIME, "only one dimension can be inferred");
      inferred = d;
    } else {
      SHMT_REQUIRE(size >= 0, SHMT_E_RUNTIME,
                   "invalid shape dimension %" PRId64 " at index %" PRId64 " of shape %s", size, d,
                   shmt__ints_text(sizes, (char[256]){0}, 256));
      overflow |= !shmt__mul_i64(product, size, &product);
    }
  }
  if (overflow) return fail_view_sizes(sizes, numel);
  if (inferred < 0) return product == numel ? SHMT_OK : fail_view_sizes(sizes, numel);
  SHMT_REQUIRE(product != 0 || numel != 0, SHMT_E_RUNTIME,
               "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 can be any "
               "value and is ambiguous",
               shmt__ints_text(sizes, (char[256]){0}, 256));
  if (product == 0 || numel % product != 0) return fail_view_sizes(sizes, numel);
  out[inferred] = numel / product;
  return SHMT_OK;
}

shmt_status shmt__broadcast_sizes(shmt_ints a, shmt_ints b, int64_t* out, int64_t* out_n_dims) {
  int64_t n = a.len > b.len ? a.len : b.len;
  SHMT_REQUIRE(n <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS, n);
  /* From the last dim to the first, so that out may be the array of a. */
  for (int64_t d = n - 1; d >= 0; d--) {
    int64_t in_a = d - (n - a.len), in_b = d - (n - b.len);
    int64_t size_a = in_a < 0 ? 1 : a.data[in_a], size_b = in_b < 0 ? 1 : b.data[in_b];
    SHMT_REQUIRE(size_a == size_b || size_a == 1 || size_b == 1, SHMT_E_RUNTIME,
                 "The size of tensor a (%" PRId64 ") must match the size of tensor b (%" PRId64
                 ") at non-singleton dimension %" PRId64,
                 size_a, size_b, d);
    out[d] = size_a == 1 ? size_b : size_a;
  }
  *out_n_dims = n;
  return SHMT_OK;
}
