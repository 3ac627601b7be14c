/* kernels/random/random.tmpl.h -- turns random words into numbers of one dtype. */
#include "kernels/template.h"
#include "kernels/loop_args.h"

#include <math.h>

#ifndef SHMT_KERNELS_RANDOM_ONCE
#define SHMT_KERNELS_RANDOM_ONCE

/* log of x in (0, 1], branch-free: about 1 ulp. */
static inline float shmt__log_unitf(float x) {
  const union {
    float f;
    int32_t i;
  } v = {.f = x};
  /* x = m * 2^e with m in [sqrt(1/2), sqrt(2)) */
  const int32_t shifted = v.i - 0x3f3504f3;
  const int32_t e = shifted >> 23;
  const union {
    int32_t i;
    float f;
  } m = {.i = (shifted & 0x7fffff) + 0x3f3504f3};
  const float f = m.f - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const float n = (float)e;
  const float z = f * f;
  return (f + (p * f * z + n * -2.12194440e-4f - 0.5f * z)) + n * 0.693359375f;
}

/* sin and cos of 2 pi u, u in [0, 1): quarter turns, then polynomials on [-pi/4, pi/4]. */
static inline void shmt__sincos_2pif(float u, float* s, float* c) {
  const float q = 4.0f * u;
  const float k = (q + 12582912.0f) - 12582912.0f;
  const float r = (q - k) * 1.57079632679489662f, z = r * r;
  const int32_t quarter = (int32_t)k;
  float ps = -1.9515295891e-4f;
  ps = ps * z + 8.3321608736e-3f;
  ps = ps * z - 1.6666654611e-1f;
  ps = ps * z * r + r;
  float pc = 2.443315711809948e-5f;
  pc = pc * z - 1.388731625493765e-3f;
  pc = pc * z + 4.166664568298827e-2f;
  pc = pc * z * z - 0.5f * z + 1.0f;
  const float a = quarter & 1 ? pc : ps, b = quarter & 1 ? ps : pc;
  *s = quarter & 2 ? -a : a;
  *c = (quarter + 1) & 2 ? -b : b;
}

#define SHMT_LOG_UNIT(x) _Generic((x), float: shmt__log_unitf, default: log)(x)
#endif

/* The loops' data: out, words (uint32, dense). n is the number of results. uniform: ctx is shmt__uniform_args. */
#if SHMT_IS_FLOATING
/* The number between from and to at a fraction below 1. What is rounded to `to`, which is excluded, becomes from. */
static inline T SHMT_LOOP(uniform_at)(C fraction, C from, C width, C to) {
  const T value = SHMT_STORE(fraction * width + from);
  return SHMT_LOAD(value) == to ? SHMT_STORE(from) : value;
}

void SHMT_LOOP(uniform)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__uniform_args* s = ctx;
  const C from = (C)s->from, width = (C)s->to - (C)s->from, to = SHMT_LOAD(SHMT_STORE((C)s->to));
  const uint32_t* words = (const uint32_t*)(const void*)data[1];
  /* As many low bits as the significand has. 16-bit floats are rounded from float. */
  const int digits = sizeof(T) == 8 ? 53 : 24;
  const C unit = (C)1 / (C)(1ull << digits);

  if (sizeof(T) == 8) {
    for (int64_t i = 0; i < n; i++) {
      const uint64_t bits = ((uint64_t)words[2 * i] << 32 | words[2 * i + 1]) & ((1ull << digits) - 1);
      *(T*)(void*)(data[0] + i * strides[0]) = SHMT_LOOP(uniform_at)((C)(int64_t)bits * unit, from, width, to);
    }
  } else if (strides[0] == (int64_t)sizeof(T)) {
    T* out = (T*)(void*)data[0];
    const int32_t mask = (int32_t)((1ull << digits) - 1);
    SHMT_IVDEP for (int64_t i = 0; i < n; i++)
      out[i] = SHMT_LOOP(uniform_at)((C)((int32_t)words[i] & mask) * unit, from, width, to);
  } else {
    const int32_t mask = (int32_t)((1ull << digits) - 1);
    for (int64_t i = 0; i < n; i++)
      *(T*)(void*)(data[0] + i * strides[0]) =
          SHMT_LOOP(uniform_at)((C)((int32_t)words[i] & mask) * unit, from, width, to);
  }
}

/* Ones where a uniform number is below its probability, else zeros. data: out, words (two a number for double),
 * probabilities, all dense. ctx: a bool that becomes false when a probability is not in [0, 1]. */
void SHMT_LOOP(bernoulli_each)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  T* out = (T*)(void*)data[0];
  const uint32_t* words = (const uint32_t*)(const void*)data[1];
  const T* p = (const T*)(const void*)data[2];
  int32_t good = 1;

  (void)strides;
  if (sizeof(T) == 8) {
    for (int64_t i = 0; i < n; i++) {
      const uint64_t bits = ((uint64_t)words[2 * i] << 32 | words[2 * i + 1]) & ((1ull << 53) - 1);
      const C chance = SHMT_LOAD(p[i]);
      good &= (chance >= 0) & (chance <= 1);
      out[i] = SHMT_STORE((C)((C)(int64_t)bits * (C)0x1p-53 < chance ? 1 : 0));
    }
  } else {
    SHMT_IVDEP for (int64_t i = 0; i < n; i++) {
      const C chance = SHMT_LOAD(p[i]);
      good &= (chance >= 0) & (chance <= 1);
      out[i] = SHMT_STORE((C)((C)((int32_t)words[i] & 0xffffff) * (C)0x1p-24 < chance ? 1 : 0));
    }
  }
  if (!good) *(bool*)(uintptr_t)ctx = false;
}

