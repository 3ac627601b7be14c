/* autograd/forward/follow.c -- the kernel of the key ForwardAD: an operator's results get their tangents.
 *
 * Note [What the kernel does]
 *   1. It finds the innermost level at which an argument has a tangent, and hides that level.
 *   2. It calls the kernels below, which compute the results and record them as always.
 *   3. It computes the tangents of the results as the operator's record says (jvp.h). This is recorded like any other
 *      calculation when arguments or tangents require grad. What it saves are tensors without the tangents of this
 *      level.
 *   4. The results get them.
 * An operator that is linear and works in place does the same to the tangent. Other in-place operators have their
 * tangent computed before they write, by their functional form.
 */
#include "autograd/forward/follow.h"

#include "autograd/forward/jvp.h"
#include "autograd/forward/tangents.h"
#include "autograd/forward/two_vjps.h"
#include "autograd/meta.h"
#include "autograd/vmap/dispatch.h"
#include "dispatch/registry.h"
#include "generated/ops.h"
#include "ops/scalar_expression.h"

#include <stdlib.h>
#include <string.h>

/* A call with tangents at a level. */
typedef struct dual_call {
  const shmt_operator* op;
  const shmt__jvp* jvp;
  const shmt_value* args;
  shmt_keyset ks;
  shmt__forward_number level;
  int n_args;
  shmt_value tangents[SHMT_SCHEMA_MAX_ARGS]; /* owned */
  shmt_value plain[SHMT_SCHEMA_MAX_ARGS];    /* args, or in their place tensors without tangents */
  shmt_tensor* owned[SHMT_SCHEMA_MAX_ARGS];  /* those tensors */
  shmt_tensor_vec owned_lists[SHMT_SCHEMA_MAX_ARGS];
} dual_call;

static void dual_call_fini(dual_call* d) {
  for (int i = 0; i < d->n_args; i++) {
    shmt__value_fini(&d->tangents[i]);
    shmt__tensor_release(d->owned[i]);
    shmt__tensor_vec_fini(&d->owned_lists[i]);
  }
}

static void raise_level(shmt__forward_number* highest, const shmt_tensor* t) {
  const shmt__forward_number level = shmt__tangent_level(t);
  if (level > *highest) *highest = level;
}

/* The innermost level to be followed; SHMT_NO_LEVEL: none, or none of those that belong to this call, see
 * Note [Levels of forward mode]. */
static shmt__forward_number highest_level(const shmt_operator* op, const shmt_value* args) {
  shmt__forward_number highest = SHMT_NO_LEVEL;
  for (int i = 0; i < op->schema->n_args; i++) {
    if (args[i].tag == SHMT_VALUE_TENSOR) raise_level(&highest, args[i].v.tensor);
    for (int64_t k = 0; args[i].tag == SHMT_VALUE_TENSORS && k < args[i].v.tensors.len; k++)
      raise_level(&highest, args[i].v.tensors.data[k]);
  }
  const int vmap_level = shmt__vmap_level_of(op, args);
  return vmap_level && highest < shmt__forward_level_inside(vmap_level) ? SHMT_NO_LEVEL : highest;
}

/* What computing the tangents of a level needs: that it is hidden, and that the thread is inside of no vmap that began
 * inside of it. */
typedef struct at_level {
  shmt__level_guard transforms;
  shmt__thread_keys keys;
  shmt__hidden_levels hidden;
  bool outside;
} at_level;

static at_level enter_level(shmt__forward_number level) {
  const int vmap_level = shmt__forward_level_vmap_inside(level);
  at_level guard = {.keys = shmt__tls_keys, .hidden = shmt__tls_hidden, .outside = vmap_level != 0};
  if (guard.outside) guard.transforms = shmt__level_below(vmap_level);
  if (shmt__forward_level_is_outermost(level)) shmt__tls_keys.excluded |= SHMT_KEYBIT_ForwardAD;
  shmt__tls_hidden = shmt__hidden_with(level);
  return guard;
}

static void leave_level(const at_level* guard) {
  if (guard->outside) shmt__level_restore(&guard->transforms);
  shmt__tls_keys = guard->keys;
  shmt__tls_hidden = guard->hidden;
}
#define AT_LEVEL(level) __attribute__((cleanup(leave_level), unused)) at_level at_level_ = enter_level(level)

/* --- arguments ------------------------------------------------------------------------------------ */

