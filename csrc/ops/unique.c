/* ops/unique.c -- counting and searching: unique elements, histograms, sorted search. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy.h"
#include "iter/threads.h"
#include "kernels/shapes.h"
#include "ops/check.h"
#include "ops/lines.h"
#include "ops/outputs.h"
#include "ops/sort.h"

#include <inttypes.h>
#include <math.h>
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

static shmt_status refuse_meta(const char* name, const shmt_tensor* t) {
  SHMT_REQUIRE(!shmt__tensor_is_meta(t), SHMT_E_NOT_IMPLEMENTED,
               "%s(): the size of the result depends on data, which a meta tensor has not", name);
  return SHMT_OK;
}

shmt_status shmt__unique2(shmt_tensor* self, bool sorted, bool return_inverse, bool return_counts, shmt_tensor** output,
                          shmt_tensor** inverse, shmt_tensor** counts) {
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;
  bool done;

  (void)sorted;
  SHMT_TRY(refuse_meta("unique", self));
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
  SHMT_TRY(refuse_meta("unique_consecutive", self));
  if (dim.has) SHMT_TRY(shmt__wrap_dim(dim.value, 1, &dim.value));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_run_starts, self->dtype, "unique_consecutive");
  SHMT_TRY(flatten(self, &flat));
  return collect_runs(flat, NULL, shmt__tensor_sizes(self), return_inverse, return_counts, output, inverse, counts);
}

/* --- histograms -------------------------------------------------------------------------------- */

/* Counts of small numbers. A block is looked through before it is counted, so that it is read from memory once; the bits
 * that are set in any of its numbers bound them, and vectors find those faster than the largest. */
enum { TABLE = 1 << 13, COUNT_BLOCK = 1 << 13, COUNT_GRAIN = 1 << 16, MOST_TABLES = 64, WORTH_A_TABLE = 512 };

typedef struct tally {
  const int64_t* x;
  int64_t numel, share; /* elements of a table */
  int64_t* tables;      /* of TABLE numbers each, zero as far as used */
  int64_t used[MOST_TABLES];
  int64_t bits[MOST_TABLES]; /* of all numbers of a share */
} tally;

static void count_shares(void* ctx, int64_t begin, int64_t end) {
  tally* t = ctx;

  for (int64_t k = begin; k < end; k++) {
    int64_t* const table = t->tables + k * TABLE;
    const int64_t last = (k + 1) * t->share < t->numel ? (k + 1) * t->share : t->numel;
    int64_t all = 0, used = 0, n;
    for (int64_t at = k * t->share; at < last; at += n) {
      const int64_t* const x = t->x + at;
      n = last - at < COUNT_BLOCK ? last - at : COUNT_BLOCK;
      for (int64_t i = 0; i < n; i++) all |= x[i];
      if ((uint64_t)all >= TABLE) continue; /* negative, or too large: only whether there are negative ones matters */
      for (; used <= all; used = used ? 2 * used : 64) memset(table + used, 0, (size_t)(used ? used : 64) * sizeof *table);
      /* Another process may change them still. */
      for (int64_t i = 0; i < n; i++) table[x[i] & (TABLE - 1)]++;
    }
    t->bits[k] = all;
    t->used[k] = used;
  }
}

/* How often each number below TABLE is in x; *out stays NULL when there are others. */
static shmt_status count_small(const shmt_tensor* x, int64_t minlength, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) tables = NULL;
  tally t = {.x = shmt__tensor_data(x), .numel = x->numel};
  int64_t n = x->numel / COUNT_GRAIN, threads = shmt__num_threads(), length = minlength, all = 0;

  n = threads == 1 || n < 1 ? 1 : n < 2 * threads ? n : 2 * threads;
  if (n > MOST_TABLES) n = MOST_TABLES;
  SHMT_TRY(vector(n * TABLE, &tables));
  t.tables = shmt__tensor_data(tables);
  t.share = (x->numel + n - 1) / n;
  shmt__parallel_for(n, 1, count_shares, &t);
  for (int64_t k = 0; k < n; k++) all |= t.bits[k];
  SHMT_REQUIRE(all >= 0, SHMT_E_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
  if (all >= TABLE) return SHMT_OK;
  for (int64_t k = 0; k < n; k++)
    for (int64_t i = t.used[k]; i > length; i--)
      if (t.tables[k * TABLE + i - 1]) length = i;
  SHMT_TRY(vector(length, out));
  SHMT_TRY(shmt__tensor_fill(*out, shmt__scalar_int(0)));
  int64_t* count = shmt__tensor_data(*out);
  for (int64_t k = 0; k < n; k++)
    for (int64_t i = 0; i < length && i < t.used[k]; i++) count[i] += t.tables[k * TABLE + i];
  return SHMT_OK;
}

