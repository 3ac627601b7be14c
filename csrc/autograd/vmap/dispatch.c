/* autograd/vmap/dispatch.c -- which level a call belongs to, and the call of its batching rule. */
#include "autograd/vmap/dispatch.h"

#include "autograd/vmap/loop.h"
#include "autograd/vmap/random.h"
#include "generated/ops.h"
#include "os/mutex.h"
#include "storage/allocator.h"

#include <stdlib.h>
#include <string.h>

shmt_status shmt__vmap_wrap(shmt_tensor* value, int dim, int level, shmt_tensor** out) {
  return shmt__batched_create(value, dim, level, shmt__level_at(level)->id, out);
}

/* --- the level of a call -------------------------------------------------------------------------- */

/* The tensors of an argument, as a list. */
static shmt_tensors tensors_of(const shmt_value* v) {
  if (v->tag == SHMT_VALUE_TENSOR) return (shmt_tensors){&v->v.tensor, 1};
  if (v->tag == SHMT_VALUE_TENSORS) return v->v.tensors;
  return (shmt_tensors){NULL, 0};
}

int shmt__vmap_level_of(const shmt_operator* op, const shmt_value* args) {
  int level = 0;
  if (!(shmt__tls_keys.included & SHMT_KEYBIT_FuncTorchDynamicLayerFrontMode)) return 0;
  for (int i = 0; i < op->schema->n_args; i++) {
    const shmt_tensors list = tensors_of(&args[i]);
    for (int64_t k = 0; k < list.len; k++) {
      const shmt__batched* b = list.data[k] ? shmt__batched_of(list.data[k]) : NULL;
      if (b && b->level > level) level = b->level;
    }
  }
  return level;
}

static SHMT_COLD shmt_status fail_escaped(const shmt_operator* op) {
  char name[128];
  SHMT_FAIL(SHMT_E_RUNTIME,
            "%s(): Either your tensor may have escaped from inside a function being vmapped and this is a user error "
            "(see https://pytorch.org/functorch/stable/ux_limitations.html), or it is used in another thread than the "
            "one that called vmap",
            shmt__operator_name(op, name, sizeof name));
}

/* The highest level among the arguments, 0 when there is none, and whether a tensor of it requires grad. */
static shmt_status find_level(const shmt_operator* op, const shmt_value* args, int* level, bool* wants_grad) {
  *level = 0;
  *wants_grad = false;
  for (int i = 0; i < op->schema->n_args; i++) {
    const shmt_tensors list = tensors_of(&args[i]);
    for (int64_t k = 0; k < list.len; k++) {
      const shmt__batched* b = list.data[k] ? shmt__batched_of(list.data[k]) : NULL;
      if (b == NULL) continue;
      if (!shmt__level_is_live(b)) return fail_escaped(op);
      if (b->level > *level) {
        *level = b->level;
        *wants_grad = false;
      }
      if (b->level == *level) *wants_grad |= (shmt__tensor_keys(list.data[k]) & SHMT_KEYBIT_Autograd) != 0;
    }
  }
  return SHMT_OK;
}

/* --- unwrapping and wrapping ------------------------------------------------------------------------ */

/* What t stands for at this level. Errors: SHMT_E_RUNTIME when its shape was changed behind the level's back. */
static shmt_status unwrap(shmt_tensor* t, int level, shmt_tensor** out, int* dim) {
  const shmt__batched* b = t ? shmt__batched_of(t) : NULL;
  *dim = SHMT_NOT_BATCHED;
  if (b == NULL || b->level != level) {
    *out = t ? shmt__tensor_ref(t) : NULL;
    return SHMT_OK;
  }
  const int n_dims = b->value->n_dims - (b->dim != SHMT_NOT_BATCHED);
  SHMT_REQUIRE(n_dims == t->n_dims, SHMT_E_RUNTIME,
               "vmap: a tensor with shape %s stands for one with %d dimensions; an operator that does not know of vmap "
               "has made a view of it",
               SHMT_SHAPE_TEXT(t), n_dims);
  *dim = b->dim;
  *out = shmt__tensor_ref(b->value);
  return SHMT_OK;
}

