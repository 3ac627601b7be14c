/* kernels/reduce/products.tmpl.h -- prod. */
#include "kernels/simd/complex.h"
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_COMPLEX
#define FOLD_NAME    prod
#define FOLD_FIRST   1
#define FOLD_COMBINE SHMT_CMUL(a, b)
#define FOLD_STATE   double _Complex
#define FOLD_JOIN    SHMT_CMUL(s, (double _Complex)a)
#define FOLD_MERGE   SHMT_CMUL(s, t)
#define FOLD_FINISH  (T)s
#include "kernels/reduce/fold.tmpl.h"
#elif SHMT_IS_FLOATING
#define FOLD_NAME    prod
#define FOLD_FIRST   1
#define FOLD_COMBINE a * b
#define FOLD_JOIN    s * (double)a
#define FOLD_MERGE   s * t
#include "kernels/reduce/fold.tmpl.h"
#else
#define FOLD_NAME    prod /* wraps */
#define FOLD_MAP     (uint64_t)x
#define FOLD_LANE    uint64_t
#define FOLD_FIRST   1
#define FOLD_COMBINE a * b
#define FOLD_STATE   uint64_t
#define FOLD_JOIN    s * a
#define FOLD_MERGE   s * t
#define FOLD_RESULT  int64_t
#define FOLD_FINISH  (int64_t)s
#include "kernels/reduce/fold.tmpl.h"
#endif