shmt_status shmt__bincount(shmt_tensor* self, shmt_tensor* weights, int64_t minlength, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) cast_weights = NULL;
  SHMT_AUTO(shmt_tensor) dense_weights = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;
  int64_t length;

  SHMT_REQUIRE(minlength >= 0, SHMT_E_RUNTIME, "minlength should be >= 0");
  SHMT_REQUIRE(shmt__is_integral(self->dtype), SHMT_E_NOT_IMPLEMENTED, "\"bincount_cpu\" not implemented for '%s'",
               shmt__dtype_title(self->dtype));
  SHMT_TRY(refuse_meta("bincount", self));
  SHMT_REQUIRE(self->n_dims == 1, SHMT_E_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
  SHMT_REQUIRE(!weights || (weights->n_dims == 1 && weights->numel == self->numel), SHMT_E_RUNTIME,
               "weights should be 1-d and have the same length as input");
  SHMT_TRY(shmt__tensor_cast(self, SHMT_INT64, &wide));
  SHMT_TRY(shmt__tensor_contiguous(wide, SHMT_CONTIGUOUS_FORMAT, &dense));
  if (!weights && dense->numel >= WORTH_A_TABLE) {
    SHMT_TRY(count_small(dense, minlength, &result));
    if (result) {
      *out = SHMT_TAKE(result);
      return SHMT_OK;
    }
  }
  const int64_t* x = shmt__tensor_data(dense);
  int64_t low = 0, high = minlength - 1;
  for (int64_t i = 0; i < dense->numel; i++) {
    low |= x[i];
    high = x[i] > high ? x[i] : high;
  }
  SHMT_REQUIRE(low >= 0, SHMT_E_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
  SHMT_REQUIRE(high < INT64_MAX, SHMT_E_RUNTIME, "bincount(): a count for every number up to %" PRId64, high);
  length = high + 1;
  /* Below, numbers are compared with the length: another process may change them still. */
  if (!weights) {
    SHMT_TRY(vector(length, &result));
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    int64_t* count = shmt__tensor_data(result);
    for (int64_t i = 0; i < dense->numel; i++) {
      const int64_t at = x[i];
      if ((uint64_t)at < (uint64_t)length) count[at]++;
    }
    *out = SHMT_TAKE(result);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__tensor_cast(weights, SHMT_FLOAT64, &cast_weights));
  SHMT_TRY(shmt__tensor_contiguous(cast_weights, SHMT_CONTIGUOUS_FORMAT, &dense_weights));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(length), SHMT_FLOAT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &sums));
  SHMT_TRY(shmt__tensor_fill(sums, shmt__scalar_int(0)));
  const double* w = shmt__tensor_data(dense_weights);
  double* sum = shmt__tensor_data(sums);
  for (int64_t i = 0; i < dense->numel; i++) {
    const int64_t at = x[i];
    if ((uint64_t)at < (uint64_t)length) sum[at] += w[i];
  }
  return shmt__tensor_cast(sums, weights->dtype == SHMT_FLOAT32 ? SHMT_FLOAT32 : SHMT_FLOAT64, out);
}

/* Numbers of a dense tensor, a block at a time in double. */
enum { HISTC_BLOCK = 512 };

static int64_t load_block(const shmt_tensor* dense, int64_t begin, double* x) {
  const int64_t item = shmt__tensor_item_bytes(dense);
  const int64_t n = dense->numel - begin < HISTC_BLOCK ? dense->numel - begin : HISTC_BLOCK;

  shmt__cast_loop(SHMT_FLOAT64, dense->dtype)((char*)x, sizeof *x, (const char*)shmt__tensor_data(dense) + begin * item,
                                              item, n);
  return n;
}

/* A NaN is both lowest and highest. */
static void find_extent(const shmt_tensor* dense, double* low, double* high) {
  double x[HISTC_BLOCK];

  (void)load_block(dense, 0, x);
  *low = *high = x[0];
  for (int64_t begin = 0; begin < dense->numel; begin += HISTC_BLOCK) {
    const int64_t n = load_block(dense, begin, x);
    for (int64_t i = 0; i < n; i++) {
      if (!(x[i] >= *low)) *low = x[i];
      if (!(x[i] <= *high)) *high = x[i];
    }
  }
}

