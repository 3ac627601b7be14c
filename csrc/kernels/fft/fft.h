/* kernels/fft/fft.h -- arguments of the loops of Fourier transforms.
 *
 * Note [Lanes]
 * A transform runs on as many signals at once as a vector has numbers, one signal in each lane. In scratch an element
 * of all signals is a pair of vectors, with real and imaginary parts apart. So a butterfly is arithmetic on whole
 * vectors with the same roots for all lanes: nothing is shuffled within a vector, and every radix is as fast as any
 * other. Load and store functions convert between memory and this form. They transpose tiles where signals are dense,
 * and copy columns (neighbouring signals next to each other) as they are.
 *
 * Where all is complex and signals are long, the pair is one vector of complex numbers, interleaved as in memory
 * (SHMT_FFT_INTERLEAVED), and holds half as many signals. The block is half as large, and loading it moves whole
 * numbers only. Products take a shuffle then.
 *
 * A single signal of n = n1 n2 elements is done in four steps: it is a matrix of n1 rows and n2 columns. The columns
 * are transformed first, neighbouring ones in neighbouring lanes, and multiplied by twiddle factors; then the n1 rows
 * of the result are transformed. The columns leave n2 rows of runs. A run is a vector of real parts followed by one of
 * imaginary parts, in which neighbours belong to neighbouring rows again. With n1 elements a row (the last run may be a
 * short one, of complex numbers), the result of a row goes to where the row was. So the second pass works in the
 * result, and a long signal takes no other memory. Short signals have a buffer of their own between the passes, block
 * by block, which is read in order.
 *
 * Note [Short signals]
 * Dense complex signals of 16 to 512 elements, a power of two, are matrices too, but the numbers stay interleaved as in
 * memory, and a whole column of runs of them is in registers. Neither pass needs scratch other than the signal itself
 * between them, nor other signals to fill the lanes. The only shuffles transpose squares, and swap the parts before a
 * product. A backward transform conjugates the numbers when they are loaded and stored.
 *
 * Transforms in lanes are forward. A backward one is the forward one with real and imaginary parts swapped (interleaved
 * numbers: conjugated) when they are loaded and stored.
 */
#ifndef SHMT_KERNELS_FFT_FFT_H
#define SHMT_KERNELS_FFT_FFT_H

#include <stdbool.h>
#include <stdint.h>

enum {
  SHMT_FFT_SHORT_LENGTH = 512, /* elements of the longest of short signals */
  SHMT_FFT_STEPS = 24,  /* a length has at most so many factors */
  SHMT_FFT_LANES = 16,  /* a vector has at most so many lanes */
  SHMT_FFT_RADIX = 509, /* largest factor that steps are made for */
};

/* One step of Stockham's algorithm, of radix p. Before it, m * p * s elements are s transforms of m * p. */
typedef struct shmt__fft_step {
  int64_t radix, m, s;
  const void* twiddles; /* (m, radix - 1) complex: exp(-2 pi i j t / (m * radix)), t from 1 */
  const void* roots; /* (radix) complex: exp(-2 pi i k / radix); for radices without code of their own */
} shmt__fft_step;

/* The transform of one length, in steps. */
typedef struct shmt__fft_steps {
  int64_t length;
  int n_steps;
  shmt__fft_step step[SHMT_FFT_STEPS];
} shmt__fft_steps;

/* The loop fft_lanes: transforms `from` forward. from: pairs of vectors, `apart` from each other; x, y: elements of the
 * length; x may be `from`, and is it when there are no steps; work: elements of the largest radix. Returns the address
 * of the result, which is x or y. */
typedef void* (*shmt__fft_lanes_loop)(const shmt__fft_steps* steps, const void* from, int64_t apart, void* x, void* y,
                                      void* work);

/* What the signals of a block are in memory and in scratch. */
typedef enum shmt__fft_kind {
  SHMT_FFT_COMPLEX,
  SHMT_FFT_INTERLEAVED, /* complex signals with at least as many elements as lanes: half as many at once */
  /* Real signals of even length 2n are n complex numbers. The spectrum has n + 1 elements, or 2n. */
  SHMT_FFT_R2C_EVEN,
  SHMT_FFT_C2R_EVEN,
  /* Two real signals of odd length are the two parts of one complex signal. */
  SHMT_FFT_R2C_PAIR,
  SHMT_FFT_C2R_PAIR,
} shmt__fft_kind;

typedef enum shmt__fft_layout {
  SHMT_FFT_SCATTERED,
  SHMT_FFT_DENSE,         /* every signal is dense, with interleaved parts */
  SHMT_FFT_DENSE_PARTS,   /* every signal is dense, with its parts in two arrays of real numbers */
  SHMT_FFT_COLUMNS,       /* neighbouring lanes are neighbouring complex numbers */
  SHMT_FFT_COLUMNS_PARTS, /* neighbouring lanes are neighbouring real numbers, of both parts */
} shmt__fft_layout;

/* Where a block of signals is in memory. Lanes without a signal of their own repeat another one. */
typedef struct shmt__fft_place {
  shmt__fft_layout layout;
  int64_t step; /* real numbers from one element of a signal to the next */
  int64_t next; /* bytes from one block to the next */
  int64_t at;   /* bytes from these signals to those of the block at hand */
  void* re[SHMT_FFT_LANES];
  void* im[SHMT_FFT_LANES];
} shmt__fft_place;

/* Signals to transform at once, followed by other blocks at the same distance from each other. */
typedef struct shmt__fft_block {
  const shmt__fft_steps* steps;
  shmt__fft_kind kind;
  bool is_forward;
  bool is_whole;       /* for R2C: all of the spectrum, not only the first half */
  const void* real_twiddles;  /* for ..._EVEN: (n / 2 + 1) complex: exp(-2 pi i k / 2n) */
  double scale;
  int64_t room;        /* elements of each of the two arrays in scratch */
  shmt__fft_place in[2], out[2]; /* [1]: the second signals of pairs, where the parts are not two arrays */
} shmt__fft_block;

/* The tables of a four-step transform: one dense signal as a matrix. */
typedef struct shmt__fft_four_step {
  shmt__fft_steps columns, rows; /* n1 and n2 elements */
  const void* twiddles; /* (blocks of columns, n1, 2, lanes): exp(-2 pi i row column / n), real and imaginary parts */
} shmt__fft_four_step;

typedef struct shmt__fft_four_step_args {
  const shmt__fft_four_step* four_step;
  bool swap_in, swap_out; /* swap real and imaginary parts */
  double scale;
  const void* real_twiddles; /* not NULL: the signal is the first half of the spectrum of 2n real numbers */
  int64_t block, row; /* between the passes: real numbers from one block of runs to the next, and from row to row */
  int64_t begin;      /* the first block */
} shmt__fft_four_step_args;

/* A short signal as a matrix, `rows` by `columns`: 4, 8 or 16 by one of these or 32. */
typedef struct shmt__fft_short {
  int64_t rows, columns;
  int64_t run;       /* numbers in a vector or half of one; rows and columns are multiples of it */
  const void* twiddles; /* (columns / run, rows - 1, 2, run) complex: re, re; -im, im */
  bool is_forward;
  double scale;
} shmt__fft_short;

/* Arguments of a pass over one signal before or after its transform. */
typedef struct shmt__fft_pass {
  const void* factor; /* products: chirp, or its spectrum; real signals: real_twiddles */
  double scale;       /* products */
  bool swap_in, swap_out;      /* products: swap real and imaginary parts before and after */
  bool is_forward, is_whole;   /* real signals: see shmt__fft_block */
} shmt__fft_pass;

#endif
