/* autograd/recording/saved.c -- tensors that a node keeps for its backward.
 *
 * Note [Saved outputs]
 * An output that its own node saves is kept as an alias without history; otherwise the two would own each other.
 * In-place changes of the output must still be noticed. Its version counter is in its root tensor, and to own the root
 * would close the same cycle. So the root and the saved alias share a version cell. The cell points to the root while
 * the root lives; when the root ends, it leaves its last version there.
 */
#include "autograd/recording/saved.h"

#include "autograd/forward/tangents.h"
#include "autograd/meta.h"
#include "autograd/recording/connect.h"
#include "autograd/recording/copy_slices.h"
#include "autograd/recording/version_cell.h"
#include "base/dtype.h"
#include "dispatch/registry.h"
#include "generated/ops.h"

#include <stdio.h>
#include <stdlib.h>

/* A tensor that the user's hooks have packed. */
typedef struct packed {
  const shmt__saved_hooks* hooks;
  void* data;
  shmt_edge edge; /* where the gradient of an argument goes; its node is owned */
} packed;

/* shmt__saved.hook_data is NULL, a version cell, or a packed with this bit set. */
enum { IS_PACKED = 1 };
static packed* packed_of(const shmt__saved* s) {
  const uintptr_t p = (uintptr_t)s->hook_data;
  return p & IS_PACKED ? (packed*)(p - IS_PACKED) : NULL;
}

_Thread_local const shmt__saved_hooks* shmt__tls_saved_hooks
    __attribute__((tls_model("initial-exec")));

/* --- saving -------------------------------------------------------------------------- */

/* The cell of t's version root; a new reference. */
static shmt__version_cell* cell_of(shmt_tensor* t) {
  shmt_tensor* root = (shmt_tensor*)shmt__tensor_version_root(t);
  shmt_autograd_meta* m = shmt__meta_of(root);
  if (!m) return NULL;
  /* acquire: the cell was filled before its pointer was stored. */
  shmt__version_cell* cell = atomic_load_explicit(&m->cell, memory_order_acquire);
  if (!cell) {
    shmt__version_cell* fresh = shmt__version_cell_create(root);
    if (!fresh) return NULL;
    if (atomic_compare_exchange_strong_explicit(&m->cell, &cell, fresh, memory_order_acq_rel,
                                                memory_order_acquire))
      cell = fresh;
    else
      shmt__version_cell_release(fresh);
  }
  shmt__version_cell_retain(cell);
  return cell;
}

static SHMT_COLD shmt_status out_of_memory(void) {
  return shmt__fail(SHMT_E_NOMEM, "out of memory while saving a tensor for backward");
}

/* While the kernel of ForwardAD calls an operator, the tangents of its arguments are hidden. What is saved keeps them:
 * code in such a scope sees them. */
typedef struct seen_tangents {
  shmt__thread_keys keys;
  shmt__hidden_levels hidden;
  shmt__saved_outputs* outputs;
} seen_tangents;

static seen_tangents see_tangents(void) {
  const seen_tangents was = {shmt__tls_keys, shmt__tls_hidden, shmt__tls_saved_outputs};
  if (SHMT_UNLIKELY(was.outputs != NULL)) {
    shmt__tls_hidden = was.outputs->hidden;
    shmt__tls_keys.excluded &= ~(shmt_keyset)SHMT_KEYBIT_ForwardAD;
    shmt__tls_saved_outputs = NULL;
  }
  return was;
}

static void hide_tangents(const seen_tangents* was) {
  if (SHMT_LIKELY(was->outputs == NULL)) return;
  shmt__tls_keys = was->keys;
  shmt__tls_hidden = was->hidden;
  shmt__tls_saved_outputs = was->outputs;
}
#define SEE_TANGENTS __attribute__((cleanup(hide_tangents), unused)) const seen_tangents seen_tangents_ = see_tangents()

