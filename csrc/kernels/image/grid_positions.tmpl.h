/* kernels/image/grid_positions.tmpl.h -- the neighbours of positions and their weights, calculated in R. Part of
 * grid.h.
 *
 * A position has up to four neighbours along a dim, each with its weight, and the first and second derivative of the
 * weight by the coordinate.
 */

/* The neighbours along one dim; index -1: outside the image, counts as zero. */
typedef struct OF(neighbours) {
  int n;
  int64_t at[4];
  R weight[4], slope[4], curve[4];
} OF(neighbours);

/* Clamp x to the image. A NaN becomes the first element of an image and the last of a volume, as in torch. */
static inline R OF(clip)(R x, int64_t size, bool is_volume, R* slope) {
  if (x <= 0 || (x != x && !is_volume)) {
    *slope = 0;
    return 0;
  }
  if (!(x < (R)(size - 1))) {
    *slope = 0;
    return (R)(size - 1);
  }
  return x;
}

/* In R itself: vectors have instructions for these. */
static inline R OF(floor)(R x) { return sizeof(R) == sizeof(float) ? (R)floorf((float)x) : (R)floor((double)x); }
static inline R OF(round)(R x) {
  return sizeof(R) == sizeof(float) ? (R)nearbyintf((float)x) : (R)nearbyint((double)x);
}

/* Reflect x at the centers (align) or the edges of the outermost elements until it is inside. */
static inline R OF(reflect)(R x, int64_t size, bool align, R* slope) {
  const R low = align ? 0 : (R)-0.5, span = (R)(align ? size - 1 : size);

  if (span == 0) {
    *slope = 0;
    return 0;
  }
  x -= low;
  if (x < 0) {
    x = -x;
    *slope = -*slope;
  }
  /* Mostly without a call of fmod(). */
  const R extra = x < span ? x : x < 2 * span ? x - span : (R)fmod((double)x, (double)span);
  const R flips = OF(floor)(x / span);
  if (2 * OF(floor)(flips / 2) == flips) return extra + low;
  *slope = -*slope;
  return span - extra + low;
}

static inline R OF(bring_inside)(const shmt__grid_sample_args* s, R x, int64_t size, R* slope) {
  if (s->padding == SHMT_GRID_REFLECT) x = OF(reflect)(x, size, s->align_corners, slope);
  return s->padding == SHMT_GRID_ZEROS ? x : OF(clip)(x, size, s->n == 3, slope);
}

/* A whole number as an index; -1 where it is outside. */
static inline int64_t OF(index_of)(R x, int64_t size) {
  return x >= 0 && x < (R)size ? (int64_t)x : -1;
}

