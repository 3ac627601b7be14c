/* ops/sorting/bincount_histc.c -- bincount (how often each number occurs) and histc (counts in bins of equal width). */
#include "base/scalar.h"
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/check.h"
#include "ops/outputs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Small numbers are counted in tables. The maximum of a block is bounded before the block is counted, so that it is
 * read from memory once. The bits that are set in any number are such a bound, and vectors find them faster than the
 * maximum. */
enum { TABLE = 1 << 13, COUNT_BLOCK = 1 << 11, COUNT_GRAIN = 1 << 16, MOST_TABLES = 64, WORTH_A_TABLE = 512 };

/* The n <= COUNT_BLOCK elements of a dense tensor from `begin` on, as `dtype`: in place, or converted in `room`. */
static const void* load_as(shmt_dtype dtype, const shmt_tensor* dense, int64_t begin, int64_t n, void* room) {
  const int64_t item = shmt__tensor_item_bytes(dense);
  const char* from = (const char*)shmt__tensor_data(dense) + begin * item;

  if (dense->dtype == dtype) return from;
  shmt__cast_loop(dtype, dense->dtype)(room, shmt__dtype_size[dtype], from, item, n);
  return room;
}

static int64_t block_length(int64_t begin, int64_t end) {
  return end - begin < COUNT_BLOCK ? end - begin : COUNT_BLOCK;
}

/* Neighbouring elements count in different tables as long as all numbers are below APART: a count that has just been
 * stored is slow to load. */
enum { TABLES = 4, APART = TABLE / 2 / TABLES };

typedef struct tally {
  const shmt_tensor* x;
  int64_t share;   /* elements for each table */
  int64_t* tables; /* of TABLE numbers each; zero at the start, as far as used */
  int64_t used[MOST_TABLES];
  int64_t bits[MOST_TABLES]; /* the bits set in any number of a share */
} tally;

/* Adds the other tables, of n numbers each, to the first. */
static void join_tables(int64_t* table, int64_t apart, int64_t n) {
  for (int64_t k = 1; k < TABLES; k++)
    for (int64_t i = 0; i < n; i++) table[i] += table[k * apart + i];
}

/* Counts each byte of x. Returns the bits set in any number; all bits if one is negative. */
static int64_t count_bytes(const uint8_t* x, int64_t n, bool is_signed, int64_t* table) {
  enum { VALUES = 256 };
  int64_t all = 0, i = 0;
  uint64_t eight;

  memset(table, 0, TABLES * VALUES * sizeof *table);
  for (; i + 8 <= n; i += 8) {
    memcpy(&eight, x + i, sizeof eight);
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) table[k % TABLES * VALUES + (eight >> 8 * k & (VALUES - 1))]++;
  }
  for (; i < n; i++) table[x[i]]++;
  join_tables(table, VALUES, VALUES);
  for (int64_t value = 0; value < VALUES; value++)
    if (table[value]) all |= is_signed && value > INT8_MAX ? -1 : value;
  return all;
}

static void count_shares(void* ctx, int64_t begin, int64_t end) {
  tally* t = ctx;
  _Alignas(64) int64_t room[COUNT_BLOCK];

  for (int64_t k = begin; k < end; k++) {
    int64_t* const table = t->tables + k * TABLE;
    const int64_t last = (k + 1) * t->share < t->x->numel ? (k + 1) * t->share : t->x->numel;
    int64_t all = 0, used = 0, tables = TABLES, n;
    if (shmt__tensor_item_bytes(t->x) == 1) {
      const uint8_t* const bytes = (const uint8_t*)shmt__tensor_data(t->x) + k * t->share;
      t->bits[k] = count_bytes(bytes, last - k * t->share, t->x->dtype == SHMT_INT8, table);
      t->used[k] = UINT8_MAX + 1;
      continue;
    }
    for (int64_t at = k * t->share; at < last; at += n) {
      n = block_length(at, last);
      const int64_t* const x = load_as(SHMT_INT64, t->x, at, n, room);
      for (int64_t i = 0; i < n; i++) all |= x[i];
      if ((uint64_t)all >= TABLE) continue; /* negative, or too large: only whether there are negative ones matters */
      if (all >= APART && tables > 1) {
        join_tables(table, APART, used);
        tables = 1;
      }
      for (; used <= all; used = used ? 2 * used : 64)
        for (int64_t i = 0; i < tables; i++)
          memset(table + i * APART + used, 0, (size_t)(used ? used : 64) * sizeof *table);
      /* Another process may still change them. */
      if (tables > 1) {
        int64_t i = 0;
        for (; i + 8 <= n; i += 8)
#pragma GCC unroll 8
          for (int64_t u = 0; u < 8; u++) table[u % TABLES * APART + (x[i + u] & (APART - 1))]++;
        for (; i < n; i++) table[x[i] & (APART - 1)]++;
      } else {
#pragma GCC unroll 8
        for (int64_t i = 0; i < n; i++) table[x[i] & (TABLE - 1)]++;
      }
    }
    if (tables > 1) join_tables(table, APART, used);
    t->bits[k] = all;
    t->used[k] = used;
  }
}

