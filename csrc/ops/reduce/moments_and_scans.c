/* ops/reduce/moments_and_scans.c -- var, std, linalg_vector_norm, logsumexp; scans: cumsum, cumprod, cummax, cummin. */
#include "kernels/reduce/variance.h"
#include "kernels/reduce/scan.h"

#include "base/overflow.h"
#include "base/dtype.h"
#include "base/promote.h"
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "iter/threads.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "ops/dtype_names.h"
#include "ops/outputs.h"
#include "ops/reduce/reduce.h"

#include <math.h>
#include <string.h>

/* --- variance ------------------------------------------------------------------------------- */

static shmt_status check_var(const shmt_tensor* self) {
  SHMT_REQUIRE(shmt__dtype_category(self->dtype) >= 2, SHMT_E_RUNTIME,
               "std and var only support floating point and complex dtypes");
  return SHMT_OK;
}

/* The variance of complex numbers: the sum of the variances of both parts. */
static shmt_status complex_var(shmt_tensor* self, shmt_ints dim, shmt_scalar correction,
                               bool keepdim, bool root, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) re = NULL;
  SHMT_AUTO(shmt_tensor) im = NULL;
  SHMT_AUTO(shmt_tensor) var_re = NULL;
  SHMT_AUTO(shmt_tensor) var_im = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(shmt_op_real(self, &re));
  SHMT_TRY(shmt_op_imag(self, &im));
  SHMT_TRY(shmt__var_correction(re, dim, correction, keepdim, &var_re));
  SHMT_TRY(shmt__var_correction(im, dim, correction, keepdim, &var_im));
  SHMT_TRY(shmt_op_add_Tensor(var_re, var_im, shmt__scalar_int(1), &sum));
  if (root)
    SHMT_TRY(shmt_op_sqrt(sum, &result));
  else
    result = SHMT_TAKE(sum);
  if (*out) return shmt__write_out(root ? "std" : "var", result, *out);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Does reducing the dims of mask leave one element? */
static bool is_single(const shmt_tensor* self, uint64_t mask) {
  for (int d = 0; d < self->n_dims; d++)
    if (!(mask >> d & 1) && self->sizes[d] != 1) return false;
  return true;
}

/* How many elements each variance is of; 0 where there are no variances. */
static int64_t n_observed(const shmt_tensor* self, uint64_t mask) {
  int64_t n = self->numel > 0;
  for (int d = 0; d < self->n_dims; d++)
    if (mask >> d & 1) n *= self->sizes[d];
  return n;
}

/* Warns as torch does when the divisor of a variance is 0 or negative. */
static shmt_status warn_of_few(const shmt_tensor* self, int64_t n, const shmt__var_args* options) {
  if (shmt__tensor_is_meta(self) || (double)n > options->correction) return SHMT_OK;
  return shmt__warn("%s(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
                    "(input numel divided by output numel).",
                    options->root ? "std" : "var");
}

static shmt_status var(shmt_tensor* self, shmt_ints dim, shmt_scalar correction, bool keepdim,
                       bool root, shmt_tensor** out) {
  shmt__var_args options = {.correction = correction.tag == SHMT_SCALAR_NONE ? 1 : shmt__scalar_to_double(correction),
                            .root = root};
  uint64_t mask;

  SHMT_TRY(check_var(self));
  if (shmt__is_complex(self->dtype)) return complex_var(self, dim, correction, keepdim, root, out);
  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &mask));
  const int64_t n = n_observed(self, mask);
  SHMT_TRY(warn_of_few(self, n, &options));
  if (n == 0 && options.correction < 0) options.correction = 0; /* that of nothing is NaN, not 0 */
  /* As in torch, which has no kernel for a complex out= unless the result is one element or self is empty. */
  SHMT_REFUSE_DTYPE(*out && shmt__is_complex((*out)->dtype) && self->numel > 0 && !is_single(self, mask),
                    (*out)->dtype, root ? "std" : "var");
  const shmt__reduction r = {.name = root ? "std" : "var",
                             .row = SHMT_LOOP_var,
                             .mask = mask,
                             .keepdim = keepdim,
                             .stored = {self->dtype},
                             .result = SHMT_DTYPE_NONE,
                             .ctx = &options};
  return shmt__reduce_into(&r, self, (shmt_tensor * * const[]){out}, 1);
}

