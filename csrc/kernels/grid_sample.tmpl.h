/* kernels/grid_sample.tmpl.h -- values of images at given positions, and the gradients. One dtype.
 *
 * n batch entries of any strides; ctx: shmt__grid_shape. A position is the product of one set of neighbours per dim; a set has
 * up to four, each with its weight and the weight's first and second derivative by the coordinate. Images have depth 1, and
 * then positions have two coordinates. Coordinates come in the order width, height, depth.
 */
#include "kernels/loops.h"
#include "kernels/shapes.h"

#include <string.h>
#if SHMT_ISA_LEVEL >= 1
#include <immintrin.h>
#endif

#ifndef SHMT_KERNELS_GRID_SAMPLE_ONCE
#define SHMT_KERNELS_GRID_SAMPLE_ONCE
enum { SHMT_GRID_LINEAR, SHMT_GRID_NEAREST, SHMT_GRID_CUBIC };
enum { SHMT_GRID_ZEROS, SHMT_GRID_BORDER, SHMT_GRID_REFLECTION };
enum { SHMT_GRID_CORNERS = 16 }; /* combinations of neighbours: 4 by 4, or 2 by 2 by 2 */
enum { SHMT_GRID_STRETCH = 64, SHMT_GRID_LANES = 8 }; /* positions that are found together; that are summed up together */
#endif

/* The neighbours along one dim; index -1: outside, counts as zero. */
typedef struct SHMT_LOOP(neighbours) {
  int n;
  int64_t at[4];
  ACC weight[4], slope[4], curve[4];
} SHMT_LOOP(neighbours);

/* What is no number counts as the first element of an image, and as the last of a volume, as in torch. */
static inline ACC SHMT_LOOP(clip)(ACC x, int64_t size, bool is_volume, ACC* slope) {
  if (x <= 0 || (x != x && !is_volume)) {
    *slope = 0;
    return 0;
  }
  if (!(x < (ACC)(size - 1))) {
    *slope = 0;
    return (ACC)(size - 1);
  }
  return x;
}

/* In the type itself: vectors have instructions for these. */
static inline ACC FN(whole_below)(ACC x) { return sizeof(ACC) == sizeof(float) ? (ACC)floorf((float)x) : (ACC)floor((double)x); }
static inline ACC FN(nearest_whole)(ACC x) {
  return sizeof(ACC) == sizeof(float) ? (ACC)nearbyintf((float)x) : (ACC)nearbyint((double)x);
}

/* Reflect about the middles (align) or the edges of the outermost elements until x is inside. */
static inline ACC SHMT_LOOP(reflect)(ACC x, int64_t size, bool align, ACC* slope) {
  const ACC low = align ? 0 : (ACC)-0.5, span = (ACC)(align ? size - 1 : size);

  if (span == 0) {
    *slope = 0;
    return 0;
  }
  x -= low;
  if (x < 0) {
    x = -x;
    *slope = -*slope;
  }
  /* Most often without a division of the C library. */
  const ACC extra = x < span ? x : x < 2 * span ? x - span : (ACC)fmod((double)x, (double)span);
  const ACC flips = FN(whole_below)(x / span);
  if (2 * FN(whole_below)(flips / 2) == flips) return extra + low;
  *slope = -*slope;
  return span - extra + low;
}

static inline ACC SHMT_LOOP(bring_inside)(const shmt__grid_shape* s, ACC x, int64_t size, ACC* slope) {
  if (s->padding == SHMT_GRID_REFLECTION) x = SHMT_LOOP(reflect)(x, size, s->align_corners, slope);
  return s->padding == SHMT_GRID_ZEROS ? x : SHMT_LOOP(clip)(x, size, s->n == 3, slope);
}

/* An index from a whole number; -1 when it is not one of the size. */
static inline int64_t SHMT_LOOP(index_of)(ACC x, int64_t size) {
  return x >= 0 && x < (ACC)size ? (int64_t)x : -1;
}

