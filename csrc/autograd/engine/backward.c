/* autograd/engine/backward.c -- from tensors to the engine: roots, first gradients, unused inputs. */
#include "autograd/engine/engine.h"
#include "autograd/meta.h"
#include "base/dtype.h"
#include "autograd/recording/connect.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_ROOTS = 4 };

/* The gradient of a tensor with respect to itself. */
static shmt_status implicit_grad(shmt_tensor* t, shmt_tensor** out) {
  SHMT_REQUIRE(t->numel == 1, SHMT_E_RUNTIME,
               "grad can be implicitly created only for scalar outputs");
  SHMT_REQUIRE(!shmt__is_complex(t->dtype), SHMT_E_RUNTIME,
               "grad can be implicitly created only for real scalar outputs but got torch.%s",
               shmt__dtype_name[t->dtype]);
  if (SHMT_UNLIKELY(shmt__tensor_is_answered(t)))
    return shmt_op_ones_like(t, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0},
                             SHMT_PRESERVE_FORMAT, out);
  if (t->n_dims == 0 && !shmt__tensor_is_meta(t))
    return shmt__tensor_from_scalar(shmt__scalar_int(1), t->dtype, false, out);
  SHMT_AUTO(shmt_tensor) ones = NULL;
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(t), t->dtype, t->device, SHMT_CONTIGUOUS_FORMAT,
                              &ones));
  SHMT_TRY(shmt__tensor_fill(ones, shmt__scalar_int(1)));
  *out = SHMT_TAKE(ones);
  return SHMT_OK;
}

static shmt_status check_given(const shmt_tensor* t, const shmt_tensor* g, uint32_t i) {
  SHMT_REQUIRE(shmt__same_sizes(g, t), SHMT_E_RUNTIME,
               "Mismatch in shape: grad_output[%u] has a shape of torch.Size(%s) and output[%u] "
               "has a shape of "
               "torch.Size(%s).",
               i, SHMT_SHAPE_TEXT(g), i, SHMT_SHAPE_TEXT(t));
  SHMT_REQUIRE(
      shmt__is_complex(t->dtype) == shmt__is_complex(g->dtype), SHMT_E_RUNTIME,
      "For complex Tensors, both grad_output and output are required to have the same dtype. "
      "Mismatch in "
      "dtype: grad_output[%u] has a dtype of torch.%s and output[%u] has a dtype of torch.%s.",
      i, shmt__dtype_name[g->dtype], i, shmt__dtype_name[t->dtype]);
  return SHMT_OK;
}

typedef struct work {
  shmt_edge* roots;
  shmt_tensor** grads;
  shmt_edge* inputs;
  shmt_edge few_roots[FEW_ROOTS];
  shmt_tensor* few_grads[FEW_ROOTS];
} work;

static shmt_status collect_roots(const shmt__backward_args* a, work* w) {
  for (uint32_t i = 0; i < a->n_tensors; i++) {
    shmt_tensor* t = a->tensors[i];
    shmt_tensor* given = a->grads ? a->grads[i] : NULL;
    if (given) {
      SHMT_TRY(check_given(t, given, i));
      w->grads[i] = shmt__tensor_ref(given);
    } else if (shmt__tensor_requires_grad(t)) {
      SHMT_TRY(implicit_grad(t, &w->grads[i]));
    }
  }
  for (uint32_t i = 0; i < a->n_tensors; i++) {
    SHMT_TRY(shmt__gradient_edge(a->tensors[i], &w->roots[i]));
    SHMT_REQUIRE(w->roots[i].node, SHMT_E_RUNTIME,
                 "element %u of tensors does not require grad and does not have a grad_fn", i);
  }
  return SHMT_OK;
}

static shmt_status collect_inputs(const shmt__backward_args* a, work* w) {
  for (uint32_t i = 0; i < a->n_inputs; i++) {
    SHMT_REQUIRE(shmt__tensor_requires_grad(a->inputs[i]), SHMT_E_RUNTIME,
                 "One of the differentiated Tensors does not require grad");
    if (!a->captured) SHMT_TRY(shmt__tensor_retain_grad(a->inputs[i]));
    SHMT_TRY(shmt__gradient_edge(a->inputs[i], &w->inputs[i]));
  }
  return SHMT_OK;
}

static shmt_status check_used(const shmt__backward_args* a) {
  for (uint32_t i = 0; i < a->n_inputs; i++)
    SHMT_REQUIRE(
        a->captured[i], SHMT_E_RUNTIME,
        "The differentiated Tensor at index %u appears to not have been used in the graph. Set "
        "allow_unused=True if this is the desired behavior.",
        i);
  return SHMT_OK;
}

static shmt_status run_backward(const shmt__backward_args* a, work* w) {
  SHMT_TRY(collect_roots(a, w));
  if (a->inputs) SHMT_TRY(collect_inputs(a, w));
  const shmt__backward b = {.roots = w->roots,
                            .grads = w->grads,
                            .n_roots = a->n_tensors,
                            .keep_graph = a->keep_graph,
                            .create_graph = a->create_graph,
                            .inputs = a->inputs ? w->inputs : NULL,
                            .n_inputs = a->n_inputs,
                            .captured = a->captured};
  SHMT_TRY(shmt__engine_run(&b));
  return a->captured && !a->allow_unused ? check_used(a) : SHMT_OK;
}

shmt_status shmt__backward_run(const shmt__backward_args* a) {
  work w = {.roots = w.few_roots, .grads = w.few_grads};
  const size_t n = a->n_tensors;
  if (n > FEW_ROOTS) {
    w.roots = calloc(n, sizeof *w.roots);
    w.grads = calloc(n, sizeof *w.grads);
  }
  if (a->inputs) w.inputs = calloc(a->n_inputs + 1, sizeof *w.inputs);
  shmt_status status = SHMT_OK;
  if (!w.roots || !w.grads || (a->inputs && !w.inputs))
    status = shmt__fail(SHMT_E_NOMEM, "backward(): out of memory for %zu roots", n);
  else
    status = run_backward(a, &w);
  for (size_t i = 0; w.roots && w.grads && i < n; i++) {
    shmt__node_release(w.roots[i].node);
    shmt__tensor_release(w.grads[i]);
  }
  for (size_t i = 0; w.inputs && i < a->n_inputs; i++) shmt__node_release(w.inputs[i].node);
  if (n > FEW_ROOTS) {
    free(w.roots);
    free(w.grads);
  }
  free(w.inputs);
  if (status != SHMT_OK && a->captured)
    for (uint32_t i = 0; i < a->n_inputs; i++) shmt__tensor_release(SHMT_TAKE(a->captured[i]));
  return status;
}
