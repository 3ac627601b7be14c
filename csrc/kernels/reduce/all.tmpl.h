/* kernels/reduce/all.tmpl.h -- all: is every element nonzero? */
#include "kernels/reduce/nonzero.h"
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_BOOL || (SHMT_IS_INTEGRAL && !SHMT_IS_SIGNED)
REDUCE_AS_SIGNED(all)
#else
#define FOLD_NAME    all
#define FOLD_MAP     x != 0
#define FOLD_LANE    uint8_t
#define FOLD_FIRST   1
#define FOLD_COMBINE a & b
#define FOLD_STATE   uint8_t
#define FOLD_JOIN    s & a
#define FOLD_MERGE   s & t
#define FOLD_RESULT  bool
#define FOLD_FINISH  s
#include "kernels/reduce/fold.tmpl.h"
#endif
