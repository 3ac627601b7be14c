/* api/group.h -- the memory in which the ranks of a group of processes work together, for the Python package.
 *
 * Functions that return int return a status (api/status.h). Waiting functions wait for a slice of SHMT_GROUP_SLICE_MS
 * at most; the caller waits in slices, so that it can handle signals.
 */
#ifndef SHMT_API_GROUP_H
#define SHMT_API_GROUP_H

#include <stdint.h>

#include "api/tensor.h"

enum {
  SHMT_GROUP_SLICE_MS = 50,
  SHMT_GROUP_N_SLOTS = 4, /* slots of a rank, and so the number of steps that may be in progress */
  SHMT_GROUP_MAX_RANKS = 256,
};

/* What every rank counts. */
enum {
  SHMT_GROUP_FILLED,  /* steps that it has filled its slot for */
  SHMT_GROUP_REDUCED, /* steps whose part of the result is in its slot */
  SHMT_GROUP_READ,    /* steps that it has read */
  SHMT_GROUP_N_COUNTERS,
};

/* How a wait ended. */
enum {
  SHMT_GROUP_DONE,
  SHMT_GROUP_NOT_YET,  /* the slice is over, or a signal came */
  SHMT_GROUP_BROKEN,   /* shmt_group_broken tells why */
  SHMT_GROUP_MISMATCH, /* an awaited rank does another thing in this step */
};

/* Why a group is broken; 0: it is not. */
enum {
  SHMT_GROUP_DIED = 1, /* a rank's process has ended */
  SHMT_GROUP_LEFT,     /* a rank that is waited for has closed the group */
  SHMT_GROUP_ABORTED,  /* a rank has called abort */
  SHMT_GROUP_FORKED,   /* this process is a child of the one that is in the group */
  SHMT_GROUP_DISAGREED, /* ranks do different things in one step; see shmt_group_disagreement */
};

typedef struct shmt_group shmt_group;

/* Make the memory of a group of n_ranks. slot_bytes: of each slot; a multiple of the page size.
 * Errors: SHMT_E_VALUE, SHMT_E_NOMEM, SHMT_E_OS. Ownership: the caller closes *out_fd. */
int shmt_group_create(uint32_t n_ranks, uint64_t slot_bytes, int* out_fd);
/* Be the rank of the group whose memory fd is. fd is borrowed for the call.
 * Errors: SHMT_E_VALUE (fd is no such memory, or the rank is taken), SHMT_E_NOMEM, SHMT_E_OS.
 * Ownership: *out is the caller's; shmt_group_clear. */
int shmt_group_open(int fd, uint32_t rank, shmt_group** out);
/* Tell the others that this process is going to end in order. */
void shmt_group_leave(shmt_group* g);
/* Unmap the memory of *place and make it NULL. For the others this rank has died, unless it has left before. */
void shmt_group_clear(shmt_group** place);

/* Where a slot of a rank begins, in this process; the group's as long as it is not cleared. */
void* shmt_group_slot(const shmt_group* g, uint32_t rank, uint32_t slot);
uint32_t shmt_group_n_ranks(const shmt_group* g);
uint32_t shmt_group_rank(const shmt_group* g);
uint64_t shmt_group_slot_bytes(const shmt_group* g);
/* Give pages to the first nbytes of every slot of this rank, so that no store there can fail.
 * Errors: SHMT_E_NOMEM. */
int shmt_group_reserve(shmt_group* g, uint64_t nbytes);

/* --- steps --- */

/* Copy nbytes into this rank's slot, or out of the slot of a rank. The caller keeps within the slot. */
void shmt_group_put(shmt_group* g, uint32_t slot, uint64_t offset, const void* bytes,
                    uint64_t nbytes);
void shmt_group_get(const shmt_group* g, uint32_t rank, uint32_t slot, uint64_t offset, void* out,
                    uint64_t nbytes);
/* Count a step, and wake who waits for it. what: a description of what this rank does in the step, which others
 * compare with theirs; 0: none, or it was given before. */
