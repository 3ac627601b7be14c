/* ipc/manager/manager.h -- the manager: a daemon that knows the processes of one session and grants them memory.
 *
 * One thread with one epoll loop serves everybody, and in it nothing ever waits for a peer; what came from peers is
 * closed by others (Note [Descriptors of others] in os/closer.h). Processes need the manager to join a session, to get
 * a slab, and to open a storage that is a file of its own. They do not need it to send tensors. All that it knows is
 * also in the control file, so when it is killed, a new manager continues from there.
 *
 * Note [Liveness]
 * A client is alive as long as its number is locked (Note [Client locks] in shm/control_file.h). The kernel tells this
 * for a process in any pid namespace. The end of a connection and a pidfd only tell when to check. A program that
 * closes all its descriptors keeps the lock, by a map (shmt__os_pin_locks). When there was no memory for that map, and
 * the pid can be trusted, a process that still maps the control file is alive, too, unless it has joined under another
 * number: it gives the lock of the old number up when it holds its blocks under the new one. A pid alone is never a
 * reason to regard a client as dead. A client may be checked too early, while its child has yet to close its copy of
 * the lock; it is checked again soon.
 */
#ifndef SHMT_IPC_MANAGER_MANAGER_H
#define SHMT_IPC_MANAGER_MANAGER_H

#include "ipc/manager/channel_watch.h"
#include "ipc/manager/names.h"
#include "ipc/session/wire.h"
#include "shm/manager/arena_manager.h"

enum {
  SHMT_MANAGER_CONNECTIONS = SHMT_MAX_CLIENTS + 512,
  SHMT_MANAGER_BUDGET = 8,      /* packets taken from one connection before the others are served */
  SHMT_MANAGER_HELLO_MS = 5000, /* a connection that says nothing for so long is closed */
  SHMT_MANAGER_TICK_MS = 500,
  SHMT_MANAGER_LINGER_MS = 1000, /* how long it stays after the last client left */
  /* What one process may take of what all share; far more than it ever needs. */
  SHMT_MANAGER_UNIDENTIFIED = 128,       /* connections that have not said HELLO */
  SHMT_MANAGER_CLIENTS_PER_PROCESS = 16, /* client numbers: for several copies of the library, and lost ones */
  SHMT_MANAGER_CHILDREN = 256,           /* numbers for children that have not started yet */
  SHMT_MANAGER_RECHECK_MS = 4,           /* between two checks of a client whose connection ended */
  SHMT_MANAGER_RECHECK_FOR_MS = 200,
  SHMT_MANAGER_ENDS_MS = 2000, /* so long the end of the manager before may take */
  /* Exit status. */
  SHMT_MANAGER_DAMAGED = 5,   /* the files to adopt make no sense */
  SHMT_MANAGER_ELSEWHERE = 6, /* another manager has the session */
  SHMT_MANAGER_ORPHAN_MS =
      30000, /* how long it stays for unopened messages when it cannot tell whether the leader runs */
};

typedef struct shmt__connection {
  int fd;          /* -1: unused */
  uint32_t tag;    /* grows with each use of this entry, so that stale events are recognised */
  uint32_t client; /* 0: has not said HELLO */
  int32_t pid;     /* who connected */
  uint32_t uid;    /* of the peer */
  uint64_t since_ms;
} shmt__connection;

typedef struct shmt__manager_client {
  int pidfd; /* -1: none */
  uint32_t tag;
  int32_t connection; /* -1: none at the moment */
  int32_t pid;        /* of the process; 0: not known. Of a reserved number: of the parent */
  bool is_reserved;   /* by FORK, for a child that has not started yet */
  bool has_moved;     /* its process has joined under another number since */
} shmt__manager_client;

typedef struct shmt__manager {
  shmt__arena_manager arena_manager;
  shmt__names names;
  shmt__channel_watch channels;
  int reading_fd; /* the arena for reading only; -1 until somebody wants it */
  bool stays;     /* it runs without clients too, until a signal tells it to end */
  bool is_over;   /* another manager has taken over: nothing may be touched any more */
  int lock_fd;    /* lock of the socket's path; -1: the socket has no path */
  uint64_t session;
  int listener, epoll, leader; /* leader: pidfd of the process that named the session, or -1 */
  int spare;                   /* a descriptor that is closed for a moment to refuse a connection */
  int files_end;               /* descriptors from here on are reserved for connections and processes */
  uint64_t control_identity[2];
  uint64_t pid_namespace;
  uint64_t recheck_until_ms; /* until then clients without a connection are checked often */
  bool is_leader_known;      /* the leader's pid means something in this pid namespace */
  uint64_t idle_since_ms; /* 0: there are clients */
  uint64_t swept_ms;
  shmt__connection connections[SHMT_MANAGER_CONNECTIONS];
  shmt__manager_client clients[SHMT_MAX_CLIENTS];
} shmt__manager;

/* Start to watch the leader and the clients that an adopted control file names. */
shmt_status shmt__manager_init(shmt__manager* m, uint64_t session, int listener);
/* One round of the loop: wait at most timeout_ms for events and handle them. At each tick, also repair the tables,
 * audit the leases and sweep. False: nobody needs the session any more. */
bool shmt__manager_run_once(shmt__manager* m, int timeout_ms);
/* Run the loop until nobody needs the session any more. */
void shmt__manager_run(shmt__manager* m);

/* Handle one packet and answer it. False: the connection must be closed. Consumes the descriptors.
 * (ipc/manager/messages.c) */
bool shmt__manager_handle_message(shmt__manager* m, uint32_t connection, const shmt__packet* p, int* fds,
                         int n_fds, int32_t pid);
/* Handle a packet that is about names. (ipc/manager/name_messages.c) */
shmt_status shmt__manager_handle_name_message(shmt__manager* m, shmt__requester who, const shmt__packet* p,
                                      shmt__packet* reply);
/* How many clients does the session have? */
static inline uint32_t shmt__manager_n_clients(const shmt__manager* m) {
  uint32_t n = 0;
  for (uint32_t i = 1; i < m->arena_manager.clients_end; i++)
    n += m->arena_manager.clients[i].state != SHMT_CLIENT_NONE;
  return n;
}

/* What an epoll event belongs to: its kind, a tag that tells stale events apart, and an index, in one word. */
enum { SHMT_EVENT_LISTENER, SHMT_EVENT_CONNECTION, SHMT_EVENT_CLIENT };
static inline uint64_t shmt__event_key(unsigned kind, uint32_t tag, uint32_t index) {
  return (uint64_t)kind << 60 | (uint64_t)(tag & 0xfffffffu) << 32 | index;
}

#endif
