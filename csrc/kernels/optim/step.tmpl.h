/* kernels/optim/step.tmpl.h -- one step of an optimizer on a run of elements, one dtype.
 *
 * data: parameter, gradient, and what the algorithm remembers; without gaps. ctx: shmt__step_coefficients. Results are
 * rounded as torch's are, which are made by one tensor operator after the other: for float16 and bfloat16, R is the
 * rounding after each of them. Those that are calculated in float throughout run through step_widened and the float
 * loop instead.
 */
#include "kernels/template.h"
#include "kernels/optim/step.h"

#define M(fn) _Generic((C)0, float: fn##f, default: fn)
#undef R
#if SHMT_IS_HALF
#define R(x) SHMT_LOAD(SHMT_STORE((C)(x)))
#else
#define R(x) ((C)(x))
#endif
#define ELEMENT static inline __attribute__((always_inline)) void

/* shmt__step_coefficients in the type calculated in. What stands beside a tensor in a sum is rounded to T, as torch
 * does. */
typedef struct FN(coefficients) {
  C weight_decay, keep, eps, size, size_added, second_size, decay, decay_added, decay2, take, take_added, take2;
  C correction, scale, scale_added, high, low_added, high_added;
  bool maximize, has_weight_decay, is_first, nesterov, use_root, replace_average, is_near;
} FN(coefficients);

static inline FN(coefficients) FN(coefficients_of)(const shmt__step_coefficients* s) {
  return (FN(coefficients)){.weight_decay = R(s->weight_decay),
                       .keep = (C)s->keep,
                       .eps = R(s->eps),
                       .size = (C)s->size,
                       .size_added = R(s->size),
                       .second_size = (C)s->second_size,
                       .decay = (C)s->decay,
                       .decay_added = R(s->decay),
                       .decay2 = (C)s->decay2,
                       .take = (C)s->take,
                       .take_added = R(s->take),
                       .take2 = (C)s->take2,
                       .correction = (C)s->correction,
                       .scale = (C)s->scale,
                       .scale_added = R(s->scale),
                       .high = (C)s->high,
                       .low_added = R(s->low),
                       .high_added = R(s->high),
                       .maximize = s->maximize,
                       .has_weight_decay = s->has_weight_decay,
                       .is_first = s->is_first,
                       .nesterov = s->nesterov,
                       .use_root = s->use_root,
                       .replace_average = s->replace_average,
                       .is_near = fabs(s->take) < 0.5};
}

/* --- formulas of one element: x is the parameter, g the gradient, u, v and w are remembered -------------------- */

/* As the operator lerp, from the nearer end. */
static inline C FN(lerp)(C from, C to, C weight, bool is_near) {
  return R(is_near ? from + weight * (to - from) : to - (to - from) * (1 - weight));
}
/* A NaN is the larger one. */
static inline C FN(larger)(C a, C b) { return a != a ? a : (a > b || b != b ? (b != b ? b : a) : b); }

ELEMENT FN(sgd)(const FN(coefficients)* s, C* x, C g) { *x = R(*x + s->size_added * g); }

ELEMENT FN(sgd_momentum)(const FN(coefficients)* s, C* x, C g, C* u) {
  const C direction = s->is_first ? g : R(R(*u * s->decay) + s->take_added * g);

  *u = direction;
  *x = R(*x + s->size_added * (s->nesterov ? R(g + s->decay_added * direction) : direction));
}

/* u, v: averages of the gradient and of its square. */
ELEMENT FN(moments)(const FN(coefficients)* s, C g, C* u, C* v) {
  *u = FN(lerp)(*u, g, s->take, s->is_near);
  *v = R(*v * s->decay2);
  *v = R(*v + s->take2 * g * g);
}

ELEMENT FN(adam_move)(const FN(coefficients)* s, C* x, C moment, C square) {
  *x = R(*x + s->size * moment / R(R(R(M(sqrt)(square)) / s->correction) + s->eps));
}

