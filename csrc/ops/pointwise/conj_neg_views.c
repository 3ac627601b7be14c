/* ops/pointwise/conj_neg_views.c -- conj and neg views: tensors whose elements are the conjugate or negative of the
 * memory. */
#include "ops/pointwise/conj_neg_views.h"

#include "base/dtype.h"
#include "dispatch/registry.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "storage/allocator.h"

#include <string.h>

/* A view of the same memory with the given conj and neg bits. */
static shmt_status with_bits(shmt_tensor* t, uint32_t bits, shmt_tensor** out) {
  SHMT_TRY(shmt__tensor_alias(t, shmt__tensor_sizes(t), shmt__tensor_strides(t), t->offset, out));
  shmt__tensor_set_conj_neg(*out, bits);
  return SHMT_OK;
}

static shmt_keyset backend(const shmt_tensor* t) { return shmt__tensor_backend(t); }

shmt_status shmt__resolve_conj_neg(shmt_tensor* t, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) raw = NULL;
  if (!shmt__tensor_is_conj_neg(t)) {
    *out = shmt__tensor_ref(t);
    return SHMT_OK;
  }
  SHMT_TRY(with_bits(t, 0, &raw));
  if (!(t->flags & SHMT_TENSOR_CONJ)) return shmt_op_neg_below(backend(t), raw, out);
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_TRY(shmt_op__conj_complex_below(backend(t), raw, &result));
  if (t->flags & SHMT_TENSOR_NEG) SHMT_TRY(shmt_op_neg__below(backend(t), result));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Writes values to the memory of t so that t, read through its bits, equals them. t is resized to their sizes. */
static shmt_status write_back(shmt_tensor* t, shmt_tensor* values) {
  SHMT_AUTO(shmt_tensor) raw = NULL;
  SHMT_TRY(shmt__tensor_resize(t, shmt__tensor_sizes(values), SHMT_MEMORY_FORMAT_NONE));
  SHMT_TRY(with_bits(t, 0, &raw));
  if (!(t->flags & SHMT_TENSOR_CONJ)) return shmt_op_neg_out_below(backend(t), values, raw);
  SHMT_TRY(shmt_op__conj_complex_out_below(backend(t), values, raw));
  return t->flags & SHMT_TENSOR_NEG ? shmt_op_neg__below(backend(t), raw) : SHMT_OK;
}

/* --- the kernel of the keys Conjugate and Negative ---------------------------------------------- */

/* A copy of a call's arguments in which tensors with bits are replaced by resolved ones. */
typedef struct replacement {
  shmt_value* args;
  int n;
  bool is_recorded; /* the call is a composite under Autograd: resolving must be recorded */
} replacement;

static shmt_status resolve_one(const replacement* r, shmt_tensor* t, shmt_tensor** out) {
  if (!r->is_recorded) return shmt__resolve_conj_neg(t, out);
  SHMT_AUTO(shmt_tensor) plain = NULL;
  SHMT_TRY(shmt_op_resolve_conj(t, &plain));
  return shmt_op_resolve_neg(plain, out);
}

static bool has_conj_neg(shmt_tensors list) {
  for (int64_t i = 0; i < list.len; i++)
    if (list.data[i] && shmt__tensor_is_conj_neg(list.data[i])) return true;
  return false;
}

/* A new list with resolved tensors. It owns its memory and references. */
static shmt_status resolve_list(const replacement* r, shmt_tensors list, shmt_value* out) {
  void* data = NULL;
  SHMT_TRY(shmt__alloc_zeroed((uint64_t)list.len * sizeof(shmt_tensor*), &data));
  shmt_tensor** fresh = data;
  out->v.tensors = (shmt_tensors){fresh, list.len}; /* the caller frees it, also when this function fails */
  for (int64_t i = 0; i < list.len; i++)
    if (list.data[i]) SHMT_TRY(resolve_one(r, list.data[i], &fresh[i]));
  return SHMT_OK;
}

/* Fills r->args. A value that differs from the original is a replacement, which release_replacements releases. */
static shmt_status resolve_arguments(replacement* r, const shmt_value* args) {
  memcpy(r->args, args, (size_t)r->n * sizeof *args);
  for (int i = 0; i < r->n; i++) {
    if (args[i].tag == SHMT_VALUE_TENSOR && args[i].v.tensor &&
        shmt__tensor_is_conj_neg(args[i].v.tensor)) {
      shmt_tensor* fresh = NULL;
      SHMT_TRY(resolve_one(r, args[i].v.tensor, &fresh));
      r->args[i].v.tensor = fresh;
    } else if (args[i].tag == SHMT_VALUE_TENSORS && has_conj_neg(args[i].v.tensors)) {
      SHMT_TRY(resolve_list(r, args[i].v.tensors, &r->args[i]));
    }
  }
  return SHMT_OK;
}

static shmt_status write_one(const replacement* r, shmt_tensor* t, shmt_tensor* values) {
  if (t == values) return SHMT_OK;
  return r->is_recorded ? shmt_op_copy_(t, values, false) : write_back(t, values);
}

