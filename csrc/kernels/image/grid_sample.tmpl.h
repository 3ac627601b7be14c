/* kernels/image/grid_sample.tmpl.h -- grid_sample: values of images at given positions. One dtype.
 *
 * n batch entries of any strides; ctx: shmt__grid_sample_args. The corners of a block of positions are found together.
 * Their values are summed in vectors of positions, or of channels in NHWC images.
 */
#include "kernels/image/grid_corners.tmpl.h"
#include "kernels/simd/half_runs.h"

#include <string.h>
#if SHMT_ISA_LEVEL >= 1
#include <immintrin.h>
#endif

/* Vectors as wide as the processor has them: the compiler keeps parts of wider ones in memory. Macros, because #if
 * reads them. */
#define VECTOR_BYTES (SHMT_ISA_LEVEL >= 1 ? 32 : 16)
#define LANES        (VECTOR_BYTES / (SHMT_IS_HALF || SHMT_IS_FULL ? 4 : 8))
#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef ACC FN(some) __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef ACC FN(somewhere) __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));
typedef OF(flag) FN(flags) __attribute__((vector_size(VECTOR_BYTES), may_alias));

/* The coordinates of n positions of a batch entry. */
static void FN(read_positions)(const shmt__grid_sample_args* s, const T* grid, int64_t first, int64_t n,
                               ACC x[3][SHMT_GRID_BLOCK]) {
  const shmt__grid_view* v = &s->views[2];
  int64_t at[3] = {first / s->out[2] / s->out[1], first / s->out[2] % s->out[1], first % s->out[2]};

  for (int64_t i = 0, run; i < n; i += run) {
    const T* position = grid + shmt__grid_offset(v, at);
    run = n - i < s->out[2] - at[2] ? n - i : s->out[2] - at[2];
    if (s->n == 2 && v->channel == 1 && v->at[2] == 2) /* vectors have instructions for this */
      for (int64_t j = 0; j < run; j++) {
        x[0][i + j] = (ACC)SHMT_LOAD(position[2 * j]);
        x[1][i + j] = (ACC)SHMT_LOAD(position[2 * j + 1]);
      }
    else
      for (int d = 0; d < s->n; d++)
        for (int64_t j = 0; j < run; j++) x[d][i + j] = (ACC)SHMT_LOAD(position[d * v->channel + j * v->at[2]]);
    at[2] = 0;
    if (++at[1] == s->out[1]) at[1] = 0, at[0]++;
  }
}

/* LANES elements as they are stored; 16-bit floats may have room for more. */
typedef __typeof__(_Generic((T*)0, float*: 0.0f, double*: 0.0, default: (uint16_t)0)) FN(bits);
typedef FN(bits) FN(stored) __attribute__((vector_size(SHMT_IS_HALF ? 16 : VECTOR_BYTES), aligned(1), may_alias));

ALWAYS_INLINE void FN(load)(const T* x, FN(stored)* out) {
#if SHMT_IS_HALF && LANES == 4
  typedef int64_t four __attribute__((aligned(1), may_alias));
  typedef int64_t eight __attribute__((vector_size(16)));
  *out = (FN(stored))(eight){*(const four*)(const void*)x};
#else
  *out = *(const FN(stored)*)(const void*)x;
#endif
}

ALWAYS_INLINE void FN(widen)(const FN(stored)* x, FN(some)* out) {
#if !SHMT_IS_HALF
  *out = *x;
#elif defined(__F16C__) && SHMT_IS_FLOAT16_LOOP
  *out = __builtin_ia32_vcvtph2ps256((shmt__shorts8)*x);
#else
#if LANES == 4
  const FN(flags) bits = (FN(flags))__builtin_shuffle(*x, (FN(stored)){0}, (FN(stored)){0, 8, 1, 9, 2, 10, 3, 11});
#else
  const FN(flags) bits = __builtin_convertvector(*x, FN(flags));
#endif
#if SHMT_IS_FLOAT16_LOOP /* the steps of base/half.h, which the compiler does not vectorise here */
  const FN(flags) a = (bits & 0x7fff) << 13, is_small = a < 1 << 23, is_finite = a < 0xf800000;
  const FN(some) small = (FN(some))(a + (113 << 23)) - 0x1p-14f;
  *out = (FN(some))((is_small & (FN(flags))small) | (~is_small & (a + (112 << 23))) | (~is_finite & 0x7f800000) |
                    (bits & 0x8000) << 16);
#else
  *out = (FN(some))(bits << 16);
#endif
#endif
}

/* Load the elements at LANES offsets. */
ALWAYS_INLINE void FN(gather)(const T* image, const int32_t* at, FN(some)* out) {
#if SHMT_ISA_LEVEL >= 1 && LANES == 8 && !SHMT_IS_HALF
  *out = (FN(some))_mm256_i32gather_ps(image, _mm256_load_si256((const __m256i*)(const void*)at), sizeof(T));
#elif SHMT_ISA_LEVEL >= 1 && !SHMT_IS_HALF
  *out = (FN(some))_mm256_i32gather_pd(image, _mm_load_si128((const __m128i*)(const void*)at), sizeof(T));
#else
  FN(stored) made = {0};
#pragma GCC unroll 8
  for (int j = 0; j < LANES; j++) made[j] = ((const FN(bits)*)(const void*)image)[at[j]];
  FN(widen)(&made, out);
#endif
}

