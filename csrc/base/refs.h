/* base/refs.h -- giving up references to reference-counted objects of this process.
 *
 * Note [The last holder]
 * A new reference is made only from an existing one. A holder that reads a count of 1 therefore holds the only
 * reference, and no other thread can make one. So most objects end without a locked instruction. Where references also
 * come from elsewhere (a weak reference of a storage, the table of blocks that a process holds), the count itself must
 * be decremented.
 */
#ifndef SHMT_BASE_REFS_H
#define SHMT_BASE_REFS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Is the caller's reference the only one? acquire: every use by holders that are gone happens before what follows. */
static inline bool shmt__is_last_reference(const atomic_int_least32_t* refs) {
  return atomic_load_explicit(refs, memory_order_acquire) == 1;
}

/* Give up the caller's reference; true: it was the last. acq_rel: every earlier use happens before the free. */
static inline bool shmt__drop_reference(atomic_int_least32_t* refs) {
  return atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

#endif
