/* ops/shape/tril_triu.c -- tril, triu, tril_indices, triu_indices. */
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "iter/copy/streaming_stores.h"
#include "iter/threads.h"
#include "ops/check.h"
#include "ops/outputs.h"
#include "iter/reduce.h"
#include "ops/indexing/update.h"

#include <inttypes.h>
#include <string.h>

enum { GRAIN_ELEMENTS = 1 << 16 }; /* elements of a piece of work */

/* Is out self, or a view of the same elements? */
static bool is_itself(const shmt_tensor* out, const shmt_tensor* self) {
  return out->storage == self->storage && out->dtype == self->dtype && out->offset == self->offset &&
         shmt__sizes_are(out, shmt__tensor_sizes(self)) &&
         memcmp(out->strides, self->strides, (size_t)self->n_dims * sizeof *self->strides) == 0;
}

/* A view with the last two dims swapped. */
static shmt_status swapped(shmt_tensor* t, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  const int n = t->n_dims;

  for (int d = 0; d < n; d++) {
    const int from = d < n - 2 ? d : 2 * n - 3 - d;
    sizes[d] = t->sizes[from];
    strides[d] = t->strides[from];
  }
  return shmt__tensor_alias(t, (shmt_ints){sizes, n}, (shmt_ints){strides, n}, t->offset, out);
}

typedef struct tril_job {
  char* to;
  const char* from;     /* the same as `to` in place */
  int64_t rows;         /* of a matrix */
  int64_t width, item;  /* bytes of a row; bytes of an element */
  int64_t edge;         /* elements of the first row that are left of the cut */
  bool upper, streamed; /* upper: keep what is right of the cut */
} tril_job;

/* Zeroes n bytes, or keeps them. */
static void keep_run(const tril_job* t, shmt__stage* s, int64_t at, int64_t n, bool is_zero) {
  if (t->streamed)
    shmt__stage_copy(s, t->to + at, is_zero ? NULL : t->from + at, n);
  else if (is_zero)
    memset(t->to + at, 0, (size_t)n);
  else if (t->to != t->from)
    memcpy(t->to + at, t->from + at, (size_t)n);
}

static void keep_rows(void* ctx, int64_t begin, int64_t end) {
  const tril_job* t = ctx;
  const int64_t columns = t->width / t->item;
  shmt__stage s;

  shmt__stage_init(&s);
  for (int64_t r = begin, alike; r < end; r += alike) {
    const int64_t row = r % t->rows;
    int64_t edge = row + t->edge;
    /* The rows below the diagonal are all alike: they are done as one long row. */
    alike = edge < columns ? 1 : t->rows - row < end - r ? t->rows - row : end - r;
    edge = edge < 0 ? 0 : edge > columns ? columns : edge;
    const int64_t before = alike * edge * t->item;
    keep_run(t, &s, r * t->width, before, t->upper);
    keep_run(t, &s, r * t->width + before, alike * t->width - before, !t->upper);
  }
  if (t->streamed) shmt__stage_end(&s);
}

static shmt_status tril_or_triu(const char* name, shmt_tensor* self, int64_t diagonal, bool upper, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;
  SHMT_AUTO(shmt_tensor) transposed = NULL;
  const int n = self->n_dims;

  SHMT_REQUIRE(n >= 2, SHMT_E_RUNTIME, "%s: input tensor must have at least 2 dimensions", name);
  const bool in_place = *out && is_itself(*out, self);
  if (in_place && !shmt__tensor_is_contiguous(self)) {
    SHMT_TRY(swapped(self, &transposed));
    if (shmt__tensor_is_contiguous(transposed))
      return tril_or_triu(name, transposed, diagonal > -INT64_MAX ? -diagonal : INT64_MAX, !upper, &transposed);
    const uint64_t repeated = shmt__expanded_dims(self) & shmt__all_dims_mask(n - 2);
    SHMT_AUTO(shmt_tensor) single = NULL;
    if (repeated) {
      SHMT_TRY(shmt__unexpanded(self, repeated, &single));
      return tril_or_triu(name, single, diagonal, upper, &single);
    }
  }
  SHMT_TRY(shmt__output_begin_no_overlap(name, out, shmt__tensor_sizes(self), self->dtype, self->device,
                                    in_place ? NULL : self, NULL, &work));
  if (shmt__tensor_is_meta(work) || work->numel == 0) return shmt__output_end(name, &work, out);
  const bool is_there = shmt__tensor_is_contiguous(self);
  if (!is_there) SHMT_TRY(shmt__tensor_copy(work, self));
  const int64_t rows = self->sizes[n - 2], columns = self->sizes[n - 1], item = shmt__tensor_item_bytes(self);
  char* to = shmt__tensor_data(work);
  const char* from = is_there ? shmt__tensor_data(self) : to;
  if (diagonal > columns) diagonal = columns;
  if (diagonal < -rows) diagonal = -rows;
  const tril_job t = {to, from, rows, columns * item, item, diagonal + (upper ? 0 : 1), upper,
                      to != from && self->numel * item >= SHMT_STREAM_BYTES};
  shmt__parallel_for(self->numel / columns, GRAIN_ELEMENTS / columns + 1, keep_rows, (void*)(uintptr_t)&t);
  return shmt__output_end(name, &work, out);
}

