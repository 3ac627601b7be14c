/* kernels/reduce/count_nonzero.tmpl.h -- count_nonzero: how many elements are nonzero. */
#include "kernels/reduce/nonzero.h"
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_BOOL || (SHMT_IS_INTEGRAL && !SHMT_IS_SIGNED)
REDUCE_AS_SIGNED(count_nonzero)
#else
#define FOLD_NAME    count_nonzero
#define FOLD_MAP     x != 0
#define FOLD_LANE    uint32_t
#define FOLD_STATE   int64_t
#define FOLD_RESULT  int64_t
#define FOLD_FINISH  s
#include "kernels/reduce/fold.tmpl.h"
#endif