static void count_bins(const shmt_tensor* dense, double low, double high, int64_t bins, double* count) {
  double x[HISTC_BLOCK];

  for (int64_t begin = 0; begin < dense->numel; begin += HISTC_BLOCK) {
    const int64_t n = load_block(dense, begin, x);
    for (int64_t i = 0; i < n; i++) {
      if (!(x[i] >= low && x[i] <= high)) continue;
      const int64_t at = (int64_t)((x[i] - low) / (high - low) * (double)bins);
      count[at < bins ? at : bins - 1]++;
    }
  }
}

shmt_status shmt__histc(shmt_tensor* self, int64_t bins, shmt_scalar min, shmt_scalar max, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) counts = NULL;
  double low = shmt__scalar_to_double(min), high = shmt__scalar_to_double(max);

  SHMT_REQUIRE(shmt__is_floating(self->dtype), SHMT_E_NOT_IMPLEMENTED, "\"histogram_cpu\" not implemented for '%s'",
               shmt__dtype_title(self->dtype));
  SHMT_REQUIRE(bins > 0, SHMT_E_RUNTIME, "torch.histogram(): bins must be > 0, but got %" PRId64, bins);
  if (shmt__tensor_is_meta(self))
    return shmt__tensor_empty(SHMT_INTS(bins), self->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT, out);
  SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(bins), SHMT_FLOAT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &counts));
  SHMT_TRY(shmt__tensor_fill(counts, shmt__scalar_int(0)));
  if (low == high && dense->numel > 0) find_extent(dense, &low, &high);
  if (low == high) {
    low -= 1;
    high += 1;
  }
  SHMT_REQUIRE(isfinite(low) && isfinite(high), SHMT_E_RUNTIME, "torch.histogram(): range [%g, %g] is not finite", low,
               high);
  SHMT_REQUIRE(low < high, SHMT_E_RUNTIME, "torch.histogram(): max must be larger than min");
  count_bins(dense, low, high, bins, shmt__tensor_data(counts));
  return shmt__tensor_cast(counts, self->dtype, out);
}

/* --- sorted search --------------------------------------------------------------------------------- */

enum { SEARCH_GRAIN = 1024 };

typedef struct search {
  bool out_int32, right;
  shmt_tensor* sorter;
} search;

static shmt_status check_search(const shmt_tensor* bounds, const shmt_tensor* values, const search* s) {
  SHMT_REQUIRE(bounds->n_dims > 0, SHMT_E_RUNTIME,
               "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
               "boundaries tensor dim(0)");
  bool fits = bounds->n_dims == 1 || bounds->n_dims == values->n_dims;
  for (int d = 0; fits && bounds->n_dims > 1 && d < bounds->n_dims - 1; d++) fits = bounds->sizes[d] == values->sizes[d];
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME,
               "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
               "tensor and input value tensor must match, but we got boundaries tensor %s and input value tensor %s",
               SHMT_SHAPE_TEXT(bounds), SHMT_SHAPE_TEXT(values));
  if (s->sorter) {
    SHMT_REQUIRE(s->sorter->dtype == SHMT_INT64, SHMT_E_RUNTIME,
                 "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
                 shmt__dtype_title(s->sorter->dtype));
    SHMT_REQUIRE(shmt__same_sizes(s->sorter, bounds), SHMT_E_RUNTIME,
                 "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor %s and got "
                 "sorter tensor %s", SHMT_SHAPE_TEXT(bounds), SHMT_SHAPE_TEXT(s->sorter));
  }
  return SHMT_OK;
}

static shmt_status dense_in(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  SHMT_TRY(shmt__tensor_cast(t, dtype, &cast));
  return shmt__tensor_contiguous(cast, SHMT_CONTIGUOUS_FORMAT, out);
}

typedef struct rows_search {
  char *places, *values, *bounds, *order;
  int64_t each, item; /* values of a row */
  shmt__loop loop;
  shmt__search_shape shape;
} rows_search;

static void search_piece(void* ctx, int64_t begin, int64_t end) {
  const rows_search* s = ctx;
  const int64_t strides[4] = {8, s->item, s->item, 8};

  for (int64_t n; begin < end; begin += n) {
    const int64_t row = begin / s->each * s->shape.n_bounds, rest = s->each - begin % s->each;
    char* data[4] = {s->places + begin * 8, s->values + begin * s->item, s->bounds + row * s->item,
                     s->order ? s->order + row * 8 : NULL};
    n = rest < end - begin ? rest : end - begin;
    s->loop(data, strides, n, &s->shape);
  }
}

