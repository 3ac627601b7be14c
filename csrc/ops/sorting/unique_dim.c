/* ops/sorting/unique_dim.c -- unique slices along a dim. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "kernels/loop_args.h"
#include "ops/check.h"

#include <inttypes.h>

static shmt_status vector(int64_t n, shmt_dtype dtype, shmt_tensor** out) {
  return shmt__tensor_empty(SHMT_INTS(n), dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, out);
}

/* Collects the runs in the order: the first slice of each, each slice's run, and run lengths. What is not wanted stays
 * empty. */
static shmt_status collect(const int64_t* order, const bool* starts, int64_t n, bool wants_inverse,
                           bool wants_counts, shmt_tensor** firsts, shmt_tensor** inverse,
                           shmt_tensor** counts) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) back = NULL;
  SHMT_AUTO(shmt_tensor) lengths = NULL;
  int64_t n_runs = 0, run = -1;

  for (int64_t i = 0; i < n; i++) n_runs += starts[i];
  SHMT_TRY(vector(n_runs, SHMT_INT64, &first));
  SHMT_TRY(vector(wants_inverse ? n : 0, SHMT_INT64, &back));
  SHMT_TRY(vector(wants_counts ? n_runs : 0, SHMT_INT64, &lengths));
  int64_t *at = shmt__tensor_data(first), *run_of = shmt__tensor_data(back),
          *count = shmt__tensor_data(lengths);
  for (int64_t i = 0; i < n; i++) {
    if (starts[i]) {
      at[++run] = order[i];
      if (wants_counts) count[run] = 0;
    }
    if (wants_counts) count[run]++;
    if (wants_inverse) run_of[order[i]] = run;
  }
  *firsts = SHMT_TAKE(first);
  *inverse = SHMT_TAKE(back);
  *counts = SHMT_TAKE(lengths);
  return SHMT_OK;
}

/* Dense rows, one for each slice along dim. New reference. */
static shmt_status slices_as_rows(shmt_tensor* self, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dim_first = NULL;

  SHMT_TRY(shmt_op_movedim_int(self, dim, 0, &dim_first));
  return shmt__tensor_contiguous(dim_first, SHMT_CONTIGUOUS_FORMAT, out);
}

static shmt_status unique_slices(const char* name, bool in_order, shmt_tensor* self, int64_t dim,
                                 bool return_inverse, bool return_counts, shmt_tensor** output,
                                 shmt_tensor** inverse, shmt_tensor** counts) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) order = NULL;
  SHMT_AUTO(shmt_tensor) spare = NULL;
  SHMT_AUTO(shmt_tensor) starts = NULL;
  SHMT_AUTO(shmt_tensor) firsts = NULL;
  SHMT_AUTO(shmt_tensor) kept = NULL;
  int n_empty = 0;

  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(shmt__refuse_meta_count(name, self));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_order_rows, self->dtype, name);
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_INDEX,
               "Dimension specified as %" PRId64 " but tensor has no dimensions", dim);
  for (int d = 0; d < self->n_dims; d++) n_empty += self->sizes[d] == 0;
  const int64_t n = self->sizes[dim];
  if (n == 0) {
    SHMT_REQUIRE(n_empty == 1, SHMT_E_RUNTIME,
                 "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    SHMT_TRY(shmt_op_clone(self, SHMT_CONTIGUOUS_FORMAT, output));
    SHMT_TRY(vector(0, SHMT_INT64, inverse));
    return vector(0, SHMT_INT64, counts);
  }
  SHMT_REQUIRE(n_empty == 0, SHMT_E_RUNTIME,
               "There are 0 sized dimensions, and they aren't selected, so unique cannot be "
               "applied");
  SHMT_TRY(slices_as_rows(self, dim, &rows));
  SHMT_TRY(vector(n, SHMT_INT64, &order));
  SHMT_TRY(vector(n, SHMT_INT64, &spare));
  SHMT_TRY(vector(n, SHMT_BOOL, &starts));
  const shmt__search_args shape = {self->numel / n, false};
  int64_t* place = shmt__tensor_data(order);
  if (in_order) {
    for (int64_t i = 0; i < n; i++) place[i] = i;
  } else {
    char* data[3] = {(char*)place, shmt__tensor_data(spare), shmt__tensor_data(rows)};
    shmt__loops[SHMT_LOOP_order_rows][self->dtype](data, NULL, n, &shape);
  }
  char* data[3] = {shmt__tensor_data(starts), (char*)place, shmt__tensor_data(rows)};
  shmt__loops[SHMT_LOOP_row_starts][self->dtype](data, NULL, n, &shape);
  SHMT_TRY(collect(place, shmt__tensor_data(starts), n, return_inverse, return_counts, &firsts,
                   inverse, counts));
  SHMT_TRY(shmt_op_index_select(rows, 0, firsts, &kept));
  return shmt_op_movedim_int(kept, 0, dim, output);
}

shmt_status shmt__unique_dim(shmt_tensor* self, int64_t dim, bool sorted, bool return_inverse,
                             bool return_counts, shmt_tensor** output, shmt_tensor** inverse,
                             shmt_tensor** counts) {
  (void)sorted;
  return unique_slices("unique_dim", false, self, dim, return_inverse, return_counts, output,
                       inverse, counts);
}

shmt_status shmt__unique_dim_consecutive(shmt_tensor* self, int64_t dim, bool return_inverse,
                                         bool return_counts, shmt_tensor** output,
                                         shmt_tensor** inverse, shmt_tensor** counts) {
  return unique_slices("unique_dim_consecutive", true, self, dim, return_inverse, return_counts,
                       output, inverse, counts);
}
