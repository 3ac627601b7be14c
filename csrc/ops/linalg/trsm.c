/* ops/linalg/trsm.c -- solves with triangular matrices: by panels, recursively, with row pivoting. See Note [trsm]. */
#include "ops/linalg/trsm.h"

#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/copy/move.h"
#include "kernels/linalg/trsm.h"

#include <string.h>

enum { VECTOR = 64 }; /* bytes of the widest vector */

static char* at(shmt__matrix a, int64_t row, int64_t column, int64_t item) {
  return a.data + (row * a.row_stride + column * a.column_stride) * item;
}

static shmt__matrix part_of(shmt__matrix a, int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t item) {
  return (shmt__matrix){at(a, row, column, item), rows, columns, a.row_stride, a.column_stride};
}

static void swap_bytes(char* a, char* b, int64_t nbytes) {
  char run[SHMT_TRSM_PANEL_BYTES];

  if (a == b) return;
  while (nbytes > 0) {
    const size_t some = (size_t)(nbytes < SHMT_TRSM_PANEL_BYTES ? nbytes : SHMT_TRSM_PANEL_BYTES);
    memcpy(run, a, some);
    memcpy(a, b, some);
    memcpy(b, run, some);
    a += some, b += some, nbytes -= (int64_t)some;
  }
}

void shmt__swap_columns(shmt__matrix x, const int* pivots, int64_t item) {
  for (int64_t j = x.columns - 1; j >= 0; j--)
    swap_bytes(at(x, 0, j, item), at(x, 0, pivots[j] - 1, item), x.rows * item);
}

/* The index of swap number `step`, of n, in order or from the last to the first. */
static int64_t swap_index(int64_t step, int64_t n, bool backwards) { return backwards ? n - 1 - step : step; }

static void swap_panel_rows(char* panel, int64_t n, const int* pivots, bool backwards) {
  for (int64_t step = 0; step < n; step++) {
    const int64_t i = swap_index(step, n, backwards);
    swap_bytes(panel + i * SHMT_TRSM_PANEL_BYTES, panel + (int64_t)(pivots[i] - 1) * SHMT_TRSM_PANEL_BYTES,
               SHMT_TRSM_PANEL_BYTES);
  }
}

typedef struct pair {
  double re, im;
} pair;

#define SWAP_ROWS(TYPE)                                                                        \
  for (int64_t j = 0; j < x.columns; j++) {                                                    \
    TYPE* column = (TYPE*)(void*)at(x, 0, j, item);                                            \
    for (int64_t step = 0; step < n; step++) {                                                 \
      const int64_t i = swap_index(step, n, backwards);                                        \
      TYPE *one = column + i * x.row_stride, *other = column + (pivots[i] - 1) * x.row_stride; \
      const TYPE kept = *one;                                                                  \
      *one = *other, *other = kept;                                                            \
    }                                                                                          \
  }

void shmt__swap_rows(shmt__matrix x, const int* pivots, int64_t n, bool backwards, int64_t item) {
  if (item == sizeof(float)) {
    SWAP_ROWS(float)
  } else if (item == sizeof(double)) {
    SWAP_ROWS(double)
  } else {
    SWAP_ROWS(pair)
  }
}

/* --- panels --------------------------------------------------------------------------------------- */

static void conjugate(shmt_dtype dtype, char* data, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; i++, data += stride) {
    if (dtype == SHMT_COMPLEX64)
      ((float*)(void*)data)[1] *= -1;
    else
      ((double*)(void*)data)[1] *= -1;
  }
}

static void load_panel(char* panel, shmt__matrix b, int64_t item) {
  if (b.columns * item % VECTOR) memset(panel, 0, (size_t)(b.rows * SHMT_TRSM_PANEL_BYTES));
  if (b.row_stride == 1 && b.column_stride != 1) {
    shmt__move_transposed(panel, SHMT_TRSM_PANEL_BYTES, b.data, b.column_stride * item, b.rows, b.columns, item);
    return;
  }
  if (b.column_stride == 1 && b.columns * item == SHMT_TRSM_PANEL_BYTES) {
    for (int64_t i = 0; i < b.rows; i++)
      memcpy(panel + i * SHMT_TRSM_PANEL_BYTES, at(b, i, 0, item), SHMT_TRSM_PANEL_BYTES);
    return;
  }
  for (int64_t i = 0; i < b.rows; i++)
    shmt__move_elements(panel + i * SHMT_TRSM_PANEL_BYTES, item, at(b, i, 0, item), b.column_stride * item, b.columns,
                        item);
}

static void store_panel(shmt__matrix x, const char* panel, int64_t item) {
  if (x.row_stride == 1 && x.column_stride != 1) {
    shmt__move_transposed(x.data, x.column_stride * item, panel, SHMT_TRSM_PANEL_BYTES, x.columns, x.rows, item);
    return;
  }
  if (x.column_stride == 1 && x.columns * item == SHMT_TRSM_PANEL_BYTES) {
    for (int64_t i = 0; i < x.rows; i++)
      memcpy(at(x, i, 0, item), panel + i * SHMT_TRSM_PANEL_BYTES, SHMT_TRSM_PANEL_BYTES);
    return;
  }
  for (int64_t i = 0; i < x.rows; i++)
    shmt__move_elements(at(x, i, 0, item), x.column_stride * item, panel + i * SHMT_TRSM_PANEL_BYTES, item, x.columns,
                        item);
}

