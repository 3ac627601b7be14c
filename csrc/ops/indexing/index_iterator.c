/* ops/indexing/index_iterator.c -- iteration by index, checks of indices, and the positions of nonzero elements. */
#include "ops/indexing/index_iterator.h"

#include "iter/copy/copy.h"
#include "iter/cursor.h"

#include <inttypes.h>

shmt__loop shmt__move_loop_of_size(int row, int64_t item) {
  static const shmt_dtype of_size[17] = {
      [1] = SHMT_UINT8, [2] = SHMT_INT16, [4] = SHMT_INT32, [8] = SHMT_INT64, [16] = SHMT_COMPLEX128,
  };
  return shmt__loops[row][of_size[item]];
}

shmt__loop shmt__move_loop(int row, shmt_dtype dtype) { return shmt__move_loop_of_size(row, shmt__dtype_size[dtype]); }

shmt_status shmt__index_as_int64(shmt_tensor* index, shmt_tensor** made, shmt_tensor** out) {
  if (index->dtype != SHMT_INT64) SHMT_TRY(shmt__tensor_cast(index, SHMT_INT64, made));
  *out = *made ? *made : index;
  return SHMT_OK;
}

shmt_status shmt__indexed_walk(const char* name, shmt_tensor* to, shmt_tensor* from, shmt_tensor* index,
                               const shmt__index_args* shape, shmt__loop loop, const shmt_tensor* all) {
  shmt_iter it;
  shmt_status status;

  shmt__iter_init(&it, name);
  it.resize_outputs = false;
  it.check_overlap = false;
  it.promote = SHMT_PROMOTE_NONE;
  shmt__iter_output(&it, &to, to->dtype);
  shmt__iter_input(&it, from);
  shmt__iter_input(&it, index);
  SHMT_TRY(shmt__iter_build(&it));
  status = !all                              ? shmt__iter_run(&it, loop, shape)
           : shmt__may_overlap_itself(all) ? shmt__iter_run_serial(&it, loop, shape)
                                           : shmt__iter_run_disjoint(&it, loop, shape);
  return shmt__iter_finish(&it, status);
}

shmt_status shmt__check_bad_index(const shmt__bad_index* bad, shmt_status code, int64_t dim, int64_t size) {
  SHMT_REQUIRE(!bad->found, code, "index %" PRId64 " is out of bounds for dimension %" PRId64 " with size %" PRId64,
               bad->value, dim, size);
  return SHMT_OK;
}

shmt_status shmt__check_not_empty(const shmt_tensor* index, shmt_status code, int64_t dim, int64_t size) {
  if (size > 0) return SHMT_OK;
  const shmt__bad_index first = {*(const int64_t*)shmt__tensor_data(index), true};
  return shmt__check_bad_index(&first, code, dim, size);
}

void shmt__flat_offsets(const shmt__blocks* of, const int64_t* index, int64_t n, const shmt__index_args* flat,
                        int64_t* to) {
  bool ok;

  for (int64_t i = 0; i < n; i++) {
    const int64_t place = shmt__index_offset(flat, index[i], &ok);
    to[i] = ok ? shmt__blocks_offset(of, place) : -1;
  }
}

int64_t shmt__count_set(const uint8_t* mask, int64_t n) {
  int64_t count = 0;

  /* Counts in bytes, as many as one holds: this vectorises without widening. */
  for (int64_t begin = 0; begin < n; begin += 255) {
    const int64_t width = n - begin < 255 ? n - begin : 255;
    uint8_t part = 0;
    for (int64_t i = 0; i < width; i++) part = (uint8_t)(part + (mask[begin + i] != 0));
    count += part;
  }
  return count;
}

enum { MASK_BLOCK = 1 << 14 };

int64_t shmt__count_set_in(const shmt__blocks* mask, int64_t begin, int64_t n) {
  uint8_t buffer[MASK_BLOCK];
  int64_t count = 0, width;

  for (const int64_t end = begin + n; begin < end; begin += width) {
    width = end - begin < MASK_BLOCK ? end - begin : MASK_BLOCK;
    count += shmt__count_set(shmt__blocks_read(mask, begin, width, buffer), width);
  }
  return count;
}

