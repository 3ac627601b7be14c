/* api/inspect.h -- inspects sessions from outside, without joining them or disturbing anybody.
 *
 * An inspector maps a session's control file and arena read-only. It is no client: it holds no blocks, does not keep
 * the manager alive, and nobody waits for it. It reads tables while others change them: each field is whole, but two
 * fields may be of different moments. Functions that return int return a status (api/status.h).
 */
#ifndef SHMT_API_INSPECT_H
#define SHMT_API_INSPECT_H

#include <stdint.h>

typedef struct shmt_inspector shmt_inspector;

/* Inspect the session of user `owner` whose manager listens on the abstract socket `address` (without the "@"), or at
 * this path. The manager admits whoever may join. The caller closes *out. Errors: SHMT_E_MANAGER (no manager of the
 * owner listens there, or it does not admit this user), SHMT_E_NOMEM. */
int shmt_inspector_open(const char* address, uint32_t owner, shmt_inspector** out);
/* Inspect a session of this user whose manager was killed, through the files that its members still have open. Errors:
 * SHMT_E_MANAGER when nobody has them. */
int shmt_inspector_open_members(uint64_t session, shmt_inspector** out);
/* NULL is fine. */
void shmt_inspector_clear(shmt_inspector** place); /* close *place and make it NULL */

/* What the manager says of the session: its clients, and the memory it covers and occupies. Errors: SHMT_E_MANAGER. */
typedef struct shmt_manager_view {
  int64_t pid;
  uint64_t n_clients, n_leases;
  uint64_t granted_bytes, resident_bytes;
} shmt_manager_view;
int shmt_inspector_manager(shmt_inspector* o, shmt_manager_view* out);
/* Let the manager sweep, and return idle memory to the kernel. *out: the bytes that the arena still occupies. */
int shmt_inspector_trim(shmt_inspector* o, uint64_t* out_resident_bytes);
/* Let it end the leases of unopened messages that were sent more than age_ms ago. *out_n: how many. */
int shmt_inspector_gc(shmt_inspector* o, uint32_t age_ms, uint64_t* out_n);

typedef struct shmt_session_view {
  uint64_t session, incarnation;
  uint64_t arena_bytes, limit_bytes; /* limit_bytes 0: none */
  uint64_t n_used, used_bytes;       /* blocks in use and their storages' sizes */
  uint64_t n_free, free_bytes;       /* free blocks with pages, bytes with pages */
  uint64_t n_cold;                   /* free blocks without pages */
  uint64_t n_leases;                 /* unopened messages in pipes and sockets */
  uint64_t n_stranded, stranded_bytes; /* blocks kept by these only */
  uint64_t n_queued, queued_bytes;   /* blocks kept by messages in queues */
  uint64_t n_slabs, n_orphan_slabs, granted_bytes;
  uint64_t n_reclaimed;    /* how often blocks of the present slabs were freed */
  uint64_t resident_bytes; /* memory that the arena and the control file occupy */
  char service[128];       /* a service's name, or its socket's path; "": not a service */
} shmt_session_view;

typedef struct shmt_client_view {
  uint32_t client; /* its number */
  int32_t pid;         /* 0: it cannot be seen from the caller's pid namespace */
  uint64_t start;      /* clock ticks after boot at which the process started */
  uint32_t is_forking; /* the number is reserved for a child that is being forked */
  uint32_t n_slabs;
  uint64_t slab_bytes; /* of the slabs it owns */
  uint64_t n_held, held_bytes;
  uint64_t n_alone, alone_bytes; /* held by it and nobody else */
  uint64_t n_made, made_bytes; /* in use, in slabs it owns */
  char label[40];              /* what it says of itself; any bytes, zero-terminated */
} shmt_client_view;

/* Count the blocks of the session and of each client, by ascending client number. out_n gets how many clients were
 * written, at most `capacity`. Errors: SHMT_E_NOMEM. */
