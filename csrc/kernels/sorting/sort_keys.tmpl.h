/* kernels/sorting/sort_keys.tmpl.h -- sorts keys together with 32-bit indices, for kernels/sorting/sort.tmpl.h. One
 * width of keys.
 *
 * A radix sort, by digits from the lowest to the highest. Digits in which no keys differ are skipped. In short slices
 * every key is compared with every other, in vectors: its rank is the number of lesser keys.
 */
#include "kernels/sorting/insertion.tmpl.h"

/* Slices up to this length are sorted by counting lesser keys. */
enum { FN(counted) = SHMT_ISA_LEVEL == 0 ? 0 : SHMT_ISA_LEVEL == 1 ? 96 : sizeof(T) == 8 ? 128 : 192 };

/* Counts how many of n keys are less than each of them. `padded` has the same keys and, like `less`, room for 64 bytes
 * more. */
void SHMT_LOOP(count_less)(const KEY* keys, const KEY* padded, int64_t n, KEY* less) {
  enum { ABREAST = (16 << SHMT_ISA_LEVEL) / sizeof(KEY) };
  typedef KEY vector __attribute__((vector_size(16 << SHMT_ISA_LEVEL)));
  const int64_t whole = n / 4 * 4;

  for (int64_t i = 0; i < n; i += ABREAST) {
    vector own, count[4] = {0};
    memcpy(&own, padded + i, sizeof own);
    for (int64_t j = 0; j < whole; j += 4) /* a comparison is -1 where it holds */
      for (int k = 0; k < 4; k++) count[k] -= (vector)(own > keys[j + k]);
    for (int64_t j = whole; j < n; j++) count[0] -= (vector)(own > keys[j]);
    count[0] = (count[0] + count[1]) + (count[2] + count[3]);
    memcpy(less + i, &count[0], sizeof count[0]);
  }
}

/* n <= counted. Equal keys have the same number of lesser keys: they keep their order. */
static void FN(count_keys)(KEY* keys, uint32_t* index, KEY* spare_keys, uint32_t* spare_index, int64_t n) {
  KEY padded[FN(counted) + 64 / sizeof(KEY)], less[FN(counted) + 64 / sizeof(KEY)];
  uint8_t taken[FN(counted) + 1];

  memcpy(padded, keys, (size_t)n * sizeof *keys);
  memset(padded + n, 0, 64);
  memset(taken, 0, (size_t)n);
  SHMT_LOOP(count_less)(keys, padded, n, less);
  for (int64_t i = 0; i < n; i++) {
    const int64_t place = (int64_t)less[i] + taken[less[i]]++;
    spare_keys[place] = keys[i];
    spare_index[place] = index[i];
  }
  memcpy(keys, spare_keys, (size_t)n * sizeof *keys);
  memcpy(index, spare_index, (size_t)n * sizeof *index);
}

/* Sorts n keys with indices; `spare` has room for as many of both. The sorted ones end up in keys and index. */
void SHMT_LOOP(sort_keys)(KEY* keys, uint32_t* index, KEY* spare_keys, uint32_t* spare_index, int64_t n) {
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