static shmt_status write_arguments(const replacement* r, const shmt_schema* schema,
                                   const shmt_value* args) {
  for (int i = 0; i < r->n; i++) {
    if (!(schema->args[i].flags & SHMT_ARG_WRITE)) continue;
    if (args[i].tag == SHMT_VALUE_TENSOR && args[i].v.tensor)
      SHMT_TRY(write_one(r, args[i].v.tensor, r->args[i].v.tensor));
    if (args[i].tag == SHMT_VALUE_TENSORS)
      for (int64_t k = 0; k < args[i].v.tensors.len; k++)
        if (args[i].v.tensors.data[k])
          SHMT_TRY(write_one(r, args[i].v.tensors.data[k], r->args[i].v.tensors.data[k]));
  }
  return SHMT_OK;
}

static void release_replacements(replacement* r, const shmt_value* args) {
  for (int i = 0; i < r->n; i++) {
    if (args[i].tag == SHMT_VALUE_TENSOR && r->args[i].v.tensor != args[i].v.tensor)
      shmt__tensor_release(r->args[i].v.tensor);
    if (args[i].tag == SHMT_VALUE_TENSORS && r->args[i].v.tensors.data != args[i].v.tensors.data)
      shmt__value_fini(&r->args[i]);
  }
}

static shmt_status resolve_and_call(void* ctx, const shmt_operator* op, shmt_keyset ks,
                                    const shmt_value* args, shmt_value* results) {
  const uint64_t nbytes = op->schema->n_args * sizeof *args;
  void* fresh = NULL;
  (void)ctx;
  SHMT_TRY(shmt__alloc(nbytes, &fresh));
  replacement r = {fresh, op->schema->n_args, (ks & SHMT_KEYBIT_Autograd) != 0};
  const shmt_keyset below = ks & ~(shmt_keyset)(SHMT_KEYBIT_Conjugate | SHMT_KEYBIT_Negative);
  shmt_status status = resolve_arguments(&r, args);
  if (status == SHMT_OK) status = shmt__operator_call(op, true, below, fresh, results);
  if (status == SHMT_OK) status = write_arguments(&r, op->schema, args);
  release_replacements(&r, args);
  shmt__dealloc(fresh, nbytes);
  return status;
}

const shmt__kernel shmt__conj_neg_fallback = {.boxed = resolve_and_call,
                                              .where = "csrc/ops/pointwise/conj_neg_views.c"};

/* --- operators ----------------------------------------------------------------------------------- */

shmt_status shmt__impl_conj_view(shmt_tensor* self, shmt_tensor** out) {
  SHMT_REQUIRE(shmt__is_complex(self->dtype), SHMT_E_RUNTIME,
               "_conj: expected a complex tensor, got one of dtype %s",
               shmt__dtype_title(self->dtype));
  return with_bits(self, (self->flags & SHMT_TENSOR_CONJ_NEG) ^ SHMT_TENSOR_CONJ, out);
}

shmt_status shmt__impl_neg_view(shmt_tensor* self, shmt_tensor** out) {
  SHMT_REQUIRE(shmt__conj_neg_bits_fit(self->dtype, SHMT_TENSOR_NEG), SHMT_E_RUNTIME,
               "_neg_view: expected a floating or complex tensor, got one of dtype %s",
               shmt__dtype_title(self->dtype));
  return with_bits(self, (self->flags & SHMT_TENSOR_CONJ_NEG) ^ SHMT_TENSOR_NEG, out);
}

shmt_status shmt__conj(shmt_tensor* self, shmt_tensor** out) {
  if (SHMT_UNLIKELY(self->sparse != NULL)) return shmt__conj_physical(self, out); /* no lazy bit over values */
  if (shmt__is_complex(self->dtype)) return shmt_op__conj(self, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

shmt_status shmt__conj_physical(shmt_tensor* self, shmt_tensor** out) {
  if (shmt__is_complex(self->dtype)) return shmt_op__conj_complex(self, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

shmt_status shmt__conj_physical_(shmt_tensor* self) {
  if (shmt__is_complex(self->dtype)) return shmt_op__conj_complex_(self);
  return shmt_op_copy_(self, self, false); /* counts as a write: leaves that require grad refuse it */
}

shmt_status shmt__resolve_conj(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) raw = NULL;
  if (!(self->flags & SHMT_TENSOR_CONJ)) {
    *out = shmt__tensor_ref(self);
    return SHMT_OK;
  }
  SHMT_TRY(shmt_op__conj(self, &raw));
  return shmt_op__conj_complex(raw, out);
}

shmt_status shmt__resolve_neg(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) raw = NULL;
  if (!(self->flags & SHMT_TENSOR_NEG)) {
    *out = shmt__tensor_ref(self);
    return SHMT_OK;
  }
  SHMT_TRY(shmt_op__neg_view(self, &raw));
  return shmt_op_neg(raw, out);
}

shmt_status shmt__is_conj(shmt_tensor* self, bool* out) {
  *out = (self->flags & SHMT_TENSOR_CONJ) != 0;
  return SHMT_OK;
}

shmt_status shmt__is_neg(shmt_tensor* self, bool* out) {
  *out = (self->flags & SHMT_TENSOR_NEG) != 0;
  return SHMT_OK;
}
