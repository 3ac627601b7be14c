/* ops/matmul/gemm_panels.c -- matrix products by panels of columns.
 *
 * Note [gemm panels]
 * A BLAS packs both factors of a product. That pays where rows, columns and k are all large; but a layer of a network
 * often multiplies a batch of few rows, or has a short k. Here only a panel is packed, some columns of b over some k,
 * which stays in the first-level cache while all rows of a pass by. Where a has few rows, even that is left out. Where
 * b is transposed and a has few rows, a is packed instead, and the transposed result is made.
 */
#include "ops/matmul/gemm_panels.h"

#include "base/sizes.h"
#include "generated/dtype_tables.h"
#include "generated/loops.h"
#include "iter/copy/move.h"
#include "kernels/matmul/gemm_panels.h"

#include <string.h>

enum {
  DEPTH = 192,        /* rows of a panel: half of the first-level cache is for a */
  STEP = 16,          /* depths are multiples of it */
  FEW_ROWS = 128,          /* rows of a for which packing does not pay where the rows of b are dense */
  SHORT_DEPTH = 64,       /* up to this depth, several panels are packed at once */
  PACKED_ROWS = 512,         /* rows of all packed panels */
  RUN = 12,           /* rows of a that several panels are multiplied by together */
  TRANSPOSED_ROWS = 240,       /* rows of transposed results at a time */
  LEAST_TRANSPOSED = 64,  /* bytes of such a row that pay for transposing */
  /* Multiplications: below SMALL the library does not pack either; from LARGE on its packing pays. */
  SMALL = 1000 * 1000,
  SMALL_TRANSPOSED = 1 << 16,
  LARGE = 100 * SMALL,
};

typedef struct scaling {
  shmt_dtype dtype;
  int64_t item; /* its bytes */
  const void *alpha, *beta;
  bool beta_is_zero;
} scaling;

static shmt__matrix block_of(shmt__matrix m, int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t item) {
  return (shmt__matrix){m.data + (row * m.row_stride + column * m.column_stride) * item, rows, columns, m.row_stride,
                        m.column_stride};
}

bool shmt__gemm_prefers_panels(shmt__matrix a, shmt__matrix b, int64_t item) {
  const bool is_transposed = b.row_stride == 1 && b.column_stride != 1;
  const double ops = (double)a.rows * (double)a.columns * (double)b.columns;

  return shmt__cpu_level == SHMT_CPU_V4 && ops > (is_transposed ? SMALL_TRANSPOSED : SMALL) && ops < LARGE &&
         (!is_transposed || a.rows * item >= LEAST_TRANSPOSED);
}

/* Pack a panel: rows of SHMT_GEMM_PANEL_BYTES each, filled up with zeros. */
static void pack_right(shmt__matrix b, int64_t item, char* to) {
  if (b.columns * item < SHMT_GEMM_PANEL_BYTES) memset(to, 0, (size_t)(b.rows * SHMT_GEMM_PANEL_BYTES));
  if (b.column_stride == 1 || b.columns == 1)
    shmt__move_rows(to, SHMT_GEMM_PANEL_BYTES, b.data, b.row_stride * item, b.rows, b.columns * item);
  else if (b.row_stride == 1 || b.rows == 1)
    shmt__move_transposed(to, SHMT_GEMM_PANEL_BYTES, b.data, b.column_stride * item, b.rows, b.columns, item);
  else
    shmt__move_plane(to, (int64_t[]){item, SHMT_GEMM_PANEL_BYTES}, b.data,
                     (int64_t[]){b.column_stride * item, b.row_stride * item}, b.rows, b.columns, item);
}

/* c = beta * c + alpha * a @ panel. */
static void multiply_panel(const scaling* f, shmt__matrix a, const char* panel, int64_t panel_row, bool prefetches,
                           shmt__matrix c) {
  const shmt__gemm_panel_args shape = {.columns = c.columns,
                                       .depth = a.columns,
                                       .a_row = a.row_stride,
                                       .a_column = a.column_stride,
                                       .b_row = panel_row,
                                       .c_row = c.row_stride,
                                       .alpha = f->alpha,
                                       .beta = f->beta,
                                       .beta_is_zero = f->beta_is_zero,
                                       .prefetches = prefetches};
  char* data[3] = {c.data, a.data, (char*)(uintptr_t)panel};

  shmt__loops[SHMT_LOOP_gemm_panels][f->dtype](data, NULL, c.rows, &shape);
}

/* Where k is cut, the products of later blocks are added to that of the first. */
static scaling scaling_of_block(const scaling* f, bool is_first) {
  static const float one_float = 1;
  static const double one_double = 1;
  static const int64_t one = 1;
  scaling adding = *f;

  if (is_first) return *f;
  adding.beta = &one;
  if (f->dtype == SHMT_FLOAT32) adding.beta = &one_float;
  if (f->dtype == SHMT_FLOAT64) adding.beta = &one_double;
  adding.beta_is_zero = false;
  return adding;
}

