/* ipc/manager/ring_reader.c -- reads the messages of a ring through the descriptor of the arena. */
#include "ipc/manager/ring_reader.h"

#include "os/memfd.h"

#include <string.h>

void shmt__ring_reader_begin(shmt__ring_reader* r, int fd, uint64_t at, uint32_t capacity) {
  r->fd = fd;
  r->at = at;
  r->capacity = capacity;
  r->n_bytes = 0;
}

/* Read what lies from the offset on. */
static bool refill(shmt__ring_reader* r, uint32_t offset) {
  const uint32_t left = r->capacity - offset;
  const uint32_t n = left < sizeof r->bytes ? left : (uint32_t)sizeof r->bytes;
  const bool is_read = shmt__os_read_at(r->fd, r->bytes, n, r->at + offset);
  r->begin = offset;
  r->n_bytes = is_read ? n : 0;
  return is_read;
}

bool shmt__ring_reader_copy(shmt__ring_reader* r, uint32_t* offset, void* out, size_t nbytes) {
  char* to = out;
  while (nbytes > 0) {
    if ((*offset < r->begin || *offset - r->begin >= r->n_bytes) && !refill(r, *offset)) return false;
    const uint32_t at = *offset - r->begin, there = r->n_bytes - at;
    const uint32_t n = nbytes < there ? (uint32_t)nbytes : there;
    memcpy(to, r->bytes + at, n);
    to += n;
    nbytes -= n;
    *offset = (*offset + n) % r->capacity;
  }
  return true;
}
