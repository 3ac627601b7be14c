/* kernels/reduce/any.tmpl.h -- any: is any element nonzero? */
#include "kernels/reduce/nonzero.h"
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_BOOL || (SHMT_IS_INTEGRAL && !SHMT_IS_SIGNED)
REDUCE_AS_SIGNED(any)
#else
#define FOLD_NAME    any
#define FOLD_MAP     x != 0
#define FOLD_LANE    uint8_t
#define FOLD_COMBINE a | b
#define FOLD_STATE   uint8_t
#define FOLD_JOIN    s | a
#define FOLD_MERGE   s | t
#define FOLD_RESULT  bool
#define FOLD_FINISH  s
#include "kernels/reduce/fold.tmpl.h"
#endif
