/* ops/sparse/coalesce.c -- coalesce: sorts the entries by position and adds those of one position.
 *
 * The indices become positions (one int64 an entry), which a radix sort orders without moving values. Then each
 * position is a segment of the order, and its rows of values are summed into the result, over several threads.
 */
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/threads.h"
#include "kernels/sparse/sparse.h"
#include "ops/check.h"
#include "ops/sparse/sparse.h"

#include <inttypes.h>

enum { GRAIN_ELEMENTS = 1 << 14 };

typedef struct sum_job {
  shmt__loop loop;
  shmt__sparse_args args;
  char *out, *values;
  int64_t row_bytes;
} sum_job;

static void sum_segments(void* ctx, int64_t begin, int64_t end) {
  const sum_job* job = ctx;
  shmt__sparse_args args = job->args;
  args.starts += begin;
  char* const data[] = {job->out + begin * job->row_bytes, job->values};
  job->loop(data, NULL, end - begin, &args);
}

/* Sums the rows of values that each of n segments of the order names. values is contiguous; out (n, ...) is new. */
static shmt_status sum_rows(shmt_tensor* values, const int64_t* starts, const int64_t* order, int64_t n,
                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) sums = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  SHMT_REQUIRE_LOOP(SHMT_LOOP_sparse_segment_sum, values->dtype, "coalesce");
  sizes[0] = n;
  for (int d = 1; d < values->n_dims; d++) sizes[d] = values->sizes[d];
  SHMT_TRY(
      shmt__tensor_empty((shmt_ints){sizes, values->n_dims}, values->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &sums));
  const int64_t width = shmt__tensor_extent(values, 1, values->n_dims);
  if (width > 0 && n > 0) {
    sum_job job = {.loop = shmt__loops[SHMT_LOOP_sparse_segment_sum][values->dtype],
                   .args = {.starts = starts, .order = order, .width = width},
                   .out = shmt__tensor_data(sums),
                   .values = shmt__tensor_data(values),
                   .row_bytes = width * shmt__tensor_item_bytes(values)};
    const int64_t per_row = width * (values->sizes[0] / n + 1);
    shmt__parallel_for(n, GRAIN_ELEMENTS / per_row + 1, sum_segments, &job);
  }
  *out = SHMT_TAKE(sums);
  return SHMT_OK;
}

/* Where each run of equal positions begins in the order, and that position. Returns the number of runs. */
static int64_t find_runs(const int64_t* positions, const int64_t* order, int64_t n, int64_t* starts, int64_t* found) {
  int64_t runs = 0;
  for (int64_t k = 0; k < n; k++) {
    const int64_t position = positions[order ? order[k] : k];
    if (k > 0 && position == found[runs - 1]) continue;
    starts[runs] = k;
    found[runs++] = position;
  }
  starts[runs] = n;
  return runs;
}

shmt_status shmt__sparse_coalesce(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) order = NULL;
  SHMT_AUTO(shmt_tensor) starts = NULL;
  SHMT_AUTO(shmt_tensor) found = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;
  bool is_strict;
  const shmt_sparse* p = self->sparse;
  const int64_t nnz = shmt__sparse_nnz(p);

  SHMT_TRY(shmt__coo_positions(self, &positions));
  SHMT_TRY(shmt__sort_positions(positions, &is_strict, &order));
  SHMT_TRY(shmt__new_int64s(nnz + 1, &starts));
  SHMT_TRY(shmt__new_int64s(nnz, &found));
  const int64_t n =
      find_runs(shmt__int64s(positions), shmt__int64s(order), nnz, shmt__int64s(starts), shmt__int64s(found));
  SHMT_TRY(shmt__sparse_values_dense(self, &values));
  SHMT_TRY(sum_rows(values, shmt__int64s(starts), shmt__int64s(order), n, &sums));
  SHMT_TRY(shmt__unflatten_positions(shmt__int64s(found), n, (shmt_ints){self->sizes, p->sparse_dim}, &indices));
  return shmt__make_coo(shmt__tensor_sizes(self), p->sparse_dim, indices, sums, true, out);
}

shmt_status shmt__coalesce(shmt_tensor* self, shmt_tensor** out) {
  SHMT_TRY(shmt__require_coo("coalesce", self));
  if (!self->sparse->is_coalesced) return shmt_op__coalesce(self, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}
