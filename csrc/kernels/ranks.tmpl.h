/* kernels/ranks.tmpl.h -- the rank of one among few keys, and stretches of elements; for the templates that select, which
 * include kernels/keys.tmpl.h and kernels/count_less.tmpl.h. */
enum { FN(stretch) = 128, FN(step) = 32, FN(group) = 8 };

/* Is one of `group` flags set? */
static inline bool FN(any_of_group)(const uint8_t* flags) {
  uint64_t all;
  memcpy(&all, flags, sizeof all);
  return all != 0;
}

/* Of so few keys every one is compared with every other. */
enum { FN(few) = 32 };

/* The key that `rank` others are before, of 1 <= n <= few; how many are less in *below. `keys` has room for one vector
 * more. */
static KEY FN(count_to_rank)(KEY* keys, int64_t n, int64_t rank, int64_t* below) {
  KEY less[FN(few) + FN(abreast)];
  int64_t best = 0;

  less[0] = 0;
  FN(count_less)(keys, keys, n, less);
  /* The most that are less, but no more than the rank. */
  for (int64_t i = 1; i < n; i++)
    if ((int64_t)less[best] > rank || ((int64_t)less[i] <= rank && less[i] > less[best])) best = i;
  *below = (int64_t)less[best];
  return keys[best];
}
