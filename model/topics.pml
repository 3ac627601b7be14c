/* topics.pml -- publishing and subscribing (csrc/ipc/topic/): a model for Spin.
 *
 * One step is one atomic operation of the C on shared memory; a process may be killed, or stopped for ever, before each
 * (`OR_DIES`). Comments name the functions of the C. `point: x` is a fail point of csrc/spec/failpoints.yaml that stands
 * between the same two steps.
 *
 * Publishers 1 and 2, subscribers 3 and 4, rings for one message. Every message names one block. Subscriber 3 is there
 * from the beginning, 4 comes later and gets the history. With REUSE, publisher 5 gets the number of a subscriber that
 * has died. The topic drops the oldest message, or with BLOCK its publishers wait. The locks, the leases and the audit
 * of rings have their steps in ring.pml: here a message is put or taken in one step, and an audit is one.
 *
 * Properties
 *   order     a subscriber gets messages in the order in which they were published, none twice
 *   counted   of the messages whose publisher returned, a live subscriber misses no more than are counted as lost there;
 *             and each publisher that was killed counts one too many at most
 *   history   who subscribes after a publisher has returned has the newest message
 *   leases    each message has a lease; when nothing moves any more there are no others
 *   waiting   no publisher goes on waiting for a subscriber that is known to be dead
 *   locks     when nothing moves any more, no dead client owns a lock
 */
#ifndef PUBLISH
#define PUBLISH 2 /* messages of all publishers together */
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef STOPS
#define STOPS 0 /* processes that are stopped for ever */
#endif
#ifndef IDLE
#define IDLE 0 /* processes that do not run; bit p: process p */
#endif
#define DEAD 15
#define LAST 5
#define DONE 1
#define NO_ROOM 2
#define BUSY 3

/* --- shared memory: numbers, not processes, are all that it knows --- */

byte topic_lock; /* the put_lock of the log */
typedef slot_of { bool is_used; byte subscriber, n_claims }
slot_of slots[2];
bool is_made[2];
byte holds[2];             /* of a subscriber's ring, by number */
chan rings[2] = [1] of { byte };
chan log = [2] of { byte }; /* it keeps one */
byte put_lock[2], get_lock[2], n_lost[2], n_leases, n_claims[LAST + 1];
bool rings_stale, is_numbered[LAST + 1];

/* --- what is not memory --- */

bool is_dead[LAST + 1], is_ended[LAST + 1], is_stopped[LAST + 1];
byte number_of[LAST + 1], publish_left = PUBLISH, kills_left = KILLS, stops_left = STOPS;
byte last, returned; /* messages are 1, 2, ... in the order of the lock; bit m: its publisher has finished it */
byte got[2], expects[2], n_killed; /* of a subscriber: bits of messages; the publishers that were killed */
byte in_vain[LAST + 1]; /* how often a publisher began to wait for a subscriber that was known to be dead */
#define OR_DIES \
  :: atomic { kills_left > 0 -> kills_left--; goto killed } \
  :: atomic { stops_left > 0 -> stops_left--; is_stopped[who] = true; goto stopped }
#define HOLDS(r, n) ((holds[r] >> (n)) & 1)
#define IS_KNOWN_DEAD(p) (is_dead[p] && number_of[p] == 0)
#define IN_RING(r, m) (rings[r]??[eval(m)])
#define N_NAMED (len(rings[0]) * is_made[0] + len(rings[1]) * is_made[1] + len(log))
#define MISSES(r, m) ((expects[r] & returned & ~got[r] & (1 << (m))) && !IN_RING(r, m))
#define N_MISSED(r) (MISSES(r, 1) + MISSES(r, 2) + MISSES(r, 3))

/* shmt__ring_lock; the caller's deadline passes when the owner is stopped. */
#define IS_TAKABLE(lock) (lock == 0 || lock == DEAD)
inline lock_topic() {
  if
  :: atomic { IS_TAKABLE(topic_lock) -> topic_lock = me }
  :: atomic { !IS_TAKABLE(topic_lock) && (is_stopped[1] || is_stopped[2] || is_stopped[3] || is_stopped[4]) -> goto stopped }
  OR_DIES
  fi
}
inline unlock_topic() {
  if
  :: atomic { if :: topic_lock == me -> topic_lock = 0 :: else fi }
  OR_DIES
  fi
}

/* --- publishers --- */

