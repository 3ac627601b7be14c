/* ops/sorting/unique_counting.c -- unique integers of a small range, counted in a table instead of sorted.
 *
 * Each chunk has a table of its own, so that all threads count; then the tables are added up. x may be shared and
 * change meanwhile: a number that has left the range is not counted.
 */
#include "ops/sorting/unique_counting.h"

#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/dtype_names.h"
#include "ops/outputs.h"
#include "storage/allocator.h"

#include <string.h>

enum {
  ELEMENTS_AT_ONCE = 512,
  MIN_CHUNK_ELEMENTS = 32768, /* fewer are not worth a thread and its counts */
  MAX_CHUNKS = 16,
};

typedef struct table {
  shmt_dtype dtype;
  const char* x;
  int64_t n, item, n_chunks, chunk;
  int64_t low, range;
  int64_t extents[MAX_CHUNKS][2];
  int64_t* counts; /* of each chunk; the first becomes the sum */
  int64_t* runs;   /* for each number of the range: how many different smaller ones occur */
  int64_t* run_of; /* for each element */
} table;

/* Up to ELEMENTS_AT_ONCE elements from `begin` on as int64: in place, or converted in `room`. */
static const int64_t* load_block(const table* t, int64_t begin, int64_t n, int64_t* room) {
  const char* from = t->x + begin * t->item;

  if (t->dtype == SHMT_INT64) return (const int64_t*)(const void*)from;
  shmt__cast_loop(SHMT_INT64, t->dtype)((char*)room, sizeof *room, from, t->item, n);
  return room;
}

static int64_t block_length(int64_t begin, int64_t end) {
  return end - begin < ELEMENTS_AT_ONCE ? end - begin : ELEMENTS_AT_ONCE;
}

static int64_t chunk_end(const table* t, int64_t c) { return c + 1 < t->n_chunks ? (c + 1) * t->chunk : t->n; }

static void find_extents(void* ctx, int64_t begin, int64_t end) {
  table* t = ctx;
  int64_t room[ELEMENTS_AT_ONCE];

  for (int64_t c = begin; c < end; c++) {
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t at = c * t->chunk; at < chunk_end(t, c); at += ELEMENTS_AT_ONCE) {
      const int64_t n = block_length(at, chunk_end(t, c));
      const int64_t* x = load_block(t, at, n, room);
      for (int64_t i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
      }
    }
    t->extents[c][0] = low;
    t->extents[c][1] = high;
  }
}

static void count(void* ctx, int64_t begin, int64_t end) {
  table* t = ctx;
  int64_t room[ELEMENTS_AT_ONCE];

  for (int64_t c = begin; c < end; c++) {
    int64_t* counts = t->counts + c * t->range;
    memset(counts, 0, (size_t)t->range * sizeof *counts);
    for (int64_t at = c * t->chunk; at < chunk_end(t, c); at += ELEMENTS_AT_ONCE) {
      const int64_t n = block_length(at, chunk_end(t, c));
      const int64_t* x = load_block(t, at, n, room);
      for (int64_t i = 0; i < n; i++) {
        const uint64_t place = (uint64_t)x[i] - (uint64_t)t->low;
        if (place < (uint64_t)t->range) counts[place]++;
      }
    }
  }
}

static void find_inverse(void* ctx, int64_t begin, int64_t end) {
  table* t = ctx;
  int64_t room[ELEMENTS_AT_ONCE];

  for (int64_t at = begin; at < end; at += ELEMENTS_AT_ONCE) {
    const int64_t n = block_length(at, end);
    const int64_t* x = load_block(t, at, n, room);
    for (int64_t i = 0; i < n; i++) {
      const uint64_t place = (uint64_t)x[i] - (uint64_t)t->low;
      t->run_of[at + i] = place < (uint64_t)t->range ? t->runs[place] : 0;
    }
  }
}

/* Collects the numbers that occur, how often they do, and t->runs (in the memory of the sums, which are not needed any
 * more). */