static shmt_status unwrap_list(shmt__batch_call* c, int i) {
  const shmt_tensors list = c->args[i].v.tensors;
  shmt_tensor** values = calloc((size_t)list.len + 1, sizeof *values);
  c->list_dims[i] = calloc((size_t)list.len + 1, sizeof **c->list_dims);
  c->values[i] = (shmt_value){.v.tensors = {values, values ? list.len : 0}, .tag = SHMT_VALUE_TENSORS};
  SHMT_REQUIRE(values != NULL && c->list_dims[i] != NULL, SHMT_E_NOMEM, "vmap: no memory for %lld tensors",
               (long long)list.len);
  c->dims[i] = SHMT_NOT_BATCHED;
  for (int64_t k = 0; k < list.len; k++) {
    SHMT_TRY(unwrap(list.data[k], c->level, &values[k], &c->list_dims[i][k]));
    if (c->list_dims[i][k] != SHMT_NOT_BATCHED) c->dims[i] = c->list_dims[i][k];
  }
  return SHMT_OK;
}

/* The arguments below the level; *is_batched: does one of them have a batch dimension? */
static shmt_status unwrap_all(shmt__batch_call* c, bool* is_batched) {
  *is_batched = false;
  for (int i = 0; i < c->op->schema->n_args; i++) {
    c->values[i] = c->args[i];
    c->dims[i] = SHMT_NOT_BATCHED;
    c->list_dims[i] = NULL;
    if (c->args[i].tag == SHMT_VALUE_TENSOR) {
      c->values[i].v.tensor = NULL;
      SHMT_TRY(unwrap(c->args[i].v.tensor, c->level, &c->values[i].v.tensor, &c->dims[i]));
    } else if (c->args[i].tag == SHMT_VALUE_TENSORS) {
      SHMT_TRY(unwrap_list(c, i));
    }
    *is_batched |= c->dims[i] != SHMT_NOT_BATCHED;
  }
  return SHMT_OK;
}

static void release_values(shmt__batch_call* c) {
  for (int i = 0; i < c->op->schema->n_args; i++) {
    shmt_value* v = &c->values[i];
    if (v->tag == SHMT_VALUE_TENSOR) shmt__tensor_release(v->v.tensor);
    if (v->tag == SHMT_VALUE_TENSORS) {
      for (int64_t k = 0; k < v->v.tensors.len; k++) shmt__tensor_release(v->v.tensors.data[k]);
      free((void*)v->v.tensors.data);
    }
    free(c->list_dims[i]);
    c->list_dims[i] = NULL;
  }
}

/* The argument that a written result is, or NULL. */
static shmt_tensor* written_argument(const shmt__batch_call* c, int result) {
  const shmt_schema* s = c->op->schema;
  for (int i = 0; i < s->n_args; i++)
    if ((s->args[i].flags & SHMT_ARG_WRITE) && s->args[i].alias && s->args[i].alias == s->returns[result].alias &&
        c->args[i].tag == SHMT_VALUE_TENSOR)
      return c->args[i].v.tensor;
  return NULL;
}

static shmt_status wrap_in_place(const shmt__batch_call* c, shmt_tensor** t) {
  shmt_tensor* wrapped = NULL;
  if (*t == NULL) return SHMT_OK;
  SHMT_TRY(shmt__vmap_wrap(*t, c->result_dim, c->level, &wrapped));
  shmt__tensor_release(*t);
  *t = wrapped;
  return SHMT_OK;
}

static shmt_status wrap_results(const shmt__batch_call* c) {
  for (int r = 0; r < c->op->schema->n_returns; r++) {
    shmt_value* v = &c->results[r];
    shmt_tensor* written = written_argument(c, r);
    if (written) {
      shmt__value_fini(v);
      *v = (shmt_value){.v.tensor = shmt__tensor_ref(written), .tag = SHMT_VALUE_TENSOR};
    } else if (v->tag == SHMT_VALUE_TENSOR) {
      SHMT_TRY(wrap_in_place(c, &v->v.tensor));
    } else if (v->tag == SHMT_VALUE_TENSORS) {
      for (int64_t k = 0; k < v->v.tensors.len; k++)
        SHMT_TRY(wrap_in_place(c, (shmt_tensor**)&v->v.tensors.data[k]));
    }
  }
  return SHMT_OK;
}

/* --- the key FuncTorchBatched ---------------------------------------------------------------------- */

/* Views in place change the geometry of what a batched tensor stands for: it takes that over. */
static shmt_status refresh_written(const shmt__batch_call* c) {
  const shmt_schema* s = c->op->schema;
  for (int i = 0; i < s->n_args; i++) {
    const shmt__batched* b = NULL;
    if (!(s->args[i].flags & SHMT_ARG_WRITE) || c->args[i].tag != SHMT_VALUE_TENSOR || !c->args[i].v.tensor) continue;
    b = shmt__batched_of(c->args[i].v.tensor);
    if (b && b->level == c->level && b->dim == SHMT_NOT_BATCHED && c->values[i].v.tensor == b->value)
      SHMT_TRY(shmt__batched_replace(c->args[i].v.tensor, b->value, b->dim));
  }
  return SHMT_OK;
}

