/* ops/unique.c -- unique elements of a tensor as a line, sorted or as they follow each other. */
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy.h"
#include "ops/check.h"
#include "ops/lines.h"
#include "ops/sort.h"

#include <string.h>

static shmt_status flatten(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;

  SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
  return shmt__tensor_alias(dense, SHMT_INTS(dense->numel), SHMT_INTS(1), dense->offset, out);
}

static shmt_status vector(int64_t n, shmt_tensor** out) {
  return shmt__tensor_empty(SHMT_INTS(n), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, out);
}

/* Runs of equal neighbours in `line`: the first of each, each element's run (at where[i]), run lengths. */
static shmt_status collect_runs(shmt_tensor* line, const int64_t* where, shmt_ints inverse_sizes, bool wants_inverse,
                                bool wants_counts, shmt_tensor** values, shmt_tensor** inverse, shmt_tensor** counts) {
  SHMT_AUTO(shmt_tensor) starts = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) back = NULL;
  SHMT_AUTO(shmt_tensor) lengths = NULL;
  const int64_t n = line->numel, item = shmt__tensor_item_bytes(line);
  int64_t n_runs = 0;

  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n), SHMT_BOOL, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &starts));
  bool* flags = shmt__tensor_data(starts);
  if (n > 0) {
    char* data[2] = {(char*)flags, shmt__tensor_data(line)};
    shmt__loops[SHMT_LOOP_run_starts][line->dtype](data, NULL, n, NULL);
  }
  for (int64_t i = 0; i < n; i++) n_runs += flags[i];
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n_runs), line->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &v));
  SHMT_TRY(shmt__tensor_empty(wants_inverse ? inverse_sizes : SHMT_INTS(0), SHMT_INT64, SHMT_CPU,
                              SHMT_CONTIGUOUS_FORMAT, &back));
  SHMT_TRY(vector(wants_counts ? n_runs : 0, &lengths));
  char* to = shmt__tensor_data(v);
  const char* from = shmt__tensor_data(line);
  int64_t* run_of = shmt__tensor_data(back);
  int64_t* count = shmt__tensor_data(lengths);
  int64_t run = -1;
  for (int64_t i = 0; i < n; i++) {
    if (flags[i]) {
      run++;
      memcpy(to + run * item, from + i * item, (size_t)item);
      if (wants_counts) count[run] = 0;
    }
    if (wants_counts) count[run]++;
    if (wants_inverse) run_of[where ? where[i] : i] = run;
  }
  *values = SHMT_TAKE(v);
  *inverse = SHMT_TAKE(back);
  *counts = SHMT_TAKE(lengths);
  return SHMT_OK;
}

/* Two values need no sorting. */
static shmt_status unique_bools(shmt_tensor* flat, shmt_ints inverse_sizes, bool wants_inverse, bool wants_counts,
                                shmt_tensor** values, shmt_tensor** inverse, shmt_tensor** counts) {
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) back = NULL;
  SHMT_AUTO(shmt_tensor) lengths = NULL;
  const uint8_t* x = shmt__tensor_data(flat); /* any byte but 0 is true */
  const int64_t n = flat->numel;
  int64_t n_true = 0, k = 0;

  for (int64_t i = 0; i < n; i++) n_true += x[i] != 0;
  const int64_t totals[2] = {n - n_true, n_true}, n_values = (totals[0] > 0) + (totals[1] > 0);
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n_values), SHMT_BOOL, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &v));
  SHMT_TRY(shmt__tensor_empty(wants_inverse ? inverse_sizes : SHMT_INTS(0), SHMT_INT64, SHMT_CPU,
                              SHMT_CONTIGUOUS_FORMAT, &back));
  SHMT_TRY(vector(wants_counts ? n_values : 0, &lengths));
  uint8_t* to = shmt__tensor_data(v);
  int64_t *run_of = shmt__tensor_data(back), *count = shmt__tensor_data(lengths);
  for (int value = 0; value < 2; value++) {
    if (totals[value] == 0) continue;
    if (wants_counts) count[k] = totals[value];
    to[k++] = (uint8_t)value;
  }
  for (int64_t i = 0; wants_inverse && i < n; i++) run_of[i] = n_values == 2 && x[i] != 0;
  *values = SHMT_TAKE(v);
  *inverse = SHMT_TAKE(back);
  *counts = SHMT_TAKE(lengths);
  return SHMT_OK;
}

shmt_status shmt__unique2(shmt_tensor* self, bool sorted, bool return_inverse, bool return_counts, shmt_tensor** output,
                          shmt_tensor** inverse, shmt_tensor** counts) {
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;
  bool done;

  (void)sorted;
  SHMT_TRY(shmt__refuse_meta_count("unique", self));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_sort, self->dtype, "unique");
  SHMT_TRY(flatten(self, &flat));
  if (self->dtype == SHMT_BOOL)
    return unique_bools(flat, shmt__tensor_sizes(self), return_inverse, return_counts, output, inverse, counts);
  SHMT_TRY(shmt__unique_by_table(flat, shmt__tensor_sizes(self), return_inverse, return_counts, &done, output, inverse,
                                 counts));
  if (done) return SHMT_OK;
  SHMT_TRY(shmt__sorted_line(flat, &values, &where));
  return collect_runs(values, shmt__tensor_data(where), shmt__tensor_sizes(self), return_inverse, return_counts, output,
                      inverse, counts);
}

shmt_status shmt__unique_consecutive(shmt_tensor* self, bool return_inverse, bool return_counts, shmt_opt_int dim,
                                     shmt_tensor** output, shmt_tensor** inverse, shmt_tensor** counts) {
  SHMT_AUTO(shmt_tensor) flat = NULL;

  if (dim.has && self->n_dims != 1)
    return shmt__unique_dim_consecutive(self, dim.value, return_inverse, return_counts, output, inverse, counts);
  SHMT_TRY(shmt__refuse_meta_count("unique_consecutive", self));
  if (dim.has) SHMT_TRY(shmt__wrap_dim(dim.value, 1, &dim.value));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_run_starts, self->dtype, "unique_consecutive");
  SHMT_TRY(flatten(self, &flat));
  return collect_runs(flat, NULL, shmt__tensor_sizes(self), return_inverse, return_counts, output, inverse, counts);
}