/* is_abandoned() */
#ifdef FAULT_NUMBERS_ARE_PROCESSES
#define IS_SUBSCRIBER(r) (slots[r].subscriber == me)
#define SUBSCRIBER_HOLDS(r) HOLDS(r, slots[r].subscriber)
#else
#define IS_SUBSCRIBER(r) (slots[r].subscriber == me && slots[r].n_claims == n_claims[me])
#define SUBSCRIBER_HOLDS(r) (HOLDS(r, slots[r].subscriber) && slots[r].n_claims == n_claims[slots[r].subscriber])
#endif
#define IS_ABANDONED(r) (!IS_SUBSCRIBER(r) && (holds[r] & ~(1 << me)) == 0)

/* shmt__topic_open_slot */
inline open_slot() {
  is_open = false;
  if
  :: atomic { !slots[r].is_used -> skip }
  :: atomic { slots[r].is_used && !is_made[r] -> slots[r].is_used = false }
  :: atomic { slots[r].is_used && is_made[r] -> holds[r] = holds[r] | (1 << me) }
     if
     :: atomic { IS_ABANDONED(r) -> skip }
        if
        :: slots[r].is_used = false
        OR_DIES
        fi;
        close_slot()
     :: atomic { !IS_ABANDONED(r) -> is_open = true }
     OR_DIES
     fi
  OR_DIES
  fi
}
inline close_slot() {
  if
  :: holds[r] = holds[r] & ~(1 << me)
  OR_DIES
  fi
}

/* shmt__ring_put, of message m */
inline put() {
  if
  :: atomic { IS_TAKABLE(put_lock[r]) -> put_lock[r] = me; result = DONE }
  :: atomic { !IS_TAKABLE(put_lock[r]) -> result = BUSY }
  OR_DIES
  fi;
  if
  :: atomic { result == DONE && nfull(rings[r]) -> n_leases++ }
     if
     :: rings[r]!m
     OR_DIES
     fi;
     if
     :: put_lock[r] = 0
     OR_DIES
     fi
  :: atomic { result == DONE && full(rings[r]) -> put_lock[r] = 0; result = NO_ROOM }
  :: result == BUSY
  OR_DIES
  fi
}
inline count_lost() {
  if
  :: n_lost[r]++ /* then point: topic_counted */
  OR_DIES
  fi
}
/* shmt__topic_deliver */
inline deliver() {
  do
  :: true ->
     put();
     if
     :: result == DONE -> break
     :: result != DONE
     fi;
#ifdef BLOCK
     count_lost();
     break;
#else
     if
     :: result == NO_ROOM ->
#ifndef FAULT_COUNTED_AFTER_IT_IS_DROPPED
        count_lost();
#endif
        if /* shmt__ring_drop */
        :: atomic { IS_TAKABLE(get_lock[r]) -> get_lock[r] = me }
        :: atomic { !IS_TAKABLE(get_lock[r]) -> result = BUSY } /* a subscriber that is stopped, or was killed just now */
        OR_DIES
        fi;
#ifdef FAULT_COUNTED_AFTER_IT_IS_DROPPED
        if
        :: result == BUSY -> count_lost()
        :: else
        fi;
#endif
        if
        :: result == BUSY -> break
        :: atomic { result != BUSY && nempty(rings[r]) -> rings[r]?dropped; dropped = 0 } /* then point: ring_dropped */
           if
           :: n_leases--
           OR_DIES
           fi
#ifdef FAULT_COUNTED_AFTER_IT_IS_DROPPED
           ; count_lost()
#endif
        :: atomic { result != BUSY && empty(rings[r]) -> skip }
#ifndef FAULT_COUNTED_AFTER_IT_IS_DROPPED
           if
           :: n_lost[r]-- /* the subscriber has taken it meanwhile */
           OR_DIES
           fi
#endif
        OR_DIES
        fi;
        if
        :: get_lock[r] = 0
        OR_DIES
        fi
     :: result == BUSY ->
#ifndef FAULT_BUSY_IS_NOT_COUNTED
        count_lost();
#endif
        break
     fi
#endif
  od;
  result = 0
}
/* `log` is the ring of the history, `past`. Whoever changes it has the topic's lock, so its own locks are free. */
inline drop_from_log() {
  if
  :: log?dropped
  OR_DIES
  fi;
  dropped = 0;
  if
  :: n_leases--
  OR_DIES
  fi
}
inline put_into_log() {
  if
  :: n_leases++
  OR_DIES
  fi;
  if
  :: log!m
  OR_DIES
  fi
}
/* keep(), shmt__topic_trim_past */
inline keep() {
#ifdef FAULT_HISTORY_IS_DROPPED_FIRST
  if
  :: nempty(log) -> drop_from_log()
  :: empty(log)
  fi;
  put_into_log()
#else
  if
  :: full(log) -> drop_from_log()
  :: nfull(log)
  fi;
  put_into_log();
  if
  :: full(log) -> drop_from_log()
  :: nfull(log)
  fi
#endif
}

