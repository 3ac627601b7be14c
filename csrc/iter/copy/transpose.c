/* iter/copy/transpose.c -- transposing planes of large tensors, with streaming stores.
 *
 * A row of the result is a column of the source. A block of the source is read row by row, so that memory is read in
 * bursts and rows that lie a power of two apart do not evict each other from the cache. It is transposed into a tile
 * whose rows are aligned to cache lines like those of the result. Whole lines are streamed. The rest of a row moves to
 * the begin of the tile's row, where the next part of the row continues.
 */
#include "iter/copy/transpose.h"

#include "iter/cursor.h"
#include "iter/copy/move.h"
#include "iter/copy/streaming_stores.h"

#include <string.h>

enum {
  LINE = SHMT_STAGE_LINE,
  PART_BYTES = 2 * LINE, /* of a row of the result, per tile */
  WIDE_BYTES = 8 * LINE, /* of a row of the source, per tile */
  WIDE_ROWS = 128,       /* elements of it at most */
  PIECE_PARTS = 64,      /* parts of a row per thread: a cache line that two threads share costs little */
};

typedef struct transposition {
  int64_t item, n_rows, n_columns;   /* of the result */
  int64_t row_stride,
      column_stride; /* bytes: from row to row of the result; in the source, from column to column of it */
  int64_t wide, part;                /* rows and columns of a tile */
  char* to;
  const char* from;
  shmt__loop_nest pieces; /* pieces along rows, across rows, and the other dims */
} transposition;

/* Some rows of the result, which are made part by part. */
typedef struct tile {
  int64_t n_rows;
  int64_t foreign[WIDE_ROWS];  /* bytes of the first cache line of a row that belong to others, until it is written */
  int64_t rows[WIDE_ROWS];     /* where a row's next part begins in `out` */
  int64_t columns[PART_BYTES]; /* where a column begins in `in` */
  _Alignas(LINE) char in[PART_BYTES * (WIDE_ROWS + LINE)];
  _Alignas(LINE) char out[WIDE_ROWS * (PART_BYTES + LINE)]; /* each row: the rest of the part before, and a part */
} tile;

static int64_t out_row(int64_t i) { return i * (PART_BYTES + LINE); }

static void begin_rows(tile* s, const transposition* t, const char* to, int64_t n_rows) {
  s->n_rows = n_rows;
  for (int64_t i = 0; i < n_rows; i++) {
    s->foreign[i] = (int64_t)((uintptr_t)(to + i * t->row_stride) % LINE);
    s->rows[i] = out_row(i) + s->foreign[i];
  }
}

/* The next n columns. */
static void transpose(tile* s, const transposition* t, const char* from, int64_t n) {
  const int64_t nbytes = s->n_rows * t->item, stride = t->wide * t->item + LINE;

  for (int64_t j = 0; j < n; j++) {
    s->columns[j] = j * stride;
    memcpy(s->in + s->columns[j], from + j * t->column_stride, (size_t)nbytes);
  }
  shmt__transpose_tile(s->out, s->rows, s->in, s->columns, s->n_rows, n, t->item);
}

/* Write the whole cache lines of row i; the byte after the last one goes to `end`. */
static void flush_row(tile* s, int64_t i, char* end, int64_t nbytes) {
  char* const row = s->out + out_row(i);
  const int64_t held = s->rows[i] - out_row(i) + nbytes, whole = held / LINE * LINE;
  int64_t done = 0;

  s->rows[i] += nbytes;
  if (whole == 0) return;
  if (s->foreign[i]) {
    memcpy(end - held + s->foreign[i], row + s->foreign[i], (size_t)(LINE - s->foreign[i]));
    s->foreign[i] = 0;
    done = LINE;
  }
  shmt__move_streamed(end - held + done, row + done, whole - done);
  memcpy(row, row + whole, LINE);
  s->rows[i] -= whole;
}

static void end_rows(tile* s, const transposition* t, char* end) {
  for (int64_t i = 0; i < s->n_rows; i++) {
    const int64_t left = s->rows[i] - out_row(i) - s->foreign[i];
    memcpy(end + i * t->row_stride - left, s->out + out_row(i) + s->foreign[i], (size_t)left);
  }
}

static void move_piece(const transposition* t, char* to, const char* from, int64_t n_rows, int64_t n_columns) {
  tile s;

  begin_rows(&s, t, to, n_rows);
  for (int64_t j = 0, n; j < n_columns; j += n, from += n * t->column_stride) {
    n = n_columns - j < t->part ? n_columns - j : t->part;
    transpose(&s, t, from, n);
    to += n * t->item;
    for (int64_t i = 0; i < n_rows; i++) flush_row(&s, i, to + i * t->row_stride, n * t->item);
  }
  end_rows(&s, t, to);
}

static void move_pieces(void* arg, int64_t begin, int64_t end) {
  const transposition* t = arg;
  const int64_t length = t->part * PIECE_PARTS;
  shmt__cursor c;

  shmt__cursor_init(&c, &t->pieces, begin);
  for (; begin < end; begin++, shmt__cursor_next(&c, &t->pieces)) {
    const int64_t columns = t->n_columns - c.at[0] * length, rows = t->n_rows - c.at[1] * t->wide;
    move_piece(t, t->to + c.to, t->from + c.from, rows < t->wide ? rows : t->wide, columns < length ? columns : length);
  }
  shmt__move_streamed_end();
}

/* Set the loop nest over pieces; returns how many there are. */
static int64_t cut(transposition* t, const shmt_iter* it, int row, int column) {
  const int64_t length = t->part * PIECE_PARTS;
  shmt__loop_nest* const w = &t->pieces;

  *w = (shmt__loop_nest){2,
                    {(t->n_columns + length - 1) / length, (t->n_rows + t->wide - 1) / t->wide},
                    {length * t->column_stride, t->wide * t->item},
                    {length * t->item, t->wide * t->row_stride}};
  int64_t n = w->sizes[0] * w->sizes[1];
  for (int d = 0; d < it->n_dims; d++) {
    if (d == row || d == column) continue;
    w->sizes[w->n_dims] = it->sizes[d];
    w->from[w->n_dims] = it->operands[1].strides[d];
    w->to[w->n_dims++] = it->operands[0].strides[d];
    n *= it->sizes[d];
  }
  return n;
}

bool shmt__transpose(const shmt_iter* it, int64_t item, int row, int column) {
  transposition t = {.item = item,
                     .n_rows = it->sizes[column],
                     .n_columns = it->sizes[row],
                     .row_stride = it->operands[0].strides[column],
                     .column_stride = it->operands[1].strides[row],
                     .wide = WIDE_BYTES / item < WIDE_ROWS ? WIDE_BYTES / item : WIDE_ROWS,
                     .part = PART_BYTES / item,
                     .to = it->operands[0].data,
                     .from = it->operands[1].data};

  if (it->numel * item < SHMT_STREAM_BYTES || t.n_columns * item < SHMT_STREAM_RUN_BYTES ||
      t.n_rows * item < SHMT_STREAM_RUN_BYTES)
    return false;
  shmt__parallel_for(cut(&t, it, row, column), 1, move_pieces, &t);
  return true;
}
