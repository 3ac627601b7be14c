/* kernels/sorting/radix.tmpl.h -- distributes the keys of a long slice to buckets by their highest digit, one width of
 * keys.
 *
 * A key that is at most 32 bits above the least one is packed with its index into one number. Numbers that differ in
 * nothing else keep their order, and moving one number is all that sorting does. Wider keys are distributed in
 * kernels/sorting/buckets.tmpl.h.
 */
#include "kernels/template.h"
#include "kernels/loop_args.h"

/* Counts the digits. data: counts (uint32) of the digits, all zero at first; keys. */
void SHMT_LOOP(radix_count)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__radix_args* s = ctx;
  uint32_t* counts = (uint32_t*)(void*)data[0];
  const T* keys = (const T*)(const void*)data[1];
  const T low = (T)s->low;
  const int shift = s->shift;

  (void)strides;
  for (int64_t i = 0; i < n; i++) counts[(uint64_t)(T)(keys[i] - low) >> shift]++;
}

/* Packs keys and indices and distributes them. data: packed keys and indices; the positions (uint32) of the digits; the
 * keys. */
void SHMT_LOOP(radix_deal)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__radix_args* s = ctx;
  uint64_t* to = (uint64_t*)(void*)data[0];
  uint32_t* positions = (uint32_t*)(void*)data[1];
  const T* keys = (const T*)(const void*)data[2];
  const T low = (T)s->low;
  const int shift = s->shift;
  const uint64_t first = (uint64_t)s->first;

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    const uint64_t key = (T)(keys[i] - low);
    to[positions[key >> shift]++] = key << 32 | (first + (uint64_t)i);
  }
}