static shmt_status take_list(shmt_tensors list, shmt__forward_number level, shmt_value* out) {
  SHMT_AUTO_LIST vec = {0, 0};
  bool any = false;
  SHMT_TRY(shmt__tensor_vec_alloc(list.len, &vec));
  for (int64_t k = 0; k < list.len; k++) {
    if (list.data[k]) SHMT_TRY(shmt__tangent_of(list.data[k], level, &vec.data[k]));
    any |= vec.data[k] != NULL;
  }
  if (!any) return SHMT_OK;
  *out = (shmt_value){.v.tensors = {vec.data, vec.len}, .tag = SHMT_VALUE_TENSORS};
  vec = (shmt_tensor_vec){0, 0};
  return SHMT_OK;
}

static shmt_status take_tangents(dual_call* d) {
  for (int i = 0; i < d->n_args; i++) {
    const shmt_value* v = &d->args[i];
    if (v->tag == SHMT_VALUE_TENSOR && v->v.tensor) {
      SHMT_TRY(shmt__tangent_of(v->v.tensor, d->level, &d->tangents[i].v.tensor));
      if (d->tangents[i].v.tensor) d->tangents[i].tag = SHMT_VALUE_TENSOR;
    } else if (v->tag == SHMT_VALUE_TENSORS && v->v.tensors.len > 0) {
      SHMT_TRY(take_list(v->v.tensors, d->level, &d->tangents[i]));
    }
  }
  return SHMT_OK;
}

/* Is a calculation with t recorded, or one with what t stands for? That goes by the mode outside of the vmap. */
static bool wants_grad(const shmt_tensor* t) {
  if (!t) return false;
  if (shmt__wants_grad(t) && shmt__grad_enabled()) return true;
  const shmt__batched* b = shmt__batched_of(t);
  return b && shmt__any_requires_grad(b->value);
}

/* Is the calculation of the tangents recorded? */
static bool is_recorded(const dual_call* d) {
  bool any = false;
  for (int i = 0; i < d->n_args; i++)
    for (int which = 0; which < 2; which++) {
      const shmt_value* v = which ? &d->tangents[i] : &d->args[i];
      if (v->tag == SHMT_VALUE_TENSOR) any |= wants_grad(v->v.tensor);
      for (int64_t k = 0; v->tag == SHMT_VALUE_TENSORS && k < v->v.tensors.len; k++)
        any |= wants_grad(v->v.tensors.data[k]);
    }
  return any;
}

static shmt_status plain_list(dual_call* d, int i) {
  const shmt_tensors list = d->args[i].v.tensors;
  shmt_tensor_vec* vec = &d->owned_lists[i];
  SHMT_TRY(shmt__tensor_vec_alloc(list.len, vec));
  for (int64_t k = 0; k < list.len; k++) {
    if (!list.data[k]) continue;
    if (d->tangents[i].v.tensors.data[k])
      SHMT_TRY(shmt__without_hidden_tangents(list.data[k], &vec->data[k]));
    else
      vec->data[k] = shmt__tensor_ref(list.data[k]);
  }
  d->plain[i].v.tensors = (shmt_tensors){vec->data, vec->len};
  return SHMT_OK;
}

/* What is hidden now may be seen when a node that saved it runs: where something is recorded, the tangents are computed
 * from tensors that have none. */
static shmt_status take_plain(dual_call* d) {
  memcpy(d->plain, d->args, (size_t)d->n_args * sizeof *d->plain);
  if (!is_recorded(d)) return SHMT_OK;
  for (int i = 0; i < d->n_args; i++) {
    if (d->tangents[i].tag == SHMT_VALUE_TENSOR) {
      SHMT_TRY(shmt__without_hidden_tangents(d->args[i].v.tensor, &d->owned[i]));
      d->plain[i].v.tensor = d->owned[i];
    } else if (d->tangents[i].tag == SHMT_VALUE_TENSORS) {
      SHMT_TRY(plain_list(d, i));
    }
  }
  return SHMT_OK;
}

/* --- results -------------------------------------------------------------------------------------- */

static bool is_view(const shmt_schema* s) {
  return s->n_returns > 0 && s->returns[0].alias != 0 && !(s->returns[0].flags & SHMT_ARG_WRITE);
}

static const shmt_storage* memory_of(const shmt_tensor* t) { return shmt__all_examples((shmt_tensor*)t)->storage; }

