/* autograd/vmap/levels.h -- the function transforms that a thread is inside of.
 *
 * Note [Levels]
 * vmap(f) and grad(f) push a level for the time of the call of f; nested transforms make a stack per thread. A batched
 * tensor (tensor/batched.h) belongs to the vmap level that made it. An operator call with batched tensors belongs to
 * the highest of their levels: a batching rule works on what they stand for, with that level and all above it off the
 * stack, so that calls inside the rule belong to lower levels.
 *
 * grad needs no tensors of its own: a graph is differentiated with respect to the inputs of a transform, and what was
 * captured is a constant of it. But a graph belongs to the tensors that it is recorded on. Under vmap(grad(f)) it is
 * one of batched tensors, whose derivatives are taken for each example; under grad(vmap(f)) it is one of what they
 * stand for. So a call is recorded at its own level when tensors of exactly that level require grad there. An input of
 * grad that is no tensor of the vmap level around it becomes one, with the same value for all examples
 * (SHMT_NOT_BATCHED), and so does what operators make inside of that grad. An operator all of whose arguments are
 * ordinary tensors works with such alone, whatever operators its kernel or its parts call, and may read their memory;
 * only what it returns becomes a tensor of the level.
 *
 * jvp is like grad in this: its inputs, and what operators make inside of it, are tensors of the vmap level around it,
 * since their tangents may differ from example to example where they do not. autograd/forward/tangents.h says at which
 * level tangents are followed.
 *
 * no_grad inside of f is meant for the transform that f was given to. Each grad level keeps the mode that it found, and
 * lower levels compute in that mode.
 */
#ifndef SHMT_AUTOGRAD_VMAP_LEVELS_H
#define SHMT_AUTOGRAD_VMAP_LEVELS_H

#include "dispatch/operator.h"
#include "tensor/batched.h"

typedef enum shmt__level_kind { SHMT_LEVEL_VMAP, SHMT_LEVEL_GRAD, SHMT_LEVEL_JVP } shmt__level_kind;
typedef enum shmt__randomness { SHMT_RANDOM_ERROR, SHMT_RANDOM_SAME, SHMT_RANDOM_DIFFERENT } shmt__randomness;

typedef struct shmt__level {
  shmt__level_kind kind;
  uint64_t id;
  int64_t batch_size;          /* vmap: examples */
  shmt__randomness randomness; /* vmap */
  bool grad_off;               /* whether recording was off when the level was entered */
  shmt_keyset excluded;        /* the thread's excluded keys at that time */
} shmt__level;

enum { SHMT_MAX_LEVELS = 64 };

/* Enter a level, after shmt__vmap_install (dispatch.h); *out is its number, from 1. Errors: SHMT_E_RUNTIME (too deep),
 * SHMT_E_NOMEM. */
shmt_status shmt__level_push(shmt__level_kind kind, int64_t batch_size, shmt__randomness randomness, int* out);
/* Leave the innermost level. Errors: SHMT_E_RUNTIME when there is none. */
shmt_status shmt__level_pop(void);
/* How many levels this thread is in. */
int shmt__level_count(void);
/* A level by its number, from 1 to the count. */
const shmt__level* shmt__level_at(int level);
/* The innermost vmap level's number, 0 when there is none. */
int shmt__level_of_vmap(void);
/* Do results of operators become tensors of the innermost vmap level? Yes when a level that differentiates is above it,
 * but for operators that others are made of: what a kernel makes for itself is ordinary memory. */
bool shmt__level_adopts(void);
/* Let nothing be adopted at this place in the stack; returns what shmt__level_end_own_work is to be given. */
int shmt__level_begin_own_work(void);
void shmt__level_end_own_work(int before);
/* Does this batched tensor belong to a level that this thread is in? */
bool shmt__level_is_live(const shmt__batched* b);

/* Call a function below a level, as a batching rule of its own that may enter levels itself. */
shmt_status shmt__level_call_below(int level, shmt_status (*call)(void* arg), void* arg);

/* What shmt__level_below changed. */
typedef struct shmt__level_guard {
  int count;
  bool grad_off;
  shmt__thread_keys keys;
} shmt__level_guard;
/* Compute as below this level: it and what is above it are off the stack until shmt__level_restore. */
shmt__level_guard shmt__level_below(int level);
void shmt__level_restore(const shmt__level_guard* guard);
#define SHMT_BELOW_LEVEL(level)                                                \
  __attribute__((cleanup(shmt__level_restore_auto), unused)) shmt__level_guard \
      shmt_level_guard_ = shmt__level_below(level)
static inline void shmt__level_restore_auto(shmt__level_guard* guard) { shmt__level_restore(guard); }

#endif