/* Cubic convolution with a = -0.75 at distance t behind the second of four neighbours. */
static inline void SHMT_LOOP(cubic)(ACC t, ACC* w, ACC* slope, ACC* curve) {
  const ACC a = (ACC)-0.75;
  const ACC d[4] = {t + 1, t, 1 - t, 2 - t};

  for (int k = 0; k < 4; k++) {
    const ACC x = d[k], sign = k < 2 ? (ACC)1 : (ACC)-1;
    if (k == 0 || k == 3) {
      w[k] = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
      slope[k] = sign * ((3 * a * x - 10 * a) * x + 8 * a);
      curve[k] = 6 * a * x - 10 * a;
    } else {
      w[k] = ((a + 2) * x - (a + 3)) * x * x + 1;
      slope[k] = sign * (3 * (a + 2) * x - 2 * (a + 3)) * x;
      curve[k] = 6 * (a + 2) * x - 2 * (a + 3);
    }
  }
}

static inline void SHMT_LOOP(find_neighbours)(const shmt__grid_shape* s, ACC given, int64_t size,
                                              SHMT_LOOP(neighbours)* out) {
  ACC slope = (ACC)(s->align_corners ? size - 1 : size) / 2;
  ACC x = s->align_corners ? (given + 1) / 2 * (ACC)(size - 1) : ((given + 1) * (ACC)size - 1) / 2;

  if (s->mode == SHMT_GRID_CUBIC) {
    const ACC base = FN(whole_below)(x);
    out->n = 4;
    SHMT_LOOP(cubic)(x - base, out->weight, out->slope, out->curve);
    for (int k = 0; k < 4; k++) {
      ACC unused = 1;
      out->at[k] = SHMT_LOOP(index_of)(SHMT_LOOP(bring_inside)(s, base + (ACC)(k - 1), size, &unused), size);
      out->slope[k] *= slope;
      out->curve[k] *= slope * slope;
    }
    return;
  }
  x = SHMT_LOOP(bring_inside)(s, x, size, &slope);
  if (s->mode == SHMT_GRID_NEAREST) {
    out->n = 1;
    out->at[0] = SHMT_LOOP(index_of)(FN(nearest_whole)(x), size);
    out->weight[0] = 1;
    out->slope[0] = out->curve[0] = 0;
    return;
  }
  const ACC base = FN(whole_below)(x);
  out->n = 2;
  out->at[0] = SHMT_LOOP(index_of)(base, size);
  out->at[1] = SHMT_LOOP(index_of)(base + 1, size);
  out->weight[0] = base + 1 - x;
  out->weight[1] = x - base;
  out->slope[0] = -slope;
  out->slope[1] = slope;
  out->curve[0] = out->curve[1] = 0;
}

/* The neighbours of a position: width, height, depth. */
static inline void SHMT_LOOP(locate)(const shmt__grid_shape* s, const T* position, int64_t step,
                                     SHMT_LOOP(neighbours) sets[3]) {
  sets[2] = (SHMT_LOOP(neighbours)){.n = 1, .at = {0}, .weight = {1}, .slope = {0}, .curve = {0}};
  for (int d = 0; d < s->n; d++)
    SHMT_LOOP(find_neighbours)(s, (ACC)SHMT_LOAD(position[d * step]), s->in[2 - d], &sets[d]);
}

/* One combination of neighbours: its weight, the derivatives of that, and along u those of them. */
typedef struct SHMT_LOOP(corner) {
  int64_t at[3]; /* depth, height, width */
  ACC weight, first[3], along, second[3];
} SHMT_LOOP(corner);

