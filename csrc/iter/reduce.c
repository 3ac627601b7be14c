/* iter/reduce.c -- the driver of reductions: the order of the loops, tiles of results, threads. */
#include "iter/reduce.h"

#include "base/overflow.h"
#include "iter/iter.h"
#include "iter/threads.h"
#include "storage/allocator.h"

enum {
  GRAIN_ELEMENTS = 32768, /* elements below which another thread does not pay */
  MAX_PARTS = 32,
  ROWS_IN_PART = 128,     /* of a part at least: a merge of states costs as much as many elements */
  STATES_BYTES = 1 << 17, /* of all parts of rows, at most */
  ROWS_IN_RUN = 64,       /* results in a tile when elements of one result lie together */
};

typedef struct axis {
  int64_t size;
  int64_t in;     /* bytes */
  int64_t out[2]; /* bytes; kept axes */
  int64_t index;  /* reduced axes: step in the row-major index */
} axis;

typedef struct plan {
  int n_keep, n_reduce;
  int64_t kept, reduced; /* products */
  bool are_rows;         /* elements of neighbouring results lie together */
  int64_t tile;          /* results of keep[0] in one run */
  int64_t tiles;         /* runs along keep[0] */
  int64_t units;         /* runs in all */
  int64_t state_bytes;
  const char* in;
  char* out[2];
  int n_outs;
  shmt__reduce_loop loop;
  const void* ctx;
  /* A split reduction: `parts` ranges of reduce[split], states of all results of each part. */
  int split;
  int64_t parts;
  char* states;
  /* Innermost first, at least one of each. Only those in use are written: the whole is kilobytes. */
  axis keep[SHMT_MAX_DIMS], reduce[SHMT_MAX_DIMS];
} plan;

/* --- planning ----------------------------------------------------------------------- */

static void sort_by_stride(axis* a, int n) {
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0 && a[j].in < a[j - 1].in; j--) {
      axis swap = a[j];
      a[j] = a[j - 1];
      a[j - 1] = swap;
    }
}

/* Does dim hi step further than all steps of dim lo? The products may wrap where there are no elements. */
static bool follows(const axis* lo, const axis* hi) {
  return shmt__wrap_mul_i64(lo->in, lo->size) == hi->in && shmt__wrap_mul_i64(lo->out[0], lo->size) == hi->out[0] &&
         shmt__wrap_mul_i64(lo->out[1], lo->size) == hi->out[1] && shmt__wrap_mul_i64(lo->index, lo->size) == hi->index;
}

static int merge_axes(axis* a, int n) {
  int last = 0;

  for (int i = 1; i < n; i++) {
    const axis* const hi = &a[i];
    if (follows(&a[last], hi))
      a[last].size = shmt__wrap_mul_i64(a[last].size, hi->size);
    else
      a[++last] = *hi;
  }
  return n ? last + 1 : 0;
}

static void add_axes(plan* p, const shmt_tensor* in, uint64_t mask, shmt_tensor* const* outs) {
  const int64_t item = shmt__tensor_item_bytes(in);
  int64_t index = 1;
  int out_dim[2];

  for (int k = 0; k < p->n_outs; k++) out_dim[k] = outs[k]->n_dims;
  for (int d = in->n_dims - 1; d >= 0; d--) {
    const bool is_reduced = mask >> d & 1;
    axis a = {.size = in->sizes[d], .in = shmt__wrap_mul_i64(in->strides[d], item)};
    for (int k = 0; k < p->n_outs; k++) {
      const bool has_dim = outs[k]->n_dims == in->n_dims || !is_reduced;
      if (has_dim) out_dim[k]--;
      if (!is_reduced) a.out[k] = shmt__wrap_mul_i64(outs[k]->strides[out_dim[k]], shmt__tensor_item_bytes(outs[k]));
    }
    if (is_reduced) {
      a.index = index;
      index = shmt__wrap_mul_i64(index, a.size); /* nothing is read when it wraps */
      p->reduced = shmt__wrap_mul_i64(p->reduced, a.size);
      if (a.size != 1) p->reduce[p->n_reduce++] = a;
    } else {
      p->kept = shmt__wrap_mul_i64(p->kept, a.size);
      if (a.size != 1) p->keep[p->n_keep++] = a;
    }
  }
}

