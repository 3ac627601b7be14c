/* shm/client.h -- client numbers: who has one, and whether it lives. See Note [Client locks] and
 * Note [Claims] in shm/control_file.h. */
#ifndef SHMT_SHM_CLIENT_H
#define SHMT_SHM_CLIENT_H

#include "shm/control_file.h"

/* Take a free number for a process, RESERVED from now on, by locking its byte on fd: a description of
 * the control file that is to become the process's own. False: all are taken. */
bool shmt__client_claim(const shmt__map* m, int fd, int32_t pid, uint32_t* out_id);
typedef enum shmt__claim {
  SHMT_CLAIM_MADE,
  SHMT_CLAIM_TAKEN,   /* somebody has it */
  SHMT_CLAIM_NO_ROOM, /* no memory for the holds of so high a number */
} shmt__claim;
/* Take this number. */
shmt__claim shmt__client_claim_one(const shmt__map* m, int fd, uint32_t id, int32_t pid);
/* The process behind a number is there. pid: as this process sees it; 0: it does not. */
void shmt__client_mark_alive(const shmt__map* m, uint32_t id, int32_t pid);
/* Does any description but that of fd have the number? In doubt it has. */
bool shmt__client_is_locked(int fd, uint32_t id);
/* Has the description of fd the number? Takes it if nobody has. */
bool shmt__client_owns_number(int fd, uint32_t id);
/* Give the far holds of the numbers in use pages, for the blocks in use. Errors: SHMT_E_NOMEM. */
shmt_status shmt__client_populate_holds(const shmt__map* m, int fd);

/* A claim of a process without a number: a byte of its own, locked on fd. The token tells it. */
bool shmt__token_claim(int fd, uint64_t* out_token);
bool shmt__token_is_locked(int fd, uint64_t token);

#endif
