/* ops/batch_norm_columns.c -- batch norm where a channel's planes are short, one element or a few.
 *
 * The input is a matrix, a row a sample and `plane` columns a channel; its columns are added up in lanes, and the
 * columns' sums to the channels'. A loop over planes would start three times for every element.
 */
#include "ops/batch_norm.h"

#include "generated/loops.h"

#include <string.h>

enum {
  SHORT_PLANE = 128, /* elements; longer planes are better walked one by one */
  COLUMNS = 512,    /* whose numbers are kept at a time */
};

/* Columns [first, first + n), the channels from `channel` on. */
typedef struct block {
  const shmt__channels* c;
  int64_t first, n, channel, n_channels;
} block;

bool shmt__batch_norm_has_columns(const shmt__channels* c) { return c->plane > 0 && c->plane < SHORT_PLANE; }

static block block_of(const shmt__channels* c, int64_t channel, int64_t end) {
  const int64_t most = COLUMNS / c->plane, n = end - channel < most ? end - channel : most;

  return (block){c, channel * c->plane, n * c->plane, channel, n};
}

static char* column_data(const block* b, const shmt_tensor* t) {
  return t ? (char*)shmt__tensor_data(t) + b->first * shmt__tensor_item_bytes(t) : NULL;
}

static void run(const block* b, int row, char* const* data) {
  const int64_t pitch = b->c->n_channels * b->c->plane * shmt__tensor_item_bytes(b->c->x);
  const int64_t strides[3] = {pitch, pitch, pitch};

  shmt__loops[row][b->c->x->dtype](data, strides, b->n, &b->c->n);
}

/* The columns' sums. */
static void sum_columns(const block* b, int row, shmt_tensor* x, shmt_tensor* grad, const double* means, double* sums) {
  char* const data[4] = {(char*)sums, column_data(b, x), column_data(b, grad), (char*)(uintptr_t)means};

  memset(sums, 0, (size_t)b->n * sizeof *sums);
  run(b, row, data);
}

/* The sum of the block's k-th channel. */
static double channel_sum(const block* b, const double* sums, int64_t k) {
  double total = 0;

  for (int64_t i = 0; i < b->c->plane; i++) total += sums[k * b->c->plane + i];
  return total;
}

static void spread(const block* b, double* columns, int64_t k, double value) {
  for (int64_t i = 0; i < b->c->plane; i++) columns[k * b->c->plane + i] = value;
}

static void forward_block(const block* b) {
  const shmt__channels* c = b->c;
  const double count = (double)(c->n * c->plane);
  double sums[COLUMNS], means[COLUMNS], scales[COLUMNS], shifts[COLUMNS];

  if (c->training) {
    sum_columns(b, SHMT_LOOP_columns_sum, c->x, NULL, NULL, sums);
    for (int64_t k = 0; k < b->n_channels; k++) spread(b, means, k, channel_sum(b, sums, k) / count);
    sum_columns(b, SHMT_LOOP_columns_square, c->x, NULL, means, sums);
  }
  for (int64_t k = 0; k < b->n_channels; k++) {
    const double mean = c->training ? means[k * c->plane] : 0, square = c->training ? channel_sum(b, sums, k) : 0;
    const shmt__norm_shape shape = shmt__batch_norm_settle(c, b->channel + k, mean, square);
    spread(b, scales, k, shape.scale);
    spread(b, shifts, k, shape.shift);
  }
  char* const data[4] = {column_data(b, c->out), column_data(b, c->x), (char*)scales, (char*)shifts};
  run(b, SHMT_LOOP_columns_affine, data);
}

static void backward_block(const block* b) {
  const shmt__channels* c = b->c;
  double sums[COLUMNS], products[COLUMNS], means[COLUMNS], scales[COLUMNS], shifts[COLUMNS], slopes[COLUMNS];

  for (int64_t k = 0; k < b->n_channels; k++) spread(b, means, k, shmt__batch_norm_mean(c, b->channel + k));
  sum_columns(b, SHMT_LOOP_columns_sum, c->grad, NULL, NULL, sums);
  sum_columns(b, SHMT_LOOP_columns_product, c->x, c->grad, means, products);
  for (int64_t k = 0; k < b->n_channels; k++) {
    const shmt__norm_shape shape =
        shmt__batch_norm_settle_backward(c, b->channel + k, channel_sum(b, sums, k), channel_sum(b, products, k));
    spread(b, scales, k, shape.scale);
    spread(b, shifts, k, shape.shift);
    spread(b, slopes, k, shape.slope);
  }
  if (!c->out) return;
  char* const data[7] = {column_data(b, c->out), column_data(b, c->x), column_data(b, c->grad), (char*)scales,
                         (char*)shifts,          (char*)slopes,        (char*)means};
  run(b, SHMT_LOOP_columns_backward, data);
}

void shmt__batch_norm_columns(void* ctx, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end;) {
    const block b = block_of(ctx, k, end);
    forward_block(&b);
    k += b.n_channels;
  }
}

void shmt__batch_norm_columns_backward(void* ctx, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end;) {
    const block b = block_of(ctx, k, end);
    backward_block(&b);
    k += b.n_channels;
  }
}