static bool shares(const shmt_value* v, const shmt_storage* s) {
  if (v->tag == SHMT_VALUE_TENSOR) return v->v.tensor && memory_of(v->v.tensor) == s;
  for (int64_t k = 0; v->tag == SHMT_VALUE_TENSORS && k < v->v.tensors.len; k++)
    if (v->v.tensors.data[k] && memory_of(v->v.tensors.data[k]) == s) return true;
  return false;
}

/* Does the tangent lie in memory of an argument or of its tangent? A later change in place would be seen there. */
static bool is_borrowed(const dual_call* d, const shmt_tensor* tangent) {
  const shmt_storage* memory = memory_of(tangent);
  for (int i = 0; i < d->n_args; i++)
    if (shares(&d->args[i], memory) || shares(&d->tangents[i], memory)) return true;
  return false;
}

/* *tangent as the tangent of result: in its dtype, in memory of its own. */
static shmt_status own(const dual_call* d, shmt_tensor* result, shmt_tensor** tangent) {
  SHMT_AUTO(shmt_tensor) t = SHMT_TAKE(*tangent);
  if (!shmt__same_sizes(t, result)) {
    /* The term of an argument that is broadcast. */
    SHMT_AUTO(shmt_tensor) whole = NULL;
    SHMT_TRY(shmt_op_expand(t, shmt__tensor_sizes(result), false, &whole));
    return shmt_op_clone(whole, SHMT_CONTIGUOUS_FORMAT, tangent);
  }
  if (t->dtype != result->dtype)
    return shmt_op__to_copy(t, result->dtype, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0}, false,
                            SHMT_MEMORY_FORMAT_NONE, tangent);
  if (is_borrowed(d, t)) return shmt_op_clone(t, SHMT_MEMORY_FORMAT_NONE, tangent);
  *tangent = SHMT_TAKE(t);
  return SHMT_OK;
}

static shmt_status give_to_saved(const dual_call* d, const shmt__saved_outputs* saved, const shmt_tensor* output,
                                 shmt_tensor* tangent) {
  for (int i = 0; i < saved->n; i++)
    if (saved->output[i] == output) SHMT_TRY(shmt__tangent_set(saved->alias[i], d->level, tangent));
  return SHMT_OK;
}

static shmt_status give(const dual_call* d, const shmt__saved_outputs* saved, shmt_tensor* result,
                        shmt_tensor** tangent) {
  if (!*tangent || !result || !shmt__dtype_differentiable(result->dtype)) return SHMT_OK;
  if (!is_view(d->op->schema)) SHMT_TRY(own(d, result, tangent));
  SHMT_TRY(shmt__tangent_set(result, d->level, *tangent));
  return give_to_saved(d, saved, result, *tangent);
}

static shmt_status give_all(const dual_call* d, const shmt__saved_outputs* saved, const shmt_value* results,
                            shmt_value* tangents) {
  for (int r = 0; r < d->op->schema->n_returns; r++) {
    if (!(d->jvp->results >> r & 1)) continue;
    if (results[r].tag == SHMT_VALUE_TENSOR && tangents[r].tag == SHMT_VALUE_TENSOR)
      SHMT_TRY(give(d, saved, results[r].v.tensor, &tangents[r].v.tensor));
    if (results[r].tag == SHMT_VALUE_TENSORS && tangents[r].tag == SHMT_VALUE_TENSORS)
      for (int64_t k = 0; k < results[r].v.tensors.len; k++)
        SHMT_TRY(give(d, saved, results[r].v.tensors.data[k], &((shmt_tensor**)tangents[r].v.tensors.data)[k]));
  }
  return SHMT_OK;
}

/* --- calls ---------------------------------------------------------------------------------------- */

static shmt_status call_below(const shmt_operator* op, shmt_keyset ks, const shmt_value* args, shmt_value* results) {
  SHMT_KEYS_GUARD(guard);
  shmt__tls_keys.excluded |= SHMT_KEYBIT_ForwardAD;
  return shmt__operator_call(op, true, shmt__keys_below(ks, SHMT_KEY_ForwardAD), args, results);
}

static void saved_outputs_fini(shmt__saved_outputs* saved) {
  for (int i = 0; i < saved->n; i++) shmt__tensor_release(saved->alias[i]);
}

