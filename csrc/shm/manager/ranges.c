/* shm/manager/ranges.c -- a list of free ranges; first fit, neighbours are merged. */
#include "shm/manager/ranges.h"

#include <stdlib.h>
#include <string.h>

static bool reserve(shmt__ranges* r) {
  if (r->len < r->cap) return true;
  uint32_t cap = r->cap ? r->cap * 2 : 16;
  shmt__range* at = realloc(r->at, sizeof *at * cap);
  if (at == NULL) return false;
  r->at = at;
  r->cap = cap;
  return true;
}

static void insert(shmt__ranges* r, uint32_t i, shmt__range range) {
  memmove(&r->at[i + 1], &r->at[i], sizeof *r->at * (r->len - i));
  r->at[i] = range;
  r->len++;
}

static void erase(shmt__ranges* r, uint32_t i) {
  memmove(&r->at[i], &r->at[i + 1], sizeof *r->at * (r->len - i - 1));
  r->len--;
}

bool shmt__ranges_init(shmt__ranges* r, uint64_t end) {
  *r = (shmt__ranges){0};
  if (!reserve(r)) return false;
  r->at[r->len++] = (shmt__range){0, end};
  return true;
}

void shmt__ranges_fini(shmt__ranges* r) {
  free(r->at);
  *r = (shmt__ranges){0};
}

bool shmt__ranges_take(shmt__ranges* r, uint64_t n, uint64_t* out_begin) {
  for (uint32_t i = 0; i < r->len; i++) {
    if (r->at[i].end - r->at[i].begin < n) continue;
    *out_begin = r->at[i].begin;
    r->at[i].begin += n;
    if (r->at[i].begin == r->at[i].end) erase(r, i);
    return true;
  }
  return false;
}

bool shmt__ranges_take_at(shmt__ranges* r, uint64_t begin, uint64_t n) {
  for (uint32_t i = 0; i < r->len; i++) {
    shmt__range old = r->at[i];
    if (begin < old.begin || begin > old.end || n > old.end - begin) continue;
    if (begin > old.begin && begin + n < old.end) {
      if (!reserve(r)) return false;
      r->at[i].end = begin;
      insert(r, i + 1, (shmt__range){begin + n, old.end});
    } else if (begin > old.begin) {
      r->at[i].end = begin;
    } else {
      r->at[i].begin = begin + n;
      if (r->at[i].begin == r->at[i].end) erase(r, i);
    }
    return true;
  }
  return false;
}

void shmt__ranges_give(shmt__ranges* r, uint64_t begin, uint64_t n) {
  uint32_t i = 0;
  while (i < r->len && r->at[i].begin < begin) i++;
  bool joins_left = i > 0 && r->at[i - 1].end == begin;
  bool joins_right = i < r->len && r->at[i].begin == begin + n;
  if (joins_left && joins_right) {
    r->at[i - 1].end = r->at[i].end;
    erase(r, i);
  } else if (joins_left) {
    r->at[i - 1].end += n;
  } else if (joins_right) {
    r->at[i].begin = begin;
  } else if (reserve(r)) {
    insert(r, i, (shmt__range){begin, begin + n});
  }
}
