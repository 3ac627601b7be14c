/* ops/svd_wide.h -- singular values and vectors of small real matrices that are much wider than high.
 *
 * gesdd begins with an LQ decomposition there, which pays for large ones. Small ones are made bidiagonal as they are,
 * like all others: the signs of their vectors are then those that other libraries find.
 */
#ifndef SHMT_OPS_SVD_WIDE_H
#define SHMT_OPS_SVD_WIDE_H

#include "ops/lapack.h"

typedef struct shmt__svd_wide_routines {
  void *gebrd, *bdsdc, *ormbr;
  shmt_dtype dtype;
} shmt__svd_wide_routines;

/* Is an m x n matrix one of those? */
bool shmt__svd_is_wide(shmt_dtype dtype, int64_t m, int64_t n);
/* The routines for dtype. Errors: as shmt__lapack_find. */
shmt_status shmt__svd_wide_find(shmt_dtype dtype, shmt__svd_wide_routines* out);
/* Are the numbers of matrix i neither so large nor so small that it would have to be scaled first? */
bool shmt__svd_wide_fits(const shmt__svd_wide_routines* r, const shmt__batch* a, int64_t i);
/* u, values and v of matrix i of a, which is overwritten. Returns LAPACK's info. */
int shmt__svd_wide(const shmt__svd_wide_routines* r, const shmt__batch* a, const shmt__batch* u, const shmt__batch* v,
                   void* values, int64_t i);

#endif
