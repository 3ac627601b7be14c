/* kernels/pointwise/ternary.tmpl.h -- functions of three operands: where, clamp by tensors, lerp, addcmul, addcdiv. */
#include "kernels/simd/complex.h"
#include "kernels/loops.h"

/* where copies elements of any dtype: the condition is bool, a and b are T. */
void SHMT_LOOP(where)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  char* const po = data[0];
  const char *const pc = data[1], *const pa = data[2], *const pb = data[3];
  const int64_t so = strides[0], sc = strides[1], sa = strides[2], sb = strides[3];
  const int64_t item = sizeof(T);

  (void)ctx;
#define SELECT_LOOP(A, B)                                 \
  SHMT_IVDEP for (int64_t i = 0; i < n; i++) {            \
    const T a = A, b = B;                                 \
    ((T*)(void*)po)[i] = ((const uint8_t*)pc)[i] ? a : b; \
  }
#define A_OF(i) (((const T*)(const void*)pa)[i])
#define B_OF(i) (((const T*)(const void*)pb)[i])
  if (so == item && sc == 1 && sa == item && sb == item) {
    SELECT_LOOP(A_OF(i), B_OF(i))
  } else if (so == item && sc == 1 && sa == item && sb == 0) {
    SELECT_LOOP(A_OF(i), B_OF(0))
  } else if (so == item && sc == 1 && sa == 0 && sb == item) {
    SELECT_LOOP(A_OF(0), B_OF(i))
  } else {
    for (int64_t i = 0; i < n; i++)
      SHMT_AT(T, po, so, i) = *(const uint8_t*)(pc + i * sc) ? SHMT_AT(const T, pa, sa, i)
                                                             : SHMT_AT(const T, pb, sb, i);
  }
#undef SELECT_LOOP
#undef A_OF
#undef B_OF
}

#if (SHMT_IS_INTEGRAL && !SHMT_IS_BAREBONES_UNSIGNED) || SHMT_IS_FLOATING
/* clamp by tensors: a limited to [b, c]. A NaN in any operand gives NaN. */
#if SHMT_IS_FLOATING
#define IS_NAN(x) ((x) != (x))
#else
#define IS_NAN(x) 0
#endif
static inline C FN(limited)(C a, C low, C high) {
  const C up = (a < low) | IS_NAN(low) ? low : a;
  return IS_NAN(a) ? a : (up > high) | IS_NAN(high) ? high : up;
}
#undef IS_NAN
TERNARY(clamp_tensors, FN(limited)(a, b, c))
#endif
#if SHMT_IS_INTEGRAL && !SHMT_IS_BAREBONES_UNSIGNED
TERNARY_WITH(addcmul, const C value = (C)SHMT_CTX_SCALAR(0),
             (C)(SHMT_WRAPPING(a) + SHMT_WRAPPING(value) * SHMT_WRAPPING(b) * SHMT_WRAPPING(c)))
#elif SHMT_IS_FLOATING
#define M(fn) _Generic((C)0, float: fn##f, default: fn)
/* Interpolates from the nearer end, so that weights 0 and 1 give the ends exactly. */
TERNARY(lerp, M(fabs)(c) < (C)0.5 ? a + c * (b - a) : b - (b - a) * (1 - c))
BINARY_WITH(lerp_scalar, const C c = (C)SHMT_CTX_SCALAR(0);
            const bool low = M(fabs)(c) < (C)0.5, low ? a + c * (b - a) : b - (b - a) * (1 - c))
TERNARY_WITH(addcmul, const C value = (C)SHMT_CTX_SCALAR(0), a + value * b * c)
TERNARY_WITH(addcdiv, const C value = (C)SHMT_CTX_SCALAR(0), a + value * (b / c))
#undef M
#elif SHMT_IS_COMPLEX
TERNARY_WITH(addcmul, const C value = (C)SHMT_CTX_SCALAR(0), a + SHMT_CMUL(SHMT_CMUL(value, b), c))
#if !SHMT_IS_LIMITED
#define NEAR(c) (SHMT_CREAL(c) * SHMT_CREAL(c) + SHMT_CIMAG(c) * SHMT_CIMAG(c) < 0.25f)
TERNARY(lerp, NEAR(c) ? a + SHMT_CMUL(c, b - a) : b - SHMT_CMUL(b - a, 1 - c))
BINARY_WITH(lerp_scalar, const C c = (C)SHMT_CTX_SCALAR(0),
            NEAR(c) ? a + SHMT_CMUL(c, b - a) : b - SHMT_CMUL(b - a, 1 - c))
TERNARY_WITH(addcdiv, const C value = (C)SHMT_CTX_SCALAR(0), a + SHMT_CMUL(value, SHMT_CDIV(b, c)))
#undef NEAR
#endif
#endif
