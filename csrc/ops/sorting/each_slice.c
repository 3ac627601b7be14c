/* ops/sorting/each_slice.c -- runs a function on each slice of a tensor along a dim, a few neighbouring slices at a
 * time.
 *
 * Strided slices that are not too long are gathered first, in blocks of neighbours, so that all of a cache line that is
 * read is used. Strided results are made in dense scratch and moved to their places.
 */
#include "ops/sorting/each_slice.h"

#include "generated/loops.h"
#include "iter/cursor.h"
#include "iter/iter.h"
#include "iter/copy/move.h"
#include "iter/threads.h"
#include "ops/sorting/sort.h"
#include "storage/allocator.h"

#include <stdatomic.h>

enum {
  LONGEST_GATHERED_BYTES = 1 << 16, /* longer slices are read where they lie */
  LEAST_ROOM_BYTES = 1 << 17,       /* of a thread's gathered slices, */
  MOST_ROOM_BYTES = 1 << 19,        /* a quarter of all data in between */
  FEWEST_SLICES = 16,               /* of a group, where there is room */
  GRAIN_ELEMENTS = 4096,
};

/* Steps through x are in bytes, those through results in elements. */
typedef struct slice_groups {
  const shmt__slice_work* work;
  const char* x;
  char* values;
  int64_t* indices;
  int64_t length, step, k, k_step, item;
  int64_t neighbours, from_step, to_step; /* number of neighbouring slices; steps from one to the next */
  int64_t group_size, pieces;          /* slices of a group; groups of neighbours */
  shmt__loop_nest walk;                  /* over all other dims */
  bool gathers, scatters;
  uint64_t room_bytes;
  atomic_bool failed;
} slice_groups;

/* Memory of a thread. */
typedef struct slice_scratch {
  int64_t* indices;
  char *values, *x, *scratch;
} slice_scratch;

static int64_t padded(int64_t nbytes) { return (nbytes + 63) / 64 * 64; }

/* Gathers n slices from x into dense memory. */
static void gather(const slice_groups* g, char* to, const char* x, int64_t n) {
  const int64_t slice_bytes = g->length * g->item;

  if (n > 1 && g->from_step == g->item) {
    shmt__move_transposed(to, slice_bytes, x, g->step, n, g->length, g->item);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    shmt__move_elements(to + i * slice_bytes, g->item, x + i * g->from_step, g->step, g->length, g->item);
}

/* Moves the dense results of n slices to where they belong, from element `to` on. */
static void scatter(const slice_groups* g, char* results, const char* from, int64_t to, int64_t n, int64_t item) {
  char* place = results + to * item;

  if (n > 1 && g->to_step == 1) {
    shmt__move_transposed(place, g->k_step * item, from, g->k * item, g->k, n, item);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    shmt__move_elements(place + i * g->to_step * item, g->k_step * item, from + i * g->k * item, item, g->k, item);
}

static bool run_group(const slice_groups* g, const char* x, int64_t to, int64_t n, const slice_scratch* own) {
  const int64_t slice_bytes = g->length * g->item, step = g->gathers ? g->item : g->step;
  bool done = true;

  if (g->gathers) gather(g, own->x, x, n);
  for (int64_t i = 0; i < n; i++) {
    const char* from = g->gathers ? own->x + i * slice_bytes : x + i * g->from_step;
    const int64_t at = g->scatters ? i * g->k : to + i * g->to_step;
    char* values = g->scatters ? own->values : g->values;
    int64_t* indices = g->scatters ? own->indices : g->indices;
    done &= g->work->run(g->work, from, step, values + at * g->item, indices + at, own->scratch);
  }
  if (!g->scatters) return done;
  scatter(g, g->values, own->values, to, n, g->item);
  scatter(g, (char*)g->indices, (const char*)own->indices, to, n, sizeof *own->indices);
  return done;
}

static void run_groups(void* ctx, int64_t begin, int64_t end) {
  slice_groups* g = ctx;
  const int64_t results = g->scatters ? g->group_size * g->k : 0;
  bool done = true;
  void* memory = NULL;
  slice_scratch own;
  shmt__cursor c;

  if (shmt__alloc(g->room_bytes, &memory) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&g->failed, true, memory_order_relaxed);
    return;
  }
  own.indices = memory;
  own.values = (char*)memory + padded(results * (int64_t)sizeof *own.indices);
  own.x = own.values + padded(results * g->item);
  own.scratch = own.x + (g->gathers ? padded(g->group_size * g->length * g->item) : 0);
  shmt__cursor_init(&c, &g->walk, begin / g->pieces);
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i % g->pieces * g->group_size;
    const int64_t n = g->neighbours - first < g->group_size ? g->neighbours - first : g->group_size;
    done &= run_group(g, g->x + c.from + first * g->from_step, c.to + first * g->to_step, n, &own);
    if (i % g->pieces == g->pieces - 1) shmt__cursor_next(&c, &g->walk);
  }
  shmt__dealloc(memory, g->room_bytes);
  if (!done) atomic_store_explicit(&g->failed, true, memory_order_relaxed);
}