shmt_status shmt__var_correction(shmt_tensor* self, shmt_ints dim, shmt_scalar correction,
                                 bool keepdim, shmt_tensor** out) {
  return var(self, dim, correction, keepdim, false, out);
}

shmt_status shmt__std_correction(shmt_tensor* self, shmt_ints dim, shmt_scalar correction,
                                 bool keepdim, shmt_tensor** out) {
  return var(self, dim, correction, keepdim, true, out);
}

shmt_status shmt__var_mean_correction(shmt_tensor* self, shmt_ints dim, shmt_scalar correction,
                                      bool keepdim, shmt_tensor** out0, shmt_tensor** out1) {
  SHMT_AUTO(shmt_tensor) spread = NULL;
  SHMT_TRY(shmt_op_var_correction(self, dim, correction, keepdim, &spread));
  SHMT_TRY(shmt_op_mean_dim(self, dim, keepdim, SHMT_DTYPE_NONE, out1));
  *out0 = SHMT_TAKE(spread);
  return SHMT_OK;
}

shmt_status shmt__std_mean_correction(shmt_tensor* self, shmt_ints dim, shmt_scalar correction,
                                      bool keepdim, shmt_tensor** out0, shmt_tensor** out1) {
  SHMT_AUTO(shmt_tensor) spread = NULL;
  SHMT_TRY(shmt_op_std_correction(self, dim, correction, keepdim, &spread));
  SHMT_TRY(shmt_op_mean_dim(self, dim, keepdim, SHMT_DTYPE_NONE, out1));
  *out0 = SHMT_TAKE(spread);
  return SHMT_OK;
}

shmt_status shmt__var_mean_dim(shmt_tensor* self, shmt_ints dim, bool unbiased, bool keepdim,
                               shmt_tensor** out0, shmt_tensor** out1) {
  return shmt__var_mean_correction(self, dim, shmt__scalar_int(unbiased), keepdim, out0, out1);
}

shmt_status shmt__std_mean_dim(shmt_tensor* self, shmt_ints dim, bool unbiased, bool keepdim,
                               shmt_tensor** out0, shmt_tensor** out1) {
  return shmt__std_mean_correction(self, dim, shmt__scalar_int(unbiased), keepdim, out0, out1);
}

shmt_status shmt__var_mean(shmt_tensor* self, bool unbiased, shmt_tensor** out0,
                           shmt_tensor** out1) {
  return shmt__var_mean_dim(self, SHMT_INTS_NONE, unbiased, false, out0, out1);
}

shmt_status shmt__std_mean(shmt_tensor* self, bool unbiased, shmt_tensor** out0,
                           shmt_tensor** out1) {
  return shmt__std_mean_dim(self, SHMT_INTS_NONE, unbiased, false, out0, out1);
}

/* --- norms ---------------------------------------------------------------------------------------
 */

static int norm_row(double p) {
  if (p == 0) return SHMT_LOOP_norm_0;
  if (p == 1) return SHMT_LOOP_norm_1;
  if (p == 2) return SHMT_LOOP_norm_2;
  if (p == INFINITY) return SHMT_LOOP_norm_inf;
  if (p == -INFINITY) return SHMT_LOOP_norm_neg_inf;
  return SHMT_LOOP_norm_p;
}