/* Those that are inside; returns how many there are. slopes: with first derivatives; u: with the rest, or NULL. */
static inline int SHMT_LOOP(find_corners)(const SHMT_LOOP(neighbours) sets[3], bool slopes, const ACC* u,
                                          SHMT_LOOP(corner)* out) {
  int n = 0;

  for (int kd = 0; kd < sets[2].n; kd++)
    for (int kh = 0; kh < sets[1].n; kh++)
      for (int kw = 0; kw < sets[0].n; kw++) {
        SHMT_LOOP(corner)* made = &out[n];
        const ACC w[3] = {sets[0].weight[kw], sets[1].weight[kh], sets[2].weight[kd]};
        if (sets[2].at[kd] < 0 || sets[1].at[kh] < 0 || sets[0].at[kw] < 0) continue;
        n++;
        made->at[0] = sets[2].at[kd];
        made->at[1] = sets[1].at[kh];
        made->at[2] = sets[0].at[kw];
        made->weight = w[2] * w[1] * w[0];
        if (!slopes) continue;
        const ACC s[3] = {sets[0].slope[kw], sets[1].slope[kh], sets[2].slope[kd]};
        for (int d = 0; d < 3; d++) made->first[d] = s[d] * w[(d + 1) % 3] * w[(d + 2) % 3];
        if (!u) continue;
        const ACC c[3] = {sets[0].curve[kw], sets[1].curve[kh], sets[2].curve[kd]};
        made->along = 0;
        for (int d = 0; d < 3; d++) {
          const int e = (d + 1) % 3, f = (d + 2) % 3;
          made->along += u[d] * made->first[d];
          made->second[d] = u[d] * c[d] * w[e] * w[f] + u[e] * s[d] * s[e] * w[f] + u[f] * s[d] * s[f] * w[e];
        }
      }
  return n;
}

static inline int64_t SHMT_LOOP(offset_of)(const shmt__grid_view* v, const int64_t at[3]) {
  return at[0] * v->at[0] + at[1] * v->at[1] + at[2] * v->at[2];
}

/* Where the corners lie in a plane of an operand. */
static inline void SHMT_LOOP(find_offsets)(const shmt__grid_view* v, const SHMT_LOOP(corner)* corners, int n,
                                           int64_t* out) {
  for (int k = 0; k < n; k++) out[k] = SHMT_LOOP(offset_of)(v, corners[k].at);
}

/* The data of operand k at a batch entry and position; NULL if there is none. */
static inline T* SHMT_LOOP(operand)(char* const* data, const shmt__grid_shape* s, int k, int64_t entry, const int64_t* at) {
  const shmt__grid_view* v = &s->views[k];

  return data[k] ? (T*)(void*)data[k] + entry * v->batch + (at ? SHMT_LOOP(offset_of)(v, at) : 0) : NULL;
}

#define EACH_POSITION(s, at)                              \
  for (int64_t at[3] = {0}; at[0] < (s)->out[0]; at[0]++) \
    for (at[1] = 0; at[1] < (s)->out[1]; at[1]++)         \
      for (at[2] = 0; at[2] < (s)->out[2]; at[2]++)

/* --- many positions at a time ------------------------------------------------------------------- */

/* All bits or none. */
typedef __typeof__(_Generic((ACC)0, float: (int32_t)0, default: (int64_t)0)) FN(flag);
typedef ACC FN(some) __attribute__((vector_size(SHMT_GRID_LANES * sizeof(ACC)), aligned(8), may_alias));
typedef ACC FN(somewhere) __attribute__((vector_size(SHMT_GRID_LANES * sizeof(ACC)), aligned(1), may_alias));
typedef FN(flag) FN(flags) __attribute__((vector_size(SHMT_GRID_LANES * sizeof(ACC)), aligned(8), may_alias));

/* The neighbours of some positions along one dim: how far from the first element in the image, their weights, and do they
 * count? What does not lies at 0. */
typedef struct FN(line) {
  int32_t at[4][SHMT_GRID_STRETCH];
  _Alignas(32) ACC weight[4][SHMT_GRID_STRETCH];
  _Alignas(32) FN(flag) keep[4][SHMT_GRID_STRETCH];
} FN(line);

