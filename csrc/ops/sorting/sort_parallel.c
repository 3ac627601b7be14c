/* ops/sorting/sort_parallel.c -- sorts one long slice stably, with all threads.
 *
 *   encode   makes keys of each chunk's elements (in the memory of the values), and finds their extent
 *   count    counts each chunk's keys by their highest digit
 *   deal     moves each chunk's keys to their buckets, behind those of the chunks before. Keys and indices are packed,
 * in the memory of the indices. Keys that are too wide for that have memory of their own; their 32-bit indices take
 * half the memory of the indices sort     sorts the buckets, each by the bits that are left, and decodes them in place
 *
 * The result does not depend on the number of chunks and threads. x may be shared and change meanwhile: it is read
 * once.
 */
#include "generated/loops.h"
#include "iter/copy/move.h"
#include "iter/threads.h"
#include "kernels/loop_args.h"
#include "ops/sorting/sort.h"
#include "storage/allocator.h"

#include <stdatomic.h>
#include <string.h>

/* Buckets pay when each leaves enough of the slice to others: a shorter slice is one bucket. */
enum { DIGIT = 11, N_BUCKETS = 1 << DIGIT, MAX_CHUNKS = 64, CHUNK = 16384, ONE_BUCKET = 4 * CHUNK };

typedef struct long_slice {
  shmt_dtype dtype, key_dtype; /* the elements' dtype, and the unsigned one of the same width */
  int64_t n, item;
  const char* x;
  char* values;
  int64_t* indices;
  uint64_t* wide_keys; /* NULL: keys are packed */
  shmt__radix_args shape;
  int64_t n_chunks, chunk;
  uint32_t (*counts)[N_BUCKETS]; /* of each chunk; they become positions */
  uint64_t extents[MAX_CHUNKS][2];
  uint32_t ends[N_BUCKETS];
  int n_buckets;
  atomic_bool failed;
} long_slice;

static int64_t chunk_length(const long_slice* l, int64_t c) {
  const int64_t left = l->n - c * l->chunk;
  return left < l->chunk ? left : l->chunk;
}

static void encode(void* ctx, int64_t begin, int64_t end) {
  enum { ELEMENTS_AT_ONCE = 1024 };
  long_slice* l = ctx;
  const int64_t step = l->shape.step;
  uint64_t room[ELEMENTS_AT_ONCE]; /* for elements that are not dense */

  for (int64_t c = begin; c < end; c++) {
    const int64_t first = c * l->chunk, length = chunk_length(l, c),
                  block = step == l->item ? length : ELEMENTS_AT_ONCE;
    uint64_t extent[2] = {UINT64_MAX, 0};
    for (int64_t at = 0; at < length; at += block) {
      const int64_t n = length - at < block ? length - at : block;
      const char* x = l->x + (first + at) * step;
      if (step != l->item) {
        shmt__move_elements((char*)room, l->item, x, step, n, l->item);
        x = (const char*)room;
      }
      char* data[3] = {l->values + (first + at) * l->item, (char*)extent, (char*)(uintptr_t)x};
      shmt__loops[SHMT_LOOP_sort_encode][l->dtype](data, NULL, n, &l->shape);
    }
    memcpy(l->extents[c], extent, sizeof extent);
  }
}

static void count(void* ctx, int64_t begin, int64_t end) {
  long_slice* l = ctx;

  for (int64_t c = begin; c < end; c++) {
    char* data[2] = {(char*)l->counts[c], l->values + c * l->chunk * l->item};
    memset(l->counts[c], 0, sizeof l->counts[c]);
    shmt__loops[SHMT_LOOP_radix_count][l->key_dtype](data, NULL, chunk_length(l, c), &l->shape);
  }
}

/* Turns counts into positions, bucket after bucket and in each bucket chunk after chunk. */
static void place_chunks(long_slice* l) {
  uint32_t at = 0;

  for (int d = 0; d < l->n_buckets; d++) {
    for (int64_t c = 0; c < l->n_chunks; c++) {
      const uint32_t n = l->counts[c][d];
      l->counts[c][d] = at;
      at += n;
    }
    l->ends[d] = at;
  }
}

static void deal(void* ctx, int64_t begin, int64_t end) {
  long_slice* l = ctx;
  const shmt__loop loop = l->wide_keys ? shmt__loops[SHMT_LOOP_bucket_deal][SHMT_UINT64]
                                       : shmt__loops[SHMT_LOOP_radix_deal][l->key_dtype];

  for (int64_t c = begin; c < end; c++) {
    shmt__radix_args shape = l->shape;
    char* data[5] = {(char*)l->indices, (char*)l->counts[c], l->values + c * l->chunk * l->item, (char*)l->wide_keys,
                     (char*)l->ends};
    shape.first = c * l->chunk;
    loop(data, NULL, chunk_length(l, c), &shape);
  }
}

/* Sorts buckets [first, last). `room` is large enough for the longest. Wide keys are sorted in the memory of the
 * values, with their indices. */
