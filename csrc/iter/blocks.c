/* iter/blocks.c -- gathering and scattering blocks of a tensor in row-major order. */
#include "iter/blocks.h"

#include "base/overflow.h"
#include "iter/copy/move.h"

enum { CROSSED = 8 /* a transpose of at least so many rows and columns goes by tiles */ };

void shmt__blocks_init(shmt__blocks* b, const shmt_tensor* t, shmt_dtype dtype) {
  shmt__loop_nest* const w = &b->dims;
  const bool is_same = t->dtype == dtype;

  b->data = shmt__tensor_data(t);
  b->item = shmt__tensor_item_bytes(t);
  b->wide = shmt__dtype_size[dtype];
  b->is_dense = is_same && shmt__tensor_is_contiguous(t);
  b->load = is_same ? NULL : shmt__cast_loop(dtype, t->dtype);
  b->store = is_same ? NULL : shmt__cast_loop(t->dtype, dtype);
  w->n_dims = 0;
  for (int d = t->n_dims - 1; d >= 0; d--) {
    const int last = w->n_dims - 1;
    const int64_t step = shmt__wrap_mul_i64(t->strides[d], b->item); /* an empty tensor may have any stride */
    if (t->sizes[d] == 1) continue;
    if (last >= 0 && step == shmt__wrap_mul_i64(w->from[last], w->sizes[last])) {
      w->sizes[last] *= t->sizes[d];
      continue;
    }
    w->sizes[w->n_dims] = t->sizes[d];
    w->from[w->n_dims] = step;
    w->to[w->n_dims++] = 0;
  }
  for (; w->n_dims < 2; w->n_dims++) {
    w->sizes[w->n_dims] = 1;
    w->from[w->n_dims] = b->item;
    w->to[w->n_dims] = 0;
  }
}

/* A run along the innermost dim. */
static void move_run(const shmt__blocks* b, char* dense, char* at, int64_t n, bool is_read) {
  const int64_t step = b->dims.from[0];

  if (is_read && b->load)
    b->load(dense, b->wide, at, step, n);
  else if (is_read)
    shmt__move_elements(dense, b->wide, at, step, n, b->item);
  else if (b->store)
    b->store(at, step, dense, b->wide, n);
  else
    shmt__move_elements(at, step, dense, b->wide, n, b->item);
}

/* Whole rows of the two innermost dims. */
static void move_rows(const shmt__blocks* b, char* dense, char* at, int64_t rows, bool is_read) {
  const shmt__loop_nest* const w = &b->dims;
  const int64_t row = w->sizes[0] * b->wide;

  if (!b->load && w->from[1] == b->item && rows >= CROSSED && w->sizes[0] >= CROSSED) {
    if (is_read)
      shmt__move_transposed(dense, row, at, w->from[0], rows, w->sizes[0], b->item);
    else
      shmt__move_transposed(at, w->from[0], dense, row, w->sizes[0], rows, b->item);
    return;
  }
  for (int64_t i = 0; i < rows; i++) move_run(b, dense + i * row, at + i * w->from[1], w->sizes[0], is_read);
}

static void move_block(const shmt__blocks* b, int64_t begin, int64_t n, char* dense, bool is_read) {
  const shmt__loop_nest* const w = &b->dims;
  const int64_t width = w->sizes[0], height = w->sizes[1], end = begin + n;
  int64_t column = begin % width, row = begin / width;

  while (begin < end) {
    char* at = b->data + shmt__blocks_offset(b, begin);
    const int64_t left = height - row % height, whole = (end - begin) / width;
    const int64_t rows = column != 0 || whole == 0 ? 0 : whole < left ? whole : left;
    const int64_t most = width - column < end - begin ? width - column : end - begin;
    const int64_t count = rows > 0 ? rows * width : most;
    if (rows > 0)
      move_rows(b, dense, at, rows, is_read);
    else
      move_run(b, dense, at, count, is_read);
    dense += count * b->wide;
    begin += count;
    row += rows > 0 ? rows : column + count == width;
    column = rows > 0 ? 0 : (column + count) % width;
  }
}

const void* shmt__blocks_read(const shmt__blocks* b, int64_t begin, int64_t n, void* buffer) {
  if (b->is_dense) return b->data + begin * b->item;
  move_block(b, begin, n, buffer, true);
  return buffer;
}

void shmt__blocks_write(const shmt__blocks* b, int64_t begin, int64_t n, const void* from) {
  if (!b->is_dense) move_block(b, begin, n, (char*)(uintptr_t)from, false);
}
