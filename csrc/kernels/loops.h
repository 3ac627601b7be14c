/* kernels/loops.h -- macros that define element-wise loops in the templates.
 *
 * UNARY(name, expression of a), BINARY(name, of a and b) and TERNARY(name, of a, b and c) define SHMT_LOOP(name). The
 * operands have the compute type C; the value is stored as T. The ..._AS forms store another type: COMPARE stores bool.
 *
 * Contiguous operands, and contiguous operands beside one with stride 0, have loops of their own, which the compiler
 * vectorises.
 */
#ifndef SHMT_KERNELS_LOOPS_H
#define SHMT_KERNELS_LOOPS_H

#include "kernels/half_loops.h"
#include "kernels/template.h"

/* --- half-precision types ------------------------------------------------------------------ */

#define SHMT_STORED(TO)          \
  _Generic((TO*)0,               \
      T*: SHMT_STORED_HALF,      \
      default: _Generic((TO*)0, SHMT_REAL*: SHMT_STORED_REAL, default: SHMT_STORED_AS_IS))

#define SHMT_WIDENED(NAME, TO, N_INPUTS) SHMT_WIDENED_BY(NAME, NAME, TO, N_INPUTS)
/* As SHMT_WIDENED with another full loop than that of the same name, for example a less exact one. */
#define SHMT_WIDENED_BY(NAME, FULL, TO, N_INPUTS)                                                   \
  void SHMT_FULL_LOOP(FULL)(char* const* data, const int64_t* strides, int64_t n, const void* ctx); \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {     \
    shmt__widened(SHMT_DT, SHMT_FULL_LOOP(FULL), SHMT_STORED(TO), N_INPUTS, data, strides, n, ctx); \
  }

/* SHMT_SHAPE(UNARY) is SHMT_UNARY_0, or SHMT_UNARY_1 for half-precision types. */
#define SHMT_SHAPE(SHAPE)                        SHMT_PASTE(SHMT_##SHAPE, SHMT_IS_HALF)
#define SHMT_UNARY_1(NAME, TO, PUT, LET, EXPR)   SHMT_WIDENED(NAME, TO, 1)
#define SHMT_BINARY_1(NAME, TO, PUT, LET, EXPR)  SHMT_WIDENED(NAME, TO, 2)
#define SHMT_TERNARY_1(NAME, TO, PUT, LET, EXPR) SHMT_WIDENED(NAME, TO, 3)

/* --- the loops ------------------------------------------------------------------------------ */

/* LET declares what the expression uses besides its operands (scalars of ctx), or is empty. */
#define SHMT_UNARY_0(NAME, TO, PUT, LET, EXPR)                                                  \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    char* const po = data[0];                                                                   \
    const char* const pa = data[1];                                                             \
    const int64_t so = strides[0], sa = strides[1];                                             \
    (void)ctx;                                                                                  \
    LET;                                                                                        \
    if (so == (int64_t)sizeof(TO) && sa == (int64_t)sizeof(T)) {                                \
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

#define SHMT_BINARY_0(NAME, TO, PUT, LET, EXPR)                                                 \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    char* const po = data[0];                                                                   \
    const char *const pa = data[1], *const pb = data[2];                                        \
    const int64_t so = strides[0], sa = strides[1], sb = strides[2];                            \
    (void)ctx;                                                                                  \
    LET;                                                                                        \
    if (so == (int64_t)sizeof(TO) && sa == (int64_t)sizeof(T) && sb == (int64_t)sizeof(T)) {    \
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

#define SHMT_TERNARY_0(NAME, TO, PUT, LET, EXPR)                                                \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    char* const po = data[0];                                                                   \
    const char *const pa = data[1], *const pb = data[2], *const pc = data[3];                   \
    const int64_t so = strides[0], sa = strides[1], sb = strides[2], sc = strides[3];           \
    (void)ctx;                                                                                  \
    LET;                                                                                        \
    if (so == (int64_t)sizeof(TO) && sa == (int64_t)sizeof(T) && sb == (int64_t)sizeof(T) &&    \
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

#define UNARY_AS(...)                 SHMT_SHAPE(UNARY)(__VA_ARGS__)
#define BINARY_AS(...)                SHMT_SHAPE(BINARY)(__VA_ARGS__)
#define TERNARY_AS(...)               SHMT_SHAPE(TERNARY)(__VA_ARGS__)
#define SHMT_PUT_BOOL(x)              ((bool)(x))
#define SHMT_NOTHING                  ((void)0)
#define UNARY(NAME, EXPR)             UNARY_AS(NAME, T, SHMT_STORE, SHMT_NOTHING, EXPR)
#define UNARY_WITH(NAME, LET, EXPR)   UNARY_AS(NAME, T, SHMT_STORE, LET, EXPR)
#define UNARY_TEST(NAME, EXPR)        UNARY_AS(NAME, bool, SHMT_PUT_BOOL, SHMT_NOTHING, EXPR)
#define BINARY(NAME, EXPR)            BINARY_AS(NAME, T, SHMT_STORE, SHMT_NOTHING, EXPR)
#define BINARY_WITH(NAME, LET, EXPR)  BINARY_AS(NAME, T, SHMT_STORE, LET, EXPR)
/* For expressions that depend on values rounded to T: half-precision types get a loop of their own. */
#define BINARY_IN_T(NAME, EXPR)       SHMT_BINARY_0(NAME, T, SHMT_STORE, SHMT_NOTHING, EXPR)
#define COMPARE(NAME, EXPR)           BINARY_AS(NAME, bool, SHMT_PUT_BOOL, SHMT_NOTHING, EXPR)
#define TERNARY(NAME, EXPR)           TERNARY_AS(NAME, T, SHMT_STORE, SHMT_NOTHING, EXPR)
#define TERNARY_WITH(NAME, LET, EXPR) TERNARY_AS(NAME, T, SHMT_STORE, LET, EXPR)

#endif