int shmt_inspector_count(shmt_inspector* o, shmt_session_view* session, shmt_client_view* clients,
                         uint32_t capacity, uint32_t* out_n);

typedef struct shmt_block_view {
  uint32_t block, slab, owner; /* owner: client number, 0 when the owner is gone */
  uint32_t is_file;            /* a memory file of its own */
  uint64_t generation, nbytes, capacity_bytes;
  uint32_t n_leases, n_holders; /* n_leases: of messages in pipes and sockets */
  uint32_t n_queued;           /* messages in queues that keep it */
  uint32_t is_queue;           /* it is a queue itself */
  uint64_t sent_ms;  /* since the last lease was taken; 0: there is none */
  uint64_t holds[72]; /* bit c: client c holds it */
  char site[56];     /* the end of "path:line" where it was made; "" unless that was traced */
} shmt_block_view;

/* Read the blocks in use, from number `first` on. Returns how many were written. *next: where to
 * continue; 0: that was all. */
uint32_t shmt_inspector_blocks(shmt_inspector* o, uint32_t first, shmt_block_view* out,
                              uint32_t capacity, uint32_t* next);
typedef struct shmt_queue_view {
  uint32_t block, owner; /* the block it lies in, and who made that */
  uint32_t n_messages;   /* in it now */
  uint32_t max_messages; /* 0: no bound */
  uint32_t n_put;        /* ever put, modulo 2^32 */
  uint32_t n_pending;    /* waiting in processes for room */
  uint32_t n_unacknowledged; /* taken, and not acknowledged yet */
  uint32_t n_dead_letters;   /* dropped: delivered in vain too often */
  uint64_t used_bytes, capacity_bytes;
  int is_bare; /* no queue: what topics, calls and events have inside */
} shmt_queue_view;

/* The queue, or a server's requests, in a block that `is_queue`. False: there is none any more, or the arena cannot be
 * read. */
int shmt_inspector_queue(shmt_inspector* o, uint32_t block, shmt_queue_view* out);

typedef struct shmt_name_view {
  uint64_t version, nbytes; /* the newest; bytes of all its storages */
  uint64_t generation;
  uint32_t block;           /* that describes it */
  uint32_t publisher;       /* client */
  int32_t pid;              /* of the publisher */
  uint32_t persists;        /* beyond its publisher */
  uint32_t kind;            /* as in shmt_service_entry */
  uint64_t published_ms;    /* time of day */
} shmt_name_view;

/* The value of a published name of the service. False: it has none, or the session has no names. */
int shmt_inspector_name(shmt_inspector* o, const char* name, shmt_name_view* out);
/* Read the first name with a value at index `first` of the table or behind. `name` has room for
 * 128 bytes. Returns where to continue; 0: there is none. */
uint32_t shmt_inspector_next_name(shmt_inspector* o, uint32_t first, shmt_name_view* out, char* name);
/* Read the blocks of its storages. Returns how many there are; at most `capacity` are written.
 * 0: the version is no longer current. */
uint32_t shmt_inspector_name_blocks(shmt_inspector* o, const shmt_name_view* name, uint32_t* out,
                                   uint32_t capacity);

typedef struct shmt_topic_view {
  uint32_t n_subscribers;
  uint32_t depth, history; /* messages that may wait for each subscriber, and that are kept */
  uint32_t overflow;       /* shmt__overflow */
  uint32_t lag;            /* the largest number of messages that wait for a subscriber; at most `depth` */
  uint64_t n_published;    /* ever */
  uint64_t n_lost;         /* messages that did not reach a subscriber, of all there ever were */
} shmt_topic_view;

/* The topic whose table is in this block: the second storage of a name of that kind. Subscribers that are gone do not
 * count. False: there is none any more, it is damaged, or the arena cannot be read. */
int shmt_inspector_topic(shmt_inspector* o, uint32_t block, shmt_topic_view* out);

#endif
