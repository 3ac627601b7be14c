/* kernels/sorting/insertion.tmpl.h -- sorts few keys together with 32-bit indices, one dtype. For the templates that
 * sort and select, which include kernels/sorting/keys.tmpl.h. */
enum { FN(inserted) = SHMT_ISA_LEVEL == 0 ? 48 : 16 }; /* slices up to this length are sorted so */

#if SHMT_ISA_LEVEL == 0
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
#else
/* Compares every key with every other. The rank of a key is the number of keys that are less, or as small and further
 * in front. Insertion would mispredict a branch for every key. */
enum { FN(abreast) = (16 << SHMT_ISA_LEVEL) / sizeof(KEY), FN(padded) = FN(inserted) + FN(abreast) };

/* Finds the ranks of n keys. Both arrays have room for FN(padded). */
static inline void FN(find_ranks)(const KEY* keys, int64_t n, KEY* ranks) {
  typedef KEY vector __attribute__((vector_size(16 << SHMT_ISA_LEVEL)));
  vector lane;

  for (int i = 0; i < FN(abreast); i++) lane[i] = (KEY)i;
  for (int64_t at = 0; at < n; at += FN(abreast), lane += (KEY)FN(abreast)) {
    vector own, count = {0};
    memcpy(&own, keys + at, sizeof own);
    for (int64_t j = 0; j < n; j++) /* a comparison is -1 where it holds */
      count -= (vector)((own > keys[j]) | ((own == keys[j]) & (lane > (KEY)j)));
    memcpy(ranks + at, &count, sizeof count);
  }
}

static inline void FN(insert_keys)(KEY* keys, uint32_t* index, int64_t n) {
  KEY own[FN(padded)] = {0}, ranks[FN(padded)];
  uint32_t was[FN(inserted)];

  for (int64_t i = 0; i < n; i++) {
    own[i] = keys[i];
    was[i] = index[i];
  }
  FN(find_ranks)(own, n, ranks);
  for (int64_t i = 0; i < n; i++) {
    keys[ranks[i]] = own[i];
    index[ranks[i]] = was[i];
  }
}
#endif