static shmt_status collect(table* t, bool wants_counts, shmt_tensor** values, shmt_tensor** counts) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) lengths = NULL;
  int64_t n_runs = 0, run = 0;

  for (int64_t c = 1; c < t->n_chunks; c++)
    for (int64_t i = 0; i < t->range; i++) t->counts[i] += t->counts[c * t->range + i];
  for (int64_t i = 0; i < t->range; i++) n_runs += t->counts[i] > 0;
  SHMT_TRY(shmt__new_int64s(n_runs, &wide));
  SHMT_TRY(shmt__new_int64s(wants_counts ? n_runs : 0, &lengths));
  int64_t *value = shmt__tensor_data(wide), *length = shmt__tensor_data(lengths);
  for (int64_t i = 0; i < t->range; i++) {
    const int64_t times = t->counts[i];
    t->counts[i] = run;
    if (times == 0) continue;
    value[run] = t->low + i;
    if (wants_counts) length[run] = times;
    run++;
  }
  t->runs = t->counts;
  SHMT_TRY(shmt__tensor_cast(wide, t->dtype, values));
  *counts = SHMT_TAKE(lengths);
  return SHMT_OK;
}

static shmt_status fill_results(table* t, shmt_ints inverse_sizes, bool wants_inverse, bool wants_counts,
                                shmt_tensor** values, shmt_tensor** inverse, shmt_tensor** counts) {
  SHMT_AUTO(shmt_tensor) back = NULL;

  SHMT_TRY(shmt__tensor_empty(wants_inverse ? inverse_sizes : SHMT_INTS(0), SHMT_INT64, SHMT_CPU,
                              SHMT_CONTIGUOUS_FORMAT, &back));
  shmt__parallel_for(t->n_chunks, 1, count, t);
  SHMT_TRY(collect(t, wants_counts, values, counts));
  if (wants_inverse) {
    t->run_of = shmt__tensor_data(back);
    shmt__parallel_for(t->n, MIN_CHUNK_ELEMENTS, find_inverse, t);
  }
  *inverse = SHMT_TAKE(back);
  return SHMT_OK;
}

shmt_status shmt__unique_by_table(shmt_tensor* flat, shmt_ints inverse_sizes, bool wants_inverse, bool wants_counts,
                                  bool* done, shmt_tensor** values, shmt_tensor** inverse, shmt_tensor** counts) {
  enum { LEAST = 1024 };
  table t = {
      .dtype = flat->dtype, .x = shmt__tensor_data(flat), .n = flat->numel, .item = shmt__tensor_item_bytes(flat)};
  void* memory = NULL;
  int64_t low = INT64_MAX, high = INT64_MIN;

  *done = false;
  if (t.n < LEAST || flat->dtype == SHMT_UINT64 || !shmt__is_integral(flat->dtype)) return SHMT_OK;
  t.n_chunks = shmt__in_parallel() ? 1 : shmt__num_threads();
  if (t.n_chunks > t.n / MIN_CHUNK_ELEMENTS) t.n_chunks = t.n / MIN_CHUNK_ELEMENTS;
  if (t.n_chunks > MAX_CHUNKS) t.n_chunks = MAX_CHUNKS;
  if (t.n_chunks < 1) t.n_chunks = 1;
  t.chunk = t.n / t.n_chunks;
  shmt__parallel_for(t.n_chunks, 1, find_extents, &t);
  for (int64_t c = 0; c < t.n_chunks; c++) {
    low = t.extents[c][0] < low ? t.extents[c][0] : low;
    high = t.extents[c][1] > high ? t.extents[c][1] : high;
  }
  /* The tables take at most half of what indices would. */
  const uint64_t span = (uint64_t)high - (uint64_t)low;
  if (span >= (uint64_t)(t.n / 2)) return SHMT_OK;
  t.low = low;
  t.range = (int64_t)span + 1;
  while (t.n_chunks > 1 && t.n_chunks * t.range > t.n / 2) t.n_chunks--;
  t.chunk = t.n / t.n_chunks;
  const uint64_t nbytes = (uint64_t)(t.n_chunks * t.range) * sizeof *t.counts;
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  t.counts = memory;
  const shmt_status status = fill_results(&t, inverse_sizes, wants_inverse, wants_counts, values, inverse, counts);
  shmt__dealloc(memory, nbytes);
  *done = status == SHMT_OK;
  return status;
}
