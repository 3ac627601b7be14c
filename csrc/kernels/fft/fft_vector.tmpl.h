/* kernels/fft/fft_vector.tmpl.h -- vectors of lanes, and moves between them and memory. Included by the templates of
 * Fourier transforms, which end with fft_vector_end.tmpl.h.
 *
 * See Note [Lanes] in kernels/fft/fft.h. R is the real type, FN(vector) a vector of it, FN(pair) an element of all
 * lanes.
 */
#include "kernels/fft/fft.h"
#include "kernels/template.h"

#include <string.h>

/* Products of a sum are added unrounded where the processor can. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

#define INLINE       static inline __attribute__((always_inline))
#define LANES_complex64_ (SHMT_VECTOR_BYTES / 4)
#define LANES_complex128_ (SHMT_VECTOR_BYTES / 8)
#define LANES             SHMT_PASTE(SHMT_PASTE(LANES, DT), )

#define R __typeof__(_Generic((C)0, float _Complex: (float)0, default: (double)0))

typedef R FN(vector) __attribute__((vector_size(SHMT_VECTOR_BYTES)));
typedef struct FN(pair) {
  FN(vector) re, im;
} FN(pair);

/* How many complex numbers 16 bytes hold. Shuffles within 16 bytes are cheaper than across them. */
#define RUN (8 * LANES / SHMT_VECTOR_BYTES)
/* The signals of a block, RUN at a time, belong alternately to the first and to the other half of a tile. */
#define SIGNAL_OF(l, is_other) ((l) / RUN * 2 * RUN + (l) % RUN + ((is_other) ? RUN : 0))

/* Shuffles of two vectors as one row of numbers. EVENS and ODDS: every second number. LOW and HIGH: the two
 * interleaved; with _2 by pairs of numbers. _BACK: the last element first. RE_PARTS and IM_PARTS: the parts of one
 * element of the first and of the other signals; FIRST_SIGNALS and OTHER_SIGNALS go back. */
