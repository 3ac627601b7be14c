/* kernels/sorting/keys.tmpl.h -- elements as unsigned keys in the same order (NaN last, -0 as 0), one dtype. For the
 * templates that sort, select and search, which undefine KEY.
 *
 * Signed and unsigned integers of one size differ in their highest bit only. So signed ones and bools go to the loops
 * of unsigned ones (BY_UNSIGNED); shmt__sort_args says that they are signed.
 */
#include "kernels/simd/half_runs.h"
#include "kernels/template.h"
#include "kernels/loop_args.h"

#include <string.h>

#define KEY SHMT_LOOP(sort_key)
typedef __typeof__(_Generic((char(*)[sizeof(T)])0, char(*)[1]: (uint8_t)0, char(*)[2]: (uint16_t)0,
                            char(*)[4]: (uint32_t)0, char(*)[8]: (uint64_t)0)) KEY;

static inline KEY FN(to_key)(T value) {
  KEY k;
  memcpy(&k, &value, sizeof k);
#if SHMT_IS_FLOATING
  const KEY sign = (KEY)1 << (8 * sizeof k - 1), size = (KEY)(k & (KEY)~sign);
  const KEY infinity = (KEY)(sizeof k == 8     ? 0x7ff0000000000000u
                             : sizeof k == 4   ? 0x7f800000u
                             : SHMT_IS_FLOAT16 ? 0x7c00u
                                               : 0x7f80u);
  /* Masks instead of branches, so that loops over this function become vectors. */
  k &= (KEY) - (KEY)(size != 0);
  const KEY negative = (KEY) - (KEY)(k >> (8 * sizeof k - 1));
  return (KEY)((k ^ (negative | sign)) | (KEY) - (KEY)(size > infinity));
#elif SHMT_IS_SIGNED
  return (KEY)(k ^ ((KEY)1 << (8 * sizeof k - 1)));
#else
  return k;
#endif
}

/* Turns keys of unsigned integers into those of signed ones. */
#define HIGHEST_BIT   ((KEY)((KEY)1 << (8 * sizeof(KEY) - 1)))
#define SIGN(shape)   (!SHMT_IS_FLOATING && (shape)->is_signed ? HIGHEST_BIT : (KEY)0)
#define BY_UNSIGNED(NAME)                                                                               \
  void SHMT_UNSIGNED_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx); \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {         \
    shmt__sort_args shape = *(const shmt__sort_args*)ctx;                                               \
    shape.is_signed = SHMT_IS_SIGNED;                                                                   \
    SHMT_UNSIGNED_LOOP(NAME)(data, strides, n, &shape);                                                 \
  }

/* Can elements with different bits have this key? Floats that are 0 or NaN do. */
static inline bool FN(is_shared)(KEY k) {
  return SHMT_IS_FLOATING && (k == (KEY)1 << (8 * sizeof k - 1) || k == (KEY)~(KEY)0);
}

/* The element that has this key, which is not shared. */
static inline T FN(from_key)(KEY k) {
  T value;
#if SHMT_IS_FLOATING
  const KEY sign = (KEY)1 << (8 * sizeof k - 1);
  k = k & sign ? (KEY)(k ^ sign) : (KEY)~k;
#elif SHMT_IS_SIGNED
  k = (KEY)(k ^ ((KEY)1 << (8 * sizeof k - 1)));
#endif
  memcpy(&value, &k, sizeof value);
  return value;
}
