/* shm/client.c -- client numbers: taking one, and whether its process is alive. */
#include "shm/client.h"

#include "os/clock.h"
#include "os/lock.h"
#include "os/memfd.h"
#include "os/process.h"

#include <inttypes.h>
#include <string.h>

/* The locked bytes lie behind the end of the file, where locks cost nothing either. */
#define CLIENT_LOCK_AT (UINT64_C(1) << 60)
#define TOKEN_LOCK_AT (UINT64_C(1) << 61)
enum { TOKEN_BITS = 48 };

static void raise_end(const shmt__map* m, uint32_t id) {
  uint32_t end = atomic_load_explicit(&m->control->clients_end, memory_order_relaxed);
  /* seq_cst: a process that reads the holds sees this before the number's first hold. */
  while (end <= id &&
         !atomic_compare_exchange_weak_explicit(&m->control->clients_end, &end, id + 1,
                                                memory_order_seq_cst, memory_order_relaxed)) {
  }
}

shmt_status shmt__client_populate_holds(const shmt__map* m, int fd) {
  uint32_t clients = shmt__map_clients_end(m), blocks = shmt__map_blocks_end(m);
  for (uint32_t plane = 0; (plane + 1) * SHMT_NEAR_CLIENTS < clients && blocks > 0; plane++) {
    const shmt__far_holds* first = &m->far_holds[(uint64_t)plane * m->fixed.n_blocks];
    SHMT_TRY(shmt__map_populate(m, fd, first, sizeof *first * blocks));
  }
  return SHMT_OK;
}

/* Note [Pages of the control file]. Numbers are tried from 1 on: below the end, all entries have pages. */
static bool populate_entry(const shmt__map* m, int fd, uint32_t id) {
  return id < shmt__map_clients_end(m) || shmt__map_populate(m, fd, &m->clients[id], sizeof *m->clients) == SHMT_OK;
}

shmt_status shmt__client_enter_locked(const shmt__map* m, int fd, uint32_t id) {
  SHMT_REQUIRE(populate_entry(m, fd, id), SHMT_E_NOMEM, "no memory for process number %" PRIu32 " of the session", id);
  uint32_t none = SHMT_CLIENT_NONE;
  /* Not none: somebody has lowered clients_end, which members can write. acq_rel: as for a claim. */
  (void)atomic_compare_exchange_strong_explicit(&m->clients[id].state, &none, SHMT_CLIENT_RESERVED,
                                                memory_order_acq_rel, memory_order_acquire);
  raise_end(m, id);
  return SHMT_OK;
}

shmt__claim shmt__client_claim_one(const shmt__map* m, int fd, uint32_t id, int32_t pid) {
  shmt__client_entry* e = &m->clients[id];
  uint32_t none = SHMT_CLIENT_NONE;
  if (!populate_entry(m, fd, id)) return SHMT_CLAIM_NO_ROOM;
  if (atomic_load_explicit(&e->state, memory_order_relaxed) != none) return SHMT_CLAIM_TAKEN;
  if (!shmt__os_lock_byte(fd, CLIENT_LOCK_AT + id)) return SHMT_CLAIM_TAKEN;
  /* acq_rel: we see that the holds of the number's last owner are gone. */
  if (!atomic_compare_exchange_strong_explicit(&e->state, &none, SHMT_CLIENT_RESERVED,
                                               memory_order_acq_rel, memory_order_relaxed)) {
    shmt__os_unlock_byte(fd, CLIENT_LOCK_AT + id);
    return SHMT_CLAIM_TAKEN;
  }
  atomic_fetch_add_explicit(&e->n_claims, 1, memory_order_relaxed);
  e->pid = pid;
  e->start = shmt__os_process_start(pid);
  e->pid_namespace = shmt__os_pid_namespace();
  atomic_store_explicit(&e->touching, 0, memory_order_relaxed);
  memset(e->label, 0, sizeof e->label);
  raise_end(m, id);
  if (id < SHMT_NEAR_CLIENTS || shmt__client_populate_holds(m, fd) == SHMT_OK) return SHMT_CLAIM_MADE;
  /* The entry stays RESERVED: the manager frees it, like any number that nobody has locked. It may have entered the
   * number already; if we made it free, it might clear the holds of the next process that takes it. */
  shmt__os_unlock_byte(fd, CLIENT_LOCK_AT + id);
  return SHMT_CLAIM_NO_ROOM;
}

bool shmt__client_claim(const shmt__map* m, int fd, int32_t pid, uint32_t* out_id) {
  shmt__claim claim = SHMT_CLAIM_TAKEN;
  for (uint32_t id = 1; id < SHMT_MAX_CLIENTS && claim == SHMT_CLAIM_TAKEN; id++) {
    claim = shmt__client_claim_one(m, fd, id, pid);
    if (claim == SHMT_CLAIM_MADE) *out_id = id;
  }
  return claim == SHMT_CLAIM_MADE;
}

void shmt__client_mark_alive(const shmt__map* m, uint32_t id, int32_t pid) {
  shmt__client_entry* e = &m->clients[id];
  e->pid = pid;
  e->start = shmt__os_process_start(pid);
  e->pid_namespace = shmt__os_pid_namespace();
  /* release: the manager believes pid and start of an ALIVE client. */
  atomic_store_explicit(&e->state, SHMT_CLIENT_ALIVE, memory_order_release);
}

int shmt__management_claim(int control_fd, unsigned wait_ms) {
  int fd = shmt__os_reopen(control_fd);
  if (fd < 0) return -2;
  for (uint64_t end_ms = shmt__os_now_ms() + wait_ms; !shmt__os_lock_byte(fd, CLIENT_LOCK_AT);) {
    if (shmt__os_now_ms() >= end_ms) {
      shmt__os_close(fd);
      return -1;
    }
    shmt__os_sleep_ms(1);
  }
  return fd;
}

bool shmt__client_is_locked(int fd, uint32_t id) {
  return shmt__os_byte_is_locked(fd, CLIENT_LOCK_AT + id);
}

bool shmt__client_owns_number(int fd, uint32_t id) { return shmt__os_lock_byte(fd, CLIENT_LOCK_AT + id); }

bool shmt__token_claim(int fd, uint64_t* out_token) {
  uint64_t token = (shmt__os_random() | 1) & ((UINT64_C(1) << TOKEN_BITS) - 1);
  if (!shmt__os_lock_byte(fd, TOKEN_LOCK_AT + token)) return false;
  *out_token = token;
  return true;
}

void shmt__token_release(int fd, uint64_t token) { shmt__os_unlock_byte(fd, TOKEN_LOCK_AT + token); }

bool shmt__token_is_locked(int fd, uint64_t token) {
  return token >> TOKEN_BITS != 0 || shmt__os_byte_is_locked(fd, TOKEN_LOCK_AT + token);
}
