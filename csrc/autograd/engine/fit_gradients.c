/* autograd/engine/fit_gradients.c -- fitting gradients to the shape and dtype of their tensor, and adding them. */
#include "autograd/engine/fit_gradients.h"

#include "autograd/accumulate.h"
#include "autograd/engine/engine.h"
#include "autograd/meta.h"
#include "base/dtype.h"
#include "generated/operator_loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"

#include <stdio.h>
#include <string.h>

/* Sums of up to so many elements are one call of the loop; an iterator would cost more than that. */
enum { DIRECT_NUMEL = 4096 };

typedef struct expected {
  shmt_ints sizes;
  shmt_dtype dtype;
  shmt_device device;
} expected;

/* "Function MulBackward0 returned an invalid gradient at index 1 - ", or for a root without the
 * function. */
static const char* who(const shmt_node* fn, uint32_t index, char* buf, size_t cap) {
  if (fn)
    snprintf(buf, cap, "Function %s returned an invalid gradient at index %u -", fn->klass->name,
             index);
  else
    snprintf(buf, cap, "invalid gradient at index %u -", index);
  return buf;
}

/* Can a tensor of sizes `to` be broadcast to `from`? Then a gradient of `from` sums to `to`. */
static bool broadcasts(shmt_ints to, shmt_ints from) {
  if (to.len > from.len) return false;
  for (int64_t i = 0; i < to.len; i++) {
    int64_t want = to.data[to.len - 1 - i], have = from.data[from.len - 1 - i];
    if (want != have && want != 1) return false;
  }
  return true;
}

static shmt_status sum_to(shmt_tensor* g, shmt_ints sizes, shmt_tensor** out) {
  int64_t dims[SHMT_MAX_DIMS];
  int64_t n = 0;
  const int64_t lead = g->n_dims - sizes.len;
  for (int64_t i = 0; i < g->n_dims; i++)
    if (i < lead || (sizes.data[i - lead] == 1 && g->sizes[i] != 1)) dims[n++] = i;
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_TRY(shmt_op_sum_dim_IntList(g, (shmt_ints){dims, n}, true, SHMT_DTYPE_NONE, &sum));
  if (lead == 0) {
    *out = SHMT_TAKE(sum);
    return SHMT_OK;
  }
  return shmt_op_view(sum, sizes, out);
}

static shmt_status cast_to(shmt_tensor* g, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) real = NULL;
  if (shmt__is_complex(g->dtype) && !shmt__is_complex(dtype)) {
    SHMT_TRY(shmt_op_real(g, &real));
    if (real->dtype == dtype) {
      *out = SHMT_TAKE(real);
      return SHMT_OK;
    }
    g = real;
  }
  return shmt_op_to_dtype(g, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, out);
}

static void replace(shmt_tensor** g, shmt_tensor* by) {
  shmt__tensor_release(*g);
  *g = by;
}

/* The shape and dtype of gradients for the target; dtype NONE: nothing is known, as for an output without gradient. */
static expected expected_at(const shmt_edge* target) {
  if (target->node->klass->is_accumulate) {
    const shmt_tensor* v = shmt__accumulator_variable(target->node);
    return (expected){shmt__tensor_sizes(v), v->dtype, v->device};
  }
  const shmt__input_meta* m = shmt__node_input_meta(target->node, target->input_nr);
  if (m->dtype == SHMT_DTYPE_NONE) return (expected){.dtype = SHMT_DTYPE_NONE};
  return (expected){{shmt__input_meta_sizes(m), m->n_dims}, m->dtype, m->device};
}

shmt_status shmt__grad_zeros(const shmt_edge* target, shmt_tensor** out) {
  const expected e = expected_at(target);
  *out = NULL;
  return e.dtype == SHMT_DTYPE_NONE ? SHMT_OK : shmt__tensor_zeros(e.sizes, e.dtype, e.device, out);
}

shmt_status shmt__grad_validate_slow(shmt_tensor** g, const shmt_edge* target, const shmt_node* fn,
                                uint32_t index) {
  char text[192];
  const expected e = expected_at(target);
  if (e.dtype == SHMT_DTYPE_NONE) return SHMT_OK;
  SHMT_REQUIRE((*g)->device == e.device, SHMT_E_RUNTIME, "%s expected device %s but got %s",
               who(fn, index, text, sizeof text), e.device == SHMT_META ? "meta" : "cpu",
               (*g)->device == SHMT_META ? "meta" : "cpu");
  if (!shmt__same_ints(shmt__tensor_sizes(*g), e.sizes)) {
    char want[256];
    SHMT_REQUIRE(broadcasts(e.sizes, shmt__tensor_sizes(*g)), SHMT_E_RUNTIME,
                 "%s got %s but expected shape compatible with %s",
                 who(fn, index, text, sizeof text), SHMT_SHAPE_TEXT(*g),
                 shmt__ints_text(e.sizes, want, sizeof want));
    shmt_tensor* sum = NULL;
    SHMT_TRY(sum_to(*g, e.sizes, &sum));
    replace(g, sum);
  }
  if ((*g)->dtype != e.dtype) {
    shmt_tensor* cast = NULL;
    SHMT_TRY(cast_to(*g, e.dtype, &cast));
    replace(g, cast);
  }
  return SHMT_OK;
}

