/* ipc/group/messages.c -- messages from one rank to another, through a ring of pieces for each pair. */
#include "ipc/group/group.h"

#include "os/memfd.h"

#include <string.h>

static shmt__group_piece* piece_at(const shmt_group* g, uint32_t from, uint32_t to,
                                   uint32_t number) {
  return (shmt__group_piece*)(g->base + shmt__group_pieces_offset(g, from, to)) +
         number % SHMT_GROUP_PIECES;
}

int shmt_group_send(shmt_group* g, uint32_t to, int64_t tag, uint64_t what, const void* bytes,
                    uint64_t nbytes, uint64_t done, uint64_t* out_done, int* out_result) {
  *out_done = done;
  *out_result = SHMT_GROUP_BROKEN;
  if (!shmt__descriptor_is_kept(&g->file) || to >= g->n_ranks) return SHMT_OK;
  if (!g->channel_has_pages[to]) {
    SHMT_TRY(shmt__os_populate(shmt__descriptor_number(&g->file), g->base, shmt__group_pieces_offset(g, g->rank, to),
                               SHMT_GROUP_PIECES * sizeof(shmt__group_piece)));
    g->channel_has_pages[to] = 1;
  }
  shmt__group_channel* c = shmt__group_channel_at(g, g->rank, to);
  uint64_t deadline = shmt__group_slice();
  do {
    /* relaxed: only we write it. */
    uint32_t sent = atomic_load_explicit(&c->sent.value, memory_order_relaxed);
    *out_result =
        shmt__group_await(g, &c->received, to, sent + 1 - SHMT_GROUP_PIECES, deadline);
    if (*out_result != SHMT_GROUP_DONE) return SHMT_OK;
    shmt__group_piece* piece = piece_at(g, g->rank, to, sent);
    uint64_t n = nbytes - *out_done;
    if (n > SHMT_GROUP_PIECE_BYTES) n = SHMT_GROUP_PIECE_BYTES;
    piece->nbytes = nbytes;
    piece->tag = tag;
    piece->what = what;
    if (n > 0) memcpy(piece->bytes, (const char*)bytes + *out_done, n);
    *out_done += n;
    shmt__group_count(&c->sent, sent + 1);
  } while (*out_done < nbytes);
  return SHMT_OK;
}

int shmt_group_peek(shmt_group* g, uint32_t from, int may_wait, int64_t* out_tag,
                    uint64_t* out_what, uint64_t* out_nbytes) {
  if (!shmt__descriptor_is_kept(&g->file) || from >= g->n_ranks) return SHMT_GROUP_BROKEN;
  shmt__group_channel* c = shmt__group_channel_at(g, from, g->rank);
  uint32_t received = atomic_load_explicit(&c->received.value, memory_order_relaxed);
  int result = shmt__group_await(g, &c->sent, from, received + 1,
                                 may_wait ? shmt__group_slice() : 0);
  if (result != SHMT_GROUP_DONE) return result;
  const shmt__group_piece* piece = piece_at(g, from, g->rank, received);
  *out_tag = piece->tag;
  *out_what = piece->what;
  *out_nbytes = piece->nbytes;
  return SHMT_GROUP_DONE;
}

int shmt_group_receive(shmt_group* g, uint32_t from, void* bytes, uint64_t nbytes, uint64_t done,
                       uint64_t* out_done) {
  *out_done = done;
  if (!shmt__descriptor_is_kept(&g->file) || from >= g->n_ranks) return SHMT_GROUP_BROKEN;
  shmt__group_channel* c = shmt__group_channel_at(g, from, g->rank);
  uint64_t deadline = shmt__group_slice();
  do {
    uint32_t received = atomic_load_explicit(&c->received.value, memory_order_relaxed);
    int result = shmt__group_await(g, &c->sent, from, received + 1, deadline);
    if (result != SHMT_GROUP_DONE) return result;
    const shmt__group_piece* piece = piece_at(g, from, g->rank, received);
    uint64_t n = nbytes - *out_done;
    if (n > SHMT_GROUP_PIECE_BYTES) n = SHMT_GROUP_PIECE_BYTES;
    if (n > 0) memcpy((char*)bytes + *out_done, piece->bytes, n);
    *out_done += n;
    shmt__group_count(&c->received, received + 1);
  } while (*out_done < nbytes);
  return SHMT_GROUP_DONE;
}
