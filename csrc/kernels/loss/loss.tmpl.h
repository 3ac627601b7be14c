/* kernels/loss/loss.tmpl.h -- element-wise losses and their derivatives, and negative log-likelihood. One dtype.
 *
 * The element-wise losses (..._error) are pointwise loops of input a and target b. The ctx of the nll loops is
 * shmt__nll_args: samples are strides[] bytes apart, and the classes of a sample class_step bytes.
 */
#include "kernels/loops.h"
#include "kernels/loop_args.h"
#include "kernels/simd/vmath.h"

#include <float.h>

#define ERROR (_Generic((C)0, float: fabsf, default: fabs)(a - b))
BINARY(absolute_error, ERROR)
BINARY(squared_error, (a - b) * (a - b))
/* ctx: beta, or delta, where the parabola becomes a line. With a subnormal beta the parabola is 0. */
BINARY_WITH(smooth_l1_error, const C beta = (C)SHMT_CTX_SCALAR(0); const C half = (C)0.5;
            const C over = beta >= (sizeof(C) == 4 ? (C)FLT_MIN : (C)DBL_MIN) ? 1 / beta : 0,
            ERROR < beta ? half * ERROR * (ERROR * over) : ERROR - half * beta)
BINARY_WITH(huber_error, const C delta = (C)SHMT_CTX_SCALAR(0); const C half = (C)0.5,
            ERROR <= delta ? half * ERROR * ERROR : delta * (ERROR - half * delta))
/* Their derivatives, which are proportional to the difference where the loss is a parabola. */
BINARY_WITH(smooth_l1_derivative, const C beta = (C)SHMT_CTX_SCALAR(0); const C over = 1 / beta,
            a - b < -beta ? -1 : a - b > beta ? 1 : (a - b) * over)
BINARY_WITH(huber_derivative, const C delta = (C)SHMT_CTX_SCALAR(0),
            a - b < -delta ? -delta : a - b > delta ? delta : a - b)
#undef ERROR

/* Kullback-Leibler divergence: a is the logarithm of the input's probability, b the target's probability or its log. */
#define LOSS_LOG(x) _Generic((C)0, float: shmt__logf, default: shmt__log)(x)
#define LOSS_EXP(x) _Generic((C)0, float: shmt__expf, default: shmt__exp)(x)
BINARY(kl_div_error, (b == 0 ? 0 : b * LOSS_LOG(b)) - b * a)
BINARY(kl_div_log_target_error, LOSS_EXP(b) * (b - a))
#undef LOSS_LOG
#undef LOSS_EXP

/* data: out (one loss per sample; NULL when only sums are wanted), x, target (int64), weight (per class, or NULL). */
void SHMT_LOOP(nll_forward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__nll_args* s = ctx;
  double loss = 0, total = 0;

  for (int64_t i = 0; i < n; i++) {
    const int64_t t = *(const int64_t*)(const void*)(data[2] + i * strides[2]);
    C value = 0, weight = 0;
    if (t != s->ignore_index) {
      if ((uint64_t)t >= (uint64_t)s->n_classes) {
        s->bad->value = t;
        s->bad->found = true;
        continue;
      }
      weight = data[3] ? SHMT_LOAD(*(const T*)(const void*)(data[3] + t * strides[3])) : (C)1;
      value = -weight * SHMT_LOAD(*(const T*)(const void*)(data[1] + i * strides[1] + t * s->class_step));
    }
    if (data[0]) *(T*)(void*)(data[0] + i * strides[0]) = SHMT_STORE(value);
    loss += (double)value;
    total += (double)weight;
  }
  s->sums[0] += loss;
  s->sums[1] += total;
}

/* data: grad of x (filled with zeros), grad of out, target, weight or NULL. Scales gradients by ctx->scale. */
void SHMT_LOOP(nll_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__nll_args* s = ctx;

  for (int64_t i = 0; i < n; i++) {
    const int64_t t = *(const int64_t*)(const void*)(data[2] + i * strides[2]);
    if (t == s->ignore_index || (uint64_t)t >= (uint64_t)s->n_classes) continue;
    const C weight = data[3] ? SHMT_LOAD(*(const T*)(const void*)(data[3] + t * strides[3])) : (C)1;
    const C grad = SHMT_LOAD(*(const T*)(const void*)(data[1] + i * strides[1]));
    *(T*)(void*)(data[0] + i * strides[0] + t * s->class_step) = SHMT_STORE((C)(-weight * grad * (C)s->scale));
  }
}