/* Call pack and see that it changes nothing. */
static shmt_status call_pack(const shmt__saved_hooks* hooks, shmt_tensor* t, void** data) {
  const uint32_t before = shmt__tensor_version(t);
  {
    SEE_TANGENTS;
    SHMT_TRY(hooks->pack(hooks->ctx, t, data));
  }
  if (SHMT_LIKELY((t->flags & SHMT_TENSOR_INFERENCE) || shmt__tensor_version(t) == before)) return SHMT_OK;
  hooks->drop(hooks->ctx, SHMT_TAKE(*data));
  SHMT_FAIL(
      SHMT_E_RUNTIME,
      "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
      "modified by in-place operations as this can lead to unexpected side-effects");
}

/* The kernel of ForwardAD, which calls the operator, will give the alias the tangent of its output. */
static SHMT_COLD void note_output(shmt__saved_outputs* list, shmt_tensor* alias, const shmt_tensor* output) {
  for (; list && list->n < SHMT_SCHEMA_MAX_RETURNS; list = list->outer) {
    list->alias[list->n] = shmt__tensor_ref(alias);
    list->output[list->n++] = output;
  }
}

/* All of them, also those that are hidden while the operator runs. */
static SHMT_COLD shmt_status copy_tangents(shmt_tensor* to, shmt_tensor* from) {
  __attribute__((cleanup(shmt__auto_hidden_levels), unused)) shmt__hidden_levels hidden = shmt__tls_hidden;
  shmt__tls_hidden = (shmt__hidden_levels){INT64_MAX, 0};
  return shmt__tangents_copy(to, from);
}

static SHMT_COLD shmt_status save_packed(shmt__saved* s, shmt_tensor* t, bool detach, const shmt__saved_hooks* hooks) {
  packed* p = calloc(1, sizeof *p);
  if (!p) return out_of_memory();
  p->hooks = hooks;
  SHMT_AUTO(shmt_tensor) plain = NULL;
  shmt_status status = detach ? shmt__tensor_detached(t, &plain) : shmt__gradient_edge(t, &p->edge);
  if (SHMT_UNLIKELY(plain != NULL && shmt__tls_saved_outputs != NULL)) note_output(shmt__tls_saved_outputs, plain, t);
  if (status == SHMT_OK) status = call_pack(hooks, plain ? plain : t, &p->data);
  if (status != SHMT_OK) {
    if (p->edge.node) shmt__node_release(p->edge.node);
    free(p);
    return status;
  }
  hooks->retain(hooks->ctx);
  s->hook_data = (char*)p + IS_PACKED;
  return SHMT_OK;
}

static shmt_status save_output(shmt__saved* s, shmt_tensor* t) {
  shmt__version_cell* cell = cell_of(t);
  if (!cell) return out_of_memory();
  s->hook_data = cell;
  SHMT_TRY(shmt__tensor_detached(t, &s->tensor));
  if (SHMT_UNLIKELY(shmt__tls_saved_outputs != NULL)) note_output(shmt__tls_saved_outputs, s->tensor, t);
  if (SHMT_UNLIKELY((shmt__tensor_own_keys(t) & SHMT_KEYBIT_ForwardAD) != 0)) return copy_tangents(s->tensor, t);
  return SHMT_OK;
}

shmt_status shmt__saved_init(shmt__saved* s, shmt_tensor* t, bool is_output) {
  *s = (shmt__saved){0};
  if (!t) return SHMT_OK;
  SHMT_REQUIRE(!(t->flags & SHMT_TENSOR_INFERENCE), SHMT_E_RUNTIME,
               "Inference tensors cannot be saved for backward. Please do not use Tensors created "
               "in inference mode in "
               "computation tracked by autograd. To work around this, you can make a clone to get "
               "a normal tensor and "
               "use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.");
  s->version = shmt__tensor_version(t);
  s->is_output = is_output;
  if (t->autograd && t->autograd->grad_fn) s->output_nr = t->autograd->output_nr;
  if (SHMT_UNLIKELY(shmt__tls_saved_hooks != NULL)) return save_packed(s, t, is_output, shmt__tls_saved_hooks);
  if (is_output) return save_output(s, t);
  s->tensor = shmt__tensor_ref(t);
  return SHMT_OK;
}

