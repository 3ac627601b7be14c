/* kernels/shape/table_gather_backward.tmpl.h -- sums the gradients of elements that were gathered from one element. One
 * dtype.
 *
 * Sums are kept in the type that is calculated in.
 */
#include "kernels/template.h"
#include "kernels/loop_args.h"

/* sums = src, or sums += src. data: sums (dense), src. */
#define ADD_INTO(NAME, OP)                                                                                   \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {              \
    C* sums = (C*)(void*)data[0];                                                                            \
    const char* src = data[1];                                                                               \
    const int64_t step = strides[1];                                                                         \
    (void)ctx;                                                                                               \
    if (step == (int64_t)sizeof(T)) {                                                                        \
      SHMT_IVDEP for (int64_t i = 0; i < n; i++) sums[i] OP SHMT_LOAD(((const T*)(const void*)src)[i]);      \
      return;                                                                                                \
    }                                                                                                        \
    for (int64_t i = 0; i < n; i++) sums[i] OP SHMT_LOAD(*(const T*)(const void*)(src + i * step));          \
  }
ADD_INTO(table_gather_set, =)
ADD_INTO(table_gather_add, +=)
#undef ADD_INTO

/* Sums for each of n elements the list of sums that belong to it. data: out (n elements), sums; both dense, of `inner`
 * numbers each. ctx: shmt__table_gather_args. */
void SHMT_LOOP(table_gather_sum)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__table_gather_args* s = ctx;
  const int64_t *starts = s->starts, *list = s->list, inner = s->inner;
  T* out = (T*)(void*)data[0];
  const C* sums = (const C*)(const void*)data[1];

  (void)strides;
  for (int64_t p = 0; p < n; p++)
    for (int64_t i = 0; i < inner; i++) {
      C sum = 0;
      for (int64_t k = starts[p]; k < starts[p + 1]; k++) sum += sums[list[k] * inner + i];
      *out++ = SHMT_STORE(sum);
    }
}
