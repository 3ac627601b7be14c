/* kernels/sort.tmpl.h -- stable sorting of lines with their indices, and what sorted lines tell. One dtype.
 *
 * Elements become unsigned keys whose order is theirs (NaN last, -0 as 0), the keys are sorted by digits from the
 * lowest to the highest together with 32-bit indices, and the values follow the indices. Digits in which no keys
 * differ are left out. In short lines every key is compared with every other, in vectors: how many are less is its
 * place.
 */
#include "kernels/halves.h"
#include "kernels/loops.h"
#include "kernels/shapes.h"

#include <string.h>

#define KEY SHMT_LOOP(sort_key)
typedef __typeof__(_Generic((char(*)[sizeof(T)])0, char(*)[1]: (uint8_t)0, char(*)[2]: (uint16_t)0,
                            char(*)[4]: (uint32_t)0, char(*)[8]: (uint64_t)0)) KEY;

static inline KEY FN(to_key)(T value) {
  KEY k;
  memcpy(&k, &value, sizeof k);
#if SHMT_IS_FLOATING
  const KEY sign = (KEY)1 << (8 * sizeof k - 1), size = (KEY)(k & (KEY)~sign);
  const KEY infinity = (KEY)(sizeof k == 8 ? 0x7ff0000000000000u : sizeof k == 4 ? 0x7f800000u : SHMT_IS_FLOAT16 ? 0x7c00u : 0x7f80u);
  const KEY ordered = k & sign ? (KEY)~k : (KEY)(k | sign);
  return size > infinity ? (KEY)~(KEY)0 : size == 0 ? sign : ordered;
#elif SHMT_IS_SIGNED
  return (KEY)(k ^ ((KEY)1 << (8 * sizeof k - 1)));
#else
  return k;
#endif
}

#if !SHMT_IS_FLOATING
/* The other way round; what is equal to floats may have different bits. */
static inline T FN(from_key)(KEY k) {
  T value;
#if SHMT_IS_SIGNED
  k = (KEY)(k ^ ((KEY)1 << (8 * sizeof k - 1)));
#endif
  memcpy(&value, &k, sizeof value);
  return value;
}
#endif

/* Lines up to these lengths are sorted by insertion, or by counting what is less. */
enum {
  FN(inserted) = SHMT_ISA_LEVEL == 0 ? 48 : 12,
  FN(counted) = SHMT_ISA_LEVEL == 0 ? 0 : SHMT_ISA_LEVEL == 1 ? 96 : sizeof(T) == 8 ? 128 : 192,
  FN(abreast) = 64 / sizeof(T), /* keys side by side */
};

static inline void FN(insert_keys)(KEY* keys, uint32_t* index, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    const KEY k = keys[i];
    const uint32_t x = index[i];
    int64_t j = i;
    for (; j > 0 && keys[j - 1] > k; j--) {
      keys[j] = keys[j - 1];
      index[j] = index[j - 1];
    }
    keys[j] = k;
    index[j] = x;
  }
}

/* n <= counted. Equal keys have the same number of lesser ones: they follow each other as they came. */
static void FN(count_keys)(KEY* keys, uint32_t* index, KEY* spare_keys, uint32_t* spare_index, int64_t n) {
  typedef KEY vector __attribute__((vector_size(sizeof(T) * FN(abreast))));
  KEY padded[FN(counted) + 2 * FN(abreast)], less[FN(counted) + 2 * FN(abreast)];
  uint8_t taken[FN(counted) + 1];

  memcpy(padded, keys, (size_t)n * sizeof *keys);
  memset(padded + n, 0, (size_t)FN(abreast) * sizeof *keys);
  memset(taken, 0, (size_t)n);
  for (int64_t i = 0; i < n; i += FN(abreast)) {
    vector own, count[4] = {0};
    memcpy(&own, padded + i, sizeof own);
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) /* a comparison is -1 where it holds */
      for (int k = 0; k < 4; k++) count[k] -= (vector)(own > keys[j + k]);
    for (; j < n; j++) count[0] -= (vector)(own > keys[j]);
    count[0] = (count[0] + count[1]) + (count[2] + count[3]);
    memcpy(less + i, &count[0], sizeof count[0]);
  }
  for (int64_t i = 0; i < n; i++) {
    const int64_t place = (int64_t)less[i] + taken[less[i]]++;
    spare_keys[place] = keys[i];
    spare_index[place] = index[i];
  }
  memcpy(keys, spare_keys, (size_t)n * sizeof *keys);
  memcpy(index, spare_index, (size_t)n * sizeof *index);
}

