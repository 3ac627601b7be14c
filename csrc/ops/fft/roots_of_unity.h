/* ops/fft/roots_of_unity.h -- roots of unity, rounded once.
 *
 * The k-th root of n is the product of two in extended precision, whose tables have about the square root of n entries:
 * sines are slow. Roots that lie on multiples of an eighth of a turn are exact but for rounding.
 */
#ifndef SHMT_OPS_FFT_ROOTS_OF_UNITY_H
#define SHMT_OPS_FFT_ROOTS_OF_UNITY_H

#include "base/error.h"
#include "base/types.h"

typedef struct shmt__fft_roots shmt__fft_roots;

/* For the roots exp(-2 pi i k / n). Errors: SHMT_E_NOMEM. New reference. */
shmt_status shmt__fft_roots_create(int64_t n, shmt__fft_roots** out);
/* NULL is fine. */
void shmt__fft_roots_release(shmt__fft_roots* r);
static inline void shmt__auto_shmt__fft_roots(shmt__fft_roots** p) { shmt__fft_roots_release(*p); }

/* Root number k, k >= 0, as a complex dtype; its parts to two places. */
void shmt__fft_root_put(const shmt__fft_roots* r, int64_t k, shmt_dtype dtype, void* to);
void shmt__fft_root_put_parts(const shmt__fft_roots* r, int64_t k, shmt_dtype dtype, void* re, void* im);

#endif
