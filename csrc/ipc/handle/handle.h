/* ipc/handle/handle.h -- the layout of a handle, which travels in a message in place of a storage's bytes. */
#ifndef SHMT_IPC_HANDLE_HANDLE_H
#define SHMT_IPC_HANDLE_HANDLE_H

#include "base/error.h"

#define SHMT_HANDLE_MAGIC UINT32_C(0x31485453) /* "STH1" */

enum { SHMT_HANDLE_NO_BLOCK = -1 }; /* block of a storage of no bytes, as uint32_t */

typedef struct shmt__handle {
  uint32_t magic;
  uint32_t check; /* of the fields below, keyed by the session's secret */
  uint64_t session, incarnation;
  uint64_t generation; /* of the block when the handle was made, so that a later use of the block does not match */
  uint64_t nbytes;
  uint64_t lease_id; /* of the message's lease on the block (shm/lease.h); 0: none */
  uint32_t block;
  uint32_t lease_slot;
} shmt__handle;
_Static_assert(sizeof(shmt__handle) == 56, "handles travel as bytes");

static inline uint64_t shmt__checksum_step(uint64_t h, uint64_t word) {
  h = (h ^ word) * UINT64_C(0xFF51AFD7ED558CCD);
  return h ^ h >> 32;
}

/* A keyed checksum. It detects accidents and blind forgery, but no attacker who can read the session's memory. Each
 * step waits for the one before, so long inputs are divided among four independent sums. */
static inline uint32_t shmt__handle_checksum(uint64_t secret, const void* p, size_t nbytes) {
  enum { SUMS = 4, LONG_BYTES = 128 };
  uint64_t h = secret ^ (nbytes * UINT64_C(0x9E3779B97F4A7C15));
  const unsigned char* at = p;
  if (nbytes >= LONG_BYTES) {
    uint64_t sums[SUMS] = {h, h + 1, h + 2, h + 3};
    for (; nbytes >= 8 * SUMS; nbytes -= 8 * SUMS, at += 8 * SUMS) {
      uint64_t words[SUMS];
      __builtin_memcpy(words, at, sizeof words);
      for (int i = 0; i < SUMS; i++) sums[i] = shmt__checksum_step(sums[i], words[i]);
    }
    for (int i = 0; i < SUMS; i++) h = shmt__checksum_step(h, sums[i]);
  }
  while (nbytes > 0) {
    uint64_t word = 0;
    size_t n = nbytes < 8 ? nbytes : 8;
    __builtin_memcpy(&word, at, n);
    h = shmt__checksum_step(h, word);
    at += n;
    nbytes -= n;
  }
  h *= UINT64_C(0xC4CEB9FE1A85EC53);
  return (uint32_t)(h ^ h >> 32);
}
/* What `check` of a handle must be. */
static inline uint32_t shmt__handle_check_of(uint64_t secret, const shmt__handle* h) {
  return shmt__handle_checksum(secret, &h->session, sizeof *h - offsetof(shmt__handle, session));
}

#endif
