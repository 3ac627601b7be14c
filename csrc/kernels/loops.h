/* kernels/loops.h -- the shapes of element-wise loops, for the templates.
 *
 * UNARY(name, expression of a), BINARY(name, of a and b), TERNARY(name, of a, b and c) define
 * SHMT_LOOP(name). The operands have the type C that is calculated in; the value is stored as T.
 * The ..._AS forms store another type: COMPARE stores bool. S(k) in an expression is the k-th
 * number of ctx, an array of shmt_scalar, as C.
 *
 * Dense runs and runs with one repeated operand have loops of their own, which the compiler
 * vectorises. Their `ivdep` says that no iteration reads what another wrote: an output is an
 * input's memory exactly or not at all (the iterator refuses the rest), and there is no `restrict`.
 */
#ifndef SHMT_KERNELS_LOOPS_H
#define SHMT_KERNELS_LOOPS_H

#include "base/scalar.h"
#include "iter/iter.h"
#include "kernels/convert.h"
#include "kernels/float16.h"

#include <math.h>

#define SHMT_PASTE_(a, b) a##_##b
#define SHMT_PASTE(a, b)  SHMT_PASTE_(a, b)
/* A helper function of the dtype being built. */
#define FN(name) SHMT_PASTE(name, DT)

#define SHMT_IVDEP                  _Pragma("GCC ivdep")
#define SHMT_AT(TYPE, p, stride, i) (*(TYPE*)(void*)((p) + (i) * (stride)))

/* The k-th number of ctx in the type calculated in. */
static inline double shmt__number_real(const void* ctx, int k) {
  return shmt__scalar_to_double(((const shmt_scalar*)ctx)[k]);
}
static inline int64_t shmt__number_int(const void* ctx, int k) {
  return shmt__scalar_to_int64(((const shmt_scalar*)ctx)[k]);
}
static inline double _Complex shmt__number_complex(const void* ctx, int k) {
  double z[2];
  shmt__scalar_to_complex(((const shmt_scalar*)ctx)[k], z);
  return CMPLX(z[0], z[1]);
}
#define SHMT_NUMBER(k)                       \
  _Generic((C)0,                             \
      bool: shmt__number_int,                \
      float: shmt__number_real,              \
      double: shmt__number_real,             \
      float _Complex: shmt__number_complex,  \
      double _Complex: shmt__number_complex, \
      default: shmt__number_int)(ctx, k)

/* Arithmetic that wraps: in unsigned, at least 32 bits wide so that uint16 * uint16 does not become
 * int. */
#define SHMT_WIDE(x)                      \
  ((__typeof__(_Generic((C)0,             \
                   int64_t: (uint64_t)0,  \
                   uint64_t: (uint64_t)0, \
                   default: (uint32_t)0)))(x))

/* Dense float16, results too: a stretch at a time. LOADS fills the operands' stretches, LETS takes one of each. */
#define SHMT_IS_DENSE_HALF(TO, STRIDES) \
  (SHMT_HAS_F16C && SHMT_IS_FLOAT16 && _Generic((TO*)0, T*: true, default: false) && (STRIDES))
#define SHMT_HALVES(k, NAME) \
  C NAME[SHMT_STRETCH];      \
  shmt__widen_float16(SHMT_AS_FLOATS(NAME), SHMT_AS_FLOAT16(data[k] + i0 * (int64_t)sizeof(T)), width)
#define SHMT_STRETCHES(LOADS, LETS, EXPR)                                                                 \
  for (int64_t i0 = 0; i0 < n; i0 += SHMT_STRETCH) {                                                      \
    const int64_t width = n - i0 < SHMT_STRETCH ? n - i0 : SHMT_STRETCH;                                  \
    C made[SHMT_STRETCH];                                                                                 \
    LOADS;                                                                                                \
    for (int64_t i = 0; i < width; i++) {                                                                 \
      LETS;                                                                                               \
      made[i] = (C)(EXPR);                                                                                \
    }                                                                                                     \
    shmt__narrow_float16(SHMT_AS_FLOAT16(data[0] + i0 * (int64_t)sizeof(T)), SHMT_AS_FLOATS(made), width); \
  }