/* The same of all dims together. */
typedef struct FN(stretch) {
  int n;
  int32_t at[SHMT_GRID_CORNERS][SHMT_GRID_STRETCH];
  _Alignas(32) ACC weight[SHMT_GRID_CORNERS][SHMT_GRID_STRETCH]; /* read by vectors, as is keep */
  _Alignas(32) FN(flag) keep[SHMT_GRID_CORNERS][SHMT_GRID_STRETCH];
} FN(stretch);

static void FN(bring_all_inside)(const shmt__grid_shape* s, ACC* x, int64_t n, int64_t size) {
  const ACC last = (ACC)(size - 1);

  if (s->padding == SHMT_GRID_ZEROS) return;
  for (int64_t i = 0; s->padding == SHMT_GRID_REFLECTION && i < n; i++) {
    ACC unused = 1;
    x[i] = SHMT_LOOP(reflect)(x[i], size, s->align_corners, &unused);
  }
  if (s->n == 3)
    for (int64_t i = 0; i < n; i++) {
      const ACC low = x[i] < 0 ? 0 : x[i];
      x[i] = low < last ? low : last;
    }
  else
    for (int64_t i = 0; i < n; i++) {
      const ACC low = x[i] > 0 ? x[i] : 0;
      x[i] = low < last ? low : last;
    }
}

/* Neighbour k is at x, `step` elements a place. */
static void FN(place_all)(FN(line)* line, int k, const ACC* x, int64_t n, int64_t size, int64_t step) {
  int32_t* at = line->at[k];
  FN(flag)* keep = line->keep[k];

  for (int64_t i = 0; i < n; i++) keep[i] = x[i] >= 0 && x[i] < (ACC)size ? -1 : 0;
  for (int64_t i = 0; i < n; i++) at[i] = (int32_t)(keep[i] ? x[i] : 0) * (int32_t)step;
}

/* x: coordinates, which are overwritten. */
static void FN(find_line)(const shmt__grid_shape* s, ACC* x, int64_t n, int64_t size, int64_t step, FN(line)* line) {
  ACC base[SHMT_GRID_STRETCH], place[SHMT_GRID_STRETCH];

  if (s->align_corners)
    for (int64_t i = 0; i < n; i++) x[i] = (x[i] + 1) / 2 * (ACC)(size - 1);
  else
    for (int64_t i = 0; i < n; i++) x[i] = ((x[i] + 1) * (ACC)size - 1) / 2;
  if (s->mode != SHMT_GRID_CUBIC) FN(bring_all_inside)(s, x, n, size);
  if (s->mode == SHMT_GRID_NEAREST) {
    for (int64_t i = 0; i < n; i++) x[i] = FN(nearest_whole)(x[i]);
    for (int64_t i = 0; i < n; i++) line->weight[0][i] = 1;
    FN(place_all)(line, 0, x, n, size, step);
    return;
  }
  for (int64_t i = 0; i < n; i++) base[i] = FN(whole_below)(x[i]);
  const bool cubic = s->mode == SHMT_GRID_CUBIC;
  for (int64_t i = 0; !cubic && i < n; i++) {
    line->weight[0][i] = base[i] + 1 - x[i];
    line->weight[1][i] = x[i] - base[i];
  }
  for (int64_t i = 0; cubic && i < n; i++) {
    ACC w[4], slope[4], curve[4];
    SHMT_LOOP(cubic)(x[i] - base[i], w, slope, curve);
    for (int k = 0; k < 4; k++) line->weight[k][i] = w[k];
  }
  for (int k = 0; k < (cubic ? 4 : 2); k++) {
    const ACC more = (ACC)(cubic ? k - 1 : k);
    for (int64_t i = 0; i < n; i++) place[i] = base[i] + more;
    if (cubic) FN(bring_all_inside)(s, place, n, size);
    FN(place_all)(line, k, place, n, size, step);
  }
}

/* Every corner of n positions, and up to a whole number of vectors of others; grid: their batch entry. The weights of corners
 * that do not count are those of nothing: at a position that is no number the value of an image is none either, whereas
 * volumes are 0 there, as in torch. */