/* Sort n keys with indices; `spare` has room for as many of both. The sorted ones end up in keys and index. */
static void FN(sort_keys)(KEY* keys, uint32_t* index, KEY* spare_keys, uint32_t* spare_index, int64_t n) {
  if (n <= FN(inserted)) {
    FN(insert_keys)(keys, index, n);
    return;
  }
  if (n <= FN(counted)) {
    FN(count_keys)(keys, index, spare_keys, spare_index, n);
    return;
  }
  KEY differ = 0;
  for (int64_t i = 1; i < n; i++) differ |= (KEY)(keys[i] ^ keys[0]);
  const int digit = sizeof(KEY) > 1 && n >= 4096 ? 11 : 8;
  const KEY mask = (KEY)((1u << digit) - 1);
  KEY *from = keys, *to = spare_keys;
  uint32_t *from_index = index, *to_index = spare_index;
  uint32_t counts[2048];

  for (int shift = 0; shift < (int)(8 * sizeof(KEY)); shift += digit) {
    if (((differ >> shift) & mask) == 0) continue;
    memset(counts, 0, sizeof *counts << digit);
    for (int64_t i = 0; i < n; i++) counts[(from[i] >> shift) & mask]++;
    uint32_t at = 0;
    for (int d = 0; d < 1 << digit; d++) {
      const uint32_t c = counts[d];
      counts[d] = at;
      at += c;
    }
    for (int64_t i = 0; i < n; i++) {
      const uint32_t place = counts[(from[i] >> shift) & mask]++;
      to[place] = from[i];
      to_index[place] = from_index[i];
    }
    KEY* swap_keys = from;
    from = to;
    to = swap_keys;
    uint32_t* swap_index = from_index;
    from_index = to_index;
    to_index = swap_index;
  }
  if (from != keys) {
    memcpy(keys, from, (size_t)n * sizeof *keys);
    memcpy(index, from_index, (size_t)n * sizeof *index);
  }
}

/* Indices of 32 bits in the second half of the memory of the wide ones. What is written has been read before. */
static inline void FN(widen_indices)(int64_t* to, const char* from, int64_t n) {
  enum { PIECE = 64 };
  uint32_t piece[PIECE];

  for (int64_t i = 0; i < n; i += PIECE) {
    const int64_t width = n - i < PIECE ? n - i : PIECE;
    memcpy(piece, from + i * (int64_t)sizeof *piece, (size_t)width * sizeof *piece);
    for (int64_t k = 0; k < width; k++) to[i + k] = piece[k];
  }
}

/* data: values, indices (int64), x: all dense; scratch for n keys. ctx: shmt__sort_shape. The results' memory is the
 * room to sort in. */
void SHMT_LOOP(sort)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__sort_shape* s = ctx;
  T* values = (T*)(void*)data[0];
  int64_t* indices = (int64_t*)(void*)data[1];
  const T* x = (const T*)(const void*)data[2];
  KEY* keys = (KEY*)(void*)data[3];
  uint32_t *spare = (uint32_t*)(void*)data[1], *index = spare + n;
  const KEY flip = s->descending ? (KEY)~(KEY)0 : 0;

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    keys[i] = (KEY)(FN(to_key)(x[i]) ^ flip);
    index[i] = (uint32_t)i;
  }
  FN(sort_keys)(keys, index, (KEY*)(void*)data[0], spare, n);
#if SHMT_IS_FLOATING
  for (int64_t i = 0; i < n; i++) values[i] = x[index[i]];
#else
  for (int64_t i = 0; i < n; i++) values[i] = FN(from_key)((KEY)(keys[i] ^ flip));
#endif
  FN(widen_indices)(indices, (const char*)index, n);
}

/* Is one of the elements x of a stretch before `worst` in order? */
enum { FN(stretch) = 128 };
static inline bool FN(any_before)(const T* x, int64_t n, KEY flip, KEY worst) {
  KEY first = (KEY)~(KEY)0;

  for (int64_t i = 0; i < n; i++) {
    const KEY key = (KEY)(FN(to_key)(x[i]) ^ flip);
    first = key < first ? key : first;
  }
  return first < worst;
}

