/* ops/foreach.c -- one elementwise loop for all tensors of a list. */
#include "ops/foreach.h"

#include "dispatch/operator.h"
#include "dispatch/trace.h"
#include "generated/loops.h"
#include "iter/threads.h"
#include "storage/allocator.h"
#include "tensor/tensor.h"

#include <stdlib.h>

enum { GRAIN_ELEMENTS = 8192, MAX_LISTS = 2 };

typedef struct work {
  shmt__loop loop;
  int64_t item;
  int n_lists;
  shmt_tensors lists[MAX_LISTS];
  shmt_tensor* const* outs;
} work;

/* Dense, so that a loop over its memory meets every element once, and seen by nobody. What is written must need no more
 * than its version counted. */
static bool is_plain(const shmt_tensor* t, shmt_dtype dtype, bool written) {
  const uint32_t special = SHMT_TENSOR_INFERENCE | SHMT_TENSOR_VIEW;
  return t && t->dtype == dtype && t->device == SHMT_CPU && (t->flags & SHMT_TENSOR_DENSE) && t->numel > 0 &&
         !(written && (t->flags & special)) && !shmt__tensor_is_conj_neg(t) &&
         shmt__is_unobserved_call(shmt__tensor_keys(t));
}

/* Operands that share memory must be the same elements. */
static bool may_overlap(const shmt_tensor* a, const shmt_tensor* b) {
  return a->storage == b->storage && shmt__tensor_data(a) != shmt__tensor_data(b);
}

static bool suits(const shmt_tensors* lists, int n_lists, bool in_place) {
  if (lists[0].len == 0 || !lists[0].data[0]) return false;
  const shmt_dtype dtype = lists[0].data[0]->dtype;
  if (shmt__dtype_kind[dtype] != SHMT_KIND_FLOATING || shmt__dtype_size[dtype] < 4) return false;
  for (int k = 0; k < n_lists; k++) {
    if (lists[k].len != lists[0].len) return false;
    for (int64_t i = 0; i < lists[0].len; i++) {
      shmt_tensor* const first = lists[0].data[i];
      shmt_tensor* const t = lists[k].data[i];
      if (!is_plain(t, dtype, in_place && k == 0)) return false;
      if (k > 0 &&
          (!shmt__same_sizes(t, first) || !shmt__same_strides(t, first) || (in_place && may_overlap(first, t))))
        return false;
    }
  }
  return true;
}

static void run_of(const work* w, int64_t i, int64_t begin, int64_t end) {
  char* data[1 + MAX_LISTS];
  int64_t strides[1 + MAX_LISTS];

  data[0] = (char*)shmt__tensor_data(w->outs[i]) + begin * w->item;
  strides[0] = w->item;
  for (int k = 0; k < w->n_lists; k++) {
    data[1 + k] = (char*)shmt__tensor_data(w->lists[k].data[i]) + begin * w->item;
    strides[1 + k] = w->item;
  }
  w->loop(data, strides, end - begin, NULL);
}

/* Elements begin to end, counted through all tensors. */
static void piece(void* ctx, int64_t begin, int64_t end) {
  const work* const w = ctx;
  int64_t at = 0;

  for (int64_t i = 0; i < w->lists[0].len && at < end; i++) {
    const int64_t n = w->lists[0].data[i]->numel;
    const int64_t from = begin > at ? begin - at : 0, to = end - at < n ? end - at : n;
    if (from < to) run_of(w, i, from, to);
    at += n;
  }
}

/* --- may pieces run at the same time? ---------------------------------------------------- */

typedef struct span {
  uintptr_t begin, end;
  int64_t index;
  bool written;
} span;

static int by_begin(const void* a, const void* b) {
  const uintptr_t x = ((const span*)a)->begin, y = ((const span*)b)->begin;
  return x < y ? -1 : x > y;
}

/* In place: does a tensor's memory belong to another place of the lists, too? Then the order matters. Without memory to
 * find out, yes. */
static bool order_matters(const work* w) {
  const int64_t n = w->lists[0].len * w->n_lists;
  span* spans = malloc((size_t)n * sizeof *spans);
  bool matters = !spans;
  for (int64_t i = 0; spans && i < n; i++) {
    const shmt_tensor* t = w->lists[i / w->lists[0].len].data[i % w->lists[0].len];
    const uintptr_t at = (uintptr_t)shmt__tensor_data(t);
    spans[i] = (span){at, at + (uintptr_t)(t->numel * w->item), i % w->lists[0].len, i < w->lists[0].len};
  }
  if (spans) qsort(spans, (size_t)n, sizeof *spans, by_begin);
  for (int64_t i = 0; spans && i < n && !matters; i++)
    for (int64_t k = i + 1; k < n && spans[k].begin < spans[i].end && !matters; k++)
      matters = (spans[i].written || spans[k].written) && spans[i].index != spans[k].index;
  free(spans);
  return matters;
}

/* Outputs that look like the tensors of a list. */
static shmt_status make_outs(shmt_tensors like, shmt_tensor_vec* out) {
  void* data = NULL;
  SHMT_TRY(shmt__alloc_zeroed((uint64_t)like.len * sizeof(shmt_tensor*), &data));
  *out = (shmt_tensor_vec){data, like.len};
  for (int64_t i = 0; i < like.len; i++) {
    const shmt_tensor* t = like.data[i];
    SHMT_TRY(
        shmt__tensor_empty_strided(shmt__tensor_sizes(t), shmt__tensor_strides(t), t->dtype, t->device, &out->data[i]));
  }
  return SHMT_OK;
}

shmt_status shmt__foreach_flat(int loop, const shmt_tensors* lists, int n_lists, bool in_place, shmt_tensor_vec* out,
                               bool* done) {
  int64_t n_elements = 0;

  *out = (shmt_tensor_vec){0, 0};
  *done = n_lists <= MAX_LISTS && suits(lists, n_lists, in_place);
  if (!*done) return SHMT_OK;
  work w = {.n_lists = n_lists, .outs = lists[0].data};
  w.loop = shmt__loops[loop][lists[0].data[0]->dtype];
  w.item = shmt__dtype_size[lists[0].data[0]->dtype];
  if (!w.loop) {
    *done = false;
    return SHMT_OK;
  }
  if (in_place) {
    SHMT_TRY(shmt__check_all_writable("_foreach", lists[0]));
    for (int64_t i = 0; i < lists[0].len; i++) shmt__tensor_bump_version(lists[0].data[i]);
  } else {
    SHMT_TRY(make_outs(lists[0], out));
    w.outs = out->data;
  }
  for (int k = 0; k < n_lists; k++) w.lists[k] = lists[k];
  for (int64_t i = 0; i < lists[0].len; i++) n_elements += lists[0].data[i]->numel;
  if (in_place && n_elements > GRAIN_ELEMENTS && order_matters(&w))
    piece(&w, 0, n_elements);
  else
    shmt__parallel_for(n_elements, GRAIN_ELEMENTS, piece, &w);
  return SHMT_OK;
}
