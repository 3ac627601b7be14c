/* shm/client.c -- client numbers: who takes one, and who is behind it. */
#include "os/process.h"
#include "shm/layout.h"

bool shmt__client_claim(const shmt__map* m, int32_t pid, uint32_t* out_id) {
  for (uint32_t id = 1; id < SHMT_MAX_CLIENTS; id++) {
    shmt__client_entry* e = &m->clients[id];
    uint32_t none = SHMT_CLIENT_NONE;
    /* acq_rel: the holds of the number's last owner are seen gone, and the number is taken once. */
    if (atomic_load_explicit(&e->state, memory_order_relaxed) != none ||
        !atomic_compare_exchange_strong_explicit(&e->state, &none, SHMT_CLIENT_RESERVED,
                                                 memory_order_acq_rel, memory_order_relaxed))
      continue;
    e->pid = pid;
    e->start = shmt__os_process_start(pid);
    e->nonce = shmt__os_random();
    atomic_store_explicit(&e->claimed_ms, shmt__os_now_ms(), memory_order_release);
    /* seq_cst: whoever looks at holds sees this before the first hold of the number. */
    uint32_t end = atomic_load_explicit(&m->control->clients_end, memory_order_relaxed);
    while (end <= id && !atomic_compare_exchange_weak_explicit(&m->control->clients_end, &end,
                                                               id + 1, memory_order_seq_cst,
                                                               memory_order_relaxed)) {
    }
    *out_id = id;
    return true;
  }
  return false;
}

void shmt__client_settle(const shmt__map* m, uint32_t id, int32_t pid) {
  shmt__client_entry* e = &m->clients[id];
  e->pid = pid;
  e->start = shmt__os_process_start(pid);
  /* release: the manager believes pid and start of an ALIVE client. */
  atomic_store_explicit(&e->state, SHMT_CLIENT_ALIVE, memory_order_release);
}
