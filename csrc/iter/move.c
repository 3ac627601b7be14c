/* iter/move.c -- loops that move elements without looking at them, by element size. */
#include "iter/move.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef struct pair {
  uint64_t lo, hi;
} pair;

enum { TILE = 16 };

/* A TILE x TILE square, one element after the other. */
#define PLAIN_SQUARE(TYPE)                                                         \
  static void square_##TYPE(char* to, int64_t dr, const char* from, int64_t sr) {  \
    TYPE tile[TILE][TILE];                                                         \
    for (int j = 0; j < TILE; j++) memcpy(tile[j], from + j * sr, sizeof tile[j]); \
    for (int i = 0; i < TILE; i++) {                                               \
      TYPE line[TILE];                                                             \
      for (int j = 0; j < TILE; j++) line[j] = tile[j][i];                         \
      memcpy(to + i * dr, line, sizeof line);                                      \
    }                                                                              \
  }
PLAIN_SQUARE(uint8_t)
PLAIN_SQUARE(uint16_t)
PLAIN_SQUARE(pair)

/* The same by shuffling vectors of 16 bytes: four by four, or two by two. */
typedef uint32_t four __attribute__((vector_size(16)));
typedef uint64_t two __attribute__((vector_size(16)));

static void square_uint32_t(char* to, int64_t dr, const char* from, int64_t sr) {
  for (int i = 0; i < TILE; i += 4)
    for (int j = 0; j < TILE; j += 4) {
      four row[4];
      for (int k = 0; k < 4; k++) memcpy(&row[k], from + (j + k) * sr + i * 4, sizeof row[k]);
      const four a = __builtin_shuffle(row[0], row[1], (four){0, 4, 1, 5}),
                 b = __builtin_shuffle(row[0], row[1], (four){2, 6, 3, 7});
      const four c = __builtin_shuffle(row[2], row[3], (four){0, 4, 1, 5}),
                 d = __builtin_shuffle(row[2], row[3], (four){2, 6, 3, 7});
      const four out[4] = {
          __builtin_shuffle(a, c, (four){0, 1, 4, 5}), __builtin_shuffle(a, c, (four){2, 3, 6, 7}),
          __builtin_shuffle(b, d, (four){0, 1, 4, 5}), __builtin_shuffle(b, d, (four){2, 3, 6, 7})};
      for (int k = 0; k < 4; k++) memcpy(to + (i + k) * dr + j * 4, &out[k], sizeof out[k]);
    }
}

static void square_uint64_t(char* to, int64_t dr, const char* from, int64_t sr) {
  for (int i = 0; i < TILE; i += 2)
    for (int j = 0; j < TILE; j += 2) {
      two a, b;
      memcpy(&a, from + j * sr + i * 8, sizeof a);
      memcpy(&b, from + (j + 1) * sr + i * 8, sizeof b);
      const two low = __builtin_shuffle(a, b, (two){0, 2}),
                high = __builtin_shuffle(a, b, (two){1, 3});
      memcpy(to + i * dr + j * 8, &low, sizeof low);
      memcpy(to + (i + 1) * dr + j * 8, &high, sizeof high);
    }
}