shmt_status shmt__saved_init_unaliased(shmt__saved* s, shmt_tensor* t, shmt_tensor* changed) {
  if (SHMT_LIKELY(shmt__tensor_version_root(t) != shmt__tensor_version_root(changed)))
    return shmt__saved_init(s, t, false);
  return shmt__saved_init_copy(s, t);
}

shmt_status shmt__saved_init_copy(shmt__saved* s, shmt_tensor* t) {
  SHMT_AUTO(shmt_tensor) copy = NULL;
  {
    SEE_TANGENTS;
    SHMT_TRY(shmt_op_clone(t, SHMT_MEMORY_FORMAT_NONE, &copy));
  }
  return shmt__saved_init(s, copy, false);
}

void shmt__saved_fini(shmt__saved* s) {
  shmt_tensor* t = s->tensor;
  packed* p = packed_of(s);
  shmt__version_cell* cell = p ? NULL : s->hook_data;
  if (t || p) s->released = true;
  s->tensor = NULL;
  s->hook_data = NULL;
  shmt__tensor_release(t);
  shmt__version_cell_release(cell);
  if (!p) return;
  p->hooks->drop(p->hooks->ctx, p->data);
  p->hooks->release(p->hooks->ctx);
  if (p->edge.node) shmt__node_release(p->edge.node);
  free(p);
}

/* --- unpacking ----------------------------------------------------------------------- */

static SHMT_COLD shmt_status changed(const shmt__saved* s, const shmt_node* owner, uint32_t now) {
  char maker[128] = "";
  const shmt_node* by =
      s->is_output ? owner : (s->tensor->autograd ? s->tensor->autograd->grad_fn : NULL);
  char name[96];
  if (by)
    snprintf(maker, sizeof maker, ", which is output %u of %s,", s->output_nr,
             shmt__node_operator_name(by, name, sizeof name));
  SHMT_FAIL(SHMT_E_RUNTIME,
            "one of the variables needed for gradient computation has been modified by an inplace "
            "operation: "
            "[torch.%sTensor %s]%s is at version %u; expected version %u instead. Hint: %s",
            shmt__dtype_title(s->tensor->dtype), SHMT_SHAPE_TEXT(s->tensor), maker, now, s->version,
            shmt__anomaly_on ? "the backtrace further above shows the operation that failed to "
                               "compute its gradient. The variable in "
                               "question was changed in there or anywhere later. Good luck!"
                             : "enable anomaly detection to find the operation that failed to "
                               "compute its gradient, with "
                               "torch.autograd.set_detect_anomaly(True, check_nan=False).");
}

shmt_status shmt__saved_freed(void) {
  SHMT_FAIL(SHMT_E_RUNTIME,
            "Trying to backward through the graph a second time (or directly access saved tensors after they have "
            "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
            "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if "
            "you need to access saved tensors after calling backward.");
}

static shmt_status give_history(shmt_tensor* fresh, shmt_node* node, uint32_t nr) {
  shmt_autograd_meta* m = shmt__meta_of(fresh);
  if (!m) return SHMT_E_NOMEM;
  shmt__node_retain(node);
  m->grad_fn = node;
  m->output_nr = nr;
  shmt__tensor_set_autograd_bit(fresh, true);
  return SHMT_OK;
}

/* Make an alias of t that is output output_nr of owner again. Where owner changed a view in place, the history of the
 * alias is that of the base. */
static shmt_status with_history(shmt_tensor* t, shmt_node* owner, uint32_t nr, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) again = NULL;
  SHMT_TRY(shmt__tensor_detached(t, &again));
  if (SHMT_UNLIKELY((shmt__tensor_own_keys(t) & SHMT_KEYBIT_ForwardAD) != 0)) SHMT_TRY(copy_tangents(again, t));
  if (SHMT_UNLIKELY(shmt__copy_slices_runs(shmt__tls_current_node, owner))) {
    SHMT_TRY(shmt__copy_slices_region(shmt__tls_current_node, again));
    *out = SHMT_TAKE(again);
    return SHMT_OK;
  }
  SHMT_TRY(give_history(again, owner, nr));
  *out = SHMT_TAKE(again);
  return SHMT_OK;
}

