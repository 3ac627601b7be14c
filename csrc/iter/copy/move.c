/* iter/copy/move.c -- loops that move elements of any dtype, by element size. */
#include "iter/copy/move.h"

#include "iter/copy/streaming_stores.h"

#include <string.h>

typedef struct pair {
  uint64_t lo, hi;
} pair;

/* Transposed tiles. Row j of the source is at from + columns[j], and row i of the result at to + rows[i]; element i
 * of the former is element j of the latter. */

/* A tile of any size, one element after the other. */
#define EACH(TYPE)                                                                                                     \
  static void squares_##TYPE##_1(char* to, const int64_t* rows, const char* from, const int64_t* columns, int64_t n,   \
                                 int64_t many) {                                                                       \
    for (int64_t i = 0; i < n; i++)                                                                                    \
      for (int64_t j = 0; j < many; j++)                                                                               \
        memcpy(to + rows[i] + j * (int64_t)sizeof(TYPE), from + columns[j] + i * (int64_t)sizeof(TYPE), sizeof(TYPE)); \
  }
EACH(uint8_t)
EACH(uint16_t)
EACH(uint32_t)
EACH(uint64_t)
EACH(pair)

/* Tiles of SIDE x SIDE elements: vectors i and i + SIDE / 2 are interleaved, as often as SIDE can be halved. LOW and
 * HIGH interleave the first and the second halves of two vectors. The remainder at two edges is done with tiles of
 * REST. */
#define BY_SHUFFLES(TYPE, SIDE, REST, LOW, HIGH)                                                                     \
  typedef TYPE line_##TYPE##_##SIDE __attribute__((vector_size(SIDE * sizeof(TYPE))));                               \
  static void squares_##TYPE##_##SIDE(char* to, const int64_t* rows, const char* from, const int64_t* columns,       \
                                      int64_t n, int64_t many) {                                                     \
    typedef line_##TYPE##_##SIDE line;                                                                               \
    const int64_t height = n / SIDE * SIDE, width = many / SIDE * SIDE, item = sizeof(TYPE);                         \
    for (int64_t i = 0; i < height; i += SIDE)                                                                       \
      for (int64_t j = 0; j < width; j += SIDE) {                                                                    \
        line a[SIDE], b[SIDE];                                                                                       \
        for (int k = 0; k < SIDE; k++) memcpy(&a[k], from + columns[j + k] + i * item, sizeof a[k]);                 \
        _Pragma("GCC unroll 4") for (int half = 1; half < SIDE; half *= 2) {                                         \
          _Pragma("GCC unroll 16") for (int k = 0; k < SIDE / 2; k++) {                                              \
            b[2 * k] = __builtin_shuffle(a[k], a[k + SIDE / 2], (line)LOW);                                          \
            b[2 * k + 1] = __builtin_shuffle(a[k], a[k + SIDE / 2], (line)HIGH);                                     \
          }                                                                                                          \
          _Pragma("GCC unroll 16") for (int k = 0; k < SIDE; k++) a[k] = b[k];                                       \
        }                                                                                                            \
        for (int k = 0; k < SIDE; k++) memcpy(to + rows[i + k] + j * item, &a[k], sizeof a[k]);                      \
      }                                                                                                              \
    if (height < n) squares_##TYPE##_##REST(to, rows + height, from + height * item, columns, n - height, many);     \
    if (width < many) squares_##TYPE##_##REST(to + width * item, rows, from, columns + width, height, many - width); \
  }
#define LOW_2 {0, 2}
#define HIGH_2 {1, 3}
#define LOW_4 {0, 4, 1, 5}
#define HIGH_4 {2, 6, 3, 7}
#define LOW_8 {0, 8, 1, 9, 2, 10, 3, 11}
#define HIGH_8 {4, 12, 5, 13, 6, 14, 7, 15}
#define LOW_16 {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}
#define HIGH_16 {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}
BY_SHUFFLES(uint64_t, 2, 1, LOW_2, HIGH_2)
BY_SHUFFLES(uint32_t, 4, 1, LOW_4, HIGH_4)
BY_SHUFFLES(uint16_t, 4, 1, LOW_4, HIGH_4)
BY_SHUFFLES(uint16_t, 8, 4, LOW_8, HIGH_8)
BY_SHUFFLES(uint8_t, 8, 1, LOW_8, HIGH_8)
BY_SHUFFLES(uint8_t, 16, 8, LOW_16, HIGH_16)

