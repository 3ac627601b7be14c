/* acks.pml -- messages that are acknowledged, and their moves between two rings (csrc/ipc/ring/unacknowledged.c,
 * unacked_messages.c): a model for Spin.
 *
 * One step is one atomic operation of the C on shared memory; a process may be killed before each (`OR_DIES`). Comments name the functions of the C. `point: x` is a fail point of csrc/spec/failpoints.yaml that stands
 * between the same two steps.
 *
 * The queue has MESSAGES messages, each with a block of its own. Clients 1 and 2 get them with an acknowledgement, and
 * acknowledge them or let them go; client 3 gets without, and looks for dead takers when the others are gone. With
 * COMPACT, the ring of unacknowledged messages (u) is compacted each time a message is acknowledged. The audit of ring
 * leases has its steps in ring.pml, and is one here.
 *
 * Properties
 *   once      after whoever has all locks has repaired the rings, each message is in the queue, or in u, or
 *             acknowledged, or was taken without an acknowledgement: one of these, and once (`repaired`)
 *   delivery  a taker that lives finds its message when it acknowledges it
 *   counted   the acknowledged messages are counted, each once
 *   leases    a message in either ring has a lease on its block; when nothing moves any more there are no others
 */
#ifndef MESSAGES
#define MESSAGES 1
#endif
#ifndef OPS
#define OPS 2 /* deliveries to clients 1 and 2 together */
#endif
#ifndef GETS
#define GETS 0 /* gets of client 3 */
#endif
#ifndef KILLS
#define KILLS 1
#endif
#define DEAD 15
#define ROOM 4        /* of u, and of the queue before and behind its first message */
#define BACK 128      /* in moving_id */
#define NONE 0
#define PREPARED 1
#define LIVE 2
#define RELEASED 3
#define COUNTING 4
#define MOVED 5
#define GONE 6

/* --- shared memory --- */

byte q[2 * ROOM], q_head = ROOM, q_tail; /* the messages' numbers, from 1 */
typedef entry { byte message, id, state, becomes, owner; bool has_block }
entry u[ROOM]; byte u_head, u_tail;      /* circular; the counts grow */
byte put_lock, get_lock, u_lock;
bool is_dirty, stale;
byte moving, moving_id, moved_id, last_id, n_acked, acked_id;
byte n_leases[MESSAGES + 1];
bool rings_stale;

/* --- what is not memory --- */

bool is_dead[4], is_seen[4], is_ended[4];
bool is_acked[MESSAGES + 1], is_taken[MESSAGES + 1]; /* acknowledged; taken by client 3 */
byte ops_left = OPS, gets_left = GETS, kills_left = KILLS;
#define OR_DIES :: atomic { me != 3 && kills_left > 0 -> kills_left--; goto killed } /* client 3 is the one that is left */
#define U(i) u[(i) % ROOM]
#define IS_THERE(i) (U(i).state == LIVE || U(i).state == RELEASED)
#define MARK(i, s) U(i).state = s
#define IS_TAKABLE(lock) (lock == 0 || lock == DEAD)

inline take(lock) {
  if
  :: atomic { IS_TAKABLE(lock) -> lock = me }
  OR_DIES
  fi
}
inline release(lock) {
  if
  :: atomic { if :: lock == me -> lock = 0 :: else fi }
  OR_DIES
  fi
}

/* shmt__ring_settle_move */
inline settle() {
  if
  :: atomic { moving != 0 && q_head == moving - 1 -> moved_id = moving_id }
  :: atomic { moving == 0 || q_head != moving - 1 -> skip }
  OR_DIES
  fi;
  if
  :: moving = 0
  OR_DIES
  fi
}

/* free_blocks(): the entry names no block any more, then its lease ends. */
inline free_blocks(at) {
  if
  :: atomic { U(at).has_block -> U(at).has_block = false; frees = U(at).message } /* then point: ack_blocks_forgotten */
     if
     :: atomic { n_leases[frees]--; frees = 0 }
     OR_DIES
     fi
  :: !U(at).has_block
  OR_DIES
  fi
}
/* shmt__unacked_make_gone */
inline make_gone(at) {
  if
  :: MARK(at, GONE) /* then point: ack_gone */
  OR_DIES
  fi;
  free_blocks(at)
}
/* finish_counting() */
inline finish_counting(at) {
  if
#ifdef FAULT_COUNTED_AGAIN
  :: atomic { true -> n_acked++; acked_id = U(at).id }
#else
  :: atomic { acked_id != U(at).id -> n_acked++; acked_id = U(at).id } /* then point: ack_counted */
  :: atomic { acked_id == U(at).id -> skip }
#endif
  OR_DIES
  fi;
  make_gone(at)
}

