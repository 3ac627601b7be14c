/* ipc/session/session.h -- this process's membership in sessions.
 *
 * A session is named by 64 bits: the pid of the process that made the name (22 bits) and random bits. Its manager
 * listens on the abstract socket "shmtensor-<uid>-<name in hex>". Every process has a default session, whose name its
 * children find in SHMTENSOR_MANAGER. It joins other sessions when it receives handles that were made there.
 *
 * A member keeps three descriptors, however many tensors it has: the connection to the manager, the control file and
 * the arena. With the last two it can start a new manager when the old one was killed. The descriptor of the control
 * file also has the lock of the member's client number, by which the manager sees that the member is alive
 * (shm/client.h).
 *
 * A program may close these three: Note [Kept descriptors] in os/descriptor.h. The maps stay. The next request finds
 * that the connection or the lock is gone, and joins again (join.c): with its number while it has the lock, and else as
 * a new client, with new descriptors of both files. When the manager is gone too, and nobody else has the files, the
 * session is lost.
 *
 * One lock guards everything here. No code that runs under it releases a storage. Two fields change when this process
 * joins again, and are also read without the lock, once for each use: a session's `client` and a block's `generation`.
 *
 * Note [Told by the manager]
 * Every member can write anywhere in the control file. So what decides about trust is never read there: whose the
 * session is (`key.owner`, which the kernel confirms for the connection), whether it is a service, and whether it is
 * open to a group (`flags` of the reply to HELLO, INSPECT or STATUS) come from the manager. A manager that continues a
 * session has nobody to ask, and takes them from what only the owner can set: the name of the session, and the mark on
 * the control file (shm/manager/adopt.c).
 */
#ifndef SHMT_IPC_SESSION_SESSION_H
#define SHMT_IPC_SESSION_SESSION_H

#include "ipc/session/wire.h"
#include "os/descriptor.h"
#include "os/socket.h"
#include "shm/arena.h"
#include "shm/lease.h"
#include "storage/storage.h"

typedef struct shmt__session shmt__session;

enum { SHMT_MAX_SESSIONS = 64 };

/* A block that this process holds. It is the allocator's ctx of the one storage over the block.
 * When a handle arrives while that storage is being destroyed, a new record supersedes the old one, which then gives
 * nothing up when it is freed. */
typedef struct shmt__held_block {
  shmt__session* session;
  atomic_uint_least64_t generation; /* 0: the block went when this process lost its client number */
  uint64_t offset;       /* of the bytes in the arena */
  uint64_t nbytes;       /* 0: not open yet */
  shmt_storage* storage; /* over the block; not owned, NULL until there is one */
  uint32_t block;
  uint32_t owned_in; /* the slab is ours: 1 + shmt__fork_count() of the process that got it; 0: it is not */
  bool has_pages;  /* of a FILE block: the file was used before */
  bool is_entered; /* the map was used before: its pages are in the page table */
  void* map;       /* of the file behind the block */
  uint64_t map_bytes;
  struct shmt__exported* exported;  /* owned: the descriptor that the program has got; NULL: none */
  struct shmt__file_origin* origin; /* owned: the file has a name (os/files.h). NULL: it is a memory file, or none */
} shmt__held_block;

enum { SHMT_HELD_BLOCK_CHUNK = 512 };

/* How a session is reached and joined. */
typedef struct shmt__session_key {
  uint64_t id;
  uint32_t owner;  /* user of its manager */
  bool is_service; /* for unrelated processes: it has names */
  bool is_reader;  /* join with a map of the arena that cannot be written */
  char path[SHMT_SOCKET_PATH_BYTES]; /* of its socket; empty: the abstract socket of owner and id */
  char name[SHMT_NAME_BYTES];        /* of a service */
} shmt__session_key;

/* What a session does with the memory files of its storages. ipc/handle/release.c sets this when the first file is
 * mapped; the session itself knows nothing of the files. */
typedef struct shmt__session_files {
  /* Call f for each descriptor that is saved for a next manager. */
  void (*each_descriptor)(shmt__session* s,
                          void (*f)(shmt__session* s, uint32_t block, uint64_t generation, int fd));
  /* In a forked child. */
  void (*in_child)(shmt__session* s);
  /* Before the session is freed. */
  void (*close)(shmt__session* s);
} shmt__session_files;

