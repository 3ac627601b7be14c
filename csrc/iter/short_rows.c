/* iter/short_rows.c -- running a loop over an iterator whose innermost dim is short: (n, 3) points, 3x3 planes.
 *
 * The loop is called along the second dim, a block of it at a time. Within a block all elements of the innermost dim
 * follow, so that its cache lines are still there for the next call.
 */
#include "iter/short_rows.h"

#include "iter/threads.h"

enum {
  NARROW = 16,            /* elements of a dim that are too few for a call */
  MANY_ROWS = 32,         /* elements of the next dim that make a call worth while */
  ELEMENTS_OF_CALL = 256, /* elements of a call */
  GRAIN_ROWS = 8192,      /* fewer rows are not worth another thread */
};

typedef struct short_rows_args {
  const shmt_iter* it;
  shmt__loop loop;
  const void* ctx;
} short_rows_args;

bool shmt__iter_has_short_rows(const shmt_iter* it) {
  const shmt__operand* out = &it->operands[0];

  if (it->n_dims < 2 || it->sizes[0] >= NARROW || it->sizes[1] < MANY_ROWS || it->is_meta) return false;
  /* An in-place output that is converted is read and written one element after the other. */
  return !out->read || out->tensor->dtype == it->common_dtype;
}

/* Rows [begin, end) of the innermost dim. */
static void run_short_rows(void* arg, int64_t begin, int64_t end) {
  const short_rows_args* w = arg;
  const shmt_iter* it = w->it;
  const int n = it->n_operands;
  char *row[SHMT_ITER_MAX_OPERANDS], *data[SHMT_ITER_MAX_OPERANDS];
  int64_t strides[SHMT_ITER_MAX_OPERANDS], at[SHMT_MAX_DIMS];

  for (int k = 0; k < n; k++) {
    row[k] = it->operands[k].data;
    strides[k] = it->operands[k].strides[1];
  }
  for (int64_t d = 1, rest = begin; d < it->n_dims; rest /= it->sizes[d++]) {
    at[d] = rest % it->sizes[d];
    for (int k = 0; k < n; k++) row[k] += at[d] * it->operands[k].strides[d];
  }
  while (begin < end) {
    int64_t count = it->sizes[1] - at[1];
    if (count > end - begin) count = end - begin;
    if (count > ELEMENTS_OF_CALL) count = ELEMENTS_OF_CALL;
    for (int k = 0; k < n; k++) data[k] = row[k];
    for (int64_t i = 0; i < it->sizes[0]; i++) {
      w->loop(data, strides, count, w->ctx);
      for (int k = 0; k < n; k++) data[k] += it->operands[k].strides[0];
    }
    begin += count;
    at[1] += count;
    for (int k = 0; k < n; k++) row[k] += count * strides[k];
    for (int d = 1; d < it->n_dims && at[d] == it->sizes[d]; d++) {
      at[d] = 0;
      for (int k = 0; k < n; k++) row[k] -= it->sizes[d] * it->operands[k].strides[d];
      if (d + 1 == it->n_dims) break;
      at[d + 1]++;
      for (int k = 0; k < n; k++) row[k] += it->operands[k].strides[d + 1];
    }
  }
}

shmt_status shmt__iter_run_short_rows(shmt_iter* it, shmt__loop loop, const void* ctx) {
  short_rows_args w = {it, loop, ctx};

  if (it->numel > 0) shmt__parallel_for(it->numel / it->sizes[0], GRAIN_ROWS, run_short_rows, &w);
  return SHMT_OK;
}
