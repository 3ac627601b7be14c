/* kernels/simd/of_double.h -- lets the templates vmath_*.tmpl.h define functions of doubles: of_float.h. */
#include "kernels/simd/of_neither.h"

#define REAL          double
#define BITS          uint64_t
#define INTEGER       int64_t
#define MANTISSA_BITS 52
#define ONE_BITS      0x3ff0000000000000u

#define VM(name)        shmt__##name
#define MADD(a, b, c)   SHMT_MADD(a, b, c)
#define SQRT(x)         __builtin_sqrt(x)
#define TRUNC(x)        __builtin_trunc(x)
#define BITS_OF(x)      shmt__bits_of_double(x)
#define OF_BITS(bits)   shmt__double_of_bits(bits)
#define FLOAT_OR_DOUBLE(of_float, of_double) of_double