static shmt_status run_search(shmt_tensor* bounds, shmt_tensor* values, const search* s, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) order = NULL;
  SHMT_AUTO(shmt_tensor) places = NULL;
  shmt_dtype dtype;

  SHMT_TRY(check_search(bounds, values, s));
  SHMT_TRY(shmt__promote_types(bounds->dtype, values->dtype, &dtype));
  SHMT_REQUIRE(dtype != SHMT_BOOL, SHMT_E_NOT_IMPLEMENTED, "\"searchsorted_out_cpu\" not implemented for 'Bool'");
  SHMT_REQUIRE_LOOP(SHMT_LOOP_search, dtype, "searchsorted_out_cpu");
  const bool meta = shmt__tensor_is_meta(values) || shmt__tensor_is_meta(bounds); /* a number may be beside Meta */
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(values), SHMT_INT64, meta ? SHMT_META : SHMT_CPU,
                              SHMT_CONTIGUOUS_FORMAT, &places));
  if (!meta && values->numel > 0) {
    SHMT_TRY(dense_in(bounds, dtype, &b));
    SHMT_TRY(dense_in(values, dtype, &v));
    if (s->sorter) SHMT_TRY(dense_in(s->sorter, SHMT_INT64, &order));
    const int64_t n_bounds = b->sizes[b->n_dims - 1];
    const int64_t rows = b->n_dims == 1 ? 1 : b->numel / (n_bounds > 0 ? n_bounds : 1);
    rows_search w = {shmt__tensor_data(places), shmt__tensor_data(v), shmt__tensor_data(b),
                     order ? shmt__tensor_data(order) : NULL,
                     v->numel / (b->n_dims == 1 || n_bounds == 0 ? 1 : rows), shmt__dtype_size[dtype],
                     shmt__loops[SHMT_LOOP_search][dtype], {n_bounds, s->right}};
    shmt__parallel_for(v->numel, SEARCH_GRAIN, search_piece, &w);
  }
  return shmt__tensor_cast(places, s->out_int32 ? SHMT_INT32 : SHMT_INT64, out);
}

static shmt_status make_search(bool out_int32, bool right, const char* side, shmt_tensor* sorter, search* s) {
  *s = (search){out_int32, right, sorter};
  if (!side) return SHMT_OK;
  SHMT_REQUIRE(strcmp(side, "left") == 0 || strcmp(side, "right") == 0, SHMT_E_RUNTIME,
               "torch.searchsorted(): side can only be 'left' or 'right' but got %s", side);
  SHMT_REQUIRE(!(right && strcmp(side, "left") == 0), SHMT_E_RUNTIME,
               "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True");
  s->right = strcmp(side, "right") == 0;
  return SHMT_OK;
}

shmt_status shmt__searchsorted(shmt_tensor* sorted_sequence, shmt_tensor* self, bool out_int32, bool right,
                               const char* side, shmt_tensor* sorter, shmt_tensor** out) {
  search s;

  SHMT_TRY(make_search(out_int32, right, side, sorter, &s));
  return run_search(sorted_sequence, self, &s, out);
}

shmt_status shmt__searchsorted_scalar(shmt_tensor* sorted_sequence, shmt_scalar self, bool out_int32, bool right,
                                      const char* side, shmt_tensor* sorter, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) value = NULL;
  search s;

  SHMT_REQUIRE(sorted_sequence->n_dims == 1, SHMT_E_RUNTIME,
               "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
               "boundaries tensor dim(%d) and input value's dim(0) numel(1)", sorted_sequence->n_dims);
  SHMT_TRY(make_search(out_int32, right, side, sorter, &s));
  SHMT_TRY(shmt__tensor_from_scalar(self, shmt__scalar_dtype(self), false, &value));
  return run_search(sorted_sequence, value, &s, out);
}

static shmt_status check_boundaries(const shmt_tensor* boundaries) {
  SHMT_REQUIRE(boundaries->n_dims == 1, SHMT_E_RUNTIME, "boundaries tensor must be 1 dimension, but got dim(%d)",
               boundaries->n_dims);
  return SHMT_OK;
}

shmt_status shmt__bucketize(shmt_tensor* self, shmt_tensor* boundaries, bool out_int32, bool right,
                            shmt_tensor** out) {
  const search s = {out_int32, right, NULL};

  SHMT_TRY(check_boundaries(boundaries));
  return run_search(boundaries, self, &s, out);
}

shmt_status shmt__bucketize_scalar(shmt_scalar self, shmt_tensor* boundaries, bool out_int32, bool right,
                                   shmt_tensor** out) {
  SHMT_TRY(check_boundaries(boundaries));
  return shmt__searchsorted_scalar(boundaries, self, out_int32, right, NULL, NULL, out);
}