ELEMENT FN(adam)(const FN(coefficients)* s, C* x, C g, C* u, C* v) {
  *x = R(*x * s->keep);
  FN(moments)(s, g, u, v);
  FN(adam_move)(s, x, *u, *v);
}

/* w: the largest v so far. */
ELEMENT FN(amsgrad)(const FN(coefficients)* s, C* x, C g, C* u, C* v, C* w) {
  *x = R(*x * s->keep);
  FN(moments)(s, g, u, v);
  *w = FN(larger)(*w, *v);
  FN(adam_move)(s, x, *u, *w);
}

ELEMENT FN(nadam)(const FN(coefficients)* s, C* x, C g, C* u, C* v) {
  *x = R(*x * s->keep);
  FN(moments)(s, g, u, v);
  const C divisor = R(R(M(sqrt)(R(*v / s->correction))) + s->eps);
  *x = R(*x + s->size * g / divisor);
  *x = R(*x + s->second_size * *u / divisor);
}

/* Without a root while the second moment is not trusted. */
ELEMENT FN(radam)(const FN(coefficients)* s, C* x, C g, C* u, C* v) {
  *x = R(*x * s->keep);
  FN(moments)(s, g, u, v);
  const C plain = R(R(*u / s->correction) * s->size);
  const C root = R(R(1 / R(R(M(sqrt)(*v)) + s->eps)) * s->scale);
  *x = R(*x - (s->use_root ? R(R(plain * root) * s->high) : plain));
}

/* u: average of the gradient. v: its decaying maximum. */
ELEMENT FN(adamax)(const FN(coefficients)* s, C* x, C g, C* u, C* v) {
  *u = FN(lerp)(*u, g, s->take, s->is_near);
  *v = FN(larger)(R(*v * s->decay2), R(M(fabs)(g) + s->eps));
  *x = R(*x + s->size * *u / *v);
}

/* u: sum of squared gradients. */
ELEMENT FN(adagrad)(const FN(coefficients)* s, C* x, C g, C* u) {
  *u = R(*u + g * g);
  *x = R(*x + s->size * g / R(R(M(sqrt)(*u)) + s->eps));
}

/* u, v: averages of squared gradients and of squared steps. */
ELEMENT FN(adadelta)(const FN(coefficients)* s, C* x, C g, C* u, C* v) {
  *u = R(*u * s->decay);
  *u = R(*u + s->take * g * g);
  const C move = R(R(R(M(sqrt)(R(*v + s->eps))) / R(M(sqrt)(R(*u + s->eps)))) * g);
  *v = R(*v * s->decay);
  *v = R(*v + s->take * move * move);
  *x = R(*x + s->size_added * move);
}

/* u: average of squared gradients. */
ELEMENT FN(rmsprop)(const FN(coefficients)* s, C* x, C g, C* u) {
  *u = R(*u * s->decay);
  *u = R(*u + s->take * g * g);
  *x = R(*x + s->size * g / R(R(M(sqrt)(*u)) + s->eps));
}

/* v: the direction. */
ELEMENT FN(rmsprop_momentum)(const FN(coefficients)* s, C* x, C g, C* u, C* v) {
  *u = R(*u * s->decay);
  *u = R(*u + s->take * g * g);
  *v = R(*v * s->decay2);
  *v = R(*v + g / R(R(M(sqrt)(*u)) + s->eps));
  *x = R(*x + s->size_added * *v);
}

/* The root of the variance. v: average of gradients. */
static inline C FN(deviation)(const FN(coefficients)* s, C g, C* u, C* v) {
  *u = R(*u * s->decay);
  *u = R(*u + s->take * g * g);
  *v = FN(lerp)(*v, g, s->take, s->is_near);
  return R(R(M(sqrt)(R(*u - *v * *v))) + s->eps);
}