static shmt_status check_norm(const shmt_tensor* self, shmt_scalar ord, uint64_t mask,
                              shmt_dtype dtype) {
  const double p = shmt__scalar_to_double(ord);

  SHMT_REQUIRE(ord.tag != SHMT_SCALAR_COMPLEX, SHMT_E_RUNTIME,
               "linalg.vector_norm: Expected a non-complex scalar as the order of norm.");
  SHMT_TRY(shmt__check_float_dtype("linalg.vector_norm", self));
  if (dtype != SHMT_DTYPE_NONE) {
    SHMT_REQUIRE(shmt__dtype_category(dtype) >= 2, SHMT_E_RUNTIME,
                 "linalg.vector_norm: dtype should be floating point or complex, but got %s",
                 shmt__dtype_title(dtype));
    SHMT_REQUIRE(shmt__is_complex(self->dtype) == shmt__is_complex(dtype), SHMT_E_RUNTIME,
                 "linalg.vector_norm: dtype should be %s for %s inputs, but got %s",
                 shmt__is_complex(self->dtype) ? "complex" : "real", shmt__is_complex(self->dtype) ? "complex" : "real",
                 shmt__dtype_title(dtype));
    SHMT_REQUIRE(shmt__promote_types_unchecked(self->dtype, dtype) == dtype, SHMT_E_RUNTIME,
                 "linalg.vector_norm: the dtype of the input (%s) should be convertible without "
                 "narrowing to the "
                 "specified dtype (%s)",
                 shmt__dtype_title(self->dtype), shmt__dtype_title(dtype));
  }
  if (p >= 0 && p < INFINITY) return SHMT_OK;
  SHMT_REQUIRE(self->numel > 0 || mask != shmt__all_dims_mask(self->n_dims), SHMT_E_RUNTIME,
               "linalg.vector_norm cannot compute the %g norm on an empty tensor because the "
               "operation does not have an "
               "identity",
               p);
  for (int d = 0; d < self->n_dims; d++)
    SHMT_REQUIRE(!(mask >> d & 1) || self->sizes[d] > 0, SHMT_E_RUNTIME,
                 "linalg.vector_norm cannot compute the %g norm on the dimension %d because this "
                 "dimension is empty and "
                 "the operation does not have an identity",
                 p, d);
  return SHMT_OK;
}

/* Does each norm have one element? Then it is the element's size, also where its power is out of range. */
static bool has_single_elements(const shmt_tensor* self, uint64_t mask) {
  for (int d = 0; d < self->n_dims; d++)
    if ((mask >> d & 1) && self->sizes[d] != 1) return false;
  return true;
}

shmt_status shmt__linalg_vector_norm(shmt_tensor* self, shmt_scalar ord, shmt_ints dim,
                                     bool keepdim, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) input = NULL;
  uint64_t mask;

  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &mask));
  SHMT_TRY(check_norm(self, ord, mask, dtype));
  SHMT_TRY(shmt__check_out_dtype(*out, shmt__to_real_dtype(dtype == SHMT_DTYPE_NONE ? self->dtype : dtype)));
  SHMT_TRY(shmt__tensor_cast(self, dtype == SHMT_DTYPE_NONE ? self->dtype : dtype, &input));
  const double given = shmt__scalar_to_double(ord);
  const double p = given != 0 && has_single_elements(self, mask) ? INFINITY : given;
  const shmt__reduction r = {.name = "linalg_vector_norm",
                             .row = norm_row(p),
                             .mask = mask,
                             .keepdim = keepdim,
                             .stored = {shmt__to_real_dtype(input->dtype)},
                             .result = SHMT_DTYPE_NONE,
                             .ctx = &p};
  return shmt__reduce_into(&r, input, (shmt_tensor * * const[]){out}, 1);
}

/* --- logsumexp ----------------------------------------------------------------------------------
 */

enum { ELEMENTS_OF_THREAD = 1 << 16 }; /* elements whose exponentials a thread computes at a time */

/* sum += exp(x - shift), summed over the dims in which sum has size 1; shift has sum's sizes. */
static shmt_status add_exponentials(shmt_tensor* x, shmt_ints dim, shmt_tensor* shift, shmt_tensor* sum) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) moved = NULL;
  SHMT_AUTO(shmt_tensor) part = NULL;

  SHMT_TRY(shmt__tensor_cast(x, sum->dtype, &wide));
  SHMT_TRY(shmt_op_sub_Tensor(wide, shift, shmt__scalar_int(1), &moved));
  SHMT_TRY(shmt_op_exp_(moved));
  SHMT_TRY(shmt_op_sum_dim_IntList(moved, dim, true, SHMT_DTYPE_NONE, &part));
  return shmt_op_add__Tensor(sum, part, shmt__scalar_int(1));
}