/* Elements of a and b, alternating. */
#define INTERLEAVE(TYPE, SIDE, LOW, HIGH)                                                    \
  static void interleave_##TYPE(char* to, const char* a, const char* b, int64_t n) {         \
    enum { ITEM = sizeof(TYPE), LINE = SIDE * ITEM };                                        \
    int64_t i = 0;                                                                           \
    for (; i + SIDE <= n; i += SIDE) {                                                       \
      line_##TYPE##_##SIDE x, y;                                                             \
      memcpy(&x, a + i * ITEM, LINE);                                                        \
      memcpy(&y, b + i * ITEM, LINE);                                                        \
      const line_##TYPE##_##SIDE low = __builtin_shuffle(x, y, (line_##TYPE##_##SIDE)LOW),   \
                                 high = __builtin_shuffle(x, y, (line_##TYPE##_##SIDE)HIGH); \
      memcpy(to + 2 * i * ITEM, &low, LINE);                                                 \
      memcpy(to + 2 * i * ITEM + LINE, &high, LINE);                                         \
    }                                                                                        \
    for (; i < n; i++) {                                                                     \
      memcpy(to + 2 * i * ITEM, a + i * ITEM, ITEM);                                         \
      memcpy(to + 2 * i * ITEM + ITEM, b + i * ITEM, ITEM);                                  \
    }                                                                                        \
  }
INTERLEAVE(uint64_t, 2, LOW_2, HIGH_2)
INTERLEAVE(uint32_t, 4, LOW_4, HIGH_4)
INTERLEAVE(uint16_t, 8, LOW_8, HIGH_8)
INTERLEAVE(uint8_t, 16, LOW_16, HIGH_16)

#define MOVE(TYPE)                                                                                         \
  static inline void move_##TYPE(char* dst, int64_t ds, const char* src, int64_t ss, int64_t n) {          \
    if (ds == (int64_t)sizeof(TYPE)) {                                                                     \
      for (int64_t i = 0; i < n; i++)                                                                      \
        memcpy(dst + i * (int64_t)sizeof(TYPE), src + i * ss, sizeof(TYPE));                               \
    } else {                                                                                               \
      for (int64_t i = 0; i < n; i++) memcpy(dst + i * ds, src + i * ss, sizeof(TYPE));                    \
    }                                                                                                      \
  }                                                                                                        \
  static void plane_##TYPE(char* dst, const int64_t* ds, const char* src, const int64_t* ss, int64_t rows, \
                           int64_t n) {                                                                    \
    for (int64_t i = 0; i < rows; i++) move_##TYPE(dst + i * ds[1], ds[0], src + i * ss[1], ss[0], n);     \
  }                                                                                                        \
  static void fill_##TYPE(char* dst, int64_t ds, const char* value, int64_t n) {                           \
    TYPE v;                                                                                                \
    memcpy(&v, value, sizeof v);                                                                           \
    if (ds == (int64_t)sizeof(TYPE)) {                                                                     \
      for (int64_t i = 0; i < n; i++) memcpy(dst + i * (int64_t)sizeof(TYPE), &v, sizeof v);               \
    } else {                                                                                               \
      for (int64_t i = 0; i < n; i++) memcpy(dst + i * ds, &v, sizeof v);                                  \
    }                                                                                                      \
  }

MOVE(uint8_t)
MOVE(uint16_t)
MOVE(uint32_t)
MOVE(uint64_t)
MOVE(pair)

#define BY_SIZE(call) \
  switch (item) {     \
    case 1:           \
      call(uint8_t);  \
      break;          \
    case 2:           \
      call(uint16_t); \
      break;          \
    case 4:           \
      call(uint32_t); \
      break;          \
    case 8:           \
      call(uint64_t); \
      break;          \
    default:          \
      call(pair);     \
      break;          \
  }

void shmt__move_elements(char* dst, int64_t dst_stride, const char* src, int64_t src_stride,
                         int64_t n, int64_t item) {
  if (dst_stride == item && src_stride == item) {
    if (dst != src) memmove(dst, src, (size_t)(n * item));
    return;
  }
#define CALL(TYPE) move_##TYPE(dst, dst_stride, src, src_stride, n)
  BY_SIZE(CALL)
#undef CALL
}

void shmt__move_run(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  shmt__move_elements(data[0], strides[0], data[1], strides[1], n, *(const int64_t*)ctx);
}

void shmt__move_plane(char* dst, const int64_t* dst_strides, const char* src, const int64_t* src_strides, int64_t rows,
                      int64_t n, int64_t item) {
#define CALL(TYPE) plane_##TYPE(dst, dst_strides, src, src_strides, rows, n)
  BY_SIZE(CALL)
#undef CALL
}

