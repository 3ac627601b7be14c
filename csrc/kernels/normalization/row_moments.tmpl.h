/* kernels/normalization/row_moments.tmpl.h -- sums, squares and products of contiguous runs of elements. One dtype.
 *
 * A block of 1024 elements is summed in 64 lanes, so many that no addition waits for the one before; short runs use
 * fewer. The sums of blocks are added in double. A loop adds its result to the double at data[0]; the ctx is
 * shmt__norm_args.
 */
#include "kernels/row_lanes.tmpl.h"
#include "kernels/loop_args.h"

enum { FN(norm_lanes) = 64, FN(norm_few) = 16, FN(norm_block) = 1024, FN(norm_short) = 256 };

#if !SHMT_IS_FLOAT16_LOOP
static inline double FN(sum_lanes)(const C* lanes) {
  double four[4] = {0};

  for (int k = 0; k < FN(norm_few); k++) four[k % 4] += (double)lanes[k];
  return (four[0] + four[1]) + (four[2] + four[3]);
}

/* For short runs. */
ROW_SUM(sum_plain, (void)0, 0)
ROW_SUM(sum_centred_square, (v -= shift, v *= v), 0)
ROW_SUM(sum_centred_product, (v -= shift, v *= w), 0)

/* Adds COUNT elements from i on, each to a lane of its own. */
#define ADD_LANES(COUNT, EXPR)                                                                         \
  for (int64_t k = 0; k < (COUNT); k++) {                                                              \
    const C v = SHMT_LOAD(x[i + k]), w = SHMT_LOAD(g[i + k]);                                          \
    (void)v;                                                                                           \
    (void)w;                                                                                           \
    lanes[k] += (EXPR);                                                                                \
  }
#define RUN_SUM(NAME, SHORT, EXPR)                                                                        \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {           \
    const shmt__norm_args* s = ctx;                                                                       \
    const T* x = (const T*)(const void*)data[1];                                                          \
    const T* g = data[2] ? (const T*)(const void*)data[2] : x;                                            \
    const C mean = (C)s->mean;                                                                            \
    double total = 0;                                                                                     \
    (void)strides;                                                                                        \
    if (n <= FN(norm_short)) {                                                                            \
      *(double*)(void*)data[0] += (double)FN(SHORT)(x, g, NULL, mean, n);                                 \
      return;                                                                                             \
    }                                                                                                     \
    for (int64_t begin = 0; begin < n; begin += FN(norm_block)) {                                         \
      const int64_t end = begin + FN(norm_block) < n ? begin + FN(norm_block) : n;                        \
      C lanes[FN(norm_lanes)] = {0};                                                                      \
      int64_t i = begin;                                                                                  \
      for (; i + FN(norm_lanes) <= end; i += FN(norm_lanes)) ADD_LANES(FN(norm_lanes), EXPR);             \
      for (; i + FN(norm_few) <= end; i += FN(norm_few)) ADD_LANES(FN(norm_few), EXPR);                   \
      ADD_LANES(end - i, EXPR);                                                                           \
      for (int k = 0; k < FN(norm_few); k++) lanes[k] += lanes[k + 16] + (lanes[k + 32] + lanes[k + 48]); \
      total += FN(sum_lanes)(lanes);                                                                      \
    }                                                                                                     \
    *(double*)(void*)data[0] += total;                                                                    \
  }
RUN_SUM(run_sum, sum_plain, v)
RUN_SUM(run_square, sum_centred_square, (v - mean) * (v - mean))
RUN_SUM(run_product, sum_centred_product, (v - mean) * w)
#undef RUN_SUM
#undef ADD_LANES
#else
/* float16: the processor's instructions widen a block, which is also a block of the float32 loop. */
#define RUN_SUM(NAME)                                                                                         \
  void SHMT_FULL_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx);           \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {               \
    C x[FN(norm_block)], g[FN(norm_block)];                                                                   \
    char* const at[] = {data[0], (char*)x, data[2] ? (char*)g : NULL};                                        \
    for (int64_t i = 0, width; i < n; i += width) {                                                           \
      width = n - i < FN(norm_block) ? n - i : FN(norm_block);                                                \
      SHMT_WIDEN_RUN(x, (const T*)(const void*)data[1] + i, width);                                           \
      if (data[2]) SHMT_WIDEN_RUN(g, (const T*)(const void*)data[2] + i, width);                              \
      SHMT_FULL_LOOP(NAME)(at, strides, width, ctx);                                                          \
    }                                                                                                         \
  }
RUN_SUM(run_sum)
RUN_SUM(run_square)
RUN_SUM(run_product)
#undef RUN_SUM
#endif
#undef EACH_LANE
#undef INLINE
#undef ROW_SUM