#if LANES == 16
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODDS(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define LOW(a, b)   __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b)  __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_2(a, b)  __builtin_shufflevector(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 8, 9, 24, 25, 10, 11, 26, 27)
#define HIGH_2(a, b) __builtin_shufflevector(a, b, 4, 5, 20, 21, 6, 7, 22, 23, 12, 13, 28, 29, 14, 15, 30, 31)
#define RE_PARTS(a, b) __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30)
#define IM_PARTS(a, b) __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31)
#define FIRST_SIGNALS(re, im) __builtin_shufflevector(re, im, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define OTHER_SIGNALS(re, im) \
  __builtin_shufflevector(re, im, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define EVENS_BACK(a, b) __builtin_shufflevector(a, b, 30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0)
#define ODDS_BACK(a, b)  __builtin_shufflevector(a, b, 31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1)
#define LOW_BACK(a, b)   __builtin_shufflevector(a, b, 15, 31, 14, 30, 13, 29, 12, 28, 11, 27, 10, 26, 9, 25, 8, 24)
#define HIGH_BACK(a, b)  __builtin_shufflevector(a, b, 7, 23, 6, 22, 5, 21, 4, 20, 3, 19, 2, 18, 1, 17, 0, 16)
#define JOINED(a, b)     __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define FIRST(a)         __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7)
#define SECOND(a)        __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15)
#elif LANES == 8
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODDS(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW(a, b)   __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b)  __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_2(a, b)  __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH_2(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#if RUN == 2
#define RE_PARTS(a, b) __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14)
#define IM_PARTS(a, b) __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15)
#define FIRST_SIGNALS(re, im) __builtin_shufflevector(re, im, 0, 8, 1, 9, 4, 12, 5, 13)
#define OTHER_SIGNALS(re, im) __builtin_shufflevector(re, im, 2, 10, 3, 11, 6, 14, 7, 15)
#else
#define RE_PARTS(a, b) __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define IM_PARTS(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define FIRST_SIGNALS(re, im) RE_PARTS(re, im)
#define OTHER_SIGNALS(re, im) IM_PARTS(re, im)
#endif
#define EVENS_BACK(a, b) __builtin_shufflevector(a, b, 14, 12, 10, 8, 6, 4, 2, 0)
#define ODDS_BACK(a, b)  __builtin_shufflevector(a, b, 15, 13, 11, 9, 7, 5, 3, 1)
#define LOW_BACK(a, b)   __builtin_shufflevector(a, b, 7, 15, 6, 14, 5, 13, 4, 12)
#define HIGH_BACK(a, b)  __builtin_shufflevector(a, b, 3, 11, 2, 10, 1, 9, 0, 8)
#define JOINED(a, b)     __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define FIRST(a)         __builtin_shufflevector(a, a, 0, 1, 2, 3)
#define SECOND(a)        __builtin_shufflevector(a, a, 4, 5, 6, 7)
#elif LANES == 4
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODDS(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define LOW(a, b)   __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b)  __builtin_shufflevector(a, b, 2, 6, 3, 7)
/* Never called: half a vector is one complex number, or a part of it. */
#define LOW_2(a, b)  (a)
#define HIGH_2(a, b) (b)
#if RUN == 2
#define RE_PARTS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define IM_PARTS(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define FIRST_SIGNALS(re, im) __builtin_shufflevector(re, im, 0, 4, 1, 5)
#define OTHER_SIGNALS(re, im) __builtin_shufflevector(re, im, 2, 6, 3, 7)
#else
#define RE_PARTS(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define IM_PARTS(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#define FIRST_SIGNALS(re, im) RE_PARTS(re, im)
#define OTHER_SIGNALS(re, im) IM_PARTS(re, im)
#endif
#define EVENS_BACK(a, b) __builtin_shufflevector(a, b, 6, 4, 2, 0)
#define ODDS_BACK(a, b)  __builtin_shufflevector(a, b, 7, 5, 3, 1)
#define LOW_BACK(a, b)   __builtin_shufflevector(a, b, 3, 7, 2, 6)
#define HIGH_BACK(a, b)  __builtin_shufflevector(a, b, 1, 5, 0, 4)
#define JOINED(a, b)     __builtin_shufflevector(a, b, 0, 1, 2, 3)
#define FIRST(a)         __builtin_shufflevector(a, a, 0, 1)
#define SECOND(a)        __builtin_shufflevector(a, a, 2, 3)
#else
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ODDS(a, b)  __builtin_shufflevector(a, b, 1, 3)
#define LOW(a, b)   __builtin_shufflevector(a, b, 0, 2)
#define HIGH(a, b)  __builtin_shufflevector(a, b, 1, 3)
#define RE_PARTS(a, b) EVENS(a, b)
#define IM_PARTS(a, b) ODDS(a, b)
#define FIRST_SIGNALS(re, im) EVENS(re, im)
#define OTHER_SIGNALS(re, im) ODDS(re, im)
#define EVENS_BACK(a, b) __builtin_shufflevector(a, b, 2, 0)
#define ODDS_BACK(a, b)  __builtin_shufflevector(a, b, 3, 1)
#define LOW_BACK(a, b)   __builtin_shufflevector(a, b, 1, 3)
#define HIGH_BACK(a, b)  __builtin_shufflevector(a, b, 0, 2)
#endif

/* The parts of the first element of a signal of the block at hand. */
INLINE R* FN(re_of)(const shmt__fft_place* p, int64_t signal) { return (R*)(void*)((char*)p->re[signal] + p->at); }
INLINE R* FN(im_of)(const shmt__fft_place* p, int64_t signal) { return (R*)(void*)((char*)p->im[signal] + p->at); }

INLINE FN(vector) FN(get)(const R* from) {
  FN(vector) v;
  memcpy(&v, from, sizeof v);
  return v;
}

INLINE void FN(put)(R* to, FN(vector) v) { memcpy(to, &v, sizeof v); }

/* LANES elements of a dense signal, in order or the last one first. */
INLINE FN(pair) FN(get_run)(const R* from) {
  const FN(vector) u = FN(get)(from), v = FN(get)(from + LANES);
  return (FN(pair)){EVENS(u, v), ODDS(u, v)};
}
INLINE FN(pair) FN(get_run_back)(const R* from) {
  const FN(vector) u = FN(get)(from), v = FN(get)(from + LANES);
  return (FN(pair)){EVENS_BACK(u, v), ODDS_BACK(u, v)};
}
INLINE void FN(put_run)(R* to, FN(pair) a) {
  FN(put)(to, LOW(a.re, a.im));
  FN(put)(to + LANES, HIGH(a.re, a.im));
}
INLINE void FN(put_run_back)(R* to, FN(pair) a) {
  FN(put)(to, LOW_BACK(a.re, a.im));
  FN(put)(to + LANES, HIGH_BACK(a.re, a.im));
}

/* Transposes a square of numbers: each round interleaves rows that are half the square apart. */
INLINE void FN(transpose)(FN(vector)* v) {
#pragma GCC unroll 4
  for (int round = 1; round < LANES; round *= 2) {
    FN(vector) w[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES / 2; i++) {
      w[2 * i] = LOW(v[i], v[i + LANES / 2]);
      w[2 * i + 1] = HIGH(v[i], v[i + LANES / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) v[i] = w[i];
  }
}

INLINE FN(pair) FN(add)(FN(pair) a, FN(pair) b) { return (FN(pair)){a.re + b.re, a.im + b.im}; }
INLINE FN(pair) FN(sub)(FN(pair) a, FN(pair) b) { return (FN(pair)){a.re - b.re, a.im - b.im}; }
INLINE FN(pair) FN(scaled)(FN(pair) a, R c) { return (FN(pair)){a.re * c, a.im * c}; }
/* a + c b */
INLINE FN(pair) FN(add_scaled)(FN(pair) a, FN(pair) b, R c) { return (FN(pair)){a.re + c * b.re, a.im + c * b.im}; }
/* a - i b and a + i b */
INLINE FN(pair) FN(sub_i)(FN(pair) a, FN(pair) b) { return (FN(pair)){a.re + b.im, a.im - b.re}; }
INLINE FN(pair) FN(add_i)(FN(pair) a, FN(pair) b) { return (FN(pair)){a.re - b.im, a.im + b.re}; }
INLINE FN(pair) FN(times_minus_i)(FN(pair) a) { return (FN(pair)){a.im, -a.re}; }
INLINE FN(pair) FN(times)(FN(pair) a, R re, R im) {
  return (FN(pair)){a.re * re - a.im * im, a.re * im + a.im * re};
}

/* in kernels/fft/fft_lanes.tmpl.h */
void* SHMT_LOOP(fft_lanes)(const shmt__fft_steps* steps, const void* from, int64_t apart, void* x, void* y, void* work);
/* Transforms x, with y and work as scratch. Returns the address of the result, which is x or y. */
INLINE FN(pair)* FN(transformed)(const shmt__fft_steps* steps, FN(pair)* x, FN(pair)* y, FN(pair)* work) {
  return SHMT_LOOP(fft_lanes)(steps, x, 1, x, y, work);
}
