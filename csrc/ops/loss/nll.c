/* ops/loss/nll.c -- nll_loss and nll_loss2d, forward and backward. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "kernels/loop_args.h"
#include "ops/check.h"

#include <inttypes.h>
#include <string.h>

enum { NONE = 0, MEAN = 1 }; /* any other reduction is the sum */

/* All contiguous; x and weight have one dtype. */
typedef struct operands {
  shmt_tensor* x;      /* owned: scores, (C), (N, C) or (N, C, ...) */
  shmt_tensor* target; /* owned: int64 */
  shmt_tensor* weight; /* owned; NULL: none */
  int64_t n_samples, n_classes, inner;
} operands;

static void operands_fini(operands* o) {
  shmt__tensor_release(o->x);
  shmt__tensor_release(o->target);
  shmt__tensor_release(o->weight);
}

/* Checks target and weight. dtype is that of the scores. */
static shmt_status check_common(shmt_dtype dtype, const shmt_tensor* target, const shmt_tensor* weight,
                                int64_t n_classes) {
  SHMT_REQUIRE(target->dtype == SHMT_INT64 || target->dtype == SHMT_UINT8, SHMT_E_RUNTIME,
               "expected target dtype to be Long or Byte, but got %s", shmt__dtype_title(target->dtype));
  SHMT_REQUIRE(!weight || (weight->n_dims == 1 && weight->numel == n_classes), SHMT_E_RUNTIME,
               "weight tensor should be defined either for all %" PRId64
               " classes or no classes but got weight tensor of shape: %s", n_classes,
               weight ? SHMT_SHAPE_TEXT(weight) : "");
  if (weight) SHMT_TRY(shmt__check_scalar_type(weight, dtype));
  return SHMT_OK;
}

static shmt_status check_flat(shmt_ints sizes, const shmt_tensor* target) {
  char text[256];

  SHMT_REQUIRE(sizes.len > 0 && sizes.len <= 2, SHMT_E_RUNTIME, "input tensor should be 1D or 2D");
  SHMT_REQUIRE(target->n_dims <= 1, SHMT_E_RUNTIME, "0D or 1D target tensor expected, multi-target not supported");
  SHMT_REQUIRE(sizes.len == 2 || target->n_dims == 0 || target->numel == 1, SHMT_E_VALUE,
               "For 1D input, 1D target must have size 1, but got target size: %" PRId64, target->numel);
  const bool no_batch = sizes.len == 1;
  SHMT_REQUIRE(no_batch || sizes.data[0] == target->numel, SHMT_E_RUNTIME,
               "size mismatch (got input: %s, target: %s)", shmt__ints_text(sizes, text, sizeof text),
               SHMT_SHAPE_TEXT(target));
  return SHMT_OK;
}

static shmt_status check_planes(shmt_ints sizes, const shmt_tensor* target) {
  char text[256];

  SHMT_REQUIRE(target->n_dims == 3, SHMT_E_RUNTIME,
               "only batches of spatial targets supported (3D tensors) but got targets of dimension: %d",
               target->n_dims);
  SHMT_REQUIRE(sizes.len == 4, SHMT_E_RUNTIME,
               "only batches of spatial inputs supported (4D tensors), but got input of dimension: %" PRId64,
               sizes.len);
  SHMT_REQUIRE(sizes.data[0] == target->sizes[0] && sizes.data[2] == target->sizes[1] &&
                   sizes.data[3] == target->sizes[2],
               SHMT_E_RUNTIME, "size mismatch (got input: %s , target: %s", shmt__ints_text(sizes, text, sizeof text),
               SHMT_SHAPE_TEXT(target));
  return SHMT_OK;
}

static void find_class_extent(shmt_ints sizes, operands* o) {
  o->inner = 1;
  o->n_classes = sizes.len == 1 ? sizes.data[0] : sizes.data[1];
  o->n_samples = sizes.len == 1 ? 1 : sizes.data[0];
  for (int64_t d = 2; d < sizes.len; d++) o->inner *= sizes.data[d];
}