ELEMENT FN(rmsprop_centered)(const FN(coefficients)* s, C* x, C g, C* u, C* v) {
  *x = R(*x + s->size * g / FN(deviation)(s, g, u, v));
}

/* w: the direction. */
ELEMENT FN(rmsprop_centered_momentum)(const FN(coefficients)* s, C* x, C g, C* u, C* v, C* w) {
  const C root = FN(deviation)(s, g, u, v);

  *w = R(*w * s->decay2);
  *w = R(*w + g / root);
  *x = R(*x + s->size_added * *w);
}

/* u: the last gradient. v: the sizes of the steps. */
ELEMENT FN(rprop)(const FN(coefficients)* s, C* x, C g, C* u, C* v) {
  const C sign = R(g * *u);
  const C size = R(*v * (sign > 0 ? s->scale_added : sign < 0 ? s->decay_added : (C)1));
  const C raised = size < s->low_added ? s->low_added : size;

  *v = raised > s->high_added ? s->high_added : raised;
  *u = sign < 0 ? 0 : g;
  *x = R(*x - (C)((*u > 0) - (*u < 0)) * *v);
}

/* u: the average of the parameter. */
ELEMENT FN(asgd)(const FN(coefficients)* s, C* x, C g, C* u) {
  *x = R(*x * s->keep);
  *x = R(*x + s->size_added * g);
  *u = s->replace_average ? *x : R(*u + R(R(*x - *u) * s->take));
}

/* --- loops ------------------------------------------------------------------------------------------------------- */

#define OPERAND(k) T* const at##k = (T*)(void*)data[k]
#define BEGIN                                                                               \
  const FN(coefficients) coefficients = FN(coefficients_of)(ctx), *const s = &coefficients; \
  OPERAND(0);                                                                               \
  OPERAND(1);                                                                               \
  (void)strides
#define ELEMENT_OF(k, name) C name = SHMT_LOAD(at##k[i])
#define GRADIENT                                                    \
  ELEMENT_OF(0, x);                                                 \
  ELEMENT_OF(1, g);                                                 \
  g = s->maximize ? -g : g;                                         \
  g = s->has_weight_decay ? R(g + s->weight_decay * x) : g
#define LOOP_HEAD(NAME) \
  void SHMT_LOOP(NAME##_step)(char* const* data, const int64_t* strides, int64_t n, const void* ctx)

#define STEP0(NAME)                                                 \
  LOOP_HEAD(NAME) {                                                 \
    BEGIN;                                                          \
    SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                    \
      GRADIENT;                                                     \
      FN(NAME)(s, &x, g);                                           \
      at0[i] = SHMT_STORE(x);                                       \
    }                                                               \
  }
#define STEP1(NAME)                                                 \
  LOOP_HEAD(NAME) {                                                 \
    BEGIN;                                                          \
    OPERAND(2);                                                     \
    SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                    \
      GRADIENT;                                                     \
      ELEMENT_OF(2, u);                                             \
      FN(NAME)(s, &x, g, &u);                                       \
      at0[i] = SHMT_STORE(x);                                       \
      at2[i] = SHMT_STORE(u);                                       \
    }                                                               \
  }
#define STEP2(NAME)                                                 \
  LOOP_HEAD(NAME) {                                                 \
    BEGIN;                                                          \
    OPERAND(2);                                                     \
    OPERAND(3);                                                     \
    SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                    \
      GRADIENT;                                                     \
      ELEMENT_OF(2, u);                                             \
      ELEMENT_OF(3, v);                                             \
      FN(NAME)(s, &x, g, &u, &v);                                   \
      at0[i] = SHMT_STORE(x);                                       \
      at2[i] = SHMT_STORE(u);                                       \
      at3[i] = SHMT_STORE(v);                                       \
    }                                                               \
  }