/* LET declares what the expression uses besides its operands (numbers from ctx), or is empty. */
#define UNARY_AS(NAME, TO, PUT, LET, EXPR)                                                      \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    char* const po = data[0];                                                                   \
    const char* const pa = data[1];                                                             \
    const int64_t so = strides[0], sa = strides[1];                                             \
    (void)ctx;                                                                                  \
    LET;                                                                                        \
    if (SHMT_IS_DENSE_HALF(TO, so == (int64_t)sizeof(T) && sa == (int64_t)sizeof(T))) {         \
      SHMT_STRETCHES(SHMT_HALVES(1, as), const C a = as[i], EXPR)                               \
    } else if (so == (int64_t)sizeof(TO) && sa == (int64_t)sizeof(T)) {                         \
      SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                                              \
        const C a = SHMT_LOAD(((const T*)(const void*)pa)[i]);                                  \
        ((TO*)(void*)po)[i] = PUT(EXPR);                                                        \
      }                                                                                         \
    } else {                                                                                    \
      for (int64_t i = 0; i < n; i++) {                                                         \
        const C a = SHMT_LOAD(SHMT_AT(const T, pa, sa, i));                                     \
        SHMT_AT(TO, po, so, i) = PUT(EXPR);                                                     \
      }                                                                                         \
    }                                                                                           \
  }

#define BINARY_AS(NAME, TO, PUT, LET, EXPR)                                                     \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    char* const po = data[0];                                                                   \
    const char *const pa = data[1], *const pb = data[2];                                        \
    const int64_t so = strides[0], sa = strides[1], sb = strides[2];                            \
    (void)ctx;                                                                                  \
    LET;                                                                                        \
    if (SHMT_IS_DENSE_HALF(TO, so == (int64_t)sizeof(T) && sa == (int64_t)sizeof(T) &&          \
                                   sb == (int64_t)sizeof(T))) {                                 \
      SHMT_STRETCHES(SHMT_HALVES(1, as); SHMT_HALVES(2, bs), const C a = as[i]; const C b = bs[i], EXPR) \
    } else if (SHMT_IS_DENSE_HALF(TO, so == (int64_t)sizeof(T) && sa == (int64_t)sizeof(T) && sb == 0)) { \
      const C b = SHMT_LOAD(*(const T*)(const void*)pb);                                        \
      SHMT_STRETCHES(SHMT_HALVES(1, as), const C a = as[i], EXPR)                               \
    } else if (so == (int64_t)sizeof(TO) && sa == (int64_t)sizeof(T) && sb == (int64_t)sizeof(T)) { \
      SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                                              \
        const C a = SHMT_LOAD(((const T*)(const void*)pa)[i]);                                  \
        const C b = SHMT_LOAD(((const T*)(const void*)pb)[i]);                                  \
        ((TO*)(void*)po)[i] = PUT(EXPR);                                                        \
      }                                                                                         \
    } else if (so == (int64_t)sizeof(TO) && sa == (int64_t)sizeof(T) && sb == 0) {              \
      const C b = SHMT_LOAD(*(const T*)(const void*)pb);                                        \
      SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                                              \
        const C a = SHMT_LOAD(((const T*)(const void*)pa)[i]);                                  \
        ((TO*)(void*)po)[i] = PUT(EXPR);                                                        \
      }                                                                                         \
    } else if (so == (int64_t)sizeof(TO) && sa == 0 && sb == (int64_t)sizeof(T)) {              \
      const C a = SHMT_LOAD(*(const T*)(const void*)pa);                                        \
      SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                                              \
        const C b = SHMT_LOAD(((const T*)(const void*)pb)[i]);                                  \
        ((TO*)(void*)po)[i] = PUT(EXPR);                                                        \
      }                                                                                         \
    } else {                                                                                    \
      for (int64_t i = 0; i < n; i++) {                                                         \
        const C a = SHMT_LOAD(SHMT_AT(const T, pa, sa, i));                                     \
        const C b = SHMT_LOAD(SHMT_AT(const T, pb, sb, i));                                     \
        SHMT_AT(TO, po, so, i) = PUT(EXPR);                                                     \
      }                                                                                         \
    }                                                                                           \
  }

