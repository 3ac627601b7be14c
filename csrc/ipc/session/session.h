/* ipc/session/session.h -- this process's membership in sessions.
 *
 * A session is named by 64 bits: the pid of the process that made the name (22 bits) and random
 * ones. Its manager listens on the abstract socket "shmtensor-<uid>-<name in hex>". Every process
 * has a default session, whose name children find in SHMTENSOR_MANAGER; it may join others, by
 * handles made there.
 *
 * A member keeps three descriptors, whatever the number of tensors: the connection, the control
 * file and the arena. With the last two it can start a new manager when the old one was killed. That of
 * the control file also has the lock of the member's number, by which it lives (shm/client.h).
 *
 * Everything here is guarded by one lock; nothing that runs under it releases a storage.
 */
#ifndef SHMT_IPC_SESSION_SESSION_H
#define SHMT_IPC_SESSION_SESSION_H

#include "ipc/session/wire.h"
#include "os/socket.h"
#include "shm/arena.h"
#include "shm/lease.h"
#include "storage/storage.h"

typedef struct shmt__session shmt__session;

/* A block that this process holds; the allocator's ctx of the one storage over it.
 * When a handle arrives while that storage is being destroyed, a new holding supersedes the old
 * one, which then lets go of nothing. */
typedef struct shmt__held_block {
  shmt__session* session;
  uint64_t generation;
  uint64_t offset;       /* of the bytes in the arena */
  uint64_t nbytes;       /* 0: not open yet */
  shmt_storage* storage; /* over the block; not owned, NULL until there is one */
  uint32_t block;
  bool is_owned; /* the slab is ours */
  void* map;     /* of a FILE block */
  bool has_pages; /* the file was used before */
  bool is_entered; /* so was the map: its pages are in the page table */
  uint64_t map_bytes;
} shmt__held_block;

enum { SHMT_HELD_BLOCK_CHUNK = 512 };

/* How a session is reached and joined. */
typedef struct shmt__session_key {
  uint64_t id;
  uint32_t owner;  /* user of its manager */
  bool is_service; /* of unrelated processes: with names */
  bool is_reader;  /* join with a map of the arena that cannot be written */
  char path[SHMT_SOCKET_PATH_BYTES]; /* of its socket; empty: the abstract one of owner and id */
  char name[SHMT_NAME_BYTES];        /* of a service */
} shmt__session_key;

struct shmt__session {
  shmt__session_key key;
  uint64_t id, world;
  int socket, control_fd, arena_fd; /* arena_fd cannot be written while `base` is NULL */
  bool is_lost; /* another manager rules now and does not know our world */
  atomic_uint n_users; /* of the maps, without the lock: see shmt__session_pin */
  uint32_t client, serial;
  shmt__lease_cursor leases;
  shmt__map map;
  char* base;         /* of the arena's map; NULL: only for reading so far */
  char* reading_base; /* of the map for reading; NULL: not needed so far */
  shmt__arena arena;
  shmt__held_block*** held_blocks; /* by block / SHMT_HELD_BLOCK_CHUNK, block % SHMT_HELD_BLOCK_CHUNK */
  uint32_t n_held_blocks;
  struct shmt__saved_descriptor* saved_descriptors; /* oldest first; NULL until there is one (saved_descriptors.c) */
  uint32_t n_saved_descriptors;
  struct shmt__cached_file* file_cache; /* the oldest first */
  uint32_t n_cached_files;
  uint64_t cached_file_bytes;
  int child_socket; /* between the two fork handlers; -1: the manager did not answer */
  int child_control_fd; /* with the lock of its number, or a token's; -1: none */
  uint32_t child_client; /* 0: none */
  uint32_t child_serial; /* of the request for it */
};

/* --- the lock --- */
void shmt__sessions_lock(void);
void shmt__sessions_unlock(void);
/* False: another thread has it, perhaps while it waits for a manager. */
bool shmt__sessions_try_lock(void);

/* --- all below: the caller holds the lock --- */

/* The default session, joined; the manager is started when there is none.
 * Errors: SHMT_E_MANAGER, SHMT_E_NOMEM. */