static void make_plan(plan* p, const shmt_tensor* in, uint64_t mask, shmt_tensor* const* outs,
                      bool ordered) {
  const int64_t item = shmt__tensor_item_bytes(in);

  p->n_keep = p->n_reduce = 0;
  p->kept = p->reduced = 1;
  add_axes(p, in, mask, outs);
  if (p->kept == 0) return; /* there is no element, and the product of the sizes may overflow */
  sort_by_stride(p->keep, p->n_keep);
  if (!ordered) {
    sort_by_stride(p->reduce, p->n_reduce);
    for (int i = 0; i < p->n_reduce; i++) p->reduce[i].index = 0;
  }
  p->n_keep = merge_axes(p->keep, p->n_keep);
  p->n_reduce = merge_axes(p->reduce, p->n_reduce);
  if (p->n_keep == 0) p->keep[p->n_keep++] = (axis){.size = 1};
  if (p->n_reduce == 0) p->reduce[p->n_reduce++] = (axis){.size = 1};
  p->are_rows = p->keep[0].in == item && p->reduce[0].in != item;
  /* As many results of rows at once as there is room for. */
  p->tile = p->are_rows ? SHMT_REDUCE_TILE : ROWS_IN_RUN;
  if (p->tile > p->keep[0].size) p->tile = p->keep[0].size;
  p->tiles = p->tile ? (p->keep[0].size + p->tile - 1) / p->tile : 0;
  p->units = p->tiles;
  for (int i = 1; i < p->n_keep; i++) p->units *= p->keep[i].size;
}

/* --- walking ------------------------------------------------------------------------ */

/* Where the unit begins in `in` and `out`, and how many results it has. */
static shmt__reduce_run locate_unit(const plan* p, int64_t unit) {
  const int64_t tile = unit % p->tiles;
  shmt__reduce_run run = {.in = p->in,
                          .out = {p->out[0], p->out[1]},
                          .n_keep = p->keep[0].size - tile * p->tile,
                          .keep_stride = p->keep[0].in,
                          .reduce_stride = p->reduce[0].in,
                          .index_stride = p->reduce[0].index,
                          .out_stride = {p->keep[0].out[0], p->keep[0].out[1]},
                          .count = p->reduced,
                          .ctx = p->ctx};
  int64_t rest = unit / p->tiles, at = tile * p->tile;

  if (run.n_keep > p->tile) run.n_keep = p->tile;
  for (int i = 0; i < p->n_keep; i++) {
    const axis* a = &p->keep[i];
    if (i > 0) {
      at = rest % a->size;
      rest /= a->size;
    }
    run.in += at * a->in;
    run.out[0] += at * a->out[0];
    run.out[1] += at * a->out[1];
  }
  return run;
}

/* Accumulate all elements of the unit's results, with reduce[split] from begin to end only. */
static void accumulate(const plan* p, shmt__reduce_run* run, int split, int64_t begin,
                       int64_t end) {
  int64_t at[SHMT_MAX_DIMS], from[SHMT_MAX_DIMS], to[SHMT_MAX_DIMS];

  for (int i = 0; i < p->n_reduce; i++) {
    from[i] = i == split ? begin : 0;
    to[i] = i == split ? end : p->reduce[i].size;
    at[i] = from[i];
    run->in += from[i] * p->reduce[i].in;
    run->index += from[i] * p->reduce[i].index;
    if (from[i] >= to[i]) return;
  }
  run->n_reduce = to[0] - from[0];
  for (;;) {
    int i = 1;
    p->loop(SHMT_REDUCE_ACCUMULATE, run);
    for (; i < p->n_reduce; i++) {
      const axis* a = &p->reduce[i];
      run->in += a->in;
      run->index += a->index;
      if (++at[i] < to[i]) break;
      run->in -= (to[i] - from[i]) * a->in;
      run->index -= (to[i] - from[i]) * a->index;
      at[i] = from[i];
    }
    if (i >= p->n_reduce) return;
  }
}

static void reduce_units(void* arg, int64_t begin, int64_t end) {
  const plan* p = arg;
  _Alignas(64) char states[SHMT_REDUCE_TILE * SHMT_REDUCE_STATE_BYTES];

  for (int64_t unit = begin; unit < end; unit++) {
    shmt__reduce_run run = locate_unit(p, unit);
    run.state = states;
    run.n_reduce = p->reduce[0].size;
    if (p->n_reduce == 1 && p->reduced > 0 && p->loop(SHMT_REDUCE_WHOLE, &run)) continue;
    p->loop(SHMT_REDUCE_INIT, &run);
    if (p->reduced > 0) accumulate(p, &run, -1, 0, 0);
    p->loop(SHMT_REDUCE_STORE, &run);
  }
}

static void reduce_parts(void* arg, int64_t begin, int64_t end) {
  const plan* p = arg;
  const int64_t size = p->reduce[p->split].size;

  for (int64_t part = begin; part < end; part++)
    for (int64_t unit = 0; unit < p->units; unit++) {
      shmt__reduce_run run = locate_unit(p, unit);
      run.state = p->states + (part * p->units + unit) * p->tile * p->state_bytes;
      p->loop(SHMT_REDUCE_INIT, &run);
      accumulate(p, &run, p->split, size * part / p->parts, size * (part + 1) / p->parts);
    }
}

