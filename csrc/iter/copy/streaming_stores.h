/* iter/copy/streaming_stores.h -- streaming (non-temporal) stores for results that are larger than the caches.
 *
 * Writing a cache line without reading it first saves a third of the memory traffic, but only if the whole line is
 * written at once: a line that two rows share would be written to memory twice. So results are staged in a small
 * buffer, which is streamed at line ends; rows that follow each other in memory share it.
 *
 *   shmt__stage s;
 *   shmt__stage_init(&s);
 *   while (n > 0) {
 *     void* at = shmt__stage_reserve(&s, to, item, &room);  // put up to `room` bytes there
 *     shmt__stage_commit(&s, nbytes);
 *     to += nbytes, ...
 *   }
 *   shmt__stage_end(&s);
 *
 * A stage belongs to one thread; between init and end nobody else may write to the same lines.
 */
#ifndef SHMT_ITER_COPY_STREAMING_STORES_H
#define SHMT_ITER_COPY_STREAMING_STORES_H

#include <stddef.h>
#include <stdint.h>

enum {
  SHMT_STREAM_BYTES = 16 << 20, /* results of at least this size are streamed */
  SHMT_STREAM_RUN_BYTES = 256,  /* unless their rows are shorter than this */
  SHMT_STAGE_BYTES = 1 << 10,   /* of the buffer: reads and writes overlap best when it is small */
  SHMT_STAGE_LINE = 64,
};

typedef struct shmt__stage {
  char* line; /* the address of the first byte of block: the begin of a cache line */
  char* next; /* the address of the byte at `end`; NULL: block is still empty */
  int64_t begin, end;
  _Alignas(SHMT_STAGE_LINE) char block[SHMT_STAGE_BYTES];
} shmt__stage;

/* Copy nbytes to dst with streaming stores. Where ranges overlap, the result is some mixture of old and new bytes.
 * Other threads see it like any other store only after _end. */
void shmt__move_streamed(char* dst, const char* src, int64_t nbytes);
void shmt__move_streamed_end(void);

static inline void shmt__stage_init(shmt__stage* s) {
  s->line = s->next = NULL;
  s->begin = s->end = 0;
}

static inline void shmt__stage_flush(shmt__stage* s) {
  if (s->end == s->begin) return;
  shmt__move_streamed(s->line + s->begin, s->block + s->begin, s->end - s->begin);
  s->line += s->end;
  s->begin = s->end = 0;
}

/* Where to put the bytes for `to`: *room bytes, at least one item (at most 16 bytes). Then call _commit. */
static inline char* shmt__stage_reserve(shmt__stage* s, char* to, int64_t item, int64_t* room) {
  if (to != s->next) {
    shmt__stage_flush(s);
    s->begin = s->end = (int64_t)((uintptr_t)to % SHMT_STAGE_LINE);
    s->line = to - s->end;
    s->next = to;
  } else if (SHMT_STAGE_BYTES - s->end < item) {
    shmt__stage_flush(s);
  }
  *room = SHMT_STAGE_BYTES - s->end;
  return s->block + s->end;
}

static inline void shmt__stage_commit(shmt__stage* s, int64_t nbytes) {
  s->end += nbytes;
  s->next += nbytes;
}

/* Copy bytes, or write zeros when from is NULL. */
void shmt__stage_copy(shmt__stage* s, char* to, const char* from, int64_t nbytes);

static inline void shmt__stage_end(shmt__stage* s) {
  shmt__stage_flush(s);
  shmt__move_streamed_end();
}

#endif