/* The operator without tangents of the level. With outer levels the call goes through the kernel again. */
static shmt_status call_hidden(const dual_call* d, shmt__saved_outputs* saved, shmt_value* results) {
  shmt__saved_outputs* before = shmt__tls_saved_outputs;
  shmt_status status;
  saved->hidden = before ? before->hidden : shmt__tls_hidden;
  saved->outer = before;
  SHMT_HIDE_LEVEL(d->level);
  shmt__tls_saved_outputs = saved;
  if (shmt__forward_level_is_outermost(d->level))
    status = call_below(d->op, d->ks, d->args, results);
  else
    status = shmt__operator_call(d->op, true, d->ks, d->args, results);
  shmt__tls_saved_outputs = before;
  return status;
}

static shmt_status compute(const dual_call* d, const shmt_operator* op, const shmt_value* results, shmt_value* out) {
  const shmt__jvp_call c = {op, d->jvp, d->plain, results, d->tangents};
  return shmt__jvp_compute(&c, out);
}

/* The tangents of results by the functional form, which has just been called or is called when they are read. */
static shmt_status tangents_of_functional(dual_call* d, const shmt_operator* op, const shmt_value* known,
                                          shmt_value* out) {
  shmt_value results[SHMT_SCHEMA_MAX_RETURNS] = {0};
  shmt_tensor* plain[SHMT_SCHEMA_MAX_RETURNS] = {0};
  const int n = op->schema->n_returns;
  const bool reads = d->jvp->kind == SHMT_JVP_ZERO || (d->jvp->kind == SHMT_JVP_EXPRESSION && d->jvp->uses_results);
  shmt_status status = SHMT_OK;
  if (known) {
    /* A result is an argument of the recorded calculation: without the tangent that it is about to get. */
    memcpy(results, known, (size_t)n * sizeof *results);
    for (int r = 0; r < n && reads && status == SHMT_OK && is_recorded(d); r++)
      if (results[r].tag == SHMT_VALUE_TENSOR && results[r].v.tensor) {
        status = shmt__without_hidden_tangents(results[r].v.tensor, &plain[r]);
        results[r].v.tensor = plain[r];
      }
  } else if (reads) {
    status = shmt__operator_call(op, false, 0, d->plain, results);
  } else {
    /* Formulas may ask for the shape and dtype of the result, which are those of what is changed. */
    results[0] = (shmt_value){.v.tensor = shmt__tensor_ref(d->plain[0].v.tensor), .tag = SHMT_VALUE_TENSOR};
  }
  if (status == SHMT_OK) status = compute(d, op, results, out);
  for (int r = 0; r < n; r++) shmt__tensor_release(plain[r]);
  if (!known) shmt__results_drop(results, n);
  return status;
}

/* Results of an operator, which are released at the end of the scope. */
typedef struct results_of {
  shmt_value v[SHMT_SCHEMA_MAX_RETURNS];
} results_of;
static void results_of_fini(results_of* r) { shmt__results_drop(r->v, SHMT_SCHEMA_MAX_RETURNS); }
#define AUTO_RESULTS __attribute__((cleanup(results_of_fini))) results_of

static shmt_status follow_functional(dual_call* d, shmt_value* results) {
  __attribute__((cleanup(saved_outputs_fini))) shmt__saved_outputs saved = {0};
  AUTO_RESULTS out = {0};
  SHMT_TRY(call_hidden(d, &saved, results));
  {
    AT_LEVEL(d->level);
    SHMT_TRY(take_plain(d));
    SHMT_TRY(tangents_of_functional(d, d->op, results, out.v));
    return give_all(d, &saved, results, out.v);
  }
}

/* --- in place ------------------------------------------------------------------------------------- */

/* The operator changes the geometry of its argument: the tangent, which others may hold, is replaced. */
static shmt_status change_geometry(dual_call* d, shmt_tensor* self) {
  SHMT_AUTO(shmt_tensor) before = NULL;
  SHMT_AUTO(shmt_tensor) changed = NULL;
  AUTO_RESULTS again = {0};
  shmt_value args[SHMT_SCHEMA_MAX_ARGS];
  if (d->tangents[0].tag != SHMT_VALUE_TENSOR) return SHMT_OK;
  SHMT_TRY(shmt_op_alias(d->tangents[0].v.tensor, &changed));
  memcpy(args, d->args, (size_t)d->n_args * sizeof *args);
  args[0].v.tensor = changed;
  SHMT_TRY(shmt__operator_call(d->op, false, 0, args, again.v));
  return shmt__tangent_set(self, d->level, changed);
}

