/* iter/run.c -- running a loop over an iterator: row by row, on several threads when there are many elements. */
#include "iter/iter.h"

#include "base/scalar.h"
#include "iter/copy/move.h"
#include "iter/copy/streaming_stores.h"
#include "iter/threads.h"
#include "os/futex.h"

enum {
  GRAIN_ELEMENTS = 32768, /* fewer elements are not worth another thread */
  COSTLY_GRAIN = 2500,    /* the same where each is expensive and workers are awake */
  NEAR_NS = 10000,        /* calls as close together as this keep workers awake */
};

typedef struct loop_args {
  const shmt_iter* it;
  shmt__loop loop;
  const void* ctx;
  int64_t streamed; /* bytes of an element of the output when it is written with streaming stores, else 0 */
  shmt__stage* stage; /* of this thread's piece, when stores are streaming */
} loop_args;

/* The element size of an output that is worth streaming stores, else 0: the only output, large, no input, with long
 * dense rows. */
static int64_t find_streamed(const shmt_iter* it) {
  const shmt__operand* out = &it->operands[0];

  if (it->n_outputs != 1 || it->n_operands < 2 || out->read) return 0;
  const int64_t item = shmt__tensor_item_bytes(out->tensor);
  if (it->numel * item < SHMT_STREAM_BYTES || out->strides[0] != item || it->sizes[0] * item < SHMT_STREAM_RUN_BYTES)
    return 0;
  for (int k = 1; k < it->n_operands; k++)
    if (it->operands[k].tensor->storage == out->tensor->storage) return 0;
  return item;
}

static void run_streamed(const loop_args* w, char* const* from, const int64_t* strides, int64_t n) {
  const int n_operands = w->it->n_operands;
  char *data[SHMT_ITER_MAX_OPERANDS], *to = from[0];

  if (w->loop == shmt__move_run && strides[1] == w->streamed) {
    shmt__stage_copy(w->stage, to, from[1], n * w->streamed);
    return;
  }
  for (int k = 1; k < n_operands; k++) data[k] = from[k];
  for (int64_t count, room; n > 0; n -= count) {
    data[0] = shmt__stage_reserve(w->stage, to, w->streamed, &room);
    count = room / w->streamed < n ? room / w->streamed : n;
    w->loop(data, strides, count, w->ctx);
    shmt__stage_commit(w->stage, count * w->streamed);
    to += count * w->streamed;
    for (int k = 1; k < n_operands; k++) data[k] += count * strides[k];
  }
}

static inline void run_inner(const loop_args* w, char* const* data, const int64_t* strides, int64_t n) {
  if (SHMT_UNLIKELY(w->stage != NULL))
    run_streamed(w, data, strides, n);
  else
    w->loop(data, strides, n, w->ctx);
}

static void run_1d(const loop_args* w, int64_t begin, int64_t end) {
  const shmt_iter* it = w->it;
  char* data[SHMT_ITER_MAX_OPERANDS];
  int64_t strides[SHMT_ITER_MAX_OPERANDS];

  for (int k = 0; k < it->n_operands; k++) {
    strides[k] = it->operands[k].strides[0];
    data[k] = it->operands[k].data + begin * strides[k];
  }
  run_inner(w, data, strides, end - begin);
}

static void run_nd(const loop_args* w, int64_t begin, int64_t end) {
  const shmt_iter* it = w->it;
  const int n = it->n_operands;
  char* data[SHMT_ITER_MAX_OPERANDS];
  int64_t strides[SHMT_ITER_MAX_OPERANDS], row[SHMT_ITER_MAX_OPERANDS];
  int64_t at[SHMT_MAX_DIMS];
  int64_t rest = begin;

  for (int d = 0; d < it->n_dims; d++) { /* most loops begin at 0: no division */
    at[d] = rest != 0 ? rest % it->sizes[d] : 0;
    rest = rest != 0 ? rest / it->sizes[d] : 0;
  }
  for (int k = 0; k < n; k++) {
    const shmt__operand* op = &it->operands[k];
    strides[k] = op->strides[0];
    row[k] = op->strides[1] - at[0] * strides[k];
    data[k] = op->data;
    for (int d = 0; d < it->n_dims; d++) data[k] += at[d] * op->strides[d];
  }
  for (int64_t run = it->sizes[0] - at[0]; begin < end; run = it->sizes[0]) {
    if (run > end - begin) run = end - begin;
    run_inner(w, data, strides, run);
    begin += run;
    if (begin >= end) break;
    for (int k = 0; k < n; k++) data[k] += row[k];
    if (SHMT_UNLIKELY(at[0] != 0)) { /* only the first row can begin in its middle */
      for (int k = 0; k < n; k++) row[k] = it->operands[k].strides[1];
      at[0] = 0;
    }
    if (SHMT_LIKELY(++at[1] < it->sizes[1])) continue;
    for (int d = 1;;) {
      for (int k = 0; k < n; k++) data[k] -= it->operands[k].strides[d] * it->sizes[d];
      at[d] = 0;
      if (++d >= it->n_dims) break;
      for (int k = 0; k < n; k++) data[k] += it->operands[k].strides[d];
      if (++at[d] < it->sizes[d]) break;
    }
  }
}

static void run_range(void* arg, int64_t begin, int64_t end) {
  const loop_args* w = arg;

  if (w->it->n_dims == 1)
    run_1d(w, begin, end);
  else
    run_nd(w, begin, end);
}

static void run_range_streamed(void* arg, int64_t begin, int64_t end) {
  loop_args w = *(const loop_args*)arg;
  shmt__stage s;

  shmt__stage_init(&s);
  w.stage = &s;
  run_range(&w, begin, end);
  shmt__stage_end(&s);
}

