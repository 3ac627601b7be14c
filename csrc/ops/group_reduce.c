/* ops/group_reduce.c -- all-reduce among the ranks of a group, chunk by chunk in shared memory.
 *
 * Steps and slots are those of Note [Steps] in ipc/group/group.h. A small tensor is one step: every rank reads all
 * slots. A large tensor is a step for each chunk, in two phases: each rank combines a part of the chunk
 * (reduce-scatter), and then all read the parts of the others (all-gather). A rank fills its slots up to DEPTH steps
 * ahead. A chunk fills a slot: smaller ones stay in faster caches, but ranks that wait for each other more often lose
 * more on a machine that does other things as well.
 *
 * Each element is combined in the order of the ranks, by one rank or by all in the same way, so results are bitwise
 * equal.
 */
#include "api/group.h"

#include "base/scalar.h"
#include "generated/operator_loops.h"
#include "tensor/tensor.h"

#include <string.h>

enum {
  ONE_PHASE_BYTES = 16 << 10, /* up to here a second meeting costs more than it saves */
  DEPTH = 3,
};
_Static_assert((int)DEPTH < (int)SHMT_GROUP_N_SLOTS, "slots of steps in progress");

static const int loop_of[SHMT_GROUP_N_OPS] = {
    [SHMT_GROUP_SUM] = SHMT_LOOP_add,          [SHMT_GROUP_PRODUCT] = SHMT_LOOP_mul,
    [SHMT_GROUP_MIN] = SHMT_LOOP_minimum,      [SHMT_GROUP_MAX] = SHMT_LOOP_maximum,
    [SHMT_GROUP_BAND] = SHMT_LOOP_bitwise_and, [SHMT_GROUP_BOR] = SHMT_LOOP_bitwise_or,
    [SHMT_GROUP_BXOR] = SHMT_LOOP_bitwise_xor,
};

typedef struct reduction {
  shmt_group* g;
  shmt_group_progress* p;
  shmt__loop loop;
  int64_t item;
  uint32_t n_ranks, rank;
  char* bytes;
  uint64_t nbytes;
  uint64_t chunk; /* bytes of a step */
} reduction;

/* Where the part of a rank begins in a chunk of nbytes. Parts begin at cache lines. */
static uint64_t part_start(const reduction* r, uint64_t nbytes, uint32_t rank) {
  uint64_t each = (nbytes / r->n_ranks + 64) / 64 * 64;
  uint64_t start = each * rank;
  return start < nbytes ? start : nbytes;
}

static uint64_t chunk_bytes(const reduction* r, uint32_t i) {
  uint64_t rest = r->nbytes - (uint64_t)i * r->chunk;
  return rest < r->chunk ? rest : r->chunk;
}

static char* slot(const reduction* r, uint32_t rank, uint32_t i) {
  return shmt_group_slot(r->g, rank, (r->p->first_step + i) % SHMT_GROUP_N_SLOTS);
}

/* Combine bytes [from, to) of a chunk of all ranks into out. `own`: where ours are, not at out; the others' are in
 * their slots. */
static void combine(const reduction* r, uint32_t i, char* out, char* own, uint64_t from, uint64_t to) {
  static const shmt_scalar one = {.v.i = 1, .tag = SHMT_SCALAR_INT};
  const int64_t strides[3] = {r->item, r->item, r->item};
  const int64_t n = (int64_t)(to - from) / r->item;
  char* first = NULL;
  for (uint32_t rank = 0; rank < r->n_ranks && n > 0; rank++) {
    char* part = rank == r->rank ? own : slot(r, rank, i) + from;
    /* The first two make out; the others are combined with it. */
    if (rank > 0) r->loop((char*[]){out, rank == 1 ? first : out, part}, strides, n, &one);
    first = part;
  }
}

static int wait_for(const reduction* r, uint32_t counter, int32_t rank, uint32_t i, bool compare) {
  r->p->waits_counter = counter;
  r->p->waits_step = r->p->first_step + i;
  return shmt_group_wait(r->g, counter, rank, r->p->waits_step, compare ? r->p->what : 0);
}

/* Fill our slot for step i: what the others combine. */
static void fill_part(const reduction* r, uint32_t i, bool has_two_phases) {
  const char* from = r->bytes + (uint64_t)i * r->chunk;
  char* to = slot(r, r->rank, i);
  uint64_t n = chunk_bytes(r, i);
  uint64_t own = has_two_phases ? part_start(r, n, r->rank) : n;
  uint64_t end = has_two_phases ? part_start(r, n, r->rank + 1) : n;
  if (own > 0) memcpy(to, from, own);
  if (n > end) memcpy(to + end, from + end, n - end);
  shmt_group_post(r->g, SHMT_GROUP_FILLED, r->p->first_step + i, r->p->what);
}

