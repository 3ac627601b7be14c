/* kernels/simd/avx512/of_neither.h -- undefines what of_floats.h and of_doubles.h define. */
#undef OF_FLOATS
#undef VECTOR
#undef ELEMENT
#undef MASK
#undef COLUMNS
#undef VFN
#undef MM
#undef MM_MASK
#undef MM_INTEGER
#undef INTEGERS_OF
#undef OF_INTEGERS
#undef ALL
#undef FLOAT_OR_DOUBLE
#undef ROUNDER