static shmt_status prepare_nll(shmt_tensor* x, shmt_dtype dtype, shmt_tensor* target, shmt_tensor* weight,
                               operands* o) {
  SHMT_AUTO(shmt_tensor) cast_target = NULL;
  SHMT_AUTO(shmt_tensor) cast_weight = NULL;

  if (x) SHMT_TRY(shmt__tensor_contiguous(x, SHMT_CONTIGUOUS_FORMAT, &o->x));
  SHMT_TRY(shmt__tensor_cast(target, SHMT_INT64, &cast_target));
  SHMT_TRY(shmt__tensor_contiguous(cast_target, SHMT_CONTIGUOUS_FORMAT, &o->target));
  if (weight) {
    SHMT_TRY(shmt__tensor_cast(weight, dtype, &cast_weight));
    SHMT_TRY(shmt__tensor_contiguous(cast_weight, SHMT_CONTIGUOUS_FORMAT, &o->weight));
  }
  return SHMT_OK;
}

/* Runs the loop over all samples. per_sample has one element for each sample (with stride 0: one for all), or is NULL;
 * classes has the scores or their gradients. classes_first: whether the loop's first operand is classes. */
static void run_samples(const operands* o, shmt__loop loop, shmt__nll_args* shape, int64_t item, char* per_sample,
                 int64_t sample_stride, char* classes, bool classes_first) {
  const int64_t plane = o->n_classes * o->inner * item;

  shape->class_step = o->inner * item;
  for (int64_t s = 0; s < (o->inner == 1 ? 1 : o->n_samples); s++) {
    const int64_t n = o->inner == 1 ? o->n_samples : o->inner;
    const int64_t along = o->inner == 1 ? plane : item;
    char* one = per_sample ? per_sample + s * o->inner * sample_stride : NULL;
    char* many = classes + s * plane;
    char* target = (char*)shmt__tensor_data(o->target) + s * o->inner * 8;
    char* weight = o->weight ? shmt__tensor_data(o->weight) : NULL;
    char* data[4] = {classes_first ? many : one, classes_first ? one : many, target, weight};
    const int64_t strides[4] = {classes_first ? along : sample_stride, classes_first ? sample_stride : along, 8, item};
    loop(data, strides, n, shape);
  }
}

static shmt_status store_number(shmt_tensor* t, double value) {
  return shmt__tensor_is_meta(t) ? SHMT_OK : shmt__tensor_fill(t, shmt__scalar_float(value));
}

static shmt_status nll_forward(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight, int64_t reduction,
                               int64_t ignore_index, operands* o, shmt_tensor** output, shmt_tensor** total_weight) {
  SHMT_AUTO(shmt_tensor) losses = NULL;
  SHMT_AUTO(shmt_tensor) total = NULL;
  double sums[2] = {0, 0};
  shmt__bad_index bad = {0};
  shmt__nll_args shape = {.ignore_index = ignore_index, .sums = sums, .bad = &bad};
  const int64_t item = shmt__tensor_item_bytes(self);

  SHMT_REQUIRE_LOOP(SHMT_LOOP_nll_forward, self->dtype, "nll_loss_out_frame");
  find_class_extent(shmt__tensor_sizes(self), o);
  SHMT_TRY(check_common(self->dtype, target, weight, o->n_classes));
  shape.n_classes = o->n_classes;
  const shmt_ints losses_sizes = reduction == NONE && self->n_dims > 1 ? shmt__tensor_sizes(target) : SHMT_INTS_EMPTY;
  SHMT_TRY(shmt__tensor_empty(losses_sizes, self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &losses));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS_EMPTY, self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &total));
  if (!shmt__tensor_is_meta(self)) {
    SHMT_TRY(prepare_nll(self, self->dtype, target, weight, o));
    run_samples(o, shmt__loops[SHMT_LOOP_nll_forward][self->dtype], &shape, item,
         reduction == NONE ? shmt__tensor_data(losses) : NULL, item, shmt__tensor_data(o->x), false);
    SHMT_REQUIRE(!bad.found, SHMT_E_INDEX, "Target %" PRId64 " is out of bounds.", bad.value);
    if (reduction != NONE) SHMT_TRY(store_number(losses, reduction == MEAN ? sums[0] / sums[1] : sums[0]));
    SHMT_TRY(store_number(total, reduction == NONE ? 0 : sums[1]));
  }
  *output = SHMT_TAKE(losses);
  *total_weight = SHMT_TAKE(total);
  return SHMT_OK;
}

