/* ops/flip.c -- elements in the opposite order along some dims.
 *
 * Dims are taken in the order of memory and joined where both or neither are flipped, so that rows are long; the rows
 * of a narrow last dim count as one element each.
 */
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy.h"
#include "iter/threads.h"
#include "ops/check.h"
#include "ops/lines.h"

#include <string.h>

/* dim n_dims - 1 runs without a gap. */
typedef struct flip_job {
  char* to;
  const char* from; /* the source of the first element */
  int64_t item;     /* bytes */
  int n_dims;
  int64_t sizes[SHMT_MAX_DIMS], steps[SHMT_MAX_DIMS]; /* steps: elements of the source, negative where it is flipped */
} flip_job;

/* The dims of t, dense, from the largest stride to the smallest; those of one element are left out. */
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
  int dims[SHMT_MAX_DIMS];
  const int n = dims_in_memory(t, dims);

  j->n_dims = 0;
  for (int i = 0; i < n; i++) {
    const bool flipped = mask >> dims[i] & 1, joins = i > 0 && flipped == (mask >> dims[i - 1] & 1);
    if (!joins) j->sizes[j->n_dims++] = 1;
    j->sizes[j->n_dims - 1] *= t->sizes[dims[i]];
    j->steps[j->n_dims - 1] = flipped ? -1 : 1; /* the sign, until the strides are known */
  }
  while (j->n_dims > 1 && j->steps[j->n_dims - 1] > 0) {
    const int64_t row = j->item * j->sizes[j->n_dims - 1];
    const uintptr_t misaligned = ((uintptr_t)j->from | (uintptr_t)j->to) & (uintptr_t)(row - 1);
    if ((row != 2 && row != 4 && row != 8 && row != 16) || misaligned) break;
    j->item = row;
    j->n_dims--;
  }
  if (j->n_dims == 0) {
    j->sizes[j->n_dims] = 1;
    j->steps[j->n_dims++] = 1;
  }
  for (int64_t d = j->n_dims - 1, stride = 1; d >= 0; stride *= j->sizes[d--]) {
    if (j->steps[d] < 0) j->from += (j->sizes[d] - 1) * stride * j->item;
    j->steps[d] *= stride;
  }
}

static void flip_rows(void* ctx, int64_t begin, int64_t end) {
  const flip_job* j = ctx;
  const int last = j->n_dims - 1;
  const int64_t width = j->sizes[last], item = j->item;
  const shmt__loop reverse = j->steps[last] < 0 ? shmt__move_loop_of_size(SHMT_LOOP_reverse, item) : NULL;
  int64_t at[SHMT_MAX_DIMS], source = 0;

  for (int64_t d = last - 1, rest = begin; d >= 0; rest /= j->sizes[d--]) {
    at[d] = rest % j->sizes[d];
    source += at[d] * j->steps[d];
  }
  for (int64_t r = begin; r < end; r++) {
    char* data[2] = {j->to + r * width * item, (char*)(uintptr_t)(j->from + source * item)};
    if (reverse)
      reverse(data, NULL, width, NULL);
    else
      memcpy(data[0], data[1], (size_t)(width * item));
    for (int d = last - 1; d >= 0; d--) {
      source += j->steps[d];
      if (++at[d] < j->sizes[d]) break;
      source -= j->sizes[d] * j->steps[d];
      at[d] = 0;
    }
  }
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
    flip_job j = {.to = shmt__tensor_data(result), .from = shmt__tensor_data(dense), .item = shmt__tensor_item_bytes(self)};
    plan(result, mask, &j);
    const int64_t width = j.sizes[j.n_dims - 1];
    int64_t rows = 1;
    for (int d = 0; d < j.n_dims - 1; d++) rows *= j.sizes[d];
    shmt__parallel_for(rows, (1 << 15) / width + 1, flip_rows, &j);
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
