/* ipc/group/group.c -- making, opening and leaving the memory of a group of ranks. */
#include "ipc/group/group.h"

#include "os/cpu.h"
#include "os/lock.h"
#include "os/memfd.h"
#include "os/mutex.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 2 };
static const uint64_t MAGIC = UINT64_C(0x70756f7267746d68); /* "hmtgroup" */

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

static shmt__group_layout layout_of(uint64_t n_ranks, uint64_t slot_bytes) {
  const uint64_t page = shmt__os_page_bytes();
  shmt__group_layout l;
  l.ranks = sizeof(shmt__group_header);
  l.channels = l.ranks + n_ranks * sizeof(shmt__group_rank);
  l.slots = round_up(l.channels + n_ranks * n_ranks * sizeof(shmt__group_channel), page);
  l.pieces = l.slots + n_ranks * SHMT_GROUP_N_SLOTS * slot_bytes;
  l.end = l.pieces + n_ranks * n_ranks * SHMT_GROUP_PIECES * sizeof(shmt__group_piece);
  return l;
}

static bool sizes_are_valid(uint64_t n_ranks, uint64_t slot_bytes) {
  return n_ranks >= 1 && n_ranks <= SHMT_GROUP_MAX_RANKS && slot_bytes > 0 &&
         slot_bytes <= UINT64_C(1) << 30 && slot_bytes % shmt__os_page_bytes() == 0;
}

/* --- fork --- */

/* Groups of this process. A child of fork() must not keep the descriptors that have the locks. */
static shmt_group* all_groups;
SHMT_STATIC_MUTEX(all_groups_lock, SHMT_MUTEX_GROUPS)

static void in_child(void) {
  for (shmt_group* g = all_groups; g != NULL; g = g->next) {
    shmt__descriptor_close(&g->file);
  }
}
SHMT_FORK_HOOKS(SHMT_MUTEX_GROUPS, .in_child = in_child)

static void add_to_list(shmt_group* g) {
  shmt__mutex_lock(&all_groups_lock);
  g->next = all_groups;
  if (g->next != NULL) g->next->previous = g;
  all_groups = g;
  shmt__mutex_unlock(&all_groups_lock);
}

static void remove_from_list(shmt_group* g) {
  shmt__mutex_lock(&all_groups_lock);
  if (g->previous != NULL) g->previous->next = g->next;
  if (g->next != NULL) g->next->previous = g->previous;
  if (all_groups == g) all_groups = g->next;
  shmt__mutex_unlock(&all_groups_lock);
}

/* --- opening and leaving --- */

int shmt_group_create(uint32_t n_ranks, uint64_t slot_bytes, int* out_fd) {
  SHMT_REQUIRE(sizes_are_valid(n_ranks, slot_bytes), SHMT_E_VALUE,
               "a group has 1 to %d ranks and slots of whole pages, got %" PRIu32
               " ranks and slots of %" PRIu64 " bytes",
               SHMT_GROUP_MAX_RANKS, n_ranks, slot_bytes);
  shmt__group_layout l = layout_of(n_ranks, slot_bytes);
  int fd = -1;
  void* base = NULL;
  SHMT_TRY(shmt__os_memfd_create("shmtensor-group", l.end, &fd));
  shmt_status status = shmt__os_populate(fd, NULL, 0, l.slots);
  if (status == SHMT_OK) status = shmt__os_map_shared(fd, l.slots, &base);
  if (status != SHMT_OK) {
    shmt__os_close(fd);
    return status;
  }
  shmt__group_header* h = base;
  h->version = VERSION;
  h->n_ranks = n_ranks;
  h->slot_bytes = slot_bytes;
  h->magic = MAGIC;
  shmt__os_unmap(base, l.slots);
  *out_fd = fd;
  return SHMT_OK;
}

/* Read the sizes of the group, once, and map it. */
static shmt_status map_group(shmt_group* g, int fd) {
  uint64_t nbytes = 0;
  shmt__group_header h;
  SHMT_REQUIRE(shmt__os_memfd_check(fd, &nbytes) && nbytes > sizeof h &&
                   shmt__os_read_at(fd, &h, sizeof h, 0) && h.magic == MAGIC &&
                   h.version == VERSION && sizes_are_valid(h.n_ranks, h.slot_bytes) &&
                   layout_of(h.n_ranks, h.slot_bytes).end == nbytes,
               SHMT_E_VALUE, "the descriptor is not of the memory of a group of this version");
  SHMT_REQUIRE(g->rank < h.n_ranks, SHMT_E_VALUE, "rank %" PRIu32 " of %" PRIu32, g->rank,
               h.n_ranks);
  g->n_ranks = h.n_ranks;
  g->slot_bytes = h.slot_bytes;
  g->layout = layout_of(h.n_ranks, h.slot_bytes);
  void* base = NULL;
  SHMT_TRY(shmt__os_map_shared(fd, g->layout.end, &base));
  g->base = base;
  return SHMT_OK;
}