#define MOVE(TYPE)                                                                               \
  static void move_##TYPE(char* dst, int64_t ds, const char* src, int64_t ss, int64_t n) {       \
    if (ds == (int64_t)sizeof(TYPE)) {                                                           \
      for (int64_t i = 0; i < n; i++)                                                            \
        memcpy(dst + i * (int64_t)sizeof(TYPE), src + i * ss, sizeof(TYPE));                     \
    } else {                                                                                     \
      for (int64_t i = 0; i < n; i++) memcpy(dst + i * ds, src + i * ss, sizeof(TYPE));          \
    }                                                                                            \
  }                                                                                              \
  /* In squares of TILE, so that each line of cache of either side is used whole. */             \
  static void transpose_##TYPE(char* dst, int64_t dr, const char* src, int64_t sr, int64_t rows, \
                               int64_t columns) {                                                \
    for (int64_t i0 = 0; i0 < rows; i0 += TILE) {                                                \
      const int64_t height = rows - i0 < TILE ? rows - i0 : TILE;                                \
      for (int64_t j0 = 0; j0 < columns; j0 += TILE) {                                           \
        const int64_t width = columns - j0 < TILE ? columns - j0 : TILE;                         \
        const char* from = src + j0 * sr + i0 * (int64_t)sizeof(TYPE);                           \
        char* to = dst + i0 * dr + j0 * (int64_t)sizeof(TYPE);                                   \
        if (height == TILE && width == TILE) {                                                   \
          square_##TYPE(to, dr, from, sr);                                                       \
        } else {                                                                                 \
          for (int64_t i = 0; i < height; i++)                                                   \
            for (int64_t j = 0; j < width; j++)                                                  \
              memcpy(to + i * dr + j * (int64_t)sizeof(TYPE),                                    \
                     from + j * sr + i * (int64_t)sizeof(TYPE), sizeof(TYPE));                   \
        }                                                                                        \
      }                                                                                          \
    }                                                                                            \
  }                                                                                              \
  static void fill_##TYPE(char* dst, int64_t ds, const char* value, int64_t n) {                 \
    TYPE v;                                                                                      \
    memcpy(&v, value, sizeof v);                                                                 \
    if (ds == (int64_t)sizeof(TYPE)) {                                                           \
      for (int64_t i = 0; i < n; i++) memcpy(dst + i * (int64_t)sizeof(TYPE), &v, sizeof v);     \
    } else {                                                                                     \
      for (int64_t i = 0; i < n; i++) memcpy(dst + i * ds, &v, sizeof v);                        \
    }                                                                                            \
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

void shmt__move_transposed(char* dst, int64_t dst_row, const char* src, int64_t src_row,
                           int64_t rows, int64_t columns, int64_t item) {
#define CALL(TYPE) transpose_##TYPE(dst, dst_row, src, src_row, rows, columns)
  BY_SIZE(CALL)
#undef CALL
}

void shmt__move_streamed(char* dst, const char* src, int64_t nbytes) {
#if defined(__SSE2__)
  enum { LINE = 64 };
  const int64_t head = -(int64_t)(uintptr_t)dst & (LINE - 1);

  if (nbytes >= 4 * LINE) {
    memmove(dst, src, (size_t)head); /* up to a line's begin: only whole lines are streamed */
    dst += head;
    src += head;
    nbytes -= head;
    for (; nbytes >= LINE; nbytes -= LINE, dst += LINE, src += LINE) {
      const __m128i *from = (const __m128i*)(const void*)src;
      __m128i* to = (__m128i*)(void*)dst;
      const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2),
                    d = _mm_loadu_si128(from + 3);
      _mm_stream_si128(to, a);
      _mm_stream_si128(to + 1, b);
      _mm_stream_si128(to + 2, c);
      _mm_stream_si128(to + 3, d);
    }
  }
#endif
  memmove(dst, src, (size_t)nbytes);
}

void shmt__move_streamed_end(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/* n elements without gaps: a few, doubled until they fill a block, which is copied to the end. */
static void fill_lines(char* dst, const char* value, int64_t n, int64_t item) {
  enum { BLOCK = 4096 };
  const int64_t nbytes = n * item;
  int64_t done = item;

  memcpy(dst, value, (size_t)item);
  while (done < nbytes) {
    const int64_t from = done < BLOCK ? done : BLOCK, more = nbytes - done < from ? nbytes - done : from;
    memcpy(dst + done, dst, (size_t)more);
    done += more;
  }
}

void shmt__move_fill(char* dst, int64_t dst_stride, const char* value, int64_t n, int64_t item) {
  static const char zero[16];

  if (dst_stride == item && memcmp(value, zero, (size_t)item) == 0) {
    memset(dst, 0, (size_t)(n * item));
    return;
  }
  if (dst_stride == item && n * item >= 256) {
    fill_lines(dst, value, n, item);
    return;
  }
#define CALL(TYPE) fill_##TYPE(dst, dst_stride, value, n)
  BY_SIZE(CALL)
#undef CALL
}