static void FN(find_stretch)(const shmt__grid_shape* s, const T* grid, int64_t first, int64_t n, FN(stretch)* out) {
  const shmt__grid_view *image = &s->views[1], *v = &s->views[2];
  ACC x[3][SHMT_GRID_STRETCH];
  FN(line) lines[3];
  const int many = s->mode == SHMT_GRID_CUBIC ? 4 : s->mode == SHMT_GRID_LINEAR ? 2 : 1;
  int64_t at[3] = {first / s->out[2] / s->out[1], first / s->out[2] % s->out[1], first % s->out[2]};

  for (int64_t i = 0, run; i < n; i += run) {
    const T* position = grid + SHMT_LOOP(offset_of)(v, at);
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
  for (; n % SHMT_GRID_LANES; n++) /* some place that there is */
    for (int d = 0; d < s->n; d++) x[d][n] = 0;
  for (int d = 0; d < s->n; d++) FN(find_line)(s, x[d], n, s->in[2 - d], image->at[2 - d], &lines[d]);
  out->n = 0;
  for (int kd = 0; kd < (s->n == 3 ? many : 1); kd++)
    for (int kh = 0; kh < many; kh++)
      for (int kw = 0; kw < many; kw++) {
        const int k = out->n++;
        for (int64_t i = 0; i < n; i++) out->at[k][i] = lines[1].at[kh][i] + lines[0].at[kw][i];
        for (int64_t i = 0; i < n; i++) out->keep[k][i] = lines[1].keep[kh][i] & lines[0].keep[kw][i];
        if (s->n == 2) {
          for (int64_t i = 0; i < n; i++) out->weight[k][i] = lines[1].weight[kh][i] * lines[0].weight[kw][i];
          continue;
        }
        for (int64_t i = 0; i < n; i++) out->at[k][i] += lines[2].at[kd][i];
        for (int64_t i = 0; i < n; i++) out->keep[k][i] &= lines[2].keep[kd][i];
        for (int64_t i = 0; i < n; i++) {
          const ACC weight = lines[2].weight[kd][i] * lines[1].weight[kh][i] * lines[0].weight[kw][i];
          out->weight[k][i] = out->keep[k][i] ? weight : 0;
        }
      }
}

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define EIGHT(EACH) {EACH(0), EACH(1), EACH(2), EACH(3), EACH(4), EACH(5), EACH(6), EACH(7)}

/* The elements at SHMT_GRID_LANES places. Not by way of an array: that would be read before it is written back. */
static inline void FN(gather)(const T* image, const int32_t* at, FN(some)* out) {
#if SHMT_ISA_LEVEL >= 1 && !SHMT_IS_HALF
  if (sizeof(T) == sizeof(float)) {
    const __m256i where = _mm256_loadu_si256((const __m256i*)(const void*)at);
    const __m256 made = _mm256_i32gather_ps((const float*)(const void*)image, where, sizeof(float));
    memcpy(out, &made, sizeof made);
  } else {
    const double* const x = (const double*)(const void*)image;
    const __m128i *where = (const __m128i*)(const void*)at;
    const __m256d made[2] = {_mm256_i32gather_pd(x, _mm_loadu_si128(where), sizeof *x),
                             _mm256_i32gather_pd(x, _mm_loadu_si128(where + 1), sizeof *x)};
    memcpy(out, made, sizeof made);
  }
#else
#define PIXEL(J) (ACC) SHMT_LOAD(image[at[J]])
  *out = (FN(some))EIGHT(PIXEL);
#undef PIXEL
#endif
}

/* The first n of SHMT_GRID_LANES sums. */
static inline void FN(put)(const FN(some)* sum, int64_t n, T* out) {
  T made[SHMT_GRID_LANES];

  if (n >= SHMT_GRID_LANES && sizeof(T) == sizeof(ACC)) {
    *(FN(somewhere)*)(void*)out = *sum; /* as one vector, other than a memcpy */
    return;
  }
#pragma GCC unroll 8
  for (int j = 0; j < SHMT_GRID_LANES; j++) made[j] = SHMT_STORE((C)(*sum)[j]);
  if (n >= SHMT_GRID_LANES)
    memcpy(out, made, sizeof made);
  else
    for (int64_t j = 0; j < n; j++) out[j] = made[j];
}

/* Weighted sums of many positions of a plane. */
ALWAYS_INLINE void FN(sum_plane)(const FN(stretch)* corners, int n, const T* image, int64_t many, T* out) {
  for (int64_t i = 0; i < many; i += SHMT_GRID_LANES) {
    FN(some) sum = {0};
    for (int k = 0; k < n; k++) {
      FN(some) x;
      FN(gather)(image, corners->at[k] + i, &x);
      sum += *(const FN(some)*)(const void*)(corners->weight[k] + i) *
             (FN(some))((FN(flags))x & *(const FN(flags)*)(const void*)(corners->keep[k] + i));
    }
    FN(put)(&sum, many - i, out + i);
  }
}

/* Element j of vector i goes to element i of vector j. */
ALWAYS_INLINE void FN(turn)(FN(some) x[SHMT_GRID_LANES]) {
#if SHMT_ISA_LEVEL >= 1
  if (sizeof(ACC) == sizeof(float)) {
    typedef FN(flags) order;
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
    return;
  }
#endif
  ACC made[SHMT_GRID_LANES][SHMT_GRID_LANES];
  for (int i = 0; i < SHMT_GRID_LANES; i++)
    for (int j = 0; j < SHMT_GRID_LANES; j++) made[j][i] = x[i][j];
  memcpy(x, made, sizeof made);
}

/* The same of SHMT_GRID_LANES planes, whose elements are neighbours. */
ALWAYS_INLINE void FN(sum_pixels)(const FN(stretch)* corners, int n, const T* image, int64_t many, T* out, int64_t plane) {
  for (int64_t i = 0; i < many; i += SHMT_GRID_LANES) {
    FN(some) sum[SHMT_GRID_LANES];
#pragma GCC unroll 8
    for (int64_t j = 0; j < SHMT_GRID_LANES; j++) {
      sum[j] = (FN(some)){0};
      for (int k = 0; k < n; k++) {
        const T* at = image + corners->at[k][i + j];
#define PIXEL(J) (ACC) SHMT_LOAD(at[J])
        const FN(some) x = EIGHT(PIXEL);
#undef PIXEL
        sum[j] += corners->weight[k][i + j] * (FN(some))((FN(flags))x & corners->keep[k][i + j]);
      }
    }
    FN(turn)(sum);
#pragma GCC unroll 8
    for (int j = 0; j < SHMT_GRID_LANES; j++) FN(put)(&sum[j], many - i, out + j * plane + i);
  }
}
#undef EIGHT

/* All channels at some positions of which the first is out's; n: the number of corners. */
ALWAYS_INLINE void FN(sum_channels)(const FN(stretch)* corners, int n, const shmt__grid_shape* s, const T* image,
                                    int64_t many, T* out) {
  const int64_t plane = s->views[0].channel, step = s->views[1].channel;
  int64_t c = 0;

  for (; step == 1 && c + SHMT_GRID_LANES <= s->channels; c += SHMT_GRID_LANES)
    FN(sum_pixels)(corners, n, image + c, many, out + c * plane, plane);
  for (; c < s->channels; c++) FN(sum_plane)(corners, n, image + c * step, many, out + c * plane);
}

/* Batch entry b position by position: for images whose places do not fit 32 bits. */
static void FN(sample_far)(char* const* data, const shmt__grid_shape* s, int64_t b) {
  const shmt__grid_view* v = s->views;
  const T* image = SHMT_LOOP(operand)(data, s, 1, b, NULL);

  EACH_POSITION(s, at) {
    SHMT_LOOP(neighbours) sets[3];
    SHMT_LOOP(corner) corners[SHMT_GRID_CORNERS];
    int64_t offsets[SHMT_GRID_CORNERS];
    const int64_t place = (at[0] * s->out[1] + at[1]) * s->out[2] + at[2];
    T* out = SHMT_LOOP(operand)(data, s, 0, b, NULL) + place;
    SHMT_LOOP(locate)(s, SHMT_LOOP(operand)(data, s, 2, b, at), v[2].channel, sets);
    const int many = SHMT_LOOP(find_corners)(sets, false, NULL, corners);
    SHMT_LOOP(find_offsets)(&v[1], corners, many, offsets);
    for (int64_t c = 0; c < s->channels; c++) {
      ACC sum = 0;
      for (int k = 0; k < many; k++) sum += corners[k].weight * (ACC)SHMT_LOAD(image[c * v[1].channel + offsets[k]]);
      out[c * v[0].channel] = SHMT_STORE((C)sum);
    }
  }
}

static bool FN(is_far)(const shmt__grid_shape* s) {
  int64_t last = 0;

  for (int d = 0; d < 3; d++) {
    if (s->in[d] > INT32_MAX || s->views[1].at[d] > INT32_MAX) return true;
    last += (s->in[d] - 1) * s->views[1].at[d];
    if (last > INT32_MAX) return true;
  }
  return false;
}

/* data: out, whose positions are dense, image, grid. */
void SHMT_LOOP(grid_sample)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__grid_shape* s = ctx;
  const int64_t positions = s->out[0] * s->out[1] * s->out[2];
  const bool is_far = FN(is_far)(s);

  (void)strides;
  for (int64_t b = 0; b < n; b++) {
    if (is_far) {
      FN(sample_far)(data, s, b);
      continue;
    }
    for (int64_t first = 0; first < positions; first += SHMT_GRID_STRETCH) {
      const int64_t many = positions - first < SHMT_GRID_STRETCH ? positions - first : SHMT_GRID_STRETCH;
      T* out = SHMT_LOOP(operand)(data, s, 0, b, NULL) + first;
      const T* image = SHMT_LOOP(operand)(data, s, 1, b, NULL);
      FN(stretch) corners;
      FN(find_stretch)(s, SHMT_LOOP(operand)(data, s, 2, b, NULL), first, many, &corners);
      if (corners.n == 1)
        FN(sum_channels)(&corners, 1, s, image, many, out);
      else if (corners.n == 4)
        FN(sum_channels)(&corners, 4, s, image, many, out);
      else
        FN(sum_channels)(&corners, corners.n, s, image, many, out);
    }
  }
}