struct shmt__session {
  shmt__session_key key;
  uint64_t id, incarnation;
  shmt__descriptor socket, control, arena_file; /* arena_file cannot be written while `base` is NULL */
  uint32_t watch_forks; /* 1 + the forks before its watch began (ipc/service/watch.c); 0: it has none */
  uint64_t checked_ms; /* when a user of the service last looked whether the manager runs */
  uint64_t sought_ms;  /* when one that waits, and has no connection, last looked whether a manager listens */
  bool is_lost; /* the session ended, or another manager has begun it anew and does not know our incarnation */
  atomic_uint n_users; /* threads that use the maps without the lock, see shmt__session_pin */
  uint32_t n_old_records; /* of held blocks, with others in their places in the table; their storages use the maps */
  atomic_uint_least32_t client; /* 0: none */
  atomic_uint_least32_t membership; /* grows when this process loses what it has in named locks: in a forked child, and
                                     * when it gets another number and nothing locks the old one any more */
  uint32_t serial;
  shmt__lease_cursor leases;
  shmt__map map;
  char* base;         /* of the arena's writable map; NULL: only mapped for reading so far */
  char* reading_base; /* of the map for reading; NULL: not needed so far */
  shmt__arena arena;
  shmt__held_block*** held_blocks; /* by block / SHMT_HELD_BLOCK_CHUNK, block % SHMT_HELD_BLOCK_CHUNK */
  uint32_t n_held_blocks;
  bool has_lost_blocks; /* of some records the generation is 0, or was */
  const shmt__session_files* files; /* NULL: no file was mapped yet */
  struct shmt__saved_descriptor* saved_descriptors; /* oldest first; NULL until there is one */
  uint32_t n_saved_descriptors;
  struct shmt__cached_file* file_cache; /* oldest first */
  uint32_t n_cached_files;
  uint64_t cached_file_bytes;
  void* lock_pin; /* keeps the locks of `control` when the program closes it; NULL: there was no memory */
  uint64_t token; /* whose leases keep what this process inherited while it has no number; 0: none, or they stay */
  /* Between the two fork handlers: */
  bool child_is_requested; /* the manager was asked for a number */
  shmt__descriptor child_socket;  /* the child's connection; none: the manager did not answer */
  shmt__descriptor child_control; /* has the lock of the child's number or token; none: the child keeps `control` */
  uint32_t child_client; /* 0: none */
  uint32_t child_serial; /* of the request for the child's number */
  uint64_t child_token;
};

/* --- the lock (session.c) --- */
void shmt__sessions_lock(void);
void shmt__sessions_unlock(void);
/* False: another thread has it, perhaps while it waits for a manager. */
bool shmt__sessions_try_lock(void);

/* --- all below: the caller holds the lock --- */

/* --- finding and joining (open.c) --- */

/* The default session. Joins it if need be, and starts a manager when there is none.
 * Errors: SHMT_E_MANAGER, SHMT_E_NOMEM. */
shmt_status shmt__session_open_default(shmt__session** out);
/* The session of this name. Joins it if need be. It must have this incarnation: a session that was begun anew is not
 * this one. Errors: SHMT_E_HANDLE when it is gone. */
shmt_status shmt__session_open(uint64_t id, uint64_t incarnation, shmt__session** out);
/* A service. Joins it if need be. Errors: SHMT_E_MANAGER, SHMT_E_NOMEM. */
shmt_status shmt__session_open_service(const shmt__session_key* key, bool may_create, shmt__session** out);
/* Join if this process has no client number: a forked child whose parent could get none for it. Errors:
 * SHMT_E_MANAGER, SHMT_E_RUNTIME (all numbers are taken). */
shmt_status shmt__session_ensure_client(shmt__session* s);
/* Map the arena for writing, or for reading only (ipc/service/attach_modes.c). Errors: SHMT_E_MANAGER, SHMT_E_NOMEM. */
shmt_status shmt__session_map_arena(shmt__session* s, bool writing);

/* --- talking to the manager (join.c, session.c) --- */

/* Send a request and wait for the reply. Starts or rejoins a manager when the connection is gone. out_fds has room for
 * SHMT_SOCKET_MAX_FDS. Errors: what the manager answers; SHMT_E_MANAGER. */
shmt_status shmt__session_call(shmt__session* s, const shmt__packet* request, const int* fds, int n_fds,
                               shmt__packet* reply, int* out_fds, int* n_out_fds);
/* Start or rejoin a manager when the connection to it, or another descriptor of the session, is gone. Errors: as of
 * shmt__session_call; SHMT_OK, too, when another thread waits for a manager. */
shmt_status shmt__session_reconnect(shmt__session* s);
/* Send a message that has no reply. False: that is not possible at the moment. */
bool shmt__session_send(shmt__session* s, const shmt__packet* message, const int* fds, int n_fds);
/* Get a descriptor of the arena from the manager; the caller closes it. Errors: SHMT_E_MANAGER, SHMT_E_OS. */
shmt_status shmt__session_get_arena(shmt__session* s, bool writing, int* out_fd);
/* The number of our descriptor of the arena, to use at once; a new one if it is gone. Errors: as above. */
shmt_status shmt__session_arena_number(shmt__session* s, int* out_fd);
/* Connect to the manager without starting one: the first half of joining. -errno. */
int shmt__session_connect(const shmt__session_key* key);
/* The same by the address of its socket. -SHMT_OS_DENIED: it is neither that of this owner nor root's. */
int shmt__session_connect_to(const char* address, uint32_t owner);