static void merge_parts(const plan* p) {
  for (int64_t unit = 0; unit < p->units; unit++) {
    shmt__reduce_run run = locate_unit(p, unit);
    const int64_t step = p->units * p->tile * p->state_bytes;
    run.state = p->states + unit * p->tile * p->state_bytes;
    for (int64_t part = 1; part < p->parts; part++) {
      run.other = run.state + part * step;
      p->loop(SHMT_REDUCE_MERGE, &run);
    }
    p->loop(SHMT_REDUCE_STORE, &run);
  }
}

/* Rows of neighbouring results are shared out whole and not by tiles: each thread then reads memory in order, and the
 * next operator finds most of it in the caches of the same cores. */
static int64_t parts_of_rows(const plan* p, int threads) {
  const int64_t enough = p->reduce[p->split].size / ROWS_IN_PART;
  const int64_t parts = enough < 2 * threads ? enough : 2 * threads;

  if (!p->are_rows || p->n_keep > 1 || parts < threads || p->kept * parts * p->state_bytes > STATES_BYTES) return 1;
  return parts;
}

/* For few results of many elements each. */
static int64_t parts_of_few(const plan* p, int threads) {
  const int64_t work = p->kept * p->reduced, size = p->reduce[p->split].size;
  const int64_t parts = work / GRAIN_ELEMENTS < MAX_PARTS ? work / GRAIN_ELEMENTS : MAX_PARTS;

  if (p->units >= 2 * threads || p->kept * SHMT_REDUCE_STATE_BYTES >= work) return 1;
  return parts < size ? parts : size;
}

static shmt_status reduce_split(plan* p) {
  const uint64_t nbytes = (uint64_t)(p->parts * p->units * p->tile * p->state_bytes);
  void* states;

  SHMT_TRY(shmt__alloc(nbytes, &states));
  p->states = states;
  shmt__parallel_for(p->parts, 1, reduce_parts, p);
  merge_parts(p);
  shmt__dealloc(states, nbytes);
  return SHMT_OK;
}

/* One result of contiguous memory: there is nothing to plan. */
static bool reduce_whole(shmt_tensor* in, uint64_t mask, shmt_tensor* const* outs, int n_outs,
                         shmt__reduce_loop loop, const void* ctx) {
  _Alignas(16) char state[SHMT_REDUCE_STATE_BYTES];
  const int64_t item = shmt__tensor_item_bytes(in);
  shmt__reduce_run run = {.state = state,
                          .n_keep = 1,
                          .n_reduce = in->numel,
                          .reduce_stride = item,
                          .index_stride = 1,
                          .count = in->numel,
                          .ctx = ctx,
                          .in = shmt__tensor_data(in)};

  if (in->numel > GRAIN_ELEMENTS || !shmt__tensor_is_contiguous(in) || mask != shmt__all_dims_mask(in->n_dims))
    return false;
  for (int k = 0; k < n_outs; k++) run.out[k] = shmt__tensor_data(outs[k]);
  loop(SHMT_REDUCE_INIT, &run);
  if (in->numel) loop(SHMT_REDUCE_ACCUMULATE, &run);
  loop(SHMT_REDUCE_STORE, &run);
  return true;
}

shmt_status shmt__reduce(shmt_tensor* in, uint64_t mask, shmt_tensor* const* outs, int n_outs,
                         bool ordered, shmt__reduce_loop loop, const void* ctx) {
  if (in->device == SHMT_META || reduce_whole(in, mask, outs, n_outs, loop, ctx)) return SHMT_OK;

  plan p;
  p.n_outs = n_outs;
  p.loop = loop;
  p.ctx = ctx;
  make_plan(&p, in, mask, outs, ordered);
  if (p.kept == 0) return SHMT_OK;
  p.in = shmt__tensor_data(in);
  p.out[0] = p.out[1] = NULL;
  for (int k = 0; k < n_outs; k++) p.out[k] = shmt__tensor_data(outs[k]);
  p.state_bytes = loop(SHMT_REDUCE_SIZE, NULL);
  SHMT_ASSERT(p.state_bytes <= SHMT_REDUCE_STATE_BYTES);

  p.split = 0;
  for (int i = 1; i < p.n_reduce; i++)
    if (p.reduce[i].size > p.reduce[p.split].size) p.split = i;

  const int64_t work = in->numel;
  const int threads = work > GRAIN_ELEMENTS ? shmt__num_threads() : 1;
  if (threads > 1) {
    p.parts = parts_of_rows(&p, threads);
    if (p.parts == 1) p.parts = parts_of_few(&p, threads);
    if (p.parts > 1) return reduce_split(&p);
  }
  const int64_t per_unit = work / p.units;
  shmt__parallel_for(p.units, per_unit > GRAIN_ELEMENTS ? 1 : 1 + GRAIN_ELEMENTS / (per_unit + 1), reduce_units, &p);
  return SHMT_OK;
}