/* Counts each number below TABLE. *out stays NULL when there are other numbers. */
static shmt_status count_small(const shmt_tensor* x, int64_t minlength, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) tables = NULL;
  tally t = {.x = x};
  int64_t n = x->numel / COUNT_GRAIN, threads = shmt__num_threads(), length = minlength, all = 0;

  n = threads == 1 || n < 1 ? 1 : n < 2 * threads ? n : 2 * threads;
  if (n > MOST_TABLES) n = MOST_TABLES;
  SHMT_TRY(shmt__new_int64s(n * TABLE, &tables));
  t.tables = shmt__tensor_data(tables);
  t.share = (x->numel + n - 1) / n;
  shmt__parallel_for(n, 1, count_shares, &t);
  for (int64_t k = 0; k < n; k++) all |= t.bits[k];
  SHMT_REQUIRE(all >= 0, SHMT_E_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
  if (all >= TABLE) return SHMT_OK;
  for (int64_t k = 0; k < n; k++)
    for (int64_t i = t.used[k]; i > length; i--)
      if (t.tables[k * TABLE + i - 1]) length = i;
  SHMT_TRY(shmt__new_int64s(length, out));
  SHMT_TRY(shmt__tensor_fill(*out, shmt__scalar_int(0)));
  int64_t* count = shmt__tensor_data(*out);
  for (int64_t k = 0; k < n; k++)
    for (int64_t i = 0; i < length && i < t.used[k]; i++) count[i] += t.tables[k * TABLE + i];
  return SHMT_OK;
}

/* The length of a result that has an element for every number in x. */
static shmt_status count_length(const shmt_tensor* x, int64_t minlength, int64_t* out) {
  int64_t room[COUNT_BLOCK], low = 0, high = minlength - 1, n;

  for (int64_t at = 0; at < x->numel; at += n) {
    n = block_length(at, x->numel);
    const int64_t* own = load_as(SHMT_INT64, x, at, n, room);
    for (int64_t i = 0; i < n; i++) {
      low |= own[i];
      high = own[i] > high ? own[i] : high;
    }
  }
  SHMT_REQUIRE(low >= 0, SHMT_E_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
  SHMT_REQUIRE(high < INT64_MAX, SHMT_E_RUNTIME, "bincount(): a count for every number up to %" PRId64, high);
  *out = high + 1;
  return SHMT_OK;
}

/* Numbers are compared with the length once more: another process may change them after the check. */
static void count_each(const shmt_tensor* x, int64_t* count, int64_t length) {
  _Alignas(64) int64_t room[COUNT_BLOCK];
  int64_t n;

  for (int64_t begin = 0; begin < x->numel; begin += n) {
    n = block_length(begin, x->numel);
    const int64_t* own = load_as(SHMT_INT64, x, begin, n, room);
    for (int64_t i = 0; i < n; i++) {
      const int64_t at = __atomic_load_n(own + i, __ATOMIC_RELAXED);
      if ((uint64_t)at < (uint64_t)length) count[at]++;
    }
  }
}

static void add_each(const shmt_tensor* x, const shmt_tensor* weights, double* sum, int64_t length) {
  _Alignas(64) int64_t room[COUNT_BLOCK];
  int64_t n;
  double weight_room[COUNT_BLOCK];

  for (int64_t begin = 0; begin < x->numel; begin += n) {
    n = block_length(begin, x->numel);
    const int64_t* own = load_as(SHMT_INT64, x, begin, n, room);
    const double* w = load_as(SHMT_FLOAT64, weights, begin, n, weight_room);
    for (int64_t i = 0; i < n; i++) {
      const int64_t at = __atomic_load_n(own + i, __ATOMIC_RELAXED);
      if ((uint64_t)at < (uint64_t)length) sum[at] += w[i];
    }
  }
}

shmt_status shmt__bincount(shmt_tensor* self, shmt_tensor* weights, int64_t minlength, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) dense_weights = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;
  int64_t length;

  SHMT_REQUIRE(minlength >= 0, SHMT_E_RUNTIME, "minlength should be >= 0");
  SHMT_REFUSE_DTYPE(!shmt__is_integral(self->dtype), self->dtype, "bincount_cpu");
  SHMT_TRY(shmt__refuse_meta_count("bincount", self));
  SHMT_REQUIRE(self->n_dims == 1, SHMT_E_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
  if (self->numel == 0) weights = NULL; /* no weights: the counts are integers */
  SHMT_REQUIRE(!weights || (weights->n_dims == 1 && weights->numel == self->numel), SHMT_E_RUNTIME,
               "weights should be 1-d and have the same length as input");
  SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
  if (!weights && dense->numel >= WORTH_A_TABLE) {
    SHMT_TRY(count_small(dense, minlength, &result));
    if (result) {
      *out = SHMT_TAKE(result);
      return SHMT_OK;
    }
  }
  SHMT_TRY(count_length(dense, minlength, &length));
  if (!weights) {
    SHMT_TRY(shmt__new_int64s(length, &result));
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    count_each(dense, shmt__tensor_data(result), length);
    *out = SHMT_TAKE(result);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__tensor_contiguous(weights, SHMT_CONTIGUOUS_FORMAT, &dense_weights));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(length), SHMT_FLOAT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &sums));
  SHMT_TRY(shmt__tensor_fill(sums, shmt__scalar_int(0)));
  add_each(dense, dense_weights, shmt__tensor_data(sums), length);
  return shmt__tensor_cast(sums, weights->dtype == SHMT_FLOAT32 ? SHMT_FLOAT32 : SHMT_FLOAT64, out);
}