ALWAYS_INLINE void FN(store)(const FN(some)* sum, T* out) {
#if SHMT_IS_HALF
  float made[LANES];
  memcpy(made, sum, sizeof made);
  if (SHMT_HAS_F16C && SHMT_IS_FLOAT16)
    shmt__narrow_float16(SHMT_AS_FLOAT16(out), made, LANES);
  else
    for (int j = 0; j < LANES; j++) out[j] = SHMT_STORE(made[j]);
#else
  *(FN(somewhere)*)(void*)out = *sum;
#endif
}

static __attribute__((noinline)) void FN(store_some)(const FN(some)* sum, int64_t n, T* out) {
  T made[LANES];

  FN(store)(sum, made);
  memcpy(out, made, (size_t)n * sizeof(T));
}

/* Store the first n of LANES sums; n may be larger, or not positive. */
ALWAYS_INLINE void FN(put)(const FN(some)* sum, int64_t n, T* out) {
  if (n >= LANES) {
    FN(store)(sum, out);
  } else if (n > 0) {
    const FN(some) last = *sum; /* a copy with an address, so that the sum stays in a register */
    FN(store_some)(&last, n, out);
  }
}

/* weight * x, with x taken as 0 where `keep` is not set. */
#define WEIGHTED(weight, x, keep) ((weight) * (FN(some))((FN(flags))(x) & (keep)))

/* Weighted sums for many positions in one plane of an NCHW image. */
ALWAYS_INLINE void FN(sum_nchw)(const OF(block)* corners, int n, const T* image, int64_t many, T* out) {
  enum { PARTS = SHMT_GRID_LANES / LANES };

  for (int64_t i = 0; i < many; i += SHMT_GRID_LANES) {
    FN(some) sums[PARTS] = {{0}};
    for (int k = 0; k < n; k++)
#pragma GCC unroll 4
      for (int j = 0; j < PARTS; j++) {
        const int64_t at = i + j * LANES;
        FN(some) x;
        FN(gather)(image, corners->at[k] + at, &x);
        sums[j] += WEIGHTED(*(const FN(some)*)(const void*)(corners->weight[k] + at), x,
                            *(const FN(flags)*)(const void*)(corners->keep[k] + at));
      }
#pragma GCC unroll 4
    for (int j = 0; j < PARTS; j++) FN(put)(&sums[j], many - i - j * LANES, out + i + j * LANES);
  }
}

/* Transpose LANES vectors. */
ALWAYS_INLINE void FN(transpose)(FN(some) x[LANES]) {
  typedef FN(flags) order;
#if LANES == 8
  FN(some) a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    a[i] = __builtin_shuffle(x[i], x[i + 1], (order){0, 8, 1, 9, 4, 12, 5, 13});
    a[i + 1] = __builtin_shuffle(x[i], x[i + 1], (order){2, 10, 3, 11, 6, 14, 7, 15});
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      b[i + 2 * j] = __builtin_shuffle(a[i + j], a[i + j + 2], (order){0, 1, 8, 9, 4, 5, 12, 13});
      b[i + 2 * j + 1] = __builtin_shuffle(a[i + j], a[i + j + 2], (order){2, 3, 10, 11, 6, 7, 14, 15});
    }
#pragma GCC unroll 8
  for (int i = 0; i < 4; i++) {
    x[i] = __builtin_shuffle(b[i], b[i + 4], (order){0, 1, 2, 3, 8, 9, 10, 11});
    x[i + 4] = __builtin_shuffle(b[i], b[i + 4], (order){4, 5, 6, 7, 12, 13, 14, 15});
  }
#elif LANES == 4
  const FN(some) a = __builtin_shuffle(x[0], x[1], (order){0, 4, 2, 6}),
                 b = __builtin_shuffle(x[0], x[1], (order){1, 5, 3, 7});
  const FN(some) c = __builtin_shuffle(x[2], x[3], (order){0, 4, 2, 6}),
                 d = __builtin_shuffle(x[2], x[3], (order){1, 5, 3, 7});
  x[0] = __builtin_shuffle(a, c, (order){0, 1, 4, 5});
  x[1] = __builtin_shuffle(b, d, (order){0, 1, 4, 5});
  x[2] = __builtin_shuffle(a, c, (order){2, 3, 6, 7});
  x[3] = __builtin_shuffle(b, d, (order){2, 3, 6, 7});
#else
  const FN(some) a = __builtin_shuffle(x[0], x[1], (order){0, 2});
  x[1] = __builtin_shuffle(x[0], x[1], (order){1, 3});
  x[0] = a;
#endif
}