/* Solves one panel. An upper triangular matrix is a lower one that is read from the end. */
static void solve_panel(shmt_dtype dtype, const shmt__triangular* t, char* panel, int64_t columns, int64_t begin) {
  const int64_t n = t->a.rows, item = shmt__dtype_size[dtype], last = n - 1;
  const int64_t sign = t->is_lower ? 1 : -1;
  const shmt__trsm_panel_args shape = {.row_stride = sign * t->a.row_stride,
                                       .column_stride = sign * t->a.column_stride,
                                       .columns = columns,
                                       .begin = begin,
                                       .is_unit = t->is_unit,
                                       .is_reversed = !t->is_lower};
  char* data[2] = {panel, t->a.data};

  if (!t->is_lower) data[0] += last * SHMT_TRSM_PANEL_BYTES, data[1] = at(t->a, last, last, item);
  if (t->is_conjugated) conjugate(dtype, panel, item, n * SHMT_TRSM_PANEL_BYTES / item);
  shmt__loops[SHMT_LOOP_trsm_panel][dtype](data, NULL, n, &shape);
  if (t->is_conjugated) conjugate(dtype, panel, item, n * SHMT_TRSM_PANEL_BYTES / item);
}

static void run_panels(const shmt__trsm_args* s, shmt__matrix b, shmt__matrix x, int64_t begin) {
  _Alignas(VECTOR) char panel[SHMT_TRSM_PANEL_ROWS * SHMT_TRSM_PANEL_BYTES];
  const int64_t n = x.rows, item = shmt__dtype_size[s->dtype], width = SHMT_TRSM_PANEL_BYTES / item;

  for (int64_t j = 0; j < x.columns; j += width) {
    const int64_t columns = x.columns - j < width ? x.columns - j : width;
    load_panel(panel, part_of(b, 0, n, j, columns, item), item);
    if (s->pivots && !s->pivots_last) swap_panel_rows(panel, n, s->pivots, false);
    for (int i = 0; i < s->n; i++)
      solve_panel(s->dtype, &s->triangular[i], panel, columns, i == 0 && s->triangular[0].is_lower ? begin : 0);
    if (s->pivots && s->pivots_last) swap_panel_rows(panel, n, s->pivots, true);
    store_panel(part_of(x, 0, n, j, columns, item), panel, item);
  }
}

/* --- large matrices, by halves -------------------------------------------------------------------- */

static void solve(shmt_dtype dtype, const shmt__triangular* t, shmt__matrix x, int64_t begin) {
  const int64_t n = x.rows, item = shmt__dtype_size[dtype];
  const int64_t half = (n / 2 + SHMT_TRSM_PANEL_ROWS - 1) / SHMT_TRSM_PANEL_ROWS * SHMT_TRSM_PANEL_ROWS;
  const int64_t rest = n - half, first = t->is_lower ? begin : 0;
  shmt__triangular above = *t, below = *t;

  if (n <= SHMT_TRSM_PANEL_ROWS) {
    const shmt__trsm_args s = {.dtype = dtype, .n = 1, .triangular = {*t}};
    run_panels(&s, x, x, begin);
    return;
  }
  above.a = part_of(t->a, 0, half, 0, half, item);
  below.a = part_of(t->a, half, rest, half, rest, item);
  const shmt__matrix high = part_of(x, 0, half, 0, x.columns, item), low = part_of(x, half, rest, 0, x.columns, item);
  if (first >= half) {
    solve(dtype, &below, low, first - half);
    return;
  }
  if (t->is_lower) {
    solve(dtype, &above, high, first);
    shmt__gemm(dtype, shmt__scalar_int(-1), part_of(t->a, half, rest, first, half - first, item),
               part_of(high, first, half - first, 0, x.columns, item), shmt__scalar_int(1), low);
    solve(dtype, &below, low, 0);
  } else {
    solve(dtype, &below, low, 0);
    shmt__gemm(dtype, shmt__scalar_int(-1), part_of(t->a, 0, half, half, rest, item), low, shmt__scalar_int(1), high);
    solve(dtype, &above, high, 0);
  }
}

static void conjugate_all(shmt_dtype dtype, shmt__matrix x) {
  const int64_t item = shmt__dtype_size[dtype];

  for (int64_t j = 0; j < x.columns; j++) conjugate(dtype, at(x, 0, j, item), x.row_stride * item, x.rows);
}

void shmt__trsm(const shmt__trsm_args* s, shmt__matrix b, shmt__matrix x, int64_t begin) {
  const int64_t item = shmt__dtype_size[s->dtype];

  if (x.rows <= SHMT_TRSM_PANEL_ROWS) {
    run_panels(s, b, x, begin);
    return;
  }
  if (s->pivots && !s->pivots_last) shmt__swap_rows(x, s->pivots, x.rows, false, item);
  for (int i = 0; i < s->n; i++) {
    const bool is_conjugated = s->triangular[i].is_conjugated;
    shmt__triangular t = s->triangular[i];
    t.is_conjugated = false;
    if (is_conjugated) conjugate_all(s->dtype, x);
    solve(s->dtype, &t, x, i == 0 ? begin : 0);
    if (is_conjugated) conjugate_all(s->dtype, x);
  }
  if (s->pivots && s->pivots_last) shmt__swap_rows(x, s->pivots, x.rows, true, item);
}