/* data: gradients of image (zeros so far) and grid, each NULL if not wanted; gradient of out, image, grid. */
void SHMT_LOOP(grid_sample_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__grid_shape* s = ctx;
  const shmt__grid_view* v = s->views;

  (void)strides;
  for (int64_t b = 0; b < n; b++)
    EACH_POSITION(s, at) {
      SHMT_LOOP(neighbours) sets[3];
      SHMT_LOOP(corner) corners[SHMT_GRID_CORNERS];
      int64_t offsets[SHMT_GRID_CORNERS], to[SHMT_GRID_CORNERS];
      ACC slopes[3] = {0, 0, 0};
      T* image_grad = SHMT_LOOP(operand)(data, s, 0, b, NULL);
      T* grid_grad = SHMT_LOOP(operand)(data, s, 1, b, at);
      const T* grad = SHMT_LOOP(operand)(data, s, 2, b, at);
      const T* image = SHMT_LOOP(operand)(data, s, 3, b, NULL);
      SHMT_LOOP(locate)(s, SHMT_LOOP(operand)(data, s, 4, b, at), v[4].channel, sets);
      const int many = SHMT_LOOP(find_corners)(sets, true, NULL, corners);
      SHMT_LOOP(find_offsets)(&v[0], corners, many, to);
      SHMT_LOOP(find_offsets)(&v[3], corners, many, offsets);
      for (int64_t c = 0; c < s->channels; c++) {
        const ACC g = (ACC)SHMT_LOAD(grad[c * v[2].channel]);
        for (int k = 0; image_grad && k < many; k++) {
          T* one = &image_grad[c * v[0].channel + to[k]];
          *one = SHMT_STORE((C)((ACC)SHMT_LOAD(*one) + corners[k].weight * g));
        }
        for (int k = 0; grid_grad && k < many; k++) {
          const ACC x = g * (ACC)SHMT_LOAD(image[c * v[3].channel + offsets[k]]);
          for (int d = 0; d < 3; d++) slopes[d] += x * corners[k].first[d];
        }
      }
      for (int d = 0; grid_grad && d < s->n; d++) grid_grad[d * v[1].channel] = SHMT_STORE((C)slopes[d]);
    }
}

