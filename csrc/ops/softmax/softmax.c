/* ops/softmax/softmax.c -- softmax and log_softmax over one dim, forward and backward. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "kernels/loop_args.h"
#include "ops/check.h"

enum { GRAIN_ELEMENTS = 16384 }; /* elements of a task: with fewer, another thread does not pay */

/* The tensors seen as (outer, length, inner), contiguous; data[0] is the output. */
typedef struct row_job {
  char* data[3];
  int n_data;
  int64_t outer, inner, item;
  shmt__softmax_args shape;
  shmt__loop loop;
} row_job;

static void run_softmax_slices(void* ctx, int64_t begin, int64_t end) {
  const row_job* l = ctx;
  const int64_t step = l->shape.length * l->item;
  const int64_t strides[3] = {step, step, step};
  char* data[3] = {0};

  for (int k = 0; k < l->n_data; k++) data[k] = l->data[k] + begin * step;
  l->loop(data, strides, end - begin, &l->shape);
}

/* Columns are numbered through all outer blocks; a task may begin and end inside a block. */
static void run_columns(void* ctx, int64_t begin, int64_t end) {
  const row_job* l = ctx;
  const int64_t strides[3] = {l->item, l->item, l->item};

  while (begin < end) {
    const int64_t block = begin / l->inner, column = begin % l->inner;
    const int64_t n = l->inner - column < end - begin ? l->inner - column : end - begin;
    const int64_t at = (block * l->shape.length * l->inner + column) * l->item;
    char* data[3] = {0};
    for (int k = 0; k < l->n_data; k++) data[k] = l->data[k] + at;
    l->loop(data, strides, n, &l->shape);
    begin += n;
  }
}

/* Runs to = loop(a[, b]) along dim, by rows when dim is the last and by columns otherwise. All tensors are contiguous
 * and have to's sizes and dtype. */
static void run_softmax_rows(shmt_tensor* to, shmt_tensor* a, shmt_tensor* b, int64_t dim, int rows, int columns) {
  row_job l = {.n_data = b ? 3 : 2,
             .outer = shmt__tensor_extent(to, 0, dim),
             .inner = shmt__tensor_extent(to, dim + 1, to->n_dims),
             .item = shmt__tensor_item_bytes(to)};

  l.shape.length = to->n_dims ? to->sizes[dim] : 1;
  l.shape.step = l.inner * l.item;
  l.data[0] = shmt__tensor_data(to);
  l.data[1] = shmt__tensor_data(a);
  if (b) l.data[2] = shmt__tensor_data(b);
  l.loop = shmt__loops[l.inner == 1 ? rows : columns][to->dtype];
  const int64_t grain = GRAIN_ELEMENTS / (l.shape.length > 0 ? l.shape.length : 1) + 1;
  if (l.inner == 1)
    shmt__parallel_for(l.outer, grain, run_softmax_slices, &l);
  else
    shmt__parallel_for(l.outer * l.inner, grain, run_columns, &l);
}

static shmt_status check_half_to_float(const char* name, const shmt_tensor* self, bool half_to_float) {
  SHMT_REQUIRE(!half_to_float, SHMT_E_RUNTIME, "%s with half to float conversion is not supported on CPU (got %s)",
               name, shmt__dtype_title(self->dtype));
  return SHMT_OK;
}

