/* ops/conv/fold.c -- blocks that slide over images as columns, and the sum of such blocks. */
#include "base/overflow.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/dtype_names.h"

#include <inttypes.h>
#include <string.h>

typedef struct blocks {
  shmt__conv_shape shape;
  int64_t channels, rows, columns, batch; /* rows: channels times filter elements */
} blocks;

/* Fill everything that follows from the options and the image's height and width. */
static shmt_status find_blocks(const char* name, shmt_ints kernel, shmt_ints dilation, shmt_ints padding,
                               shmt_ints stride, int64_t height, int64_t width, blocks* b) {
  const int64_t sizes[2] = {height, width};
  const shmt_ints options[] = {kernel, dilation, padding, stride};
  static const char* const option_names[] = {"kernel_size", "dilation", "padding", "stride"};

  for (int k = 0; k < 4; k++)
    SHMT_REQUIRE(options[k].len == 2, SHMT_E_RUNTIME, "It is expected %s equals to 2, but got size %" PRId64,
                 option_names[k], options[k].len);
  b->shape = (shmt__conv_shape){{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 0, {0}};
  for (int d = 0; d < 2; d++) {
    const int64_t k = kernel.data[d], dil = dilation.data[d], pad = padding.data[d], step = stride.data[d];
    SHMT_REQUIRE(k > 0, SHMT_E_RUNTIME, "kernel size should be greater than zero, but got kernel_size: %" PRId64, k);
    SHMT_REQUIRE(dil > 0, SHMT_E_RUNTIME, "dilation should be greater than zero, but got dilation: %" PRId64, dil);
    SHMT_REQUIRE(pad >= 0, SHMT_E_RUNTIME, "padding should be non-negative, but got padding: %" PRId64, pad);
    SHMT_REQUIRE(step > 0, SHMT_E_RUNTIME, "stride should be greater than zero, but got stride: %" PRId64, step);
    SHMT_REQUIRE(k < INT32_MAX && dil < INT32_MAX && pad < INT32_MAX && step < INT32_MAX, SHMT_E_RUNTIME,
                 "%s(): an option is too large", name);
    SHMT_REQUIRE(sizes[d] < INT64_MAX / 4, SHMT_E_RUNTIME, "%s(): size %" PRId64 " is too large", name, sizes[d]);
    const int64_t room = sizes[d] + 2 * pad - dil * (k - 1) - 1;
    const int64_t out = room >= 0 ? room / step + 1 : 0;
    SHMT_REQUIRE(out >= 1, SHMT_E_RUNTIME,
                 "Given input with spatial size (%" PRId64 ", %" PRId64 "), kernel_size=(%" PRId64 ", %" PRId64
                 "), dilation=(%" PRId64 ", %" PRId64 "), padding=(%" PRId64 ", %" PRId64
                 "), calculated shape of the array of sliding blocks is smaller than one", height, width,
                 kernel.data[0], kernel.data[1], dilation.data[0], dilation.data[1], padding.data[0], padding.data[1]);
    b->shape.in[1 + d] = sizes[d];
    b->shape.out[1 + d] = out;
    b->shape.kernel[1 + d] = k;
    b->shape.dilation[1 + d] = dil;
    b->shape.padding[1 + d] = pad;
    b->shape.stride[1 + d] = step;
  }
  SHMT_REQUIRE(shmt__mul_i64(b->shape.out[1], b->shape.out[2], &b->columns), SHMT_E_RUNTIME,
               "%s(): %" PRId64 " x %" PRId64 " blocks are too many", name, b->shape.out[1], b->shape.out[2]);
  b->shape.col_row = b->columns;
  return SHMT_OK;
}

typedef struct walk {
  char *columns, *images;
  int64_t columns_step, images_step; /* bytes from batch entry to batch entry */
  shmt__loop loop;
  const blocks* b;
} walk;

static void run_batch(void* ctx, int64_t begin, int64_t end) {
  const walk* w = ctx;

  for (int64_t i = begin; i < end; i++) {
    char* data[2] = {w->columns + i * w->columns_step, w->images + i * w->images_step};
    w->loop(data, NULL, w->b->rows, &w->b->shape);
  }
}

static void run_fold_loop(int row, blocks* b, shmt_tensor* columns, shmt_tensor* images) {
  const int64_t item = shmt__tensor_item_bytes(columns);
  walk w = {shmt__tensor_data(columns), shmt__tensor_data(images), b->rows * b->columns * item,
            b->channels * b->shape.in[1] * b->shape.in[2] * item, shmt__loops[row][columns->dtype], b};

  shmt__conv_shape_dense(&b->shape);
  shmt__parallel_for(b->batch, 1, run_batch, &w);
}

/* Dims behind the batch are not empty. */
static bool is_filled(const shmt_tensor* t, int n) {
  bool filled = t->n_dims == n || t->n_dims == n + 1;

  for (int d = t->n_dims - n; filled && d < t->n_dims; d++) filled = t->sizes[d] > 0;
  return filled;
}

shmt_status shmt__im2col(shmt_tensor* self, shmt_ints kernel_size, shmt_ints dilation, shmt_ints padding,
                         shmt_ints stride, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  blocks b;
  int64_t sizes[3];

  SHMT_REQUIRE_LOOP(SHMT_LOOP_im2col, self->dtype, "im2col_out_cpu");
  SHMT_REFUSE_DTYPE(shmt__is_integral(self->dtype), self->dtype, "im2col_out_cpu");
  SHMT_REQUIRE(is_filled(self, 3), SHMT_E_RUNTIME,
               "im2col: Expected 3D or 4D (batch mode) tensor for input with possibly 0 batch size and non-zero "
               "dimensions for input, but got: %s", SHMT_SHAPE_TEXT(self));
  const int64_t* last = self->sizes + (self->n_dims - 3);
  SHMT_TRY(find_blocks("im2col", kernel_size, dilation, padding, stride, last[1], last[2], &b));
  b.channels = last[0];
  b.rows = b.channels * b.shape.kernel[1] * b.shape.kernel[2];
  b.batch = self->n_dims == 4 ? self->sizes[0] : 1;
  sizes[0] = b.batch;
  sizes[1] = b.rows;
  sizes[2] = b.columns;
  const int skip = self->n_dims == 4 ? 0 : 1;
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes + skip, 3 - skip}, self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT,
                              &result));
  if (!shmt__tensor_is_meta(self) && result->numel > 0) {
    SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
    run_fold_loop(SHMT_LOOP_im2col, &b, result, dense);
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__col2im(shmt_tensor* self, shmt_ints output_size, shmt_ints kernel_size, shmt_ints dilation,
                         shmt_ints padding, shmt_ints stride, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  blocks b;
  int64_t sizes[4];

  if (self->dtype == SHMT_BOOL) { /* counted, so that a sum is true where any part is */
    SHMT_AUTO(shmt_tensor) counts = NULL;
    SHMT_AUTO(shmt_tensor) sums = NULL;
    SHMT_TRY(shmt__tensor_cast(self, SHMT_FLOAT32, &counts));
    SHMT_TRY(shmt__col2im(counts, output_size, kernel_size, dilation, padding, stride, &sums));
    return shmt__tensor_cast(sums, SHMT_BOOL, out);
  }
  SHMT_REQUIRE_LOOP(SHMT_LOOP_col2im, self->dtype, "col2im_out_cpu");
  SHMT_REFUSE_DTYPE(shmt__is_integral(self->dtype), self->dtype, "col2im_out_cpu");
  SHMT_REQUIRE(is_filled(self, 2), SHMT_E_RUNTIME,
               "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
               "input, but got: %s", SHMT_SHAPE_TEXT(self));
  SHMT_REQUIRE(output_size.len == 2, SHMT_E_RUNTIME,
               "It is expected output_size equals to 2, but got size %" PRId64, output_size.len);
  const int64_t height = output_size.data[0], width = output_size.data[1];
  SHMT_REQUIRE(height > 0 && width > 0, SHMT_E_RUNTIME,
               "col2im(): expected a positive output_size, got (%" PRId64 ", %" PRId64 ")", height, width);
  SHMT_TRY(find_blocks("col2im", kernel_size, dilation, padding, stride, height, width, &b));
  const int64_t* last = self->sizes + (self->n_dims - 2);
  const int64_t elements = b.shape.kernel[1] * b.shape.kernel[2];
  SHMT_REQUIRE(last[0] % elements == 0, SHMT_E_RUNTIME,
               "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
               "input.size(1)=%" PRId64 " and kernel_size=(%" PRId64 ", %" PRId64 ").", last[0], b.shape.kernel[1],
               b.shape.kernel[2]);
  SHMT_REQUIRE(last[1] == b.columns, SHMT_E_RUNTIME,
               "Given output_size=(%" PRId64 ", %" PRId64 "), expected size of input's dimension 2 to match the "
               "calculated number of sliding blocks %" PRId64 " * %" PRId64 " = %" PRId64 ", but got input.size(2)=%"
               PRId64 ".", height, width, b.shape.out[1], b.shape.out[2], b.columns, last[1]);
  b.rows = last[0];
  b.channels = last[0] / elements;
  b.batch = self->n_dims == 3 ? self->sizes[0] : 1;
  sizes[0] = b.batch;
  sizes[1] = b.channels;
  sizes[2] = height;
  sizes[3] = width;
  const int skip = self->n_dims == 3 ? 0 : 1;
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes + skip, 4 - skip}, self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT,
                              &result));
  if (!shmt__tensor_is_meta(self) && result->numel > 0) {
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
    run_fold_loop(SHMT_LOOP_col2im, &b, dense, result);
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}
