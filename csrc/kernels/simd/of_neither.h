/* kernels/simd/of_neither.h -- undefines what of_float.h and of_double.h define. */
#undef REAL
#undef BITS
#undef INTEGER
#undef MANTISSA_BITS
#undef ONE_BITS
#undef VM
#undef MADD
#undef SQRT
#undef TRUNC
#undef BITS_OF
#undef OF_BITS
#undef FLOAT_OR_DOUBLE