static void discard(shmt_group* g) {
  if (g->base != NULL) shmt__os_unmap(g->base, g->layout.end);
  shmt__descriptor_close(&g->file);
  free(g->channel_has_pages);
  free(g);
}

static shmt_status open_group(shmt_group* g, int fd) {
  SHMT_TRY(map_group(g, fd));
  g->channel_has_pages = calloc(g->n_ranks, 1);
  SHMT_REQUIRE(g->channel_has_pages != NULL, SHMT_E_NOMEM, "unable to allocate %" PRIu32 " bytes",
               g->n_ranks);
  g->file = shmt__descriptor_own(shmt__os_reopen(fd));
  int own = shmt__descriptor_number(&g->file);
  if (own < 0) return shmt__fail_errno(errno, "the memory of the group cannot be opened again");
  SHMT_REQUIRE(shmt__os_lock_byte(own, SHMT_GROUP_LOCKS + g->rank), SHMT_E_VALUE,
               "rank %" PRIu32 " of the group is taken", g->rank);
  g->may_spin = (uint32_t)shmt__os_cpu_count() >= g->n_ranks;
  add_to_list(g);
  return SHMT_OK;
}

int shmt_group_open(int fd, uint32_t rank, shmt_group** out) {
  shmt_group* g = calloc(1, sizeof *g);
  SHMT_REQUIRE(g != NULL, SHMT_E_NOMEM, "unable to allocate %zu bytes", sizeof *g);
  g->rank = rank;
  g->file = SHMT_NO_DESCRIPTOR;
  shmt_status status = open_group(g, fd);
  if (status != SHMT_OK) {
    discard(g);
    return status;
  }
  /* release: the lock is taken before. */
  atomic_store_explicit(&shmt__group_rank_at(g, rank)->state, SHMT_GROUP_ALIVE,
                        memory_order_release);
  *out = g;
  return SHMT_OK;
}

void shmt_group_leave(shmt_group* g) {
  if (shmt__descriptor_is_kept(&g->file))
    atomic_store_explicit(&shmt__group_rank_at(g, g->rank)->state, SHMT_GROUP_GONE,
                          memory_order_release);
}

void shmt_group_clear(shmt_group** place) {
  shmt_group* g = *place;
  *place = NULL;
  if (g == NULL) return;
  remove_from_list(g);
  discard(g);
}

/* --- slots --- */

void* shmt_group_slot(const shmt_group* g, uint32_t rank, uint32_t slot) {
  return g->base + g->layout.slots +
         ((uint64_t)rank * SHMT_GROUP_N_SLOTS + slot) * g->slot_bytes;
}

uint32_t shmt_group_n_ranks(const shmt_group* g) { return g->n_ranks; }
uint32_t shmt_group_rank(const shmt_group* g) { return g->rank; }
uint64_t shmt_group_slot_bytes(const shmt_group* g) { return g->slot_bytes; }

int shmt_group_reserve(shmt_group* g, uint64_t nbytes) {
  if (nbytes > g->slot_bytes) nbytes = g->slot_bytes;
  if (nbytes <= g->reserved) return SHMT_OK;
  SHMT_REQUIRE(shmt__descriptor_is_kept(&g->file), SHMT_E_RUNTIME, "the group is the parent's");
  for (uint32_t slot = 0; slot < SHMT_GROUP_N_SLOTS; slot++) {
    char* at = shmt_group_slot(g, g->rank, slot);
    SHMT_TRY(shmt__os_populate(shmt__descriptor_number(&g->file), g->base, (uint64_t)(at - g->base), nbytes));
  }
  g->reserved = nbytes;
  return SHMT_OK;
}

void shmt_group_put(shmt_group* g, uint32_t slot, uint64_t offset, const void* bytes,
                    uint64_t nbytes) {
  SHMT_ASSERT(offset + nbytes <= g->slot_bytes);
  memcpy((char*)shmt_group_slot(g, g->rank, slot) + offset, bytes, nbytes);
}

void shmt_group_get(const shmt_group* g, uint32_t rank, uint32_t slot, uint64_t offset, void* out,
                    uint64_t nbytes) {
  SHMT_ASSERT(offset + nbytes <= g->slot_bytes);
  memcpy(out, (const char*)shmt_group_slot(g, rank, slot) + offset, nbytes);
}
