/* ops/normalization/batch_norm_columns.c -- batch norm of channels-last input, and of planes of one or a few elements.
 *
 * The input is a matrix with a row for each sample and `plane` columns for each channel. The columns are summed in
 * lanes, and then the sums of a channel's columns are added. A loop over planes would start three times for every few
 * elements.
 */
#include "ops/normalization/batch_norm.h"

#include "generated/loops.h"
#include "ops/normalization/columns.h"

#include <string.h>

enum {
  SHORT_PLANE = 128, /* elements; for longer planes the algorithm of planes is faster */
  PER_SAMPLE = 16,   /* and for few samples: a column's parameters would cost more than its elements */
  COLUMNS = SHMT_MAX_COLUMNS,
};

/* Columns [first, first + n), which are n_channels channels from `channel` on. */
typedef struct block {
  const shmt__batch_norm_args* c;
  int64_t first, n, channel, n_channels;
} block;

bool shmt__batch_norm_has_columns(const shmt__batch_norm_args* c) {
  return c->plane > 0 && c->plane < SHORT_PLANE && c->plane / PER_SAMPLE < c->n;
}

static block block_of(const shmt__batch_norm_args* c, int64_t channel, int64_t end) {
  const int64_t most = COLUMNS / c->plane, n = end - channel < most ? end - channel : most;

  return (block){c, channel * c->plane, n * c->plane, channel, n};
}

/* The part of a matrix that is the block's columns. */
static void find_columns(const block* b, const shmt__part* all, shmt__part* out) {
  const int d = b->c->n_dims;

  *out = *all;
  out->data += b->channel * all->strides[d];
  out->sizes[d] = b->n_channels;
}

/* Are rows dense and equally spaced? The distance, *pitch, may be 0. */
static bool have_pitch(const block* b, const shmt__part* p, int64_t* pitch) {
  bool found = false;
  int64_t step = 0;
  shmt__part row;

  *pitch = 0;
  shmt__part_inner(p, b->c->n_dims, &row);
  for (int d = b->c->n_dims - 1; d >= 0; d--) {
    if (p->sizes[d] == 1) continue;
    if (!found) *pitch = step = p->strides[d];
    if (p->strides[d] != step) return false;
    found = true;
    step *= p->sizes[d];
  }
  return shmt__part_is_dense(&row);
}

/* Runs a column loop from x (and grad) and the columns' parameters to out, or to the sums `totals`. Input that is not
 * in dense rows is packed, a few rows at a time. */
static void run_column_loop(const block* b, int row, double* totals, const shmt__part* x, const shmt__part* grad,
                            const double* const* params, int n_params) {
  const shmt__batch_norm_args* c = b->c;
  const shmt__part* const given[2] = {x, grad};
  const int64_t item = c->x.item, pitch = c->n_channels * c->plane * item;
  _Alignas(64) char room[2][SHMT_PACK_BYTES];
  shmt__part columns[2];
  int64_t pitches[2] = {0, 0};
  bool as_is = true;
  shmt__part_chunks cut;
  shmt__column_loop l = {.loop = row, .dtype = c->dtype, .is_sum = totals, .n = b->n, .n_params = n_params};

  for (int k = 0; k < 2; k++) {
    if (!given[k]) continue;
    find_columns(b, given[k], &columns[k]);
    if (!have_pitch(b, &columns[k], &pitches[k])) as_is = false;
  }
  shmt__part_chunks_init(&cut, &columns[0], as_is ? INT64_MAX : SHMT_PACK_BYTES);
  for (int64_t index = 0; index < cut.n; index++) {
    l.n_matrices = totals || grad ? 2 : 1; /* the affine loop takes no grad */
    l.strides[0] = pitch;
    for (int k = 0; k < l.n_matrices; k++) {
      shmt__part part;
      if (!given[k]) continue;
      const int64_t before = shmt__part_chunk(&cut, &columns[k], index, &part) / b->n;
      l.rows = shmt__part_numel(&part) / b->n;
      l.data[k + 1] = as_is ? columns[k].data : shmt__packed(&part, room[k]);
      l.strides[k + 1] = as_is ? pitches[k] : b->n * item;
      if (!totals) l.data[0] = (char*)shmt__tensor_data(c->out) + before * pitch + b->first * item;
    }
    if (totals) l.data[0] = (char*)totals;
    for (int k = 0; k < n_params; k++) l.data[l.n_matrices + 1 + k] = (char*)(uintptr_t)params[k];
    shmt__column_loop_run(&l);
  }
}

