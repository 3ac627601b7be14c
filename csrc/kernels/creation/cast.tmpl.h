/* kernels/creation/cast.tmpl.h -- converts elements of dtype T to every other dtype.
 *
 * Out-of-range numbers and NaN become the integers that x86's conversions give: the smallest integer of the
 * intermediate width (32 bits for narrow targets, 64 for wide ones), then cut to the target's width.
 */
#include "generated/dtype_tables.h"
#include "kernels/simd/half_casts.h"
#include "kernels/simd/convert.h"

#if SHMT_IS_COMPLEX
#define CAST_REAL(x) SHMT_CREAL(x)
#define CAST_BOOL(x) ((SHMT_CREAL(x) != 0) | (SHMT_CIMAG(x) != 0))
#else
#define CAST_REAL(x) (x)
#define CAST_BOOL(x) ((x) != 0)
#endif
#if SHMT_IS_COMPLEX || SHMT_IS_FLOATING
#define CAST_I32(x) SHMT_FLOAT_TO_I32(CAST_REAL(x))
#define CAST_I64(x) SHMT_FLOAT_TO_I64(CAST_REAL(x))
#define CAST_U64(x) SHMT_FLOAT_TO_U64(CAST_REAL(x))
#else
#define CAST_I32(x) ((int32_t)(x))
#define CAST_I64(x) ((int64_t)(x))
#define CAST_U64(x) ((uint64_t)(x))
#endif

/* Is the result without the sign of the integer that it is made of? */
#define CAST_IS_CUT_bool       true
#define CAST_IS_CUT_int8       true
#define CAST_IS_CUT_int16      (sizeof(T) >= 2)
#define CAST_IS_CUT_int32      (sizeof(T) >= 4)
#define CAST_IS_CUT_uint32     CAST_IS_CUT_int32
#define CAST_IS_CUT_int64      (sizeof(T) >= 8)
#define CAST_IS_CUT_uint64     CAST_IS_CUT_int64
#define CAST_IS_CUT_bfloat16   false
#define CAST_IS_CUT_float32    false
#define CAST_IS_CUT_float64    false
#define CAST_IS_CUT_complex32  false
#define CAST_IS_CUT_complex64  false
#define CAST_IS_CUT_complex128 false

/* x = SHMT_LOAD(element), converted to each dtype. */
#define CAST_TO_bool(x)       CAST_BOOL(x)
#define CAST_TO_uint8(x)      ((uint8_t)CAST_I32(x))
#define CAST_TO_int8(x)       ((int8_t)CAST_I32(x))
#define CAST_TO_int16(x)      ((int16_t)CAST_I32(x))
#define CAST_TO_int32(x)      CAST_I32(x)
#define CAST_TO_int64(x)      CAST_I64(x)
#define CAST_TO_uint16(x)     ((uint16_t)CAST_I32(x))
#define CAST_TO_uint32(x)     ((uint32_t)CAST_I64(x))
#define CAST_TO_uint64(x)     CAST_U64(x)
#define CAST_TO_bfloat16(x)   shmt__bfloat16_from_float((float)CAST_REAL(x))
#define CAST_TO_complex32(x)  shmt__complex32_from_complex((float _Complex)(x))
#define CAST_TO_float32(x)    ((float)CAST_REAL(x))
#define CAST_TO_float64(x)    ((double)CAST_REAL(x))
#define CAST_TO_complex64(x)  ((float _Complex)(x))
#define CAST_TO_complex128(x) ((double _Complex)(x))

