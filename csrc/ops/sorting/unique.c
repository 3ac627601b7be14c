/* ops/sorting/unique.c -- unique elements of a flattened tensor, sorted or in the order of their runs
 * (unique_consecutive). */
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/copy/move.h"
#include "ops/check.h"
#include "ops/indexing/index_iterator.h"
#include "ops/outputs.h"
#include "ops/sorting/sort.h"
#include "ops/sorting/unique_counting.h"

#include <string.h>

static shmt_status flatten(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;

  SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
  return shmt__tensor_alias(dense, SHMT_INTS(dense->numel), SHMT_INTS(1), dense->offset, out);
}

/* Runs are searched for in blocks. */
enum { RUN_BLOCK = 4096 };

static int64_t block_length(int64_t begin, int64_t end) { return end - begin < RUN_BLOCK ? end - begin : RUN_BLOCK; }

/* Flags the elements at which a run begins, of n elements of a dense vector from `begin` on. `room` has one flag
 * more. */
static const uint8_t* flag_runs(const shmt_tensor* flat, int64_t begin, int64_t n, uint8_t* room) {
  const int64_t before = begin > 0; /* the element that the first one is compared with */
  char* data[2] = {(char*)room, (char*)shmt__tensor_data(flat) + (begin - before) * shmt__tensor_item_bytes(flat)};

  shmt__loops[SHMT_LOOP_run_starts][flat->dtype](data, NULL, n + before, NULL);
  return room + before;
}

static int64_t count_runs(const shmt_tensor* flat) {
  uint8_t room[RUN_BLOCK + 1];
  int64_t n_runs = 0, n;

  for (int64_t at = 0; at < flat->numel; at += n) {
    n = block_length(at, flat->numel);
    n_runs += shmt__count_set(flag_runs(flat, at, n, room), n);
  }
  return n_runs;
}

/* What is collected of runs: the first element of each, and its index (NULL: not wanted). */
typedef struct runs {
  const shmt_tensor* flat;
  char* firsts;
  int64_t* starts;
  int64_t found, room;
  shmt__loop compress;
} runs;

static void take_run(runs* r, int64_t at) {
  const int64_t item = shmt__tensor_item_bytes(r->flat);

  if (r->found == r->room) return;
  shmt__move_elements(r->firsts + r->found * item, item, (char*)shmt__tensor_data(r->flat) + at * item, item, 1, item);
  if (r->starts) r->starts[r->found] = at;
  r->found++;
}

/* Collects the runs that begin in n elements from `begin` on. */
static void take_runs(runs* r, const uint8_t* flags, int64_t begin, int64_t n) {
  enum { RARE = 32 };
  const int64_t item = shmt__tensor_item_bytes(r->flat), own = shmt__count_set(flags, n), left = r->room - r->found;
  const int64_t strides[3] = {item, item, 1};
  char* data[3] = {r->firsts + r->found * item, (char*)shmt__tensor_data(r->flat) + begin * item,
                   (char*)(uintptr_t)flags};

  if (own < n / RARE) {
    for (const uint8_t* f = flags; (f = memchr(f, 1, (size_t)(flags + n - f))); f++) take_run(r, begin + (f - flags));
    return;
  }
  r->compress(data, strides, n, &left);
  int64_t at = r->found;
  /* Each index is written, and kept by moving on. */
  for (int64_t i = 0; r->starts && i < n && at < r->room; i++) {
    r->starts[at] = begin + i;
    at += flags[i];
  }
  r->found += own < left ? own : left;
}

/* Turns the starts of runs into their lengths. */
static void measure_runs(int64_t* starts, int64_t n_runs, int64_t n) {
  for (int64_t i = 0; i + 1 < n_runs; i++) starts[i] = starts[i + 1] - starts[i];
  if (n_runs > 0) starts[n_runs - 1] = n - starts[n_runs - 1];
}

/* Collects the runs of equal neighbours: the first element of each, the run of each element (at where[i]), and run
 * lengths. The vector may be shared, and have other runs now than when they were counted. */
static shmt_status collect_runs(shmt_tensor* flat, const int64_t* where, shmt_ints inverse_sizes, bool wants_inverse,
                                bool wants_counts, shmt_tensor** values, shmt_tensor** inverse, shmt_tensor** counts) {
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) back = NULL;
  SHMT_AUTO(shmt_tensor) lengths = NULL;
  uint8_t room[RUN_BLOCK + 1];
  const int64_t item = shmt__tensor_item_bytes(flat), n_runs = count_runs(flat);
  int64_t run = -1, n;

  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n_runs), flat->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &v));
  SHMT_TRY(shmt__tensor_empty(wants_inverse ? inverse_sizes : SHMT_INTS(0), SHMT_INT64, SHMT_CPU,
                              SHMT_CONTIGUOUS_FORMAT, &back));
  SHMT_TRY(shmt__new_int64s(wants_counts ? n_runs : 0, &lengths));
  runs r = {.flat = flat,
            .firsts = shmt__tensor_data(v),
            .starts = wants_counts ? shmt__tensor_data(lengths) : NULL,
            .room = n_runs,
            .compress = shmt__move_loop_of_size(SHMT_LOOP_compress, item)};
  int64_t* run_of = shmt__tensor_data(back);
  for (int64_t at = 0; at < flat->numel; at += n) {
    n = block_length(at, flat->numel);
    const uint8_t* flags = flag_runs(flat, at, n, room);
    take_runs(&r, flags, at, n);
    for (int64_t i = 0; wants_inverse && i < n; i++) {
      run += flags[i];
      run_of[where ? where[at + i] : at + i] = run;
    }
  }
  if (r.found < n_runs) memset(r.firsts + r.found * item, 0, (size_t)((n_runs - r.found) * item));
  for (int64_t i = r.found; wants_counts && i < n_runs; i++) r.starts[i] = flat->numel;
  if (wants_counts) measure_runs(r.starts, n_runs, flat->numel);
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
  SHMT_TRY(shmt__new_int64s(wants_counts ? n_values : 0, &lengths));
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
  SHMT_TRY(shmt__sort_vector(flat, &values, &where));
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
