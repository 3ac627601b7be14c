/* kernels/half_loops.tmpl.h -- runs loops of half-precision types by the loops of their compute type.
 *
 * T is float16, bfloat16 or complex32. A block of every input is widened to C, the loop of C (`full`) runs over it, and
 * its results are rounded to T once. A block is read before it is written, so in-place calls need no special case.
 */
#include "iter/reduce.h"
#include "kernels/simd/half_runs.h"
#include "kernels/loops.h"

/* Real numbers in an element: 1, or 2 when T is complex. */
#define PARTS       ((int64_t)(sizeof(T) / sizeof(SHMT_REAL)))

static void FN(widen)(C* to, const char* from, int64_t stride, int64_t n) {
  if (stride == (int64_t)sizeof(T))
    SHMT_WIDEN_RUN((void*)to, (const void*)from, n * PARTS);
  else
    for (int64_t i = 0; i < n; i++) to[i] = SHMT_LOAD(SHMT_AT(const T, from, stride, i));
}

static void FN(narrow)(char* to, int64_t stride, const C* from, int64_t n) {
  if (stride == (int64_t)sizeof(T))
    SHMT_NARROW_RUN((void*)to, (const void*)from, n * PARTS);
  else
    for (int64_t i = 0; i < n; i++) SHMT_AT(T, to, stride, i) = SHMT_STORE(from[i]);
}

/* Stores results of a complex loop that are real: each is a float at the start of the room for one C. */
static void FN(narrow_real)(char* to, int64_t stride, const C* from, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    SHMT_AT(SHMT_REAL, to, stride, i) = SHMT_STORE_REAL(*(const float*)(const void*)(from + i));
}

/* Elements widened at a time. The larger, the less the start and end of the full loop cost. */
enum { FN(loop_block) = 4096 / sizeof(C) };

/* Prefetches the next block while this one is computed: each block is read and written in a burst too short for the
 * hardware prefetcher. */
static inline void FN(prefetch)(const char* p, int64_t stride, int64_t n) {
  if (stride == (int64_t)sizeof(T))
    for (int64_t i = 0; i < n * stride; i += 64) __builtin_prefetch(p + i);
}

/* data: one output, then at most 3 inputs. The full loop itself writes an output that needs no rounding (bool). */
void SHMT_LOOP(widened)(shmt__loop full, shmt__stored stored, int n_inputs, char* const* data, const int64_t* strides,
                        int64_t n, const void* ctx) {
  _Alignas(64) C in[3][FN(loop_block)];
  _Alignas(64) C out[FN(loop_block)];
  char* at[4] = {(char*)out};
  int64_t step[4] = {stored == SHMT_STORED_AS_IS ? strides[0] : (int64_t)sizeof(C)};

  for (int k = 0; k < n_inputs; k++) {
    at[k + 1] = (char*)in[k];
    step[k + 1] = strides[k + 1] ? (int64_t)sizeof(C) : 0;
    if (strides[k + 1] == 0 && n > 0) in[k][0] = SHMT_LOAD(*(const T*)(const void*)data[k + 1]);
  }
  for (int64_t i0 = 0; i0 < n; i0 += FN(loop_block)) {
    const int64_t width = n - i0 < FN(loop_block) ? n - i0 : FN(loop_block);
    char* const to = data[0] + i0 * strides[0];
    for (int k = 0; k < n_inputs; k++)
      if (step[k + 1]) FN(widen)(in[k], data[k + 1] + i0 * strides[k + 1], strides[k + 1], width);
    if (n - i0 >= 2 * FN(loop_block)) {
      for (int k = 0; k < n_inputs; k++)
        FN(prefetch)(data[k + 1] + (i0 + FN(loop_block)) * strides[k + 1], strides[k + 1], FN(loop_block));
      FN(prefetch)(to + FN(loop_block) * strides[0], strides[0], FN(loop_block));
    }
    if (stored == SHMT_STORED_AS_IS) at[0] = to;
    full(at, step, width, ctx);
    if (stored == SHMT_STORED_HALF)
      FN(narrow)(to, strides[0], out, width);
    else if (stored == SHMT_STORED_REAL)
      FN(narrow_real)(to, strides[0], out, width);
  }
}

/* --- reductions ------------------------------------------------------------------------ */

enum { FN(block) = 16384 / sizeof(C) }; /* elements that fit into a part of the first-level cache */

