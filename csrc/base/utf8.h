/* base/utf8.h -- where a text in UTF-8 may be cut.
 *
 * Note [Cut texts]
 * A text that is cut to fit a field ends, and begins, with a whole character, so that whoever reads it can decode it.
 * Readers replace what they cannot decode all the same: the field may be in memory that others write.
 */
#ifndef SHMT_BASE_UTF8_H
#define SHMT_BASE_UTF8_H

#include <stddef.h>

static inline int shmt__utf8_continues(char c) { return ((unsigned char)c & 0xC0u) == 0x80u; }

/* How many of the first n bytes of a text are whole characters: n, or up to 3 less. */
static inline size_t shmt__utf8_whole(const char* text, size_t n) {
  size_t lead = n;
  while (lead > 0 && n - lead < 3 && shmt__utf8_continues(text[lead - 1])) lead--;
  if (lead == 0) return n;
  unsigned char first = (unsigned char)text[--lead];
  size_t need = first < 0xC0u ? 1 : first < 0xE0u ? 2 : first < 0xF0u ? 3 : 4;
  return n - lead < need ? lead : n;
}

/* The first whole character of a text whose beginning was cut off. */
static inline const char* shmt__utf8_first_whole(const char* text) {
  while (shmt__utf8_continues(*text)) text++;
  return text;
}

#endif
