/* kernels/fft/fft.h -- what the loops of Fourier transforms are told.
 *
 * Note [Lanes]
 * A transform runs on as many lines at once as a vector has numbers, one line a lane. The lines lie in scratch as one
 * pair of vectors an element, real parts and imaginary parts apart, so that a butterfly is arithmetic on whole
 * vectors with the same roots for all lanes: nothing is shuffled within a vector, and every radix is as fast as any
 * other. The loader and the storer turn memory into that form and back: tiles are transposed where lines are dense, and
 * columns (neighbouring lines next to each other) are read as they lie.
 *
 * Where all is complex and lines are long the pair is one vector of complex numbers as they lie in memory (SHMT_FFT_INTERLEAVED), of half as many
 * lines: the block is half as large, and bringing it in moves whole numbers only. Products take a shuffle then.
 *
 * A single line of n = n1 n2 elements is its own matrix of n1 rows and n2 columns: the columns are transformed first,
 * neighbouring ones in neighbouring lanes, and multiplied by roots; then the rows of what came out, n1 of them. The
 * columns are left as n2 rows of runs, a vector of real parts followed by one of imaginary parts, in which neighbours are
 * of neighbouring rows again. With n1 elements a row (the last run may be a short one, of complex numbers), what comes out
 * of a row belongs where it came from: so the second half works in the result, and a long line takes no memory but that.
 * Short lines have a place of their own in between, block by block, which is read as it lies.
 *
 * Note [Short lines]
 * Dense complex lines of 16 to 512 elements, powers of two, are matrices too, but the numbers stay side by side as they are
 * in memory, and a whole column of runs of them is in registers. Neither half needs scratch but the line itself between
 * them, nor other lines to fill the lanes; the only shuffles transpose squares, and exchange parts before a product.
 * Backward, the numbers are conjugated on the way in and out.
 *
 * Transforms in lanes are forwards; a backward one is the forward one with the real and the imaginary parts exchanged
 * (of runs: conjugated) on the way in and out.
 */
#ifndef SHMT_KERNELS_FFT_FFT_H
#define SHMT_KERNELS_FFT_FFT_H

#include <stdbool.h>
#include <stdint.h>

enum {
  SHMT_FFT_SHORT_LENGTH = 512, /* elements of the longest of short lines */
  SHMT_FFT_STEPS = 24,  /* most factors of a length */
  SHMT_FFT_LANES = 16,  /* most lanes there are */
  SHMT_FFT_RADIX = 509, /* largest factor that steps are made for */
};

/* One step of Stockham's algorithm: radix p; before it, m * p * s elements are s transforms of m * p. */
typedef struct shmt__fft_step {
  int64_t radix, m, s;
  const void* twiddles; /* (m, radix - 1) complex: exp(-2 pi i j t / (m * radix)), t from 1 */
  const void* roots; /* (radix) complex: exp(-2 pi i k / radix); for radices without code of their own */
} shmt__fft_step;

/* The transform of one length, by steps. */
typedef struct shmt__fft_steps {
  int64_t length;
  int n_steps;
  shmt__fft_step step[SHMT_FFT_STEPS];
} shmt__fft_steps;

/* The loop fft_lanes: transforms what is in `from`, pairs of vectors `apart` from each other, forwards. x, y: elements of the
 * length; x may be `from`, and is where there are no steps; work: elements of the largest radix. Returns where the result is: x
 * or y. */
typedef void* (*shmt__fft_lanes_loop)(const shmt__fft_steps* steps, const void* from, int64_t apart, void* x, void* y, void* work);

/* What a block's lines are in memory and in scratch. */
typedef enum shmt__fft_kind {
  SHMT_FFT_COMPLEX,
  SHMT_FFT_INTERLEAVED, /* complex lines, of at least as many elements as lanes: half as many of them at once */
  /* Real lines of even length 2n: n complex numbers. The spectrum has n + 1 elements, or 2n. */
  SHMT_FFT_R2C_EVEN,
  SHMT_FFT_C2R_EVEN,
  /* Two real lines of odd length as the two parts of one. */
  SHMT_FFT_R2C_PAIR,
  SHMT_FFT_C2R_PAIR,
} shmt__fft_kind;

typedef enum shmt__fft_layout {
  SHMT_FFT_SCATTERED,
  SHMT_FFT_DENSE,         /* every line is dense, real and imaginary parts side by side */
  SHMT_FFT_DENSE_PARTS,   /* every line is dense, its parts are two lines of real numbers */
  SHMT_FFT_COLUMNS,       /* neighbouring lanes are neighbouring complex numbers */
  SHMT_FFT_COLUMNS_PARTS, /* neighbouring lanes are neighbouring real numbers, of both parts */
} shmt__fft_layout;

/* Where a block of lines lies. Lanes without a line of their own repeat another one. */
typedef struct shmt__fft_place {
  shmt__fft_layout layout;
  int64_t step; /* real numbers from an element of a line to the next */
  int64_t next; /* bytes from a block to the next */
  int64_t at;   /* bytes from these lines to those of the block at hand */
  void* re[SHMT_FFT_LANES];
  void* im[SHMT_FFT_LANES];
} shmt__fft_place;

/* Lines to transform at once, and those of other blocks as far from each other. */
typedef struct shmt__fft_block {
  const shmt__fft_steps* steps;
  shmt__fft_kind kind;
  bool is_forward;
  bool is_whole;       /* of FROM_...: all of the spectrum, not only the first half */
  const void* real_twiddles;  /* of ..._EVEN: (n / 2 + 1) complex: exp(-2 pi i k / 2n) */
  double scale;
  int64_t room;        /* elements of each of the two halves of scratch */
  shmt__fft_place in[2], out[2]; /* the second: the other lines of a pair, where the parts are not two lines */
} shmt__fft_block;

/* One dense line as a matrix. */
typedef struct shmt__fft_four_step {
  shmt__fft_steps columns, rows; /* n1 and n2 elements */
  const void* twiddles; /* (blocks of columns, n1, 2, lanes): exp(-2 pi i row column / n), real and imaginary parts */
} shmt__fft_four_step;

typedef struct shmt__fft_four_step_args {
  const shmt__fft_four_step* four_step;
  bool swap_in, swap_out; /* exchange real and imaginary parts */
  double scale;
  const void* real_twiddles; /* not NULL: the line is the first half of the spectrum of twice as many real numbers; as in a block */
  int64_t block, row; /* between the halves: real numbers from one block of runs to the next, and from row to row */
  int64_t begin;      /* the first block */
} shmt__fft_four_step_args;

/* A short line as a matrix: `rows` by `columns`, 4, 8 or 16 by one of these or 32. */
typedef struct shmt__fft_short {
  int64_t rows, columns;
  int64_t run;       /* numbers side by side, which are a vector or half of one; rows and columns are multiples of it */
  const void* twiddles; /* (columns / run, rows - 1, 2, run) complex: the real part twice; the imaginary part, first negated */
  bool is_forward;
  double scale;
} shmt__fft_short;

/* Passes over one line between transforms. */
typedef struct shmt__fft_pass {
  const void* factor; /* products: chirp, its transform; real lines: halves */
  double scale;       /* products */
  bool swap_in, swap_out;      /* products: exchange real and imaginary parts before and after */
  bool is_forward, is_whole;   /* real lines: see shmt__fft_block */
} shmt__fft_pass;

#endif