/* All examples share the arguments: call below the level. */
static shmt_status call_unbatched(shmt__batch_call* c) {
  c->result_dim = SHMT_NOT_BATCHED;
  SHMT_TRY(shmt__operator_call(c->op, false, 0, c->values, c->results));
  return refresh_written(c);
}

/* What is written must have room for all examples. */
static shmt_status check_written(const shmt__batch_call* c) {
  const shmt_schema* s = c->op->schema;
  for (int i = 0; i < s->n_args; i++) {
    SHMT_REQUIRE(!(s->args[i].flags & SHMT_ARG_OUT), SHMT_E_RUNTIME,
                 "Batching rule not implemented for %s%s.%s; the fallback path doesn't work on out= or view ops.",
                 shmt__schema_namespace(s), s->name, s->overload);
    SHMT_REQUIRE(!(s->args[i].flags & SHMT_ARG_WRITE) || c->args[i].tag != SHMT_VALUE_TENSOR ||
                     !c->args[i].v.tensor || c->dims[i] != SHMT_NOT_BATCHED,
                 SHMT_E_RUNTIME,
                 "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
                 "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but "
                 "`self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace "
                 "arithmetic. If said operator is being called inside the PyTorch framework, please file a bug report "
                 "instead.");
  }
  return SHMT_OK;
}

static shmt_status run_rule(shmt__batch_call* c, bool is_batched) {
  if (is_batched) SHMT_TRY(check_written(c));
  SHMT_BELOW_LEVEL(c->level);
  if (c->op->is_random) return shmt__batch_random(c);
  if (!is_batched) return call_unbatched(c);
  return c->op->batch ? c->op->batch(c) : shmt__batch_loop(c);
}

/* Is it made of other operators, which have their own rules? */
static bool is_decomposed(const shmt_operator* op) {
  return op->is_decomposed || shmt__operator_has_kernel(op, SHMT_ALIAS_CompositeImplicitAutograd);
}

static bool any_tangent(const shmt_operator* op, const shmt_value* args) {
  for (int i = 0; i < op->schema->n_args; i++) {
    const shmt_tensors list = tensors_of(&args[i]);
    for (int64_t k = 0; k < list.len; k++)
      if (list.data[k] && (shmt__tensor_keys(list.data[k]) & SHMT_KEYBIT_ForwardAD)) return true;
  }
  return false;
}

/* Is a composite, which has kernels of neither Autograd nor ForwardAD, to be recorded at its level, or are tangents to
 * follow? Then it is made of its parts, also when it has a rule. */
static bool is_differentiated(const shmt_operator* op, const shmt_value* args) {
  int level;
  bool wants_grad;
  if (!(shmt__tls_keys.excluded & SHMT_KEYBIT_ForwardAD) && any_tangent(op, args)) return true;
  if (!shmt__grad_enabled() || (shmt__tls_keys.excluded & SHMT_KEYBIT_Autograd)) return false;
  return find_level(op, args, &level, &wants_grad) == SHMT_OK && wants_grad;
}

static shmt_status batched_kernel(void* ctx, const shmt_operator* op, shmt_keyset ks, const shmt_value* args,
                                  shmt_value* results) {
  (void)ctx;
  int level;
  bool wants_grad, is_batched;
  if (is_decomposed(op) && (!op->batch || is_differentiated(op, args))) {
    const shmt_keyset backend = ks & (SHMT_KEYBIT_CPU | SHMT_KEYBIT_Meta | SHMT_KEYBIT_NoMemory);
    return shmt__operator_call(op, true, backend, args, results);
  }
  if (op->decomposition) return op->call_unboxed(op->decomposition, op, ks, args, results);
  SHMT_TRY(find_level(op, args, &level, &wants_grad));
  if (level == 0) return shmt__operator_call(op, true, shmt__keys_below(ks, SHMT_KEY_FuncTorchBatched), args, results);
  shmt__batch_call c = {
      .op = op,
      .args = args,
      .results = results,
      .batch_size = shmt__level_at(level)->batch_size,
      .randomness = shmt__level_at(level)->randomness,
      .level = level,
  };
  shmt_status status = unwrap_all(&c, &is_batched);
  if (status == SHMT_OK) status = run_rule(&c, is_batched);
  if (status == SHMT_OK) status = wrap_results(&c);
  release_values(&c);
  return status;
}

/* --- the key FuncTorchDynamicLayerFrontMode ---------------------------------------------------------- */