/* Elements [begin, begin + n) along dim, or all when the dim has size 1. New reference. */
static shmt_status some_of(shmt_tensor* t, int64_t dim, int64_t begin, int64_t n, shmt_tensor** out) {
  if (t->n_dims > 0 && t->sizes[dim] > 1) return shmt_op_narrow(t, dim, begin, n, out);
  *out = shmt__tensor_ref(t);
  return SHMT_OK;
}

/* As add_exponentials, block by block along the dim with the largest stride. */
static shmt_status add_all_exponentials(shmt_tensor* x, shmt_ints dim, shmt_tensor* shift, shmt_tensor* sum) {
  int64_t along = 0;

  for (int d = 0; d < x->n_dims; d++)
    if (x->sizes[d] > 1 && (x->sizes[along] == 1 || x->strides[d] > x->strides[along])) along = d;
  const int64_t size = x->n_dims > 0 ? x->sizes[along] : 1,
                fit = ELEMENTS_OF_THREAD * (int64_t)shmt__num_threads() / (x->numel / size);
  for (int64_t begin = 0, n; begin < size; begin += n) {
    SHMT_AUTO(shmt_tensor) some = NULL;
    SHMT_AUTO(shmt_tensor) some_shift = NULL;
    SHMT_AUTO(shmt_tensor) some_sum = NULL;
    n = fit < 1 ? 1 : fit < size - begin ? fit : size - begin;
    SHMT_TRY(some_of(x, along, begin, n, &some));
    SHMT_TRY(some_of(shift, along, begin, n, &some_shift));
    SHMT_TRY(some_of(sum, along, begin, n, &some_sum));
    SHMT_TRY(add_exponentials(some, dim, some_shift, some_sum));
  }
  return SHMT_OK;
}

/* Shifts by the largest element, or by 0 where that is infinite. Runs below the Autograd key: nothing is recorded. */
static shmt_status log_sum_exp(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) parts = NULL;
  SHMT_AUTO(shmt_tensor) highest = NULL;
  SHMT_AUTO(shmt_tensor) is_far = NULL;
  SHMT_AUTO(shmt_tensor) near = NULL;
  SHMT_AUTO(shmt_tensor) shift = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_AUTO(shmt_tensor) flat = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  uint64_t mask;

  if (self->numel == 0) {
    SHMT_TRY(shmt_op_sum_dim_IntList(self, dim, keepdim, SHMT_DTYPE_NONE, &sum));
    return shmt_op_log(sum, out);
  }
  /* 16-bit floats are computed in float32: rounded once, and the sum may be larger than float16 can hold. */
  const shmt_dtype work = shmt__is_half(self->dtype) ? SHMT_FLOAT32 : self->dtype;
  if (shmt__dtype_category(self->dtype) == 3)
    SHMT_TRY(shmt_op_real(self, &parts));
  else
    parts = shmt__tensor_ref(self);
  SHMT_TRY(shmt__amax(parts, dim, true, &highest));
  SHMT_TRY(shmt_op_isinf(highest, &is_far));
  SHMT_TRY(shmt__masked_fill_scalar(highest, is_far, shmt__scalar_int(0), &near));
  SHMT_TRY(shmt__tensor_cast(near, shmt__to_real_dtype(work), &shift));
  SHMT_TRY(shmt__tensor_zeros(shmt__tensor_sizes(shift), work, SHMT_CPU, &sum));
  SHMT_TRY(add_all_exponentials(self, dim, shift, sum));
  SHMT_TRY(shmt_op_log_(sum));
  SHMT_TRY(shmt_op_add__Tensor(sum, shift, shmt__scalar_int(1)));
  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &mask));
  SHMT_TRY(shmt_op_view(sum, (shmt_ints){sizes, shmt__reduced_sizes(self, mask, keepdim, sizes)}, &flat));
  return shmt__tensor_cast(flat, self->dtype, out);
}