/* A tangent of an argument, a batched one before others: what will be written. */
static shmt_tensor* like_what_is_written(const dual_call* d) {
  shmt_tensor* found = NULL;
  for (int i = 0; i < d->n_args; i++) {
    const shmt_value* v = &d->tangents[i];
    const bool is_one = v->tag == SHMT_VALUE_TENSOR;
    for (int64_t k = 0; k < (is_one ? 1 : v->tag == SHMT_VALUE_TENSORS ? v->v.tensors.len : 0); k++) {
      shmt_tensor* t = is_one ? v->v.tensor : v->v.tensors.data[k];
      const shmt__batched* b = t ? shmt__batched_of(t) : NULL;
      if (t && (!found || (b && b->dim != SHMT_NOT_BATCHED))) found = t;
    }
  }
  return found;
}

static shmt_status change_tangent(dual_call* d, shmt_tensor* self) {
  AUTO_RESULTS again = {0};
  shmt_value fresh[SHMT_SCHEMA_MAX_ARGS] = {0}, args[SHMT_SCHEMA_MAX_ARGS];
  shmt_tensor* own_tangent = NULL;
  SHMT_TRY(shmt__tangent_to_change(self, d->level, like_what_is_written(d), &own_tangent));
  shmt__value_fini(&d->tangents[0]);
  d->tangents[0] = (shmt_value){.v.tensor = own_tangent, .tag = SHMT_VALUE_TENSOR};
  memcpy(args, d->args, (size_t)d->n_args * sizeof *args);
  shmt_status status = shmt__jvp_fill_tangents(d->op, d->jvp, d->args, d->tangents, fresh);
  for (int i = 0; i < d->n_args; i++)
    if (fresh[i].tag != SHMT_VALUE_NONE) args[i] = fresh[i];
  if (status == SHMT_OK) status = shmt__operator_call(d->op, false, 0, args, again.v);
  for (int i = 0; i < d->n_args; i++) shmt__value_fini(&fresh[i]);
  return status;
}

/* The tangents of what an in-place operator will write. Recorded, the calculation keeps what self and its tangent were:
 * a tangent that its own history saves would never be freed. */
static shmt_status tangent_before(dual_call* d, shmt_value* out) {
  if (d->jvp->kind == SHMT_JVP_ZERO) return SHMT_OK;
  if (is_recorded(d)) {
    shmt_tensor* copy = NULL;
    SHMT_TRY(shmt_op_clone(d->plain[0].v.tensor, SHMT_MEMORY_FORMAT_NONE, &copy));
    shmt__tensor_release(d->owned[0]);
    d->owned[0] = d->plain[0].v.tensor = copy;
    if (d->tangents[0].tag == SHMT_VALUE_TENSOR) {
      shmt_tensor* was = NULL;
      SHMT_TRY(shmt_op_clone(d->tangents[0].v.tensor, SHMT_MEMORY_FORMAT_NONE, &was));
      shmt__tensor_release(d->tangents[0].v.tensor);
      d->tangents[0].v.tensor = was;
    }
  }
  return tangents_of_functional(d, d->jvp->functional, NULL, out);
}

static shmt_status write_tangent(const dual_call* d, shmt_tensor* self, shmt_value* tangent) {
  if (d->jvp->kind == SHMT_JVP_ZERO) {
    SHMT_AUTO(shmt_tensor) t = NULL;
    SHMT_TRY(shmt__tangent_to_change(self, d->level, NULL, &t));
    return shmt_op_zero_(t);
  }
  if (tangent->tag != SHMT_VALUE_TENSOR) return SHMT_OK;
  if (is_borrowed(d, tangent->v.tensor)) {
    SHMT_AUTO(shmt_tensor) t = SHMT_TAKE(tangent->v.tensor);
    SHMT_TRY(shmt_op_clone(t, SHMT_MEMORY_FORMAT_NONE, &tangent->v.tensor));
  }
  return shmt__tangent_assign(self, d->level, tangent->v.tensor);
}

