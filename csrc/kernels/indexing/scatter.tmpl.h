/* kernels/indexing/scatter.tmpl.h -- adds, multiplies, or takes the largest or smallest, into elements given by index.
 * One dtype.
 *
 * data: self, src, index (int64); ctx: shmt__index_args.
 */
#include "base/error.h"
#include "kernels/simd/half_runs.h"
#include "kernels/template.h"
#include "kernels/loop_args.h"

/* For float16 SHMT_LOAD and SHMT_STORE would take ten instructions instead of one. */
static inline C FN(load)(const T* at) {
  return SHMT_IS_FLOAT16 ? (C)shmt__widen_one(*SHMT_AS_FLOAT16(at)) : SHMT_LOAD(*at);
}
static inline void FN(store)(T* at, C x) {
  if (SHMT_IS_FLOAT16)
    *SHMT_AS_FLOAT16(at) = shmt__narrow_one((float)x);
  else
    *at = SHMT_STORE(x);
}

/* Combines elements of type TO with those of type T. READ turns a TO into a C; WRITE stores a C as a TO. */
#define SCATTER_AS(NAME, TO, READ, WRITE, EXPR)                                                    \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {    \
    const shmt__index_args* s = ctx;                                                               \
    bool ok;                                                                                       \
    if (strides[2] == 0) {                                                                         \
      char* to = data[0] + shmt__index_offset(s, *(const int64_t*)(const void*)data[2], &ok);      \
      if (!ok) return;                                                                             \
      if (strides[0] == (int64_t)sizeof(TO) && strides[1] == (int64_t)sizeof(T)) {                 \
        TO* row = (TO*)(void*)to;                                                                  \
        const T* add = (const T*)(const void*)data[1];                                             \
        for (int64_t i = 0; i < n; i++) {                                                          \
          const C a = READ(&row[i]), b = FN(load)(&add[i]);                                        \
          WRITE(&row[i], (C)(EXPR));                                                               \
        }                                                                                          \
        return;                                                                                    \
      }                                                                                            \
      for (int64_t i = 0; i < n; i++) {                                                            \
        TO* at = (TO*)(void*)(to + i * strides[0]);                                                \
        const C a = READ(at), b = FN(load)((const T*)(const void*)(data[1] + i * strides[1]));     \
        WRITE(at, (C)(EXPR));                                                                      \
      }                                                                                            \
      return;                                                                                      \
    }                                                                                              \
    char* to = data[0];                                                                            \
    const char *src = data[1], *index = data[2];                                                   \
    const int64_t to_step = strides[0], src_step = strides[1], index_step = strides[2];            \
    const shmt__index_args shape = *s; /* in registers: the stores below could change *s */        \
    for (int64_t i = 0; i < n; i++) {                                                              \
      const int64_t offset = shmt__index_offset(&shape, *(const int64_t*)(const void*)index, &ok); \
      if (SHMT_LIKELY(ok)) {                                                                       \
        TO* at = (TO*)(void*)(to + offset);                                                        \
        const C a = READ(at), b = FN(load)((const T*)(const void*)src);                            \
        WRITE(at, (C)(EXPR));                                                                      \
      }                                                                                            \
      to += to_step;                                                                               \
      src += src_step;                                                                             \
      index += index_step;                                                                         \
    }                                                                                              \
  }
#define SCATTER(NAME, EXPR) SCATTER_AS(NAME, T, FN(load), FN(store), EXPR)

#if SHMT_IS_BOOL
SCATTER(scatter_add, a | b)
SCATTER(scatter_mul, a & b)
SCATTER(scatter_amax, a | b)
SCATTER(scatter_amin, a & b)
#elif SHMT_IS_INTEGRAL
SCATTER(scatter_add, (uint64_t)a + (uint64_t)b)
SCATTER(scatter_mul, (uint64_t)a * (uint64_t)b)
SCATTER(scatter_amax, a > b ? a : b)
SCATTER(scatter_amin, a < b ? a : b)
#elif SHMT_IS_FLOATING
SCATTER(scatter_add, a + b)
SCATTER(scatter_mul, a * b)
/* A NaN on either side stays. */
SCATTER(scatter_amax, a != a ? a : (b != b || b > a ? b : a))
SCATTER(scatter_amin, a != a ? a : (b != b || b < a ? b : a))
#else
SCATTER(scatter_add, a + b)
SCATTER(scatter_mul, a * b)
#endif

/* Into a copy of self in the type C, which is rounded once at the end. */
#if SHMT_IS_HALF && !SHMT_IS_COMPLEX
static inline C FN(load_wide)(const C* at) { return *at; }
static inline void FN(store_wide)(C* at, C x) { *at = x; }
SCATTER_AS(scatter_add_wide, C, FN(load_wide), FN(store_wide), a + b)
SCATTER_AS(scatter_mul_wide, C, FN(load_wide), FN(store_wide), a * b)
#endif

#undef SCATTER
#undef SCATTER_AS
