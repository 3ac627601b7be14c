/* base/promote.c -- which dtype the result of mixed operands has. */
#include "base/promote.h"

#include "base/dtype.h"
#include "generated/dtype_tables.h"

/* uint16, uint32 and uint64 promote with no other integer. */
static bool is_limited_unsigned(shmt_dtype d) {
  return shmt__dtype_kind[d] == SHMT_KIND_UNSIGNED && shmt__dtype_size[d] > 1;
}

static shmt_dtype promote_integral(shmt_dtype a, shmt_dtype b) {
  if (a == SHMT_BOOL) return b;
  if (b == SHMT_BOOL) return a;
  if (is_limited_unsigned(a) || is_limited_unsigned(b)) return SHMT_DTYPE_NONE;
  if (a == SHMT_UINT8 || b == SHMT_UINT8) {
    shmt_dtype other = a == SHMT_UINT8 ? b : a;
    return other == SHMT_INT8 ? SHMT_INT16 : other; /* int16 is the first to hold both */
  }
  return shmt__dtype_size[a] >= shmt__dtype_size[b] ? a : b;
}

static shmt_dtype promote_floating(shmt_dtype a, shmt_dtype b) {
  if (shmt__dtype_size[a] == shmt__dtype_size[b]) return SHMT_FLOAT32; /* float16 with bfloat16 */
  return shmt__dtype_size[a] > shmt__dtype_size[b] ? a : b;
}

shmt_dtype shmt__promote_types_unchecked(shmt_dtype a, shmt_dtype b) {
  if (a == b) return a;
  int ka = shmt__dtype_category(a), kb = shmt__dtype_category(b);
  if (ka < kb) {
    shmt_dtype swap = a;
    a = b;
    b = swap;
    int k = ka;
    ka = kb;
    kb = k;
  }
  if (ka <= 1) /* bool meets the barebones unsigned dtypes nowhere either */
    return is_limited_unsigned(a) || is_limited_unsigned(b) ? SHMT_DTYPE_NONE : promote_integral(a, b);
  if (ka == 2) return kb == 2 ? promote_floating(a, b) : a;
  if (is_limited_unsigned(b)) return SHMT_DTYPE_NONE;
  if (kb < 2) return a;
  b = shmt__to_complex_dtype(b);
  return shmt__dtype_size[a] >= shmt__dtype_size[b] ? a : b;
}

shmt_status shmt__promote_types(shmt_dtype a, shmt_dtype b, shmt_dtype* out) {
  shmt_dtype r = shmt__promote_types_unchecked(a, b);
  SHMT_REQUIRE(r != SHMT_DTYPE_NONE, SHMT_E_RUNTIME,
               "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote %s and %s",
               shmt__dtype_title(a), shmt__dtype_title(b));
  *out = r;
  return SHMT_OK;
}

bool shmt__can_cast(shmt_dtype from, shmt_dtype to) {
  int kf = shmt__dtype_category(from), kt = shmt__dtype_category(to);
  if (kf == 3) return kt == 3;
  if (kf == 2) return kt >= 2;
  if (kf == 1) return kt >= 1;
  return true;
}

static shmt_status promote_skip_none(shmt_dtype a, shmt_dtype b, shmt_dtype* out) {
  if (a == SHMT_DTYPE_NONE || a == b) {
    *out = b;
    return SHMT_OK;
  }
  if (b == SHMT_DTYPE_NONE) {
    *out = a;
    return SHMT_OK;
  }
  return shmt__promote_types(a, b, out);
}

shmt_status shmt__result_type_add(shmt__result_type* r, shmt_dtype dtype, bool zero_dim, bool wrapped) {
  if (wrapped) {
    if (dtype == SHMT_FLOAT64) dtype = shmt__default_dtype();
    if (dtype == SHMT_COMPLEX128) dtype = shmt__to_complex_dtype(shmt__default_dtype());
    return promote_skip_none(r->wrapped, dtype, &r->wrapped);
  }
  if (zero_dim) return promote_skip_none(r->zero_dim, dtype, &r->zero_dim);
  return promote_skip_none(r->dim, dtype, &r->dim);
}

/* A weaker category counts only when its kind is higher. */
static shmt_status combine(shmt_dtype higher, shmt_dtype lower, shmt_dtype* out) {
  if (higher == SHMT_DTYPE_NONE || lower == SHMT_DTYPE_NONE)
    return promote_skip_none(higher, lower, out);
  if (shmt__dtype_category(higher) >= shmt__dtype_category(lower)) {
    *out = higher;
    return SHMT_OK;
  }
  if (shmt__dtype_category(higher) == 2) { /* the lower one is complex: the width stays the higher one's */
    *out = shmt__to_complex_dtype(higher);
    return SHMT_OK;
  }
  if (shmt__dtype_category(lower) == 3) { /* also for uint16, uint32 and uint64, which promote_types refuses */
    *out = lower;
    return SHMT_OK;
  }
  return shmt__promote_types(higher, lower, out);
}

shmt_status shmt__result_type_get(const shmt__result_type* r, shmt_dtype* out) {
  shmt_dtype inner = SHMT_DTYPE_NONE;
  SHMT_TRY(combine(r->zero_dim, r->wrapped, &inner));
  return combine(r->dim, inner, out);
}
