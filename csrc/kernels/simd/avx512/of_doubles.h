/* kernels/simd/avx512/of_doubles.h -- lets the templates of this folder define functions of 8 doubles: of_floats.h. */
#include "kernels/simd/avx512/of_neither.h"

#define OF_FLOATS 0
#define VECTOR    shmt__d512
#define ELEMENT   double
#define MASK      __mmask8
#define COLUMNS   16

#define VFN(name) shmt__avx512_##name

#define MM(op)            _mm512_##op##_pd
#define MM_MASK(op)       _mm512_##op##_pd_mask
#define MM_INTEGER(op)    _mm512_##op##_epi64
#define INTEGERS_OF(x)    _mm512_castpd_si512(x)
#define OF_INTEGERS(bits) _mm512_castsi512_pd(bits)

#define ALL(x)                                 shmt__avx512_d((double)(x))
#define FLOAT_OR_DOUBLE(of_floats, of_doubles) of_doubles
#define ROUNDER(step)                          ALL(SHMT_ROUNDER((double)(step)))