/* Fill the slots of coming steps as far as they are free; wait only for the slot that is needed now. */
static int fill_ahead(const reduction* r, bool has_two_phases) {
  shmt_group_progress* p = r->p;
  while (p->filled < p->n_steps && p->filled < p->used + DEPTH) {
    uint32_t i = p->filled;
    for (uint32_t rank = 0; i > p->used && rank < r->n_ranks; rank++)
      if (rank != r->rank &&
          !shmt_group_has_counted(r->g, SHMT_GROUP_READ, rank,
                                  p->first_step + i - SHMT_GROUP_N_SLOTS))
        return SHMT_GROUP_DONE;
    int result = wait_for(r, SHMT_GROUP_READ, -1, i - SHMT_GROUP_N_SLOTS, false);
    if (result != SHMT_GROUP_DONE) return result;
    fill_part(r, i, has_two_phases);
    p->filled++;
  }
  return SHMT_GROUP_DONE;
}

/* Combine our part of a chunk, in our slot, for all. */
static int reduce_scatter(const reduction* r, uint32_t i) {
  int result = wait_for(r, SHMT_GROUP_FILLED, -1, i, true);
  if (result != SHMT_GROUP_DONE) return result;
  uint64_t n = chunk_bytes(r, i);
  uint64_t from = part_start(r, n, r->rank), to = part_start(r, n, r->rank + 1);
  char* out = slot(r, r->rank, i) + from;
  combine(r, i, out, r->bytes + (uint64_t)i * r->chunk + from, from, to);
  shmt_group_post(r->g, SHMT_GROUP_REDUCED, r->p->first_step + i, 0);
  if (to > from) memcpy(r->bytes + (uint64_t)i * r->chunk + from, out, to - from);
  return SHMT_GROUP_DONE;
}

/* Read the others' parts, beginning with our neighbour's, so that not all read from the same rank. */
static int all_gather(const reduction* r, uint32_t i) {
  shmt_group_progress* p = r->p;
  uint64_t n = chunk_bytes(r, i);
  for (; p->next_rank < r->n_ranks; p->next_rank++) {
    uint32_t rank = (r->rank + p->next_rank) % r->n_ranks;
    if (rank == r->rank) continue;
    int result = wait_for(r, SHMT_GROUP_REDUCED, (int32_t)rank, i, false);
    if (result != SHMT_GROUP_DONE) return result;
    uint64_t from = part_start(r, n, rank), to = part_start(r, n, rank + 1);
    if (to > from) memcpy(r->bytes + (uint64_t)i * r->chunk + from, slot(r, rank, i) + from, to - from);
  }
  p->next_rank = 0;
  return SHMT_GROUP_DONE;
}

static int run_in_two_phases(const reduction* r) {
  shmt_group_progress* p = r->p;
  while (p->used < p->n_steps) {
    int result = fill_ahead(r, true);
    if (result == SHMT_GROUP_DONE && p->phase == 0) {
      result = reduce_scatter(r, p->used);
      p->phase = result == SHMT_GROUP_DONE;
    }
    if (result == SHMT_GROUP_DONE) result = all_gather(r, p->used);
    if (result != SHMT_GROUP_DONE) return result;
    shmt_group_post(r->g, SHMT_GROUP_READ, p->first_step + p->used, 0);
    p->used++;
    p->phase = 0;
  }
  return SHMT_GROUP_DONE;
}

static int run_at_once(const reduction* r) {
  int result = fill_ahead(r, false);
  if (result == SHMT_GROUP_DONE) result = wait_for(r, SHMT_GROUP_FILLED, -1, 0, true);
  if (result != SHMT_GROUP_DONE) return result;
  combine(r, 0, r->bytes, slot(r, r->rank, 0), 0, r->nbytes);
  shmt_group_post(r->g, SHMT_GROUP_READ, r->p->first_step, 0);
  return SHMT_GROUP_DONE;
}

int shmt_group_all_reduce(shmt_group* g, const shmt_tensor* t, shmt_group_progress* p,
                          int* out_result) {
  SHMT_ASSERT(p->op >= 0 && p->op < SHMT_GROUP_N_OPS);
  reduction r = {
      .g = g,
      .p = p,
      .loop = shmt__loops[loop_of[p->op]][t->dtype],
      .item = (int64_t)shmt__dtype_size[t->dtype],
      .n_ranks = shmt_group_n_ranks(g),
      .rank = shmt_group_rank(g),
      .bytes = t->numel > 0 ? shmt__tensor_data(t) : NULL,
  };
  SHMT_REQUIRE(r.loop != NULL, SHMT_E_NOT_IMPLEMENTED, "all_reduce(): tensors of %s cannot be combined so",
               shmt__dtype_name[t->dtype]);
  r.nbytes = (uint64_t)t->numel * (uint64_t)r.item;
  bool has_two_phases = r.nbytes > ONE_PHASE_BYTES;
  r.chunk = has_two_phases ? shmt_group_slot_bytes(g) : ONE_PHASE_BYTES;
  p->n_steps = has_two_phases ? (uint32_t)((r.nbytes + r.chunk - 1) / r.chunk) : 1;
  if (p->filled == 0) SHMT_TRY(shmt_group_reserve(g, r.nbytes < r.chunk ? r.nbytes + 64 : r.chunk));
  *out_result = has_two_phases ? run_in_two_phases(&r) : run_at_once(&r);
  return SHMT_OK;
}
