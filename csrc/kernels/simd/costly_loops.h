/* kernels/simd/costly_loops.h -- macros for loops over functions that cost far more than reading their arguments.
 *
 * UNARY_COSTLY and BINARY_COSTLY define SHMT_LOOP(name) as UNARY and BINARY of loops.h do, but only contiguous operands
 * get a loop, which the compiler vectorises. Operands with other strides are gathered and scattered block by block.
 * UNARY_FALLBACK(name, RARE, EXPR, SLOW) computes EXPR for a whole block without branches, and then SLOW (which calls
 * the C library) for the elements where the condition RARE holds.
 */
#ifndef SHMT_KERNELS_SIMD_COSTLY_LOOPS_H
#define SHMT_KERNELS_SIMD_COSTLY_LOOPS_H

#include "kernels/loops.h"

#include <string.h>

/* A loop over contiguous operands. out is exactly the memory of an input, or overlaps none. */
typedef void (*shmt__dense)(void* out, const void* const* in, int64_t n, const void* ctx);

/* Copies n elements of 1, 2, 4 or 8 bytes between strided places. Steps are in bytes. */
static inline void shmt__loop_move_elements(char* to, int64_t to_step, const char* from, int64_t from_step,
                                            int64_t item, int64_t n) {
  if (item == 1)
    for (int64_t i = 0; i < n; i++) to[i * to_step] = from[i * from_step];
  else if (item == 2)
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, 2);
  else if (item == 4)
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, 4);
  else
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, 8);
}

/* Runs `dense` on operands of any stride. At most 3 inputs; all operands have `item` bytes. */
static __attribute__((noinline, unused)) void shmt__run_dense(shmt__dense dense, int n_inputs, int64_t item,
                                                              char* const* data, const int64_t* strides, int64_t n,
                                                              const void* ctx) {
  enum { BYTES = SHMT_LOOP_BLOCK * 8 };
  _Alignas(64) char gathered[3][BYTES];
  _Alignas(64) char made[BYTES];
  const void* in[3];
  bool is_dense = strides[0] == item;

  for (int k = 0; k < n_inputs; k++) {
    in[k] = data[k + 1];
    is_dense &= strides[k + 1] == item;
  }
  if (is_dense) {
    dense(data[0], in, n, ctx);
    return;
  }
  for (int k = 0; k < n_inputs; k++)
    if (strides[k + 1] == 0) {
      in[k] = gathered[k];
      shmt__loop_move_elements(gathered[k], item, data[k + 1], 0, item, n < SHMT_LOOP_BLOCK ? n : SHMT_LOOP_BLOCK);
    }
  for (int64_t i0 = 0; i0 < n; i0 += SHMT_LOOP_BLOCK) {
    const int64_t width = n - i0 < SHMT_LOOP_BLOCK ? n - i0 : SHMT_LOOP_BLOCK;
    char* const to = data[0] + i0 * strides[0];
    for (int k = 0; k < n_inputs; k++) {
      const char* from = data[k + 1] + i0 * strides[k + 1];
      if (strides[k + 1] == item) {
        in[k] = from;
      } else if (strides[k + 1] != 0) {
        in[k] = gathered[k];
        shmt__loop_move_elements(gathered[k], item, from, strides[k + 1], item, width);
      }
    }
    if (strides[0] == item) {
      dense(to, in, width, ctx);
    } else {
      dense(made, in, width, ctx);
      shmt__loop_move_elements(to, strides[0], made, item, item, width);
    }
  }
}

#define SHMT_BY_DENSE(NAME, N_INPUTS)                                                                \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {      \
    shmt__run_dense(FN(NAME##_dense), N_INPUTS, sizeof(T), data, strides, n, ctx);                   \
  }

#define SHMT_UNARY_COSTLY_0(NAME, LET, EXPR)                                                         \
  static void FN(NAME##_dense)(void* out, const void* const* in, int64_t n, const void* ctx) {       \
    const T* const x = in[0];                                                                        \
    (void)ctx;                                                                                       \
    LET;                                                                                             \
    SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                                                     \
      const C a = x[i];                                                                              \
      ((T*)out)[i] = EXPR;                                                                           \
    }                                                                                                \
  }                                                                                                  \
  SHMT_BY_DENSE(NAME, 1)