static void drop_dim(shmt__loop_nest* w, int gone) {
  w->n_dims--;
  for (int d = gone; d < w->n_dims; d++) {
    w->sizes[d] = w->sizes[d + 1];
    w->from[d] = w->from[d + 1];
    w->to[d] = w->to[d + 1];
  }
}

/* The dim that continues where the neighbours end; -1: none. */
static int next_neighbour_dim(const slice_groups* g) {
  int d = g->walk.n_dims - 1;

  while (d >= 0 && (g->walk.from[d] != g->from_step * g->neighbours || g->walk.to[d] != g->to_step * g->neighbours))
    d--;
  return d;
}

/* Collects the dims but `dim`. Those in which slices are nearest become one dim of neighbours; the walk has the
 * others. */
static void find_neighbours(slice_groups* g, const shmt_tensor* self, int64_t dim, const shmt_tensor* values) {
  shmt__loop_nest* w = &g->walk;
  int nearest = -1;

  w->n_dims = 0;
  g->neighbours = 1;
  g->from_step = g->to_step = 0;
  for (int d = self->n_dims - 1; d >= 0; d--) {
    if (d == dim || self->sizes[d] == 1) continue;
    const int n = w->n_dims++;
    w->sizes[n] = self->sizes[d];
    w->from[n] = self->strides[d] * g->item;
    w->to[n] = values->strides[d];
    const int64_t* steps = g->gathers ? w->from : w->to;
    if (nearest < 0 || steps[n] < steps[nearest]) nearest = n;
  }
  if (nearest < 0) return;
  g->from_step = w->from[nearest];
  g->to_step = w->to[nearest];
  for (; nearest >= 0; nearest = next_neighbour_dim(g)) {
    g->neighbours *= w->sizes[nearest];
    drop_dim(w, nearest);
  }
}

shmt_status shmt__for_each_slice(shmt_tensor* self, int64_t dim, const shmt__slice_work* work, shmt_tensor* values,
                                 shmt_tensor* indices) {
  const int64_t length = self->sizes[dim], item = shmt__tensor_item_bytes(self);
  slice_groups g = {.work = work,
                    .x = shmt__tensor_data(self),
                    .values = shmt__tensor_data(values),
                    .indices = shmt__tensor_data(indices),
                    .length = length,
                    .step = length > 1 ? self->strides[dim] * item : item,
                    .k = values->sizes[dim],
                    .k_step = values->strides[dim],
                    .item = item};

  g.gathers = g.step != item && length * item <= LONGEST_GATHERED_BYTES;
  g.scatters = g.k > 1 && g.k_step != 1;
  find_neighbours(&g, self, dim, values);
  const int64_t each = (g.gathers ? length * item : 0) + (g.scatters ? g.k * (item + (int64_t)sizeof(int64_t)) : 0);
  const int64_t enough = GRAIN_ELEMENTS / length > FEWEST_SLICES ? GRAIN_ELEMENTS / length : FEWEST_SLICES;
  const int64_t quarter = self->numel * item / 4;
  const int64_t room = quarter < LEAST_ROOM_BYTES  ? LEAST_ROOM_BYTES
                       : quarter < MOST_ROOM_BYTES ? quarter
                                                   : MOST_ROOM_BYTES;
  g.group_size = each > 0 && room / each < enough ? room / each : enough;
  if (g.group_size > 64 / item) g.group_size -= g.group_size % (64 / item); /* whole cache lines */
  if (g.group_size > g.neighbours) g.group_size = g.neighbours;
  if (g.group_size < 1) g.group_size = 1;
  g.pieces = (g.neighbours + g.group_size - 1) / g.group_size;
  g.room_bytes = (uint64_t)(g.group_size * each + 3 * 64) + work->scratch_bytes;
  const int64_t n_slices = self->numel / length, n_groups = n_slices / g.neighbours * g.pieces;
  if (work->is_parallel && n_slices < 8 * shmt__num_threads())
    run_groups(&g, 0, n_groups);
  else
    shmt__parallel_for(n_groups, GRAIN_ELEMENTS / (length * g.group_size) + 1, run_groups, &g);
  SHMT_REQUIRE(!atomic_load_explicit(&g.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "sort(): no memory to sort slices of %lld elements in", (long long)length);
  return SHMT_OK;
}

bool shmt__sort_slice(const shmt__slice_work* work, const char* x, int64_t step, char* values, int64_t* indices,
                     char* scratch) {
  char* data[4] = {values, (char*)indices, (char*)(uintptr_t)x, scratch};

  if (work->length >= SHMT_LONG_SLICE)
    return shmt__sort_long_slice(work->dtype, work->shape.descending, work->length, x, step, values, indices) ==
           SHMT_OK;
  shmt__loops[SHMT_LOOP_sort][work->dtype](data, NULL, work->length, &work->shape);
  return true;
}
