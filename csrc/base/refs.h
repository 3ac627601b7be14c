/* base/refs.h -- giving up references to counted things of this process.
 *
 * Note [The last holder]
 * A new reference comes only from an existing one. Who finds the count at 1 while holding a reference is therefore
 * alone, nobody can come meanwhile, and the end of most things costs no locked instruction. Where references also come
 * from elsewhere (a weak one of a storage, the table of blocks that a process holds), the count itself must fall.
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