/* data: gradients of the gradient of out, of image (zeros so far) and of grid, each NULL if not wanted; those of the
 * gradients of image and grid, each NULL if it is zero; gradient of out, image, grid. */
void SHMT_LOOP(grid_sample_second)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__grid_shape* s = ctx;
  const shmt__grid_view* v = s->views;

  (void)strides;
  for (int64_t b = 0; b < n; b++)
    EACH_POSITION(s, at) {
      SHMT_LOOP(neighbours) sets[3];
      SHMT_LOOP(corner) corners[SHMT_GRID_CORNERS];
      ACC along[3] = {0, 0, 0}, sums[3] = {0, 0, 0};
      T* to_grad = SHMT_LOOP(operand)(data, s, 0, b, at);
      T* to_image = SHMT_LOOP(operand)(data, s, 1, b, NULL);
      T* to_grid = SHMT_LOOP(operand)(data, s, 2, b, at);
      const T* a = SHMT_LOOP(operand)(data, s, 3, b, NULL);
      const T* u = SHMT_LOOP(operand)(data, s, 4, b, at);
      const T* grad = SHMT_LOOP(operand)(data, s, 5, b, at);
      const T* image = SHMT_LOOP(operand)(data, s, 6, b, NULL);
      for (int d = 0; u && d < s->n; d++) along[d] = (ACC)SHMT_LOAD(u[d * v[4].channel]);
      SHMT_LOOP(locate)(s, SHMT_LOOP(operand)(data, s, 7, b, at), v[7].channel, sets);
      const int many = SHMT_LOOP(find_corners)(sets, true, along, corners);
      for (int64_t c = 0; c < s->channels; c++) {
        const ACC g = (ACC)SHMT_LOAD(grad[c * v[5].channel]);
        ACC sum = 0;
        for (int i = 0; i < many; i++) {
          const SHMT_LOOP(corner)* k = &corners[i];
          const ACC x = (ACC)SHMT_LOAD(image[c * v[6].channel + SHMT_LOOP(offset_of)(&v[6], k->at)]);
          const ACC w = a ? (ACC)SHMT_LOAD(a[c * v[3].channel + SHMT_LOOP(offset_of)(&v[3], k->at)]) : 0;
          sum += k->weight * w + k->along * x;
          for (int d = 0; d < s->n; d++) sums[d] += g * (k->first[d] * w + k->second[d] * x);
          if (to_image) {
            T* one = &to_image[c * v[1].channel + SHMT_LOOP(offset_of)(&v[1], k->at)];
            *one = SHMT_STORE((C)((ACC)SHMT_LOAD(*one) + k->along * g));
          }
        }
        if (to_grad) to_grad[c * v[0].channel] = SHMT_STORE((C)sum);
      }
      for (int d = 0; to_grid && d < s->n; d++) to_grid[d * v[2].channel] = SHMT_STORE((C)sums[d]);
    }
}

#undef EACH_POSITION
#undef ALWAYS_INLINE
