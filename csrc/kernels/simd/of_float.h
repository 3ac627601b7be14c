/* kernels/simd/of_float.h -- lets the templates vmath_*.tmpl.h define functions of floats.
 *
 * Such a template is included twice: after this header, and after of_double.h, which defines the same macros for
 * doubles. of_neither.h undoes them.
 */
#include "kernels/simd/of_neither.h"

#define REAL          float
#define BITS          uint32_t
#define INTEGER       int32_t /* of the size of REAL */
#define MANTISSA_BITS 23
#define ONE_BITS      0x3f800000u /* of 1.0 */

/* The function of that name: those of floats end in f. */
#define VM(name) shmt__##name##f
/* A fused multiply-add where the hardware has one. */
#define MADD(a, b, c)   SHMT_MADDF(a, b, c)
#define SQRT(x)         __builtin_sqrtf(x)
#define TRUNC(x)        __builtin_truncf(x)
#define BITS_OF(x)      shmt__bits_of_float(x)
#define OF_BITS(bits)   shmt__float_of_bits(bits)
/* A constant that is another for doubles. */
#define FLOAT_OR_DOUBLE(of_float, of_double) of_float