enum { ROWS_GRAIN = 16384 }; /* elements of a task: with fewer, another thread does not pay */

typedef struct exp_rows {
  shmt_tensor *x, *out;
  shmt__softmax_args shape;
} exp_rows;

static void run_exp_rows(void* ctx, int64_t begin, int64_t end) {
  const exp_rows* r = ctx;
  const int64_t item = shmt__tensor_item_bytes(r->x), strides[2] = {item, r->shape.length * item};
  char* data[2] = {(char*)shmt__tensor_data(r->out) + begin * strides[0],
                   (char*)shmt__tensor_data(r->x) + begin * strides[1]};

  shmt__loops[SHMT_LOOP_logsumexp_rows][r->x->dtype](data, strides, end - begin, &r->shape);
}

/* Is the reduction over the last dim of a contiguous tensor, so that the loop over rows applies? */
static bool is_dense_rows(const shmt_tensor* x, uint64_t mask) {
  return x->n_dims > 0 && mask == UINT64_C(1) << (x->n_dims - 1) && x->numel > 0 &&
         (x->flags & SHMT_TENSOR_CONTIGUOUS) &&
         shmt__loops[SHMT_LOOP_logsumexp_rows][x->dtype] != NULL;
}

static shmt_status log_sum_exp_of_rows(shmt_tensor* x, bool keepdim, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS];
  const int last = x->n_dims - 1;
  exp_rows rows = {.x = x, .shape = {.length = x->sizes[last]}};

  memcpy(sizes, x->sizes, (size_t)x->n_dims * sizeof *sizes);
  sizes[last] = 1;
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, keepdim ? x->n_dims : last}, x->dtype, SHMT_CPU,
                              SHMT_CONTIGUOUS_FORMAT, out));
  rows.out = *out;
  shmt__parallel_for((*out)->numel, ROWS_GRAIN / rows.shape.length + 1, run_exp_rows, &rows);
  return SHMT_OK;
}

shmt_status shmt__logsumexp(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) input = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  uint64_t mask;

  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &mask));
  if (self->device == SHMT_META) {
    int64_t sizes[SHMT_MAX_DIMS];
    const shmt_ints shape = {sizes, shmt__reduced_sizes(self, mask, keepdim, sizes)};
    const bool whole = shmt__dtype_category(self->dtype) < 2;
    return shmt__prepare_out("logsumexp", out, shape, whole ? shmt__default_dtype() : self->dtype,
                             SHMT_META);
  }
  SHMT_TRY(shmt__tensor_cast(
      self, shmt__dtype_category(self->dtype) < 2 ? shmt__default_dtype() : self->dtype, &input));
  if (is_dense_rows(input, mask))
    SHMT_TRY(log_sum_exp_of_rows(input, keepdim, &result));
  else
    SHMT_TRY(log_sum_exp(input, dim, keepdim, &result));
  if (*out) return shmt__write_out("logsumexp", result, *out);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- scans ---------------------------------------------------------------------------------------
 */

typedef struct scan {
  shmt__loop loop, rows_loop; /* NULL: rows are scanned one by one */
  int64_t strides[3];
  int64_t length, item;
  int n_operands;
} scan;

/* Is it faster to scan n rows at once, one lane for each? strides: bytes from row to row. */
static bool scans_many_rows(const scan* s, const int64_t* strides, int64_t n) {
  enum { SHORT = 32, SOME = 8 };
  const bool side_by_side = strides[0] == s->item && strides[1] == s->item && s->strides[1] != s->item;

  return s->rows_loop && n >= SOME && (s->length <= SHORT || side_by_side);
}

/* The iterator's loop: each of its n elements is the beginning of a row. */
static void scan_each_row(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const scan* s = ctx;
  char* row_at[3] = {0};

  if (scans_many_rows(s, strides, n)) {
    const shmt__scan_args shape = {s->length, {s->strides[0], s->strides[1]}};
    s->rows_loop(data, strides, n, &shape);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    for (int k = 0; k < s->n_operands; k++) row_at[k] = data[k] + i * strides[k];
    s->loop(row_at, s->strides, s->length, NULL);
  }
}

