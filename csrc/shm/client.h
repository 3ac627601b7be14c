/* shm/client.h -- client numbers: taking one, and whether its process is alive. See Note [Client locks] and Note
 * [Claims] in shm/control_file.h. */
#ifndef SHMT_SHM_CLIENT_H
#define SHMT_SHM_CLIENT_H

#include "shm/control_file.h"

/* Can a client have this number? */
static inline bool shmt__client_is_number(uint32_t id) { return id > 0 && id < SHMT_MAX_CLIENTS; }

/* Take a free number for a process by locking its byte on fd, a description of the control file that will become the
 * process's own. The number is RESERVED from now on. False: all numbers are taken, or memory is out. */
bool shmt__client_claim(const shmt__map* m, int fd, int32_t pid, uint32_t* out_id);
typedef enum shmt__claim {
  SHMT_CLAIM_MADE,
  SHMT_CLAIM_TAKEN,   /* another process has the number */
  SHMT_CLAIM_NO_ROOM, /* there is no memory for its entry, or for the holds of so high a number */
} shmt__claim;
/* Take this number. */
shmt__claim shmt__client_claim_one(const shmt__map* m, int fd, uint32_t id, int32_t pid);
/* A number is locked, and the table may not say so: then make its entry RESERVED. Errors: SHMT_E_NOMEM. */
shmt_status shmt__client_enter_locked(const shmt__map* m, int fd, uint32_t id);
/* The process behind a number has started. pid: as this process sees it; 0: it cannot see it. */
void shmt__client_mark_alive(const shmt__map* m, uint32_t id, int32_t pid);
/* Which process has a number: the number, and above it the low bits of how often it was taken. What another process
 * has been told stays true for as long as the process lives; pid and start may change after a fork, until the manager
 * has heard of the child. */
enum { SHMT_MEMBER_SHIFT = 14 };
static inline uint32_t shmt__client_member(const shmt__map* m, uint32_t id) {
  const uint32_t n = id < SHMT_MAX_CLIENTS ? atomic_load_explicit(&m->clients[id].n_claims, memory_order_relaxed) : 0;
  return n << SHMT_MEMBER_SHIFT | id;
}
/* The number in it. */
static inline uint32_t shmt__member_id(uint32_t member) { return member & ((UINT32_C(1) << SHMT_MEMBER_SHIFT) - 1); }
/* Has no other process taken the number since? Whether its own process lives is not said. */
static inline bool shmt__member_has_number(const shmt__map* m, uint32_t member) {
  const uint32_t id = shmt__member_id(member);
  return id > 0 && id < SHMT_MAX_CLIENTS && shmt__client_member(m, id) == member;
}
/* Lock the session for one manager: the lock of number 0, which is no client's. The lock belongs to the returned
 * descriptor, a description of its own that nobody maps. Waits at most wait_ms for a manager that is ending. -1:
 * another one runs, perhaps where this process cannot reach it. -2: the file cannot be opened anew. */
int shmt__management_claim(int control_fd, unsigned wait_ms);
/* Does another description than fd's have the lock of the number? In doubt the answer is yes. */
bool shmt__client_is_locked(int fd, uint32_t id);
/* Does fd's description have the lock of the number? Takes the lock if nobody has it. */
bool shmt__client_owns_number(int fd, uint32_t id);
/* Give pages to the holds of client numbers from 512 on, for the numbers and blocks in use. Errors: SHMT_E_NOMEM. */
shmt_status shmt__client_populate_holds(const shmt__map* m, int fd);

/* For a process that could get no number: lock a random byte on fd. The token names the byte; it is never 0. False: the
 * kernel has no lock left. */
bool shmt__token_claim(int fd, uint64_t* out_token);
/* Give the lock up, for all copies of the descriptor. */
void shmt__token_release(int fd, uint64_t token);
bool shmt__token_is_locked(int fd, uint64_t token);

#endif
