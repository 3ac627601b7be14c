/* iter/copy/streaming_stores.c -- streaming (non-temporal) stores. */
#include "iter/copy/streaming_stores.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

void shmt__move_streamed(char* dst, const char* src, int64_t nbytes) {
#if defined(__SSE2__)
  const int64_t head = -(int64_t)(uintptr_t)dst & (SHMT_STAGE_LINE - 1);

  if (nbytes >= head + SHMT_STAGE_LINE) {
    memmove(dst, src, (size_t)head); /* up to the begin of a cache line: only whole lines are streamed */
    dst += head;
    src += head;
    nbytes -= head;
    for (; nbytes >= SHMT_STAGE_LINE; nbytes -= SHMT_STAGE_LINE, dst += SHMT_STAGE_LINE, src += SHMT_STAGE_LINE) {
      const __m128i* from = (const __m128i*)(const void*)src;
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

void shmt__stage_copy(shmt__stage* s, char* to, const char* from, int64_t nbytes) {
  enum { LINE = SHMT_STAGE_LINE };

  for (int64_t n, room; nbytes > 0; nbytes -= n, to += n) {
    char* const at = shmt__stage_reserve(s, to, 1, &room);
    const int64_t begun = s->end % LINE;
    if (from && begun == 0 && nbytes >= 4 * LINE) { /* whole lines need no stage */
      shmt__stage_flush(s);
      n = nbytes / LINE * LINE;
      shmt__move_streamed(to, from, n);
      s->line += n;
      s->next += n;
      from += n;
      continue;
    }
    if (from && room > LINE - begun) room = LINE - begun;
    n = nbytes < room ? nbytes : room;
    if (from) {
      memcpy(at, from, (size_t)n);
      from += n;
    } else {
      memset(at, 0, (size_t)n);
    }
    shmt__stage_commit(s, n);
  }
}