/* Turns n / 16 blocks of uniform numbers into normal ones in place: pairs are 8 apart. Several blocks at a time, so
 * that their halves fill wide vectors. */
void SHMT_LOOP(box_muller)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  enum { BLOCKS = 8, PAIRS = 8 * BLOCKS };
  const shmt__uniform_args* s = ctx;
  const C mean = (C)s->from, std = (C)s->to;
  T* x = (T*)(void*)data[0];
  C first[PAIRS], second[PAIRS];

  (void)strides;
  for (int64_t left = n / 16; left > 0; left -= BLOCKS, x += 16 * BLOCKS) {
    const int blocks = left < BLOCKS ? (int)left : BLOCKS;
    for (int b = 0; b < blocks; b++)
      for (int k = 0; k < 8; k++) {
        first[8 * b + k] = SHMT_LOAD(x[16 * b + k]);
        second[8 * b + k] = SHMT_LOAD(x[16 * b + 8 + k]);
      }
    for (int k = 0; k < 8 * blocks; k++) {
      const C u1 = 1 - first[k], u2 = second[k];
      C sine, cosine;
      if (sizeof(C) == 4) {
        float sf, cf;
        shmt__sincos_2pif((float)u2, &sf, &cf);
        sine = (C)sf;
        cosine = (C)cf;
      } else {
        const double theta = 2 * 3.14159265358979323846 * (double)u2;
        sine = (C)sin(theta);
        cosine = (C)cos(theta);
      }
      const C radius = _Generic((C)0, float: sqrtf, default: sqrt)(-2 * SHMT_LOG_UNIT(u1));
      first[k] = radius * cosine * std + mean;
      second[k] = radius * sine * std + mean;
    }
    for (int b = 0; b < blocks; b++)
      for (int k = 0; k < 8; k++) {
        x[16 * b + k] = SHMT_STORE(first[8 * b + k]);
        x[16 * b + 8 + k] = SHMT_STORE(second[8 * b + k]);
      }
  }
}
#endif

/* ctx: shmt__randint_args. One word per number, or two when `wide`. */
void SHMT_LOOP(randint)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__randint_args* s = ctx;
  const uint32_t* words = (const uint32_t*)(const void*)data[1];

  if (!s->wide) {
    /* Remainders in double, which vectorise: from the quotient rounded to nearest, corrected when negative. */
    const double range = (double)s->range, inverse = 1 / range, whole = 0x1.8p52;
    const int64_t base = s->base;
    T block[256];
    for (int64_t begin = 0; begin < n; begin += 256) {
      const int64_t count = n - begin < 256 ? n - begin : 256;
      const bool dense = strides[0] == (int64_t)sizeof(T);
      char* to = data[0] + begin * strides[0];
      T* values = dense ? (T*)(void*)to : block;
      SHMT_IVDEP for (int64_t k = 0; k < count; k++) {
        const double v = (double)words[begin + k];
        const double r = v - ((v * inverse + whole) - whole) * range;
        const int64_t value = (int32_t)(r < 0 ? r + range : r) + base;
#if SHMT_IS_BOOL
        values[k] = value != 0;
#else
        values[k] = SHMT_STORE((C)value);
#endif
      }
      for (int64_t k = 0; k < count && !dense; k++) *(T*)(void*)(to + k * strides[0]) = values[k];
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    uint64_t v = (uint64_t)words[2 * i] << 32 | words[2 * i + 1];
    if (s->range) v %= s->range;
    const int64_t value = (int64_t)(v + (uint64_t)s->base);
#if SHMT_IS_BOOL
    *(T*)(void*)(data[0] + i * strides[0]) = value != 0;
#else
    *(T*)(void*)(data[0] + i * strides[0]) = SHMT_STORE((C)value);
#endif
  }
}

/* `value` where the 53 low bits of two words are below the limit, else 0. ctx: shmt__bernoulli_args. */
void SHMT_LOOP(bernoulli)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__bernoulli_args* s = ctx;
  const uint32_t* words = (const uint32_t*)(const void*)data[1];
  const int64_t limit = (int64_t)s->limit;
#if SHMT_IS_BOOL
  const T one = s->value != 0, zero = 0;
#else
  const T one = SHMT_STORE((C)s->value), zero = SHMT_STORE((C)0);
#endif

  if (strides[0] == (int64_t)sizeof(T)) {
    T* out = (T*)(void*)data[0];
    SHMT_IVDEP for (int64_t i = 0; i < n; i++)
      out[i] = ((int64_t)(words[2 * i] & 0x1fffff) << 32 | words[2 * i + 1]) < limit ? one : zero;
  } else {
    for (int64_t i = 0; i < n; i++)
      *(T*)(void*)(data[0] + i * strides[0]) =
          ((int64_t)(words[2 * i] & 0x1fffff) << 32 | words[2 * i + 1]) < limit ? one : zero;
  }
}