/* Runs a loop that sums each column. */
static void sum_columns(const block* b, int row, const shmt__part* x, const shmt__part* grad, const double* means,
                        double* sums) {
  memset(sums, 0, (size_t)b->n * sizeof *sums);
  run_column_loop(b, row, sums, x, grad, &means, 1);
}

/* The sum of the block's k-th channel. */
static double channel_sum(const block* b, const double* sums, int64_t k) {
  double total = 0;

  for (int64_t i = 0; i < b->c->plane; i++) total += sums[k * b->c->plane + i];
  return total;
}

/* Sets the parameter of all columns of the block's k-th channel. */
static void set_channel(const block* b, double* columns, int64_t k, double value) {
  for (int64_t i = 0; i < b->c->plane; i++) columns[k * b->c->plane + i] = value;
}

static void forward_block(const block* b) {
  const shmt__batch_norm_args* c = b->c;
  const double count = (double)(c->n * c->plane);
  double sums[COLUMNS], means[COLUMNS], scales[COLUMNS], shifts[COLUMNS];

  if (c->training) {
    sum_columns(b, SHMT_LOOP_columns_sum, &c->x, NULL, NULL, sums);
    for (int64_t k = 0; k < b->n_channels; k++) set_channel(b, means, k, channel_sum(b, sums, k) / count);
    sum_columns(b, SHMT_LOOP_columns_square, &c->x, NULL, means, sums);
  }
  for (int64_t k = 0; k < b->n_channels; k++) {
    const double mean = c->training ? means[k * c->plane] : 0, square = c->training ? channel_sum(b, sums, k) : 0;
    const shmt__norm_args shape = shmt__batch_norm_finish_statistics(c, b->channel + k, mean, square);
    set_channel(b, scales, k, shape.scale);
    set_channel(b, shifts, k, shape.shift);
  }
  run_column_loop(b, SHMT_LOOP_columns_affine, NULL, &c->x, NULL, (const double*[]){scales, shifts}, 2);
}

static void backward_block(const block* b) {
  const shmt__batch_norm_args* c = b->c;
  double sums[COLUMNS], products[COLUMNS], means[COLUMNS], scales[COLUMNS], shifts[COLUMNS], slopes[COLUMNS];

  for (int64_t k = 0; k < b->n_channels; k++) set_channel(b, means, k, shmt__batch_norm_mean(c, b->channel + k));
  sum_columns(b, SHMT_LOOP_columns_sum, &c->grad, NULL, NULL, sums);
  sum_columns(b, SHMT_LOOP_columns_product, &c->x, &c->grad, means, products);
  for (int64_t k = 0; k < b->n_channels; k++) {
    const shmt__norm_args shape =
        shmt__batch_norm_finish_gradients(c, b->channel + k, channel_sum(b, sums, k), channel_sum(b, products, k));
    set_channel(b, scales, k, shape.scale);
    set_channel(b, shifts, k, shape.shift);
    set_channel(b, slopes, k, shape.slope);
  }
  if (!c->out) return;
  if (!c->training) { /* the statistics are constants, so the gradient does not depend on the input, which may be NaN */
    run_column_loop(b, SHMT_LOOP_columns_affine, NULL, &c->grad, NULL, (const double*[]){scales, shifts}, 2);
    return;
  }
  run_column_loop(b, SHMT_LOOP_columns_backward, NULL, &c->x, &c->grad,
                  (const double*[]){scales, shifts, slopes, means}, 4);
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