/* A view of the beginnings of t's rows along dim: t without dim. New reference. */
static shmt_status row_starts(shmt_tensor* t, int64_t dim, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS], n = 0;

  for (int d = 0; d < t->n_dims; d++) {
    if (d == dim) continue;
    sizes[n] = t->sizes[d];
    strides[n++] = t->strides[d];
  }
  return shmt__tensor_alias(t, (shmt_ints){sizes, n}, (shmt_ints){strides, n}, t->offset, out);
}

/* Runs the loop of `row` along dim of input into outs, which have input's sizes. */
static shmt_status scan_into(const char* name, int row, shmt_tensor* input, int64_t dim,
                             shmt_tensor* const* outs, int n_outs) {
  shmt_tensor* tensors[3] = {outs[0], n_outs == 2 ? outs[1] : input, input};
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) c = NULL;
  shmt_tensor** const starts[3] = {&a, &b, &c};
  scan s = {.loop = shmt__loops[row][input->dtype],
            .rows_loop = row == SHMT_LOOP_cumsum    ? shmt__loops[SHMT_LOOP_cumsum_rows][input->dtype]
                          : row == SHMT_LOOP_cumprod ? shmt__loops[SHMT_LOOP_cumprod_rows][input->dtype]
                                                     : NULL,
            .length = input->n_dims ? input->sizes[dim] : 1,
            .item = shmt__tensor_item_bytes(input),
            .n_operands = n_outs + 1};
  shmt_iter it;

  SHMT_REFUSE_DTYPE(!s.loop, input->dtype, name);
  if (input->device == SHMT_META || input->numel == 0) return SHMT_OK;
  for (int k = 0; k <= n_outs; k++) {
    SHMT_TRY(row_starts(tensors[k], dim, starts[k]));
    s.strides[k] =
        input->n_dims ? shmt__wrap_mul_i64(tensors[k]->strides[dim], shmt__tensor_item_bytes(tensors[k])) : 0;
  }
  shmt__iter_init(&it, name);
  it.check_overlap = false;
  it.resize_outputs = false;
  for (int k = 0; k < n_outs; k++) shmt__iter_output(&it, starts[k], (*starts[k])->dtype);
  shmt__iter_input(&it, *starts[n_outs]);
  SHMT_TRY(shmt__iter_build(&it));
  return shmt__iter_finish(&it, shmt__iter_run_costly(&it, scan_each_row, &s, s.length));
}

/* Does every row have one element, which is its own cumsum or cumprod? */
static bool are_singles(int row, const shmt_tensor* input, int64_t dim) {
  const bool is_sum = row == SHMT_LOOP_cumsum, is_product = row == SHMT_LOOP_cumprod && !shmt__is_complex(input->dtype);

  return (is_sum || is_product) && input->n_dims > 0 && input->sizes[dim] == 1 && shmt__loops[row][input->dtype];
}

/* Copies rows of one element. A sum begins with 0, so that of -0.0 is 0.0. */
static shmt_status take_singles(int row, shmt_tensor* work, shmt_tensor* input) {
  SHMT_TRY(shmt__tensor_copy(work, input));
  if (row != SHMT_LOOP_cumsum || shmt__dtype_category(work->dtype) < 2) return SHMT_OK;
  return shmt_op_add__Scalar(work, shmt__scalar_int(0), shmt__scalar_int(1));
}

/* Scans of 0-d and empty tensors work also for dtypes without a loop (bool). */
static bool is_trivial(int row, const shmt_tensor* input) {
  return (row == SHMT_LOOP_cumsum || row == SHMT_LOOP_cumprod) && (input->n_dims == 0 || input->numel == 0);
}

/* out may be exactly self (in-place), but may not overlap it in another way. */
static shmt_status check_same_or_no_overlap(const shmt_tensor* out, const shmt_tensor* self) {
  const bool is_same =
      out && out->offset == self->offset && shmt__same_sizes(out, self) && shmt__same_strides(out, self);
  return is_same ? SHMT_OK : shmt__check_no_overlap(out, self);
}

