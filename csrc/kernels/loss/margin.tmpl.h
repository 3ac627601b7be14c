/* kernels/loss/margin.tmpl.h -- multi_margin_loss and multilabel_margin_loss, and their backward. One dtype.
 *
 * A row's loss is a sum over pairs of a target class and another class. No array of pairs is built.
 */
#include "kernels/template.h"
#include "kernels/loss/margin.h"

/* Another process may change targets in shared memory at any time, so a target is read once and then checked. */
#define TARGET(AT) (*(const volatile int64_t*)(target + (AT)))
#define IS_CLASS(CLASS, N) ((uint64_t)(CLASS) < (uint64_t)(N))

/* Marks the classes that are listed before the first -1. Returns the length of the list, with repetitions. */
static inline int64_t FN(mark)(const int64_t* target, int64_t n, unsigned char* is_right) {
  int64_t listed = 0;

  for (int64_t i = 0; i < n; i++) is_right[i] = 0;
  for (; listed < n; listed++) {
    const int64_t right = TARGET(listed);
    if (right < 0) break;
    if (IS_CLASS(right, n)) is_right[right] = 1;
  }
  return listed;
}

/* data: out (n), scores (n, classes), targets (n, classes; int64), marks (n, classes; bytes). Targets are below
 * classes. */
void SHMT_LOOP(multilabel_margin)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t classes = ((const shmt__margin_args*)ctx)->classes;

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    unsigned char* is_right = (unsigned char*)data[3] + i * classes;
    const T* x = (const T*)(const void*)data[1] + i * classes;
    const int64_t* target = (const int64_t*)(const void*)data[2] + i * classes;
    const int64_t listed = FN(mark)(target, classes, is_right);
    double sum = 0;
    for (int64_t k = 0; k < listed; k++) {
      const int64_t right = TARGET(k);
      if (!IS_CLASS(right, classes)) continue;
      const T most = 1 - x[right];
      T part = 0;
      for (int64_t c = 0; c < classes; c++) {
        const T gap = most + x[c];
        part += !is_right[c] && gap > 0 ? gap : 0; /* a NaN adds nothing, as in torch */
      }
      sum += (double)part;
    }
    ((T*)(void*)data[0])[i] = (T)(sum / (double)classes);
  }
}

/* data: gradient of the scores (n, classes), gradient of out (n), scores, targets, marks. */
void SHMT_LOOP(multilabel_margin_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t classes = ((const shmt__margin_args*)ctx)->classes;

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    unsigned char* is_right = (unsigned char*)data[4] + i * classes;
    T* to = (T*)(void*)data[0] + i * classes;
    const T* x = (const T*)(const void*)data[2] + i * classes;
    const int64_t* target = (const int64_t*)(const void*)data[3] + i * classes;
    const T each = ((const T*)(const void*)data[1])[i] / (T)classes;
    const int64_t listed = FN(mark)(target, classes, is_right);
    for (int64_t c = 0; c < classes; c++) to[c] = 0;
    for (int64_t k = 0; k < listed; k++) {
      const int64_t right = TARGET(k);
      if (!IS_CLASS(right, classes)) continue;
      const T most = 1 - x[right];
      T paying = 0;
      for (int64_t c = 0; c < classes; c++) {
        const T one = is_right[c] || !(most + x[c] > 0) ? 0 : 1;
        to[c] += one;
        paying += one;
      }
      to[right] -= paying;
    }
    for (int64_t c = 0; c < classes; c++) to[c] *= each;
  }
}

/* data: out (n), scores (n, classes), targets (n; int64), weights (classes) or NULL. */
void SHMT_LOOP(multi_margin)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__margin_args* s = ctx;
  const T* weight = (const T*)(const void*)data[3];

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    const T* x = (const T*)(const void*)data[1] + i * s->classes;
    const int64_t *target = (const int64_t*)(const void*)data[2], t = TARGET(i);
    double sum = 0;
    if (IS_CLASS(t, s->classes)) {
      const T most = (T)s->margin - x[t];
      for (int64_t c = 0; c < s->classes; c++) {
        const T gap = most + x[c];
        if (c != t && gap > 0) sum += (double)(s->squared ? gap * gap : gap);
      }
      if (weight) sum *= (double)weight[t];
    }
    ((T*)(void*)data[0])[i] = (T)(sum / (double)s->classes);
  }
}

/* data: gradient of the scores (n, classes), gradient of out (n), scores, targets (n), weights or NULL. */
void SHMT_LOOP(multi_margin_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__margin_args* s = ctx;
  const T* weight = (const T*)(const void*)data[4];

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    T* to = (T*)(void*)data[0] + i * s->classes;
    const T* x = (const T*)(const void*)data[2] + i * s->classes;
    const int64_t *target = (const int64_t*)(const void*)data[3], t = TARGET(i);
    if (!IS_CLASS(t, s->classes)) {
      for (int64_t c = 0; c < s->classes; c++) to[c] = 0;
      continue;
    }
    const T most = (T)s->margin - x[t];
    const T each = ((const T*)(const void*)data[1])[i] * (weight ? weight[t] : (T)1) / (T)s->classes;
    double sum = 0;
    for (int64_t c = 0; c < s->classes; c++) {
      const T gap = most + x[c];
      to[c] = c != t && gap > 0 ? (s->squared ? 2 * gap * each : each) : 0;
      sum += (double)to[c];
    }
    to[t] = (T)-sum;
  }
}
#undef TARGET
#undef IS_CLASS