/* A loop around a loop: each element is converted and stored in the output before the next is read. */
static void convert_elementwise(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const loop_args* inner = ctx;
  const shmt_iter* it = inner->it;
  char* at[SHMT_ITER_MAX_OPERANDS];
  _Alignas(16) char element[16];

  for (int64_t i = 0; i < n; i++) {
    at[0] = element;
    for (int k = 1; k < it->n_operands; k++) at[k] = data[k] + i * strides[k];
    inner->loop(at, strides, 1, inner->ctx);
    shmt__scalar_store_unsafe(shmt__scalar_load(element, SHMT_BOOL), it->operands[0].tensor->dtype,
                              data[0] + i * strides[0]);
  }
}

/* Must the output be written in another dtype than the loop's, without a temporary? */
static bool must_convert_elementwise(const shmt_iter* it) {
  const shmt__operand* out = &it->operands[0];
  const bool to_bool =
      out->want == SHMT_BOOL || (out->want == SHMT_DTYPE_NONE && it->promote == SHMT_PROMOTE_COMPARE);

  return to_bool && !out->original && out->tensor->dtype != SHMT_BOOL;
}

/* Some microseconds of work: one piece for each thread where workers are awake. They are woken only when such calls
 * follow each other. */
static void run_costly(loop_args* w) {
  static _Thread_local uint64_t last_ns;
  const int64_t n = w->it->numel, most = n / COSTLY_GRAIN;
  const int64_t pieces = most < shmt__num_threads() ? most : shmt__num_threads();

  if (pieces < 2) {
    run_range(w, 0, n);
  } else if (shmt__workers_awake() || shmt__os_now_ns() - last_ns < NEAR_NS) {
    shmt__parallel_for(n, (n + pieces - 1) / pieces, run_range, w);
  } else {
    run_range(w, 0, n);
    last_ns = shmt__os_now_ns();
  }
}

shmt_status shmt__iter_run(shmt_iter* it, shmt__loop loop, const void* ctx) {
  loop_args w = {it, loop, ctx, 0, NULL};

  if (it->is_meta || it->numel == 0) return SHMT_OK;
  if (SHMT_UNLIKELY(it->operands[0].read) && must_convert_elementwise(it)) {
    loop_args outer = {it, convert_elementwise, &w, 0, NULL};
    run_range(&outer, 0, it->numel);
    return SHMT_OK;
  }
  if (it->numel <= GRAIN_ELEMENTS) {
    if (it->is_costly && it->numel > COSTLY_GRAIN)
      run_costly(&w);
    else
      run_range(&w, 0, it->numel);
    return SHMT_OK;
  }
  w.streamed = find_streamed(it);
  shmt__parallel_for(it->numel, GRAIN_ELEMENTS, w.streamed ? run_range_streamed : run_range, &w);
  return SHMT_OK;
}

shmt_status shmt__iter_run_costly(shmt_iter* it, shmt__loop loop, const void* ctx, int64_t cost) {
  loop_args w = {it, loop, ctx, 0, NULL};

  if (it->is_meta || it->numel == 0) return SHMT_OK;
  shmt__parallel_for(it->numel, GRAIN_ELEMENTS / (cost > 0 ? cost : 1) + 1, run_range, &w);
  return SHMT_OK;
}

typedef struct split_loop {
  const loop_args* w;
  int dim;       /* the dim that threads share */
  int64_t block; /* how many of its elements a unit has */
} split_loop;

static void run_along_dim(void* arg, int64_t begin, int64_t end) {
  const split_loop* a = arg;
  const int64_t size = a->w->it->sizes[a->dim];
  shmt_iter part = *a->w->it;
  const loop_args inner = {&part, a->w->loop, a->w->ctx, 0, NULL};

  begin *= a->block;
  end = end * a->block < size ? end * a->block : size;
  part.numel = part.numel / size * (end - begin);
  part.sizes[a->dim] = end - begin;
  for (int k = 0; k < part.n_operands; k++) part.operands[k].data += begin * part.operands[k].strides[a->dim];
  run_range((void*)(uintptr_t)&inner, 0, part.numel);
}

shmt_status shmt__iter_run_disjoint(shmt_iter* it, shmt__loop loop, const void* ctx) {
  const loop_args w = {it, loop, ctx, 0, NULL};
  const int threads = it->numel > GRAIN_ELEMENTS ? shmt__num_threads() : 1;
  split_loop a = {&w, -1, 1};

  /* The outermost dim is best, unless it is too short: rows stay long, and no two threads write to one cache line. */
  for (int d = it->n_dims - 1; d >= 0 && threads > 1; d--) {
    if (it->operands[0].strides[d] == 0 || (a.dim >= 0 && it->sizes[a.dim] >= threads)) continue;
    if (a.dim < 0 || it->sizes[d] > it->sizes[a.dim]) a.dim = d;
  }
  if (a.dim < 0 || it->sizes[a.dim] < threads) return shmt__iter_run_serial(it, loop, ctx);
  if (a.dim == 0) a.block = (it->sizes[0] + threads - 1) / threads;
  const int64_t units = (it->sizes[a.dim] + a.block - 1) / a.block;
  shmt__parallel_for(units, GRAIN_ELEMENTS / (it->numel / units) + 1, run_along_dim, &a);
  return SHMT_OK;
}

shmt_status shmt__iter_run_serial(shmt_iter* it, shmt__loop loop, const void* ctx) {
  loop_args w = {it, loop, ctx, 0, NULL};

  if (it->is_meta || it->numel == 0) return SHMT_OK;
  run_range(&w, 0, it->numel);
  return SHMT_OK;
}
