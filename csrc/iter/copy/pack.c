/* iter/copy/pack.c -- copying a part of a tensor dense: dims are merged, transposed ones are moved by tiles. */
#include "iter/copy/pack.h"

#include "base/overflow.h"
#include "iter/cursor.h"
#include "iter/copy/move.h"

#include <string.h>

enum { SQUARE = 4 }; /* a transpose of at least so many rows and columns goes by tiles */

void shmt__part_init(shmt__part* p, const shmt_tensor* t, shmt_memory_format format) {
  const bool last = format != SHMT_CONTIGUOUS_FORMAT;

  p->data = shmt__tensor_data((shmt_tensor*)t);
  p->item = shmt__tensor_item_bytes(t);
  p->n_dims = t->n_dims;
  for (int d = 0; d < t->n_dims; d++) {
    const int from = !last || d == 0 ? d : d < t->n_dims - 1 ? d + 1 : 1;
    p->sizes[d] = t->sizes[from];
    p->strides[d] = shmt__wrap_mul_i64(t->strides[from], p->item);
  }
}

int64_t shmt__part_offset(const shmt__part* p, int n, int64_t index) {
  int64_t offset = 0;

  for (int d = n - 1; d >= 0; d--, index /= p->sizes[d + 1]) offset += index % p->sizes[d] * p->strides[d];
  return offset;
}

void shmt__part_inner(const shmt__part* p, int n, shmt__part* out) {
  out->data = p->data;
  out->item = p->item;
  out->n_dims = p->n_dims - n;
  memmove(out->sizes, p->sizes + n, (size_t)out->n_dims * sizeof *out->sizes);
  memmove(out->strides, p->strides + n, (size_t)out->n_dims * sizeof *out->strides);
}

int64_t shmt__part_numel(const shmt__part* p) {
  int64_t n = 1;

  for (int d = 0; d < p->n_dims; d++) n *= p->sizes[d];
  return n;
}

bool shmt__part_is_dense(const shmt__part* p) {
  int64_t step = p->item;

  for (int d = p->n_dims - 1; d >= 0; d--) {
    if (p->sizes[d] != 1 && p->strides[d] != step) return false;
    step *= p->sizes[d];
  }
  return true;
}

/* The dims without those of size 1, the innermost first, merged where they can be. */
static void join(const shmt__part* p, shmt__loop_nest* w) {
  w->n_dims = 0;
  for (int d = p->n_dims - 1; d >= 0; d--) {
    const int k = w->n_dims - 1;
    if (p->sizes[d] == 1) continue;
    if (k >= 0 && w->from[k] * w->sizes[k] == p->strides[d]) {
      w->sizes[k] *= p->sizes[d];
      continue;
    }
    w->sizes[w->n_dims] = p->sizes[d];
    w->from[w->n_dims++] = p->strides[d];
  }
  for (int64_t k = 0, step = p->item; k < w->n_dims; step *= w->sizes[k++]) w->to[k] = step;
}

void shmt__pack(const shmt__part* p, char* to) {
  shmt__loop_nest w;
  shmt__cursor c;
  int64_t many = 1;

  join(p, &w);
  const int64_t n = w.n_dims > 0 ? w.sizes[0] : 1, step = w.n_dims > 0 ? w.from[0] : p->item;
  const bool is_crossed = w.n_dims > 1 && w.from[1] == p->item && w.sizes[1] >= SQUARE && n >= SQUARE;
  const int done = is_crossed ? 2 : 1; /* dims moved by one call */
  shmt__loop_nest outer = {.n_dims = w.n_dims > done ? w.n_dims - done : 0};
  for (int d = 0; d < outer.n_dims; d++) {
    outer.sizes[d] = w.sizes[d + done];
    outer.from[d] = w.from[d + done];
    outer.to[d] = w.to[d + done];
    many *= outer.sizes[d];
  }
  shmt__cursor_init(&c, &outer, 0);
  for (int64_t i = 0; i < many; i++, shmt__cursor_next(&c, &outer)) {
    if (is_crossed)
      shmt__move_transposed(to + c.to, n * p->item, p->data + c.from, step, w.sizes[1], n, p->item);
    else
      shmt__move_elements(to + c.to, p->item, p->data + c.from, step, n, p->item);
  }
}

void shmt__part_chunks_init(shmt__part_chunks* c, const shmt__part* p, int64_t most) {
  int64_t inner = p->item, outer = 1;
  int d = p->n_dims - 1;

  *c = (shmt__part_chunks){.dim = 0, .per = 1, .along = 1, .n = shmt__part_numel(p) > 0};
  if (c->n == 0 || p->n_dims == 0) return;
  while (d > 0 && p->sizes[d] <= most / inner) inner *= p->sizes[d--];
  for (int k = 0; k < d; k++) outer *= p->sizes[k];
  c->dim = d;
  if (most / inner > 1) c->per = most / inner < p->sizes[d] ? most / inner : p->sizes[d];
  c->along = (p->sizes[d] + c->per - 1) / c->per;
  c->n = outer * c->along;
}

int64_t shmt__part_chunk(const shmt__part_chunks* c, const shmt__part* p, int64_t index, shmt__part* out) {
  if (p->n_dims == 0) {
    *out = *p;
    return 0;
  }
  const int64_t outer = index / c->along, first = index % c->along * c->per, all = p->sizes[c->dim];
  char* const data = p->data + shmt__part_offset(p, c->dim, outer) + first * p->strides[c->dim];

  shmt__part_inner(p, c->dim, out);
  out->data = data;
  out->sizes[0] = all - first < c->per ? all - first : c->per;
  return (outer * all + first) * (shmt__part_numel(out) / out->sizes[0]);
}