/* Can no other holder see this tensor or its bytes? */
static bool is_ours(const shmt_tensor* t) {
  return shmt__is_last_reference(&t->refs) && !t->base && !t->py_object &&
         (t->flags & SHMT_TENSOR_DENSE) &&
         !(shmt__tensor_own_keys(t) & (SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD | SHMT_KEYBIT_FuncTorchBatched)) &&
         shmt__is_last_reference(&t->storage->refs) &&
         !shmt__storage_has(t->storage, SHMT_STORAGE_SHARED | SHMT_STORAGE_READ_ONLY);
}

/* The single byte stride between the elements of t in row-major order; -1: there is none. */
static int64_t single_step(const shmt_tensor* t) {
  if (SHMT_LIKELY(t->flags & SHMT_TENSOR_CONTIGUOUS)) return shmt__tensor_item_bytes(t);
  for (int i = 0; i < t->n_dims; i++)
    if (t->strides[i] != 0) return -1;
  return 0; /* expanded from one element, as the gradient of a sum is */
}

shmt_status shmt__grad_add_inplace(shmt_tensor* sum, shmt_tensor* other) {
  const shmt_scalar one = shmt__scalar_int(1);
  const shmt__loop loop = shmt__loops[SHMT_LOOP_add][sum->dtype];
  SHMT_TRY(shmt__check_writable("backward", sum));
  SHMT_TRY(shmt__check_has_memory(sum));
  SHMT_TRY(shmt__check_has_memory(other));
  if (SHMT_UNLIKELY(sum->sparse != NULL || other->sparse != NULL))
    return shmt_op_add__Tensor_below(shmt__tensor_backend(sum) | shmt__tensor_backend(other), sum, other, one);
  const int64_t step = single_step(sum), other_step = single_step(other);
  const shmt_keyset conj_neg =
      (shmt__tensor_own_keys(sum) | shmt__tensor_own_keys(other)) & (SHMT_KEYBIT_Conjugate | SHMT_KEYBIT_Negative);
  if (SHMT_LIKELY(conj_neg == 0) && SHMT_LIKELY(step > 0 && other_step >= 0 && sum->numel <= DIRECT_NUMEL) && loop &&
      sum->dtype == other->dtype && !shmt__tensor_is_meta(sum)) {
    SHMT_ASSERT(sum->numel == other->numel);
    char* const at = shmt__tensor_data(sum);
    char* const data[] = {at, at, shmt__tensor_data(other)};
    const int64_t strides[] = {step, step, other_step};
    if (sum->numel) loop(data, strides, sum->numel, &one);
    return SHMT_OK;
  }
  /* The kernel is called directly: modes do not see the engine's own sums. */
  const shmt_keyset backend = shmt__tensor_is_meta(sum) ? SHMT_KEYBIT_Meta : SHMT_KEYBIT_CPU;
  return shmt_op_add__Tensor_below(backend | conj_neg, sum, other, one);
}

shmt_status shmt__grad_add(shmt_tensor** sum, shmt_tensor* g) {
  SHMT_AUTO(shmt_tensor) other = g;
  /* Tangents are added too, and a batched gradient is added for each example, or as its class says. */
  const shmt_keyset special = SHMT_KEYBIT_ForwardAD | SHMT_KEYBIT_FuncTorchBatched | SHMT_KEYBIT_PythonBelowAutograd |
                              SHMT_KEYBIT_NoMemory;
  const bool dispatched = ((shmt__tensor_own_keys(*sum) | shmt__tensor_own_keys(g)) & special) != 0;
  if (SHMT_UNLIKELY((*sum)->sparse != NULL &&
                    g->sparse == NULL)) { /* dense + sparse is defined, and not the other way */
    shmt_tensor* dense = other;
    other = *sum;
    *sum = dense;
  }
  if (!shmt__grad_enabled() && (*sum)->dtype == g->dtype && !dispatched) {
    if (!is_ours(*sum) && is_ours(other)) {
      shmt_tensor* t = *sum;
      *sum = other;
      other = t;
    }
    if (is_ours(*sum)) return shmt__grad_add_inplace(*sum, other);
  }
  shmt_tensor* fresh = NULL;
  SHMT_TRY(shmt_op_add_Tensor(*sum, other, shmt__scalar_int(1), &fresh));
  replace(sum, fresh);
  return SHMT_OK;
}