/* The same for LANES channels of an NHWC image, and LANES positions from i on. */
ALWAYS_INLINE void FN(sum_nhwc)(const OF(block)* corners, int n, const T* image, int64_t i, int64_t many, T* out,
                                int64_t plane) {
  FN(some) sums[LANES] = {{0}};

  for (int k = 0; k < n; k++)
#pragma GCC unroll 8
    for (int j = 0; j < LANES; j++) {
      FN(stored) stored;
      FN(some) x;
      FN(load)(image + corners->at[k][i + j], &stored);
      FN(widen)(&stored, &x);
      sums[j] += WEIGHTED(corners->weight[k][i + j], x, corners->keep[k][i + j]);
    }
  FN(transpose)(sums);
#pragma GCC unroll 8
  for (int j = 0; j < LANES; j++) FN(put)(&sums[j], many - i, out + j * plane + i);
}

/* All channels at some positions, from that of out on. A function of its own, so that finding corners takes no
 * registers from it. */
static __attribute__((noinline)) void FN(sum_channels)(const OF(block)* corners, const shmt__grid_sample_args* s,
                                                       const T* image, int64_t many, T* out) {
  const int64_t plane = s->views[0].channel, step = s->views[1].channel;
  const int64_t nhwc_channels = step == 1 ? s->channels / LANES * LANES : 0;

  /* With one corner, each plane is written from end to end. Several corners read more than that, so that all channels
   * at some positions are made while the input is in the cache. */
  if (corners->n == 1)
    for (int64_t c = 0; c < nhwc_channels; c += LANES)
      for (int64_t i = 0; i < many; i += LANES) FN(sum_nhwc)(corners, 1, image + c, i, many, out + c * plane, plane);
  else
    for (int64_t i = 0; i < many; i += LANES)
      for (int64_t c = 0; c < nhwc_channels; c += LANES)
        FN(sum_nhwc)(corners, corners->n, image + c, i, many, out + c * plane, plane);
  for (int64_t c = nhwc_channels; c < s->channels; c++) {
    const T* from = image + c * step;
    T* to = out + c * plane;
    if (corners->n == 4)
      FN(sum_nchw)(corners, 4, from, many, to);
    else
      FN(sum_nchw)(corners, corners->n, from, many, to);
  }
}

/* Batch entry b position by position: for images whose offsets do not fit 32 bits. */
static void FN(sample_large)(char* const* data, const shmt__grid_sample_args* s, int64_t b) {
  const shmt__grid_view* v = s->views;
  const T* image = SHMT_LOOP(operand)(data, s, 1, b, NULL);

  EACH_POSITION(s, at) {
    OF(neighbours) sets[3];
    OF(corner) corners[SHMT_GRID_CORNERS];
    int64_t offsets[SHMT_GRID_CORNERS];
    const int64_t position = (at[0] * s->out[1] + at[1]) * s->out[2] + at[2];
    T* out = SHMT_LOOP(operand)(data, s, 0, b, NULL) + position;
    SHMT_LOOP(locate)(s, SHMT_LOOP(operand)(data, s, 2, b, at), v[2].channel, sets);
    const int many = OF(find_corners)(sets, false, NULL, corners);
    SHMT_LOOP(find_offsets)(&v[1], corners, many, offsets);
    for (int64_t c = 0; c < s->channels; c++) {
      ACC sum = 0;
      for (int k = 0; k < many; k++) sum += corners[k].weight * (ACC)SHMT_LOAD(image[c * v[1].channel + offsets[k]]);
      out[c * v[0].channel] = SHMT_STORE((C)sum);
    }
  }
}

static bool FN(is_large)(const shmt__grid_sample_args* s) {
  int64_t last = 0;

  for (int d = 0; d < 3; d++) {
    if (s->in[d] > INT32_MAX || s->views[1].at[d] > INT32_MAX) return true;
    last += (s->in[d] - 1) * s->views[1].at[d];
    if (last > INT32_MAX) return true;
  }
  return false;
}

/* data: out, with dense positions; image; grid. */
void SHMT_LOOP(grid_sample)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__grid_sample_args* s = ctx;
  const int64_t positions = s->out[0] * s->out[1] * s->out[2];
  const bool is_large = FN(is_large)(s);

  (void)strides;
  for (int64_t b = 0; b < n; b++) {
    if (is_large) {
      FN(sample_large)(data, s, b);
      continue;
    }
    for (int64_t first = 0; first < positions; first += SHMT_GRID_BLOCK) {
      const int64_t many = positions - first < SHMT_GRID_BLOCK ? positions - first : SHMT_GRID_BLOCK;
      T* out = SHMT_LOOP(operand)(data, s, 0, b, NULL) + first;
      const T* image = SHMT_LOOP(operand)(data, s, 1, b, NULL);
      ACC x[3][SHMT_GRID_BLOCK];
      OF(block) corners;
      FN(read_positions)(s, SHMT_LOOP(operand)(data, s, 2, b, NULL), first, many, x);
      OF(find_block)(s, &s->views[1], x, many, &corners);
      FN(sum_channels)(&corners, s, image, many, out);
    }
  }
}

#undef EACH_POSITION
#undef OF
#undef ALWAYS_INLINE
#undef LANES
#undef VECTOR_BYTES
#undef WEIGHTED
