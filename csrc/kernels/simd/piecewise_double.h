/* kernels/simd/piecewise_double.h -- macros for loops over piecewise functions, computed in double.
 *
 * PIECEWISE_1(name, pieces) and PIECEWISE_2 define SHMT_LOOP(name) for float64 as UNARY and BINARY of loops.h do. A
 * block of arguments is read into x (and z). The pieces fill y in order, each where its condition holds:
 *
 *   OTHERWISE(e)         the default for every element; comes first
 *   PIECE(where, e)      computed without branches for the whole block, and skipped when the condition holds nowhere
 *   EACH(where, e)       computed one element at a time: for functions that call the C library
 *
 * where a (and b) are the arguments. For float32, IN_DOUBLE_1 and IN_DOUBLE_2 define loops that widen a block, run the
 * float64 loop of the same level and round its results, so one body serves all dtypes. Half-precision types run the
 * float32 loop.
 */
#ifndef SHMT_KERNELS_SIMD_PIECEWISE_DOUBLE_H
#define SHMT_KERNELS_SIMD_PIECEWISE_DOUBLE_H

#include "kernels/simd/costly_loops.h"

/* Is the dtype being built float64? For #if. */
#define SHMT_DOUBLE_float16  0
#define SHMT_DOUBLE_bfloat16 0
#define SHMT_DOUBLE_float32  0
#define SHMT_DOUBLE_float64  1
#define SHMT_IS_DOUBLE       SHMT_PASTE(SHMT_DOUBLE, DT)

#define OTHERWISE(EXPR)                     \
  for (int64_t i = 0; i < width; i++) {     \
    const double a = x[i], b = z[i];        \
    (void)a;                                \
    (void)b;                                \
    y[i] = EXPR;                            \
  }
#define PIECE(WHERE, EXPR)                        \
  {                                               \
    int64_t used = 0;                             \
    for (int64_t i = 0; i < width; i++) {         \
      const double a = x[i], b = z[i];            \
      (void)a;                                    \
      (void)b;                                    \
      used |= (WHERE) ? 1 : 0;                    \
    }                                             \
    for (int64_t i = 0; used && i < width; i++) { \
      const double a = x[i], b = z[i];            \
      const double made = EXPR;                   \
      (void)a;                                    \
      (void)b;                                    \
      y[i] = (WHERE) ? made : y[i];               \
    }                                             \
  }
#define EACH(WHERE, EXPR)                         \
  {                                               \
    int64_t used = 0;                             \
    for (int64_t i = 0; i < width; i++) {         \
      const double a = x[i], b = z[i];            \
      (void)b;                                    \
      used |= (WHERE) ? 1 : 0;                    \
    }                                             \
    for (int64_t i = 0; used && i < width; i++) { \
      const double a = x[i], b = z[i];            \
      (void)b;                                    \
      if (WHERE) y[i] = EXPR;                     \
    }                                             \
  }

#define SHMT_BLOCK_LOAD(TO, p, stride)                                             \
  if ((stride) == (int64_t)sizeof(T))                                              \
    for (int64_t i = 0; i < width; i++) (TO)[i] = ((const T*)(const void*)(p))[i]; \
  else                                                                             \
    for (int64_t i = 0; i < width; i++) (TO)[i] = SHMT_AT(const T, p, stride, i)
#define SHMT_BLOCK_STORE(FROM, p, stride)                                   \
  if ((stride) == (int64_t)sizeof(T))                                       \
    for (int64_t i = 0; i < width; i++) ((T*)(void*)(p))[i] = (T)(FROM)[i]; \
  else                                                                      \
    for (int64_t i = 0; i < width; i++) SHMT_AT(T, p, stride, i) = (T)(FROM)[i]