static void sort_buckets(const long_slice* l, int first, int last, char* room) {
  for (int d = first; d < last; d++) {
    const int64_t begin = d > 0 ? l->ends[d - 1] : 0, n = l->ends[d] - begin;
    char *own = (char*)(l->indices + begin), *values = l->values + begin * l->item;
    char* sorted = NULL;
    char* wide = l->wide_keys ? (char*)(l->wide_keys + begin) : NULL;
    if (n == 0) continue;
    if (wide) {
      char* data[4] = {wide, values, own + n * (int64_t)sizeof(uint32_t), own};
      shmt__loops[SHMT_LOOP_bucket_wide][SHMT_UINT64](data, NULL, n, &l->shape.shift);
    } else {
      char* data[3] = {(char*)&sorted, own, room};
      shmt__loops[SHMT_LOOP_bucket_packed][SHMT_UINT64](data, NULL, n, &l->shape.shift);
    }
    char* data[5] = {values, own, (char*)(uintptr_t)l->x, sorted, wide};
    shmt__loops[SHMT_LOOP_sort_decode][l->dtype](data, NULL, n, &l->shape);
  }
}

/* The first bucket that begins at or behind an element. */
static int bucket_from(const long_slice* l, int64_t at) {
  int d = 0;

  while (d < l->n_buckets && (d > 0 ? (int64_t)l->ends[d - 1] : 0) < at) d++;
  return d;
}

/* Finishes the buckets that begin in a stretch of the slice. */
static void finish_buckets(void* ctx, int64_t begin, int64_t end) {
  long_slice* l = ctx;
  const int first = bucket_from(l, begin), last = end == l->n ? l->n_buckets : bucket_from(l, end);
  int64_t longest = 0;
  void* room = NULL;

  for (int d = first; d < last; d++) {
    const int64_t n = l->ends[d] - (d > 0 ? (int64_t)l->ends[d - 1] : 0);
    longest = n > longest ? n : longest;
  }
  const uint64_t nbytes = (uint64_t)longest * sizeof(uint64_t);
  if (l->shape.shift > 0 && !l->wide_keys && shmt__alloc(nbytes, &room) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&l->failed, true, memory_order_relaxed);
    return;
  }
  sort_buckets(l, first, last, room);
  if (room) shmt__dealloc(room, nbytes);
}

static void run_long_slice(long_slice* l) {
  uint64_t high = 0;

  shmt__parallel_for(l->n_chunks, 1, encode, l);
  l->shape.low = UINT64_MAX;
  for (int64_t c = 0; c < l->n_chunks; c++) {
    if (l->extents[c][0] < l->shape.low) l->shape.low = l->extents[c][0];
    if (l->extents[c][1] > high) high = l->extents[c][1];
  }
  const uint64_t span = high - l->shape.low;
  const int bits = span == 0 ? 1 : 64 - __builtin_clzll(span);
  uint64_t wide_bytes = 0;
  void* wide = NULL;
  l->shape.shift = bits <= DIGIT ? 0 : bits <= 32 && l->n < ONE_BUCKET ? bits : bits - DIGIT;
  l->n_buckets = (int)(span >> l->shape.shift) + 1;
  if (bits > 32) {
    wide_bytes = (uint64_t)l->n * sizeof(uint64_t);
    if (shmt__alloc(wide_bytes, &wide) != SHMT_OK) {
      atomic_store_explicit(&l->failed, true, memory_order_relaxed);
      return;
    }
    l->wide_keys = wide;
  }
  shmt__parallel_for(l->n_chunks, 1, count, l);
  place_chunks(l);
  shmt__parallel_for(l->n_chunks, 1, deal, l);
  shmt__parallel_for(l->n, l->n_buckets > 1 ? CHUNK / 4 : l->n, finish_buckets, l);
  if (wide) shmt__dealloc(wide, wide_bytes);
}

static shmt_dtype key_dtype(int64_t item) {
  return item == 1 ? SHMT_UINT8 : item == 2 ? SHMT_UINT16 : item == 4 ? SHMT_UINT32 : SHMT_UINT64;
}

shmt_status shmt__sort_long_slice(shmt_dtype dtype, bool descending, int64_t n, const void* x, int64_t step,
                                  void* values, int64_t* indices) {
  const int64_t item = shmt__dtype_size[dtype];
  int64_t n_chunks = shmt__in_parallel() ? 1 : shmt__num_threads();
  void* memory = NULL;

  if (n_chunks > n / CHUNK) n_chunks = n / CHUNK;
  if (n_chunks > MAX_CHUNKS) n_chunks = MAX_CHUNKS;
  if (n_chunks < 1) n_chunks = 1;
  const uint64_t count_bytes = (uint64_t)n_chunks * sizeof(uint32_t[N_BUCKETS]),
                 nbytes = sizeof(long_slice) + count_bytes;
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  long_slice* l = memory;
  *l = (long_slice){.dtype = dtype,
                    .key_dtype = key_dtype(item),
                    .n = n,
                    .item = item,
                    .x = x,
                    .values = values,
                    .indices = indices,
                    .shape = {.flip = descending ? UINT64_MAX : 0, .step = step},
                    .n_chunks = n_chunks,
                    .chunk = (n + n_chunks - 1) / n_chunks,
                    .counts = (uint32_t(*)[N_BUCKETS])(void*)(l + 1)};
  run_long_slice(l);
  const bool failed = atomic_load_explicit(&l->failed, memory_order_relaxed);
  shmt__dealloc(memory, nbytes);
  SHMT_REQUIRE(!failed, SHMT_E_NOMEM, "sort(): no memory for scratch space of a line of %lld elements", (long long)n);
  return SHMT_OK;
}
