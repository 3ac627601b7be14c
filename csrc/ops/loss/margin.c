/* ops/loss/margin.c -- multi_margin_loss and multilabel_margin_loss, and their backward. */
#include "base/scalar.h"
#include "dispatch/operator.h"
#include "dispatch/trace.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "kernels/loss/margin.h"
#include "ops/check.h"
#include "storage/allocator.h"

enum { MIN_PIECE_OPS = 1 << 16 };

/* All contiguous. */
typedef struct operands {
  shmt_tensor *scores, *target; /* owned; (N, C), and int64 */
  shmt_tensor *grad, *weight;   /* owned; NULL: none */
} operands;

typedef struct job {
  shmt__margin_args shape;
  shmt__loop loop;
  char *to, *grad, *scores, *target, *last; /* grad: NULL in the forward; last: weights or marks */
  int64_t item, to_step, target_step, last_step; /* bytes; steps from row to row */
} job;

static void operands_fini(operands* o) {
  shmt__tensor_release(o->scores);
  shmt__tensor_release(o->target);
  shmt__tensor_release(o->grad);
  shmt__tensor_release(o->weight);
}

static shmt_status dense(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  if (!t) return SHMT_OK;
  SHMT_TRY(shmt__tensor_cast(t, dtype, &cast));
  return shmt__tensor_contiguous(cast, SHMT_CONTIGUOUS_FORMAT, out);
}

static void run_margin_rows(void* ctx, int64_t begin, int64_t end) {
  const job* j = ctx;
  char* data[5];
  int n = 0;

  data[n++] = j->to + begin * j->to_step;
  if (j->grad) data[n++] = j->grad + begin * j->item;
  data[n++] = j->scores + begin * j->shape.classes * j->item;
  data[n++] = j->target + begin * j->target_step;
  data[n] = j->last ? j->last + begin * j->last_step : NULL;
  j->loop(data, NULL, end - begin, &j->shape);
}

/* with_marks: the loop needs a byte of scratch memory for every score. */
static shmt_status run_margin_loss(job* j, const operands* o, bool with_marks, shmt_tensor* to) {
  const int64_t rows = o->scores->sizes[0], classes = o->scores->sizes[1];
  const uint64_t nbytes = with_marks ? (uint64_t)(rows * classes) : 0;
  void* marks = NULL;

  j->shape.classes = classes;
  j->item = shmt__tensor_item_bytes(to);
  j->to = shmt__tensor_data(to);
  j->to_step = to->n_dims > 1 ? classes * j->item : j->item;
  j->grad = o->grad ? shmt__tensor_data(o->grad) : NULL;
  j->scores = shmt__tensor_data(o->scores);
  j->target = shmt__tensor_data(o->target);
  j->target_step = o->target->n_dims > 1 ? classes * 8 : 8;
  j->last = o->weight ? shmt__tensor_data(o->weight) : NULL;
  if (with_marks) {
    SHMT_TRY(shmt__alloc(nbytes, &marks));
    j->last = marks;
    j->last_step = classes;
  }
  shmt__parallel_for(rows, MIN_PIECE_OPS / (classes + 1) + 1, run_margin_rows, j);
  if (with_marks) shmt__dealloc(marks, nbytes);
  return SHMT_OK;
}

/* Checks the arguments and runs the loop. grad and weight may be NULL. With a grad (backward), the result has the shape
 * of the scores; otherwise it has one element for each row. */
static shmt_status calculate(const char* name, uint32_t row, job* j, shmt_tensor* grad, shmt_tensor* self,
                             shmt_tensor* target, shmt_tensor* weight, bool with_marks, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  operands o = {0};
  shmt_status status;

  SHMT_REQUIRE_LOOP(row, self->dtype, name);
  SHMT_REQUIRE(self->n_dims == 2 && target->n_dims == (with_marks ? 2 : 1) && target->sizes[0] == self->sizes[0] &&
                   (!with_marks || target->sizes[1] == self->sizes[1]),
               SHMT_E_RUNTIME, "%s: scores of shape %s and classes of shape %s do not fit together", name,
               SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(target));
  SHMT_REQUIRE(!grad || (grad->n_dims == 1 && grad->numel == self->sizes[0]), SHMT_E_RUNTIME,
               "%s: a gradient of shape %s for scores of shape %s", name, grad ? SHMT_SHAPE_TEXT(grad) : "",
               SHMT_SHAPE_TEXT(self));
  SHMT_REQUIRE(!weight || (weight->n_dims == 1 && weight->numel == self->sizes[1]), SHMT_E_RUNTIME,
               "%s: weights of shape %s for scores of shape %s", name, weight ? SHMT_SHAPE_TEXT(weight) : "",
               SHMT_SHAPE_TEXT(self));
  if (weight) SHMT_TRY(shmt__check_scalar_type(weight, self->dtype));
  SHMT_TRY(shmt__tensor_empty((shmt_ints){self->sizes, grad ? 2 : 1}, self->dtype, self->device,
                              SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(self)) {
    j->loop = shmt__loops[row][self->dtype];
    status = dense(self, self->dtype, &o.scores);
    if (status == SHMT_OK) status = dense(target, SHMT_INT64, &o.target);
    if (status == SHMT_OK) status = dense(grad, self->dtype, &o.grad);
    if (status == SHMT_OK) status = dense(weight, self->dtype, &o.weight);
    if (status == SHMT_OK) status = run_margin_loss(j, &o, with_marks, result);
    operands_fini(&o);
    SHMT_TRY(status);
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__multilabel_margin(shmt_tensor* self, shmt_tensor* target, shmt_tensor** out) {
  job j = {0};
  return calculate("multilabel_margin_loss", SHMT_LOOP_multilabel_margin, &j, NULL, self, target, NULL, true, out);
}

shmt_status shmt__multilabel_margin_backward(shmt_tensor* grad, shmt_tensor* self, shmt_tensor* target,
                                             shmt_tensor** out) {
  job j = {0};
  return calculate("multilabel_margin_loss_backward", SHMT_LOOP_multilabel_margin_backward, &j, grad, self, target,
                   NULL, true, out);
}

shmt_status shmt__multi_margin(shmt_tensor* self, shmt_tensor* target, int64_t p, double margin, shmt_tensor* weight,
                               shmt_tensor** out) {
  job j = {.shape = {.margin = margin, .squared = p == 2}};
  return calculate("multi_margin_loss", SHMT_LOOP_multi_margin, &j, NULL, self, target, weight, false, out);
}

shmt_status shmt__multi_margin_backward(shmt_tensor* grad, shmt_tensor* self, shmt_tensor* target, int64_t p,
                                        double margin, shmt_tensor* weight, shmt_tensor** out) {
  job j = {.shape = {.margin = margin, .squared = p == 2}};
  const shmt_keyset keys = shmt__tensor_keys(grad) | shmt__tensor_keys(self) | shmt__tensor_keys(target) |
                           (weight ? shmt__tensor_keys(weight) : 0);

  if (!shmt__is_unobserved_call(keys))
    return shmt_op__multi_margin_backward_differentiable(grad, self, target, p, margin, weight, out);
  return calculate("multi_margin_loss_backward", SHMT_LOOP_multi_margin_backward, &j, grad, self, target, weight,
                   false, out);
}