#define PIECEWISE_1(NAME, ...)                                                                  \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    double x[SHMT_LOOP_BLOCK], y[SHMT_LOOP_BLOCK];                                              \
    const double* const z = x;                                                                  \
    (void)ctx;                                                                                  \
    for (int64_t i0 = 0; i0 < n; i0 += SHMT_LOOP_BLOCK) {                                       \
      const int64_t width = n - i0 < SHMT_LOOP_BLOCK ? n - i0 : SHMT_LOOP_BLOCK;                \
      SHMT_BLOCK_LOAD(x, data[1] + i0 * strides[1], strides[1]);                                \
      __VA_ARGS__                                                                               \
      SHMT_BLOCK_STORE(y, data[0] + i0 * strides[0], strides[0]);                               \
    }                                                                                           \
  }
#define PIECEWISE_2(NAME, ...)                                                                  \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    double x[SHMT_LOOP_BLOCK], z[SHMT_LOOP_BLOCK], y[SHMT_LOOP_BLOCK];                          \
    (void)ctx;                                                                                  \
    for (int64_t i0 = 0; i0 < n; i0 += SHMT_LOOP_BLOCK) {                                       \
      const int64_t width = n - i0 < SHMT_LOOP_BLOCK ? n - i0 : SHMT_LOOP_BLOCK;                \
      SHMT_BLOCK_LOAD(x, data[1] + i0 * strides[1], strides[1]);                                \
      SHMT_BLOCK_LOAD(z, data[2] + i0 * strides[2], strides[2]);                                \
      __VA_ARGS__                                                                               \
      SHMT_BLOCK_STORE(y, data[0] + i0 * strides[0], strides[0]);                               \
    }                                                                                           \
  }

/* Defines the function that runs a float64 loop of one or two arguments over operands of T = float. A template that
 * uses IN_DOUBLE_1 or IN_DOUBLE_2 has it once. */
#define IN_DOUBLE_RUNNER SHMT_SHAPE(IN_DOUBLE_RUNNER)()
#define SHMT_IN_DOUBLE_RUNNER_1()
#define SHMT_IN_DOUBLE_RUNNER_0()                                                                          \
  static __attribute__((noinline)) void FN(in_double)(shmt__loop loop, int n_arguments, char* const* data, \
                                                      const int64_t* strides, int64_t n,                   \
                                                      const void* ctx) {                                   \
    static const int64_t dense[] = {sizeof(double), sizeof(double), sizeof(double)};                       \
    double wide[3][SHMT_LOOP_BLOCK];                                                                       \
    char* const at[] = {(char*)wide[0], (char*)wide[1], (char*)wide[2]};                                   \
    for (int64_t i0 = 0; i0 < n; i0 += SHMT_LOOP_BLOCK) {                                                  \
      const int64_t width = n - i0 < SHMT_LOOP_BLOCK ? n - i0 : SHMT_LOOP_BLOCK;                           \
      for (int k = 1; k <= n_arguments; k++) {                                                             \
        SHMT_BLOCK_LOAD(wide[k], data[k] + i0 * strides[k], strides[k]);                                   \
      }                                                                                                    \
      loop(at, dense, width, ctx);                                                                         \
      SHMT_BLOCK_STORE(wide[0], data[0] + i0 * strides[0], strides[0]);                                    \
    }                                                                                                      \
  }
#define SHMT_FLOAT64_LOOP_(NAME, LEVEL) shmt__loop_##NAME##_float64_##LEVEL
#define SHMT_FLOAT64_LOOP(NAME, LEVEL)  SHMT_FLOAT64_LOOP_(NAME, LEVEL)
#define SHMT_IN_DOUBLE_1(NAME, N_ARGUMENTS) SHMT_WIDENED(NAME, T, N_ARGUMENTS)
#define SHMT_IN_DOUBLE_0(NAME, N_ARGUMENTS)                                                                 \
  void SHMT_FLOAT64_LOOP(NAME, ISA)(char* const* data, const int64_t* strides, int64_t n, const void* ctx); \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {             \
    FN(in_double)(SHMT_FLOAT64_LOOP(NAME, ISA), N_ARGUMENTS, data, strides, n, ctx);                        \
  }
#define IN_DOUBLE_1(NAME) SHMT_SHAPE(IN_DOUBLE)(NAME, 1)
#define IN_DOUBLE_2(NAME) SHMT_SHAPE(IN_DOUBLE)(NAME, 2)

#endif
