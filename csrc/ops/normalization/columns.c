/* ops/normalization/columns.c -- runs loops over the columns of a matrix, with its rows divided among threads.
 *
 * Rows of few columns that follow each other without a gap are joined to wider rows: a loop that starts anew for every
 * 16 elements takes three times as long.
 */
#include "ops/normalization/columns.h"

#include "generated/loops.h"
#include "iter/iter.h"

#include <string.h>

enum { MAX_TASKS = 8, TASK_ELEMENTS = 32768, WIDE_COLUMNS = 64 };

/* `fold` given rows form one wide row; a task has `per` of the given rows. */
typedef struct tasks {
  const shmt__column_loop* c;
  int64_t fold, per;
  double params[4][SHMT_MAX_COLUMNS];
  double totals[MAX_TASKS][SHMT_MAX_COLUMNS];
} tasks;

/* How many rows are joined to one. */
static int64_t find_fold(const shmt__column_loop* c) {
  const int64_t row = c->n * (int64_t)shmt__dtype_size[c->dtype];

  for (int k = c->is_sum ? 1 : 0; k <= c->n_matrices; k++)
    if (c->data[k] && c->strides[k] != row) return 1;
  const int64_t most = c->rows > 1 ? c->rows : 1;
  return c->n >= WIDE_COLUMNS ? 1 : WIDE_COLUMNS / c->n < most ? WIDE_COLUMNS / c->n : most;
}

/* Runs the loop over `rows` wide rows, each of `fold` given rows, from the given row `begin` on. */
static void run_column_rows(const tasks* p, char* totals, int64_t begin, int64_t fold, int64_t rows) {
  const shmt__column_loop* c = p->c;
  int64_t strides[3];
  char* data[7];

  for (int k = 0; k <= c->n_matrices; k++) {
    strides[k] = c->strides[k] * fold;
    data[k] = c->data[k] ? c->data[k] + begin * c->strides[k] : NULL;
  }
  if (c->is_sum) data[0] = totals;
  for (int k = 0; k < c->n_params; k++)
    data[c->n_matrices + 1 + k] = c->data[c->n_matrices + 1 + k] ? (char*)(uintptr_t)p->params[k] : NULL;
  shmt__loops[c->loop][c->dtype](data, strides, c->n * fold, &rows);
}

static void run_tasks(void* ctx, int64_t first, int64_t last) {
  tasks* p = ctx;

  for (int64_t i = first; i < last; i++) {
    const int64_t begin = i * p->per, left = p->c->rows - begin, rows = left < p->per ? left : p->per;
    const int64_t rest = rows % p->fold;
    char* const totals = (char*)p->totals[i];
    if (p->c->is_sum) memset(totals, 0, (size_t)(p->c->n * p->fold) * sizeof(double));
    run_column_rows(p, totals, begin, p->fold, rows / p->fold);
    if (rest) run_column_rows(p, totals, begin + rows - rest, rest, 1);
  }
}

void shmt__column_loop_run(const shmt__column_loop* c) {
  tasks p; /* filled field by field, because it has tens of kilobytes */
  const int64_t wanted = c->rows * c->n / TASK_ELEMENTS + 1, n = wanted < MAX_TASKS ? wanted : MAX_TASKS;
  double* const sums = (double*)(void*)c->data[0];

  p.c = c;
  p.fold = find_fold(c);
  p.per = ((c->rows + n - 1) / n + p.fold - 1) / p.fold * p.fold;
  const int64_t many = p.per ? (c->rows + p.per - 1) / p.per : 0;
  for (int k = 0; k < c->n_params; k++) {
    const char* given = c->data[c->n_matrices + 1 + k];
    for (int64_t i = 0; given && i < p.fold; i++)
      memcpy(p.params[k] + i * c->n, given, (size_t)c->n * sizeof(double));
  }
  shmt__parallel_for(many, 1, run_tasks, &p);
  for (int64_t i = 0; c->is_sum && i < many; i++)
    for (int64_t k = 0; k < p.fold; k++)
      for (int64_t j = 0; j < c->n; j++) sums[j] += p.totals[i][k * c->n + j];
}