static bool is_argument(const shmt_operator* op, const shmt_value* args, const shmt_tensor* t) {
  for (int i = 0; i < op->schema->n_args; i++) {
    const shmt_tensors list = tensors_of(&args[i]);
    for (int64_t k = 0; k < list.len; k++)
      if (list.data[k] == t) return true;
  }
  return false;
}

/* Make *t a tensor of the level, unless it is one or has been given. */
static shmt_status adopt(const shmt_operator* op, const shmt_value* args, int level, shmt_tensor** t) {
  const shmt__batched* b = *t ? shmt__batched_of(*t) : NULL;
  shmt_tensor* wrapped = NULL;
  if (!*t || (b && b->level == level) || is_argument(op, args, *t)) return SHMT_OK;
  SHMT_TRY(shmt__vmap_wrap(*t, SHMT_NOT_BATCHED, level, &wrapped));
  shmt__tensor_release(*t);
  *t = wrapped;
  return SHMT_OK;
}

/* Results that operators make inside of grad or jvp inside of vmap belong to the vmap level, see Note [Levels]. */
static shmt_status adopt_results(const shmt_operator* op, const shmt_value* args, shmt_value* results) {
  const int level = shmt__level_of_vmap();
  for (int r = 0; r < op->schema->n_returns; r++) {
    shmt_value* v = &results[r];
    if (v->tag == SHMT_VALUE_TENSOR) SHMT_TRY(adopt(op, args, level, &v->v.tensor));
    for (int64_t k = 0; v->tag == SHMT_VALUE_TENSORS && k < v->v.tensors.len; k++)
      SHMT_TRY(adopt(op, args, level, (shmt_tensor**)&v->v.tensors.data[k]));
  }
  return SHMT_OK;
}

/* No tensor of a level is among the arguments. */
static shmt_status call_outside_levels(const shmt_operator* op, shmt_keyset below, const shmt_value* args,
                                       shmt_value* results) {
  const int level = shmt__level_of_vmap();
  if (level == 0) return shmt__operator_call(op, true, below, args, results);
  const bool adopts = shmt__level_adopts();
  if (op->is_random && !is_decomposed(op)) {
    shmt__batch_call c = {
        .op = op,
        .args = args,
        .results = results,
        .batch_size = shmt__level_at(level)->batch_size,
        .randomness = shmt__level_at(level)->randomness,
        .level = level,
    };
    bool is_batched;
    shmt_status status = unwrap_all(&c, &is_batched);
    if (status == SHMT_OK) status = run_rule(&c, false);
    if (status == SHMT_OK && (adopts || c.result_dim != SHMT_NOT_BATCHED)) status = wrap_results(&c);
    release_values(&c);
    return status;
  }
  if (!adopts) return shmt__operator_call(op, true, below, args, results);
  const int before = shmt__level_begin_own_work();
  const shmt_status status = shmt__operator_call(op, true, below, args, results);
  shmt__level_end_own_work(before);
  return status == SHMT_OK ? adopt_results(op, args, results) : status;
}

static shmt_status front_kernel(void* ctx, const shmt_operator* op, shmt_keyset ks, const shmt_value* args,
                                shmt_value* results) {
  (void)ctx;
  shmt_keyset below = shmt__keys_below(ks, SHMT_KEY_FuncTorchDynamicLayerFrontMode);
  int level;
  bool wants_grad;
  SHMT_TRY(find_level(op, args, &level, &wants_grad));
  if (level == 0) return call_outside_levels(op, below, args, results);
  if (!wants_grad) below &= ~(shmt_keyset)SHMT_KEYBIT_Autograd;
  return shmt__operator_call(op, true, below, args, results);
}

/* --- installing -------------------------------------------------------------------------------------- */

static shmt_status install(void) {
  static const shmt__kernel front = {.boxed = front_kernel, .where = "vmap"};
  static const shmt__kernel batched = {.boxed = batched_kernel, .where = "vmap"};
  shmt__registration* r; /* for the life of the process */
  SHMT_TRY(shmt__key_fallback(SHMT_KEY_FuncTorchDynamicLayerFrontMode, &front, NULL, &r));
  return shmt__key_fallback(SHMT_KEY_FuncTorchBatched, &batched, NULL, &r);
}

SHMT_STATIC_MUTEX(install_lock, SHMT_MUTEX_VMAP)

shmt_status shmt__vmap_install(void) {
  static bool done;
  shmt_status status = SHMT_OK;
  shmt__mutex_lock(&install_lock);
  if (!done) status = install();
  done |= status == SHMT_OK;
  shmt__mutex_unlock(&install_lock);
  return status;
}
