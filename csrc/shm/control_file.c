/* shm/control_file.c -- maps a control file and reads its entries. */
#include "os/memfd.h"
#include "os/users.h"
#include "shm/control_file.h"

#include <inttypes.h>
#include <string.h>

static shmt_status open_map(int fd, uint32_t uid,
                            shmt_status (*map)(int fd, uint64_t nbytes, void** out),
                            shmt__map* out) {
  uint64_t nbytes = 0;
  void* base = NULL;
  SHMT_REQUIRE(shmt__os_memfd_check_of(fd, uid, &nbytes) && nbytes >= 4096, SHMT_E_MANAGER,
               "the manager sent a descriptor that is no sealed memory file of user %u", uid);
  SHMT_TRY(map(fd, nbytes, &base));
  shmt__control c; /* a copy: any member can write there */
  memcpy(&c, base, sizeof c);
  atomic_signal_fence(memory_order_seq_cst);
  const shmt__fixed fixed = c.fixed;
  shmt__layout l = shmt__layout_of(fixed.n_slabs, fixed.n_blocks);
  /* The size is sealed, and only one layout has it. */
  bool fits = shmt__blocks_of_size(nbytes) == fixed.n_blocks &&
              shmt__slabs_for(fixed.n_blocks) == fixed.n_slabs;
  if (c.magic != SHMT_CONTROL_MAGIC || c.version != SHMT_LAYOUT_VERSION ||
      c.n_clients != SHMT_MAX_CLIENTS || !fits) {
    uint32_t version = c.version;
    shmt__os_unmap(base, nbytes);
    SHMT_FAIL(SHMT_E_MANAGER,
              "control file of %" PRIu64 " bytes has layout version %u, expected %d", nbytes,
              version, SHMT_LAYOUT_VERSION);
  }
  out->control = base;
  out->fixed = fixed;
  out->clients = (shmt__client_entry*)((char*)base + l.clients);
  out->slabs = (shmt__slab*)((char*)base + l.slabs);
  out->blocks = (shmt__block*)((char*)base + l.blocks);
  out->names_head = (shmt__names_head*)((char*)base + l.names_head);
  out->name_buckets = (atomic_uint_least32_t*)((char*)base + l.name_buckets);
  out->names = (shmt__name*)((char*)base + l.names);
  out->named_locks = (shmt__named_lock*)((char*)base + l.named_locks);
  out->n_names = l.n_names;
  out->n_named_locks = l.n_named_locks;
  out->n_lease_pages = l.n_lease_pages;
  out->lease_pages = (shmt__lease_page*)((char*)base + l.leases);
  out->sites = (shmt__site*)((char*)base + l.sites);
  out->posix_names = (shmt__posix_name*)((char*)base + l.posix_names);
  out->far_holds = (shmt__far_holds*)((char*)base + l.far_holds);
  out->nbytes = nbytes;
  out->uid = uid;
  return SHMT_OK;
}

shmt_status shmt__map_open(int fd, shmt__map* out) {
  return open_map(fd, shmt__os_uid(), shmt__os_map_shared, out);
}

shmt_status shmt__map_open_of(int fd, uint32_t uid, shmt__map* out) {
  return open_map(fd, uid, shmt__os_map_shared, out);
}

shmt_status shmt__map_open_read_only(int fd, uint32_t uid, shmt__map* out) {
  return open_map(fd, uid, shmt__os_map_read_only, out);
}

shmt_status shmt__map_believe(shmt__map* m, uint64_t session, uint64_t incarnation, uint32_t flags) {
  SHMT_REQUIRE(m->fixed.session == session && m->fixed.incarnation == incarnation, SHMT_E_MANAGER,
               "the control file is of session %016" PRIx64 " incarnation %016" PRIx64
               ", the manager has session %016" PRIx64 " incarnation %016" PRIx64,
               m->fixed.session, m->fixed.incarnation, session, incarnation);
  m->fixed.flags = flags;
  return SHMT_OK;
}

void shmt__map_close(shmt__map* m) {
  if (m->control != NULL) shmt__os_unmap(m->control, m->nbytes);
  *m = (shmt__map){0};
}

