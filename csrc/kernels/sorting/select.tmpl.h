/* kernels/sorting/select.tmpl.h -- finds the element of a given rank in a slice (quickselect by digits), one dtype. */
#include "kernels/sorting/keys.tmpl.h"

#if SHMT_IS_SIGNED || SHMT_IS_BOOL
BY_UNSIGNED(select)
#else
#include "kernels/sorting/ranks.tmpl.h"

#if !SHMT_IS_FLOATING /* floats use the loop of integer keys */
/* in kernels/sorting/sort_keys.tmpl.h */
void SHMT_LOOP(count_less)(const KEY* keys, const KEY* padded, int64_t n, KEY* less);

KEY SHMT_LOOP(rank_of_few)(const KEY* keys, int64_t n, int64_t rank, int64_t* below) {
  KEY less[FN(few) + 64 / sizeof(KEY)];
  int64_t best = 0;

  less[0] = 0;
  SHMT_LOOP(count_less)(keys, keys, n, less);
  /* The key with the largest number of lesser keys that does not exceed the rank. */
  for (int64_t i = 1; i < n; i++)
    if ((int64_t)less[best] > rank || ((int64_t)less[i] <= rank && less[i] > less[best])) best = i;
  *below = (int64_t)less[best];
  return keys[best];
}

/* Digit by digit, from the highest in which keys differ, keeps only the keys that have the digit of the one wanted. */
KEY SHMT_LOOP(rank_of_keys)(KEY* keys, int64_t n, int64_t rank, int64_t* below) {
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
    if (bits == 0) { /* all keys that are left would be the same */
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
    const KEY found = SHMT_LOOP(rank_of_few)(keys, left, rank, below);
    *below += before;
    return found;
  }
  *below = before; /* all keys are the same */
  return keys[0];
}
#endif

static inline KEY FN(signed_key)(T value, KEY sign) { return (KEY)(FN(to_key)(value) ^ sign); }

/* How many of at most `stretch` elements have this key. */
static inline int64_t FN(count_equal)(const T* x, int64_t n, KEY sign, KEY key) {
  KEY same = 0;

  for (int64_t i = 0; i < n; i++) same += FN(signed_key)(x[i], sign) == key;
  return (int64_t)same;
}

static int64_t FN(count_nan)(const char* x, int64_t step, int64_t n) {
  T room[FN(stretch)];
  int64_t total = 0;

  for (int64_t at = 0, width; at < n; at += width) {
    width = n - at < FN(stretch) ? n - at : FN(stretch);
    total += FN(count_equal)(FN(bring_together)(x + at * step, step, width, room), width, 0, (KEY)~(KEY)0);
  }
  return total;
}

/* Samples the keys of n elements, one out of each `share`, at positions without a period; and 64 bytes of zeros. */
static void FN(take_sample)(const char* x, int64_t step, int64_t share, int64_t n, KEY sign, KEY* keys) {
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = i * share + (int64_t)((uint32_t)i * 2654435761u >> 8) % share;
    keys[i] = FN(signed_key)(*(const T*)(const void*)(x + at * step), sign);
  }
  memset(keys + n, 0, 64);
}

/* The element of a rank most likely lies between two elements of a sample: only elements between these are examined.
 * Returns false when it lies elsewhere. `keys` has room for n and 64 bytes; n >= sampled. */
enum { FN(sampled) = 2048 };
static bool FN(rank_by_sample)(const char* x, int64_t step, int64_t n, int64_t rank, KEY sign, KEY* keys, KEY* chosen,
                               int64_t* below) {
  const int64_t n_sample = n < 8 * FN(sampled) ? 256 : 2048;
  const int64_t margin = n_sample == 256 ? 22 : 58; /* two and a half times the expected deviation */
  const int64_t at = (int64_t)((double)rank / (double)n * (double)n_sample);
  int64_t kept = 0, ignored;
  KEY low = 0, high = (KEY)~(KEY)0;
  T room[FN(stretch)];

  *below = 0;
  if (at > margin) {
    FN(take_sample)(x, step, n / n_sample, n_sample, sign, keys);
    low = SHMT_UNSIGNED_LOOP(rank_of_keys)(keys, n_sample, at - margin, &ignored);
  }
  if (at + margin < n_sample) {
    FN(take_sample)(x, step, n / n_sample, n_sample, sign, keys);
    high = SHMT_UNSIGNED_LOOP(rank_of_keys)(keys, n_sample, at + margin, &ignored);
  }
  for (int64_t begin = 0; begin < n; begin += FN(stretch)) {
    const int64_t width = n - begin < FN(stretch) ? n - begin : FN(stretch);
    const T* elements = FN(bring_together)(x + begin * step, step, width, room);
    KEY own[FN(stretch)], less = 0;
    uint8_t within[FN(stretch)];
    for (int64_t i = 0; i < width; i++) {
      const KEY key = FN(signed_key)(elements[i], sign);
      own[i] = key;
      less += key < low;
      within[i] = (KEY)(key - low) <= (KEY)(high - low);
    }
    *below += (int64_t)less;
    for (int64_t i = 0; i < width; i += FN(group)) {
      const int64_t end = width - i < FN(group) ? width : i + FN(group);
      if (end == i + FN(group) && !FN(any_of_group)(within + i)) continue;
      for (int64_t k = i; k < end; k++) {
        keys[kept] = own[k];
        kept += within[k];
      }
    }
  }
  if (rank < *below || rank >= *below + kept) return false;
  memset(keys + kept, 0, 64);
  *chosen = SHMT_UNSIGNED_LOOP(rank_of_keys)(keys, kept, rank - *below, &ignored);
  *below += ignored;
  return true;
}

