/* dispatch/operator.h -- an operator: a schema and a table with one kernel per dispatch key.
 *
 * A call takes the key set of its tensors, adds the thread's included keys, and removes the thread's excluded keys and
 * those for which this operator has no kernel (`mask`). It calls the kernel of the highest key that is left. The
 * generated caller of each operator, shmt_op_<name>[_<overload>](), does that inline; nothing is looked up by name
 * after start-up.
 *
 * Note [Kernel conventions]
 * unboxed  shmt_status f(shmt_keyset ks, <arguments as in base/types.h>, <results>)
 *          One trailing pointer per returned value that is not an argument: shmt_tensor** for
 *          Tensor, shmt_tensor_vec* for Tensor[], the plain C type's pointer otherwise. In-place and
 *          out= forms return only the status. ks is the set the kernel was chosen from: a kernel
 *          redispatches with the bits below its own.
 * boxed    shmt_status f(void* ctx, const shmt_operator* op, shmt_keyset ks,
 *                        const shmt_value* args, shmt_value* results)
 * Either form may be registered for any operator: per-signature adapters (generated for built-in
 * signatures) convert. A run-time operator has no unboxed signature and uses boxed kernels only.
 *
 * Note [Results of a kernel that fails]
 * A kernel's results are empty when it begins (NULL tensors, empty lists, values without a tag). It may store some of
 * them and fail afterwards. Its caller (shmt__invoke_X, shmt__box_X, shmt__unbox_X and shmt__operator_call) then
 * releases what is there and leaves the results empty, so that neither kernels nor callers of operators clean up.
 *
 * Note [Table updates]
 * A call loads one entry of the table with acquire order and never locks. Registration takes the registry's lock,
 * builds the new shmt__kernel, and stores its pointer with release order. A replaced kernel is kept until the process
 * ends, since a call may still be running it.
 */
#ifndef SHMT_DISPATCH_OPERATOR_H
#define SHMT_DISPATCH_OPERATOR_H

#include "base/error.h"
#include "dispatch/keys.h"
#include "dispatch/schema.h"
#include "dispatch/value.h"

#include <stdatomic.h>

typedef struct shmt_operator shmt_operator;

typedef void (*shmt__unboxed)(void); /* cast to the operator's signature by its generated caller */
typedef shmt_status (*shmt__boxed)(void* ctx, const shmt_operator* op, shmt_keyset ks,
                                   const shmt_value* args, shmt_value* results);

typedef struct shmt__kernel {
  shmt__unboxed unboxed; /* NULL: call boxed through the signature's adapter */
  shmt__boxed boxed;     /* NULL: call unboxed through the signature's adapter */
  void* ctx;             /* of boxed */
  const char* where;     /* "file:line" of the registration, for messages */
} shmt__kernel;

struct shmt__batch_call; /* autograd/vmap/dispatch.h */

struct shmt_operator {
  const shmt_schema* schema;
  _Atomic(shmt_keyset) mask;  /* keys with a kernel of their own or from a fallback */
  _Atomic(const shmt__kernel*) table[SHMT_N_KEYS];
  /* args (boxed) -> unboxed kernel -> results. NULL for run-time operators. */
  shmt_status (*call_unboxed)(shmt__unboxed f, const shmt_operator* op, shmt_keyset ks, const shmt_value* args,
                              shmt_value* results);
  struct shmt__registration* registrations; /* the registry's, under its lock */
  /* How vmap calls it, see autograd/vmap/dispatch.h: by a rule, or made of other operators. NULL: neither. */
  shmt_status (*batch)(struct shmt__batch_call*);
  shmt__unboxed decomposition;
  uint32_t id;
  const struct shmt__jvp* jvp; /* how tangents follow (autograd/forward/jvp.h); NULL: they do not */
  bool follows_tangents; /* has the fallback of ForwardAD */
  bool is_composite;     /* CompositeImplicitAutograd: what it calls records itself */
  bool passes_conj_neg; /* no fallback at Conjugate and Negative: the operator takes conj and neg views as they are */
  bool is_decomposed;   /* made of other operators: vmap runs its kernel with batched tensors */
  bool is_random;       /* draws from a generator */
};

/* The kernel for ks, or NULL after recording "name: no kernel for ..., registered: ..." */
static inline const shmt__kernel* shmt__operator_find(const shmt_operator* op, shmt_keyset ks);
SHMT_COLD const shmt__kernel* shmt__operator_missing(const shmt_operator* op, shmt_keyset ks);
static inline const shmt__kernel* shmt__operator_find(const shmt_operator* op, shmt_keyset ks) {
  const shmt_keyset there = ks & atomic_load_explicit(&op->mask, memory_order_relaxed);
  if (SHMT_LIKELY(there != 0)) {
    /* acquire: the kernel record was filled before its pointer was stored. */
    const shmt__kernel* k = atomic_load_explicit(&op->table[shmt__highest_key(there)], memory_order_acquire);
    if (SHMT_LIKELY(k != (void*)0)) return k;
  }
  return shmt__operator_missing(op, ks);
}

/* Release a result that a failed kernel has stored, or n boxed ones, and make it empty. */
SHMT_COLD void shmt__result_drop(shmt_tensor** result);
SHMT_COLD void shmt__results_drop(shmt_value* results, int n);

/* Call boxed from outside (redispatch = false) or below a key (redispatch = true, ks as given). */
shmt_status shmt__operator_call(const shmt_operator* op, bool redispatch, shmt_keyset ks, const shmt_value* args,
                                shmt_value* results);

#endif