#define SHMT_BINARY_COSTLY_0(NAME, LET, EXPR)                                                        \
  static void FN(NAME##_dense)(void* out, const void* const* in, int64_t n, const void* ctx) {       \
    const T *const x = in[0], *const y = in[1];                                                      \
    (void)ctx;                                                                                       \
    LET;                                                                                             \
    SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                                                     \
      const C a = x[i], b = y[i];                                                                    \
      ((T*)out)[i] = EXPR;                                                                           \
    }                                                                                                \
  }                                                                                                  \
  SHMT_BY_DENSE(NAME, 2)

/* An integer as wide as C. */
#define SHMT_FLAG __typeof__(_Generic((C)0, float: (int32_t)0, default: (int64_t)0))

/* LOAD declares the operands of element i. When a block has a rare element, its results go to a buffer first, because
 * out may be an input that SLOW still reads. */
#define SHMT_FALLBACK(NAME, N_INPUTS, LOAD, RARE, EXPR, SLOW)                                  \
  static void FN(NAME##_dense)(void* out, const void* const* in, int64_t n, const void* ctx) { \
    C buffer[SHMT_LOOP_BLOCK];                                                                 \
    (void)ctx;                                                                                 \
    for (int64_t i0 = 0; i0 < n; i0 += SHMT_LOOP_BLOCK) {                                      \
      const int64_t width = n - i0 < SHMT_LOOP_BLOCK ? n - i0 : SHMT_LOOP_BLOCK;               \
      const T *const x = (const T*)in[0] + i0, *const y = (const T*)in[N_INPUTS - 1] + i0;     \
      SHMT_FLAG rare = 0;                                                                      \
      (void)y;                                                                                 \
      for (int64_t i = 0; i < width; i++) {                                                    \
        LOAD;                                                                                  \
        rare |= (RARE) ? 1 : 0;                                                                \
      }                                                                                        \
      C* const result = rare ? buffer : (C*)out + i0;                                          \
      SHMT_IVDEP for (int64_t i = 0; i < width; i++) {                                         \
        LOAD;                                                                                  \
        result[i] = EXPR;                                                                      \
      }                                                                                        \
      if (!rare) continue;                                                                     \
      for (int64_t i = 0; i < width; i++) {                                                    \
        LOAD;                                                                                  \
        if (RARE) result[i] = SLOW;                                                            \
      }                                                                                        \
      memcpy((T*)out + i0, result, (size_t)width * sizeof(T));                                 \
    }                                                                                          \
  }                                                                                            \
  SHMT_BY_DENSE(NAME, N_INPUTS)
#define SHMT_UNARY_FALLBACK_0(NAME, ...)  SHMT_FALLBACK(NAME, 1, const C a = x[i], __VA_ARGS__)
#define SHMT_BINARY_FALLBACK_0(NAME, ...) SHMT_FALLBACK(NAME, 2, const C a = x[i]; const C b = y[i], __VA_ARGS__)

#define SHMT_UNARY_COSTLY_1(NAME, ...)  SHMT_WIDENED(NAME, T, 1)
#define SHMT_BINARY_COSTLY_1(NAME, ...) SHMT_WIDENED(NAME, T, 2)
#define SHMT_UNARY_FALLBACK_1(NAME, ...)    SHMT_WIDENED(NAME, T, 1)
#define SHMT_BINARY_FALLBACK_1(NAME, ...)   SHMT_WIDENED(NAME, T, 2)

#define UNARY_COSTLY(NAME, EXPR)             SHMT_SHAPE(UNARY_COSTLY)(NAME, SHMT_NOTHING, EXPR)
#define UNARY_COSTLY_WITH(NAME, LET, EXPR)   SHMT_SHAPE(UNARY_COSTLY)(NAME, LET, EXPR)
#define BINARY_COSTLY(NAME, EXPR)            SHMT_SHAPE(BINARY_COSTLY)(NAME, SHMT_NOTHING, EXPR)
#define BINARY_COSTLY_WITH(NAME, LET, EXPR)  SHMT_SHAPE(BINARY_COSTLY)(NAME, LET, EXPR)
#define UNARY_FALLBACK(NAME, RARE, EXPR, SLOW)   SHMT_SHAPE(UNARY_FALLBACK)(NAME, RARE, EXPR, SLOW)
#define BINARY_FALLBACK(NAME, RARE, EXPR, SLOW)  SHMT_SHAPE(BINARY_FALLBACK)(NAME, RARE, EXPR, SLOW)

#endif
