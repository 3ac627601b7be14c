/* kernels/sorting/sort.tmpl.h -- sorts slices stably, with their indices, one dtype.
 *
 * Slices of some thousands are sorted here. For longer ones (ops/sorting/sort_parallel.c) this makes keys from
 * elements, and elements from keys.
 */
#include "kernels/sorting/keys.tmpl.h"

#if SHMT_IS_SIGNED || SHMT_IS_BOOL
BY_UNSIGNED(sort)

/* The same for the loops of long slices. */
#define RADIX_BY_UNSIGNED(NAME)                                                                         \
  void SHMT_UNSIGNED_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx); \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {         \
    shmt__radix_args shape = *(const shmt__radix_args*)ctx;                                             \
    if (SHMT_IS_SIGNED) shape.flip ^= HIGHEST_BIT;                                                      \
    SHMT_UNSIGNED_LOOP(NAME)(data, strides, n, &shape);                                                 \
  }
RADIX_BY_UNSIGNED(sort_encode)
RADIX_BY_UNSIGNED(sort_decode)
#undef RADIX_BY_UNSIGNED
#else
/* Keys of floats are sorted as those of the unsigned integers of the same width. For integers there is no call, which
 * would show in the shortest slices. */
void SHMT_UNSIGNED_LOOP(sort_keys)(KEY* keys, uint32_t* index, KEY* spare_keys, uint32_t* spare_index, int64_t n);
#if SHMT_IS_FLOATING
#include "kernels/sorting/insertion.tmpl.h"
#else
#include "kernels/sorting/sort_keys.tmpl.h"
#endif

/* Widens 32-bit indices, which are in the second half of the memory of the wide ones. What is overwritten has been read
 * before. */
static inline void FN(widen_indices)(int64_t* to, const char* from, int64_t n) {
  enum { PIECE = 64 };
  uint32_t piece[PIECE];

  for (int64_t i = 0; i < n; i += PIECE) {
    const int64_t width = n - i < PIECE ? n - i : PIECE;
    memcpy(piece, from + i * (int64_t)sizeof *piece, (size_t)width * sizeof *piece);
    for (int64_t k = 0; k < width; k++) to[i + k] = piece[k];
  }
}

#if SHMT_ISA_LEVEL > 0
/* Sorts a slice of at most FN(inserted) elements: each goes straight to its rank. */
static void FN(sort_few)(T* values, int64_t* indices, const T* x, int64_t n, KEY flip) {
  KEY keys[FN(padded)] = {0}, ranks[FN(padded)];

  for (int64_t i = 0; i < n; i++) keys[i] = (KEY)(FN(to_key)(x[i]) ^ flip);
  FN(find_ranks)(keys, n, ranks);
  for (int64_t i = 0; i < n; i++) {
    values[ranks[i]] = x[i];
    indices[ranks[i]] = i;
  }
}
#endif

/* Sorts a slice. data: values, indices (int64), x: all dense; scratch for n keys. ctx: shmt__sort_args. The sort works
 * in the results' memory. */
void SHMT_LOOP(sort)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__sort_args* s = ctx;
  T* values = (T*)(void*)data[0];
  int64_t* indices = (int64_t*)(void*)data[1];
  const T* x = (const T*)(const void*)data[2];
  KEY* keys = (KEY*)(void*)data[3];
  uint32_t *spare = (uint32_t*)(void*)data[1], *index = spare + n;
  const KEY flip = (KEY)((s->descending ? (KEY)~(KEY)0 : 0) ^ SIGN(s));

  (void)strides;
#if SHMT_ISA_LEVEL > 0
  const bool are_few = false;
  if (n <= FN(inserted)) {
    FN(sort_few)(values, indices, x, n, flip);
    return;
  }
#else
  const bool are_few = n <= FN(inserted);
#endif
  for (int64_t i = 0; i < n; i++) {
    keys[i] = (KEY)(FN(to_key)(x[i]) ^ flip);
    index[i] = (uint32_t)i;
  }
  if (are_few)
    FN(insert_keys)(keys, index, n);
  else
    SHMT_UNSIGNED_LOOP(sort_keys)(keys, index, (KEY*)(void*)data[0], spare, n);
#if SHMT_IS_FLOATING
  for (int64_t i = 0; i < n; i++) values[i] = x[index[i]];
#else
  for (int64_t i = 0; i < n; i++) values[i] = FN(from_key)((KEY)(keys[i] ^ flip));
#endif
  FN(widen_indices)(indices, (const char*)index, n);
}

/* Makes keys. data: keys, their extent (two uint64: the least and the greatest so far), x. ctx: shmt__radix_args. */
void SHMT_LOOP(sort_encode)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  KEY* keys = (KEY*)(void*)data[0];
  uint64_t* extent = (uint64_t*)(void*)data[1];
  const T* x = (const T*)(const void*)data[2];
  const KEY flip = (KEY)((const shmt__radix_args*)ctx)->flip;
  KEY low = (KEY)~(KEY)0, high = 0;

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    const KEY key = (KEY)(FN(to_key)(x[i]) ^ flip);
    keys[i] = key;
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  extent[0] = low < extent[0] ? low : extent[0];
  extent[1] = high > extent[1] ? high : extent[1];
}

/* Makes elements from sorted keys. data: values, indices (int64), the whole x; packed keys and indices (they may be in
 * the memory of the indices), or NULL; keys that are not packed, whose indices are 32 bits wide and in the second half
 * of the memory of the wide ones. ctx: shmt__radix_args. */
void SHMT_LOOP(sort_decode)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__radix_args* s = ctx;
  T* values = (T*)(void*)data[0];
  int64_t* indices = (int64_t*)(void*)data[1];
  const char* x = data[2];
  const int64_t step = s->step;
  const uint64_t *packed = (const uint64_t*)(const void*)data[3], *keys = (const uint64_t*)(const void*)data[4];
  const KEY flip = (KEY)s->flip, low = (KEY)s->low;

  (void)strides;
  if (!packed) FN(widen_indices)(indices, (const char*)indices + n * (int64_t)sizeof(uint32_t), n);
  for (int64_t i = 0; i < n; i++) {
    const KEY key = (KEY)((KEY)((packed ? packed[i] >> 32 : keys[i]) + low) ^ flip);
    const int64_t index = packed ? (int64_t)(uint32_t)packed[i] : indices[i];
    values[i] = FN(is_shared)(key) ? *(const T*)(const void*)(x + index * step) : FN(from_key)(key);
    indices[i] = index;
  }
}
#endif
#undef KEY
#undef HIGHEST_BIT
#undef SIGN
#undef BY_UNSIGNED