/* is_copy() */
#define COPIED(i, j) ((j) >= u_head && (j) < (i) && U(j).id == U(i).id && U(j).state == MOVED)
#define IS_COPY(i) (COPIED(i, u_head) || COPIED(i, u_head + 1) || COPIED(i, u_head + 2))

/* shmt__unacked_repair, entry by entry; the caller has get_lock and u's lock */
inline repair() {
  i = u_head;
  do
  :: i < u_tail ->
     if
     :: U(i).state == COUNTING -> finish_counting(i)
     :: atomic { U(i).state == PREPARED && (U(i).id == moved_id || IS_COPY(i)) -> MARK(i, U(i).becomes) }
#ifndef FAULT_PREPARED_MESSAGES_STAY
     :: (U(i).state == PREPARED && U(i).id != moved_id && !IS_COPY(i)) ||
#else
     :: atomic { U(i).state == PREPARED && U(i).id != moved_id && !IS_COPY(i) -> MARK(i, U(i).becomes) }
     ::
#endif
        (IS_THERE(i) && moved_id == (U(i).id | BACK)) -> make_gone(i)
     :: else
     OR_DIES
     fi;
     i++
  :: i == u_tail -> break
  od;
  i = 0;
  if
  :: moved_id = 0
  OR_DIES
  fi
}
/* Nobody else is between two steps: those who have no lock change nothing, and the rings are in order. */
#define IN_U(i, m) (((i) < u_tail) && U(i).message == (m) && IS_THERE(i))
#define N_IN_U(m) (IN_U(u_head, m) + IN_U(u_head + 1, m) + IN_U(u_head + 2, m) + IN_U(u_head + 3, m))
#define IN_Q(i, m) ((i) < q_tail && q[i] == (m))
#define N_IN_Q(m) (IN_Q(q_head, m) + IN_Q(q_head + 1, m))
#define N_OF(m) (N_IN_U(m) + N_IN_Q(m) + is_acked[m] + is_taken[m])
#define NAMES(i, m) ((i) < u_tail && U(i).message == (m) && U(i).has_block)
#define N_LEASED(m) (NAMES(u_head, m) + NAMES(u_head + 1, m) + NAMES(u_head + 2, m) + NAMES(u_head + 3, m) + N_IN_Q(m))
inline repaired() {
  atomic { assert(N_OF(1) == 1); assert(N_OF(MESSAGES) == 1); assert(n_acked == is_acked[1] + (MESSAGES == 2 -> is_acked[MESSAGES] : 0)) } /* once, counted */
}
/* begin() */
inline begin() {
  if
  :: atomic { was_dirty = is_dirty; is_dirty = true }
  OR_DIES
  fi;
  settle();
#ifdef FAULT_MOVES_ARE_NOT_SETTLED
  moved_id = 0;
#endif
  if
  :: was_dirty || moved_id != 0 -> repair()
  :: else
  fi;
  was_dirty = false;
  repaired()
}
inline lock_all(puts) {
  if
  :: puts -> take(put_lock)
  :: else
  fi;
  take(get_lock);
  take(u_lock);
  begin()
}
inline unlock_all(puts) {
  if
  :: is_dirty = false
  OR_DIES
  fi;
  release(u_lock);
  release(get_lock);
  if
  :: puts -> release(put_lock)
  :: else
  fi
}

/* shmt__unacked_trim: at the head, what is gone; with COMPACT also what is there, by a copy (copy_to_tail()) */
inline trim() {
  stop = u_tail;
  do
  :: atomic { u_head < stop && !IS_THERE(u_head) -> skip }
     free_blocks(u_head);
     if
     :: u_head++ /* then point: ack_trimmed */
     OR_DIES
     fi
#ifdef COMPACT
  :: atomic { u_head < stop && IS_THERE(u_head) && u_tail + 1 < stop + 2 && u_tail - u_head < ROOM && stop - u_head > 1 -> skip }
     if
     :: n_leases[U(u_head).message]++
     OR_DIES
     fi;
     atomic {
       U(u_tail).message = U(u_head).message; U(u_tail).id = U(u_head).id; U(u_tail).owner = U(u_head).owner;
       U(u_tail).becomes = U(u_head).state; U(u_tail).state = PREPARED; U(u_tail).has_block = true
     };
     if
     :: u_tail++ /* then point: ack_copied */
     OR_DIES
     fi;
#ifdef FAULT_COPY_IS_VALID_FIRST
     if
     :: MARK(u_tail - 1, U(u_tail - 1).becomes)
     OR_DIES
     fi;
#endif
     if
     :: MARK(u_head, MOVED) /* then point: ack_moved */
     OR_DIES
     fi;
     if
     :: MARK(u_tail - 1, U(u_tail - 1).becomes)
     OR_DIES
     fi;
     free_blocks(u_head);
     if
     :: u_head++
     OR_DIES
     fi
  :: atomic { u_head == stop || (IS_THERE(u_head) && !(u_tail + 1 < stop + 2 && u_tail - u_head < ROOM && stop - u_head > 1)) -> break }
#else
  :: atomic { u_head == stop || IS_THERE(u_head) -> break }
#endif
  od;
  stop = 0
}