shmt_status shmt__session_open_default(shmt__session** out);
/* A session by its name, joined if need be; its world must be `world`. Never starts a new world.
 * Errors: SHMT_E_HANDLE when it is gone. */
shmt_status shmt__session_open(uint64_t id, uint64_t world, shmt__session** out);
/* A service, joined if need be. Errors: SHMT_E_MANAGER, SHMT_E_NOMEM. */
shmt_status shmt__session_open_service(const shmt__session_key* key, bool may_create,
                                  shmt__session** out);
/* Have a map of the arena for writing, or one for reading only (ipc/service/attach_modes.c).
 * Errors: SHMT_E_MANAGER, SHMT_E_NOMEM. */
shmt_status shmt__session_map_arena(shmt__session* s, bool writing);
/* A joined session that this process already knows, or NULL. */
shmt__session* shmt__session_lookup(uint64_t id, uint64_t world);

/* Ask the manager and wait; starts or rejoins one when the connection is gone. out_fds has room for
 * SHMT_SOCKET_MAX_FDS. Errors: what the manager answers; SHMT_E_MANAGER. */
shmt_status shmt__session_call(shmt__session* s, const shmt__packet* request, const int* fds,
                               int n_fds, shmt__packet* reply, int* out_fds, int* n_out_fds);
/* Start or rejoin a manager when the connection to it is gone. */
void shmt__session_reconnect(shmt__session* s);
/* Tell the manager something; false when that is not possible at the moment. */
bool shmt__session_send(shmt__session* s, const shmt__packet* message, const int* fds, int n_fds);

/* The holding of a block, or NULL. */
shmt__held_block* shmt__session_held_block(const shmt__session* s, uint32_t block);
/* Enter a new holding; its fields beyond session, block and generation are empty. Errors:
 * SHMT_E_NOMEM. */
shmt_status shmt__session_add_held_block(shmt__session* s, uint32_t block, uint64_t generation,
                                      shmt__held_block** out);
/* Put a new holding in the place of h, whose storage is being destroyed. Errors: SHMT_E_NOMEM. */
shmt_status shmt__session_supersede_held_block(shmt__held_block* h, shmt__held_block** out);
/* Free the holding and, unless it is superseded, give the block up. */
void shmt__session_drop_held_block(shmt__held_block* h);
/* With SHMTENSOR_DEBUG: is the block still ours, and of that generation? `what` begins the text.
 * Errors: SHMT_E_HANDLE with the values. */
shmt_status shmt__held_block_check(const shmt__held_block* h, const char* what);
/* With SHMTENSOR_DEBUG: say on standard error that a block is released that is not held. */
void shmt__held_block_report_release(const shmt__held_block* h);
/* Keep a session that is lost from being forgotten, until it is unpinned: for who goes on with its
 * maps without the lock. Unpinning needs no lock. */
void shmt__session_pin(shmt__session* s);
void shmt__session_unpin(shmt__session* s);
/* Call f for each holding. */
void shmt__session_each_held_block(shmt__session* s, void (*f)(shmt__held_block* h, void* arg),
                                void* arg);

/* Sessions of this process, for the fork handlers. */
shmt__session* shmt__session_at(unsigned i);
unsigned shmt__sessions_count(void);
/* The name of its socket, an abstract one without the '@'. out has room for
 * SHMT_SOCKET_PATH_BYTES. */
void shmt__session_write_address(const shmt__session_key* key, char* out, size_t capacity);
/* Connect without starting anything: the first half of joining. -errno. */
int shmt__session_connect(const shmt__session_key* key);

/* --- without the lock --- */

/* The program to start as manager, the name of the default session (0: make one), and the bound for
 * new sessions (0: none). Returns the name. */
uint64_t shmt__sessions_configure(const char* manager_path, uint64_t id, uint64_t limit_bytes);
const char* shmt__sessions_manager_path(void);
/* In the child of a fork, under the lock: the label was the parent's. */
void shmt__sessions_forget_label(void);
/* Did this very process, not one that it was forked from, make the name? */
bool shmt__session_was_named_here(uint64_t id);
/* "shmtensor-<uid>-<16 hex digits>" */
void shmt__session_address(uint64_t id, char* out, size_t capacity);

#endif