static shmt_status scan_one(const char* name, int row, shmt_tensor* self, int64_t dim,
                            shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) input = NULL;
  SHMT_AUTO(shmt_tensor) work = NULL;

  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_same_or_no_overlap(*out, self));
  SHMT_TRY(shmt__tensor_cast(self, dtype, &input));
  SHMT_TRY(shmt__output_begin(name, out, shmt__tensor_sizes(self), dtype, self->device, &work));
  shmt_status status = is_trivial(row, input) ? shmt__tensor_copy(work, input)
                       : are_singles(row, input, dim)
                           ? take_singles(row, work, input)
                           : scan_into(name, row, input, dim, (shmt_tensor* const[]){work}, 1);
  return status == SHMT_OK ? shmt__output_end(name, &work, out) : status;
}

/* When a dtype is given, out= must have it. */
static shmt_status check_running_dtype(const shmt_tensor* out, shmt_dtype dtype) {
  return dtype == SHMT_DTYPE_NONE ? SHMT_OK : shmt__check_out_dtype(out, dtype);
}

/* Integers and bool are scanned in int64, unless dtype or out= gives another dtype. */
static shmt_dtype running_dtype(const shmt_tensor* self, shmt_dtype dtype, const shmt_tensor* out) {
  if (dtype != SHMT_DTYPE_NONE) return dtype;
  if (out) return out->dtype;
  return shmt__dtype_category(self->dtype) < 2 ? SHMT_INT64 : self->dtype;
}

shmt_status shmt__cumsum(shmt_tensor* self, int64_t dim, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_TRY(check_running_dtype(*out, dtype));
  return scan_one("cumsum", SHMT_LOOP_cumsum, self, dim, running_dtype(self, dtype, *out), out);
}

shmt_status shmt__cumprod(shmt_tensor* self, int64_t dim, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_TRY(check_running_dtype(*out, dtype));
  return scan_one("cumprod", SHMT_LOOP_cumprod, self, dim, running_dtype(self, dtype, *out), out);
}

static shmt_status check_scanned_dtype(const shmt_tensor* out, shmt_dtype dtype) {
  SHMT_REQUIRE(!out || out->dtype == dtype, SHMT_E_RUNTIME, "expected scalar_type %s but found %s",
               shmt__dtype_title(dtype), shmt__dtype_title(out->dtype));
  return SHMT_OK;
}

shmt_status shmt__logcumsumexp(shmt_tensor* self, int64_t dim, shmt_tensor** out) {
  SHMT_TRY(check_scanned_dtype(*out, self->dtype));
  return scan_one("logcumsumexp", SHMT_LOOP_logcumsumexp, self, dim, self->dtype, out);
}

static shmt_status scan_best(const char* name, int row, shmt_tensor* self, int64_t dim,
                             shmt_tensor** values, shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) best = NULL;
  SHMT_AUTO(shmt_tensor) at = NULL;

  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_scanned_dtype(*values, self->dtype));
  SHMT_TRY(check_scanned_dtype(*indices, SHMT_INT64));
  SHMT_TRY(
      shmt__output_begin(name, values, shmt__tensor_sizes(self), self->dtype, self->device, &best));
  SHMT_TRY(
      shmt__output_begin(name, indices, shmt__tensor_sizes(self), SHMT_INT64, self->device, &at));
  SHMT_TRY(scan_into(name, row, self, dim, (shmt_tensor* const[]){best, at}, 2));
  SHMT_TRY(shmt__output_end(name, &best, values));
  return shmt__output_end(name, &at, indices);
}

shmt_status shmt__cummax(shmt_tensor* self, int64_t dim, shmt_tensor** values,
                         shmt_tensor** indices) {
  return scan_best("cummax", SHMT_LOOP_cummax, self, dim, values, indices);
}

shmt_status shmt__cummin(shmt_tensor* self, int64_t dim, shmt_tensor** values,
                         shmt_tensor** indices) {
  return scan_best("cummin", SHMT_LOOP_cummin, self, dim, values, indices);
}
