/* kernels/sorting/buckets.tmpl.h -- sorts the buckets of a long slice: 64-bit numbers, stably, by some of their bits.
 *
 * A radix sort, digit by digit from the lowest. Digits in which no numbers differ are skipped. Few numbers are sorted
 * by insertion.
 */
#include "kernels/template.h"
#include "kernels/loop_args.h"

#include <string.h>

enum { FN(inserted) = 24, FN(max_width) = 11 };

/* The width of a digit, in bits, to sort by `bits` bits. Counting costs as much as a digit has values. */
static inline int FN(digit_width)(int64_t n, int bits) {
  const int widest = n >= 4096 ? FN(max_width) : 8;
  const int n_digits = (bits + widest - 1) / widest;
  return (bits + n_digits - 1) / n_digits;
}

/* Turns the counts of a digit's values into positions: how many numbers are below. Returns false when all numbers have
 * the same value. */
static inline bool FN(counts_to_positions)(uint32_t* counts, int width, int64_t n) {
  uint32_t at = 0;

  for (int d = 0; d < 1 << width; d++) {
    const uint32_t c = counts[d];
    if (c == n) return false;
    counts[d] = at;
    at += c;
  }
  return true;
}

static inline __attribute__((always_inline)) void FN(count_digits)(uint32_t counts[][1 << FN(max_width)], const T* keys,
                                                                    int64_t n, int from_bit, int width, int n_digits) {
  const T mask = ((T)1 << width) - 1;

  for (int k = 0; k < n_digits; k++) memset(counts[k], 0, sizeof *counts[k] << width);
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; k < n_digits; k++) counts[k][keys[i] >> (from_bit + k * width) & mask]++;
}

/* Sorts numbers that hold a key and an index. data: the address of the sorted numbers (set to one of the next two), the
 * numbers, room for as many. ctx: int, by how many bits, from bit 32 on, they are sorted: at most 24, or 32 for 4096
 * numbers and more. The bits below differ between all numbers and are in order already. */
void SHMT_LOOP(bucket_packed)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int bits = *(const int*)ctx;
  T *from = (T*)(void*)data[1], *to = (T*)(void*)data[2];

  (void)strides;
  *(T**)(void*)data[0] = from;
  if (bits == 0) return;
  if (n <= FN(inserted)) {
    for (int64_t i = 1; i < n; i++) {
      const T x = from[i];
      int64_t j = i;
      for (; j > 0 && from[j - 1] > x; j--) from[j] = from[j - 1];
      from[j] = x;
    }
    return;
  }
  const int width = FN(digit_width)(n, bits), n_digits = (bits + width - 1) / width;
  const T mask = ((T)1 << width) - 1;
  uint32_t counts[3][1 << FN(max_width)];
  if (n_digits == 3)
    FN(count_digits)(counts, from, n, 32, width, 3);
  else if (n_digits == 2)
    FN(count_digits)(counts, from, n, 32, width, 2);
  else
    FN(count_digits)(counts, from, n, 32, width, 1);
  for (int k = 0; k < n_digits; k++) {
    const int shift = 32 + k * width;
    uint32_t* positions = counts[k];
    if (!FN(counts_to_positions)(positions, width, n)) continue;
    for (int64_t i = 0; i < n; i++) {
      const T x = from[i];
      to[positions[x >> shift & mask]++] = x;
    }
    T* swap = from;
    from = to;
    to = swap;
  }
  *(T**)(void*)data[0] = from;
}

/* Distributes keys that are too wide to pack, and their indices, to buckets. data: indices (uint32), the positions of
 * the digits, the keys, the distributed keys, the buckets' ends (uint32). A bucket of m keys has room for 2 m indices;
 * they go to the second half of it. */
void SHMT_LOOP(bucket_deal)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__radix_args* s = ctx;
  uint32_t *to = (uint32_t*)(void*)data[0], *positions = (uint32_t*)(void*)data[1];
  const T* keys = (const T*)(const void*)data[2];
  T* to_keys = (T*)(void*)data[3];
  const uint32_t* ends = (const uint32_t*)(const void*)data[4];
  const T low = s->low;
  const int shift = s->shift;
  const uint32_t first = (uint32_t)s->first;

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    const T key = keys[i] - low, digit = key >> shift;
    const uint32_t place = positions[digit]++;
    to_keys[place] = key;
    to[(uint64_t)place + ends[digit]] = first + (uint32_t)i;
  }
}

/* Sorts keys with their indices. data: keys, room for as many, their indices (uint32), room for as many. ctx: int, by
 * how many of the lowest bits the keys are sorted. */
void SHMT_LOOP(bucket_wide)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int bits = *(const int*)ctx;
  T *keys = (T*)(void*)data[0], *to_keys = (T*)(void*)data[1];
  uint32_t *beside = (uint32_t*)(void*)data[2], *to_beside = (uint32_t*)(void*)data[3];

  (void)strides;
  if (n <= FN(inserted)) {
    for (int64_t i = 1; i < n; i++) {
      const T key = keys[i];
      const uint32_t with = beside[i];
      int64_t j = i;
      for (; j > 0 && keys[j - 1] > key; j--) {
        keys[j] = keys[j - 1];
        beside[j] = beside[j - 1];
      }
      keys[j] = key;
      beside[j] = with;
    }
    return;
  }
  const int width = FN(digit_width)(n, bits), n_digits = (bits + width - 1) / width;
  const T mask = ((T)1 << width) - 1;
  uint32_t counts[1][1 << FN(max_width)];
  for (int k = 0; k < n_digits; k++) {
    const int shift = k * width;
    FN(count_digits)(counts, keys, n, shift, width, 1);
    if (!FN(counts_to_positions)(counts[0], width, n)) continue;
    for (int64_t i = 0; i < n; i++) {
      const uint32_t place = counts[0][keys[i] >> shift & mask]++;
      to_keys[place] = keys[i];
      to_beside[place] = beside[i];
    }
    T* swap_keys = keys;
    uint32_t* swap_beside = beside;
    keys = to_keys;
    beside = to_beside;
    to_keys = swap_keys;
    to_beside = swap_beside;
  }
  if (keys == (T*)(void*)data[0]) return;
  memcpy(to_keys, keys, (size_t)n * sizeof *keys);
  memcpy(to_beside, beside, (size_t)n * sizeof *beside);
}
