/* shm/lease.h -- what keeps the blocks of messages that nobody has opened yet.
 *
 * Taking a lease: tell in the client's entry which block is being touched, fill a record, count it in
 * the block, publish the record's id. Ending it: take the id away, which only one can, and count
 * down. A process killed in between leaves a count without a record; the manager sets such counts
 * right (shm/lease_audit.c).
 *
 * Note [Pages of leases]
 * A client takes leases only in pages that it owns, so it needs no lock to find a free record; who
 * opens a message frees its record in whosever page it lies. Pages of dead clients go to the next
 * who need one.
 */
#ifndef SHMT_SHM_LEASE_H
#define SHMT_SHM_LEASE_H

#include "shm/control_file.h"

/* Where this client took its last lease. One for each session, begun with zeros. */
typedef struct shmt__lease_cursor {
  uint64_t last_id; /* 0: none yet */
  uint32_t page, index;
  bool has_page;
} shmt__lease_cursor;

/* What travels in a handle. */
typedef struct shmt__lease_ticket {
  uint64_t id;    /* 0: no lease */
  uint32_t place; /* page * SHMT_LEASES_OF_PAGE + index */
} shmt__lease_ticket;

/* What a message was sent through, in a lease: where it can be read, and that place's number.
 * See Note [Channels] in ipc/handle/lease_channel.h. */
typedef enum shmt__channel_kind {
  SHMT_CHANNEL_UNKNOWN = 0,
  SHMT_CHANNEL_PIPE = 1,   /* inode of the pipe */
  SHMT_CHANNEL_SOCKET = 2, /* inode of the receiving end */
  SHMT_CHANNEL_LOCK = 3,   /* no message: a byte of the control file that a process has locked */
} shmt__channel_kind;
static inline uint64_t shmt__channel(shmt__channel_kind kind, uint64_t number) {
  return number << 2 | (uint64_t)kind;
}
static inline shmt__channel_kind shmt__channel_kind_of(uint64_t channel) {
  return (shmt__channel_kind)(channel & 3);
}
static inline uint64_t shmt__channel_number(uint64_t channel) { return channel >> 2; }
/* Through several, or something that cannot be watched: stays so. */
#define SHMT_CHANNEL_OPEN (UINT64_C(1) << 2 | SHMT_CHANNEL_UNKNOWN)

/* Take a lease on a block that the client holds. channel: 0 while it is not known.
 * control_fd gives the records their pages.
 * Errors: SHMT_E_NOMEM (all records are in use, or no memory for one). */
shmt_status shmt__lease_take(const shmt__map* m, int control_fd, shmt__lease_cursor* cursor,
                             uint32_t client, uint32_t block, uint64_t generation,
                             uint64_t channel, shmt__lease_ticket* out);
/* The message is about to go through this channel; one that goes through several is left alone.
 * Only leases of the client itself; false: it is none, or has ended. */
bool shmt__lease_bind(const shmt__map* m, const shmt__lease_ticket* t, uint32_t client,
                      uint64_t channel);
/* Use a lease up; false when it has ended before. client: who does it, 0: the manager. */
bool shmt__lease_end(const shmt__map* m, const shmt__lease_ticket* t, uint32_t client);

/* --- for the manager --- */

/* End the leases for which `ends` says so. Returns how many. */
uint64_t shmt__leases_end_if(const shmt__map* m, bool (*ends)(const shmt__lease* l, void* arg),
                             void* arg);
/* The client is gone: its pages are free for others. */
void shmt__leases_client_died(const shmt__map* m, uint32_t client);
/* Set counts right that dead clients have left wrong; false: a live client is at it, try again
 * later. (lease_audit.c) */
bool shmt__leases_audit(const shmt__map* m);

#endif
