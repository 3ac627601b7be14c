/* autograd/autocast.h -- casts of arguments to the dtype that an operator is to compute in.
 *
 * While a thread has it on, its calls include the Autocast key. The operators of three lists have a
 * kernel there: it casts floating-point CPU arguments, but for float64, and calls the operator again
 * without the key, so that the casts are recorded.
 *
 *   lower precision   products, convolutions, attention: to the thread's 16-bit dtype
 *   float32           losses, decompositions, transforms: to float32
 *   promote           joins of several tensors: to float32 where one has it, else to the 16-bit dtype
 *
 * A cast of a leaf that requires grad, a weight, is kept for its next use until the cache is cleared.
 */
#ifndef SHMT_AUTOGRAD_AUTOCAST_H
#define SHMT_AUTOGRAD_AUTOCAST_H

#include "base/error.h"
#include "base/types.h"

/* Switch it on or off for this thread.
 *
 * lower    the 16-bit dtype
 * caches   keep casts of weights
 * Errors:  SHMT_E_NOMEM, when it is first switched on in the process. */
shmt_status shmt__autocast_set(bool enabled, shmt_dtype lower, bool caches);
/* Drop this thread's casts of weights. */
void shmt__autocast_clear_cache(void);

#endif