/* deliver_locked(): prepare(), move_to_unacked() */
inline deliver() {
  lock_all(false);
  trim();
  if
  :: atomic { q_head < q_tail && u_tail - u_head < ROOM ->
       last_id++; id = last_id; message = q[q_head];
       U(u_tail).message = message; U(u_tail).id = id; U(u_tail).owner = me;
       U(u_tail).becomes = LIVE; U(u_tail).state = PREPARED; U(u_tail).has_block = true
     }
     if
     :: n_leases[message]++
     OR_DIES
     fi;
     if
     :: u_tail++ /* then point: ack_prepared */
     OR_DIES
     fi;
#ifdef FAULT_LIVE_BEFORE_IT_HAS_MOVED
     if
     :: MARK(u_tail - 1, LIVE)
     OR_DIES
     fi;
#endif
#ifndef FAULT_MOVE_IS_NOT_ANNOUNCED
     if
     :: moving_id = id
     OR_DIES
     fi;
     if
     :: moving = q_head + 2 /* then point: ack_taking */
     OR_DIES
     fi;
#endif
     if
     :: q_head++ /* then point: ack_taken */
     OR_DIES
     fi;
     if
     :: MARK(u_tail - 1, LIVE)
     OR_DIES
     fi;
     if
     :: moving = 0
     OR_DIES
     fi;
     if
     :: n_leases[message]-- /* then point: ack_leases_ended */
     OR_DIES
     fi
  :: atomic { q_head == q_tail || u_tail - u_head == ROOM -> skip }
  OR_DIES
  fi;
  unlock_all(false)
}

/* find() */
#define IS_OURS(i) ((i) < u_tail && U(i).id == id && IS_THERE(i))
inline find() {
  atomic {
    at = 255;
    if :: IS_OURS(u_head) -> at = u_head :: else fi;
    if :: IS_OURS(u_head + 1) -> at = u_head + 1 :: else fi;
    if :: IS_OURS(u_head + 2) -> at = u_head + 2 :: else fi;
    if :: IS_OURS(u_head + 3) -> at = u_head + 3 :: else fi;
    assert(at != 255) /* delivery */
  }
}
/* shmt__ring_acknowledge */
inline acknowledge() {
  take(u_lock);
  do
  :: atomic { is_dirty -> skip } /* somebody was killed in the middle */
#ifdef FAULT_ACKNOWLEDGED_WITHOUT_REPAIR
     break;
#endif
     release(u_lock);
     lock_all(false);
     unlock_all(false);
     take(u_lock)
  :: atomic { !is_dirty -> break }
  od;
  if
  :: is_dirty = true
  OR_DIES
  fi;
  find();
  if /* shmt__unacked_finish */
  :: atomic { MARK(at, COUNTING); is_acked[message] = true } /* then point: ack_counting */
  OR_DIES
  fi;
  finish_counting(at);
  trim();
  if
  :: is_dirty = false
  OR_DIES
  fi;
  release(u_lock)
}
/* give_back(), put_before_head(), of entry `at`; the caller has all locks */
inline give_back() {
  if
  :: n_leases[U(at).message]++
  OR_DIES
  fi;
  q[q_head - 1] = U(at).message;
  if
  :: moving_id = U(at).id | BACK
  OR_DIES
  fi;
  if
  :: moving = q_head /* the new head, plus 1; then point: ack_returning */
  OR_DIES
  fi;
#ifdef FAULT_GONE_BEFORE_IT_HAS_MOVED
  make_gone(at);
#endif
  if
  :: q_head-- /* then point: ack_returned */
  OR_DIES
  fi;
#ifndef FAULT_GONE_BEFORE_IT_HAS_MOVED
  make_gone(at);
#endif
  if
  :: moving = 0
  OR_DIES
  fi
}

