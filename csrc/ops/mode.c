/* ops/mode.c -- the most frequent element of every line: lines are sorted a few at a time, and only that is kept. */
#include "generated/loops.h"
#include "iter/copy.h"
#include "iter/move.h"
#include "kernels/shapes.h"
#include "ops/sort.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <stdatomic.h>

/* Lines along a dim with `inner` elements behind it, `abreast` neighbouring ones at a time. */
typedef struct mode_job {
  shmt_dtype dtype;
  const char* x;
  char* values;
  int64_t* indices;
  int64_t length, item, inner, abreast, groups;
  atomic_bool failed;
} mode_job;

/* What a thread works in. */
typedef struct room {
  int64_t* indices;
  char *values, *sorting, *lines;
  bool* starts;
} room;

/* The last element of the longest run, the one torch gives. */
static int64_t last_of_longest(const bool* starts, int64_t n) {
  int64_t best = 0, best_run = 0, run_begin = 0;

  for (int64_t i = 1; i <= n; i++) {
    if (i < n && !starts[i]) continue;
    if (i - run_begin > best_run) {
      best_run = i - run_begin;
      best = i - 1;
    }
    run_begin = i;
  }
  return best;
}

/* Results at `to` from one dense line. */
static shmt_status find_mode(const mode_job* j, const char* x, const room* own, int64_t to) {
  const shmt__sort_shape shape = {.k = j->length};
  char* runs[2] = {(char*)own->starts, own->values};

  if (j->length >= SHMT_LONG_LINE) {
    SHMT_TRY(shmt__sort_long_line(j->dtype, false, j->length, x, own->values, own->indices));
  } else {
    char* data[4] = {own->values, (char*)own->indices, (char*)(uintptr_t)x, own->sorting};
    shmt__loops[SHMT_LOOP_sort][j->dtype](data, NULL, j->length, &shape);
  }
  shmt__loops[SHMT_LOOP_run_starts][j->dtype](runs, NULL, j->length, NULL);
  const int64_t at = last_of_longest(own->starts, j->length);
  shmt__move_elements(j->values + to * j->item, j->item, own->values + at * j->item, j->item, 1, j->item);
  j->indices[to] = own->indices[at];
  return SHMT_OK;
}

static shmt_status run_group(const mode_job* j, int64_t group, const room* own) {
  const int64_t outer = group / j->groups, first = group % j->groups * j->abreast, line = j->length * j->item;
  const int64_t n = j->inner - first < j->abreast ? j->inner - first : j->abreast;
  const char* x = j->x + (outer * j->length * j->inner + first) * j->item;

  if (j->inner > 1) {
    shmt__move_transposed(own->lines, line, x, j->inner * j->item, n, j->length, j->item);
    x = own->lines;
  }
  for (int64_t i = 0; i < n; i++) SHMT_TRY(find_mode(j, x + i * line, own, outer * j->inner + first + i));
  return SHMT_OK;
}

static void run_groups(void* ctx, int64_t begin, int64_t end) {
  mode_job* j = ctx;
  const int64_t line = (j->length * j->item + 63) / 64 * 64;
  const int64_t lines = j->inner > 1 ? j->abreast * line : 0;
  const uint64_t nbytes = (uint64_t)(j->length * (int64_t)sizeof(int64_t) + 2 * line + 64 + lines + j->length);
  void* memory = NULL;
  room own;

  if (shmt__alloc(nbytes, &memory) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return;
  }
  own.indices = memory;
  own.values = (char*)(own.indices + j->length);
  own.sorting = own.values + line;
  own.lines = own.sorting + line + 64;
  own.starts = (bool*)(own.lines + lines);
  for (int64_t g = begin; g < end; g++)
    if (run_group(j, g, &own) != SHMT_OK) atomic_store_explicit(&j->failed, true, memory_order_relaxed);
  shmt__dealloc(memory, nbytes);
}

shmt_status shmt__mode_of_lines(shmt_tensor* self, int64_t dim, shmt_tensor* values, shmt_tensor* indices) {
  enum { ABREAST = 16, SCRATCH_BYTES = 1 << 17, GRAIN = 4096 };
  SHMT_AUTO(shmt_tensor) dense = NULL;
  const int64_t length = self->sizes[dim];

  SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
  mode_job j = {.dtype = self->dtype,
                .x = shmt__tensor_data(dense),
                .values = shmt__tensor_data(values),
                .indices = shmt__tensor_data(indices),
                .length = length,
                .item = shmt__tensor_item_bytes(self),
                .inner = 1};
  for (int d = (int)dim + 1; d < self->n_dims; d++) j.inner *= self->sizes[d];
  j.abreast = SCRATCH_BYTES / (length * j.item);
  if (j.abreast > ABREAST) j.abreast = ABREAST;
  if (j.abreast < 1) j.abreast = 1;
  j.groups = (j.inner + j.abreast - 1) / j.abreast;
  shmt__parallel_for(values->numel / j.inner * j.groups, GRAIN / (length * j.abreast) + 1, run_groups, &j);
  SHMT_REQUIRE(!atomic_load_explicit(&j.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "mode(): no memory to sort lines of %" PRId64 " elements", length);
  return SHMT_OK;
}
