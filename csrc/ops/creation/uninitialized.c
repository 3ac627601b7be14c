/* ops/creation/uninitialized.c -- fills what a program gets uninitialised; Note [Uninitialised memory]. */
#include "ops/creation/uninitialized.h"

#include "base/scalar.h"
#include "iter/copy/copy.h"

#include <math.h>
#include <stdatomic.h>

static _Atomic(bool) fills_uninitialized;

void shmt__set_fills_uninitialized(bool fills) {
  atomic_store_explicit(&fills_uninitialized, fills, memory_order_relaxed);
}

bool shmt__fills_uninitialized(void) { return atomic_load_explicit(&fills_uninitialized, memory_order_relaxed); }

/* NaN, the largest integer, true. */
static shmt_scalar conspicuous(shmt_dtype dtype) {
  const int bits = 8 * (int)shmt__dtype_size[dtype];

  if (shmt__dtype_kind[dtype] >= SHMT_KIND_FLOATING) return shmt__scalar_float(NAN);
  if (dtype == SHMT_BOOL) return shmt__scalar_bool(true);
  if (dtype == SHMT_UINT64) return shmt__scalar_uint(UINT64_MAX);
  const bool is_signed = dtype == SHMT_INT8 || dtype == SHMT_INT16 || dtype == SHMT_INT32 || dtype == SHMT_INT64;
  const int n_value_bits = is_signed ? bits - 1 : bits;
  return shmt__scalar_int((int64_t)(UINT64_MAX >> (64 - n_value_bits)));
}

shmt_status shmt__fill_uninitialized(shmt_tensor* t) {
  if (!shmt__fills_uninitialized() || t->sparse || shmt__tensor_is_meta(t) || t->numel == 0) return SHMT_OK;
  return shmt__tensor_fill(t, conspicuous(t->dtype));
}

shmt_status shmt__fill_grown(shmt_tensor* t, uint64_t nbytes) {
  SHMT_AUTO(shmt_tensor) rest = NULL;
  const uint64_t item = shmt__dtype_size[t->dtype];

  if (!shmt__fills_uninitialized() || t->sparse || shmt__tensor_is_meta(t) || t->storage->nbytes <= nbytes)
    return SHMT_OK;
  const int64_t first = (int64_t)((nbytes + item - 1) / item), n = (int64_t)(t->storage->nbytes / item) - first;
  if (n <= 0) return SHMT_OK;
  SHMT_TRY(shmt__tensor_alias(t, SHMT_INTS(n), SHMT_INTS(1), first, &rest));
  return shmt__tensor_fill(rest, conspicuous(t->dtype));
}