shmt_status shmt__tril(shmt_tensor* self, int64_t diagonal, shmt_tensor** out) {
  return tril_or_triu("tril", self, diagonal, false, out);
}

shmt_status shmt__triu(shmt_tensor* self, int64_t diagonal, shmt_tensor** out) {
  return tril_or_triu("triu", self, diagonal, true, out);
}

/* In row r the lower triangular part has the columns below this one. */
static int64_t tril_edge(int64_t r, int64_t offset, int64_t column) {
  const __int128 edge = (__int128)r + offset + 1;
  return edge < 0 ? 0 : edge > column ? column : (int64_t)edge;
}

/* Counts the elements of the lower triangular part: rows that grow by one, then full rows. */
static __int128 count_lower(int64_t row, int64_t column, int64_t offset) {
  const __int128 a = (__int128)offset + 1;
  __int128 begin = -a, full = (__int128)column - a;
  begin = begin < 0 ? 0 : begin > row ? row : begin;
  full = full < begin ? begin : full > row ? row : full;
  return (full - begin) * (begin + full - 1 + 2 * a) / 2 + ((__int128)row - full) * column;
}

static shmt_status tril_triu_indices(int64_t row, int64_t column, int64_t offset, bool upper, shmt_dtype dtype,
                                     shmt_device device, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) both = NULL;

  SHMT_REQUIRE(row >= 0, SHMT_E_RUNTIME, "row must be non-negative, got%" PRId64, row);
  SHMT_REQUIRE(column >= 0, SHMT_E_RUNTIME, "col must be non-negative, got%" PRId64, column);
  if (dtype == SHMT_DTYPE_NONE) dtype = SHMT_INT64;
  SHMT_REFUSE_DTYPE(dtype != SHMT_INT32 && dtype != SHMT_INT64, dtype, upper ? "triu_indices" : "tril_indices");
  if (device == SHMT_DEVICE_NONE) device = SHMT_CPU;
  /* The upper triangular part is what the lower one below it leaves. */
  const int64_t below = upper && offset > INT64_MIN ? offset - 1 : offset;
  const __int128 lower = count_lower(row, column, below);
  const __int128 all = upper ? (__int128)row * column - lower : lower;
  SHMT_REQUIRE(all <= INT64_MAX, SHMT_E_RUNTIME,
               "%s_indices(): Storage size calculation overflowed: the triangle of %" PRId64 " rows and %" PRId64
               " columns has more than %" PRId64 " elements", upper ? "triu" : "tril", row, column, INT64_MAX);
  const int64_t count = (int64_t)all;
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(2, count), SHMT_INT64, device, SHMT_CONTIGUOUS_FORMAT, &both));
  if (!shmt__tensor_is_meta(both) && count > 0) {
    int64_t* rows = shmt__tensor_data(both);
    int64_t* columns = rows + count;
    /* Leading rows of a lower triangular part may be empty, and trailing ones of an upper. */
    int64_t k = 0, r = upper || below >= 0 ? 0 : below < -INT64_MAX ? INT64_MAX : -below - 1;
    for (; k < count; r++) {
      const int64_t edge = tril_edge(r, below, column);
      for (int64_t c = upper ? edge : 0; c < (upper ? column : edge); c++, k++) {
        rows[k] = r;
        columns[k] = c;
      }
    }
  }
  if (dtype == SHMT_INT64) {
    *out = SHMT_TAKE(both);
    return SHMT_OK;
  }
  return shmt__tensor_cast(both, dtype, out);
}

shmt_status shmt__tril_indices(int64_t row, int64_t col, int64_t offset, shmt_dtype dtype, shmt_layout layout,
                               shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return tril_triu_indices(row, col, offset, false, dtype, device, out);
}

shmt_status shmt__triu_indices(int64_t row, int64_t col, int64_t offset, shmt_dtype dtype, shmt_layout layout,
                               shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return tril_triu_indices(row, col, offset, true, dtype, device, out);
}
