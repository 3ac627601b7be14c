/* ops/shape/flip.c -- flip: elements in reverse order along some dims.
 *
 * Dims are sorted by stride and merged where both or neither are flipped, so that rows are long. Rows of a narrow last
 * dim count as one element each.
 */
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "iter/cursor.h"
#include "iter/copy/streaming_stores.h"
#include "iter/threads.h"
#include "ops/check.h"
#include "ops/indexing/index_iterator.h"

#include <string.h>

typedef struct flip_job {
  char* to;
  const char* from; /* the source of the first element of the result */
  int64_t item;     /* bytes */
  int64_t width;    /* elements of a row */
  bool reversed;    /* rows are reversed too */
  bool streamed;
  shmt__loop_nest rows;  /* steps in elements; those of the source are negative where it is flipped */
} flip_job;

/* The dims of t, which is dense, from the largest stride to the smallest, without dims of size 1. */
static int dims_in_memory(const shmt_tensor* t, int* dims) {
  int n = 0;

  for (int d = 0; d < t->n_dims; d++) {
    if (t->sizes[d] == 1) continue;
    int at = n++;
    for (; at > 0 && t->strides[dims[at - 1]] < t->strides[d]; at--) dims[at] = dims[at - 1];
    dims[at] = d;
  }
  return n;
}

static void plan(const shmt_tensor* t, uint64_t mask, flip_job* j) {
  int dims[SHMT_MAX_DIMS], n = 0;
  const int n_dims = dims_in_memory(t, dims);
  int64_t sizes[SHMT_MAX_DIMS];
  bool flipped[SHMT_MAX_DIMS];

  for (int i = 0; i < n_dims; i++) {
    const bool turns = mask >> dims[i] & 1;
    if (n == 0 || turns != flipped[n - 1]) {
      sizes[n] = 1;
      flipped[n++] = turns;
    }
    sizes[n - 1] *= t->sizes[dims[i]];
  }
  while (n > 1 && !flipped[n - 1]) {
    const int64_t row = j->item * sizes[n - 1];
    const uintptr_t misaligned = ((uintptr_t)j->from | (uintptr_t)j->to) & (uintptr_t)(row - 1);
    if ((row != 2 && row != 4 && row != 8 && row != 16) || misaligned) break;
    j->item = row;
    n--;
  }
  j->width = n > 0 ? sizes[n - 1] : 1;
  j->reversed = n > 0 && flipped[n - 1];
  if (j->reversed) j->from += (j->width - 1) * j->item;
  j->rows.n_dims = n > 0 ? n - 1 : 0;
  int64_t stride = j->width;
  for (int d = 0; d < j->rows.n_dims; stride *= j->rows.sizes[d++]) {
    const bool turns = flipped[n - 2 - d];
    j->rows.sizes[d] = sizes[n - 2 - d];
    j->rows.to[d] = stride;
    j->rows.from[d] = turns ? -stride : stride;
    if (turns) j->from += (j->rows.sizes[d] - 1) * stride * j->item;
  }
}

/* Writes a reversed row past the caches. */
static void stream_reversed(const flip_job* j, shmt__loop reverse, shmt__stage* s, char* to, const char* from) {
  for (int64_t n = j->width, count, room; n > 0; n -= count) {
    char* data[2] = {shmt__stage_reserve(s, to, j->item, &room), (char*)(uintptr_t)from};
    count = room / j->item < n ? room / j->item : n;
    reverse(data, NULL, count, NULL);
    shmt__stage_commit(s, count * j->item);
    to += count * j->item;
    from -= count * j->item;
  }
}

static void flip_rows(void* ctx, int64_t begin, int64_t end) {
  const flip_job* j = ctx;
  const shmt__loop reverse = j->reversed ? shmt__move_loop_of_size(SHMT_LOOP_reverse, j->item) : NULL;
  const int64_t nbytes = j->width * j->item;
  shmt__cursor c;
  shmt__stage s;

  shmt__stage_init(&s);
  shmt__cursor_init(&c, &j->rows, begin);
  for (int64_t r = begin; r < end; r++, shmt__cursor_next(&c, &j->rows)) {
    char* data[2] = {j->to + c.to * j->item, (char*)(uintptr_t)(j->from + c.from * j->item)};
    if (reverse && j->streamed)
      stream_reversed(j, reverse, &s, data[0], data[1]);
    else if (reverse)
      reverse(data, NULL, j->width, NULL);
    else if (j->streamed)
      shmt__stage_copy(&s, data[0], data[1], nbytes);
    else
      memcpy(data[0], data[1], (size_t)nbytes);
  }
  if (j->streamed) shmt__stage_end(&s);
}

shmt_status shmt__flip(shmt_tensor* self, shmt_ints dims, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  uint64_t mask = 0;

  if (dims.len > 0) SHMT_TRY(shmt__dims_mask(dims, self->n_dims, &mask));
  SHMT_TRY(shmt__tensor_empty_like(self, self->dtype, &result));
  if (!shmt__tensor_is_meta(self) && self->numel > 0) {
    if (self->flags & SHMT_TENSOR_DENSE) {
      dense = shmt__tensor_ref(self);
    } else {
      SHMT_TRY(shmt__tensor_empty_like(self, self->dtype, &dense));
      SHMT_TRY(shmt__tensor_copy(dense, self));
    }
    flip_job j; /* not initialised: its arrays are written before they are read */
    j.to = shmt__tensor_data(result);
    j.from = shmt__tensor_data(dense);
    j.item = shmt__tensor_item_bytes(self);
    plan(result, mask, &j);
    j.streamed = self->numel * shmt__tensor_item_bytes(self) >= SHMT_STREAM_BYTES &&
                 j.width * j.item >= SHMT_STREAM_RUN_BYTES;
    shmt__parallel_for(self->numel * shmt__tensor_item_bytes(self) / (j.width * j.item), (1 << 15) / j.width + 1,
                       flip_rows, &j);
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__fliplr(shmt_tensor* self, shmt_tensor** out) {
  SHMT_REQUIRE(self->n_dims >= 2, SHMT_E_RUNTIME, "Input must be >= 2-d.");
  return shmt_op_flip(self, SHMT_INTS(1), out);
}

shmt_status shmt__flipud(shmt_tensor* self, shmt_tensor** out) {
  SHMT_REQUIRE(self->n_dims >= 1, SHMT_E_RUNTIME, "Input must be >= 1-d.");
  return shmt_op_flip(self, SHMT_INTS(0), out);
}
