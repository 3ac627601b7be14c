/* ipc/group/group.h -- the memory of a group of ranks: its layout.
 *
 * A group is a fixed number of processes that do collectives together. Its memory is one sealed memory file, which
 * rank 0 makes and hands to the others; it belongs to no session and needs no manager. The kernel frees it with the
 * last process.
 *
 * Note [Steps]
 * A collective is a series of steps, which all ranks number alike. Each rank has SHMT_GROUP_N_SLOTS slots of memory;
 * step t uses slot t modulo that. In a step a rank
 *   1. waits until all ranks have READ the step that used the slot before,
 *   2. fills its slot and counts the step as FILLED,
 *   3. waits for the ranks whose slots it needs, and reads them; a reduction in two phases writes its part of the
 *      result into its own slot, counts it as REDUCED, waits for the others, and reads their parts,
 *   4. counts the step as READ.
 * Only the owner of a counter writes it. A rank may fill the slots of later steps before the others have read this one;
 * this is what lets copies of one chunk go beside the reduction of another.
 *
 * Note [Group liveness]
 * Every rank locks a byte behind the end of the file, on a description of its own. The kernel drops the lock when the
 * process ends, however that happens, and in whatever pid namespace it is. A child of fork() closes its copy of the
 * descriptor at once. Who waits looks at the locks of all ranks at the end of each slice; who finds one that is free
 * writes the rank into the header, so that all others see it at once. A rank that closes the group marks that before
 * it drops its lock. A program that closes its rank's descriptor has left the group in the same way, as the others see
 * no lock. Counters are read again after a lock was found free: what a rank has counted before it ended is
 * valid.
 *
 * Every rank can write everywhere in the file. What it writes there cannot make another process use addresses outside
 * of the mapping: sizes are read once, when the group is opened, and numbers from the file are bounded before use.
 */
#ifndef SHMT_IPC_GROUP_GROUP_H
#define SHMT_IPC_GROUP_GROUP_H

#include "api/group.h"
#include "base/error.h"
#include "os/descriptor.h"

#include <stdatomic.h>

/* A counter in a cache line of its own. `sleepers` may be too high when a sleeper was killed; then a post makes a
 * system call for nothing. */
typedef struct shmt__group_counter {
  atomic_uint_least32_t value, sleepers;
  uint32_t pad[14];
} shmt__group_counter;
_Static_assert(sizeof(shmt__group_counter) == 64, "a counter is a cache line");

enum { SHMT_GROUP_UNBORN, SHMT_GROUP_ALIVE, SHMT_GROUP_GONE };

typedef struct shmt__group_rank {
  shmt__group_counter counters[SHMT_GROUP_N_COUNTERS];
  atomic_uint_least32_t state;
  uint32_t pad[7];
  atomic_uint_least64_t what[SHMT_GROUP_N_SLOTS]; /* each slot's step is; see shmt_group_post */
} shmt__group_rank;
_Static_assert(sizeof(shmt__group_rank) == 256, "a rank is four cache lines");

enum {
  SHMT_GROUP_PIECES = 4,           /* of a channel */
  SHMT_GROUP_PIECE_BYTES = 65512,  /* with its head 64 KiB */
};

/* A piece of a message. */
typedef struct shmt__group_piece {
  uint64_t nbytes; /* of the whole message */
  int64_t tag;
  uint64_t what; /* its elements */
  unsigned char bytes[SHMT_GROUP_PIECE_BYTES];
} shmt__group_piece;
_Static_assert(sizeof(shmt__group_piece) == 65536, "a piece is whole pages");

/* From one rank to another: a ring of pieces. */
typedef struct shmt__group_channel {
  shmt__group_counter sent, received; /* pieces */
} shmt__group_channel;

typedef struct shmt__group_header {
  uint64_t magic;
  uint32_t version, n_ranks;
  uint64_t slot_bytes;
  atomic_uint_least64_t broken; /* 0: no; else other rank << 32 | rank << 8 | reason */
  atomic_uint_least32_t disagreed_step; /* written before */
  uint32_t pad[7];
} shmt__group_header;
_Static_assert(sizeof(shmt__group_header) == 64, "header");

/* Offsets of the parts. */
typedef struct shmt__group_layout {
  uint64_t ranks, channels, slots, pieces, end;
} shmt__group_layout;

struct shmt_group {
  uint32_t n_ranks, rank;
  uint64_t slot_bytes;
  shmt__group_layout layout;
  char* base;
  shmt__descriptor file;    /* our description, which has the lock; none: a child of fork() */
  bool may_spin;            /* every rank may have a processor of its own */
  atomic_int spin_credit;   /* grows while short waits pay */
  uint64_t reserved;        /* bytes of each of our slots that have pages */
  uint8_t* channel_has_pages; /* by receiver */
  struct shmt_group *next, *previous; /* in the list of this process's groups */
};

static inline shmt__group_header* shmt__group_head(const shmt_group* g) {
  return (shmt__group_header*)g->base;
}
static inline shmt__group_rank* shmt__group_rank_at(const shmt_group* g, uint32_t rank) {
  return (shmt__group_rank*)(g->base + g->layout.ranks) + rank;
}
static inline shmt__group_channel* shmt__group_channel_at(const shmt_group* g, uint32_t from,
                                                          uint32_t to) {
  return (shmt__group_channel*)(g->base + g->layout.channels) + (uint64_t)from * g->n_ranks + to;
}
static inline uint64_t shmt__group_pieces_offset(const shmt_group* g, uint32_t from, uint32_t to) {
  return g->layout.pieces + ((uint64_t)from * g->n_ranks + to) * SHMT_GROUP_PIECES *
                                sizeof(shmt__group_piece);
}

/* Rank r locks the byte r behind this one, which is far behind the end of the file. */
static const uint64_t SHMT_GROUP_LOCKS = UINT64_C(1) << 40;

/* Wait until a counter of the rank `owner` is value or beyond, at most until deadline_ns (0: look only). Returns
 * SHMT_GROUP_*. */
int shmt__group_await(shmt_group* g, shmt__group_counter* c, uint32_t owner, uint32_t value,
                      uint64_t deadline_ns);
/* The end of a slice that begins now. */
uint64_t shmt__group_slice(void);
/* Set a counter, and wake who waits for it. */
void shmt__group_count(shmt__group_counter* c, uint32_t value);
/* Is the counter value or beyond? Counters wrap around. */
static inline bool shmt__group_reached(const shmt__group_counter* c, uint32_t value) {
  /* acquire: what the owner wrote before it counted is there. */
  return (int32_t)(atomic_load_explicit(&c->value, memory_order_acquire) - value) >= 0;
}

#endif
