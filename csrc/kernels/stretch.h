/* kernels/stretch.h -- loops over functions that need the C library for a few of their arguments.
 *
 * A stretch of arguments is calculated without branches, and so in vectors; where RARE holds, the element is
 * calculated again by SLOW. UNARY_RARE and BINARY_RARE define SHMT_LOOP(name) as UNARY and BINARY of loops.h do.
 * Arguments are read before results are written, so in-place calls are as others.
 */
#ifndef SHMT_KERNELS_STRETCH_H
#define SHMT_KERNELS_STRETCH_H

#include "kernels/loops.h"

/* An integer as wide as C. */
#define SHMT_FLAG __typeof__(_Generic((C)0, float: (int32_t)0, default: (int64_t)0))

#define SHMT_STRETCH_LOAD(TO, p, stride)                                                             \
  if ((stride) == (int64_t)sizeof(T) && SHMT_IS_FLOAT16)                                             \
    shmt__widen_float16(SHMT_AS_FLOATS(TO), SHMT_AS_FLOAT16(p), width);                              \
  else if ((stride) == (int64_t)sizeof(T))                                                           \
    for (int64_t i = 0; i < width; i++) (TO)[i] = SHMT_LOAD(((const T*)(const void*)(p))[i]);        \
  else if ((stride) == 0) {                                                                          \
    const C repeated = SHMT_LOAD(*(const T*)(const void*)(p));                                       \
    for (int64_t i = 0; i < width; i++) (TO)[i] = repeated;                                          \
  } else                                                                                             \
    for (int64_t i = 0; i < width; i++) (TO)[i] = SHMT_LOAD(SHMT_AT(const T, p, stride, i))

#define SHMT_STRETCH_STORE(FROM, p, stride)                                                          \
  if ((stride) == (int64_t)sizeof(T) && SHMT_IS_FLOAT16)                                             \
    shmt__narrow_float16(SHMT_AS_FLOAT16(p), SHMT_AS_FLOATS(FROM), width);                           \
  else if ((stride) == (int64_t)sizeof(T))                                                           \
    for (int64_t i = 0; i < width; i++) ((T*)(void*)(p))[i] = SHMT_STORE((FROM)[i]);                 \
  else                                                                                               \
    for (int64_t i = 0; i < width; i++) SHMT_AT(T, p, stride, i) = SHMT_STORE((FROM)[i])

/* A function without rare arguments: as UNARY, but narrow types are widened a stretch at a time. */
#define UNARY_WIDE(NAME, EXPR)                                                                       \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {      \
    C x[SHMT_STRETCH], y[SHMT_STRETCH];                                                              \
    (void)ctx;                                                                                       \
    if (sizeof(T) == sizeof(C) && strides[0] == (int64_t)sizeof(T) && strides[1] == (int64_t)sizeof(T)) { \
      SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                                                   \
        const C a = SHMT_LOAD(((const T*)(const void*)data[1])[i]);                                  \
        ((T*)(void*)data[0])[i] = SHMT_STORE(EXPR);                                                  \
      }                                                                                              \
      return;                                                                                        \
    }                                                                                                \
    for (int64_t i0 = 0; i0 < n; i0 += SHMT_STRETCH) {                                               \
      const int64_t width = n - i0 < SHMT_STRETCH ? n - i0 : SHMT_STRETCH;                           \
      SHMT_STRETCH_LOAD(x, data[1] + i0 * strides[1], strides[1]);                                   \
      for (int64_t i = 0; i < width; i++) {                                                          \
        const C a = x[i];                                                                            \
        y[i] = EXPR;                                                                                 \
      }                                                                                              \
      SHMT_STRETCH_STORE(y, data[0] + i0 * strides[0], strides[0]);                                  \
    }                                                                                                \
  }

#define UNARY_RARE(NAME, RARE, EXPR, SLOW)                                                           \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {      \
    C x[SHMT_STRETCH], y[SHMT_STRETCH];                                                              \
    (void)ctx;                                                                                       \
    for (int64_t i0 = 0; i0 < n; i0 += SHMT_STRETCH) {                                               \
      const int64_t width = n - i0 < SHMT_STRETCH ? n - i0 : SHMT_STRETCH;                           \
      SHMT_FLAG rare = 0;                                                                            \
      SHMT_STRETCH_LOAD(x, data[1] + i0 * strides[1], strides[1]);                                   \
      for (int64_t i = 0; i < width; i++) {                                                          \
        const C a = x[i];                                                                            \
        y[i] = EXPR;                                                                                 \
      }                                                                                              \
      for (int64_t i = 0; i < width; i++) {                                                          \
        const C a = x[i];                                                                            \
        rare |= (RARE) ? 1 : 0;                                                                      \
      }                                                                                              \
      for (int64_t i = 0; rare && i < width; i++) {                                                  \
        const C a = x[i];                                                                            \
        if (RARE) y[i] = SLOW;                                                                       \
      }                                                                                              \
      SHMT_STRETCH_STORE(y, data[0] + i0 * strides[0], strides[0]);                                  \
    }                                                                                                \
  }

#define BINARY_RARE(NAME, RARE, EXPR, SLOW)                                                          \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {      \
    C x[SHMT_STRETCH], z[SHMT_STRETCH], y[SHMT_STRETCH];                                             \
    (void)ctx;                                                                                       \
    for (int64_t i0 = 0; i0 < n; i0 += SHMT_STRETCH) {                                               \
      const int64_t width = n - i0 < SHMT_STRETCH ? n - i0 : SHMT_STRETCH;                           \
      SHMT_FLAG rare = 0;                                                                            \
      SHMT_STRETCH_LOAD(x, data[1] + i0 * strides[1], strides[1]);                                   \
      SHMT_STRETCH_LOAD(z, data[2] + i0 * strides[2], strides[2]);                                   \
      for (int64_t i = 0; i < width; i++) {                                                          \
        const C a = x[i], b = z[i];                                                                  \
        y[i] = EXPR;                                                                                 \
      }                                                                                              \
      for (int64_t i = 0; i < width; i++) {                                                          \
        const C a = x[i], b = z[i];                                                                  \
        rare |= (RARE) ? 1 : 0;                                                                      \
      }                                                                                              \
      for (int64_t i = 0; rare && i < width; i++) {                                                  \
        const C a = x[i], b = z[i];                                                                  \
        if (RARE) y[i] = SLOW;                                                                       \
      }                                                                                              \
      SHMT_STRETCH_STORE(y, data[0] + i0 * strides[0], strides[0]);                                  \
    }                                                                                                \
  }

#endif
