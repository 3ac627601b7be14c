/* ipc/call/call_layout.h -- calls with an answer: what a client and a server share.
 *
 * A server's name stands for a ring, as a queue's does, and several servers of one name get from the same ring. A
 * client has a *line*: a bare ring for replies, with a word for each call that is under way between its header and its
 * messages. A request is a message of the server's ring with SHMT_RING_CALL in its flags, the call's serial number
 * above them, and the line as its last storage. A reply is a message of the line with the serial number.
 *
 * Note [Words of calls]
 * The word of a call says how far it is. The client writes QUEUED before it puts the request. A server makes that TAKEN
 * by itself, under get_lock, before the request leaves the ring. So a request is never in no one's hands: whoever is
 * killed before has not taken it, and whoever is killed later is named in the word. The client makes the word GIVEN_UP
 * when it stops waiting: a server that sees this does not take the request, or need not finish it. Who waits on another
 * thread sees it, too, and that no reply will come.
 *
 * Calls whose numbers differ by SHMT_CALL_WORDS have one word in turn, and a thread may still try to put a request that
 * was given up. So a later call takes the word from an earlier one, and never the other way round.
 *
 * A server holds the line as long as it has the request, and takes its name out of the word when it lets go of it. So a
 * client that finds no reply, the word TAKEN, and no hold of the taker on the line knows that the reply will not come:
 * the manager has cleared the holds of a dead process. It reads the replies once more after that, since a server puts
 * its reply before it lets go. In the same way a server sees by the client's hold whether the client lives. A process
 * that gets the number of a dead one may hold the line too, and is told apart (shmt__client_member).
 */
#ifndef SHMT_IPC_CALL_CALL_LAYOUT_H
#define SHMT_IPC_CALL_CALL_LAYOUT_H

#include "ipc/ring/message_layout.h"

enum {
  SHMT_CALL_WORDS = (SHMT_RING_LINE_DATA - SHMT_RING_BARE_DATA) / 8, /* calls under way on one line, at most */
  SHMT_CALL_INLINE = 256, /* most data of a reply; longer data goes into a block of its own */
  SHMT_CALL_SERIALS = 1 << 24,
};

typedef enum shmt__call_state {
  SHMT_CALL_NONE = 0,
  SHMT_CALL_QUEUED = 1,
  SHMT_CALL_TAKEN = 2,
  SHMT_CALL_GIVEN_UP = 3,
} shmt__call_state;

/* A word of a call: its serial number, the server that took it (as shmt__client_member says it), and the state. */
static inline uint64_t shmt__call_word(uint32_t serial, uint32_t taker, shmt__call_state state) {
  return (uint64_t)(serial % SHMT_CALL_SERIALS) << 40 | (uint64_t)taker << 2 | (uint64_t)state;
}
static inline uint32_t shmt__call_serial(uint64_t word) { return (uint32_t)(word >> 40); }
static inline uint32_t shmt__call_taker(uint64_t word) { return (uint32_t)(word >> 2); }
static inline shmt__call_state shmt__call_state_of(uint64_t word) { return (shmt__call_state)(word & 3); }

/* The serial number of a request or reply is above the other flags of its message. */
enum { SHMT_CALL_SERIAL_SHIFT = 8 };
static inline uint32_t shmt__call_flags(uint32_t serial) { return serial << SHMT_CALL_SERIAL_SHIFT; }
static inline uint32_t shmt__call_serial_of(uint32_t flags) { return flags >> SHMT_CALL_SERIAL_SHIFT; }

/* The words of a line. */
static inline atomic_uint_least64_t* shmt__call_word_at(shmt__ring_header* line, uint32_t serial) {
  return (atomic_uint_least64_t*)((char*)line + SHMT_RING_BARE_DATA) + serial % SHMT_CALL_WORDS;
}

#endif