/* An integer cut to a width has the same bits with a sign or without: one loop does both. */
#define CAST_TWIN(NAME, OTHER)                                                                                    \
  void SHMT_LOOP(cast_to_##OTHER)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride,             \
                                  int64_t n);                                                                     \
  void SHMT_LOOP(cast_to_##NAME)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n) { \
    SHMT_LOOP(cast_to_##OTHER)(dst, dst_stride, src, src_stride, n);                                              \
  }
enum { SHMT_LOOP(cast_block) = 1024 / sizeof(C) };

#if SHMT_IS_HALF
/* Widens a run of 16-bit floats to the type they are calculated in. */
static void SHMT_LOOP(cast_widen)(C* to, const char* from, int64_t stride, int64_t n) {
  if (stride == (int64_t)sizeof(T))
    SHMT_WIDEN_RUN((void*)to, (const void*)from, n * (int64_t)(sizeof(T) / sizeof(SHMT_REAL)));
  else
    for (int64_t i = 0; i < n; i++) to[i] = SHMT_LOAD(*(const T*)(const void*)(from + i * stride));
}

/* 16-bit floats are widened a block at a time, and converted from there. */
#define CAST_LOOP(NAME, TO)                                                                                           \
  void SHMT_FULL_LOOP(cast_to_##NAME)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n); \
  void SHMT_LOOP(cast_to_##NAME)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n) {     \
    C block[SHMT_LOOP(cast_block)];                                                                                   \
    for (int64_t i = 0, width; i < n; i += width) {                                                                   \
      width = n - i < SHMT_LOOP(cast_block) ? n - i : SHMT_LOOP(cast_block);                                          \
      SHMT_LOOP(cast_widen)(block, src + i * src_stride, src_stride, width);                                          \
      SHMT_FULL_LOOP(cast_to_##NAME)(dst + i * dst_stride, dst_stride, (const char*)block, sizeof(C), width);         \
    }                                                                                                                 \
  }
#else
/* Signed integers of which no bit of the result depends on the sign take the loop of the unsigned ones. The code behind
 * is not compiled then. */
#define CAST_LOOP(NAME, TO)                                                                                   \
  void SHMT_UNSIGNED_LOOP(cast_to_##NAME)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, \
                                          int64_t n);                                                         \
  void SHMT_LOOP(cast_to_##NAME)(char* dst, int64_t dst_stride, const char* src,                              \
                                 int64_t src_stride, int64_t n) {                                             \
    if (SHMT_IS_SIGNED && CAST_IS_CUT_##NAME) {                                                               \
      SHMT_UNSIGNED_LOOP(cast_to_##NAME)(dst, dst_stride, src, src_stride, n);                                \
      return;                                                                                                 \
    }                                                                                                         \
    if (dst_stride == (int64_t)sizeof(TO) && src_stride == (int64_t)sizeof(T)) {                              \
      TO* to = (TO*)(void*)dst;                                                                               \
      const T* from = (const T*)(const void*)src;                                                             \
      _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) to[i] =                                            \
          CAST_TO_##NAME(SHMT_LOAD(from[i]));                                                                 \
    } else {                                                                                                  \
      for (int64_t i = 0; i < n; i++)                                                                         \
        *(TO*)(void*)(dst + i * dst_stride) =                                                                 \
            CAST_TO_##NAME(SHMT_LOAD(*(const T*)(const void*)(src + i * src_stride)));                        \
    }                                                                                                         \
  }
#endif
/* To float16 through float, for the processor's instruction. */
#define CAST_TO_HALF                                                                                               \
  void SHMT_LOOP(cast_to_float32)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n);  \
  void SHMT_LOOP(cast_to_float16)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n) { \
    float block[SHMT_LOOP(cast_block)];                                                                            \
    for (int64_t i = 0, width; i < n; i += width) {                                                                \
      const float* x = (const float*)(const void*)(src + i * src_stride);                                          \
      char* const to = dst + i * dst_stride;                                                                       \
      width = n - i < SHMT_LOOP(cast_block) ? n - i : SHMT_LOOP(cast_block);                                       \
      if (SHMT_DT != SHMT_FLOAT32 || src_stride != (int64_t)sizeof *x) {                                           \
        SHMT_LOOP(cast_to_float32)((char*)block, sizeof *block, (const char*)x, src_stride, width);                \
        x = block;                                                                                                 \
      }                                                                                                            \
      shmt__store_float16(to, dst_stride, x, width);                                                               \
    }                                                                                                              \
  }
/* To int64 through int32 where a block fits in: before AVX-512 there is no instruction for a direct conversion of
 * vectors. */
#define CAST_TO_WIDE                                                                                                 \
  static void SHMT_LOOP(cast_wide)(int64_t* to, const T* from, int64_t n) {                                          \
    int32_t fits = -1;                                                                                               \
    for (int64_t i = 0; i < n; i++) fits &= -(int32_t)((from[i] >= (T)-2147483648.0) & (from[i] < (T)2147483648.0)); \
    if (fits)                                                                                                        \
      _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) to[i] = (int32_t)from[i];                                 \
    else                                                                                                             \
      for (int64_t i = 0; i < n; i++) to[i] = CAST_I64(from[i]);                                                     \
  }                                                                                                                  \
  void SHMT_LOOP(cast_to_int64)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n) {     \
    enum { WIDTH = 256 };                                                                                            \
    const bool is_dense = dst_stride == (int64_t)sizeof(int64_t) && src_stride == (int64_t)sizeof(T);                \
    for (int64_t i = 0; is_dense && i < n; i += WIDTH)                                                               \
      SHMT_LOOP(cast_wide)((int64_t*)(void*)dst + i, (const T*)(const void*)src + i, n - i < WIDTH ? n - i : WIDTH); \
    for (int64_t i = 0; !is_dense && i < n; i++)                                                                     \
      *(int64_t*)(void*)(dst + i * dst_stride) = CAST_I64(*(const T*)(const void*)(src + i * src_stride));           \
  }