/* data: values, indices of the ctx->k first in order, x, scratch. A heap of the k best, the worst of them on top. */
void SHMT_LOOP(topk)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__sort_shape* s = ctx;
  const int64_t k = s->k;
  T* values = (T*)(void*)data[0];
  int64_t* indices = (int64_t*)(void*)data[1];
  const T* x = (const T*)(const void*)data[2];
  KEY* keys = (KEY*)(void*)data[3];
  uint32_t* index = (uint32_t*)(void*)(data[3] + ((size_t)k * sizeof(KEY) + 7) / 8 * 8);
  const KEY flip = s->descending ? (KEY)~(KEY)0 : 0;

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    if (i >= k && (i - k) % FN(stretch) == 0) { /* most stretches have nothing for the heap */
      while (n - i >= FN(stretch) && !FN(any_before)(x + i, FN(stretch), flip, keys[0])) i += FN(stretch);
      if (i >= n) break;
    }
    const KEY key = (KEY)(FN(to_key)(x[i]) ^ flip);
    int64_t at;
    if (i < k) {
      /* Up from the end while the parent is better. */
      at = i;
      while (at > 0 && keys[(at - 1) / 2] < key) {
        keys[at] = keys[(at - 1) / 2];
        index[at] = index[(at - 1) / 2];
        at = (at - 1) / 2;
      }
    } else {
      if (key >= keys[0]) continue;
      /* Down from the top while a child is worse. */
      at = 0;
      for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= k) break;
        if (child + 1 < k && keys[child + 1] > keys[child]) child++;
        if (keys[child] <= key) break;
        keys[at] = keys[child];
        index[at] = index[child];
        at = child;
      }
    }
    keys[at] = key;
    index[at] = (uint32_t)i;
  }
  FN(sort_keys)(keys, index, (KEY*)(void*)data[0], (uint32_t*)(void*)data[1], k);
  for (int64_t i = 0; i < k; i++) {
    values[i] = x[index[i]];
    indices[i] = index[i];
  }
}
/* Of so few keys every one is compared with every other. */
enum { FN(few) = 32 };

/* The key that `rank` others are before, of 1 <= n <= few; how many are less in *below. `keys` has room for one vector
 * more. */
static KEY FN(count_to_rank)(KEY* keys, int64_t n, int64_t rank, int64_t* below) {
  typedef KEY vector __attribute__((vector_size(sizeof(T) * FN(abreast))));
  KEY less[FN(few) + FN(abreast)];
  int64_t best = 0;

  less[0] = 0;
  for (int64_t i = 0; i < n; i += FN(abreast)) {
    vector own, count[4] = {0};
    memcpy(&own, keys + i, sizeof own);
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) /* a comparison is -1 where it holds */
      for (int k = 0; k < 4; k++) count[k] -= (vector)(own > keys[j + k]);
    for (; j < n; j++) count[0] -= (vector)(own > keys[j]);
    count[0] = (count[0] + count[1]) + (count[2] + count[3]);
    memcpy(less + i, &count[0], sizeof count[0]);
  }
  /* The most that are less, but no more than the rank. */
  for (int64_t i = 1; i < n; i++)
    if ((int64_t)less[best] > rank || ((int64_t)less[i] <= rank && less[i] > less[best])) best = i;
  *below = (int64_t)less[best];
  return keys[best];
}

/* The key that `rank` of n others are before; how many are less in *below. Digit after digit, from the highest in which
 * keys differ, only those stay that have the digit of the one looked for. `keys` has room for one vector more. */
static KEY FN(key_of_rank)(KEY* keys, int64_t n, int64_t rank, int64_t* below) {
  const int width = sizeof(KEY) == 1 ? 8 : n < 1024 ? 7 : 11; /* of a digit; counting costs as much as its values */
  uint32_t counts[1 << 11];
  KEY differ = 0;
  int64_t left = n, before = 0;

  for (int64_t i = 1; i < n; i++) differ |= (KEY)(keys[i] ^ keys[0]);
  int bits = 0;
  while (bits < (int)(8 * sizeof(KEY)) && differ >> bits) bits++;
  while (left > FN(few) && bits > 0) {
    const int shift = bits > width ? bits - width : 0;
    const KEY mask = (KEY)((1u << (bits - shift)) - 1);
    int64_t kept = 0;
    uint32_t digit = 0;
    memset(counts, 0, sizeof *counts << (bits - shift));
    for (int64_t i = 0; i < left; i++) counts[(keys[i] >> shift) & mask]++;
    for (; (int64_t)counts[digit] <= rank; digit++) {
      rank -= counts[digit];
      before += counts[digit];
    }
    bits = shift;
    if (bits == 0) { /* those left would all be the same */
      *below = before;
      return (KEY)((keys[0] & (KEY)~mask) | (KEY)digit);
    }
    for (int64_t i = 0; i < left; i++) {
      const KEY key = keys[i];
      keys[kept] = key;
      kept += ((key >> shift) & mask) == digit;
    }
    left = kept;
  }
  if (bits > 0) {
    const KEY found = FN(count_to_rank)(keys, left, rank, below);
    *below += before;
    return found;
  }
  *below = before; /* all are the same */
  return keys[0];
}

/* data: value, index of the element of rank ctx->k, counted from 0 and in stable order; x; scratch for n keys and 64
 * bytes. Rank -1: the median, or the first NaN; -2: the median of what is no NaN. */
void SHMT_LOOP(select)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const T* x = (const T*)(const void*)data[2];
  KEY* keys = (KEY*)(void*)data[3];
  int64_t rank = ((const shmt__sort_shape*)ctx)->k, valid = 0, below, at = 0;

  (void)strides;
  for (int64_t i = 0; i < n; i++) keys[i] = FN(to_key)(x[i]);