#define STEP3(NAME)                                                 \
  LOOP_HEAD(NAME) {                                                 \
    BEGIN;                                                          \
    OPERAND(2);                                                     \
    OPERAND(3);                                                     \
    OPERAND(4);                                                     \
    SHMT_IVDEP for (int64_t i = 0; i < n; i++) {                    \
      GRADIENT;                                                     \
      ELEMENT_OF(2, u);                                             \
      ELEMENT_OF(3, v);                                             \
      ELEMENT_OF(4, w);                                             \
      FN(NAME)(s, &x, g, &u, &v, &w);                               \
      at0[i] = SHMT_STORE(x);                                       \
      at2[i] = SHMT_STORE(u);                                       \
      at3[i] = SHMT_STORE(v);                                       \
      at4[i] = SHMT_STORE(w);                                       \
    }                                                               \
  }

STEP0(sgd)
STEP1(sgd_momentum)
STEP2(adam)
STEP3(amsgrad)
STEP2(nadam)
STEP2(radam)
STEP2(adamax)
STEP1(adagrad)
STEP2(adadelta)
STEP1(rmsprop)
STEP2(rmsprop_momentum)
STEP2(rmsprop_centered)
STEP3(rmsprop_centered_momentum)
STEP2(rprop)
STEP1(asgd)

/* data: gradient. ctx: a double that it is divided by. */
void SHMT_LOOP(step_unscale)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  T* const g = (T*)(void*)data[0];
  const C scale = (C) * (const double*)ctx;

  (void)strides;
  for (int64_t i = 0; i < n; i++) g[i] = SHMT_STORE(SHMT_LOAD(g[i]) / scale);
}

/* Elements brought together at a time: five operands are 5 to 20 KB. */
enum { FN(stretch) = 512 };

/* data: the operands with any strides. ctx: shmt__step_gathered, whose loop is that of the buffers' type. */
#define GATHERED(NAME, BUFFER, IN, OUT, NUMBER_OF, AS)                                           \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {  \
    const shmt__step_gathered* const how = ctx;                                                  \
    char* const* const from = data + how->first;                                                 \
    const int64_t* const step = strides + how->first;                                            \
    const C unscale = (C)how->unscale;                                                           \
    const unsigned written = how->written | (unscale != 1 ? 2u : 0u);                            \
    _Alignas(64) BUFFER buffers[SHMT_STEP_MAX_LISTS][FN(stretch)];                               \
    char* at[SHMT_STEP_MAX_LISTS];                                                               \
                                                                                                 \
    for (int k = 0; k < how->n_lists; k++) at[k] = (char*)buffers[k];                            \
    for (int64_t i0 = 0; i0 < n; i0 += FN(stretch)) {                                            \
      const int64_t width = n - i0 < FN(stretch) ? n - i0 : FN(stretch);                         \
      for (int k = 0; k < how->n_lists; k++) {                                                   \
        const char* const p = from[k] + i0 * step[k];                                            \
        for (int64_t i = 0; i < width; i++) buffers[k][i] = IN(SHMT_AT(const T, p, step[k], i)); \
      }                                                                                          \
      for (int64_t i = 0; unscale != 1 && i < width; i++)                                        \
        buffers[1][i] = AS(NUMBER_OF(buffers[1][i]) / unscale);                                  \
      how->loop(at, NULL, width, how->coefficients);                                             \
      for (int k = 0; k < how->n_lists; k++) {                                                   \
        char* const p = from[k] + i0 * step[k];                                                  \
        for (int64_t i = 0; (written >> k & 1) && i < width; i++)                                \
          SHMT_AT(T, p, step[k], i) = OUT(buffers[k][i]);                                        \
      }                                                                                          \
    }                                                                                            \
  }
#define SAME(x) (x)
GATHERED(step_gathered, T, SAME, SAME, SHMT_LOAD, SHMT_STORE)
/* Calculated in C: for float16 and bfloat16. */
GATHERED(step_widened, C, SHMT_LOAD, SHMT_STORE, SAME, SAME)
