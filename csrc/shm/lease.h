/* shm/lease.h -- leases, which keep the blocks of messages that nobody has opened yet.
 *
 * Taking a lease: the client writes into its own entry which block it is touching, fills a record, counts the lease in
 * the block, and publishes the record's id. Ending a lease: take the id away, which only one process can do, and count
 * down. A process that is killed in between leaves a count without a record. The manager sets such counts right
 * (shm/lease_audit.c).
 *
 * Note [Pages of leases]
 * A client takes leases only in pages of records that it owns, so it needs no lock to find a free record. The process
 * that opens a message frees the record, in whatever page it lies. The pages of a dead client go to the next client
 * that needs one.
 */
#ifndef SHMT_SHM_LEASE_H
#define SHMT_SHM_LEASE_H

#include "os/descriptor.h"
#include "shm/control_file.h"

/* Where this client took its last lease. Each session has one; it starts as zeros. */
typedef struct shmt__lease_cursor {
  uint64_t last_id; /* 0: none yet */
  uint32_t page, index;
  bool has_page;
} shmt__lease_cursor;

/* What travels in a handle. */
typedef struct shmt__lease_ticket {
  uint64_t id;    /* 0: no lease */
  uint32_t slot; /* page * SHMT_LEASES_OF_PAGE + index */
} shmt__lease_ticket;

/* What a message was sent through, as a lease has it: the kind of channel and its number.
 * See Note [Channels] in ipc/handle/lease_channel.h. */
typedef enum shmt__channel_kind {
  SHMT_CHANNEL_UNKNOWN = 0,
  SHMT_CHANNEL_PIPE = 1,   /* inode of the pipe */
  SHMT_CHANNEL_SOCKET = 2, /* inode of the receiving end */
  SHMT_CHANNEL_LOCK = 3,   /* no message: the lease lives as long as a process locks this byte of the control file */
} shmt__channel_kind;
/* Flags of a lease's channel, see Note [Unsent messages] in ipc/handle/lease_channel.h. */
#define SHMT_CHANNEL_SENDING (UINT64_C(1) << 63) /* the message may not be written yet */
#define SHMT_CHANNEL_UNSENT (UINT64_C(1) << 62)  /* its sender died meanwhile; the manager sets it */
#define SHMT_CHANNEL_FLAGS (SHMT_CHANNEL_SENDING | SHMT_CHANNEL_UNSENT)
static inline uint64_t shmt__channel(shmt__channel_kind kind, uint64_t number) {
  return number << 2 | (uint64_t)kind;
}
static inline shmt__channel_kind shmt__channel_kind_of(uint64_t channel) {
  return (shmt__channel_kind)(channel & 3);
}
static inline uint64_t shmt__channel_number(uint64_t channel) { return channel >> 2; }
/* The message went through several channels, or through one that cannot be watched. This stays so. */
#define SHMT_CHANNEL_OPEN (UINT64_C(1) << 2 | SHMT_CHANNEL_UNKNOWN)

/* Take a lease on a block that the client holds. channel: 0 while it is not known. Records get their pages through
 * control. Errors: SHMT_E_NOMEM (all records are in use, or memory is out). */
shmt_status shmt__lease_take(const shmt__map* m, const shmt__descriptor* control, shmt__lease_cursor* cursor,
                             uint32_t client, uint32_t block, uint64_t generation,
                             uint64_t channel, shmt__lease_ticket* out);
/* Note that the message is about to go through this channel, with SHMT_CHANNEL_SENDING if shmt__lease_confirm will be
 * called. When it goes through several, the lease is not tied to any. False: the lease is not the client's own, or has
 * ended. */
bool shmt__lease_bind(const shmt__map* m, const shmt__lease_ticket* t, uint32_t client,
                      uint64_t channel);
/* The message was written. */
void shmt__lease_confirm(const shmt__map* m, const shmt__lease_ticket* t, uint32_t client);
/* End a lease. False: it has ended before. client: who ends it; 0: the manager. A block that only the lease kept stays
 * until somebody notes activity. */
bool shmt__lease_end(const shmt__map* m, const shmt__lease_ticket* t, uint32_t client);

/* Tie the leases that have one channel to another. */
void shmt__leases_move(const shmt__map* m, uint64_t from, uint64_t to);
/* End the leases that have this channel. client: who ends them. */
void shmt__leases_end_channel(const shmt__map* m, uint64_t channel, uint32_t client);

/* The slot of a record. */
uint32_t shmt__lease_slot(const shmt__map* m, const shmt__lease* l);

/* --- for the manager --- */

/* End the leases for which `ends` says so. Returns how many. */
uint64_t shmt__leases_end_if(const shmt__map* m, bool (*ends)(const shmt__lease* l, void* arg),
                             void* arg);
/* The client is dead: the messages that it was writing are unsent, and other clients may have its pages of records. */
void shmt__leases_client_died(const shmt__map* m, uint32_t client);
/* Correct the counts that dead clients have left wrong. False: a live client is changing one, try again later.
 * (lease_audit.c) */
bool shmt__leases_audit(const shmt__map* m);

#endif
