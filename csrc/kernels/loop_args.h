/* kernels/loop_args.h -- argument structs that loops get as ctx, when they need more than pointers, strides and n. */
#ifndef SHMT_KERNELS_LOOP_ARGS_H
#define SHMT_KERNELS_LOOP_ARGS_H

#include "base/overflow.h"

#include <stdbool.h>
#include <stdint.h>

/* c = alpha * a @ b + beta * c. Strides are in elements; alpha and beta point to one value of the accumulation type. */
typedef struct shmt__gemm_args {
  int64_t n, k;
  int64_t a_row, a_column, b_row, b_column, c_row, c_column;
  const void* alpha;
  const void* beta;
  bool beta_is_zero;
} shmt__gemm_args;

typedef struct shmt__gemm_scalar {
  double re, im;
  int64_t integer;
} shmt__gemm_scalar;

/* Distances from some rows to many other rows; the others are stored transposed. */
typedef struct shmt__distance_args {
  int64_t length;        /* of a row */
  int64_t others, pitch; /* number of other rows; elements from one coordinate of theirs to the next */
  int norm;              /* 0, 1, 2; 3: the largest difference */
} shmt__distance_args;

/* An index that was out of range. Loops cannot fail, so they report it here. */
typedef struct shmt__bad_index {
  int64_t value;
  bool found;
} shmt__bad_index;

/* Arguments of gather and scatter loops: how an index becomes an address. */
typedef struct shmt__index_args {
  int64_t stride; /* bytes between neighbours along the indexed dim */
  int64_t size;   /* of that dim */
  bool wrap;      /* a negative index counts from the end */
  shmt__bad_index* bad;
} shmt__index_args;

/* The offset of index i in bytes. Out of range: 0, reported in `bad`. */
static inline int64_t shmt__index_offset(const shmt__index_args* s, int64_t i, bool* ok) {
  const int64_t given = i;

  if (i < 0 && s->wrap) i += s->size;
  *ok = (uint64_t)i < (uint64_t)s->size;
  if (__builtin_expect(!*ok, 0)) {
    __atomic_store_n(&s->bad->value, given, __ATOMIC_RELAXED);
    __atomic_store_n(&s->bad->found, true, __ATOMIC_RELAXED);
    return 0;
  }
  return i * s->stride;
}

/* Softmax along a dim of size `length`. For columns, `step` is the stride of that dim in bytes. */
typedef struct shmt__softmax_args {
  int64_t length, step;
} shmt__softmax_args;

/* Negative log-likelihood: the classes of a sample, and where the sums over samples are stored. */
typedef struct shmt__nll_args {
  int64_t n_classes, class_step, ignore_index;
  double scale;          /* backward: of every gradient */
  double* sums;          /* forward: losses, weights */
  shmt__bad_index* bad;  /* a target that is no class */
} shmt__nll_args;

/* Uniform numbers in [from, to). For normal numbers: the mean and the standard deviation. */
typedef struct shmt__uniform_args {
  double from, to;
} shmt__uniform_args;

/* base + word % range; range 0: the whole word. */
typedef struct shmt__randint_args {
  uint64_t range;
  int64_t base;
  bool wide; /* a number takes two words */
} shmt__randint_args;

/* `value` with probability limit / 2^53. */
typedef struct shmt__bernoulli_args {
  uint64_t limit;
  double value;
} shmt__bernoulli_args;

/* A convolution of one image; depth, height, width. */
typedef struct shmt__conv_shape {
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  int64_t col_row; /* elements between rows of the column matrix */
  int64_t step[3]; /* elements of the image between neighbouring channels, planes, rows */
} shmt__conv_shape;

/* Set the steps of a dense image; they wrap for one that does not fit into memory. */
static inline void shmt__conv_shape_dense(shmt__conv_shape* s) {
  s->step[2] = s->in[2];
  s->step[1] = shmt__wrap_mul_i64(s->in[1], s->step[2]);
  s->step[0] = shmt__wrap_mul_i64(s->in[0], s->step[1]);
}
/* Elements, padding included, that n neighbouring outputs read along a dim. */
static inline int64_t shmt__conv_reach(const shmt__conv_shape* s, int d, int64_t n) {
  return (n - 1) * s->stride[d] + (s->kernel[d] - 1) * s->dilation[d] + 1;
}

/* Flips a weight: filters of a group, elements of a kernel, steps in elements. */
typedef struct shmt__conv_flip_args {
  int64_t filters, size;
  int64_t filter_step, channel_step, position_step;
} shmt__conv_flip_args;