/* --- held blocks (held_blocks.c; they are dropped in ipc/handle/release.h) --- */

/* The record of a block that this process holds, or NULL. */
shmt__held_block* shmt__session_held_block(const shmt__session* s, uint32_t block);
/* Make the record of a block that this process now holds. Its other fields are empty. Errors: SHMT_E_NOMEM,
 * SHMT_E_HANDLE (the block is in use here already). */
shmt_status shmt__session_add_held_block(shmt__session* s, uint32_t block, uint64_t generation,
                                         shmt__held_block** out);
/* Put a new record in the place of h, whose storage is being destroyed. Errors: SHMT_E_NOMEM. */
shmt_status shmt__session_supersede_held_block(shmt__held_block* h, shmt__held_block** out);
/* Take the record out of the table. False: another record has superseded it. */
bool shmt__session_forget_held_block(shmt__held_block* h);
/* The bytes of a held block in this process's map. */
static inline void* shmt__held_block_data(const shmt__held_block* h) {
  const shmt__session* s = h->session;
  if (h->map != NULL) return h->map;
  return (s->base != NULL ? s->base : s->reading_base) + h->offset;
}
/* With SHMTENSOR_DEBUG: is the block still ours, and of that generation? `what` begins the text.
 * Errors: SHMT_E_HANDLE with the values. */
shmt_status shmt__held_block_check(const shmt__held_block* h, const char* what);
/* Set the hold of this number, too, on each block that this process holds. */
void shmt__session_hold_for(shmt__session* s, uint32_t client);
/* Call f for each block that this process holds. */
void shmt__session_each_held_block(shmt__session* s, void (*f)(shmt__held_block* h, void* arg), void* arg);

/* --- the table of sessions (session.c) --- */

/* The session of this name and incarnation, or NULL when this process is not in it. Joins nothing. */
shmt__session* shmt__session_lookup(uint64_t id, uint64_t incarnation);
/* The session of this name that is not lost, or NULL. Joins nothing. */
shmt__session* shmt__session_current(uint64_t id);
/* The same, of this owner: services of different users may have one name. */
shmt__session* shmt__session_current_of(uint64_t id, uint32_t owner);
shmt__session* shmt__session_at(unsigned i);
unsigned shmt__sessions_count(void);
/* A number that tells this process from its peers: its client number in the oldest session. Does not wait for the lock:
 * 0 while another thread has it, as where there is no session. */
uint32_t shmt__sessions_own_number(void);
/* There must be room: shmt__sessions_count() < SHMT_MAX_SESSIONS. */
void shmt__sessions_add(shmt__session* s);
/* Another session takes the place. */
void shmt__sessions_remove_at(unsigned i);
/* Keep a lost session from being freed until the same thread unpins it, so that it can use its maps without the lock.
 * Unpinning needs no lock. */
void shmt__session_pin(shmt__session* s);
void shmt__session_unpin(shmt__session* s);
/* In the child of a fork: only the pins of the thread that forked are left, which may be a signal handler within a
 * request. */
void shmt__session_pins_in_child(shmt__session* s);
/* Write this process's label into the session's table of clients. */
void shmt__session_write_label(const shmt__session* s);
/* In the child of a fork: count the fork, and forget the label, which was the parent's. */
void shmt__sessions_in_child(void);
/* The name of the session's socket; an abstract name comes without the '@'. out has room for SHMT_SOCKET_PATH_BYTES. */
void shmt__session_write_address(const shmt__session_key* key, char* out, size_t capacity);

/* --- without the lock --- */

/* Set the program to start as manager, the name of the default session (0: make a name), and the bound for new sessions
 * (0: none). Returns the name. */
uint64_t shmt__sessions_configure(const char* manager_path, uint64_t id, uint64_t limit_bytes);
const char* shmt__sessions_manager_path(void);
uint64_t shmt__sessions_default_id(void);
uint64_t shmt__sessions_limit_bytes(void);
/* Did this very process, not one that it was forked from, make the name? */
bool shmt__session_was_named_here(uint64_t id);
/* Writes "shmtensor-<uid>-<16 hex digits>". */
void shmt__session_address(uint64_t id, char* out, size_t capacity);
/* How many forks lie between this process and the one that installed the fork handlers. */
uint32_t shmt__fork_count(void);

/* Is the slab of the block ours? A forked child inherits the records and owns none of them, without having to write to
 * each. */
static inline bool shmt__held_block_is_owned(const shmt__held_block* h) {
  return h->owned_in == 1 + shmt__fork_count();
}
static inline void shmt__held_block_own(shmt__held_block* h) { h->owned_in = 1 + shmt__fork_count(); }

#endif