proctype publisher(byte who) {
  byte me = who, m, r, dropped, result;
  bool is_full, is_held, is_open;
  if
  :: who == 5 -> /* a process that joins when a number is free */
end_waiting:
     if
     :: atomic { is_dead[3] && !is_numbered[3] -> me = 3; is_numbered[3] = true; n_claims[3]++; number_of[5] = 3; is_ended[5] = false }
     fi
  :: who != 5
  fi;
next_message:
  skip;
  if
  :: atomic { publish_left > 0 -> publish_left-- }
  :: atomic { publish_left == 0 -> goto stopped }
  fi;
again:
  skip;
  lock_topic();
#ifdef BLOCK
  /* find_full() */
  r = 0;
  do
  :: r < 2 ->
     open_slot();
     if
     :: atomic { is_open && full(rings[r]) -> is_full = true; break }
     :: atomic { is_open && nfull(rings[r]) -> skip }
        close_slot()
     :: !is_open
     OR_DIES
     fi;
     r++
  :: r == 2 -> break
  od;
  if
  :: is_full ->
     atomic {
#ifdef FAULT_WAITERS_HOLD_THE_RING
       is_held = true;
#else
       is_held = SUBSCRIBER_HOLDS(r);
#endif
       if :: is_dead[3 + r] && !HOLDS(r, 3 + r) || (n_claims[3 + r] > 1) -> in_vain[who]++ :: else fi;
       assert(in_vain[who] < 3) /* waiting */
     };
     unlock_topic();
     if
     :: !is_held -> close_slot()
     :: is_held
     fi;
     if /* wait_for_room(): until there is room, or for a slice */
     :: atomic { nfull(rings[r]) || !is_made[r] -> skip }
     :: atomic { IS_KNOWN_DEAD(3 + r) -> skip }
     :: atomic { is_ended[3 + r] -> goto give_up } /* it will never read: the deadline of the caller */
     OR_DIES
     fi;
     if
     :: is_held -> close_slot()
     :: !is_held
     fi;
     is_full = false; is_held = false;
     goto again;
give_up:
     skip; close_slot();
     goto stopped
  :: !is_full
  fi;
#endif
  /* publish_locked() */
  atomic { last++; m = last };
  keep();
  r = 0;
  do
  :: r < 2 ->
     open_slot();
     if
     :: is_open -> deliver(); close_slot() /* then point: topic_delivered */
     :: !is_open
     fi;
     r++
  :: r == 2 -> break
  od;
  atomic { returned = returned | (1 << m); m = 0; r = 0 };
  unlock_topic();
  goto next_message;
killed:
  atomic { is_dead[who] = true; n_killed++; is_ended[who] = true };
stopped:
  is_ended[who] = true
}

/* --- subscribers --- */

proctype reader(byte who) {
  byte me = who, r = who - 3, m, dropped;
  if
  :: who == 4 -> /* shmt__topic_subscribe; 3 has done so */
     atomic { is_made[r] = true; holds[r] = 1 << me };
     lock_topic();
     atomic { expects[r] = 255 << (last + 1) };
     if /* replay() */
     :: full(log) -> drop_from_log()
     :: nfull(log)
     fi;
     if
     :: atomic { nempty(log) -> n_leases++ }
        if
        :: log?<m>;
           atomic {
             rings[r]!m; expects[r] = expects[r] | (1 << m);
             assert((returned >> (m + 1)) == 0); /* history */
             m = 0
           }
        OR_DIES
        fi
     :: atomic { empty(log) -> skip }
     OR_DIES
     fi;
     assert(returned == 0 || nempty(rings[r])); /* history */
     if
     :: atomic { slots[r].subscriber = me; slots[r].n_claims = n_claims[me] } /* then point: topic_slot_filled */
     OR_DIES
     fi;
     if
     :: slots[r].is_used = true
     OR_DIES
     fi;
     unlock_topic()
  :: who != 4
  fi;
  do /* shmt__ring_get */
  :: nempty(rings[r]) ->
     if
     :: atomic { IS_TAKABLE(get_lock[r]) -> get_lock[r] = me }
     OR_DIES
     fi;
     if
     :: atomic {
          nempty(rings[r]) -> rings[r]?m;
          assert((got[r] >> m) == 0); /* order */
          got[r] = got[r] | (1 << m); m = 0
        }
        if
        :: n_leases--
        OR_DIES
        fi
     :: atomic { empty(rings[r]) -> skip }
     OR_DIES
     fi;
     if
     :: atomic { if :: get_lock[r] == me -> get_lock[r] = 0 :: else fi }
     OR_DIES
     fi
  :: true -> break
  OR_DIES
  od;
  goto stopped;
killed:
  atomic { is_dead[who] = true; is_ended[who] = true };
stopped:
  is_ended[who] = true
}