/* names: of torch's kernels, for the last dim and for others. */
static shmt_status forward(const char* const names[2], shmt_tensor* self, int64_t dim, int rows, int columns,
                           shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  bool last;

  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  last = self->n_dims == 0 || dim == self->n_dims - 1;
  SHMT_REFUSE_DTYPE(self->numel > 0 && !shmt__loops[rows][self->dtype], self->dtype, names[last ? 0 : 1]);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(self) && self->numel > 0) {
    SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
    run_softmax_rows(result, dense, NULL, dim, rows, columns);
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__softmax(shmt_tensor* self, int64_t dim, bool half_to_float, shmt_tensor** out) {
  SHMT_TRY(check_half_to_float("softmax", self, half_to_float));
  return forward((const char* const[]){"softmax_lastdim_kernel_impl", "softmax_kernel_impl"}, self, dim,
                 SHMT_LOOP_softmax_rows, SHMT_LOOP_softmax_columns, out);
}

shmt_status shmt__log_softmax(shmt_tensor* self, int64_t dim, bool half_to_float, shmt_tensor** out) {
  SHMT_TRY(check_half_to_float("log_softmax", self, half_to_float));
  return forward((const char* const[]){"log_softmax_lastdim_kernel_impl", "log_softmax_kernel_impl"}, self, dim,
                 SHMT_LOOP_log_softmax_rows, SHMT_LOOP_log_softmax_columns, out);
}

/* The result has output's dtype, which on a CPU is also the input's. */
static shmt_status backward(const char* name, shmt_tensor* grad, shmt_tensor* output, int64_t dim, int rows,
                            int columns, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense_grad = NULL;
  SHMT_AUTO(shmt_tensor) cast_grad = NULL;
  SHMT_AUTO(shmt_tensor) dense_output = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(shmt__wrap_dim(dim, output->n_dims, &dim));
  SHMT_REQUIRE(shmt__same_sizes(grad, output), SHMT_E_RUNTIME, "%s(): the gradient has shape %s, the output %s", name,
               SHMT_SHAPE_TEXT(grad), SHMT_SHAPE_TEXT(output));
  SHMT_REQUIRE_LOOP(rows, output->dtype, name);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(output), output->dtype, output->device, SHMT_CONTIGUOUS_FORMAT,
                              &result));
  if (!shmt__tensor_is_meta(output) && output->numel > 0) {
    SHMT_TRY(shmt__tensor_cast(grad, output->dtype, &cast_grad));
    SHMT_TRY(shmt__tensor_contiguous(cast_grad, SHMT_CONTIGUOUS_FORMAT, &dense_grad));
    SHMT_TRY(shmt__tensor_contiguous(output, SHMT_CONTIGUOUS_FORMAT, &dense_output));
    run_softmax_rows(result, dense_grad, dense_output, dim, rows, columns);
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__softmax_backward_data(shmt_tensor* grad_output, shmt_tensor* output, int64_t dim,
                                        shmt_dtype input_dtype, shmt_tensor** out) {
  (void)input_dtype;
  return backward("_softmax_backward_data", grad_output, output, dim, SHMT_LOOP_softmax_backward_rows,
                  SHMT_LOOP_softmax_backward_columns, out);
}

shmt_status shmt__log_softmax_backward_data(shmt_tensor* grad_output, shmt_tensor* output, int64_t dim,
                                            shmt_dtype input_dtype, shmt_tensor** out) {
  (void)input_dtype;
  return backward("_log_softmax_backward_data", grad_output, output, dim, SHMT_LOOP_log_softmax_backward_rows,
                  SHMT_LOOP_log_softmax_backward_columns, out);
}

/* --- with a dtype ------------------------------------------------------------------------ */

static shmt_status to_dtype(shmt_tensor* self, shmt_dtype dtype, shmt_tensor** out) {
  if (dtype == SHMT_DTYPE_NONE || dtype == self->dtype) {
    *out = shmt__tensor_ref(self);
    return SHMT_OK;
  }
  return shmt_op_to_dtype(self, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, out);
}

shmt_status shmt__softmax_int(shmt_tensor* self, int64_t dim, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  SHMT_TRY(to_dtype(self, dtype, &cast));
  return shmt_op__softmax(cast, dim, false, out);
}

shmt_status shmt__log_softmax_int(shmt_tensor* self, int64_t dim, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  SHMT_TRY(to_dtype(self, dtype, &cast));
  return shmt_op__log_softmax(cast, dim, false, out);
}
