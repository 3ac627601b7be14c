/* ops/scalar_expression.c -- arithmetic on Scalars, and reuse of temporaries, for code generated from spec
 * expressions. */
#include "ops/scalar_expression.h"

#include <complex.h>
#include <inttypes.h>
#include <math.h>

#include "base/overflow.h"
#include "dispatch/trace.h"
#include "ops/dtype_names.h"
#include "storage/allocator.h"

shmt_status shmt__tensor_vec_alloc(int64_t n, shmt_tensor_vec* out) {
  int64_t nbytes;
  void* data = NULL;
  SHMT_REQUIRE(n >= 0 && shmt__mul_i64(n, sizeof(shmt_tensor*), &nbytes), SHMT_E_NOMEM,
               "a list of %" PRId64 " tensors", n);
  SHMT_TRY(shmt__alloc((uint64_t)nbytes, &data));
  memset(data, 0, (size_t)nbytes);
  *out = (shmt_tensor_vec){data, n};
  return SHMT_OK;
}

shmt_status shmt__tensor_vec_copy(shmt_tensors list, shmt_tensor_vec* out) {
  SHMT_TRY(shmt__tensor_vec_alloc(list.len, out));
  for (int64_t i = 0; i < list.len; i++)
    out->data[i] = list.data[i] ? shmt__tensor_ref(list.data[i]) : NULL;
  return SHMT_OK;
}

static bool is_whole(shmt_scalar s) {
  return s.tag == SHMT_SCALAR_INT || s.tag == SHMT_SCALAR_BOOL || s.tag == SHMT_SCALAR_UINT;
}

static shmt_scalar complex_calculate(shmt__scalar_op op, shmt_scalar a, shmt_scalar b) {
  double x[2], y[2];
  shmt__scalar_to_complex(a, x);
  shmt__scalar_to_complex(b, y);
  double _Complex u = CMPLX(x[0], x[1]), v = CMPLX(y[0], y[1]), r = 0;
  switch (op) {
    case SHMT_SCALAR_OP_ADD: r = u + v; break;
    case SHMT_SCALAR_OP_SUB: r = u - v; break;
    case SHMT_SCALAR_OP_MUL: r = u * v; break;
    case SHMT_SCALAR_OP_DIV: r = u / v; break;
    case SHMT_SCALAR_OP_POW: r = cpow(u, v); break;
  }
  return shmt__scalar_complex(creal(r), cimag(r));
}

static int64_t whole_power(int64_t base, int64_t exponent) {
  uint64_t r = 1, b = (uint64_t)base; /* unsigned: wraps */
  for (uint64_t e = (uint64_t)exponent; e; e >>= 1, b *= b)
    if (e & 1) r *= b;
  return (int64_t)r;
}

shmt_scalar shmt__scalar_calculate(shmt__scalar_op op, shmt_scalar a, shmt_scalar b) {
  if (a.tag == SHMT_SCALAR_COMPLEX || b.tag == SHMT_SCALAR_COMPLEX) return complex_calculate(op, a, b);
  if (is_whole(a) && is_whole(b) && op != SHMT_SCALAR_OP_DIV) {
    int64_t x = shmt__scalar_to_int64(a), y = shmt__scalar_to_int64(b);
    switch (op) {
      case SHMT_SCALAR_OP_ADD: return shmt__scalar_int((int64_t)((uint64_t)x + (uint64_t)y));
      case SHMT_SCALAR_OP_SUB: return shmt__scalar_int((int64_t)((uint64_t)x - (uint64_t)y));
      case SHMT_SCALAR_OP_MUL: return shmt__scalar_int((int64_t)((uint64_t)x * (uint64_t)y));
      default:
        if (y >= 0) return shmt__scalar_int(whole_power(x, y));
    }
  }
  double x = shmt__scalar_to_double(a), y = shmt__scalar_to_double(b);
  switch (op) {
    case SHMT_SCALAR_OP_ADD: return shmt__scalar_float(x + y);
    case SHMT_SCALAR_OP_SUB: return shmt__scalar_float(x - y);
    case SHMT_SCALAR_OP_MUL: return shmt__scalar_float(x * y);
    case SHMT_SCALAR_OP_DIV: return shmt__scalar_float(x / y);
    default: return shmt__scalar_float(pow(x, y));
  }
}

shmt_scalar shmt__scalar_negate(shmt_scalar a) {
  if (a.tag == SHMT_SCALAR_COMPLEX) return shmt__scalar_complex(-a.v.z[0], -a.v.z[1]);
  if (is_whole(a)) return shmt__scalar_int((int64_t)(0 - (uint64_t)shmt__scalar_to_int64(a)));
  return shmt__scalar_float(-shmt__scalar_to_double(a));
}

int shmt__scalar_compare(shmt_scalar a, shmt_scalar b) {
  if (a.tag == SHMT_SCALAR_NONE || b.tag == SHMT_SCALAR_NONE) return a.tag == b.tag ? 0 : 2;
  if (is_whole(a) && is_whole(b)) {
    int64_t x = shmt__scalar_to_int64(a), y = shmt__scalar_to_int64(b);
    return (x > y) - (x < y);
  }
  double x[2], y[2];
  shmt__scalar_to_complex(a, x);
  shmt__scalar_to_complex(b, y);
  if (x[0] != x[0] || y[0] != y[0]) return 2;
  if (x[0] == y[0] && x[1] != y[1]) return 2;
  return (x[0] > y[0]) - (x[0] < y[0]);
}

/* --- ints and lists ---------------------------------------------------------------------------- */

shmt_status shmt__int_overflow(int64_t a, char sign, int64_t b) {
  SHMT_FAIL(SHMT_E_RUNTIME, "%" PRId64 " %c %" PRId64 " does not fit in 64 bits", a, sign, b);
}

shmt_status shmt__tensors_at(shmt_tensors list, int64_t i, shmt_tensor** out) {
  const int64_t at = i < 0 ? i + list.len : i;

  SHMT_REQUIRE(at >= 0 && at < list.len, SHMT_E_INDEX,
               "index %" PRId64 " is out of range for a list of %" PRId64, i, list.len);
  *out = list.data[at];
  return SHMT_OK;
}

/* --- memory of temporaries --------------------------------------------------------------------- */

/* Can other be broadcast to the sizes of t? */
static bool fits_into(const shmt_tensor* other, const shmt_tensor* t) {
  const int extra = t->n_dims - other->n_dims;
  bool fits = extra >= 0;

  for (int d = 0; fits && d < other->n_dims; d++)
    fits = other->sizes[d] == t->sizes[d + extra] || other->sizes[d] == 1;
  return fits;
}

bool shmt__can_reuse(const shmt_tensor* t, const shmt_tensor* other) {
  const bool is_own = shmt__is_last_reference(&t->refs) && shmt__is_last_reference(&t->storage->refs);
  const bool is_plain = (t->flags & SHMT_TENSOR_DENSE) != 0 && !shmt__tensor_is_conj_neg(t) &&
                        (shmt__is_floating(t->dtype) || shmt__is_complex(t->dtype)) &&
                        shmt__is_unobserved_call(shmt__tensor_keys(t) | (other ? shmt__tensor_keys(other) : 0));

  return is_own && is_plain && (!other || (other->dtype == t->dtype && fits_into(other, t)));
}

bool shmt__can_reuse_second(const shmt_tensor* t, const shmt_tensor* other) {
  const bool same_strides =
      other->n_dims == 0 ||
      (shmt__same_sizes(t, other) && shmt__same_ints(shmt__tensor_strides(t), shmt__tensor_strides(other)));

  return same_strides && shmt__can_reuse(t, other);
}
