/* kernels/simd/avx512/of_floats.h -- lets the templates of this folder define functions of 16 floats.
 *
 * A template of this folder is included twice: after this header, and after of_doubles.h, which defines the same macros
 * for 8 doubles. of_neither.h undoes them.
 */
#include "kernels/simd/avx512/of_neither.h"

#define OF_FLOATS 1
#define VECTOR    shmt__f512
#define ELEMENT   float
#define MASK      __mmask16
#define COLUMNS   32 /* of a table */

/* The function of these vectors: names of floats' functions and tables end in f. */
#define VFN(name) shmt__avx512_##name##f
/* Instructions of elements, of comparisons of elements, and of integers of their size. */
#define MM(op)            _mm512_##op##_ps
#define MM_MASK(op)       _mm512_##op##_ps_mask
#define MM_INTEGER(op)    _mm512_##op##_epi32
#define INTEGERS_OF(x)    _mm512_castps_si512(x)
#define OF_INTEGERS(bits) _mm512_castsi512_ps(bits)

/* A vector that has x in all elements. */
#define ALL(x) shmt__avx512_f((float)(x))
/* A constant that is another for doubles. */
#define FLOAT_OR_DOUBLE(of_floats, of_doubles) of_floats
/* Adding it rounds to a multiple of step: SHMT_ROUNDERF. */
#define ROUNDER(step) ALL(SHMT_ROUNDERF(step))