proctype taker(byte me) {
  byte id, message, at, i, stop, frees;
  bool was_dirty;
  do
  :: atomic { ops_left > 0 && q_head < q_tail -> ops_left-- }
     deliver();
     if
     :: id != 0 ->
        if
        :: true -> acknowledge()
        :: true -> /* shmt__ring_let_go */
           lock_all(true);
           find();
           give_back();
           trim();
           unlock_all(true)
        :: true /* it keeps the message */
        fi
     :: id == 0
     fi;
     atomic { id = 0; message = 0; at = 0 }
  :: true -> break
  OR_DIES
  od;
  goto over;
killed:
  is_dead[me] = true;
over:
  atomic { is_ended[me] = true; id = 0; message = 0; at = 0; i = 0; stop = 0; was_dirty = false; frees = 0 }
}

#define IS_LEFT(i) ((i) < u_tail && (U(i).state == RELEASED || (U(i).state == LIVE && is_dead[U(i).owner])))
/* Gets without an acknowledgement, and looks after the dead when the manager says so. */
proctype looker(byte me) {
  byte id, message, at, i, stop, frees;
  bool was_dirty;
end:
  do
  :: atomic { gets_left > 0 && q_head < q_tail -> gets_left-- } /* take_locked() */
     take(get_lock);
     settle();
     if
     :: atomic { q_head < q_tail -> message = q[q_head]; q_head++; is_taken[message] = true }
        if
        :: atomic { n_leases[message]--; message = 0 }
        OR_DIES
        fi
     :: atomic { q_head == q_tail -> skip }
     OR_DIES
     fi;
     release(get_lock)
  :: atomic { stale && IS_TAKABLE(put_lock) && IS_TAKABLE(get_lock) && IS_TAKABLE(u_lock) -> skip } /* recover() */
     lock_all(true);
     stale = false;
     do /* give_left_back(): the last one first */
     :: atomic { IS_LEFT(u_head + 3) -> at = u_head + 3 } give_back()
     :: atomic { !IS_LEFT(u_head + 3) && IS_LEFT(u_head + 2) -> at = u_head + 2 } give_back()
     :: atomic { !IS_LEFT(u_head + 3) && !IS_LEFT(u_head + 2) && IS_LEFT(u_head + 1) -> at = u_head + 1 } give_back()
     :: atomic { !IS_LEFT(u_head + 3) && !IS_LEFT(u_head + 2) && !IS_LEFT(u_head + 1) && IS_LEFT(u_head) -> at = u_head } give_back()
     :: atomic { !IS_LEFT(u_head + 3) && !IS_LEFT(u_head + 2) && !IS_LEFT(u_head + 1) && !IS_LEFT(u_head) -> break }
     od;
     at = 0;
     trim();
     unlock_all(true)
  :: atomic {
       is_ended[1] && is_ended[2] && (!is_dead[1] || is_seen[1]) && (!is_dead[2] || is_seen[2]) && !stale && !rings_stale &&
       put_lock == 0 && get_lock == 0 && u_lock == 0 && moving == 0 && gets_left == 0 ->
       assert(n_leases[1] == N_LEASED(1) && n_leases[MESSAGES] == N_LEASED(MESSAGES)); /* leases */
       break
     }
  od;
killed:
  skip
}

/* --- the manager --- */

#define IS_UNSEEN(c) (is_dead[c] && !is_seen[c])
#define MARK_DEAD(lock) if :: lock == c -> lock = DEAD :: else fi
/* shmt__rings_client_died */
inline client_died(c) {
  atomic { MARK_DEAD(put_lock); MARK_DEAD(get_lock) };
  atomic { MARK_DEAD(u_lock) };
  stale = true;
  atomic { rings_stale = true; is_seen[c] = true }
}

active proctype manager() {
  atomic {
    q[ROOM] = 1; q[ROOM + 1] = MESSAGES; q_tail = ROOM + MESSAGES;
    n_leases[1] = 1; n_leases[MESSAGES] = 1;
    run taker(1); run taker(2); run looker(3)
  }
end:
  do
  :: IS_UNSEEN(1) -> client_died(1)
  :: IS_UNSEEN(2) -> client_died(2)
  :: atomic {
       rings_stale && IS_TAKABLE(put_lock) && IS_TAKABLE(get_lock) && IS_TAKABLE(u_lock) -> rings_stale = false;
       assert(n_leases[1] >= N_LEASED(1) && n_leases[MESSAGES] >= N_LEASED(MESSAGES)); /* leases */
       n_leases[1] = N_LEASED(1); n_leases[MESSAGES] = N_LEASED(MESSAGES)
     }
  od
}