#define TERNARY_AS(NAME, TO, PUT, LET, EXPR)                                                    \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    char* const po = data[0];                                                                   \
    const char *const pa = data[1], *const pb = data[2], *const pc = data[3];                   \
    const int64_t so = strides[0], sa = strides[1], sb = strides[2], sc = strides[3];           \
    (void)ctx;                                                                                  \
    LET;                                                                                        \
    if (SHMT_IS_DENSE_HALF(TO, so == (int64_t)sizeof(T) && sa == (int64_t)sizeof(T) &&          \
                                   sb == (int64_t)sizeof(T) && sc == (int64_t)sizeof(T))) {     \
      SHMT_STRETCHES(SHMT_HALVES(1, as); SHMT_HALVES(2, bs); SHMT_HALVES(3, cs),                \
                     const C a = as[i]; const C b = bs[i]; const C c = cs[i], EXPR)             \
    } else if (so == (int64_t)sizeof(TO) && sa == (int64_t)sizeof(T) && sb == (int64_t)sizeof(T) && \
               sc == (int64_t)sizeof(T)) {                                                      \
      SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                                              \
        const C a = SHMT_LOAD(((const T*)(const void*)pa)[i]);                                  \
        const C b = SHMT_LOAD(((const T*)(const void*)pb)[i]);                                  \
        const C c = SHMT_LOAD(((const T*)(const void*)pc)[i]);                                  \
        ((TO*)(void*)po)[i] = PUT(EXPR);                                                        \
      }                                                                                         \
    } else {                                                                                    \
      for (int64_t i = 0; i < n; i++) {                                                         \
        const C a = SHMT_LOAD(SHMT_AT(const T, pa, sa, i));                                     \
        const C b = SHMT_LOAD(SHMT_AT(const T, pb, sb, i));                                     \
        const C c = SHMT_LOAD(SHMT_AT(const T, pc, sc, i));                                     \
        SHMT_AT(TO, po, so, i) = PUT(EXPR);                                                     \
      }                                                                                         \
    }                                                                                           \
  }

#define SHMT_PUT_BOOL(x)              ((bool)(x))
#define SHMT_NOTHING                  ((void)0)
#define UNARY(NAME, EXPR)             UNARY_AS(NAME, T, SHMT_STORE, SHMT_NOTHING, EXPR)
#define UNARY_WITH(NAME, LET, EXPR)   UNARY_AS(NAME, T, SHMT_STORE, LET, EXPR)
#define UNARY_TEST(NAME, EXPR)        UNARY_AS(NAME, bool, SHMT_PUT_BOOL, SHMT_NOTHING, EXPR)
#define BINARY(NAME, EXPR)            BINARY_AS(NAME, T, SHMT_STORE, SHMT_NOTHING, EXPR)
#define BINARY_WITH(NAME, LET, EXPR)  BINARY_AS(NAME, T, SHMT_STORE, LET, EXPR)
#define COMPARE(NAME, EXPR)           BINARY_AS(NAME, bool, SHMT_PUT_BOOL, SHMT_NOTHING, EXPR)
#define TERNARY(NAME, EXPR)           TERNARY_AS(NAME, T, SHMT_STORE, SHMT_NOTHING, EXPR)
#define TERNARY_WITH(NAME, LET, EXPR) TERNARY_AS(NAME, T, SHMT_STORE, LET, EXPR)

#endif
