/* ops/fft/roots_of_unity.h -- roots of unity, the twiddle factors of Fourier transforms, rounded once.
 *
 * The k-th root of n is the product of two numbers in extended precision. Their tables have about the square root of n
 * entries, because sines are slow. Roots at multiples of an eighth of a turn are exact but for rounding.
 */
#ifndef SHMT_OPS_FFT_ROOTS_OF_UNITY_H
#define SHMT_OPS_FFT_ROOTS_OF_UNITY_H

#include "base/error.h"
#include "base/types.h"

typedef struct shmt__fft_roots shmt__fft_roots;

/* Makes the tables for the roots exp(-2 pi i k / n). Errors: SHMT_E_NOMEM. New reference. */
shmt_status shmt__fft_roots_create(int64_t n, shmt__fft_roots** out);
/* NULL is fine. */
void shmt__fft_roots_release(shmt__fft_roots* r);
static inline void shmt__auto_shmt__fft_roots(shmt__fft_roots** p) { shmt__fft_roots_release(*p); }

/* Writes root number k, k >= 0, as a complex number, or its parts to two addresses. */
void shmt__fft_root_put(const shmt__fft_roots* r, int64_t k, shmt_dtype dtype, void* to);
void shmt__fft_root_put_parts(const shmt__fft_roots* r, int64_t k, shmt_dtype dtype, void* re, void* im);

#endif