void shmt__transpose_tile(char* dst, const int64_t* rows, const char* src, const int64_t* columns, int64_t n_rows,
                       int64_t n_columns, int64_t item) {
  switch (item) {
    case 1:
      squares_uint8_t_16(dst, rows, src, columns, n_rows, n_columns);
      break;
    case 2:
      squares_uint16_t_8(dst, rows, src, columns, n_rows, n_columns);
      break;
    case 4:
      squares_uint32_t_4(dst, rows, src, columns, n_rows, n_columns);
      break;
    case 8:
      squares_uint64_t_2(dst, rows, src, columns, n_rows, n_columns);
      break;
    default:
      squares_pair_1(dst, rows, src, columns, n_rows, n_columns);
      break;
  }
}

void shmt__interleave(char* dst, const char* a, const char* b, int64_t n, int64_t item) {
  switch (item) {
    case 1:
      interleave_uint8_t(dst, a, b, n);
      break;
    case 2:
      interleave_uint16_t(dst, a, b, n);
      break;
    case 4:
      interleave_uint32_t(dst, a, b, n);
      break;
    default:
      interleave_uint64_t(dst, a, b, n);
      break;
  }
}

/* In tiles of TILE x TILE elements, so that every cache line of either side is used whole. */
void shmt__move_transposed(char* dst, int64_t dst_row, const char* src, int64_t src_row,
                           int64_t rows, int64_t columns, int64_t item) {
  enum { TILE = 16 };
  int64_t to[TILE], from[TILE];

  for (int i = 0; i < TILE; i++) {
    to[i] = i * dst_row;
    from[i] = i * src_row;
  }
  for (int64_t i = 0; i < rows; i += TILE)
    for (int64_t j = 0; j < columns; j += TILE)
      shmt__transpose_tile(dst + i * dst_row + j * item, to, src + j * src_row + i * item, from,
                        rows - i < TILE ? rows - i : TILE, columns - j < TILE ? columns - j : TILE, item);
}

/* The two ends of a row, which may overlap. */
#define ENDS(TYPE)                                                        \
  for (int64_t i = 0; i < n; i++, dst += dst_stride, src += src_stride) { \
    TYPE a, b;                                                            \
    memcpy(&a, src, sizeof a);                                            \
    memcpy(&b, src + nbytes - sizeof b, sizeof b);                        \
    memcpy(dst, &a, sizeof a);                                            \
    memcpy(dst + nbytes - sizeof b, &b, sizeof b);                        \
  }

void shmt__move_rows(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n, int64_t nbytes) {
  if (nbytes > 16) {
    const int64_t last = nbytes - (int64_t)sizeof(pair);
    for (int64_t i = 0; i < n; i++, dst += dst_stride, src += src_stride) {
      for (int64_t at = 0; at < last; at += (int64_t)sizeof(pair)) memcpy(dst + at, src + at, sizeof(pair));
      memcpy(dst + last, src + last, sizeof(pair));
    }
  } else if (nbytes >= 8) {
    ENDS(uint64_t)
  } else if (nbytes >= 4) {
    ENDS(uint32_t)
  } else if (nbytes >= 2) {
    ENDS(uint16_t)
  } else {
    ENDS(uint8_t)
  }
}

/* n dense elements: a few are doubled until they fill a block, and the block is copied to the end. */
static void fill_streamed(char* dst, const char* value, int64_t n, int64_t item, bool streamed) {
  enum { BLOCK_BYTES = 4096 };
  const int64_t nbytes = n * item;
  int64_t done = item;

  memcpy(dst, value, (size_t)item);
  while (done < nbytes) {
    const int64_t from = done < BLOCK_BYTES ? done : BLOCK_BYTES, more = nbytes - done < from ? nbytes - done : from;
    if (streamed && more == BLOCK_BYTES)
      shmt__move_streamed(dst + done, dst, more);
    else
      memcpy(dst + done, dst, (size_t)more);
    done += more;
  }
  if (streamed) shmt__move_streamed_end();
}

void shmt__move_fill(char* dst, int64_t dst_stride, const char* value, int64_t n, int64_t item, bool streamed) {
  static const char zero[16];

  if (dst_stride == item && !streamed && memcmp(value, zero, (size_t)item) == 0) {
    memset(dst, 0, (size_t)(n * item));
    return;
  }
  if (dst_stride == item && n * item >= 256) {
    fill_streamed(dst, value, n, item, streamed);
    return;
  }
#define CALL(TYPE) fill_##TYPE(dst, dst_stride, value, n)
  BY_SIZE(CALL)
#undef CALL
}
