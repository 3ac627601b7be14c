/* kernels/conv/filter_vectors.tmpl.h -- vectors of filters, one dtype: part of the NHWC templates. */
#define INLINE static inline __attribute__((always_inline))

enum { FN(lanes) = SHMT_VECTOR_BYTES / sizeof(T), FN(vectors) = 3 };
typedef T FN(vector) __attribute__((vector_size(SHMT_VECTOR_BYTES)));

INLINE FN(vector) FN(load_vector)(const T* x) {
  FN(vector) v;
  memcpy(&v, x, sizeof v);
  return v;
}

/* Note [Grouped NHWC convolution]
 * Groups have as many filters as channels, and that number divides the elements of a vector. So several groups lie side
 * by side in one vector. A shuffle copies the i-th channel of each group to all lanes of the group, where it is
 * multiplied by the row of weights that belongs to it. Depthwise filters need no shuffle. */
typedef __typeof__(__builtin_choose_expr(sizeof(T) == sizeof(int32_t), (int32_t)0, (int64_t)0)) FN(lane_index);
typedef FN(lane_index) FN(lane_indices) __attribute__((vector_size(SHMT_VECTOR_BYTES)));

/* For each lane, the lane of the first channel of its group. */
INLINE FN(lane_indices) FN(first_channel_lanes)(int64_t channels) {
  FN(lane_indices) first;

  for (int64_t i = 0; i < FN(lanes); i++) first[i] = (FN(lane_index))(i / channels * channels);
  return first;
}