/* Elements of a padded row, with room for a last vector of outputs beyond the end. */
enum { SHMT_CONV_DEPTHWISE_LANES = 16 };
static inline int64_t shmt__conv_depthwise_row(const shmt__conv_shape* s) {
  const int64_t outputs =
      (s->out[2] + SHMT_CONV_DEPTHWISE_LANES - 1) / SHMT_CONV_DEPTHWISE_LANES * SHMT_CONV_DEPTHWISE_LANES;
  const int64_t reached = shmt__conv_reach(s, 2, outputs), padded = s->in[2] + s->padding[2];
  return padded > reached ? padded : reached;
}
static inline int64_t shmt__conv_depthwise_scratch(const shmt__conv_shape* s) {
  const int64_t reached = shmt__conv_reach(s, 1, s->out[1]), padded = s->in[1] + s->padding[1];
  return (padded > reached ? padded : reached) * shmt__conv_depthwise_row(s);
}

/* Pooling windows over planes; depth, height, width. */
typedef struct shmt__pool_args {
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  bool count_padding;
  int64_t divisor; /* of an average; 0: the number of elements */
  int n;           /* fractional pooling: how many dims have random samples */
} shmt__pool_args;

/* A row of outputs of an NHWC image. */
typedef struct shmt__pool_row_args {
  const shmt__pool_args* shape;
  bool is_adaptive; /* windows are those of adaptive pooling */
  int64_t channels;
  int64_t od, oh; /* which row */
} shmt__pool_row_args;

/* Resizing along one dim: which input slices an output slice is a weighted sum of. */
typedef struct shmt__resample_args {
  int64_t in, out, inner, taps; /* slices, elements of a slice, the most neighbours of a slice */
  int64_t origin;               /* the first slice of the input in memory */
  const int64_t* first;         /* (out): the first neighbour */
  const int64_t* count;         /* (out): how many neighbours */
  const void* weights;          /* (out, taps), of the type of the sums */
  const int16_t* fixed;         /* (out, taps): the weights times 2^precision, for bytes */
  int precision;
} shmt__resample_args;

/* For the backward of gather by a table: element p was gathered to list[starts[p]], ..., list[starts[p + 1] - 1]. */
typedef struct shmt__table_gather_args {
  const int64_t *starts, *list;
  int64_t inner; /* contiguous numbers of an element: 1, or the channels of channels-last memory */
} shmt__table_gather_args;

/* A block of attention scores. */
typedef struct shmt__attention_args {
  int64_t width, values;         /* keys of the block; elements of a value */
  int64_t visible; /* causal: keys of the block that the first query attends to; each next query, one more */
  int64_t mask_row, mask_column; /* bytes */
  int64_t depth;                 /* elements of a query and of a key, where the loop multiplies them */
  double scale;
  bool causal, mask_is_bool;
} shmt__attention_args;

/* Steps of a tensor of images or of a grid, in elements: along the batch, the channels or coordinates, and depth,
 * height, width. */
typedef struct shmt__grid_view {
  int64_t batch, channel, at[3];
} shmt__grid_view;

/* grid_sample of n-dimensional images; depth, height, width. */
typedef struct shmt__grid_sample_args {
  int64_t in[3], out[3], channels;
  int n, mode, padding;
  bool align_corners;
  shmt__grid_view views[8]; /* of the loop's operands */
} shmt__grid_sample_args;

/* How the loops of normalization shift and scale a contiguous run of elements; each loop says which fields it reads. */
typedef struct shmt__norm_args {
  double mean, scale, shift, slope, weight;
  bool uncentred; /* RMS norm: the mean is not subtracted */
} shmt__norm_args;

typedef struct shmt__sort_args {
  bool descending;
  int64_t k;      /* of topk */
  bool is_signed; /* the elements are signed integers; set by kernels, which take them as unsigned ones */
} shmt__sort_args;

/* Keys of a long slice, distributed to buckets by one digit. */
typedef struct shmt__radix_args {
  uint64_t flip;  /* the bits of keys that are inverted: all (descending order), or none */
  uint64_t low;   /* the least key */
  int64_t first;  /* the index of the first key given */
  int64_t step;   /* bytes between neighbours in the slice */
  int shift;      /* the digit is (key - low) >> shift */
} shmt__radix_args;

typedef struct shmt__search_args {
  int64_t n_bounds;
  bool right;
} shmt__search_args;

#endif