/* Results that are neighbours in memory (at most SHMT_REDUCE_TILE): widens whole rows of their elements. */
static void FN(accumulate_rows)(shmt__reduce_loop full, const shmt__reduce_run* run, C* block) {
  const int64_t most = FN(block) / run->n_keep;
  shmt__reduce_run part = *run;

  part.in = (const char*)block;
  part.keep_stride = (int64_t)sizeof(C);
  part.reduce_stride = run->n_keep * (int64_t)sizeof(C);
  for (int64_t r0 = 0; r0 < run->n_reduce; r0 += most) {
    const char* in = run->in + r0 * run->reduce_stride;
    part.n_reduce = run->n_reduce - r0 < most ? run->n_reduce - r0 : most;
    part.index = run->index + r0 * run->index_stride;
    if (run->reduce_stride == run->n_keep * (int64_t)sizeof(T))
      FN(widen)(block, in, (int64_t)sizeof(T), part.n_reduce * run->n_keep);
    else
      for (int64_t r = 0; r < part.n_reduce; r++)
        FN(widen)(block + r * run->n_keep, in + r * run->reduce_stride, (int64_t)sizeof(T), run->n_keep);
    (void)full(SHMT_REDUCE_ACCUMULATE, &part);
  }
}

/* Other results: widens the elements of some results at once, or a part of one that has more elements than a block. */
static void FN(accumulate_results)(shmt__reduce_loop full, const shmt__reduce_run* run, C* block) {
  const int64_t length = run->n_reduce < FN(block) ? run->n_reduce : FN(block), most = FN(block) / length;
  const int64_t state = full(SHMT_REDUCE_SIZE, NULL);
  shmt__reduce_run part = *run;

  part.in = (const char*)block;
  part.reduce_stride = (int64_t)sizeof(C);
  for (int64_t j0 = 0; j0 < run->n_keep; j0 += most) {
    part.n_keep = run->n_keep - j0 < most ? run->n_keep - j0 : most;
    part.state = run->state + j0 * state;
    for (int64_t i0 = 0; i0 < run->n_reduce; i0 += length) {
      const char* in = run->in + j0 * run->keep_stride + i0 * run->reduce_stride;
      part.n_reduce = run->n_reduce - i0 < length ? run->n_reduce - i0 : length;
      part.keep_stride = part.n_reduce * (int64_t)sizeof(C);
      part.index = run->index + i0 * run->index_stride;
      for (int64_t j = 0; j < part.n_keep; j++)
        FN(widen)(block + j * part.n_reduce, in + j * run->keep_stride, run->reduce_stride, part.n_reduce);
      (void)full(SHMT_REDUCE_ACCUMULATE, &part);
    }
  }
}

/* A reduction loop of iter/reduce.h. With SHMT_STORED_AS_IS and two outputs (values and indices), the first is still
 * rounded to T. */
int64_t SHMT_LOOP(widened_reduction)(shmt__reduce_loop full, shmt__stored stored, shmt__reduce_phase phase,
                                     const shmt__reduce_run* run) {
  _Alignas(64) C block[FN(block)];
  const bool is_dense = run && run->keep_stride == (int64_t)sizeof(T) && run->reduce_stride != (int64_t)sizeof(T);

  if (phase == SHMT_REDUCE_ACCUMULATE) {
    if (run->n_keep == 0 || run->n_reduce == 0) return 0;
    (is_dense ? FN(accumulate_rows) : FN(accumulate_results))(full, run, block);
    return 0;
  }
  if (phase == SHMT_REDUCE_WHOLE) return 0;
  if (phase != SHMT_REDUCE_STORE || (stored == SHMT_STORED_AS_IS && !run->out[1])) return full(phase, run);
  shmt__reduce_run made = *run;
  for (int k = 0; k < 2; k++)
    if (run->out[k] && (k == 0 || stored != SHMT_STORED_AS_IS)) {
      made.out[k] = (char*)(block + k * SHMT_REDUCE_TILE);
      made.out_stride[k] = (int64_t)sizeof(C);
    }
  (void)full(SHMT_REDUCE_STORE, &made);
  for (int k = 0; k < 2; k++)
    if (made.out[k] != run->out[k]) {
      const C* x = (const C*)(const void*)made.out[k];
      (stored == SHMT_STORED_REAL ? FN(narrow_real) : FN(narrow))(run->out[k], run->out_stride[k], x, run->n_keep);
    }
  return 0;
}

#undef PARTS