/* histc: every share of the numbers counts in a row of its own. Numbers are compared as doubles. */
enum { HISTC_BLOCK = 512 };

typedef struct histogram {
  const shmt_tensor* x; /* dense */
  int64_t share;        /* elements for each row */
  double low, high;
  int64_t bins;
  double* counts; /* rows of `bins` numbers; zero at the start */
} histogram;

static void count_bins(void* ctx, int64_t begin, int64_t end) {
  const histogram* h = ctx;
  const int64_t item = shmt__tensor_item_bytes(h->x);
  const char* const data = shmt__tensor_data(h->x);
  const double scale = isfinite(h->high - h->low) ? 1 : 0.5; /* so that differences are finite */
  const double low = h->low * scale, width = h->high * scale - low;
  double x[HISTC_BLOCK];

  for (int64_t k = begin; k < end; k++) {
    double* const count = h->counts + k * h->bins;
    const int64_t last = (k + 1) * h->share < h->x->numel ? (k + 1) * h->share : h->x->numel;
    for (int64_t at = k * h->share; at < last; at += HISTC_BLOCK) {
      const int64_t n = last - at < HISTC_BLOCK ? last - at : HISTC_BLOCK;
      shmt__cast_loop(SHMT_FLOAT64, h->x->dtype)((char*)x, sizeof *x, data + at * item, item, n);
      for (int64_t i = 0; i < n; i++) {
        if (!(x[i] >= h->low && x[i] <= h->high)) continue;
        const int64_t bin = (int64_t)((x[i] * scale - low) / width * (double)h->bins);
        count[bin < h->bins ? bin : h->bins - 1]++;
      }
    }
  }
}

/* How many rows there are for threads. They stay few next to the elements. */
static int64_t count_rows(int64_t numel, int64_t bins) {
  const int64_t rows = numel / (bins > COUNT_GRAIN ? bins : COUNT_GRAIN), threads = shmt__num_threads();

  return rows < 1 ? 1 : rows < threads ? rows : threads;
}

static shmt_status find_value_range(shmt_tensor* x, double* low, double* high) {
  SHMT_AUTO(shmt_tensor) least = NULL;
  SHMT_AUTO(shmt_tensor) most = NULL;
  shmt_scalar value;

  SHMT_TRY(shmt__aminmax(x, (shmt_opt_int){.has = false}, false, &least, &most));
  SHMT_TRY(shmt__tensor_item(least, &value));
  *low = shmt__scalar_to_double(value);
  SHMT_TRY(shmt__tensor_item(most, &value));
  *high = shmt__scalar_to_double(value);
  return SHMT_OK;
}

shmt_status shmt__histc(shmt_tensor* self, int64_t bins, shmt_scalar min, shmt_scalar max, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) counts = NULL;
  double low = shmt__scalar_to_double(min), high = shmt__scalar_to_double(max);

  SHMT_REFUSE_DTYPE(!shmt__is_floating(self->dtype), self->dtype, "histogram_cpu");
  SHMT_REQUIRE(bins > 0, SHMT_E_RUNTIME, "torch.histogram(): bins must be > 0, but got %" PRId64, bins);
  if (shmt__tensor_is_meta(self))
    return shmt__tensor_empty(SHMT_INTS(bins), self->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT, out);
  SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
  if (low == high && dense->numel > 0) SHMT_TRY(find_value_range(dense, &low, &high));
  if (low == high) {
    low -= 1;
    high += 1;
  }
  SHMT_REQUIRE(isfinite(low) && isfinite(high), SHMT_E_RUNTIME, "torch.histogram(): range [%g, %g] is not finite", low,
               high);
  SHMT_REQUIRE(low < high, SHMT_E_RUNTIME, "torch.histogram(): max must be larger than min");
  const int64_t n = count_rows(dense->numel, bins);
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n, bins), SHMT_FLOAT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &rows));
  SHMT_TRY(shmt__tensor_fill(rows, shmt__scalar_int(0)));
  histogram h = {dense, (dense->numel + n - 1) / n, low, high, bins, shmt__tensor_data(rows)};
  shmt__parallel_for(n, 1, count_bins, &h);
  SHMT_TRY(shmt__sum_dims(rows, SHMT_INTS(0), false, SHMT_FLOAT64, &counts));
  return shmt__tensor_cast(counts, self->dtype, out);
}
