/* kernels/template.h -- what the templates of loops have in common: names of helpers, scalars of ctx, arithmetic that
 * wraps.
 *
 * SHMT_CTX_SCALAR(k) is the k-th scalar of ctx, an array of shmt_scalar, as C.
 */
#ifndef SHMT_KERNELS_TEMPLATE_H
#define SHMT_KERNELS_TEMPLATE_H

#include "base/scalar.h"
#include "iter/iter.h"
#include "kernels/simd/convert.h"

#include <math.h>

#define SHMT_PASTE_(a, b) a##_##b
#define SHMT_PASTE(a, b)  SHMT_PASTE_(a, b)
/* A helper function of the dtype being built. */
#define FN(name) SHMT_PASTE(name, DT)

/* No iteration of the loop reads what another wrote: an output shares an input's memory exactly or not at all (the
 * iterator refuses the rest), and there is no `restrict`. */
#define SHMT_IVDEP                  _Pragma("GCC ivdep")
#define SHMT_AT(TYPE, p, stride, i) (*(TYPE*)(void*)((p) + (i) * (stride)))

/* The k-th scalar of ctx, in the compute type. */
static inline double shmt__ctx_real(const void* ctx, int k) {
  return shmt__scalar_to_double(((const shmt_scalar*)ctx)[k]);
}
static inline int64_t shmt__ctx_int(const void* ctx, int k) {
  return shmt__scalar_to_int64(((const shmt_scalar*)ctx)[k]);
}
static inline double _Complex shmt__ctx_complex(const void* ctx, int k) {
  double z[2];
  shmt__scalar_to_complex(((const shmt_scalar*)ctx)[k], z);
  return CMPLX(z[0], z[1]);
}
#define SHMT_CTX_SCALAR(k)                \
  _Generic((C)0,                          \
      bool: shmt__ctx_int,                \
      float: shmt__ctx_real,              \
      double: shmt__ctx_real,             \
      float _Complex: shmt__ctx_complex,  \
      double _Complex: shmt__ctx_complex, \
      default: shmt__ctx_int)(ctx, k)

/* x as an unsigned integer, in which arithmetic wraps. It has at least 32 bits, so that uint16 * uint16 does not become
 * int. */
#define SHMT_WRAPPING(x)                  \
  ((__typeof__(_Generic((C)0,             \
                   int64_t: (uint64_t)0,  \
                   uint64_t: (uint64_t)0, \
                   default: (uint32_t)0)))(x))

/* Bytes of a vector register of the level. */
#define SHMT_VECTOR_BYTES (16 << SHMT_ISA_LEVEL)

/* Elements of a block: so many are widened, gathered or computed at a time. */
enum { SHMT_LOOP_BLOCK = 256 };

#endif
