/* api/blas.h -- the linear algebra library that matrix products run on. */
#ifndef SHMT_API_BLAS_H
#define SHMT_API_BLAS_H

#include "api/status.h"

/* Where the package keeps its bundled libraries; copied. Called once at import, before the first product. */
void shmt_set_library_dir(const char* path);
/* Path of the library in use, or "none" when products run on the built-in loops. Loads it when needed. */
const char* shmt_blas_library(void);
/* Load the library now (it otherwise happens at the first product); true when one was found. */
int shmt_blas_load(void);

#endif
