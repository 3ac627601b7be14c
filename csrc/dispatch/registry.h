/* dispatch/registry.h -- operators by name; defining operators and registering kernels at run time.
 *
 * Note [Which kernel a key has]
 * An operator's table is computed from its registrations. For each run-time key, in this order:
 *   1. the newest kernel registered for exactly that key;
 *   2. backends:                 the newest CompositeExplicitAutograd kernel;
 *   3. backends:                 the newest CompositeImplicitAutograd kernel;
 *   4. backends, BackendSelect:  the newest CatchAll kernel;
 *   5. the newest fallback of that key;
 *   6. the key's generated fallback: at Conjugate and Negative unless the operator is a view; at ForwardAD for
 *      operators that Autograd records and those defined at run time; at SparseCPU, SparseCsrCPU and NoMemory, where it
 *      refuses the call.
 * The backends are CPU, Meta, SparseCPU, SparseCsrCPU and NoMemory. Otherwise the key has no kernel: its bit is not in
 * the operator's mask, and a call passes to the key below. Composite kernels leave Autograd without a kernel on
 * purpose: the operators that they call are recorded. The kernels that a generated operator has at start-up count as
 * registered first, for exactly their keys.
 *
 * Note [Names]
 * A name is [namespace::]name[.overload]. The built-in operators have no namespace of their own in
 * schemas; "shmtensor::" and "aten::" before a name mean the same as nothing.
 */
#ifndef SHMT_DISPATCH_REGISTRY_H
#define SHMT_DISPATCH_REGISTRY_H

#include "dispatch/operator.h"

/* One define, impl or fallback; dropping it takes it back. */
typedef struct shmt__registration shmt__registration;

/* Generated: the built-in operators. The registry takes them in at its first use. */
extern shmt_operator* const shmt__generated_operators[];
extern const size_t shmt__n_generated_operators;
/* Generated: the kernel of each key for operators that have none of their own there; NULL: they have none. The layers
 * above define them. */
extern const shmt__kernel* const shmt__generated_fallbacks[SHMT_N_KEYS];
/* The one of the keys SparseCPU and SparseCsrCPU. It refuses the call, so that no kernel for dense tensors sees a
 * sparse one among its arguments. */
extern const shmt__kernel shmt__no_sparse_kernel;
/* The same at the key NoMemory. */
extern const shmt__kernel shmt__no_memory_kernel;

/* The operator of that name, or NULL. Takes the registry's lock: call once per call site. */
shmt_operator* shmt__operator_lookup(const char* name);
/* The i-th overload of "name" (any overload, also ""); NULL after the last. */
shmt_operator* shmt__operator_overload(const char* name, size_t i);
/* The i-th operator of all, in order of definition; NULL after the last. */
shmt_operator* shmt__operator_at(size_t i);

/* Define an operator at run time.
 *
 * Errors:    SHMT_E_RUNTIME when it exists (naming both places), SHMT_E_VALUE (bad schema),
 * SHMT_E_NOMEM. Ownership: copies text and where; *out is the caller's to drop. */
shmt_status shmt__operator_define(const char* text, const char* where, shmt__registration** out);

/* Give an operator a kernel for a run-time or alias key.
 *
 * kernel     copied, its `where` too; ctx belongs to the registration
 * free_ctx   called with kernel.ctx once no new call can reach it; NULL: nothing to free
 * Errors:    SHMT_E_RUNTIME when no such operator is defined, SHMT_E_NOMEM.
 *            On failure ctx stays the caller's.
 * Ownership: *out is the caller's to drop. */
shmt_status shmt__operator_impl(const char* name, int key, const shmt__kernel* kernel,
                                void (*free_ctx)(void*), shmt__registration** out);

/* Register a boxed kernel at key for every operator that has none there. boxed == NULL: fall through to the key
 * below, even where an older fallback stands. Errors, ownership: as shmt__operator_impl. */
shmt_status shmt__key_fallback(int key, const shmt__kernel* kernel, void (*free_ctx)(void*),
                               shmt__registration** out);

/* Take a registration back; NULL is fine. Dropping a definition takes its kernels out of use; calls
 * through a pointer kept from before fail with "no kernel". */
void shmt__registration_drop(shmt__registration* r);

/* Does op have a kernel of its own (not a fallback) for this run-time or alias key? */
bool shmt__operator_has_kernel(const shmt_operator* op, int key);
/* Is this operator still defined? */
bool shmt__operator_alive(const shmt_operator* op);

/* "add.Tensor" into buf; returns buf. */
const char* shmt__operator_name(const shmt_operator* op, char* buf, size_t cap);

#endif