/* Cubic convolution with a = -0.75 at distance t behind the second of four neighbours. */
static inline void OF(cubic)(R t, R* w, R* slope, R* curve) {
  const R a = (R)-0.75;
  const R d[4] = {t + 1, t, 1 - t, 2 - t};

  for (int k = 0; k < 4; k++) {
    const R x = d[k], sign = k < 2 ? (R)1 : (R)-1;
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

static inline void OF(find_neighbours)(const shmt__grid_sample_args* s, R given, int64_t size,
                                              OF(neighbours)* out) {
  R slope = (R)(s->align_corners ? size - 1 : size) / 2;
  R x = s->align_corners ? (given + 1) / 2 * (R)(size - 1) : ((given + 1) * (R)size - 1) / 2;

  if (s->mode == SHMT_GRID_CUBIC) {
    const R base = OF(floor)(x);
    out->n = 4;
    OF(cubic)(x - base, out->weight, out->slope, out->curve);
    for (int k = 0; k < 4; k++) {
      R unused = 1;
      out->at[k] = OF(index_of)(OF(bring_inside)(s, base + (R)(k - 1), size, &unused), size);
      out->slope[k] *= slope;
      out->curve[k] *= slope * slope;
    }
    return;
  }
  x = OF(bring_inside)(s, x, size, &slope);
  if (s->mode == SHMT_GRID_NEAREST) {
    out->n = 1;
    out->at[0] = OF(index_of)(OF(round)(x), size);
    out->weight[0] = 1;
    out->slope[0] = out->curve[0] = 0;
    return;
  }
  const R base = OF(floor)(x);
  out->n = 2;
  out->at[0] = OF(index_of)(base, size);
  out->at[1] = OF(index_of)(base + 1, size);
  out->weight[0] = base + 1 - x;
  out->weight[1] = x - base;
  out->slope[0] = -slope;
  out->slope[1] = slope;
  out->curve[0] = out->curve[1] = 0;
}

/* A corner: one neighbour of each dim. weight; first: its derivatives; along, second: derivatives of these along u. */
typedef struct OF(corner) {
  int64_t at[3]; /* depth, height, width */
  R weight, first[3], along, second[3];
} OF(corner);

/* The corners inside the image; returns how many. slopes: with first derivatives; u not NULL: with the others, too. */
static inline int OF(find_corners)(const OF(neighbours) sets[3], bool slopes, const R* u,
                                          OF(corner)* out) {
  int n = 0;

  for (int kd = 0; kd < sets[2].n; kd++)
    for (int kh = 0; kh < sets[1].n; kh++)
      for (int kw = 0; kw < sets[0].n; kw++) {
        OF(corner)* made = &out[n];
        const R w[3] = {sets[0].weight[kw], sets[1].weight[kh], sets[2].weight[kd]};
        if (sets[2].at[kd] < 0 || sets[1].at[kh] < 0 || sets[0].at[kw] < 0) continue;
        n++;
        made->at[0] = sets[2].at[kd];
        made->at[1] = sets[1].at[kh];
        made->at[2] = sets[0].at[kw];
        made->weight = w[2] * w[1] * w[0];
        if (!slopes) continue;
        const R s[3] = {sets[0].slope[kw], sets[1].slope[kh], sets[2].slope[kd]};
        for (int d = 0; d < 3; d++) made->first[d] = s[d] * w[(d + 1) % 3] * w[(d + 2) % 3];
        if (!u) continue;
        const R c[3] = {sets[0].curve[kw], sets[1].curve[kh], sets[2].curve[kd]};
        made->along = 0;
        for (int d = 0; d < 3; d++) {
          const int e = (d + 1) % 3, f = (d + 2) % 3;
          made->along += u[d] * made->first[d];
          made->second[d] = u[d] * c[d] * w[e] * w[f] + u[e] * s[d] * s[e] * w[f] + u[f] * s[d] * s[f] * w[e];
        }
      }
  return n;
}

/* --- many positions at a time ------------------------------------------------------------------- */

/* A mask: all bits or none. */
typedef __typeof__(_Generic((R)0, float: (int32_t)0, default: (int64_t)0)) OF(flag);

/* The neighbours of some positions along one dim: their offsets in the image, their weights, and whether they are
 * inside. Those outside have offset 0. */
typedef struct OF(axis) {
  int32_t at[4][SHMT_GRID_BLOCK];
  _Alignas(SHMT_GRID_LANES * 4) R weight[4][SHMT_GRID_BLOCK];
  _Alignas(SHMT_GRID_LANES * 4) OF(flag) keep[4][SHMT_GRID_BLOCK];
} OF(axis);

/* The same for the corners of all dims, as vectors read them. */
typedef struct OF(block) {
  int n;
  _Alignas(SHMT_GRID_LANES * 4) int32_t at[SHMT_GRID_CORNERS][SHMT_GRID_BLOCK];
  _Alignas(SHMT_GRID_LANES * 4) R weight[SHMT_GRID_CORNERS][SHMT_GRID_BLOCK];
  _Alignas(SHMT_GRID_LANES * 4) OF(flag) keep[SHMT_GRID_CORNERS][SHMT_GRID_BLOCK];
} OF(block);

static inline void OF(bring_all_inside)(const shmt__grid_sample_args* s, R* x, int64_t n, int64_t size) {
  const R last = (R)(size - 1);

  if (s->padding == SHMT_GRID_ZEROS) return;
  for (int64_t i = 0; s->padding == SHMT_GRID_REFLECT && i < n; i++) {
    R unused = 1;
    x[i] = OF(reflect)(x[i], size, s->align_corners, &unused);
  }
  if (s->n == 3)
    for (int64_t i = 0; i < n; i++) {
      const R low = x[i] < 0 ? 0 : x[i];
      x[i] = low < last ? low : last;
    }
  else
    for (int64_t i = 0; i < n; i++) {
      const R low = x[i] > 0 ? x[i] : 0;
      x[i] = low < last ? low : last;
    }
}

/* Set neighbour k, whose indices are x; elements are `step` apart. */
static inline void OF(find_indices)(OF(axis)* axis, int k, const R* x, int64_t n, int64_t size, int64_t step) {
  int32_t* at = axis->at[k];
  OF(flag)* keep = axis->keep[k];

  for (int64_t i = 0; i < n; i++) keep[i] = x[i] >= 0 && x[i] < (R)size ? -1 : 0;
  for (int64_t i = 0; i < n; i++) at[i] = (int32_t)(keep[i] ? x[i] : 0) * (int32_t)step;
}

/* Find the neighbours along one dim. x: coordinates, which are overwritten. */
static inline void OF(find_axis)(const shmt__grid_sample_args* s, R* x, int64_t n, int64_t size, int64_t step,
                                 OF(axis) * axis) {
  R base[SHMT_GRID_BLOCK], position[SHMT_GRID_BLOCK];

  if (s->align_corners)
    for (int64_t i = 0; i < n; i++) x[i] = (x[i] + 1) / 2 * (R)(size - 1);
  else
    for (int64_t i = 0; i < n; i++) x[i] = ((x[i] + 1) * (R)size - 1) / 2;
  if (s->mode != SHMT_GRID_CUBIC) OF(bring_all_inside)(s, x, n, size);
  if (s->mode == SHMT_GRID_NEAREST) {
    for (int64_t i = 0; i < n; i++) x[i] = OF(round)(x[i]);
    for (int64_t i = 0; i < n; i++) axis->weight[0][i] = 1;
    OF(find_indices)(axis, 0, x, n, size, step);
    return;
  }
  for (int64_t i = 0; i < n; i++) base[i] = OF(floor)(x[i]);
  const bool cubic = s->mode == SHMT_GRID_CUBIC;
  for (int64_t i = 0; !cubic && i < n; i++) {
    axis->weight[0][i] = base[i] + 1 - x[i];
    axis->weight[1][i] = x[i] - base[i];
  }
  for (int64_t i = 0; cubic && i < n; i++) {
    R w[4], slope[4], curve[4];
    OF(cubic)(x[i] - base[i], w, slope, curve);
    for (int k = 0; k < 4; k++) axis->weight[k][i] = w[k];
  }
  for (int k = 0; k < (cubic ? 4 : 2); k++) {
    const R more = (R)(cubic ? k - 1 : k);
    for (int64_t i = 0; i < n; i++) position[i] = base[i] + more;
    if (cubic) OF(bring_all_inside)(s, position, n, size);
    OF(find_indices)(axis, k, position, n, size, step);
  }
}

/* Find all corners of n positions, and of others up to a whole number of vectors; x is overwritten. Corners outside
 * keep their weight in images, and have weight 0 in volumes. So at a NaN position an image gives NaN and a volume 0, as
 * in torch. */
static inline void OF(find_block)(const shmt__grid_sample_args* s, const shmt__grid_view* image,
                                  R x[3][SHMT_GRID_BLOCK], int64_t n, OF(block) * out) {
  const int many = s->mode == SHMT_GRID_CUBIC ? 4 : s->mode == SHMT_GRID_LINEAR ? 2 : 1;
  OF(axis) axes[3];

  for (; n % SHMT_GRID_LANES; n++) /* any position inside */
    for (int d = 0; d < s->n; d++) x[d][n] = 0;
  for (int d = 0; d < s->n; d++) OF(find_axis)(s, x[d], n, s->in[2 - d], image->at[2 - d], &axes[d]);
  out->n = 0;
  for (int kd = 0; kd < (s->n == 3 ? many : 1); kd++)
    for (int kh = 0; kh < many; kh++)
      for (int kw = 0; kw < many; kw++) {
        const int k = out->n++;
        for (int64_t i = 0; i < n; i++) out->at[k][i] = axes[1].at[kh][i] + axes[0].at[kw][i];
        for (int64_t i = 0; i < n; i++) out->keep[k][i] = axes[1].keep[kh][i] & axes[0].keep[kw][i];
        if (s->n == 2) {
          for (int64_t i = 0; i < n; i++) out->weight[k][i] = axes[1].weight[kh][i] * axes[0].weight[kw][i];
          continue;
        }
        for (int64_t i = 0; i < n; i++) out->at[k][i] += axes[2].at[kd][i];
        for (int64_t i = 0; i < n; i++) out->keep[k][i] &= axes[2].keep[kd][i];
        for (int64_t i = 0; i < n; i++) {
          const R weight = axes[2].weight[kd][i] * axes[1].weight[kh][i] * axes[0].weight[kw][i];
          out->weight[k][i] = out->keep[k][i] ? weight : 0;
        }
      }
}
