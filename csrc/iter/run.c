/* iter/run.c -- walking an iterator: runs along the innermost dim, split over threads when large.
 */
#include "iter/iter.h"
#include "iter/threads.h"

enum { GRAIN = 32768 }; /* elements below which another thread does not pay */

typedef struct walk {
  const shmt_iter* it;
  shmt__loop loop;
  const void* ctx;
} walk;

static void walk_line(const walk* w, int64_t begin, int64_t end) {
  const shmt_iter* it = w->it;
  char* data[SHMT_ITER_MAX_OPERANDS];
  int64_t strides[SHMT_ITER_MAX_OPERANDS];

  for (int k = 0; k < it->n_operands; k++) {
    strides[k] = it->operands[k].strides[0];
    data[k] = it->operands[k].data + begin * strides[k];
  }
  w->loop(data, strides, end - begin, w->ctx);
}

static void walk_range(void* arg, int64_t begin, int64_t end) {
  const walk* w = arg;
  const shmt_iter* it = w->it;
  const int n = it->n_operands;
  char* data[SHMT_ITER_MAX_OPERANDS];
  int64_t strides[SHMT_ITER_MAX_OPERANDS];
  int64_t at[SHMT_MAX_DIMS];
  int64_t rest = begin;

  if (it->n_dims == 1) {
    walk_line(w, begin, end);
    return;
  }
  for (int d = 0; d < it->n_dims; d++) {
    at[d] = rest % it->sizes[d];
    rest /= it->sizes[d];
  }
  for (int k = 0; k < n; k++) {
    const shmt__operand* op = &it->operands[k];
    strides[k] = op->strides[0];
    data[k] = op->data;
    for (int d = 0; d < it->n_dims; d++) data[k] += at[d] * op->strides[d];
  }
  while (begin < end) {
    int64_t run = it->sizes[0] - at[0];
    if (run > end - begin) run = end - begin;
    w->loop(data, strides, run, w->ctx);
    begin += run;
    if (begin >= end) break;
    /* Only the first run can start inside a row. */
    for (int k = 0; k < n; k++) data[k] -= at[0] * strides[k];
    at[0] = 0;
    for (int d = 1; d < it->n_dims; d++) {
      for (int k = 0; k < n; k++) data[k] += it->operands[k].strides[d];
      if (++at[d] < it->sizes[d]) break;
      for (int k = 0; k < n; k++) data[k] -= it->operands[k].strides[d] * it->sizes[d];
      at[d] = 0;
    }
  }
}

shmt_status shmt__iter_run(shmt_iter* it, shmt__loop loop, const void* ctx) {
  walk w = {it, loop, ctx};

  if (it->is_meta || it->numel == 0) return SHMT_OK;
  if (it->numel <= GRAIN) {
    if (it->n_dims == 1)
      walk_line(&w, 0, it->numel);
    else
      walk_range(&w, 0, it->numel);
    return SHMT_OK;
  }
  shmt__parallel_for(it->numel, GRAIN, walk_range, &w);
  return SHMT_OK;
}

shmt_status shmt__iter_run_serial(shmt_iter* it, shmt__loop loop, const void* ctx) {
  walk w = {it, loop, ctx};

  if (it->is_meta || it->numel == 0) return SHMT_OK;
  walk_range(&w, 0, it->numel);
  return SHMT_OK;
}