void shmt_group_post(shmt_group* g, uint32_t counter, uint32_t step, uint64_t what);
/* Wait until the rank has counted the step. rank < 0: until all others have. what: if it is not 0, the awaited ranks
 * must have given the same description. Returns SHMT_GROUP_*. */
int shmt_group_wait(shmt_group* g, uint32_t counter, int32_t rank, uint32_t step, uint64_t what);
/* Has the rank counted the step? */
int shmt_group_has_counted(const shmt_group* g, uint32_t counter, uint32_t rank, uint32_t step);
/* The description that the rank has given for a step, as long as that is in progress. */
uint64_t shmt_group_what(const shmt_group* g, uint32_t rank, uint32_t step);

/* --- reductions --- */

/* How elements are combined. */
enum {
  SHMT_GROUP_SUM,
  SHMT_GROUP_PRODUCT,
  SHMT_GROUP_MIN,
  SHMT_GROUP_MAX,
  SHMT_GROUP_BAND,
  SHMT_GROUP_BOR,
  SHMT_GROUP_BXOR,
  SHMT_GROUP_N_OPS,
};

/* How far an all-reduce is. The caller sets op, first_step and what, and zero for the rest. */
typedef struct shmt_group_progress {
  int op;              /* SHMT_GROUP_SUM, ... */
  uint32_t first_step; /* the number of its first step */
  uint64_t what;       /* what all ranks must say that they do */
  uint32_t n_steps;    /* out: how many steps it has */
  uint32_t filled, used, phase, next_rank;
  uint32_t waits_counter, waits_step; /* out: what the last wait was for */
} shmt_group_progress;

/* Replace the elements of t, which is contiguous, by the combination of all ranks' tensors, bitwise equal on all
 * ranks. Goes on where the last call with this progress has stopped. *out_result: SHMT_GROUP_*. NOT_YET: call again.
 * Errors: SHMT_E_NOT_IMPLEMENTED (the dtype cannot be combined so), SHMT_E_NOMEM. */
int shmt_group_all_reduce(shmt_group* g, const shmt_tensor* t, shmt_group_progress* p,
                          int* out_result);

/* --- messages --- */

/* Send some of the nbytes of a message, of which `done` have been sent, until it is done or the slice is over.
 * what: a description of its elements. *out_done: how many have been sent. One thread at a time for each receiver.
 * Errors: SHMT_E_NOMEM. *out_result: SHMT_GROUP_*. */
int shmt_group_send(shmt_group* g, uint32_t to, int64_t tag, uint64_t what, const void* bytes,
                    uint64_t nbytes, uint64_t done, uint64_t* out_done, int* out_result);
/* Wait for the next message of a rank. *out_tag, *out_what, *out_nbytes: what it is. One thread at a time for each
 * sender, as below. Returns SHMT_GROUP_*. */
int shmt_group_peek(shmt_group* g, uint32_t from, int may_wait, int64_t* out_tag,
                    uint64_t* out_what, uint64_t* out_nbytes);
/* Receive some of the nbytes of the message that was peeked, of which `done` have been received. Returns
 * SHMT_GROUP_*. */
int shmt_group_receive(shmt_group* g, uint32_t from, void* bytes, uint64_t nbytes, uint64_t done,
                       uint64_t* out_done);

/* --- the end --- */

/* Make the waits of all ranks end with SHMT_GROUP_BROKEN. */
void shmt_group_abort(shmt_group* g);
/* The same, since `other` does another thing than this rank in a step: both have described it. */
void shmt_group_disagree(shmt_group* g, uint32_t other, uint32_t step);
/* The step in which the group was broken so, and two ranks that have described it differently. */
void shmt_group_disagreement(const shmt_group* g, uint32_t* out_rank, uint32_t* out_other,
                             uint32_t* out_step);
/* How many ranks have opened the group. */
uint32_t shmt_group_n_opened(const shmt_group* g);
/* Break the group if a rank has died. Returns why it is broken, as below. */
int shmt_group_check(shmt_group* g, uint32_t* out_rank);
/* Why the group is broken; 0: it is not. *out_rank: because of whom. */
int shmt_group_broken(const shmt_group* g, uint32_t* out_rank);

#endif