/* So few elements are all compared with each other. rank_of_elements returns the index of the one of that rank. */
enum { FN(compared) = 4 };
static inline int64_t FN(rank_of_elements)(const char* x, int64_t step, int64_t n, int64_t rank, KEY sign) {
  KEY keys[FN(compared)];
  int64_t at = 0;

  for (int64_t i = 0; i < n; i++) keys[i] = FN(signed_key)(*(const T*)(const void*)(x + i * step), sign);
  for (int64_t i = 0; i < n; i++) {
    int64_t before = 0;
    for (int64_t k = 0; k < n; k++) before += keys[k] < keys[i] || (keys[k] == keys[i] && k < i);
    at = before == rank ? i : at;
  }
  return at;
}

/* Finds the element of rank ctx->k, counted from 0, in stable order. Rank -1: the median, or the first NaN; -2: the
 * median of all that is not NaN. data: value, index; x, strides[2] bytes apart; scratch for n keys and 64 bytes. */
void SHMT_LOOP(select)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const char* x = data[2];
  const int64_t step = strides[2];
  KEY* keys = (KEY*)(void*)data[3];
  const shmt__sort_args* s = ctx;
  const KEY sign = SIGN(s);
  int64_t rank = s->k, below, at = 0;
  T room[FN(stretch)];
  KEY chosen;

  if (rank < 0) {
    const int64_t valid = SHMT_IS_FLOATING ? n - FN(count_nan)(x, step, n) : n;
    rank = rank == -1 && valid < n ? valid : valid > 0 ? (valid - 1) / 2 : 0;
  }
  if (n <= FN(compared)) {
    at = FN(rank_of_elements)(x, step, n, rank, sign);
    *(T*)(void*)data[0] = *(const T*)(const void*)(x + at * step);
    *(int64_t*)(void*)data[1] = at;
    return;
  }
  if (sizeof(KEY) == 1 || n < FN(sampled) || !FN(rank_by_sample)(x, step, n, rank, sign, keys, &chosen, &below)) {
    for (int64_t begin = 0, width; begin < n; begin += width) {
      width = n - begin < FN(stretch) ? n - begin : FN(stretch);
      const T* elements = FN(bring_together)(x + begin * step, step, width, room);
      for (int64_t i = 0; i < width; i++) keys[begin + i] = FN(signed_key)(elements[i], sign);
    }
    memset(keys + n, 0, 64);
    chosen = n <= FN(few) ? SHMT_UNSIGNED_LOOP(rank_of_few)(keys, n, rank, &below)
                          : SHMT_UNSIGNED_LOOP(rank_of_keys)(keys, n, rank, &below);
  }
  int64_t nth = rank - below; /* the nth of the elements equal to it; stretches before that are only counted */
  for (; n - at > FN(stretch); at += FN(stretch)) {
    const T* elements = FN(bring_together)(x + at * step, step, FN(stretch), room);
    const int64_t same = FN(count_equal)(elements, FN(stretch), sign, chosen);
    if (same > nth) break;
    nth -= same;
  }
  /* Bounded, because x may be shared and change meanwhile. */
  const T* own = (const T*)(const void*)(x + at * step);
  for (; at < n - 1 && (FN(signed_key)(*own, sign) != chosen || nth-- > 0); at++)
    own = (const T*)(const void*)((const char*)own + step);
  *(T*)(void*)data[0] = *own;
  *(int64_t*)(void*)data[1] = at;
}
#endif
#undef KEY
#undef HIGHEST_BIT
#undef SIGN
#undef BY_UNSIGNED
