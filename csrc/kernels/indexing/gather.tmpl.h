/* kernels/indexing/gather.tmpl.h -- moves elements by index or by mask, one loop per element size.
 *
 * Nothing is calculated, so the dtypes of this template stand for all others of their size
 * (ops/indexing/index_iterator.h, shmt__move_loop). The loops check bounds: shmt__index_args.bad reports the first
 * miss.
 */
#include "base/error.h"
#include "kernels/loop_args.h"

#include <string.h>

#define AT(p) (*(T*)(void*)(p))

/* out = src[index * stride]. data: out, src, index (int64); ctx: shmt__index_args. */
void SHMT_LOOP(gather)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__index_args* s = ctx;
  bool ok;

  if (strides[2] == 0) {
    /* One index for the whole run: a copy. */
    const char* src = data[1] + shmt__index_offset(s, *(const int64_t*)(const void*)data[2], &ok);
    if (!ok) return;
    if (strides[0] == (int64_t)sizeof(T) && strides[1] == (int64_t)sizeof(T)) {
      memcpy(data[0], src, (size_t)n * sizeof(T));
      return;
    }
    for (int64_t i = 0; i < n; i++) AT(data[0] + i * strides[0]) = *(const T*)(const void*)(src + i * strides[1]);
    return;
  }
  /* In registers: the stores below could otherwise change them. */
  char* to = data[0];
  const char *src = data[1], *index = data[2];
  const int64_t to_step = strides[0], src_step = strides[1], index_step = strides[2];
  const shmt__index_args shape = *s;
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = shmt__index_offset(&shape, *(const int64_t*)(const void*)index, &ok);
    if (SHMT_LIKELY(ok)) AT(to) = *(const T*)(const void*)(src + at);
    to += to_step;
    src += src_step;
    index += index_step;
  }
}

/* Gathers from many rows with one list of indices. data: out, src, index (int64), all dense; ctx: int64_t[2], the
 * length of a row of src and the number of rows. Each row of out, n long, is src's row [index]. The caller has checked
 * the indices; one that another process has changed since counts as 0. Four rows share the cost of an index. */
void SHMT_LOOP(gather_checked)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const int64_t*)ctx)[0], rows = ((const int64_t*)ctx)[1];
  T* restrict to = (T*)(void*)data[0];
  const T* src = (const T*)(const void*)data[1];
  const int64_t* index = (const int64_t*)(const void*)data[2];
  int64_t r = 0;

  (void)strides;
  for (; r + 4 <= rows; r += 4, to += 4 * n, src += 4 * length)
    for (int64_t i = 0; i < n; i++) {
      const uint64_t at = (uint64_t)index[i];
      const T* from = src + (at < (uint64_t)length ? at : 0);
      to[i] = from[0];
      to[i + n] = from[length];
      to[i + 2 * n] = from[2 * length];
      to[i + 3 * n] = from[3 * length];
    }
  for (; r < rows; r++, to += n, src += length)
    for (int64_t i = 0; i < n; i++) {
      const uint64_t at = (uint64_t)index[i];
      to[i] = src[at < (uint64_t)length ? at : 0];
    }
}

/* self[index * stride] = src. data: self, src, index. */
void SHMT_LOOP(scatter)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__index_args* s = ctx;
  bool ok;

  if (strides[2] == 0) {
    char* to = data[0] + shmt__index_offset(s, *(const int64_t*)(const void*)data[2], &ok);
    if (!ok) return;
    if (strides[0] == (int64_t)sizeof(T) && strides[1] == (int64_t)sizeof(T)) {
      memmove(to, data[1], (size_t)n * sizeof(T));
      return;
    }
    for (int64_t i = 0; i < n; i++) AT(to + i * strides[0]) = *(const T*)(const void*)(data[1] + i * strides[1]);
    return;
  }
  char* to = data[0];
  const char *src = data[1], *index = data[2];
  const int64_t to_step = strides[0], src_step = strides[1], index_step = strides[2];
  const shmt__index_args shape = *s;
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = shmt__index_offset(&shape, *(const int64_t*)(const void*)index, &ok);
    if (SHMT_LIKELY(ok)) AT(to + at) = *(const T*)(const void*)src;
    to += to_step;
    src += src_step;
    index += index_step;
  }
}

/* Writes the elements whose mask is set, one after the other. data: out (dense), src, mask (bool); ctx: int64_t, how
 * many are set. */
void SHMT_LOOP(compress)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  T* out = (T*)(void*)data[0];
  T* const end = out + *(const int64_t*)ctx;

  /* Each element is written, and kept by moving on: there is no branch to mispredict. */
  for (int64_t i = 0; i < n && out < end; i++) {
    *out = *(const T*)(const void*)(data[1] + i * strides[1]);
    out += *(const uint8_t*)(data[2] + i * strides[2]) != 0;
  }
}

/* Elements whose mask is set take the next element of src. Those that another process has set since they were counted
 * take none. data: self, src (dense), mask (bool); ctx: int64_t, how many are set. */
void SHMT_LOOP(decompress)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const T* src = (const T*)(const void*)data[1];
  const T* const end = src + *(const int64_t*)ctx;

  for (int64_t i = 0; i < n && src < end; i++)
    if (*(const uint8_t*)(data[2] + i * strides[2])) AT(data[0] + i * strides[0]) = *src++;
}

/* Reverses elements. data: out (dense), the last element of a dense src. */
void SHMT_LOOP(reverse)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  T* out = (T*)(void*)data[0];
  const T* src = (const T*)(const void*)data[1];

  (void)strides;
  (void)ctx;
  _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) out[i] = src[-i];
}

/* Swaps each of n elements with the one that is so many steps behind it. data: elements, dense, and steps (uint32). */
void SHMT_LOOP(swap)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  T* at = (T*)(void*)data[0];
  const uint32_t* steps = (const uint32_t*)(const void*)data[1];

  (void)strides;
  (void)ctx;
  for (int64_t i = 0; i < n; i++, at++) {
    T* const other = at + steps[i];
    const T element = *at;
    *at = *other;
    *other = element;
  }
}

#undef AT
