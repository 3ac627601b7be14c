/* kernels/conv/filter_vectors.tmpl.h -- vectors of filters, of one dtype: part of templates of convolutions. */
#if SHMT_ISA_LEVEL == 2
#define VECTOR_BYTES 64
#else
#define VECTOR_BYTES (SHMT_ISA_LEVEL == 1 ? 32 : 16)
#endif
#define INLINE static inline __attribute__((always_inline))

enum { FN(lanes) = VECTOR_BYTES / sizeof(T), FN(vectors) = 3 };
typedef T FN(vector) __attribute__((vector_size(VECTOR_BYTES)));

INLINE FN(vector) FN(load_vector)(const T* x) {
  FN(vector) v;
  memcpy(&v, x, sizeof v);
  return v;
}

/* Note [Groups of pixels]
 * Groups of as many filters as channels, which are few and divide a vector, lie side by side in one. The i-th channel of each
 * group, moved to all of its places, meets the row of weights that belongs to it. Filters with a channel of their own need no
 * moving about. */
typedef __typeof__(__builtin_choose_expr(sizeof(T) == sizeof(int32_t), (int32_t)0, (int64_t)0)) FN(lane_index);
typedef FN(lane_index) FN(lane_indices) __attribute__((vector_size(VECTOR_BYTES)));

/* Where the first channel of each group is. */
INLINE FN(lane_indices) FN(first_channel_lanes)(int64_t channels) {
  FN(lane_indices) first;

  for (int64_t i = 0; i < FN(lanes); i++) first[i] = (FN(lane_index))(i / channels * channels);
  return first;
}