#if SHMT_IS_FLOATING
  for (int64_t i = 0; i < n; i++) valid += keys[i] != (KEY)~(KEY)0;
#else
  valid = n;
#endif
  if (rank < 0) rank = rank == -1 && valid < n ? valid : valid > 0 ? (valid - 1) / 2 : 0;
  memset(keys + n, 0, 64);
  const KEY chosen = FN(key_of_rank)(keys, n, rank, &below);
  int64_t nth = rank - below; /* of those that equal it: stretches before it are only counted */
  for (; n - at > FN(stretch); at += FN(stretch)) {
    KEY same = 0;
    for (int64_t i = 0; i < FN(stretch); i++) same += FN(to_key)(x[at + i]) == chosen;
    if ((int64_t)same > nth) break;
    nth -= (int64_t)same;
  }
  /* Bounded: x may be shared, and change meanwhile. */
  while (at < n - 1 && (FN(to_key)(x[at]) != chosen || nth-- > 0)) at++;
  *(T*)(void*)data[0] = x[at];
  *(int64_t*)(void*)data[1] = at;
}

/* Does row x come before row y? */
static inline int FN(compare_rows)(const T* x, const T* y, int64_t width) {
  for (int64_t i = 0; i < width; i++) {
    const KEY a = FN(to_key)(x[i]), b = FN(to_key)(y[i]);
    if (a != b) return a < b ? -1 : 1;
  }
  return 0;
}

/* data: order (int64), spare (int64), rows of n_bounds elements, dense. The order of the n rows, compared from the
 * first element on: runs are merged until one is left. ctx: shmt__search_shape. */
void SHMT_LOOP(order_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t width = ((const shmt__search_shape*)ctx)->n_bounds;
  const T* rows = (const T*)(const void*)data[2];
  int64_t *from = (int64_t*)(void*)data[0], *to = (int64_t*)(void*)data[1];

  (void)strides;
  for (int64_t i = 0; i < n; i++) from[i] = i;
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run) {
      const int64_t middle = begin + run < n ? begin + run : n, end = middle + run < n ? middle + run : n;
      int64_t a = begin, b = middle;
      for (int64_t k = begin; k < end; k++) {
        const bool left = b >= end || (a < middle && FN(compare_rows)(rows + from[a] * width, rows + from[b] * width,
                                                                      width) <= 0);
        to[k] = from[left ? a++ : b++];
      }
    }
    int64_t* swap = from;
    from = to;
    to = swap;
  }
  if (from != (int64_t*)(void*)data[0]) memcpy(to, from, (size_t)n * sizeof *to);
}
#undef KEY

/* data: flags (bool), order (int64), rows. A flag says that the row differs from the one before it in the order. */
void SHMT_LOOP(row_starts)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t width = ((const shmt__search_shape*)ctx)->n_bounds;
  const int64_t* order = (const int64_t*)(const void*)data[1];
  const T* rows = (const T*)(const void*)data[2];

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    bool differs = i == 0;
    for (int64_t k = 0; !differs && k < width; k++)
      differs = SHMT_LOAD(rows[order[i] * width + k]) != SHMT_LOAD(rows[order[i - 1] * width + k]);
    ((bool*)data[0])[i] = differs;
  }
}

/* data: flags (bool), x sorted or not, dense. A flag says that the element differs from the one before. */
void SHMT_LOOP(run_starts)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  bool* flags = (bool*)data[0];
  const T* x = (const T*)(const void*)data[1];

  (void)strides;
  (void)ctx;
  if (n > 0) flags[0] = true;
  for (int64_t i = 1; i < n; i++) flags[i] = SHMT_LOAD(x[i]) != SHMT_LOAD(x[i - 1]);
}

/* data: out (int64), values, boundaries (dense, sorted), sorter (int64) or NULL; ctx: shmt__search_shape. How many
 * boundaries are below the value (or not above it, when right). */
void SHMT_LOOP(search)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__search_shape* s = ctx;
  const T* bounds = (const T*)(const void*)data[2];
  const int64_t* sorter = (const int64_t*)(const void*)data[3];

  for (int64_t i = 0; i < n; i++) {
    const C v = SHMT_LOAD(*(const T*)(const void*)(data[1] + i * strides[1]));
    int64_t low = 0, high = s->n_bounds;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const C b = SHMT_LOAD(bounds[sorter ? sorter[middle] : middle]);
      /* A NaN comes after everything. */
      const bool before = s->right ? !(b > v) && !(b != b && v == v) : !(b >= v) && !(b != b);
      if (before || (!s->right && v != v && b == b))
        low = middle + 1;
      else
        high = middle;
    }
    *(int64_t*)(void*)(data[0] + i * strides[0]) = low;
  }
}
