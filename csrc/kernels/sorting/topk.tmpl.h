/* kernels/sorting/topk.tmpl.h -- finds the first k elements of a slice in order, with a heap. One dtype. */
#include "kernels/sorting/keys.tmpl.h"

#if SHMT_IS_SIGNED || SHMT_IS_BOOL
BY_UNSIGNED(topk)
#else
#include "kernels/sorting/insertion.tmpl.h"
#include "kernels/sorting/ranks.tmpl.h"

/* in kernels/sorting/sort.tmpl.h */
void SHMT_UNSIGNED_LOOP(sort_keys)(KEY* keys, uint32_t* index, KEY* spare_keys, uint32_t* spare_index, int64_t n);

/* Is the key of one of the elements x of a stretch at most `limit`? */
static inline bool FN(any_within)(const T* x, KEY flip, KEY limit) {
  KEY least = (KEY)~(KEY)0;

  for (int64_t i = 0; i < FN(stretch); i++) {
    const KEY key = (KEY)(FN(to_key)(x[i]) ^ flip);
    least = key < least ? key : least;
  }
  return least <= limit;
}

/* Updates the least key of each of `few` columns with n more elements. */
static __attribute__((noinline)) void FN(least_of_columns)(KEY* kept, const T* x, int64_t n, KEY flip) {
  KEY least[FN(few)];

  memcpy(least, kept, sizeof least);
  for (int64_t i = 0; i + FN(few) <= n; i += FN(few))
    for (int c = 0; c < FN(few); c++) {
      const KEY key = (KEY)(FN(to_key)(x[i + c]) ^ flip);
      least[c] = key < least[c] ? key : least[c];
    }
  memcpy(kept, least, sizeof least);
}

/* A key that at least k elements do not exceed, k <= few: each of `few` columns has a least key, and this is the k-th
 * of those. */
static KEY FN(bound)(const char* x, int64_t step, int64_t n, KEY flip, int64_t k) {
  KEY least[FN(few) + 64 / sizeof(KEY)];
  T room[FN(together)];
  int64_t below, width = step == sizeof(T) ? n : FN(together);

  memset(least, 0xff, sizeof least);
  for (int64_t at = 0; at < n; at += width) {
    width = n - at < width ? n - at : width;
    FN(least_of_columns)(least, FN(bring_together)(x + at * step, step, width, room), width, flip);
  }
  return SHMT_UNSIGNED_LOOP(rank_of_few)(least, FN(few), k - 1, &below);
}

/* The k best so far, the worst of them on top. */
typedef struct FN(heap) {
  KEY* keys;
  uint32_t* index;
  int64_t k, held;
} FN(heap);

/* Moves up from the end while the parent is better. */
static inline void FN(heap_add)(FN(heap)* h, KEY key, int64_t i) {
  int64_t at = h->held++;

  while (at > 0 && h->keys[(at - 1) / 2] < key) {
    h->keys[at] = h->keys[(at - 1) / 2];
    h->index[at] = h->index[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  h->keys[at] = key;
  h->index[at] = (uint32_t)i;
}

/* Replaces the worst: moves down from the top while a child is worse. */
static inline void FN(heap_replace)(FN(heap)* h, KEY key, int64_t i) {
  int64_t at = 0;

  for (;;) {
    int64_t child = 2 * at + 1;
    if (child >= h->k) break;
    if (child + 1 < h->k && h->keys[child + 1] > h->keys[child]) child++;
    if (h->keys[child] <= key) break;
    h->keys[at] = h->keys[child];
    h->index[at] = h->index[child];
    at = child;
  }
  h->keys[at] = key;
  h->index[at] = (uint32_t)i;
}

/* Offers the heap n elements x, the first of index `first`, except those above `bound`. Most stretches have nothing for
 * it. */
static void FN(heap_fill)(FN(heap)* h, const T* x, int64_t first, int64_t n, KEY flip, KEY bound) {
  for (int64_t at = 0; at < n;) {
    const bool full = h->held == h->k;
    if (full && h->keys[0] == 0) return;
    const KEY limit = full ? (KEY)(h->keys[0] - 1) : bound;
    if (at % FN(stretch) == 0 && n - at >= FN(stretch) && !FN(any_within)(x + at, flip, limit)) {
      at += FN(stretch);
      continue;
    }
    const int64_t begin = at;
    KEY own[FN(step)];
    uint8_t within[FN(step)];
    at = n - at < FN(step) ? n : at + FN(step);
    for (int64_t i = begin; i < at; i++) {
      const KEY key = (KEY)(FN(to_key)(x[i]) ^ flip);
      own[i - begin] = key;
      within[i - begin] = key <= limit;
    }
    for (int64_t i = begin; i < at; i++) {
      const KEY key = own[i - begin];
      if ((i - begin) % FN(group) == 0 && at - i >= FN(group) && !FN(any_of_group)(within + (i - begin))) {
        i += FN(group) - 1;
        continue;
      }
      if (!within[i - begin]) continue;
      if (h->held < h->k)
        FN(heap_add)(h, key, first + i);
      else if (key < h->keys[0])
        FN(heap_replace)(h, key, first + i);
    }
  }
}

static void FN(heap_fill_line)(FN(heap)* h, const char* x, int64_t step, int64_t n, KEY flip, KEY bound) {
  T room[FN(together)];
  int64_t width = step == sizeof(T) ? n : FN(together);

  for (int64_t at = 0; at < n; at += width) {
    width = n - at < width ? n - at : width;
    FN(heap_fill)(h, FN(bring_together)(x + at * step, step, width, room), at, width, flip, bound);
  }
}

/* Finds the ctx->k first elements in order. data: values, indices, x, scratch. strides[2]: bytes between neighbours in
 * x. */
void SHMT_LOOP(topk)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__sort_args* s = ctx;
  const int64_t k = s->k;
  T* values = (T*)(void*)data[0];
  int64_t* indices = (int64_t*)(void*)data[1];
  const char* x = data[2];
  const int64_t step = strides[2];
  FN(heap) h = {.keys = (KEY*)(void*)data[3], .k = k};
  const KEY all = (KEY)~(KEY)0, flip = (KEY)((s->descending ? all : 0) ^ SIGN(s));

  h.index = (uint32_t*)(void*)(data[3] + ((size_t)k * sizeof(KEY) + 7) / 8 * 8);
  if (k == 0) return;
  if (k <= FN(few) / 2 && n >= 2 * FN(few)) FN(heap_fill_line)(&h, x, step, n, flip, FN(bound)(x, step, n, flip, k));
  if (h.held < k) { /* without a bound; or x is shared, and has changed */
    h.held = 0;
    FN(heap_fill_line)(&h, x, step, n, flip, all);
  }
  if (k <= FN(inserted))
    FN(insert_keys)(h.keys, h.index, k);
  else
    SHMT_UNSIGNED_LOOP(sort_keys)(h.keys, h.index, (KEY*)(void*)data[0], (uint32_t*)(void*)data[1], k);
  for (int64_t i = 0; i < k; i++) {
    values[i] = *(const T*)(const void*)(x + h.index[i] * step);
    indices[i] = h.index[i];
  }
}
#endif
#undef KEY
#undef HIGHEST_BIT
#undef SIGN
#undef BY_UNSIGNED