/* --- the manager --- */

#define IS_UNSEEN(p) (is_dead[p] && number_of[p] != 0)
#define MARK_DEAD(lock) if :: lock == n -> lock = DEAD :: else fi
inline client_died(p) {
  n = number_of[p];
  atomic { MARK_DEAD(topic_lock) };
#ifndef FAULT_LOCKS_OF_THE_DEAD_STAY
  atomic { MARK_DEAD(put_lock[0]); MARK_DEAD(get_lock[0]) };
  atomic { MARK_DEAD(put_lock[1]); MARK_DEAD(get_lock[1]) };
#endif
  rings_stale = true;
  atomic { holds[0] = holds[0] & ~(1 << n); holds[1] = holds[1] & ~(1 << n) };
  assert(put_lock[0] != n && put_lock[1] != n && get_lock[0] != n && get_lock[1] != n); /* locks */
  atomic { is_numbered[n] = false; number_of[p] = 0; n = 0 }
}
/* shmt__arena_manager_sweep */
inline sweep(r) {
  is_made[r] = false;
#ifndef FAULT_FREED_RINGS_ARE_NOT_AUDITED
  rings_stale = true
#endif
}
#define IS_LOCKED(lock) (lock != 0 && lock != DEAD)
#define ANY_LOCKED (IS_LOCKED(topic_lock) || IS_LOCKED(put_lock[0]) || IS_LOCKED(put_lock[1]) || IS_LOCKED(get_lock[0]) || IS_LOCKED(get_lock[1]))
#define ALL_SEEN (!IS_UNSEEN(1) && !IS_UNSEEN(2) && !IS_UNSEEN(3) && !IS_UNSEEN(4) && !IS_UNSEEN(5))
#define IS_QUIET \
  (ALL_SEEN && is_ended[1] && is_ended[2] && is_ended[3] && is_ended[4] && is_ended[5] && !rings_stale && stops_left == STOPS && \
   !(is_made[0] && holds[0] == 0) && !(is_made[1] && holds[1] == 0))

active proctype manager() {
  byte n;
  atomic {
    is_ended[1] = true; is_ended[2] = true; is_ended[4] = true; is_ended[5] = true;
    number_of[1] = 1; number_of[2] = 2; number_of[3] = 3; number_of[4] = 4;
    n_claims[1] = 1; n_claims[2] = 1; n_claims[3] = 1; n_claims[4] = 1;
    is_numbered[3] = true; is_made[0] = true; holds[0] = 1 << 3;
    slots[0].is_used = true; slots[0].subscriber = 3; slots[0].n_claims = 1; expects[0] = 254;
    if :: !((IDLE >> 1) & 1) -> is_ended[1] = false; run publisher(1) :: else fi;
    if :: !((IDLE >> 2) & 1) -> is_ended[2] = false; run publisher(2) :: else fi;
    run reader(3);
    if :: !((IDLE >> 4) & 1) -> is_ended[4] = false; run reader(4) :: else fi;
#ifdef REUSE
    run publisher(5)
#endif
  }
end:
  do
  :: IS_UNSEEN(1) -> client_died(1)
  :: IS_UNSEEN(2) -> client_died(2)
  :: IS_UNSEEN(3) -> client_died(3)
  :: IS_UNSEEN(4) -> client_died(4)
  :: IS_UNSEEN(5) -> client_died(5)
  :: atomic { is_made[0] && holds[0] == 0 -> sweep(0) }
  :: atomic { is_made[1] && holds[1] == 0 -> sweep(1) }
  :: atomic { rings_stale && !ANY_LOCKED -> rings_stale = false; assert(n_leases >= N_NAMED); n_leases = N_NAMED } /* leases */
  :: atomic {
       IS_QUIET ->
       assert(n_leases == N_NAMED); /* leases */
       assert(!ANY_LOCKED); /* locks */
       assert(is_dead[3] || (N_MISSED(0) <= n_lost[0] && n_lost[0] <= N_MISSED(0) + n_killed)); /* counted */
       assert(is_dead[4] || !slots[1].is_used || (N_MISSED(1) <= n_lost[1] && n_lost[1] <= N_MISSED(1) + n_killed))
     }
  od
}