/* The depth of blocks of k, all about as deep. */
static int64_t depth_of(int64_t k) {
  const int64_t parts = (k + DEPTH - 1) / DEPTH;
  return ((k + parts - 1) / parts + STEP - 1) / STEP * STEP;
}

/* Few rows of a by a transposed b: multiply b by a panel of a's rows, and transpose the result. */
static void multiply_transposed(const scaling* f, shmt__matrix a, shmt__matrix b, shmt__matrix c) {
  _Alignas(64) char room[DEPTH * SHMT_GEMM_PANEL_BYTES], results[TRANSPOSED_ROWS * SHMT_GEMM_PANEL_BYTES];
  const int64_t item = f->item, width = SHMT_GEMM_PANEL_BYTES / item, k = a.columns, depth = depth_of(k);
  const shmt__matrix rows = shmt__matrix_transposed(b);

  for (int64_t i = 0; i < rows.rows; i += TRANSPOSED_ROWS) {
    const int64_t n = shmt__min_i64(TRANSPOSED_ROWS, rows.rows - i);
    const shmt__matrix to = {results, n, c.rows, width, 1};
    char* const out = c.data + i * item;
    if (!f->beta_is_zero)
      shmt__move_transposed(results, SHMT_GEMM_PANEL_BYTES, out, c.row_stride * item, n, c.rows, item);
    for (int64_t p = 0; p < k; p += depth) {
      const scaling part = scaling_of_block(f, p == 0);
      const int64_t some = shmt__min_i64(depth, k - p);
      pack_right(block_of(shmt__matrix_transposed(a), p, some, 0, c.rows, item), item, room);
      multiply_panel(&part, block_of(rows, i, n, p, some, item), room, width, false, to);
    }
    shmt__move_transposed(out, c.row_stride * item, results, SHMT_GEMM_PANEL_BYTES, c.rows, n, item);
  }
}

/* Rows of a by packed panels of b. Several shallow panels are packed at once, so that results are written in long
 * runs. */
static void multiply_packed(const scaling* f, shmt__matrix a, shmt__matrix b, shmt__matrix c) {
  _Alignas(64) char room[PACKED_ROWS * SHMT_GEMM_PANEL_BYTES];
  const int64_t item = f->item, width = SHMT_GEMM_PANEL_BYTES / item, panel_bytes = b.rows * SHMT_GEMM_PANEL_BYTES;
  const int64_t at_once = (b.rows <= SHORT_DEPTH ? PACKED_ROWS / b.rows : 1) * width,
                rows = at_once > width ? RUN : c.rows;

  for (int64_t first = 0; first < c.columns; first += at_once) {
    const int64_t last = shmt__min_i64(first + at_once, c.columns);
    char* to = room;
    for (int64_t j = first; j < last; j += width, to += panel_bytes)
      pack_right(block_of(b, 0, b.rows, j, shmt__min_i64(width, last - j), item), item, to);
    for (int64_t i = 0; i < c.rows; i += rows) {
      const int64_t n = shmt__min_i64(rows, c.rows - i);
      const char* panel = room;
      for (int64_t j = first; j < last; j += width, panel += panel_bytes)
        multiply_panel(f, block_of(a, i, n, 0, a.columns, item), panel, width, false,
                       block_of(c, i, n, j, shmt__min_i64(width, last - j), item));
    }
  }
}

static void multiply_panels(const scaling* f, shmt__matrix a, shmt__matrix b, shmt__matrix c) {
  const int64_t item = f->item, width = SHMT_GEMM_PANEL_BYTES / item, k = a.columns, depth = depth_of(k);
  const int64_t unpacked = c.rows <= FEW_ROWS && b.column_stride == 1 ? c.columns / width * width : 0;

  for (int64_t p = 0; p < k; p += depth) {
    const scaling part = scaling_of_block(f, p == 0);
    const int64_t some = shmt__min_i64(depth, k - p);
    const shmt__matrix left = block_of(a, 0, a.rows, p, some, item);
    if (unpacked > 0)
      multiply_panel(&part, left, block_of(b, p, some, 0, unpacked, item).data, b.row_stride, true,
                     block_of(c, 0, c.rows, 0, unpacked, item));
    if (unpacked < c.columns)
      multiply_packed(&part, left, block_of(b, p, some, unpacked, c.columns - unpacked, item),
                      block_of(c, 0, c.rows, unpacked, c.columns - unpacked, item));
  }
}

void shmt__gemm_panels(shmt_dtype dtype, const void* alpha, shmt__matrix a, shmt__matrix b, const void* beta,
                       bool beta_is_zero, shmt__matrix c) {
  const scaling f = {dtype, shmt__dtype_size[dtype], alpha, beta, beta_is_zero};
  const int64_t bytes = c.rows * f.item;

  if (b.row_stride == 1 && b.column_stride != 1 && bytes >= LEAST_TRANSPOSED && bytes <= SHMT_GEMM_PANEL_BYTES)
    multiply_transposed(&f, a, b, c);
  else
    multiply_panels(&f, a, b, c);
}