shmt_status shmt__nll_loss_forward(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight, int64_t reduction,
                                   int64_t ignore_index, shmt_tensor** output, shmt_tensor** total_weight) {
  operands o = {0};
  shmt_status status;

  SHMT_TRY(check_flat(shmt__tensor_sizes(self), target));
  status = nll_forward(self, target, weight, reduction, ignore_index, &o, output, total_weight);
  operands_fini(&o);
  return status;
}

shmt_status shmt__nll_loss2d_forward(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight, int64_t reduction,
                                     int64_t ignore_index, shmt_tensor** output, shmt_tensor** total_weight) {
  operands o = {0};
  shmt_status status;

  SHMT_TRY(check_planes(shmt__tensor_sizes(self), target));
  status = nll_forward(self, target, weight, reduction, ignore_index, &o, output, total_weight);
  operands_fini(&o);
  return status;
}

static shmt_status nll_backward(shmt_tensor* grad, shmt_ints sizes, shmt_tensor* target, shmt_tensor* weight,
                                int64_t reduction, int64_t ignore_index, shmt_tensor* total_weight, operands* o,
                                shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  shmt__nll_args shape = {.ignore_index = ignore_index, .scale = 1};
  const int64_t item = shmt__tensor_item_bytes(grad);

  SHMT_REQUIRE_LOOP(SHMT_LOOP_nll_backward, grad->dtype, "nll_loss_backward_out_frame");
  SHMT_TRY(sizes.len == 4 ? check_planes(sizes, target) : check_flat(sizes, target));
  SHMT_TRY(check_common(grad->dtype, target, weight, sizes.data[sizes.len == 1 ? 0 : 1]));
  SHMT_REQUIRE(grad->numel == (reduction == NONE ? target->numel : 1), SHMT_E_RUNTIME,
               "nll_loss_backward(): a gradient of size %s does not fit a target of size %s", SHMT_SHAPE_TEXT(grad),
               SHMT_SHAPE_TEXT(target));
  find_class_extent(sizes, o);
  shape.n_classes = o->n_classes;
  SHMT_TRY(shmt__tensor_empty(sizes, grad->dtype, grad->device, SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(grad)) {
    if (reduction == MEAN) {
      shmt_scalar total;
      SHMT_TRY(shmt__tensor_item(total_weight, &total));
      shape.scale = 1 / shmt__scalar_to_double(total);
    }
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    SHMT_TRY(prepare_nll(NULL, grad->dtype, target, weight, o));
    SHMT_TRY(shmt__tensor_contiguous(grad, SHMT_CONTIGUOUS_FORMAT, &dense));
    if (result->numel > 0)
      run_samples(o, shmt__loops[SHMT_LOOP_nll_backward][grad->dtype], &shape, item, shmt__tensor_data(dense),
           reduction == NONE ? item : 0, shmt__tensor_data(result), true);
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__nll_backward(shmt_tensor* grad, shmt_ints sizes, shmt_tensor* target, shmt_tensor* weight,
                               int64_t reduction, int64_t ignore_index, shmt_tensor* total_weight, shmt_tensor** out) {
  operands o = {0};
  const shmt_status status =
      nll_backward(grad, sizes, target, weight, reduction, ignore_index, total_weight, &o, out);

  operands_fini(&o);
  return status;
}
