/* kernels/pointwise/bitwise.tmpl.h -- and, or, xor, not of integers and bools; shifts. */
#include "kernels/loops.h"

BINARY(bitwise_and, (C)(a & b))
BINARY(bitwise_or, (C)(a | b))
BINARY(bitwise_xor, (C)(a ^ b))
#if SHMT_IS_BOOL
UNARY(bitwise_not, !a)
#elif !SHMT_IS_BAREBONES_UNSIGNED
UNARY(bitwise_not, (C)~a)
/* A shift by the width or more (or by a negative count) removes all bits; a right shift leaves the sign. */
#define BITS       (8 * (int)sizeof(C))
#define TOO_FAR(b) ((uint64_t)(int64_t)(b) >= (uint64_t)BITS)
BINARY(bitwise_left_shift, TOO_FAR(b) ? (C)0 : (C)(SHMT_WRAPPING(a) << ((int)b & (BITS - 1))))
BINARY(bitwise_right_shift, TOO_FAR(b) ? (C)(a >> (BITS - 1) >> 1) : (C)(a >> ((int)b & (BITS - 1))))
#undef BITS
#undef TOO_FAR
#endif