shmt_status shmt__map_populate(const shmt__map* m, int fd, const void* at, uint64_t nbytes) {
  return shmt__os_populate(fd, NULL, (uint64_t)((const char*)at - (const char*)m->control), nbytes);
}

uint32_t shmt__slabs_for(uint32_t n_blocks) {
  return n_blocks < SHMT_MOST_SLABS ? n_blocks : SHMT_MOST_SLABS;
}

uint32_t shmt__blocks_of_size(uint64_t nbytes) {
  for (uint32_t n = SHMT_MOST_BLOCKS; n >= SHMT_FEWEST_BLOCKS; n /= 2) {
    if (shmt__layout_of(shmt__slabs_for(n), n).end == nbytes) return n;
  }
  return 0;
}

bool shmt__slab_read(const shmt__map* m, uint32_t slab, shmt__slab_view* out) {
  if (slab >= m->fixed.n_slabs) return false;
  const shmt__slab* s = &m->slabs[slab];
  shmt__slab_view v;
  /* acquire: the fields come with the state. */
  v.state = atomic_load_explicit(&s->state, memory_order_acquire);
  v.owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
  v.first_block = s->first_block;
  v.n_blocks = s->n_blocks;
  v.offset = s->offset;
  v.nbytes = s->nbytes;
  v.block_bytes = s->block_bytes;
  v.file_identity[0] = s->file_identity[0];
  v.file_identity[1] = s->file_identity[1];
  v.has_posix_name = v.state == SHMT_SLAB_PROGRAM_FILE && s->has_posix_name == 1;
  atomic_signal_fence(memory_order_seq_cst); /* check the copy, not the entry */
  bool is_file = shmt__slab_state_is_file(v.state);
  if (v.state != SHMT_SLAB_ARENA && !is_file) return false;
  if (v.owner >= SHMT_MAX_CLIENTS) v.owner = 0;
  bool good = v.n_blocks > 0 && v.first_block < m->fixed.n_blocks &&
              v.n_blocks <= m->fixed.n_blocks - v.first_block && v.block_bytes > 0 &&
              v.nbytes / v.block_bytes >= v.n_blocks;
  if (is_file)
    good = good && v.n_blocks == 1;
  else
    good = good && v.offset % SHMT_SLAB_ALIGN == 0 && v.offset <= m->fixed.arena_bytes &&
           v.nbytes <= m->fixed.arena_bytes - v.offset;
  if (good) *out = v;
  return good;
}

bool shmt__slab_of_block(const shmt__map* m, uint32_t block, shmt__slab_view* out) {
  shmt__slab_view v;
  bool found = shmt__slab_read(m, m->blocks[block].slab, &v) && block >= v.first_block &&
               block - v.first_block < v.n_blocks;
  if (found) *out = v;
  return found;
}

/* The word of the block's slab, or NULL when the block has no slab. */
static atomic_uint_least32_t* exported_word(const shmt__map* m, uint32_t block) {
  uint32_t slab = *(const volatile uint32_t*)&m->blocks[block].slab; /* once */
  return slab < m->fixed.n_slabs ? &m->slabs[slab].is_exported : NULL;
}

bool shmt__slab_is_exported(const shmt__map* m, uint32_t block) {
  const atomic_uint_least32_t* word = exported_word(m, block);
  return word == NULL || atomic_load_explicit(word, memory_order_seq_cst) != 0;
}

void shmt__slab_set_exported(const shmt__map* m, uint32_t block) {
  atomic_uint_least32_t* word = exported_word(m, block);
  /* seq_cst: this comes before the user's hold ends. */
  if (word != NULL) atomic_store_explicit(word, 1, memory_order_seq_cst);
}

bool shmt__is_paged(uint64_t block_bytes) {
  /* Size classes from 16 KiB on are multiples of 4096. */
  return block_bytes >= 16 << 10 && block_bytes % shmt__os_page_bytes() == 0;
}

bool shmt__arena_matches(const shmt__map* m, int fd) {
  uint64_t nbytes = 0, identity[2];
  return shmt__os_memfd_check_of(fd, m->uid, &nbytes) && nbytes == m->fixed.arena_bytes &&
         shmt__os_file_identity(fd, identity) && identity[0] == m->fixed.arena_identity[0] &&
         identity[1] == m->fixed.arena_identity[1];
}
