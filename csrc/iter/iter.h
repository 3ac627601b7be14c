/* iter/iter.h -- the iterator of operators that are a loop over elements (torch's TensorIterator).
 *
 * Fill a shmt_iter on the stack, add outputs and inputs, build, run:
 *
 *   shmt_iter it;
 *   shmt__iter_init(&it, "add");
 *   shmt__iter_output(&it, out, SHMT_DTYPE_NONE);   // *out NULL: allocated; else written to
 *   shmt__iter_input(&it, self);
 *   shmt__iter_input(&it, other);
 *   it.promote = SHMT_PROMOTE_ARITHMETIC;
 *   SHMT_TRY(shmt__iter_build(&it));                 // broadcast, promote, allocate, coalesce
 *   shmt_status s = shmt__iter_run(&it, loops[it.common_dtype], ctx);
 *   return shmt__iter_finish(&it, s);                // copies back, hands *out over, releases
 *
 * Outputs. *out == NULL: a new tensor in the inputs' memory format. *out given: resized when its
 * shape differs and it is not also an input (with torch's warning when it had elements); an output
 * that is also an input (in-place) must already have the broadcast shape, else torch's
 * RuntimeError. Partial overlap of an output with itself or an input is torch's RuntimeError. The
 * result dtype must be castable to a given output's dtype ("result type Float can't be cast to the
 * desired output type Long").
 *
 * Meta. When any operand is on Meta the outputs get their metadata and shmt__iter_run does nothing.
 *
 * Casting. Inputs whose dtype differs from the common dtype are cast to temporaries first, outputs
 * are computed in a temporary and copied back when theirs differs. Kernels see one dtype.
 *
 * Reductions have a driver of their own, iter/reduce.h.
 */
#ifndef SHMT_ITER_ITER_H
#define SHMT_ITER_ITER_H

#include "tensor/tensor.h"

enum { SHMT_ITER_MAX_OPERANDS = 8 };

typedef enum shmt__promote {
  SHMT_PROMOTE_NONE,         /* dtypes as they are; inputs are not compared */
  SHMT_PROMOTE_SAME,         /* inputs must be equal; else RuntimeError */
  SHMT_PROMOTE_ARITHMETIC,   /* torch's promotion; output = common */
  SHMT_PROMOTE_INT_TO_FLOAT, /* then integral -> default dtype */
  SHMT_PROMOTE_COMPARE,      /* promote inputs, output bool */
  SHMT_PROMOTE_BOOL_TO_INT,  /* then bool -> int64 (sums) */
} shmt__promote;

/* A loop over n elements of a row. data[k] and strides[k] (bytes): outputs first, then inputs. */
typedef void (*shmt__loop)(char* const* data, const int64_t* strides, int64_t n, const void* ctx);

typedef struct shmt__operand {
  shmt_tensor** slot;    /* outputs: the caller's variable */
  shmt_tensor* tensor;   /* what the loop uses; owned when `owned` */
  shmt_tensor* original; /* outputs computed in a temporary: the tensor to copy back to */
  shmt_dtype want;       /* outputs: fixed dtype or SHMT_DTYPE_NONE */
  bool owned;
  bool read; /* outputs: also an input (in-place) */
  char* data;
  int64_t strides[SHMT_MAX_DIMS]; /* bytes, iteration order, innermost first */
} shmt__operand;

typedef struct shmt_iter {
  const char* name; /* operator, for messages */
  shmt__promote promote;
  bool resize_outputs;    /* default true */
  bool check_overlap;     /* default true */
  bool exact_out;         /* given outputs that are no inputs must have the result's dtype */
  bool allow_cpu_scalars; /* reserved */
  bool is_costly; /* elements cost so much that a few thousand are worth another thread */
  bool is_meta;
  shmt_dtype common_dtype; /* after build: the dtype kernels see for inputs */
  int n_outputs, n_operands;
  int n_dims; /* after coalescing; innermost first */
  int64_t numel;
  int64_t sizes[SHMT_MAX_DIMS];
  int elsewhere; /* operands that finish must copy back, hand over or release */
  shmt__operand operands[SHMT_ITER_MAX_OPERANDS];
  /* 0-d inputs of another dtype are cast into here instead of a tensor. */
  _Alignas(16) char scalars[SHMT_ITER_MAX_OPERANDS][16];
} shmt_iter;

