/* kernels/insertion.tmpl.h -- few keys sorted together with 32-bit indices; for the templates that sort and select, which
 * include kernels/keys.tmpl.h. One dtype. */
enum { FN(inserted) = SHMT_ISA_LEVEL == 0 ? 48 : 12 }; /* lines up to this length are sorted so */

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