/* A mask is divided into chunks, so that several threads can write positions: each knows where its own begin. */
enum { CHUNKS = 64, CHUNK_GRAIN = 1 << 15 };
typedef struct positions {
  shmt__loop_nest rows; /* the dims but the last */
  int64_t width;   /* of the last */
  shmt__blocks mask;
  int64_t numel, chunk;
  int64_t first[CHUNKS + 1]; /* set elements before a chunk; while counting: those of the chunk before */
  int64_t* to;
} positions;

static void count_chunks(void* ctx, int64_t begin, int64_t end) {
  positions* p = ctx;

  for (int64_t k = begin; k < end; k++) {
    const int64_t at = k * p->chunk, rest = p->numel - at;
    p->first[k + 1] = shmt__count_set_in(&p->mask, at, rest < p->chunk ? rest : p->chunk);
  }
}

/* Writes the positions along the last dim of the set elements [begin, end) to `to`, which has room for `room`. Each
 * position is written, and kept by moving on: there is no branch to mispredict. A mask that another process changes
 * after the count leads to other positions, but to none outside. */
static int64_t place_run(const uint8_t* set, int64_t n, int64_t first, int64_t* to, int64_t room) {
  int64_t found = 0;

  for (int64_t i = 0; i < n && found < room; i++) {
    to[found] = first + i;
    found += set[i] != 0;
  }
  return found;
}

static void place_chunks(void* ctx, int64_t begin, int64_t end) {
  const positions* p = ctx;
  const int n_outer = p->rows.n_dims;
  const int64_t count = p->first[(p->numel + p->chunk - 1) / p->chunk], stop = p->first[end];
  const int64_t last = end * p->chunk < p->numel ? end * p->chunk : p->numel;
  int64_t i = begin * p->chunk, column = i % p->width, to = p->first[begin], ready = i;
  uint8_t buffer[MASK_BLOCK];
  const uint8_t* set = NULL;
  shmt__cursor c;

  shmt__cursor_init(&c, &p->rows, i / p->width);
  for (int64_t run; i < last; i += run, set += run) {
    if (i == ready) {
      ready = last - i < MASK_BLOCK ? last : i + MASK_BLOCK;
      set = shmt__blocks_read(&p->mask, i, ready - i, buffer);
    }
    run = p->width - column < ready - i ? p->width - column : ready - i;
    const int64_t found = place_run(set, run, column, p->to + n_outer * count + to, stop - to);
    for (int d = 0; d < n_outer; d++)
      for (int64_t k = 0; k < found; k++) p->to[d * count + to + k] = c.at[n_outer - 1 - d];
    to += found;
    column += run;
    if (column < p->width) continue;
    column = 0;
    shmt__cursor_next(&c, &p->rows);
  }
  for (int d = 0; d <= n_outer; d++)
    for (int64_t k = to; k < stop; k++) p->to[d * count + k] = 0;
}

shmt_status shmt__nonzero_positions(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  positions p;
  const int n_dims = self->n_dims;

  shmt__blocks_init(&p.mask, self, SHMT_BOOL);
  p.numel = self->numel;
  p.chunk = p.numel / CHUNKS + 1 > CHUNK_GRAIN ? p.numel / CHUNKS + 1 : CHUNK_GRAIN;
  const int64_t n_chunks = (p.numel + p.chunk - 1) / p.chunk;
  shmt__parallel_for(n_chunks, 1, count_chunks, &p);
  p.first[0] = 0;
  for (int64_t k = 0; k < n_chunks; k++) p.first[k + 1] += p.first[k];
  const int64_t count = p.first[n_chunks];
  SHMT_TRY(shmt__tensor_empty_strided(SHMT_INTS(count, n_dims), SHMT_INTS(1, count), SHMT_INT64, SHMT_CPU, &result));
  p.to = shmt__tensor_data(result);
  if (count > 0 && n_dims > 0) {
    p.width = self->sizes[n_dims - 1];
    p.rows.n_dims = n_dims - 1;
    for (int d = 0; d < p.rows.n_dims; d++) {
      p.rows.sizes[d] = self->sizes[n_dims - 2 - d];
      p.rows.from[d] = p.rows.to[d] = 0;
    }
    shmt__parallel_for(n_chunks, 1, place_chunks, &p);
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}
