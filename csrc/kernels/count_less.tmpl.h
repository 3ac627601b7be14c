/* kernels/count_less.tmpl.h -- how many of some keys are less than each of them; for the templates that sort and select,
 * which include kernels/keys.tmpl.h. One dtype. */
enum { FN(abreast) = 64 / sizeof(T) }; /* keys side by side */

/* How many of n keys are less than each of them. `padded` has the same keys and, like `less`, room for one vector more.
 * (On its own: a copy for each number of keys would be far larger.) */
static __attribute__((noinline, noclone)) void FN(count_less)(const KEY* keys, const KEY* padded, int64_t n, KEY* less) {
  typedef KEY vector __attribute__((vector_size(sizeof(T) * FN(abreast))));
  const int64_t whole = n / 4 * 4;

  for (int64_t i = 0; i < n; i += FN(abreast)) {
    vector own, count[4] = {0};
    memcpy(&own, padded + i, sizeof own);
    for (int64_t j = 0; j < whole; j += 4) /* a comparison is -1 where it holds */
      for (int k = 0; k < 4; k++) count[k] -= (vector)(own > keys[j + k]);
    for (int64_t j = whole; j < n; j++) count[0] -= (vector)(own > keys[j]);
    count[0] = (count[0] + count[1]) + (count[2] + count[3]);
    memcpy(less + i, &count[0], sizeof count[0]);
  }
}