/* To complex32 through complex64, for the same instruction. */
#define CAST_TO_COMPLEX32                                                                                            \
  void SHMT_LOOP(cast_to_complex64)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n);  \
  void SHMT_LOOP(cast_to_complex32)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n) { \
    enum { WIDTH = 128 };                                                                                            \
    float _Complex block[WIDTH];                                                                                     \
    for (int64_t i = 0, width; i < n; i += width) {                                                                  \
      width = n - i < WIDTH ? n - i : WIDTH;                                                                         \
      SHMT_LOOP(cast_to_complex64)((char*)block, sizeof *block, src + i * src_stride, src_stride, width);            \
      shmt__store_complex32(dst + i * dst_stride, dst_stride, block, width);                                         \
    }                                                                                                                \
  }
#define CAST_HOW_bool(TO) CAST_LOOP(bool, TO)
#define CAST_HOW_int8(TO) CAST_LOOP(int8, TO)
#define CAST_HOW_int16(TO) CAST_LOOP(int16, TO)
#define CAST_HOW_int32(TO) CAST_LOOP(int32, TO)
#if SHMT_IS_FLOATING && !SHMT_IS_HALF
#define CAST_HOW_int64(TO) CAST_TO_WIDE
#else
#define CAST_HOW_int64(TO) CAST_LOOP(int64, TO)
#endif
#define CAST_HOW_float16(TO) CAST_TO_HALF
#define CAST_HOW_bfloat16(TO) CAST_LOOP(bfloat16, TO)
#define CAST_HOW_float32(TO) CAST_LOOP(float32, TO)
#define CAST_HOW_float64(TO) CAST_LOOP(float64, TO)
#if SHMT_IS_BOOL /* one of two */
#define CAST_HOW_complex32(TO) CAST_LOOP(complex32, TO)
#else
#define CAST_HOW_complex32(TO) CAST_TO_COMPLEX32
#endif
#define CAST_HOW_complex64(TO) CAST_LOOP(complex64, TO)
#define CAST_HOW_complex128(TO) CAST_LOOP(complex128, TO)
#define CAST_HOW_uint8(TO) CAST_TWIN(uint8, int8)
#define CAST_HOW_uint16(TO) CAST_TWIN(uint16, int16)
#if SHMT_IS_INTEGRAL || SHMT_IS_BOOL
#define CAST_HOW_uint32(TO) CAST_TWIN(uint32, int32)
#define CAST_HOW_uint64(TO) CAST_TWIN(uint64, int64)
#else
#define CAST_HOW_uint32(TO) CAST_LOOP(uint32, TO)
#define CAST_HOW_uint64(TO) CAST_LOOP(uint64, TO)
#endif
#define CAST(NAME, CONSTANT, TO, COMPUTE) CAST_HOW_##NAME(TO)
SHMT_FOR_EACH_DTYPE(CAST)

#undef CAST
#undef CAST_LOOP
#undef CAST_TO_HALF
#undef CAST_TO_COMPLEX32
#undef CAST_TO_WIDE
#undef CAST_TWIN
#undef CAST_HOW_complex32
#undef CAST_HOW_int64
#undef CAST_HOW_uint32
#undef CAST_HOW_uint64
#undef CAST_REAL
#undef CAST_BOOL
#undef CAST_I32
#undef CAST_I64
#undef CAST_U64