static shmt_status follow_inplace(dual_call* d, shmt_value* results) {
  __attribute__((cleanup(saved_outputs_fini))) shmt__saved_outputs saved = {0};
  AUTO_RESULTS out = {0};
  shmt_tensor* self = d->args[0].v.tensor;
  const bool linear = d->jvp->kind == SHMT_JVP_LINEAR;
  if (!shmt__dtype_differentiable(self->dtype)) return call_hidden(d, &saved, results);
  {
    AT_LEVEL(d->level);
    SHMT_TRY(take_plain(d));
    if (!linear) SHMT_TRY(tangent_before(d, out.v));
  }
  SHMT_TRY(call_hidden(d, &saved, results));
  {
    SHMT_AUTO(shmt_tensor) tangent = NULL;
    AT_LEVEL(d->level);
    if (linear && d->op->passes_conj_neg)
      SHMT_TRY(change_geometry(d, self));
    else
      SHMT_TRY(linear ? change_tangent(d, self) : write_tangent(d, self, &out.v[0]));
    SHMT_TRY(shmt__tangent_of(self, d->level, &tangent));
    return tangent ? give_to_saved(d, &saved, self, tangent) : SHMT_OK;
  }
}

/* --- the kernel ------------------------------------------------------------------------------------ */

static SHMT_COLD shmt_status refuse_out(const shmt_operator* op) {
  SHMT_FAIL(SHMT_E_NOT_IMPLEMENTED,
            "Trying to use forward AD with %s_out that does not support it because it is an out= function",
            op->schema->name);
}

static bool has_derivative(const dual_call* d) {
  for (int i = 0; i < d->n_args; i++)
    if (d->jvp->arguments >> i & 1 && d->tangents[i].tag != SHMT_VALUE_NONE) return true;
  return false;
}

static bool is_inplace(const shmt_operator* op) {
  return op->schema->n_args > 0 && (op->schema->args[0].flags & SHMT_ARG_WRITE) && op->schema->n_returns > 0 &&
         (op->schema->returns[0].flags & SHMT_ARG_WRITE);
}

static bool takes_out(const shmt_schema* s) {
  for (int i = 0; i < s->n_args; i++)
    if (s->args[i].flags & SHMT_ARG_OUT) return true;
  return false;
}

static shmt_status follow_level(const shmt_operator* op, shmt_keyset ks, shmt__forward_number level,
                                const shmt_value* args, shmt_value* results) {
  if (takes_out(op->schema)) return refuse_out(op);
  if (!op->jvp) return shmt__jvp_refuse(op);
  __attribute__((cleanup(dual_call_fini))) dual_call d = {
      .op = op, .jvp = op->jvp, .args = args, .ks = ks, .level = level, .n_args = op->schema->n_args};
  const bool inplace = is_inplace(op);
  SHMT_TRY(take_tangents(&d));
  if (!has_derivative(&d)) {
    /* Only what the results do not depend on has a tangent. */
    shmt__saved_outputs saved = {0};
    shmt_status status = call_hidden(&d, &saved, results);
    saved_outputs_fini(&saved);
    return status;
  }
  if (op->jvp->kind == SHMT_JVP_MISSING) return shmt__jvp_refuse(op);
  if (inplace && op->jvp->kind != SHMT_JVP_LINEAR && op->jvp->kind != SHMT_JVP_ZERO && !op->jvp->functional)
    return shmt__jvp_refuse(op);
  return inplace ? follow_inplace(&d, results) : follow_functional(&d, results);
}

static shmt_status follow(void* ctx, const shmt_operator* op, shmt_keyset ks, const shmt_value* args,
                          shmt_value* results) {
  (void)ctx;
  if (!op->call_unboxed) {
    /* An operator of the user's: a kernel at Autograd, such as a Function, follows tangents itself. */
    if (shmt__tls_keys.excluded & SHMT_KEYBIT_Autograd) return call_below(op, ks, args, results); /* it has */
    const shmt_keyset autograd = atomic_load_explicit(&op->mask, memory_order_relaxed) & SHMT_KEYBIT_Autograd;
    return shmt__operator_call(op, true, shmt__keys_below(ks | autograd, SHMT_KEY_ForwardAD), args, results);
  }
  const shmt__forward_number level = shmt__tls_inference_mode ? SHMT_NO_LEVEL : highest_level(op, args);
  if (level == SHMT_NO_LEVEL) return call_below(op, ks, args, results);
  return follow_level(op, ks, level, args, results);
}

const shmt__kernel shmt__forward_fallback = {.boxed = follow, .where = "csrc/autograd/forward/follow.c"};