/* The same for an argument: the tensor that the hook returned gets the gradient edge of the tensor that was packed. */
static shmt_status with_edge(shmt_tensor* t, shmt_edge edge, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) again = NULL;
  shmt_edge own;
  SHMT_TRY(shmt__gradient_edge(t, &own));
  if (own.node) shmt__node_release(own.node);
  if (own.node == edge.node && own.input_nr == edge.input_nr) {
    *out = shmt__tensor_ref(t);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__tensor_detached(t, &again));
  if (SHMT_UNLIKELY((shmt__tensor_own_keys(t) & SHMT_KEYBIT_ForwardAD) != 0)) SHMT_TRY(copy_tangents(again, t));
  if (edge.node) SHMT_TRY(give_history(again, edge.node, edge.input_nr));
  *out = SHMT_TAKE(again);
  return SHMT_OK;
}

static SHMT_COLD shmt_status unpack_hooked(const shmt__saved* s, shmt_node* owner,
                                           shmt_tensor** out) {
  const packed* p = packed_of(s);
  SHMT_AUTO(shmt_tensor) t = NULL;
  SHMT_TRY(p->hooks->unpack(p->hooks->ctx, p->data, &t));
  if (s->is_output && shmt__dtype_differentiable(t->dtype))
    return with_history(t, owner, s->output_nr, out);
  if (!s->is_output) return with_edge(t, p->edge, out);
  *out = SHMT_TAKE(t);
  return SHMT_OK;
}

static shmt_status unpack(const shmt__saved* s, shmt_node* owner, bool wants_history, shmt_tensor** out) {
  *out = NULL;
  if (SHMT_UNLIKELY((uintptr_t)s->hook_data & IS_PACKED)) return unpack_hooked(s, owner, out);
  shmt_tensor* t = s->tensor;
  if (SHMT_UNLIKELY(!t)) return s->released ? shmt__saved_freed() : SHMT_OK;
  uint32_t now = s->hook_data ? shmt__version_cell_read(s->hook_data) : shmt__tensor_version(t);
  if (SHMT_UNLIKELY(now != s->version)) return changed(s, owner, now);
  if (s->is_output && wants_history && shmt__dtype_differentiable(t->dtype))
    return with_history(t, owner, s->output_nr, out);
  *out = shmt__tensor_ref(t);
  return SHMT_OK;
}

shmt_status shmt__saved_unpack(const shmt__saved* s, shmt_node* owner, shmt_tensor** out) {
  return unpack(s, owner, shmt__grad_enabled(), out);
}

shmt_status shmt__saved_unpack_for_user(const shmt__saved* s, shmt_node* owner, shmt_tensor** out) {
  return unpack(s, owner, true, out);
}

/* --- hooks on one saved tensor --------------------------------------------------------- */

shmt_status shmt__saved_repack(shmt__saved* s, shmt_node* owner, const shmt__saved_hooks* hooks) {
  SHMT_REQUIRE(
      !packed_of(s), SHMT_E_RUNTIME,
      "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks "
      "is allowed at a time.");
  if (!s->tensor && s->released)
    SHMT_FAIL(
        SHMT_E_RUNTIME,
        "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph "
        "are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
        "through the graph a second time or if you need to access saved variables after calling backward.");
  SHMT_REQUIRE(s->tensor, SHMT_E_RUNTIME, "Calling register_hooks on a saved tensor with value None is forbidden");
  SHMT_AUTO(shmt_tensor) t = NULL;
  SHMT_TRY(shmt__saved_unpack(s, owner, &t));
  shmt__saved again = *s;
  again.tensor = NULL;
  again.hook_data = NULL;
  SHMT_TRY(save_packed(&again, t, s->is_output, hooks));
  shmt__saved_fini(s);
  *s = again;
  return SHMT_OK;
}

void* shmt__saved_packed_data(const shmt__saved* s, const shmt__saved_hooks** hooks) {
  const packed* p = packed_of(s);
  if (!p) return NULL;
  *hooks = p->hooks;
  return p->data;
}
