/* kernels/linalg/lu.tmpl.h -- LU factors of a few columns with row pivoting, one dtype.
 *
 * Columns are contiguous, so that subtracting a multiple of one column from another is a loop over neighbours.
 */
#include "kernels/simd/complex.h"
#include "kernels/template.h"
#include "kernels/linalg/lu.h"

#include <string.h>

/* Products are added unrounded where the processor can. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")

typedef __typeof__(_Generic((SHMT_REAL*)0, float*: (uint32_t)0, double*: (uint64_t)0)) FN(bits);
enum { FN(parts) = sizeof(T) / sizeof(SHMT_REAL) };

/* The bits of a magnitude. They are ordered as the magnitudes are, and vectors find the largest of them fast. */
static inline FN(bits) FN(magnitude)(const SHMT_REAL* x) {
  SHMT_REAL size = SHMT_IS_COMPLEX ? (x[0] < 0 ? -x[0] : x[0]) : x[0];
  FN(bits) bits;

  if (SHMT_IS_COMPLEX) size += x[FN(parts) - 1] < 0 ? -x[FN(parts) - 1] : x[FN(parts) - 1];
  memcpy(&bits, &size, sizeof bits);
  return bits & ~(FN(bits))0 >> 1;
}

static inline int64_t FN(find_pivot)(const SHMT_REAL* x, int64_t n) {
  FN(bits) most = 0;
  int64_t at = 0;

  for (int64_t i = 0; i < n; i++) {
    const FN(bits) bits = FN(magnitude)(x + i * FN(parts));
    most = bits > most ? bits : most;
  }
  while (at < n - 1 && FN(magnitude)(x + at * FN(parts)) != most) at++;
  return at;
}

/* x -= w * y */
static inline void FN(subtract_multiple)(SHMT_REAL* restrict x, const SHMT_REAL* restrict y, int64_t n, T w) {
#if SHMT_IS_COMPLEX
  const SHMT_REAL re = __real__ w, im = __imag__ w;
  for (int64_t i = 0; i < 2 * n; i += 2) {
    const SHMT_REAL y_re = y[i], y_im = y[i + 1];
    x[i] = x[i] - re * y_re + im * y_im;
    x[i + 1] = x[i + 1] - re * y_im - im * y_re;
  }
#else
  for (int64_t i = 0; i < n; i++) x[i] -= w * y[i];
#endif
}

/* x /= by. Multiplies by the reciprocal, unless that overflows. */
static inline void FN(divide)(T* x, int64_t n, T by) {
#if SHMT_IS_COMPLEX
  const T reciprocal = SHMT_CDIV((T)1, by);
  const bool fits = isfinite(__real__ reciprocal) && isfinite(__imag__ reciprocal);

  for (int64_t i = 0; i < n; i++) x[i] = fits ? SHMT_CMUL(x[i], reciprocal) : SHMT_CDIV(x[i], by);
#else
  const T reciprocal = 1 / by;

  if (isfinite(reciprocal))
    for (int64_t i = 0; i < n; i++) x[i] *= reciprocal;
  else
    for (int64_t i = 0; i < n; i++) x[i] /= by;
#endif
}

/* data: column-major elements, pivots (int); n: rows; ctx: shmt__lu_args. The elements become their factors, as
 * LAPACK's getrf leaves them. */
void SHMT_LOOP(lu)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__lu_args* s = ctx;
  const int64_t pitch = s->pitch, rank = n < s->columns ? n : s->columns;
  T* a = (T*)(void*)data[0];
  int* pivots = (int*)(void*)data[1];
  int info = 0;

  (void)strides;
  for (int64_t j = 0; j < rank; j++) {
    T* column = a + j * pitch;
    const int64_t at = j + FN(find_pivot)((const SHMT_REAL*)(column + j), n - j), below = n - j - 1;
    pivots[j] = (int)at + 1;
    if (column[at] == 0) {
      if (info == 0) info = (int)j + 1;
      continue;
    }
    if (at != j)
      for (int64_t k = 0; k < s->columns; k++) {
        T* other = a + k * pitch;
        const T kept = other[j];
        other[j] = other[at];
        other[at] = kept;
      }
    FN(divide)(column + j + 1, below, column[j]);
    for (int64_t k = j + 1; k < s->columns; k++) {
      T* other = a + k * pitch + j;
      FN(subtract_multiple)((SHMT_REAL*)(other + 1), (const SHMT_REAL*)(column + j + 1), below, *other);
    }
  }
  *s->info = info;
}
#pragma GCC pop_options