/* Each field is set by itself, since the struct has kilobytes of strides that are written before they are read. */
static inline void shmt__iter_init(shmt_iter* it, const char* name) {
  it->name = name;
  it->promote = SHMT_PROMOTE_NONE;
  it->resize_outputs = true;
  it->check_overlap = true;
  it->exact_out = false;
  it->allow_cpu_scalars = false;
  it->is_costly = false;
  it->is_meta = false;
  it->common_dtype = SHMT_DTYPE_NONE;
  it->n_outputs = 0;
  it->n_operands = 0;
  it->n_dims = 0;
  it->numel = 0;
  it->elsewhere = 0;
}

static inline shmt__operand* shmt__iter_add(shmt_iter* it, shmt_tensor* t) {
  SHMT_ASSERT(it->n_operands < SHMT_ITER_MAX_OPERANDS);
  shmt__operand* op = &it->operands[it->n_operands++];
  op->slot = NULL;
  op->tensor = t;
  op->original = NULL;
  op->want = SHMT_DTYPE_NONE;
  op->owned = false;
  op->read = false;
  op->data = NULL;
  return op;
}

/* Outputs come first. */
static inline void shmt__iter_output(shmt_iter* it, shmt_tensor** slot, shmt_dtype want) {
  SHMT_ASSERT(it->n_operands == it->n_outputs);
  shmt__operand* op = shmt__iter_add(it, *slot);
  op->slot = slot;
  op->want = want;
  it->n_outputs++;
}

static inline void shmt__iter_input(shmt_iter* it, shmt_tensor* t) { (void)shmt__iter_add(it, t); }

/* On failure the iterator is already finished: just return the status. */
shmt_status shmt__iter_build(shmt_iter* it);
/* Run the loop over all elements, on several threads when there are many. Loops cannot fail. */
shmt_status shmt__iter_run(shmt_iter* it, shmt__loop loop, const void* ctx);
/* The same for expensive loops: an element costs as much as `cost` elements of a plain loop. */
shmt_status shmt__iter_run_costly(shmt_iter* it, shmt__loop loop, const void* ctx, int64_t cost);
/* The same on the calling thread only, in the memory order of the first operand. Random numbers are drawn so, as in
 * torch. */
shmt_status shmt__iter_run_serial(shmt_iter* it, shmt__loop loop, const void* ctx);
/* As _serial, but on several threads when large, for iterators that visit an element of the output several times
 * (index_add). Threads share out a dim in which the output has a stride, so that no two of them write to one element,
 * and each element is visited in the order of _serial. Without such a dim the calling thread runs all of it. */
shmt_status shmt__iter_run_disjoint(shmt_iter* it, shmt__loop loop, const void* ctx);
/* May two elements of t share memory? */
bool shmt__may_overlap_itself(const shmt_tensor* t);
/* Finish: copy temporaries back, give new outputs to the caller when status is SHMT_OK, release temporaries. Returns
 * status. */
shmt_status shmt__iter_finish_all(shmt_iter* it, shmt_status status);
static inline shmt_status shmt__iter_finish(shmt_iter* it, shmt_status status) {
  shmt__operand* const op = &it->operands[0];
  if (it->elsewhere == 0) return status;
  if (SHMT_UNLIKELY(it->elsewhere != 1 || !op->owned || op->original || status != SHMT_OK))
    return shmt__iter_finish_all(it, status);
  op->owned = false; /* one new output and nothing else */
  *op->slot = SHMT_TAKE(op->tensor);
  it->elsewhere = 0;
  return SHMT_OK;
}

/* --- threads (iter/threads.h has the rest) ----------------------------------- */

/* Call fn(ctx, begin, end) on pieces of [0, n) of at least `grain` elements, on several threads. Nested calls run
 * inline. Pieces never wait for each other. Kernels cannot fail. */
void shmt__parallel_for(int64_t n, int64_t grain, void (*fn)(void* ctx, int64_t begin, int64_t end),
                        void* ctx);

#endif
