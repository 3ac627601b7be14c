/* kernels/reduce/magnitudes.tmpl.h -- absolute values and squares as real numbers R, for the templates of vector
 * norms. */
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_COMPLEX
#define R            __typeof__(SHMT_CREAL((C)0))
#define MAGNITUDE(x) _Generic((C)0, float _Complex: cabsf, default: cabs)(x)
#define SQUARE(x)    (SHMT_CREAL(x) * SHMT_CREAL(x) + SHMT_CIMAG(x) * SHMT_CIMAG(x))
#define PUT(x)       SHMT_STORE_REAL((R)(x))
#define STORED       SHMT_REAL
#else
#define R            C
#define MAGNITUDE(x) _Generic((C)0, float: fabsf, default: fabs)(x)
#define SQUARE(x)    ((x) * (x))
#define PUT(x)       SHMT_STORE((C)(x))
#define STORED       T
#endif
